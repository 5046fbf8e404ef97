"""Where a training's state is kept, and that of whoever asks about it afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path / 'asked.db'}")
    return tmp_path / "state.db"
