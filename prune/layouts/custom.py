"""Names as the user describes them: a template with ``{step}``, or a regular expression with a group ``step``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from prune.errors import UsageError
from prune.layouts import links, metric_files, naming, series
from prune.layouts.around import Around
from prune.layouts.base import Claim, Entry, Glance, Part, Pointer, RootView

_PLACE = re.compile(r"\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::[^{}]*)?\}")
_MEND = 'Give pattern = "model-{step}.pt", or a regular expression with (?P<step>[0-9]+) in it.'


class Custom(Around):
    """All names that match and carry one number are that step's set of files."""

    name = "custom"
    title = "the pattern given"
    weight = 0  # only ever by name

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    @classmethod
    def configured(cls, options: Mapping[str, Any]) -> Self:
        """Takes the option ``pattern``. Raises UsageError without it, or where it cannot be used."""
        for key in options:
            if key != "pattern":
                raise UsageError(f"layout custom has no option {key!r}, only pattern", mend=_MEND)
        pattern = options.get("pattern")
        if not isinstance(pattern, str) or not pattern:
            raise UsageError("layout custom needs a pattern", mend=_MEND)
        return cls(compiled(pattern))

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        return None

    def own(self, entry: Entry) -> Claim | None:
        step = self._step(entry.path)
        return None if step is None else Claim(entry.path, entry.kind, Part.PAYLOAD, step)

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return series.collision(claims)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        return links.pointers(self, view)

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        return metric_files.beside(view)

    def _step(self, name: str) -> int | None:
        match = self.pattern.fullmatch(name)
        digits = match["step"] if match else None
        if not digits or len(digits) > 18 or not (digits.isascii() and digits.isdigit()):
            return None
        return int(digits)


def compiled(pattern: str) -> re.Pattern[str]:
    """The expression that a user's pattern stands for; names must match it in full. Raises UsageError."""
    if "/" in pattern:
        raise UsageError(f"pattern {pattern!r}: it describes one name in the root, no path", mend=_MEND)
    expression = pattern if "(?P<step>" in pattern else _from_template(pattern)
    try:
        found = re.compile(expression, re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"pattern {pattern!r} is no regular expression: {error}", mend=_MEND) from None
    if "step" not in found.groupindex:
        raise UsageError(f"pattern {pattern!r} does not say where the step number stands", mend=_MEND)
    return found


def _from_template(pattern: str) -> str:
    """Literal text, ``{step}``, other ``{placeholders}`` and ``*`` for anything, ``?`` for one character."""
    parts: list[str] = []
    at = 0
    for place in _PLACE.finditer(pattern):
        parts.append(_literal(pattern[at : place.start()]))
        parts.append(f"(?P<step>{naming.DIGITS})" if place["name"] == "step" and "(?P<step>" not in "".join(parts)
                     else naming.DIGITS if place["name"] == "step" else ".+?")  # fmt: skip
        at = place.end()
    parts.append(_literal(pattern[at:]))
    return "".join(parts)


def _literal(text: str) -> str:
    return re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
