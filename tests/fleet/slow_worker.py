"""Loaded into a worker, it makes each deletion slow enough to be caught, and says where it is."""

from __future__ import annotations

import os
import time
from typing import Any

from prune.deletion import apply, sweep, withdraw

apply.BATCH = 1
_batch = sweep.Sweep._batch
_withdraw = withdraw.withdraw


def caught(self: sweep.Sweep, chosen: Any) -> None:
    _batch(self, chosen)
    with open(os.environ["DELETED_LOG"], "a") as file:
        file.write(f"{os.getpid()} {self.site.run.name}\n")
    time.sleep(0.3)


def half_withdrawn(*words: Any) -> None:
    """Withdrawn, and not yet gone: the worst moment to be killed at."""
    _withdraw(*words)
    with open(os.environ["DELETED_LOG"], "a") as file:
        file.write(f"{os.getpid()} withdrawn\n")
    time.sleep(0.3)


sweep.Sweep._batch = caught  # type: ignore[method-assign]
sweep.withdraw = half_withdrawn
