"""When passes are due: cron expressions and intervals as APScheduler triggers that behave on clock-change days.

APScheduler's own cron trigger fires twice, and then hangs on one instant, where an hour is repeated (seen with
3.11 and Europe/Berlin, 02:30), and counts weekdays from Monday where cron counts from Sunday. Here cron's own
rules hold: a pass at a fixed hour comes exactly once a day, an hour that the clock leaps over moves it behind the
leap, and a schedule for every hour goes by the real hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from prune.forecast import first_where
from prune.settings.schema import DAY
from prune.settings.units import parse_duration

DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
LONGEST = 366 * DAY  # what lies further ahead than any calendar reaches could not be reckoned with
TICK = timedelta(microseconds=1)


def trigger_of(schedule: str, zone: str) -> BaseTrigger:
    """The trigger of a cron expression of five fields, or of a duration such as ``10m``.

    Raises ValueError with a sentence for anything else, and for an unknown time zone.
    """
    tz = _zone(zone)
    if len(schedule.split()) == 5:
        return WallClock(schedule, tz)
    try:
        every = parse_duration(schedule)
    except ValueError:
        raise ValueError(f"{schedule!r} is neither a cron expression of five fields nor a duration such as '10m'")
    if every < 1_000_000_000:
        raise ValueError(f"{schedule!r} is less than a second between passes")
    if every > LONGEST:
        raise ValueError(f"{schedule!r} is more than a year between passes")
    return IntervalTrigger(seconds=every / 1e9, timezone=tz)


def comes(schedule: str, zone: str) -> None:
    """Raises ValueError for a schedule that nobody can follow, and for one whose day never comes."""
    if trigger_of(schedule, zone).get_next_fire_time(None, datetime.now(UTC)) is None:
        raise ValueError(f"{schedule!r} never comes: no month has such a day")


def gap_of(schedule: str, zone: str, *, now_ns: int) -> int:
    """Nanoseconds between two ticks, the longest among the next eight: what "a missed tick" is measured by."""
    trigger = trigger_of(schedule, zone)
    moment = datetime.fromtimestamp(now_ns / 1e9, UTC)
    ticks = list(_ticks(trigger, moment, 9))
    if len(ticks) < 2:
        return 0
    gaps = [later - earlier for earlier, later in pairwise(ticks)]
    return int(max(gaps).total_seconds() * 1e9)


class WallClock(BaseTrigger):  # type: ignore[misc]  # APScheduler is not typed
    """A cron expression by the wall clock of one time zone."""

    def __init__(self, crontab: str, zone: tzinfo) -> None:
        minute, hour, day, month, weekday = crontab.split()
        self._zone = zone
        self._every_hour = hour.startswith("*")
        self._fields = [
            {"minute": minute, "hour": hour, "month": month, "day": day_, "day_of_week": weekday_}
            for day_, weekday_ in _day_rules(day, _weekdays(weekday))
        ]
        self._triggers(UTC)  # so that a bad field is refused now
        self._text = crontab

    def __str__(self) -> str:
        return f"cron[{self._text}, {self._zone}]"

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """The first due instant at or after ``now`` and after the previous one, in UTC.

        In UTC, because Python compares times of one zone by their wall clocks, and a wall clock runs twice through
        the same hour.
        """
        after = now.astimezone(UTC)
        if previous_fire_time is not None:
            after = max(after, previous_fire_time.astimezone(UTC) + TICK)
        return self._by_real_hours(after) if self._every_hour else self._by_wall_hours(after)

    def _by_real_hours(self, after: datetime) -> datetime | None:
        """Within one UTC offset the wall clock is regular; past a change of offset, look again from there."""
        while True:
            offset = self._offset(after)
            found = self._first_match(timezone(offset), after)
            if found is None or self._offset(found) == offset:
                return found
            after = self._change_between(after, found, offset)

    def _by_wall_hours(self, after: datetime) -> datetime | None:
        """Wall times one after another, each once: a repeated one the first time, a missing one past the leap."""
        wall = (after + self._offset(after) - timedelta(hours=4)).replace(tzinfo=UTC)
        while (found := self._first_match(UTC, wall)) is not None:
            instant = found.replace(tzinfo=self._zone, fold=0).astimezone(UTC)
            if instant >= after:
                return instant
            wall = found + TICK
        return None

    def _first_match(self, zone: tzinfo, after: datetime) -> datetime | None:
        found = [trigger.get_next_fire_time(None, after.astimezone(zone)) for trigger in self._triggers(zone)]
        return min((match.astimezone(UTC) for match in found if match is not None), default=None)

    def _triggers(self, zone: tzinfo) -> list[Any]:
        return [CronTrigger(second=0, timezone=zone, **fields) for fields in self._fields]

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self._zone).utcoffset() or timedelta()

    def _change_between(self, early: datetime, late: datetime, offset: timedelta) -> datetime:
        """The first whole second at which the offset is no longer ``offset``."""
        seconds = int((late - early).total_seconds()) + 1
        start = early.replace(microsecond=0)
        return start + timedelta(
            seconds=first_where(lambda s: self._offset(start + timedelta(seconds=s)) != offset, 0, seconds)
        )


def _ticks(trigger: BaseTrigger, moment: datetime, count: int) -> Iterator[datetime]:
    previous: datetime | None = None
    for _ in range(count):
        tick = trigger.get_next_fire_time(previous, moment)
        if tick is None:
            return
        yield tick
        previous, moment = tick, tick + TICK


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"no time zone is named {name!r}; write one such as 'UTC' or 'Europe/Berlin'")


def _day_rules(day: str, weekday: str) -> list[tuple[str, str]]:
    """In cron, a day of the month and a weekday given together mean either of them."""
    if day.startswith("*") or weekday == "*":
        return [(day, weekday)]
    return [(day, "*"), ("*", weekday)]


def _weekdays(field: str) -> str:
    """Weekdays in cron's numbers (Sunday is 0 and 7) or names, as a list of names."""
    if field == "*":
        return field
    days: list[int] = []
    for part in field.split(","):
        days += _weekday_range(part)
    return ",".join(DAYS[day] for day in sorted(set(days)))


def _weekday_range(part: str) -> list[int]:
    span, _, step = part.partition("/")
    if step and not (step.isdecimal() and int(step)):
        raise ValueError(f"{part!r} has no step of weekdays after the slash")
    first, dash, last = ("0", "-", "6") if span == "*" else span.partition("-")
    low = _weekday(first)
    high = _weekday(last) if dash else (6 if step else low)
    return [(low + ahead) % 7 for ahead in range(0, (high - low) % 7 + 1, int(step or 1))]


def _weekday(text: str) -> int:
    if text.isdecimal() and int(text) <= 7:
        return int(text) % 7
    if text.lower() in DAYS:
        return DAYS.index(text.lower())
    raise ValueError(f"{text!r} is no weekday; write 0 to 7 or sun to sat")
