"""No configuration, variable or history of this machine is seen by the commands under test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.trees import build


@pytest.fixture(autouse=True)
def _only_here(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.upper().startswith("PRUNE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/config"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "home/system"))
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state.db")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def pair(tmp_path) -> tuple[Path, Path]:
    """Ten aligned steps, 10 to 100, on a primary and its mirror."""
    primary = build.step_files(tmp_path / "ckpt", range(10, 110, 10))
    return primary, build.mirrored(primary, tmp_path / "mirror")
