"""A tiny classifier that ultralytics trains: python -m tests.integrations.train_ultralytics DIRECTORY EPOCHS …

It trains into DIRECTORY/run, or goes on there with ``--resume``: from the checkpoint given, or the one that it finds
by itself. With KILL_AT set it dies in the middle of that file.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from ultralytics import YOLO
from ultralytics.utils.files import get_latest_run

from tests.integrations.training import KILL_AT, die_in_the_middle_of

MODEL = """\
nc: 2
backbone:
  - [-1, 1, Conv, [8, 3, 2]]
head:
  - [-1, 1, Classify, [nc]]
"""


def pictures(into: Path) -> Path:
    """Two classes of noise."""
    noise = np.random.default_rng(0)
    for split in ("train", "val"):
        for kind in ("a", "b"):
            (into / split / kind).mkdir(parents=True, exist_ok=True)
            for number in range(2):
                data = noise.integers(0, 255, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(data).save(into / split / kind / f"{number}.png")
    return into


def dying_writes() -> None:
    """Checkpoints are written onto their final names at once."""
    real = Path.write_bytes

    def write_bytes(path: Path, data: bytes) -> int:
        die_in_the_middle_of(str(path), bytes(data))
        return real(path, data)

    Path.write_bytes = write_bytes


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("directory", type=Path)
    words.add_argument("epochs", type=int)
    words.add_argument("--period", type=int, default=1)
    words.add_argument("--resume", nargs="?", const=True)
    given = words.parse_args()
    if os.environ.get(KILL_AT):
        dying_writes()
    torch.set_num_threads(1)
    settings = {
        "data": str(pictures(given.directory / "data")), "epochs": given.epochs, "imgsz": 32, "batch": 2,
        "device": "cpu", "workers": 0, "project": str(given.directory), "name": "run", "save_period": given.period,
        "plots": False, "amp": False, "verbose": False,
    }  # fmt: skip
    (given.directory / "tiny.yaml").write_text(MODEL)
    found = get_latest_run(str(given.directory)) if given.resume is True else given.resume
    model = YOLO(found or str(given.directory / "tiny.yaml"), task="classify")
    begun: list[tuple[str, int]] = []
    model.add_callback("on_train_start", lambda trainer: begun.append((str(trainer.args.resume), trainer.start_epoch)))
    model.train(resume=True) if given.resume else model.train(**settings)
    print(json.dumps({"resumed": begun[0][0], "start": begun[0][1], "ended": model.trainer.epoch}))


if __name__ == "__main__":
    main()
