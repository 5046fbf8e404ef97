"""Inventories of every kind, small enough to think about: damage, odd times, pointers, pins, an optional mirror."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from prune.model import Copy, Health, Inventory, Lease, Pick, Pin, Pointer, PointerState, Replica, Temporary
from prune.settings.schema import DAY, HOUR, MINUTE, SECOND, Best, Guards, Keep, ReplicaSettings, RunSettings, Share
from tests.inventories import CLOUD, GIB, MIRROR, NOW, PRIMARY, Case, copy, replica_of, temporary

# A property must hold however long one looks; how long is looked by default keeps the suite quick.
PROPERTY = settings(
    max_examples=int(os.environ.get("PRUNE_EXAMPLES", "60")),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

NUMBERS = st.integers(0, 40).map(lambda n: n * 50)
STEPS = st.integers(0, 14).flatmap(lambda n: st.lists(NUMBERS, unique=True, min_size=n, max_size=n)).map(sorted)
FRESH = st.sampled_from([NOW - 10 * SECOND, NOW - 4 * MINUTE, NOW + 30 * SECOND])
ODD = st.sampled_from([0, -1, 1, 315_532_800 * SECOND, NOW + 40 * DAY, None])


def rarely(some: SearchStrategy[int | None], usual: SearchStrategy[int]) -> SearchStrategy[int | None]:
    return st.integers(0, 24).flatmap(lambda n: some if n == 24 else usual)


@st.composite
def keeps(draw: DrawFn, *, by_time: bool = True) -> Keep:
    rules: dict[str, SearchStrategy[Any]] = {
        "every": st.sampled_from([100, 500]),
        "full": st.integers(1, 3),
        "every_time": st.sampled_from([HOUR, DAY]),
        "within": st.sampled_from([HOUR, 12 * HOUR]),
        "hourly": st.integers(0, 3),
        "daily": st.integers(0, 3),
        "weekly": st.integers(0, 3),
        "best": st.builds(Best, st.just("loss"), st.sampled_from(["min", "max"]), st.integers(1, 2)),
    }
    names = draw(st.lists(st.sampled_from(list(rules) if by_time else ["every", "full"]), unique=True, max_size=3))
    return Keep(last=draw(st.integers(1, 5)), **{name: draw(rules[name]) for name in names})


@st.composite
def guard_settings(draw: DrawFn, *, brake: bool = True) -> Guards:
    return Guards(
        in_flight=draw(st.sampled_from([5 * MINUTE, 5 * MINUTE, HOUR, 0])),
        unknown_mtime=draw(st.sampled_from(["keep", "keep", "observe"])),
        max_delete=draw(st.none() | st.integers(0, 3) | st.just(Share(50.0))) if brake else None,
    )


# One copy in four or so is out of the ordinary in one way; few are in two.
USUAL: list[dict[str, Any]] = [{"health": health} for health in (Health.WHOLE, Health.INTACT, Health.UNVERIFIED)]
UNUSUAL: list[dict[str, Any]] = [
    *({"health": health} for health in Health),
    *({"content": content} for content in ("same", "same", "other")),
    {"size": GIB // 2},
    {"created_at_ns": NOW - 30 * HOUR},
    {"verified_ns": NOW - HOUR},
    {"verified_ns": NOW - HOUR, "health": Health.INTACT},
    {"weights_only": True},
    {"busy": "pid 7"},
    {"link": "a symlink"},
]
ODD_TIMES: list[dict[str, Any]] = [
    *({"at": at} for at in (NOW - 10 * SECOND, NOW - 4 * MINUTE, NOW + 30 * SECOND, NOW + 40 * DAY, 0, -1, None)),
    *({"oldest": oldest} for oldest in (0, None, 315_532_800 * SECOND)),
]


def copies(step: int, replica: str, at: int, *, odd: bool) -> SearchStrategy[Copy]:
    unusual = UNUSUAL + (ODD_TIMES if odd else [])
    variation = st.sampled_from([*USUAL * 2 * len(unusual), *unusual])
    return st.builds(lambda one, other: copy(step, replica, **{"at": at} | one | other), variation, variation)


@st.composite
def times(draw: DrawFn, steps: list[int], *, in_order: bool) -> Mapping[int, int]:
    """When each step was written: mostly in order, hours or minutes apart; sometimes not in order at all."""
    if not in_order and draw(st.integers(0, 2)) == 2:
        return {step: NOW - draw(st.integers(1, 60)) * HOUR for step in steps}
    apart = draw(st.sampled_from([10 * MINUTE, 5 * HOUR]))
    return {step: NOW - HOUR - (len(steps) - place) * apart for place, step in enumerate(steps)}


@st.composite
def replicas(draw: DrawFn, *, trouble: bool) -> list[tuple[ReplicaSettings, Replica]]:
    used = [PRIMARY, *draw(st.lists(st.sampled_from([MIRROR, CLOUD]), unique=True, max_size=2))]
    return [(s, replica_of(s, **draw(_troubles() if trouble else st.just({})))) for s in used]


def _troubles() -> SearchStrategy[dict[str, object]]:
    bad: list[dict[str, object]] = [{"listed": False}, {"read_only": True}, {"free_bytes": None}, {"total_bytes": 0}]
    return st.integers(0, 14).flatmap(lambda n: st.sampled_from(bad) if n == 14 else st.just({}))


@st.composite
def cases(
    draw: DrawFn,
    *,
    trouble: bool = True,
    odd: bool = True,
    in_order: bool = False,
    by_time: bool = True,
    brake: bool = True,
) -> Case:
    """Runs of up to 14 steps, all judged and measured.

    ``trouble``: replicas unlisted, read-only or without figures; ``odd``: times zero, future, unread or fresh;
    ``in_order``: steps were written in the order of their numbers; ``by_time``: rules that go by time or metric;
    ``brake``: guards.max_delete may be set.
    """
    steps = draw(STEPS)
    at = draw(times(steps, in_order=in_order))
    used = draw(replicas(trouble=trouble))
    held: dict[int, dict[str, Copy]] = {}
    for step in steps:
        on = [s.name for s, _ in used if draw(st.integers(0, 15))] or [PRIMARY.name]
        held[step] = {name: draw(copies(step, name, at[step], odd=odd)) for name in on}
    names = [settings.name for settings, _ in used]
    inventory = Inventory(
        "run",
        "step-file",
        tuple(replica for _, replica in used),
        held,
        metrics=draw(_metrics(steps)),
        rewound_since_ns=None if in_order else draw(rarely(st.just(NOW - 20 * HOUR), st.none())),  # type: ignore[arg-type]
        **draw(_claims(steps, names)),
    )
    run = RunSettings("run", tuple(s for s, _ in used), draw(keeps(by_time=by_time)), draw(guard_settings(brake=brake)))
    return Case(inventory, run)


@st.composite
def _metrics(draw: DrawFn, steps: list[int]) -> Mapping[int, Mapping[str, float]]:
    value = st.sampled_from([0.1, 0.2, 0.2, 0.3, float("nan")])
    return {step: {"loss": draw(value)} for step in steps if draw(st.integers(0, 3))}


@st.composite
def _claims(draw: DrawFn, steps: list[int], names: list[str]) -> dict[str, object]:
    """Pins, leases, pointers, picks, temporaries: mostly few, sometimes of steps that are not there."""
    step = st.sampled_from([*steps, 9999])
    name = st.sampled_from(names)
    until = st.sampled_from([NOW - 1, NOW + HOUR])
    state = st.sampled_from([PointerState.OK, PointerState.OK, PointerState.OK, PointerState.DANGLING])

    def few(of: SearchStrategy[Any], *, key: Callable[[Any], Hashable] | None = None) -> tuple[Any, ...]:
        return tuple(draw(st.lists(of, max_size=2, unique_by=key))) if draw(st.integers(0, 2)) == 2 else ()

    def name_on_disk(found: Pointer | Temporary) -> Hashable:
        return found.replica, found.path  # no directory holds two entries of one name

    return {
        "pins": few(st.builds(Pin, step, st.just("why"), st.just("me"), st.just(0), st.none() | until, name)),
        "leases": few(st.builds(Lease, step, st.just("reader"), until, name)),
        "pointers": few(st.builds(Pointer, name, st.just("latest"), step, state), key=name_on_disk),
        "picks": {n: Pick(draw(step), "x", "highest number") for n in names if draw(st.integers(0, 2)) == 2},
        "temporaries": few(
            st.builds(temporaries, step, name, rarely(ODD | FRESH, st.just(NOW - 2 * DAY))), key=name_on_disk
        ),
        "referenced": dict.fromkeys(few(step), "state.json lists it"),
        "best_recorded": draw(st.none() | st.none() | st.none() | step),
        "observed_ns": {(s, n): NOW - 2 * DAY for s in steps for n in names if draw(st.integers(0, 5)) == 5},
    }


def temporaries(step: int, replica: str, at: int | None) -> Temporary:
    return temporary(step, replica, at=at)
