"""Rules in layers: a policy, the run's own tables over it, a policy named on the command line, the flags over all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prune.errors import UsageError
from prune.settings import keys
from prune.settings.keys import Keys, Where, nearest, read
from prune.settings.schema import Best, Guards, Keep, Pressure, Share

_SCALARS = ("grace", "finished_after", "group", "priority")


@dataclass(frozen=True, slots=True)
class Rules:
    """One layer's values as meant, each with the place that said it."""

    where: Where
    top: dict[str, Any] = field(default_factory=dict)  # layout, layout_options, grace and other scalars
    keep: dict[str, Any] = field(default_factory=dict)
    guards: dict[str, Any] = field(default_factory=dict)
    pressure: dict[str, Any] = field(default_factory=dict)
    final: dict[str, Any] | None = None

    def over(self, below: Rules) -> Rules:
        """This layer over another, key by key: what it does not say stays as it was below."""
        top = {**below.top, **self.top}
        if "layout" in self.top and "layout_options" not in self.top:
            top.pop("layout_options", None)  # another layout's options mean nothing to this one
        return Rules(
            self.where,
            top,
            {**below.keep, **self.keep},
            {**below.guards, **self.guards},
            {**_inherited(below.pressure, self), **self.pressure},
            None if below.final is None and self.final is None else {**(below.final or {}), **(self.final or {})},
        )


def _inherited(marks: dict[str, Any], above: Rules) -> dict[str, Any]:
    """The water marks of a lower layer as far as what lies over it leaves them their sense: whoever keeps fewer steps
    than a ready policy, or begins sooner, contradicts nothing that he said himself."""
    kept = dict(marks)
    last, floor = above.keep.get("last"), marks.get("keep_last")
    if last is not None and floor is not None:
        kept["keep_last"] = min(last, floor)
    low, high = above.pressure.get("free_below"), marks.get("free_target")
    if low is not None and high is not None and _less(high, low):
        del kept["free_target"]
    return kept


def rules_of(values: Mapping[str, Any], where: Where) -> Rules:
    """The layer that a run's or a policy's table makes; ``values`` has been read by its keys."""

    def below(key: str, known: Keys) -> dict[str, Any]:
        return read(values[key], known, where.down(key)) if key in values else {}

    return Rules(
        where,
        {key: values[key] for key in _SCALARS if key in values} | _layout(values, where),
        below("keep", keys.KEEP),
        below("guards", keys.GUARDS),
        below("pressure", keys.PRESSURE),
        below("final", keys.FINAL) if "final" in values else None,
    )


def keep_of(rules: Rules) -> Keep:
    """The keep rules; where nothing says how many, the newest 12."""
    return Keep(**rules.keep)


def final_of(rules: Rules) -> Keep | None:
    """What a finished run keeps. A bare number of best ones takes the metric of ``keep.best``."""
    if rules.final is None:
        return None
    found = dict(rules.final)
    if isinstance(found.get("best"), int):
        best: Best | None = rules.keep.get("best")
        if best is None:
            why = "a bare number takes its metric from keep.best, and there is none"
            raise rules.where.down("final").refusal("best", found["best"], why)
        found["best"] = Best(best.metric, best.mode, found["best"])
    return Keep(**found)


def guards_of(rules: Rules) -> Guards:
    return Guards(**rules.guards)


def pressure_of(rules: Rules, keep: Keep) -> Pressure:
    """The water marks. Raises UsageError where they contradict one another."""
    where, marks = rules.where.down("pressure"), Pressure(**rules.pressure)
    low, high = marks.free_below, marks.free_target
    if high is not None and low is None:
        raise where.refusal("free_target", _written(high), "needs free_below, which says when to begin")
    if low is not None and high is None:
        marks = Pressure(low, low, marks.keep_last)
    elif low is not None and high is not None and _less(high, low):
        raise where.refusal(
            "free_target", _written(high), f"is less than free_below = {_written(low)}; are they swapped?"
        )
    if marks.keep_last is not None and marks.keep_last > keep.last:
        why = f"is more than keep.last = {keep.last}; it is the floor that pressure may lower keep.last to"
        raise where.refusal("keep_last", marks.keep_last, why)
    return marks


def _layout(values: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """The layout's name and options: ``"name"``, ``"custom:PATTERN"``, or a table with the name and its options."""
    if "layout" not in values:
        return {"layout_options": dict(values["layout_options"])} if "layout_options" in values else {}
    said = values["layout"]
    options = dict(values.get("layout_options", {}))
    if isinstance(said, Mapping):
        options |= {key: value for key, value in said.items() if key != "name"}
        said = said.get("name", "custom" if options else "auto")
    if isinstance(said, str) and said.startswith("custom:"):
        said, options["pattern"] = "custom", said.removeprefix("custom:")
    check_layout(said, where)
    if options or said == "custom":
        _check_options(str(said), options, where)
    return {"layout": said, "layout_options": options} if options else {"layout": said}


def check_layout(name: object, where: Where) -> None:
    """Raises UsageError for a layout that nobody knows, naming the nearest."""
    from prune import layouts

    known = ["auto", *layouts.names()]
    if name not in known:
        near = nearest(str(name), known)
        mend = f"Did you mean {near!r}?" if near else f"Known layouts: {', '.join(known)}."
        raise where.refusal("layout", name, "there is no such layout", mend=mend)


def _check_options(name: str, options: Mapping[str, Any], where: Where) -> None:
    """Raises UsageError where the layout itself refuses its options."""
    from prune import layouts

    try:
        layouts.get(name, options)
    except UsageError as error:
        raise where.refusal("layout", name, error.args[0], mend=error.mend) from None


def _less(one: int | Share, other: int | Share) -> bool:
    """Whether one mark is surely below the other; a size and a share cannot be compared without the volume."""
    if isinstance(one, Share) and isinstance(other, Share):
        return one.percent < other.percent
    return isinstance(one, int) and isinstance(other, int) and one < other


def _written(mark: int | Share) -> str:
    return f"{mark.percent:g}%" if isinstance(mark, Share) else str(mark)
