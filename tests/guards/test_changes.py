"""What is on disk must still be what was planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prune.guards import changed
from tests.inventories import OLD, copy

PLANNED = copy(100)


def found(**identity: int) -> object:
    return replace(PLANNED, identity=replace(PLANNED.identity, **identity))


def test_what_is_as_it_was_has_not_changed() -> None:
    assert changed(PLANNED, replace(PLANNED), stable_inodes=True) is None


@pytest.mark.parametrize(
    ("identity", "what"),
    [
        ({"dev": 2}, "device"),
        ({"size": 7}, "size"),
        ({"mtime_ns": OLD + 1}, "mtime"),
        ({"ctime_ns": OLD + 1}, "ctime"),
        ({"files": 2}, "number of files"),
    ],
)
def test_any_difference_is_named_with_both_values(identity: dict[str, int], what: str) -> None:
    why = changed(PLANNED, found(**identity))  # type: ignore[arg-type]
    assert why is not None
    assert why.startswith(f"its {what} was ")
    assert str(*identity.values()) in why


def test_an_inode_tells_only_where_it_is_kept() -> None:
    other = found(ino=9)
    assert changed(PLANNED, other) is None  # type: ignore[arg-type]
    assert changed(PLANNED, other, stable_inodes=True) == "its inode was 1100 and is 9"  # type: ignore[arg-type]


def test_what_was_renamed_by_us_has_another_path_and_ctime_and_nothing_else() -> None:
    moved = replace(PLANNED, paths=("qfx",), identity=replace(PLANNED.identity, ctime_ns=OLD + 1))
    assert changed(PLANNED, moved) is not None
    assert changed(PLANNED, moved, renamed=True) is None
    grown = replace(moved, identity=replace(moved.identity, size=7))
    assert changed(PLANNED, grown, renamed=True) is not None


def test_entries_that_came_or_went_are_a_change() -> None:
    more = replace(PLANNED, paths=("step_0100.pt", "step_0100.pt.sha256"))
    assert changed(PLANNED, more) == "its entries were step_0100.pt and are step_0100.pt, step_0100.pt.sha256"


def test_a_copy_that_was_not_looked_into_when_planned_counts_as_changed() -> None:
    listed = replace(PLANNED, identity=replace(PLANNED.identity, files=-1))
    assert changed(listed, PLANNED) is not None
