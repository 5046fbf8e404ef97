"""A few variables saved by TensorFlow's own CheckpointManager: python -m tests.integrations.train_tensorflow ROOT …"""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.integrations.training import KILL_AT


class Training:
    """A checkpoint of a step and of weights that tell by which step they were written."""

    def __init__(self, root: Path, *, max_to_keep: int | None = None) -> None:
        self.step = tf.Variable(0, dtype=tf.int64)
        self.weights = tf.Variable(tf.zeros([64, 64]))
        self.checkpoint = tf.train.Checkpoint(step=self.step, weights=self.weights)
        self.manager = tf.train.CheckpointManager(self.checkpoint, str(root), max_to_keep=max_to_keep)

    def save(self, step: int) -> None:
        self.step.assign(step)
        self.weights.assign(tf.fill([64, 64], float(step)))
        self.manager.save()

    def restored(self, path: str | None = None) -> int | None:
        """The step of what is restored, the manager's latest unless a path is given; None for a new training."""
        found = path or self.manager.latest_checkpoint
        if not found:
            return None
        self.checkpoint.restore(found).assert_consumed()
        assert bool(tf.reduce_all(self.weights == float(self.step.numpy())))
        return int(self.step.numpy())


def dying(call: Callable[..., Any], step: int) -> Callable[..., Any]:
    """The same call, at whose n-th time this process ends."""
    left = [step]

    def called(*args: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **more)

    return called


def prepare_to_die() -> None:
    """KILL_AT is ``merge:<step>``, when the shards of a save stand in its temporary folder, ``state:<step>``, when
    it is written and not yet named in the file ``checkpoint``, or ``sweep:<files>``, in TensorFlow's own deleting."""
    place, _, at = os.environ.get(KILL_AT, "").partition(":")
    if place == "merge":
        from tensorflow.python.ops import gen_io_ops

        gen_io_ops.merge_v2_checkpoints = dying(gen_io_ops.merge_v2_checkpoints, int(at))
    if place == "state":  # which is written before the sweep and after it
        tf.train.CheckpointManager._record_state = dying(tf.train.CheckpointManager._record_state, 2 * int(at) - 1)
    if place == "sweep":
        from tensorflow.python.lib.io import file_io

        file_io.delete_file = dying(file_io.delete_file, int(at) + 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--max-to-keep", type=int)
    given = parser.parse_args()
    prepare_to_die()
    training = Training(given.root, max_to_keep=given.max_to_keep)
    start = training.restored()
    for step in range((start or 0) + 1, given.steps + 1):
        training.save(step)
    print(json.dumps({"restored": start, "latest": training.manager.latest_checkpoint,
                      "all": training.manager.checkpoints}))  # fmt: skip


if __name__ == "__main__":
    main()
