"""What may wait before it is written, and what may not."""

from __future__ import annotations

import pytest

from prune.journal import Event, NoJournal
from prune.journal.base import Refused
from prune.journal.together import AT_ONCE, SECONDS, Together


class Notebook(NoJournal):
    def __init__(self) -> None:
        super().__init__("here")
        self.writes: list[list[int]] = []

    def add(self, events) -> None:
        if events:
            self.writes.append([event.at_ns for event in events])


def quiet(number: int) -> Event:
    return Event(number, "tiny", "pass", data={"ok": True, "deleted": 0, "blocked": None})


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def test_quiet_passes_are_written_together_and_all_by_the_end(notebook):
    journal = Together(notebook)
    for number in range(AT_ONCE + 2):
        journal.add([quiet(number)])
    assert [len(written) for written in notebook.writes] == [AT_ONCE]
    journal.close()
    assert [number for written in notebook.writes for number in written] == list(range(AT_ONCE + 2))


@pytest.mark.parametrize("loud", [
    Event(2, "tiny", "deleted", 5),
    Event(2, "tiny", "pass", data={"deleted": 1}),
    Event(2, "tiny", "pass", data={"thinned": 1}),
    Event(2, "tiny", "pass", data={"blocked": "locked"}),
    Event(2, "tiny", "pass", data={"failed": 1}),
])  # fmt: skip
def test_what_did_something_is_written_at_once_after_all_before_it(notebook, loud):
    journal = Together(notebook)
    journal.add([quiet(1)])
    journal.add([loud])
    assert notebook.writes == [[1, 2]]


def test_nothing_waits_for_long(notebook):
    now = [0.0]
    journal = Together(notebook, clock=lambda: now[0])
    journal.add([quiet(1)])
    now[0] = SECONDS + 1
    journal.add([quiet(2)])
    assert notebook.writes == [[1, 2]]


def test_who_asks_for_history_hears_of_all(notebook):
    journal = Together(notebook)
    journal.add([quiet(1)])
    journal.history()
    assert notebook.writes == [[1]]


def test_a_shared_journals_lease_is_reached_through_it(notebook):
    def refuse(_run):
        raise Refused("another")

    assert Together(notebook).lease is None
    notebook.lease = refuse
    with pytest.raises(Refused):
        Together(notebook).lease("tiny")
