"""Running a command in this process, as a shell would: exit code, stdout and stderr apart."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune import logs
from prune.cli import cli
from prune.cli.exits import run


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def prune(*args: str | Path, cwd: Path | None = None) -> Done:
    """``prune ARGS…``; a traceback is never what a person should see, so it fails the test at once."""
    out, err = io.StringIO(), io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    try:
        with _in(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(cli, [str(arg) for arg in args])
    finally:
        signal.signal(signal.SIGTERM, before)
        logs.configure()
    assert "Traceback" not in err.getvalue(), err.getvalue()
    return Done(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _in(folder: Path | None) -> Iterator[None]:
    before = os.getcwd()
    if folder is not None:
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
