"""The journal in one file: what it meets, and what it does not lose meanwhile."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from prune.journal import Event, Journal, open_journal, sqlite, waiting
from prune.model import Health, Identity, Verdict


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sqlite, "_WAIT_SECONDS", 0.05)
    return tmp_path / "state.db"


def opened(file: Path) -> Journal:
    return open_journal(f"sqlite:///{file}", write=True)


def told(file: Path, step: int) -> str | None:
    """Opens it as a pass does, tells it of one deletion, and closes it."""
    journal = opened(file)
    journal.add([Event(step, "tiny", "deleted", step, "primary")])
    journal.close()
    return journal.trouble


def steps(file: Path) -> list[int | None]:
    journal = open_journal(f"sqlite:///{file}", write=False)
    assert journal.broken_link() is None
    return [event.step for event in reversed(journal.history())]


def locked(file: Path) -> sqlite3.Connection:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    return other


def test_what_is_told_while_another_process_has_it_locked_is_written_when_it_lets_go(file: Path) -> None:
    told(file, 1)
    other = locked(file)
    assert "locked" in (told(file, 2) or "")
    assert "locked" in (told(file, 3) or "")
    other.close()
    opened(file).close()
    assert steps(file) == [1, 2, 3]


def test_what_is_told_to_one_that_was_locked_after_it_was_opened_comes_before_what_follows(file: Path) -> None:
    journal = opened(file)
    other = locked(file)
    journal.add([Event(1, "tiny", "deleted", 1)])
    other.close()
    journal.add([Event(2, "tiny", "deleted", 2)])
    journal.close()
    assert steps(file) == [1, 2]


def test_what_there_is_no_room_for_meanwhile_is_said_to_be_lost(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST_WAITING", 2)
    opened(file).close()
    other = locked(file)
    for step in range(5):
        told(file, step)
    other.close()
    assert "3 entries were lost" in (opened(file).trouble or "")
    assert steps(file) == [3, 4]


def test_a_copy_whose_name_is_not_utf8_is_remembered_as_damaged(file: Path) -> None:
    journal, identity = opened(file), Identity(1, 2, 3, 4, 5, 6)
    journal.verified("/r", ("step\udcff",), identity, Verdict(Health.BROKEN, "step\udcff: cut"), 7)
    assert journal.trouble is None
    found = journal.evidence("/r", ("step\udcff",), identity)
    assert found == (Verdict(Health.BROKEN, "step\\udcff: cut"), 7)
    journal.close()
