"""What scenarios share: commands that see no settings, variables or history of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Only what stands in the test's own directory is seen by the commands under test."""
    for name in [name for name in os.environ if name.upper().startswith("PRUNE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/config"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "home/system"))
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state.db")
    return tmp_path
