"""How steps are named in sentences."""

from __future__ import annotations

from collections.abc import Iterable

SHOWN = 5  # more steps than these are counted, not named


def count(number: int, noun: str) -> str:
    """``1 checkpoint``, ``4 checkpoints``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def name_steps(steps: Iterable[int]) -> str:
    """``step 100``, ``steps 100, 200 and 300``, ``steps 1, 2, 3, 4, 5 and 7 more``."""
    return listed([str(step) for step in sorted(steps)], "step")


def listed(items: list[str], noun: str) -> str:
    """The items in a row behind the noun, the first few by name."""
    shown, rest = items[:SHOWN], len(items) - SHOWN
    if rest > 0:
        return f"{noun}s {', '.join(shown)} and {rest} more"
    if len(shown) == 1:
        return f"{noun} {shown[0]}"
    return f"{noun}s {', '.join(shown[:-1])} and {shown[-1]}" if shown else f"no {noun}"
