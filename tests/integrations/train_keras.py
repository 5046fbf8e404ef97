"""A tiny Keras model with Keras's own callbacks: python -m tests.integrations.train_keras ROOT …"""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tests.integrations.training import KILL_AT

TEMPLATES = {"whole": "model.{epoch:02d}-{loss:.4f}.keras", "weights": "cp-{epoch:04d}.weights.h5"}


def made() -> Any:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(64), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def fitted(model: Any, *, epochs: int, start: int = 0, callbacks: Any = ()) -> Any:
    x = np.sin(np.arange(64 * 8, dtype="float32")).reshape(64, 8)
    return model.fit(x, x.sum(axis=1), epochs=epochs, initial_epoch=start, verbose=0, shuffle=False,
                     callbacks=list(callbacks))  # fmt: skip


def loaded(path: str) -> Any:
    """The model as Keras's own loader gives it."""
    if path.endswith(".keras"):
        return keras.saving.load_model(path)
    model = made()
    model.optimizer.build(model.trainable_variables)  # what is not built yet is not loaded
    model.load_weights(path)
    return model


def epochs_done(model: Any) -> int:
    """By the optimizer's own count: two batches are one epoch."""
    return int(model.optimizer.iterations) // 2


def prepare_to_die() -> None:
    """KILL_AT is the epoch in whose save this process dies: before the file is closed that stands under its name."""
    if not os.environ.get(KILL_AT):
        return
    store = keras.src.saving.saving_lib.H5IOStore
    close, left = store.close, [int(os.environ[KILL_AT])]

    def closed(self: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        close(self)

    store.close = closed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=[*TEMPLATES, "backup"])
    parser.add_argument("root", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--from", dest="resume")
    given = parser.parse_args()
    prepare_to_die()
    given.root.mkdir(exist_ok=True)
    model = loaded(given.resume) if given.resume else made()
    start = epochs_done(model)
    if given.kind == "backup":
        callback = keras.callbacks.BackupAndRestore(str(given.root), double_checkpoint=True, delete_checkpoint=False)
    else:
        kind = {"save_weights_only": given.kind == "weights"}
        callback = keras.callbacks.ModelCheckpoint(str(given.root / TEMPLATES[given.kind]), **kind)
    done = fitted(model, epochs=given.epochs, start=start, callbacks=[callback])
    print(json.dumps({"start": start, "epochs": [epoch + 1 for epoch in done.epoch]}))


if __name__ == "__main__":
    main()
