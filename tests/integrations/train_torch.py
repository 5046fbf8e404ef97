"""A tiny model trained by hand: python -m tests.integrations.train_torch plain|dcp|accelerate ROOT …

With WORLD_SIZE set, one of several processes of a gloo group.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from prune.errors import NothingYet
from prune.integrations import torch as whole
from tests.integrations.training import KILL_AT, dying_torch_save


def is_first() -> bool:
    return os.environ.get("RANK", "0") == "0"


class Plain:
    """One file a step, written by the first process."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, root: Path) -> None:
        self.model, self.optimizer, self.root = model, optimizer, root

    def state(self, step: int) -> dict[str, Any]:
        return {"step": step, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def save(self, step: int) -> None:
        if is_first():
            whole.save(self.state(step), self.root / f"step_{step:04d}.pt", step=step)

    def resume(self, mirrors: list[str]) -> tuple[int, str | None]:
        try:
            state, found = whole.load_latest(self.root, mirrors=mirrors)
        except NothingYet:
            return 0, None
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return state["step"], found.path


class Dcp(Plain):
    """A directory a step, of which every process writes its part."""

    def state(self, step: int) -> dict[str, Any]:
        return {"step": torch.tensor(step), "model": self.model.state_dict()}

    def save(self, step: int) -> None:
        whole.dcp_save(self.state(step), self.root / f"step-{step}", step=step)

    def resume(self, mirrors: list[str]) -> tuple[int, str | None]:
        state = self.state(0)
        found = whole.dcp_load_latest(state, self.root, mirrors=mirrors)
        if found is None:
            return 0, None
        self.model.load_state_dict(state["model"])
        return int(state["step"]), found.path


class Accelerated(Plain):
    """A directory a step, by Accelerate's ``save_state``."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, root: Path) -> None:
        from accelerate import Accelerator

        self.accelerator = Accelerator(cpu=True)
        model, optimizer = self.accelerator.prepare(model, optimizer)
        super().__init__(model, optimizer, root)

    def save(self, step: int) -> None:
        whole.save_state(self.accelerator, self.root / f"checkpoint_{step}", step=step)

    def resume(self, mirrors: list[str]) -> tuple[int, str | None]:
        found = whole.resume_together(self.root, mirrors=mirrors)
        if found is None:
            return 0, None
        self.accelerator.load_state(found.path)
        return found.step, found.path


def dying_write(write: Any) -> Any:
    """The planner's write that ends this process in the middle of a save of shards."""

    def written(self: Any, *args: Any, **more: Any) -> Any:
        if f"step-{os.environ[KILL_AT]}" in str(self.path):
            os.kill(os.getpid(), signal.SIGKILL)
        return write(self, *args, **more)

    return written


def prepare_to_die(kind: str) -> None:
    if not os.environ.get(KILL_AT):
        return
    if kind != "prune":
        torch.save = dying_torch_save(torch.save)
    if kind == "dcp":
        from torch.distributed.checkpoint.filesystem import FileSystemWriter

        FileSystemWriter.finish = dying_write(FileSystemWriter.finish)
    if kind == "prune":
        from prune.stores.local import LocalRoot

        rename = LocalRoot.rename

        def renamed(self: Any, source: str, target: str, **more: Any) -> None:
            rename(self, source, target, **more)
            if source == os.environ[KILL_AT]:
                os.kill(os.getpid(), signal.SIGKILL)

        LocalRoot.rename = renamed  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["plain", "dcp", "accelerate", "prune"])
    parser.add_argument("root", type=Path)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--config")
    parser.add_argument("--mirror", action="append", default=[])
    parser.add_argument("--raise-at", type=int)
    given = parser.parse_args()
    prepare_to_die(given.kind)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and given.kind != "accelerate":
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Linear(8, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    kinds = {"plain": Plain, "prune": Plain, "dcp": Dcp, "accelerate": Accelerated}
    writer = kinds[given.kind](model, optimizer, given.root)
    start, found = writer.resume(given.mirror)
    failures: list[Any] = []
    with contextlib.ExitStack() as cleanup:
        background = None
        if given.config and is_first():
            background = cleanup.enter_context(whole.Background(config=given.config))
        for step in range(start + 1, given.steps + 1):
            optimizer.zero_grad()
            loss = writer.model(torch.sin(torch.arange(8) * float(step))).pow(2).mean()
            loss.backward()
            optimizer.step()
            if step % 2 == 0:
                writer.save(step)
                if background is not None:
                    background.saved(step)
                    if given.kind == "prune":
                        background.wait()
            if step == given.raise_at:
                raise RuntimeError("the training failed")
        if background is not None:
            background.finish()
            failures = [[failure.work, failure.detail] for failure in background.failures]
    if is_first():
        print(json.dumps({"resumed": found, "start": start, "failures": failures, "sum": sum(
            tensor.double().sum().item() for tensor in writer.model.state_dict().values())}))  # fmt: skip
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
        sys.stdout.flush()
        os._exit(0)  # gloo's threads may wait for one another when an interpreter is taken down


if __name__ == "__main__":
    main()
