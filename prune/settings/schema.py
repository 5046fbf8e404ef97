"""What the user asks for, validated: plain frozen values that the rest of the product reads.

Loading them from files, the environment and flags is :mod:`prune.settings.load`'s work. Durations are integers
of nanoseconds, sizes of bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from prune.model import Attention

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

MANY_RUNS = 50  # more than these are a fleet: told in one line each, and looked at no further than decisions need


@dataclass(frozen=True, slots=True)
class Share:
    """A percentage, as given: ``Share(15.0)`` is 15 %."""

    percent: float

    def of(self, total: int) -> int:
        """This share of ``total``, rounded down."""
        return int(total * self.percent / 100)


@dataclass(frozen=True, slots=True)
class Best:
    """Keep the ``count`` best restorable steps by ``metric``."""

    metric: str
    mode: Literal["min", "max"]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Keep:
    """The keep rules; what each one names is kept, and the union of them stays."""

    last: int = 12
    every: int | None = None  # multiples of this many steps
    every_time: int | None = None  # one per this much time, nanoseconds
    within: int | None = None  # nanoseconds back from the newest restorable step
    hourly: int | None = None
    daily: int | None = None
    weekly: int | None = None
    best: Best | None = None
    full: int | None = None  # thinning: the newest K keep what resuming needs


@dataclass(frozen=True, slots=True)
class Guards:
    in_flight: int = 5 * MINUTE
    orphans: int = DAY
    verify: Literal["newest", "off"] = "newest"
    unknown_mtime: Literal["keep", "observe"] = "keep"
    repaired: int = 7 * DAY
    max_delete: Share | int | None = None


@dataclass(frozen=True, slots=True)
class Pressure:
    free_below: int | Share | None = None
    free_target: int | Share | None = None
    keep_last: int | None = None


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """One root of a run: a local absolute path or an object-store URL."""

    name: str
    root: str
    role: Literal["primary", "mirror"]
    optional: bool = False
    max_lag_ns: int | None = None
    max_lag_steps: int | None = None
    control: str | None = None
    free_space: Literal["auto", "none"] = "auto"
    mountpoint: bool = False
    capacity: int | None = None  # a budget, for roots that have no free space of their own

    @property
    def required(self) -> bool:
        return not self.optional


@dataclass(frozen=True, slots=True)
class RunSettings:
    name: str
    replicas: tuple[ReplicaSettings, ...]  # the primary first
    keep: Keep = field(default_factory=Keep)
    guards: Guards = field(default_factory=Guards)
    pressure: Pressure = field(default_factory=Pressure)
    layout: str = "auto"
    layout_options: dict[str, Any] = field(default_factory=dict)  # e.g. the custom layout's pattern
    policy: str | None = None
    grace: int = 0
    final: Keep | None = None  # what a finished run keeps
    finished_after: int | None = None
    group: str | None = None  # whose budget it shares
    priority: int = 0  # the lower, the sooner it gives where a budget is short

    @property
    def primary(self) -> ReplicaSettings:
        return self.replicas[0]

    @property
    def mirrors(self) -> tuple[ReplicaSettings, ...]:
        return self.replicas[1:]


@dataclass(frozen=True, slots=True)
class Notify:
    webhook: str | None = None
    apprise: tuple[str, ...] = ()
    every: int = HOUR  # the same message again at most this often


@dataclass(frozen=True, slots=True)
class Service:
    schedule: str = "*/10 * * * *"
    timezone: str = "UTC"
    pressure_check: int = 15 * SECOND
    listen: str = "127.0.0.1:9469"
    token: str = ""
    hosts: tuple[str, ...] = ()  # further host names under which HTTP is asked for, as behind a proxy
    mirror: str | None = None  # a schedule for the mirror job; None: off
    scrub: str | None = None  # a schedule for the scrub job
    scrub_period: int = WEEK  # every kept checkpoint is read at least once in this time
    unhealthy_after: int | None = None  # None: three missed ticks
    notify: Notify = field(default_factory=Notify)


@dataclass(frozen=True, slots=True)
class Settings:
    runs: tuple[RunSettings, ...]
    state: str | None = None  # None: SQLite in the user's state directory
    service: Service = field(default_factory=Service)
    source: str | None = None  # the file they came from, for messages
    fleet_budget: int | None = None  # bytes of checkpoints on each volume
    fleet_groups: dict[str, int] = field(default_factory=dict)  # group -> bytes of its runs' primaries
    fleet: tuple[RunSettings, ...] = ()  # all configured runs, where a budget is shared; ``runs`` may be some of them
    notices: tuple[Attention, ...] = ()  # what loading found that a person should know
