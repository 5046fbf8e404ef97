"""Tiny trees of arrays saved by Orbax's own CheckpointManager: python -m tests.integrations.train_orbax ROOT …"""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint._src.path import atomicity

from tests.integrations.training import KILL_AT


def state(step: int) -> dict[str, Any]:
    """What is saved at this step: too much for Orbax to put it into its index, and each value tells the step."""
    weights = np.random.default_rng(0).normal(size=(64, 64)) + step
    return {"params": {"w": jnp.asarray(weights), "b": jnp.full(8, float(step))}, "step": jnp.array(step)}


def loss(metrics: dict[str, float]) -> float:
    return metrics["loss"]


def manager(root: Path, *, commit_file: bool = False, best: bool = False, **options: Any) -> ocp.CheckpointManager:
    if commit_file:
        options["temporary_path_class"] = atomicity.CommitFileTemporaryPath
    if best:
        options |= {"best_fn": loss, "best_mode": "min"}
    return ocp.CheckpointManager(root, options=ocp.CheckpointManagerOptions(**options))


def saved(step: int, *, items: bool) -> Any:
    """What ``save`` is given: one tree, or a tree and an item of JSON."""
    tree = ocp.args.StandardSave(state(step))
    return ocp.args.Composite(tree=tree, extra=ocp.args.JsonSave({"step": step})) if items else tree


def restored_items(keeper: ocp.CheckpointManager, step: int) -> int:
    """As :func:`restored`, where there is an item of JSON too."""
    wanted = ocp.args.Composite(tree=ocp.args.StandardRestore(state(0)), extra=ocp.args.JsonRestore())
    found = keeper.restore(step, args=wanted)
    assert found["extra"] == {"step": int(found["tree"]["step"])}
    return int(found["tree"]["step"])


def restored(keeper: ocp.CheckpointManager, step: int | None = None) -> int:
    """The step that a manager restores, its latest unless one is asked for, as all of its values tell it."""
    target = step if step is not None else keeper.latest_step()
    found = keeper.restore(target, args=ocp.args.StandardRestore(state(0)))
    expected = state(int(found["step"]))["params"]
    assert all(bool(jnp.allclose(found["params"][name], expected[name])) for name in expected)
    return int(found["step"])


def dying(call: Callable[..., Any], dies: Callable[..., bool]) -> Callable[..., Any]:
    """The same call, in which this process ends where it is the one to die in."""

    def called(*args: Any, **more: Any) -> Any:
        if dies(*args, **more):
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **more)

    return called


class Unlinks:
    """Counts the files of one step that are unlinked; true at the one to die in."""

    def __init__(self, step: str, most: int) -> None:
        self.step, self.left = step, most

    def __call__(self, path: Any, *, dir_fd: int | None = None) -> bool:
        folder = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        self.left -= f"/{self.step}/" in os.path.join(folder, os.fsdecode(path))
        return self.left < 0


def prepare_to_die() -> None:
    """KILL_AT is ``create:<step>``, when a save has only begun, ``finalize:<step>``, before it is committed, or
    ``delete:<step>:<files>``, after so many files in Orbax's own deleting of an old step."""
    place, _, at = os.environ.get(KILL_AT, "").partition(":")
    if place == "finalize":
        for kind in (atomicity.AtomicRenameTemporaryPath, atomicity.CommitFileTemporaryPath):
            kind.finalize = dying(kind.finalize, lambda self: self.get_final().name == at)
    if place == "create":
        create = atomicity.AtomicRenameTemporaryPath.create

        async def created(self: Any) -> Any:
            path = await create(self)
            if self.get_final().name == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return path

        atomicity.AtomicRenameTemporaryPath.create = created
    if place == "delete":
        step, _, files = at.partition(":")
        unlinks = Unlinks(step, int(files))
        os.unlink = dying(os.unlink, unlinks)
        os.remove = dying(os.remove, unlinks)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--items", action="store_true")
    parser.add_argument("--options", type=json.loads, default={})
    given = parser.parse_args()
    prepare_to_die()
    keeper = manager(given.root, **given.options)
    start = keeper.latest_step()
    found = None if start is None else restored(keeper)
    for step in range((start or 0) + 1, given.steps + 1):
        keeper.save(step, args=saved(step, items=given.items), metrics={"loss": 1.0 / step})
    keeper.wait_until_finished()
    print(json.dumps({"restored": found, "all": sorted(keeper.all_steps()), "latest": keeper.latest_step()}))
    keeper.close()


if __name__ == "__main__":
    main()
