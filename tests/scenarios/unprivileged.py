"""Running the command as a user who may not do everything: what root may read, ``nobody`` may not."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scenarios.asking import Answer

NOBODY = 65534
REPOSITORY = Path(__file__).parents[2]

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can become another user, and setpriv is needed for it",
)


@dataclass
class Nobody:
    """Runs ``python -m prune`` as ``nobody``, with a home of its own."""

    home: Path

    def owns(self, root: Path) -> None:
        for path in [root, *root.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        environment = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PRUNE_STATE": f"sqlite:///{self.home}/state.db",
        }
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return subprocess.run([*user, sys.executable, "-m", "prune", *map(str, words)], cwd=self.home, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)  # fmt: skip

    def plan(self, primary: Path, *mirrors: Path, keep: int, more: Iterable[object] = ()) -> Answer:
        return self._ask("plan", primary, mirrors, keep, more)

    def apply(self, primary: Path, *mirrors: Path, keep: int, more: Iterable[object] = ()) -> Answer:
        return self._ask("apply", primary, mirrors, keep, ("--yes", *more))

    def _ask(self, verb: str, primary: Path, mirrors: Iterable[Path], keep: int, more: Iterable[object]) -> Answer:
        where = [part for mirror in mirrors for part in ("--mirror", mirror)]
        done = self.run(verb, "--json", "--primary", primary, *where, "--keep-last", keep, *more)
        assert "Traceback" not in done.stderr, done.stderr
        return Answer(done.returncode, json.loads(done.stdout)["runs"][0], done.stderr)


@contextlib.contextmanager
def as_nobody(tmp_path: Path) -> Iterator[Nobody]:
    """Opens the way to a test's directory for the time of the block, and skips where Python itself is out of reach."""
    home = tmp_path / "nobody"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    opened = [each for each in (tmp_path, *tmp_path.parents) if not each.stat().st_mode & 0o001]
    modes = [(each, each.stat().st_mode & 0o7777) for each in opened]
    for each, mode in modes:
        each.chmod(mode | 0o001)
    nobody = Nobody(home)
    try:
        if nobody.run("--version").returncode != 0:
            pytest.skip(f"nobody cannot run {sys.executable} here")
        yield nobody
    finally:
        for each, mode in modes:
            each.chmod(mode)
