"""How much room a policy needs before the first save is written: arithmetic only, the same as the forecast's."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from prune.forecast import first_where
from prune.settings.schema import DAY, HOUR, WEEK, Keep

HORIZON_SAVES = 100_000_000


@dataclass(frozen=True, slots=True)
class Volume:
    """One place the run is kept. ``capacity`` is what checkpoints may use there, all of it, in bytes."""

    name: str
    capacity: int


@dataclass(frozen=True, slots=True)
class Workload:
    """What the training does: one save of ``bytes`` each ``interval_ns``, ``steps_per_save`` steps apart."""

    bytes: int
    interval_ns: int
    steps_per_save: int = 1


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What the pruner does: a pass each ``pass_every_ns``; what it takes stays in the trash for ``grace_ns``."""

    pass_every_ns: int = 600 * 1_000_000_000
    grace_ns: int = 0


@dataclass(frozen=True, slots=True)
class RuleShare:
    """What one rule keeps beyond ``last``, at most. ``checkpoints`` is None where it grows without end."""

    rule: str
    checkpoints: int | None
    per_day: float = 0.0


@dataclass(frozen=True, slots=True)
class Room:
    """How one volume copes."""

    volume: Volume
    fits: bool
    trouble_ns: int | None  # time from the first save to the first one that does not fit; None: never
    bytes_short: int  # at the peak, or at the end of the first year where it grows without end


@dataclass(frozen=True, slots=True)
class Simulation:
    """Where a policy settles. ``steady_bytes`` and ``peak_bytes`` are None where it grows without end."""

    shares: tuple[RuleShare, ...]
    steady_checkpoints: int | None
    steady_bytes: int | None
    peak_checkpoints: int | None
    peak_bytes: int | None
    waiting: int  # saves that may come between two passes
    in_trash: int
    growth_bytes_per_day: float
    rooms: tuple[Room, ...]
    largest_last: int | None  # the largest keep.last that fits on every volume, None: not even one, or it grows


def simulate(keep: Keep, workload: Workload, volumes: tuple[Volume, ...], rhythm: Rhythm | None = None) -> Simulation:
    """What a policy needs, at most, when training saves with a steady rhythm.

    Kept checkpoints, plus what is written between two passes, plus the save being written, plus the trash. Rules
    may choose the same checkpoint; each is counted in full, so the figures err on the side of room.
    Raises ValueError for a size or an interval that is not positive.
    """
    if workload.bytes <= 0 or workload.interval_ns <= 0 or workload.steps_per_save <= 0:
        raise ValueError("checkpoint size, save interval and steps per save must be more than zero")
    rhythm = rhythm or Rhythm()
    shares = tuple(_shares(keep, workload))
    steady = _settled(shares)
    extra = _waiting(workload, rhythm) + 1 + _in_trash(workload, rhythm)
    peak = None if steady is None else steady + extra
    return Simulation(
        shares=shares,
        steady_checkpoints=steady,
        steady_bytes=None if steady is None else steady * workload.bytes,
        peak_checkpoints=peak,
        peak_bytes=None if peak is None else peak * workload.bytes,
        waiting=_waiting(workload, rhythm),
        in_trash=_in_trash(workload, rhythm),
        growth_bytes_per_day=sum(share.per_day for share in shares) * workload.bytes,
        rooms=tuple(_room(keep, workload, rhythm, volume) for volume in volumes),
        largest_last=_largest_last(steady, keep.last, extra, workload, volumes),
    )


def held_after(keep: Keep, workload: Workload, rhythm: Rhythm, saves: int) -> int:
    """Checkpoints on disk, at most, at the moment when the next save begins after ``saves`` finished ones."""
    kept = sum(_kept_after(rule, keep, workload, saves) for rule in _RULES)
    settled = min(kept, saves)
    beside = saves - settled  # what policy lets go of: a part of it still waits for a pass, or lies in the trash
    return settled + min(beside, _waiting(workload, rhythm) + _in_trash(workload, rhythm)) + 1


_RULES = ("last", "within", "every", "every_time", "hourly", "daily", "weekly", "best")
_LADDERS = {"hourly": HOUR, "daily": DAY, "weekly": WEEK}


def _shares(keep: Keep, workload: Workload) -> list[RuleShare]:
    return [share for rule in _RULES if (share := _share(rule, keep, workload)) is not None]


def _share(rule: str, keep: Keep, workload: Workload) -> RuleShare | None:
    if rule == "last":
        return RuleShare(rule, keep.last)
    value = getattr(keep, rule)
    if value is None:
        return None
    if rule == "within":
        beyond = value // workload.interval_ns + 1 - keep.last
        return RuleShare(rule, max(0, beyond))
    if rule == "every":
        return RuleShare(rule, None, DAY / workload.interval_ns / _saves_between_multiples(value, workload))
    if rule == "every_time":
        return RuleShare(rule, None, DAY / max(value, workload.interval_ns))
    if rule == "best":
        return RuleShare(rule, value.count)
    return RuleShare(rule, value)


def _kept_after(rule: str, keep: Keep, workload: Workload, saves: int) -> int:
    """What one rule keeps after so many saves, at most."""
    share = _share(rule, keep, workload)
    if share is None:
        return 0
    older = max(0, saves - keep.last)  # the rest is the last rule's
    span = older * workload.interval_ns
    if rule == "every":
        return older // _saves_between_multiples(keep.every or 1, workload)
    if rule == "every_time":
        return min(older, span // (keep.every_time or 1) + 1) if older else 0
    bound = min(saves if rule == "last" else older, share.checkpoints or 0)
    if rule in _LADDERS:
        return min(bound, span // _LADDERS[rule] + 1) if older else 0
    return bound


def _saves_between_multiples(every: int, workload: Workload) -> int:
    """Saves are at multiples of ``steps_per_save``; one in this many is at a multiple of ``every`` too."""
    return every // gcd(every, workload.steps_per_save)


def _settled(shares: tuple[RuleShare, ...]) -> int | None:
    total = 0
    for share in shares:
        if share.checkpoints is None:
            return None
        total += share.checkpoints
    return total


def _waiting(workload: Workload, rhythm: Rhythm) -> int:
    """Saves that finish between two passes, one at the least: the new one is there before the old one goes."""
    return max(1, -(-rhythm.pass_every_ns // workload.interval_ns))


def _in_trash(workload: Workload, rhythm: Rhythm) -> int:
    return -(-rhythm.grace_ns // workload.interval_ns)


def _room(keep: Keep, workload: Workload, rhythm: Rhythm, volume: Volume) -> Room:
    def too_much(saves: int) -> bool:
        return held_after(keep, workload, rhythm, saves) * workload.bytes > volume.capacity

    if not too_much(HORIZON_SAVES):
        return Room(volume, fits=True, trouble_ns=None, bytes_short=0)
    saves = first_where(too_much, 0, HORIZON_SAVES)
    year = max(saves, 365 * DAY // workload.interval_ns)
    short = held_after(keep, workload, rhythm, year) * workload.bytes - volume.capacity
    return Room(volume, fits=False, trouble_ns=saves * workload.interval_ns, bytes_short=short)


def _largest_last(
    steady: int | None, last: int, extra: int, workload: Workload, volumes: tuple[Volume, ...]
) -> int | None:
    if steady is None or not volumes:
        return None
    beside = steady - last + extra
    room = min(volume.capacity for volume in volumes) // workload.bytes - beside
    return room if room >= 1 else None
