"""A run's settings as the table of prune.toml that would make them: plain values, exact, ready for JSON."""

from __future__ import annotations

from typing import Any

from prune.settings.schema import SECOND, Best, Guards, Keep, Pressure, ReplicaSettings, RunSettings, Share

_KEEP_TIMES = ("every_time", "within")
_GUARD_TIMES = ("in_flight", "orphans", "repaired")


def run_table(run: RunSettings) -> dict[str, Any]:
    """The ``[[runs]]`` table of a run with its policy resolved into it: read_run of it gives the same run again.

    Only the policy's name is lost: its rules stand in the table.
    """
    table: dict[str, Any] = {
        "name": run.name,
        "primary": replica_table(run.primary),
        "mirrors": [replica_table(mirror) for mirror in run.mirrors],
        "layout": run.layout,
        "grace": seconds(run.grace),
        "keep": keep_table(run.keep),
        "guards": _guards_table(run.guards),
    }
    if run.layout_options:
        table["layout_options"] = dict(run.layout_options)
    if pressure := _pressure_table(run.pressure):
        table["pressure"] = pressure
    if run.final is not None:
        table["final"] = keep_table(run.final)
    if run.finished_after is not None:
        table["finished_after"] = seconds(run.finished_after)
    if run.group is not None:
        table["group"] = run.group
    if run.priority:
        table["priority"] = run.priority
    return table


def keep_table(keep: Keep) -> dict[str, Any]:
    """The keep rules in force, each as it would stand in the file: durations in seconds."""
    table: dict[str, Any] = {}
    for rule in Keep.__dataclass_fields__:
        value = getattr(keep, rule)
        if value is None:
            continue
        if rule in _KEEP_TIMES:
            value = seconds(value)
        table[rule] = _best_table(value) if isinstance(value, Best) else value
    return table


def replica_table(replica: ReplicaSettings) -> dict[str, Any]:
    table: dict[str, Any] = {"root": replica.root}
    if replica.role == "mirror":
        table["name"] = replica.name
        if replica.optional:
            table["optional"] = True
    if replica.max_lag_steps is not None:
        table["max_lag"] = replica.max_lag_steps
    elif replica.max_lag_ns is not None:
        table["max_lag"] = _text_seconds(replica.max_lag_ns)
    if replica.control is not None:
        table["control"] = replica.control
    if replica.free_space != "auto":
        table["free_space"] = replica.free_space
    if replica.mountpoint:
        table["mountpoint"] = True
    if replica.capacity is not None:
        table["capacity"] = replica.capacity
    return table


def seconds(ns: int) -> int | str:
    """A duration as a bare number of seconds, or with its fraction as text."""
    return ns // SECOND if ns % SECOND == 0 else _text_seconds(ns)


def _text_seconds(ns: int) -> str:
    whole, rest = divmod(ns, SECOND)
    return f"{whole}.{rest:09d}".rstrip("0") + "s" if rest else f"{whole}s"


def _best_table(best: Best) -> dict[str, Any]:
    return {"metric": best.metric, "mode": best.mode, "count": best.count}


def _guards_table(guards: Guards) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for guard in Guards.__dataclass_fields__:
        value = getattr(guards, guard)
        if value is not None:
            table[guard] = seconds(value) if guard in _GUARD_TIMES else _mark(value)
    return table


def _pressure_table(pressure: Pressure) -> dict[str, Any]:
    marks = {name: getattr(pressure, name) for name in Pressure.__dataclass_fields__}
    return {name: _mark(value) for name, value in marks.items() if value is not None}


def _mark(value: Any) -> Any:
    return f"{value.percent!r}%" if isinstance(value, Share) else value
