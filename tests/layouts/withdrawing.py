"""The promise of every withdraw order: what remains at any moment is no checkpoint to its own stack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.layouts.helpers import Seen


def check_withdrawing(seen: Seen, step: int, complete: Callable[[Path], bool]) -> list[str]:
    """Takes one step's entries away in the layout's order and asks the stack's own test, restated by the caller,
    after each; returns the order."""
    assert complete(seen.root), "the step should be complete before it is withdrawn"
    gone = seen.root.parent / f"{seen.root.name}-gone"
    gone.mkdir()
    order = list(seen.members(step).paths)
    for number, path in enumerate(order):
        (seen.root / path).rename(gone / str(number))
        assert not complete(seen.root), f"still complete after {order[: number + 1]}"
    return order
