"""What the command line says about a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prune.errors import UsageError
from prune.settings import checks, keys

KEEP_FLAGS = {
    "keep_last": "last",
    "keep_every": "every",
    "keep_every_time": "every_time",
    "keep_within": "within",
    "keep_hourly": "hourly",
    "keep_daily": "daily",
    "keep_weekly": "weekly",
    "keep_best": "best",
    "keep_full": "full",
}


@dataclass(frozen=True, slots=True)
class RunFlags:
    """The options that describe a run, as typed; None is an option that was not given."""

    primary: str | None = None
    mirrors: tuple[str, ...] = ()
    policy: str | None = None
    layout: str | None = None
    keep_last: str | int | None = None
    keep_every: str | int | None = None
    keep_every_time: str | int | None = None
    keep_within: str | int | None = None
    keep_hourly: str | int | None = None
    keep_daily: str | int | None = None
    keep_weekly: str | int | None = None
    keep_best: str | None = None
    keep_full: str | int | None = None
    in_flight: str | int | None = None
    grace: str | int | None = None

    def keep(self) -> dict[str, Any]:
        """The keep rules given. Raises UsageError naming the option whose value cannot be."""
        return {key: self._read(flag, keys.KEEP[key]) for flag, key in KEEP_FLAGS.items() if self._given(flag)}

    def guards(self) -> dict[str, Any]:
        return {"in_flight": self._read("in_flight", checks.duration)} if self._given("in_flight") else {}

    def rules(self) -> dict[str, Any]:
        """The layout and the grace, where given."""
        found: dict[str, Any] = {}
        if self._given("layout"):
            found["layout"] = self._read("layout", checks.text)
        if self._given("grace"):
            found["grace"] = self._read("grace", checks.duration)
        return found

    def refusal(self, flag: str, value: object, why: object) -> UsageError:
        return UsageError(f"--{flag.replace('_', '-')} {value!r}: {why}")

    def _given(self, flag: str) -> bool:
        return getattr(self, flag) is not None

    def _read(self, flag: str, parse: Any) -> Any:
        value = getattr(self, flag)
        try:
            return parse(value)
        except ValueError as error:
            raise self.refusal(flag, value, error) from None


def from_options(options: Mapping[str, Any]) -> RunFlags:
    """RunFlags of parsed command-line options by name; what is no flag of a run is left aside."""
    known = {name: options[name] for name in RunFlags.__dataclass_fields__ if options.get(name) is not None}
    return RunFlags(**known)
