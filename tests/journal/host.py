"""One host's pruner as a process of its own, slow enough to be caught at work: ``python -m tests.journal.host``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


class Host:
    """A pruner under way. Each line on its stderr is told as it comes."""

    def __init__(self, url: str, words: Sequence[str], *, lease: float = 60.0, slow: float = 0.0,
                 within: Sequence[str] = ()) -> None:  # fmt: skip
        environment = {**os.environ, "PRUNE_STATE": url, "PYTHONDONTWRITEBYTECODE": "1"}
        driver = [sys.executable, "-m", "tests.journal.host", str(lease), str(slow)]
        self.process = subprocess.Popen(
            [*within, *driver, *words],
            cwd=REPOSITORY,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def after_batches(self, count: int) -> None:
        """Waits until it has deleted so many steps."""
        assert self.process.stderr is not None
        watchdog = threading.Timer(90, self.process.kill)
        watchdog.start()
        seen = 0
        try:
            for line in self.process.stderr:
                seen += line.startswith("batch ends")
                if seen == count:
                    return
            raise AssertionError(f"it ended after {seen} batches")
        finally:
            watchdog.cancel()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> tuple[int, dict[str, Any]]:
        """Its exit code, and the result of its one run."""
        out, err = self.process.communicate(timeout=120)
        assert "Traceback" not in err, err
        return self.process.returncode, json.loads(out)["runs"][0] if out else {}


def main() -> None:
    from prune.cli import main as prune
    from prune.control import lock
    from prune.deletion import apply, sweep
    from prune.journal import leases

    lease, slow, *words = sys.argv[1:]
    leases.SECONDS = float(lease)
    lock.LEASE_NS = int(float(lease) * 10**9)
    apply.BATCH = apply.BATCH_REMOTE = 1
    batch = sweep.Sweep._batch
    log = os.environ.get("HOST_LOG")

    def told(what: str) -> None:
        sys.stderr.write(f"{what}\n")
        sys.stderr.flush()
        if log:
            with open(log, "a") as file:
                file.write(f"{time.monotonic_ns()} {os.getpid()} {what}\n")

    def caught(self: sweep.Sweep, chosen: Any) -> None:
        told("batch begins")
        batch(self, chosen)
        told("batch ends")
        time.sleep(float(slow))

    sweep.Sweep._batch = caught  # type: ignore[method-assign]
    prune(words)


if __name__ == "__main__":
    main()
