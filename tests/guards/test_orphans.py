"""Temporaries: which go, and why the others stay."""

from __future__ import annotations

import pytest

from prune.model import Decision, Temporary
from prune.settings.schema import DAY, HOUR, MINUTE
from tests.inventories import NOW, case, temporary


def fate(found: Temporary, **guards: int) -> tuple[Decision, str]:
    (orphan,) = case([100, 200], [100, 200]).guarding(**guards).but(temporaries=(found,)).plan().orphans
    return orphan.decision, orphan.reason


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (temporary(50, at=NOW - MINUTE), "in-flight"),
        (temporary(50, at=NOW + DAY), "in-flight"),
        (temporary(50, at=NOW - 5 * MINUTE), "younger-than-1d"),
        (temporary(50, at=NOW - DAY + 1), "younger-than-1d"),
        (temporary(50, at=0), "unknown-mtime"),
        (temporary(50, at=None), "unknown-mtime"),
        (temporary(50, at=-1), "unknown-mtime"),
        (temporary(50, at=NOW - 2 * DAY, busy="pid 7"), "busy"),
        (temporary(50, "nowhere", at=NOW - 2 * DAY), "blocked"),
    ],
)
def test_a_temporary_that_may_still_be_somebodys_stays(found: Temporary, reason: str) -> None:
    assert fate(found) == (Decision.KEEP, reason)


@pytest.mark.parametrize("step", [50, 100, None])
def test_a_dead_writers_temporary_goes_when_it_is_old_enough(step: int | None) -> None:
    assert fate(temporary(step, at=NOW - DAY)) == (Decision.DELETE, "orphan")


def test_how_old_is_a_setting() -> None:
    assert fate(temporary(50, at=NOW - HOUR), orphans=HOUR) == (Decision.DELETE, "orphan")
    assert fate(temporary(50, at=NOW - HOUR), orphans=2 * HOUR) == (Decision.KEEP, "younger-than-2h")


def test_a_temporary_in_flight_stays_however_short_the_wait_for_orphans() -> None:
    assert fate(temporary(50, at=NOW - MINUTE), orphans=0) == (Decision.KEEP, "in-flight")


def test_orphans_go_also_where_no_checkpoint_does() -> None:
    plan = case([100], [100]).but(temporaries=(temporary(50, "mirror", at=NOW - DAY),)).plan()
    assert [orphan.decision for orphan in plan.orphans] == [Decision.DELETE]


def test_nothing_goes_on_an_optional_mirror_that_is_away_or_read_only() -> None:
    run = case([100], [100], [100]).but(temporaries=(temporary(50, "cloud", at=NOW - DAY),))
    assert run.replica("cloud", listed=False).plan().orphans[0].reason == "blocked"
    assert run.replica("cloud", read_only=True).plan().orphans[0].reason == "read-only"
