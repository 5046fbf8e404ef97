"""Which keys the settings have, and reading a table by them: an unknown key is refused with the nearest known one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prune.errors import UsageError
from prune.settings import checks

Keys = Mapping[str, Callable[[Any], Any]]

KEEP: Keys = {
    "last": checks.count,
    "every": checks.count,
    "every_time": checks.lasting,
    "within": checks.lasting,
    "hourly": checks.count,
    "daily": checks.count,
    "weekly": checks.count,
    "best": checks.best,
    "full": checks.count,
}
FINAL: Keys = {**KEEP, "best": checks.best_or_count}
GUARDS: Keys = {
    "in_flight": checks.duration,
    "orphans": checks.duration,
    "verify": checks.one_of("newest", "off"),
    "unknown_mtime": checks.one_of("keep", "observe"),
    "repaired": checks.duration,
    "max_delete": checks.count_or_share,
}
PRESSURE: Keys = {"free_below": checks.room, "free_target": checks.room, "keep_last": checks.count}
RULES: Keys = {  # what a run and a policy file have in common
    "layout": lambda value: value if isinstance(value, Mapping) else checks.text(value),
    "layout_options": checks.table,
    "grace": checks.duration,
    "finished_after": checks.lasting,
    "keep": checks.table,
    "guards": checks.table,
    "pressure": checks.table,
    "final": checks.table,
}
RUN: Keys = {
    **RULES,
    "name": checks.run_name,
    "group": checks.name,
    "priority": checks.whole,
    "primary": lambda value: value if isinstance(value, Mapping) else checks.text(value),
    "mirrors": checks.mirrors,
    "policy": checks.policy,
}
POLICY: Keys = {
    **RULES,
    "title": checks.text,
    "description": checks.text,
    "trainer": checks.table,  # the trainer's own settings that go with it, for people
    "traps": checks.texts,
}
REPLICA: Keys = {
    "root": checks.text,
    "name": checks.name,
    "optional": checks.yes_or_no,
    "max_lag": checks.lag,
    "control": checks.text,
    "free_space": checks.one_of("auto", "none"),
    "mountpoint": checks.yes_or_no,
    "capacity": checks.size,
}
NOTIFY: Keys = {"webhook": checks.text, "apprise": checks.texts, "every": checks.duration}
SERVICE: Keys = {
    "schedule": checks.schedule,
    "timezone": checks.timezone,
    "pressure_check": checks.lasting,
    "listen": checks.listen,
    "token": checks.text_or_empty,
    "hosts": checks.texts,
    "mirror": checks.schedule,
    "scrub": checks.schedule,
    "scrub_period": checks.lasting,
    "unhealthy_after": checks.lasting,
    "notify": checks.table,
}
FLEET: Keys = {"budget": checks.size, "groups": checks.sizes}
TOP: Keys = {"state": checks.state, "service": checks.table, "runs": lambda value: value, "fleet": checks.table}

_TABLES = {"keep": KEEP, "guards": GUARDS, "pressure": PRESSURE, "service": SERVICE, "run": RUN}
_SECRET = ("token", "password", "secret", "webhook")


@dataclass(frozen=True, slots=True)
class Where:
    """Which table of which file is being read, so that a refusal can name it."""

    source: str  # the file's path, or "command line"
    path: str = ""  # dotted keys down to the table, e.g. ``runs[0].keep``
    variables: Mapping[str, str] = field(default_factory=dict)  # dotted key -> the environment variable that set it
    aka: str = ""  # e.g. the run's name

    def down(self, key: str, *, aka: str = "") -> Where:
        """The table below ``key``; an index joins without a dot."""
        return replace(self, path=self.dotted(key), aka=aka or self.aka)

    def dotted(self, key: str) -> str:
        return f"{self.path}{'' if key.startswith('[') or not self.path else '.'}{key}"

    def refusal(self, key: str, value: object, why: str, *, mend: str | None = None) -> UsageError:
        """The error that names file, key and value, says why not, and what to do."""
        dotted = self.dotted(key)
        variable = self.variables.get(dotted)
        place = f"environment variable {variable}" if variable else f"{self.source}: {dotted}"
        of_run = f" (run {self.aka!r})" if self.aka else ""
        return UsageError(f"{place} = {shown(key, value)}{of_run}: {why}", mend=mend)


def read(table: object, keys: Keys, where: Where) -> dict[str, Any]:
    """The known keys of a table, each as meant. Raises UsageError for an unknown key or a value that cannot be."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where.source}: {where.path or 'the file'} must be a table, not {shown('', table)}")
    found = {}
    for key, value in table.items():
        if key not in keys:
            raise unknown_key(str(key), keys, where)
        try:
            found[key] = keys[key](value)
        except ValueError as error:
            raise where.refusal(key, value, str(error)) from None
    return found


def unknown_key(key: str, keys: Keys, where: Where) -> UsageError:
    """The error for a key that is not known here, naming the nearest one or the table where it belongs."""
    dotted = where.dotted(key)
    variable = where.variables.get(dotted)
    place = f"environment variable {variable}" if variable else f"{where.source}: {dotted}"
    homes = [name for name, known in _TABLES.items() if key in known and known is not keys]
    near = nearest(key, keys)
    if key.startswith("keep_") and key.removeprefix("keep_") in KEEP and keys is not PRESSURE:
        mend = f"Write {key.removeprefix('keep_')!r} in [runs.keep]."
    elif near and (not homes or near.replace("_", "") == key.replace("-", "").replace("_", "")):
        mend = f"Did you mean {near!r}?"
    elif homes:
        guess = f"Did you mean {near!r}? " if near else ""
        mend = f"{guess}{key!r} belongs in {' or '.join(_table_name(home) for home in homes)}."
    else:
        mend = f"Known here: {', '.join(sorted(keys))}."
    return UsageError(f"{place}: there is no such key", mend=mend)


def nearest(word: str, known: Mapping[str, Any] | list[str]) -> str | None:
    """The known word most like this one, if any is like it at all."""
    import difflib

    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def shown(key: str, value: object) -> str:
    """A value as it would stand in the file; a secret only as stars."""
    if any(word in key.lower() for word in _SECRET) and value not in ("", None):
        return "***"
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    return str(value) if isinstance(value, int | float) else json.dumps(value, default=str, ensure_ascii=False)


def _table_name(home: str) -> str:
    return {"run": "[[runs]]", "service": "[service]"}.get(home, f"[runs.{home}]")
