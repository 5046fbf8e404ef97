"""Running the command as a user who may not do everything: what root may read, ``nobody`` may not."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
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
    """Runs ``python -m prune`` as ``nobody``; ``place`` is where a test puts its trees."""

    place: Path

    @property
    def home(self) -> Path:
        return self.place / "home"

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
def as_nobody() -> Iterator[Nobody]:
    """A place of its own that everybody may pass through; skips where Python itself is out of reach for others."""
    with tempfile.TemporaryDirectory(prefix="prune-nobody-") as place:
        os.chmod(place, 0o755)
        nobody = Nobody(Path(place))
        nobody.home.mkdir()
        nobody.owns(nobody.home)
        if nobody.run("--version").returncode != 0:
            pytest.skip(f"nobody cannot run {sys.executable} here")
        yield nobody
