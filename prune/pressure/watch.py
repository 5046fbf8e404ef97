"""The look whether a volume is short: two system calls a volume, nothing is listed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from prune.forecast import Forecast
from prune.model import SECOND, RunPlan
from prune.pressure.marks import Wish, wish_of
from prune.pressure.relief import Pressed, Relief
from prune.settings.roots import is_url
from prune.settings.schema import HOUR, MINUTE, RunSettings
from prune.stores.base import Space
from prune.stores.mounts import Mount, deepest_first, point_of

SOON_NS = 2 * MINUTE  # saves due within this time must fit together
NO_GAIN_FIRST_NS = 10 * MINUTE
SHORT_FIRST_NS = MINUTE
LONGEST_NS = HOUR


@dataclass(frozen=True, slots=True)
class Volume:
    """One file system, with every run that has a replica on it."""

    device: int
    root: str  # one root on it, by which it is looked at
    pressed: tuple[Pressed, ...]


def local_replicas(runs: Iterable[RunSettings]) -> list[Pressed]:
    """All replicas whose free space is a matter of a local volume."""
    return [
        Pressed(run, replica.name)
        for run in runs
        for replica in run.replicas
        if not is_url(replica.root) and replica.free_space != "none"
    ]


def lying(runs: Iterable[RunSettings], table: Sequence[Mount]) -> dict[str, tuple[Pressed, ...]]:
    """The local replicas by the mounted file system they lie on. Pure: no mount is touched to find out."""
    device_of = {mount.point: mount.device for mount in table}
    points = deepest_first(device_of)
    found: dict[str, list[Pressed]] = {}
    for pressed in local_replicas(runs):
        point = point_of(pressed.root, points)
        found.setdefault(device_of.get(point) or point, []).append(pressed)
    return {place: tuple(pressed) for place, pressed in sorted(found.items())}


def volumes(replicas: Iterable[Pressed]) -> tuple[list[Volume], list[Pressed]]:
    """The volumes of these replicas, by device, and the replicas whose root cannot be looked at now."""
    by_device: dict[int, list[Pressed]] = {}
    unseen: list[Pressed] = []
    for pressed in replicas:
        try:
            by_device.setdefault(os.stat(pressed.root).st_dev, []).append(pressed)
        except OSError:
            unseen.append(pressed)  # every pass over it says so
    found = [Volume(device, pressed[0].root, tuple(pressed)) for device, pressed in sorted(by_device.items())]
    return found, unseen


def budgets(run: RunSettings, plan: RunPlan, free_after: Mapping[str, int]) -> list[tuple[Volume, Space]]:
    """The buckets of a run that have a budget, each a volume of its own, and what was left of it after a pass."""
    capacities = {replica.name: (replica.root, replica.capacity) for replica in run.replicas}
    found = []
    for replica in plan.replicas:
        root, capacity = capacities[replica.name]
        free = free_after.get(replica.name, replica.free_bytes)
        if is_url(root) and capacity is not None and free is not None:
            number = -1 - crc32(root.encode("utf-8", "surrogateescape"))  # no device has one below zero
            found.append((Volume(number, root, (Pressed(run, replica.name),)), Space(free, capacity, None, None)))
    return found


def room_on(volume: Volume) -> Space | None:
    """The volume's room now; None when another file system is mounted there, or none, than when it was found.

    Raises OSError when it cannot be told.
    """
    if os.stat(volume.root).st_dev != volume.device:
        return None
    found = os.statvfs(volume.root)
    counted = found.f_files > 0
    return Space(
        found.f_bavail * found.f_frsize,
        found.f_blocks * found.f_frsize,
        found.f_favail if counted else None,
        found.f_files if counted else None,
    )


def wanted(
    volume: Volume, space: Space, forecasts: Mapping[tuple[str, str], Forecast], *, now_ns: int
) -> tuple[Wish, tuple[Pressed, ...]] | None:
    """What should be made free, and by which runs; None where there is no pressure.

    Each run's own water marks count; whoever is on the volume helps. A volume of no size tells nothing and starts
    nothing.
    """
    if space.total_bytes <= 0:
        return None
    coming = next_saves([told for one in volume.pressed if (told := forecasts.get((one.run.name, one.replica)))],
                        now_ns=now_ns)  # fmt: skip
    wish: Wish | None = None
    for settings in {one.run.pressure for one in volume.pressed}:
        found = wish_of(settings, space, next_saves=coming)
        if found is not None:
            wish = found if wish is None else wish | found
    return None if wish is None else (wish, volume.pressed)


def next_saves(forecasts: Sequence[Forecast], *, now_ns: int) -> int:
    """Bytes that saves about to come take together: the largest one, or all that are due very soon."""
    coming = [told for told in forecasts if told.next_save_bytes and told.next_save_at_ns is not None]
    largest = max((told.next_save_bytes or 0 for told in coming), default=0)
    soon = sum(told.next_save_bytes or 0 for told in coming if (told.next_save_at_ns or 0) <= now_ns + SOON_NS)
    return max(largest, soon)


@dataclass
class BackOff:
    """When a volume whose last try did not help may be tried again.

    A shortfall is tried again as soon as something in a root changed, a try that gained nothing only after a while,
    twice as long each time.
    """

    clock: Callable[[], int]
    _until: dict[int, int] = field(default_factory=dict)
    _pause: dict[int, int] = field(default_factory=dict)
    _seen: dict[int, tuple[object, ...]] = field(default_factory=dict)

    def may_try(self, volume: Volume) -> bool:
        left = self._until.get(volume.device, 0) - self.clock()
        if not 0 < left <= self._pause.get(volume.device, 0):
            return True  # over; or the clock was set back, and would make it last for as long
        seen = self._seen.get(volume.device)
        return seen is not None and seen != _signs(volume)

    def note(self, volume: Volume, relief: Relief) -> None:
        """Takes the outcome of a try into account."""
        if relief.reached:
            for memory in (self._until, self._pause, self._seen):
                memory.pop(volume.device, None)
            return
        first = NO_GAIN_FIRST_NS if relief.freed_nothing else SHORT_FIRST_NS
        pause = max(first, min(2 * self._pause.get(volume.device, 0), LONGEST_NS))
        self._pause[volume.device] = pause
        self._until[volume.device] = self.clock() + pause
        if relief.freed_nothing:
            self._seen.pop(volume.device, None)
        else:
            self._seen[volume.device] = _signs(volume)

    def seconds_left(self, volume: Volume) -> float:
        return max(0, self._until.get(volume.device, 0) - self.clock()) / SECOND


def _signs(volume: Volume) -> tuple[object, ...]:
    """What changes when a save is published in one of the roots."""
    found: list[object] = []
    for one in volume.pressed:
        try:
            found.append(os.stat(one.root).st_mtime_ns)
        except OSError as error:
            found.append(error.errno)
    return tuple(found)
