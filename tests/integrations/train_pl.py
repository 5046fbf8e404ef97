"""A tiny model trained by Lightning, with our callback: python -m tests.integrations.train_pl ROOT …"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy

from prune.integrations.background import Work
from prune.integrations.lightning import PruneCallback, PublishedCheckpointIO, published, resume_checkpoint
from tests.integrations.training import KILL_AT, dying_torch_save


class Tiny(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 64)

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        if self.global_step == int(os.environ.get("RAISE_AT", "-1")):
            raise RuntimeError("the training failed")
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Sharded(Tiny):
    """Its parts are spread over the processes, and each writes its own."""

    def configure_model(self) -> None:
        from torch.distributed.fsdp import fully_shard

        if not isinstance(self.layer, torch.distributed.fsdp.FSDPModule):
            fully_shard(self.layer, mesh=self.device_mesh["data_parallel"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--config")
    parser.add_argument("--mirror", action="append", default=[])
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--work", default="seal,mirror,prune")
    parser.add_argument("--top", type=int, default=-1)
    parser.add_argument("--plain", action="store_true", help="Lightning's own checkpoint IO")
    parser.add_argument("--last", action="store_true")
    parser.add_argument("--sharded", type=int, metavar="PROCESSES", help="a directory of shards for each step")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    if os.environ.get(KILL_AT):
        if given.plain and not given.sharded:
            import shutil

            move = shutil.move

            def dying_move(source: str, target: str, **more: object) -> object:
                """As it is between two file systems: a copy onto the final name, cut off."""
                if str(target).endswith(os.environ[KILL_AT]):
                    data = Path(source).read_bytes()
                    Path(target).write_bytes(data[: len(data) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                return move(source, target, **more)  # type: ignore[arg-type]

            shutil.move = dying_move  # type: ignore[assignment]
        else:
            torch.save = dying_torch_save(torch.save)
    pl.seed_everything(7, verbose=False)
    works = Work(**{name: name in given.work.split(",") for name in ("seal", "mirror", "prune")})
    pruning = PruneCallback(config=given.config, mirrors=given.mirror, work=works)
    saving = ModelCheckpoint(given.root, save_top_k=given.top, every_n_train_steps=2, save_last=given.last or None)
    strategy: Any = "auto"
    if given.sharded:
        strategy = ModelParallelStrategy(data_parallel_size=given.sharded, tensor_parallel_size=1)
        strategy = strategy if given.plain else published(strategy)
    trainer = pl.Trainer(
        max_steps=given.steps, callbacks=[saving, pruning], accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_model_summary=False, plugins=[] if given.plain else [PublishedCheckpointIO()], strategy=strategy,
        default_root_dir=given.root.parent, devices=given.sharded or "auto",
    )  # fmt: skip
    given.root.mkdir(exist_ok=True)
    found = resume_checkpoint(given.root, mirrors=given.mirror) if given.resume else None
    numbers = [torch.sin(torch.arange(8) * (index + 1.0)) for index in range(40 * (given.sharded or 1))]
    trainer.fit(
        Sharded() if given.sharded else Tiny(), torch.utils.data.DataLoader(numbers, batch_size=4), ckpt_path=found
    )
    if trainer.is_global_zero:
        tell(found, trainer, pruning)


def tell(found: str | None, trainer: pl.Trainer, pruning: PruneCallback) -> None:
    print(json.dumps({
        "resumed": found,
        "step": trainer.global_step,
        "failures": [[failure.work, failure.detail] for failure in pruning.failures],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
