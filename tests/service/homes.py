"""A daemon on a real small run, with nothing started: its parts are called by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune.service.daemon import Daemon
from prune.service.source import Source
from prune.settings.schema import RunSettings, Service, Settings
from tests.runs import run_of
from tests.trees.build import mirrored, step_files


@dataclass
class Home:
    daemon: Daemon
    primary: Path
    mirror: Path

    @property
    def run(self) -> RunSettings:
        return self.daemon.source.settings.runs[0]

    def pass_over(self) -> None:
        self.daemon.worker.pass_over("test", self.daemon.source.settings.runs)

    def steps(self) -> list[str]:
        return sorted(path.name for path in self.primary.glob("*.pt"))


def home(tmp_path: Path, *, steps: int = 6, last: int = 3, token: str = "", **more: Any) -> Home:
    """Steps 100, 200, … on both sides; the newest ``last`` are to stay."""
    primary = step_files(tmp_path / "primary", range(100, 100 * steps + 1, 100))
    mirror = mirrored(primary, tmp_path / "mirror")
    run = run_of(primary, mirror, last=last, **more)
    settings = Settings((run,), state=f"sqlite:///{tmp_path}/state.db", service=Service(token=token))
    return Home(Daemon(Source(lambda: settings)), primary, mirror)
