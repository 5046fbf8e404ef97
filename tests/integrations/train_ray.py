"""A tiny model that Ray Train trains: python -m tests.integrations.train_ray STORAGE NAME ITERATIONS …

Ray restores by itself what its snapshot in STORAGE/NAME calls the latest. With ``--kill-at`` the worker dies in the
middle of that iteration's report, when its files lie in the storage and the snapshot does not list them.

With RAY_TRAIN_V2_ENABLED=0 it is version 1, which Tune restores from its own state.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.v2.api.exceptions import TrainingFailedError

DIES_AT = "DIES_AT_ITERATION"  # told in the environment: Tune restores the configuration it knew before
VERSION_1 = os.environ.get("RAY_TRAIN_V2_ENABLED") == "0"


def loop(config: dict[str, Any]) -> None:
    """In the worker: goes on from the checkpoint that Ray restored, and notes which one that was."""
    import torch
    from torch import nn

    model, done = nn.Linear(4, 4), 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            state = torch.load(Path(directory, "state.pt"), weights_only=True)
        model.load_state_dict(state["model"])
        done = state["iteration"]
        Path(config["told"]).write_text(json.dumps({"resumed": checkpoint.path, "iteration": done}))
    for iteration in range(done + 1, config["iterations"] + 1):
        if str(iteration) == os.environ.get(DIES_AT):
            _die_in_the_middle_of_a_report()
        with tempfile.TemporaryDirectory() as directory:
            torch.save({"iteration": iteration, "model": model.state_dict()}, Path(directory, "state.pt"))
            ray.train.report(
                {"loss": 1 / iteration, "iteration": iteration}, checkpoint=Checkpoint.from_directory(directory)
            )


def _die_in_the_middle_of_a_report() -> None:
    if VERSION_1:
        from ray.train._internal import storage
    else:
        from ray.train.v2._internal.execution import storage
    real = storage.StorageContext.persist_current_checkpoint

    def persist(*args: Any, **more: Any) -> None:
        real(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    storage.StorageContext.persist_current_checkpoint = persist


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("storage", type=Path)
    words.add_argument("name")
    words.add_argument("iterations", type=int)
    words.add_argument("--keep", type=int)
    words.add_argument("--kill-at", type=int)
    given = words.parse_args()
    told = given.storage / "told.json"
    told_workers = {"RAY_TRAIN_V2_ENABLED": "0" if VERSION_1 else "1", DIES_AT: str(given.kill_at)}
    ray.init(
        num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False,
        runtime_env={"env_vars": told_workers},
    )  # fmt: skip
    config = {"iterations": given.iterations, "told": str(told)}
    begun = given.storage / given.name
    if VERSION_1 and begun.exists():
        finish(TorchTrainer.restore(str(begun), train_loop_per_worker=loop, train_loop_config=config), told)
        return
    trainer = TorchTrainer(
        loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(
            name=given.name,
            storage_path=str(given.storage),
            checkpoint_config=CheckpointConfig(num_to_keep=given.keep),
        ),
    )
    finish(trainer, told)


def finish(trainer: TorchTrainer, told: Path) -> None:
    try:
        result = trainer.fit()
    except (TrainingFailedError, ray.train.TrainingFailedError):
        print(json.dumps({"failed": True}))
        return
    resumed = json.loads(told.read_text()) if told.exists() else {"resumed": None, "iteration": 0}
    print(json.dumps({**resumed, "failed": False, "ended": result.metrics["iteration"]}))


if __name__ == "__main__":
    main()
