"""A tiny model trained by the Hugging Face Trainer, with our callback: python -m tests.integrations.train_hf ROOT …"""

from __future__ import annotations

import argparse
import json
import logging
import os

import torch
from safetensors import torch as safetensors_torch
from torch import nn
from transformers import Trainer, TrainingArguments

from prune.integrations.background import Work
from prune.integrations.transformers import PruneCallback, resume_checkpoint
from tests.integrations.training import KILL_AT, die_in_the_middle_of, dying_torch_save


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 512), nn.Dropout(0.1), nn.Linear(512, 1))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        out = self.layers(x).squeeze(-1)
        return {"loss": (out - labels).pow(2).mean(), "logits": out}


class Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        x = torch.sin(torch.arange(8) * (index + 1.0))
        return {"x": x, "labels": x.sum()}


def dying_safetensors(save):  # type: ignore[no-untyped-def]
    def saved(tensors, path, *args, **more):  # type: ignore[no-untyped-def]
        die_in_the_middle_of(str(path), safetensors_torch.save(tensors))
        return save(tensors, path, *args, **more)

    return saved


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--config")
    parser.add_argument("--mirror", action="append", default=[])
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--work", default="seal,mirror,prune")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    if os.environ.get(KILL_AT):
        torch.save = dying_torch_save(torch.save)
        import transformers.modeling_utils
        import transformers.trainer

        for module in (safetensors_torch, transformers.trainer.safetensors.torch, transformers.modeling_utils):
            for name in ("save_file", "safe_save_file"):
                if hasattr(module, name):
                    setattr(module, name, dying_safetensors(getattr(module, name)))
    torch.manual_seed(0)
    arguments = TrainingArguments(
        given.root, max_steps=given.steps, save_steps=2, per_device_train_batch_size=4, logging_steps=2, report_to=[],
        seed=7, use_cpu=True, save_total_limit=given.limit, disable_tqdm=True, learning_rate=1e-3,
    )  # fmt: skip
    works = {name: name in given.work.split(",") for name in ("seal", "mirror", "prune")}
    callback = PruneCallback(config=given.config, mirrors=given.mirror, work=Work(**works))
    trainer = Trainer(Tiny(), arguments, train_dataset=Numbers(), callbacks=[callback])
    found = resume_checkpoint(given.root, mirrors=given.mirror) if given.resume else None
    trainer.train(resume_from_checkpoint=found)
    weights = {name: tensor.sum().item() for name, tensor in trainer.model.state_dict().items()}
    print(json.dumps({
        "resumed": found,
        "step": trainer.state.global_step,
        "weights": weights,
        "failures": [[failure.work, failure.detail] for failure in callback.failures],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
