"""Where history is kept."""

from __future__ import annotations

import platformdirs
import pytest

from prune.journal import default_state


@pytest.mark.parametrize("variable", [None, "/somewhere/else", "", " "])
def test_history_stands_in_the_users_state_directory(monkeypatch, variable):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if variable is not None:
        monkeypatch.setenv("XDG_STATE_HOME", variable)
    expected = platformdirs.user_state_dir("ckpt-prune", appauthor=False)
    assert default_state() == f"sqlite:///{expected}/prune.db"
