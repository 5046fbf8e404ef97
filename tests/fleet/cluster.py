"""A real Dask cluster of processes on this machine, whose workers can be killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


class LocalDask:
    """A scheduler and some workers, each a process of its own, as on several hosts."""

    def __init__(self, home: Path, workers: int = 2, **environment: str) -> None:
        self.home = home
        self.environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(REPOSITORY), **environment}
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port",
                                     "0", "--no-dashboard", "--no-show", "--protocol", "tcp")  # fmt: skip
        self.address = self._address()
        for _ in range(workers):
            self.add_worker()

    def add_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        name = f"worker-{len(self.workers)}"
        self.environment.update(environment)
        words = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--death-timeout", "60"]
        words += ["--local-directory", str(self.home)]
        worker = self._start(name, "distributed.cli.dask_worker", self.address, *words)
        self.workers.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process.poll() is None:
                process.kill()
                process.wait()

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text()

    def _start(self, name: str, module: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{name}.log").open("wb") as log:
            return subprocess.Popen([sys.executable, "-m", module, *words], cwd=self.home, env=self.environment,
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip

    def _address(self) -> str:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = re.search(r"Scheduler at:\s*(tcp://\S+)", self.log("scheduler"))
            if found:
                return found[1]
            time.sleep(0.1)
        raise AssertionError(self.log("scheduler"))
