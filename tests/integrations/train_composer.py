"""A tiny model that Composer trains: python -m tests.integrations.train_composer ROOT BATCHES [CHECKPOINT] …

Without a checkpoint to start from, Composer resumes by itself, from where its link leads. With ``--prune`` everything
but the last steps is pruned after each batch, while Composer's own rotation goes on. With KILL_AT set it dies in the
middle of that file.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
from composer import Callback, Logger, State, Trainer
from composer.models import ComposerClassifier
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.integrations.training import KILL_AT, dying_torch_save
from tests.runs import Guards, applied, run_of


class Pruning(Callback):
    """Another janitor in the house, who knows how many checkpoints Composer keeps itself."""

    def __init__(self, root: Path, last: int, keep: int) -> None:
        options = {"num_checkpoints_to_keep": keep}
        self.run = run_of(root, last=last, guards=Guards(in_flight=0), layout="composer", layout_options=options)
        self.state = root.parent / "pruning.db"

    def batch_end(self, state: State, logger: Logger) -> None:
        applied(self.run, self.state)


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("root", type=Path)
    words.add_argument("batches", type=int)
    words.add_argument("checkpoint", nargs="?")
    words.add_argument("--keep", type=int, default=-1)
    words.add_argument("--prune", type=int)
    given = words.parse_args()
    if os.environ.get(KILL_AT):
        torch.save = dying_torch_save(torch.save)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
    model = ComposerClassifier(nn.Linear(4, 2), num_classes=2)
    trainer = Trainer(
        model=model,
        optimizers=torch.optim.SGD(model.parameters(), lr=0.1),
        train_dataloader=DataLoader(data, batch_size=8),
        max_duration=f"{given.batches}ba",
        device="cpu",
        run_name="tiny",
        progress_bar=False,
        callbacks=[Pruning(given.root, given.prune, given.keep)] if given.prune else [],
        save_folder=str(given.root),
        save_interval="2ba",
        save_num_checkpoints_to_keep=given.keep,
        save_overwrite=given.checkpoint is not None,
        autoresume=given.checkpoint is None,
        load_path=given.checkpoint,
    )
    resumed = trainer.state.timestamp.batch.value
    trainer.fit()
    print(json.dumps({"resumed": resumed, "ended": trainer.state.timestamp.batch.value}))


if __name__ == "__main__":
    main()
