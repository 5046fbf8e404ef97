"""The guards: one function each, which yields why one step must not be deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prune.evidence import has_unknown_mtime, set_by_somebody
from prune.guards.scene import Scene
from prune.model import Copy, GuardHold
from prune.retention import goes_by_time
from prune.settings.schema import DAY
from prune.settings.units import format_duration

Guard = Callable[[Scene, int], Iterator[GuardHold]]

OBSERVED_LONG_ENOUGH = DAY  # unchanged under our own eyes for this long counts as old


def vetoes(scene: Scene, step: int) -> tuple[GuardHold, ...]:
    """Every veto on deleting a step that no rule keeps, in the order of the guards."""
    return tuple(hold for guard in GUARDS for hold in guard(scene, step))


def in_flight(scene: Scene, step: int) -> Iterator[GuardHold]:
    """Something of the step was modified moments ago, or in the future."""
    for copy in _copies(scene, step):
        if why := _fresh(scene, copy.mtime_ns):
            yield _hold("in-flight", copy, why)
    for temporary in scene.temporaries.get(step, ()):
        if why := _fresh(scene, temporary.mtime_ns):
            yield GuardHold("in-flight", temporary.replica, temporary.path, f"a temporary of this step, {why}")


def _fresh(scene: Scene, mtime_ns: int | None) -> str | None:
    if mtime_ns is None or mtime_ns <= scene.now_ns - scene.guards.in_flight:
        return None
    if scene.evidence.in_future(mtime_ns):
        return f"mtime in the future, by {format_duration(mtime_ns - scene.now_ns)}"
    ago = format_duration(max(0, scene.now_ns - mtime_ns))
    return f"modified {ago} ago, less than {format_duration(scene.guards.in_flight)}"


def unknown_mtime(scene: Scene, step: int) -> Iterator[GuardHold]:
    """A time that nobody set tells no age: zero, negative, before 1980-01-02, or not to be read."""
    for copy in _copies(scene, step):
        if has_unknown_mtime(copy) and not _observed_as_old(scene, copy):
            yield _hold("unknown-mtime", copy, f"unknown mtime: {_what_it_reads(copy)}")
    for temporary in scene.temporaries.get(step, ()):
        if not set_by_somebody(temporary.mtime_ns):
            yield GuardHold("unknown-mtime", temporary.replica, temporary.path, "a temporary of this step has no mtime")


def _observed_as_old(scene: Scene, copy: Copy) -> bool:
    """Seen unchanged for a day, where that was asked for; a rule that goes by time still needs one to go by.

    A copy is known again by every file of it, so that it was seen before shows once it is measured.
    """
    if scene.guards.unknown_mtime != "observe" or not scene.evidence.look_into(copy):
        return False
    if goes_by_time(scene.keep) and scene.evidence.time(copy.step) is None:
        return False
    since = scene.evidence.inventory.observed_ns.get((copy.step, copy.replica))
    return since is not None and since <= scene.now_ns - OBSERVED_LONG_ENOUGH


def _what_it_reads(copy: Copy) -> str:
    times = (copy.mtime_ns, copy.oldest_mtime_ns)
    if None in times:
        return "it cannot be read"
    if 0 in times:
        return "a time of zero is one that nobody set"
    return "a time before 1980-01-02 is one that nobody set"


def resume_candidate(scene: Scene, step: int) -> Iterator[GuardHold]:
    """The trainer's pick, a pointer's target, what ``resume`` gives anywhere, what the primary wrote last."""
    for replica, pick in scene.picks.get(step, ()):
        yield GuardHold("resume-candidate", replica, pick.path, f"the trainer would resume from it ({pick.how})")
    for pointer in scene.pointers.get(step, ()):
        yield GuardHold("resume-candidate", pointer.replica, pointer.path, f"{pointer.path} names it")
    for copy in scene.resumed_from.get(step, ()):
        yield _hold("resume-candidate", copy, f"the newest step that restores on {copy.replica}")
    last = scene.written_last
    if last is not None and last.step == step:
        yield _hold("resume-candidate", last, "the restorable step that was written last")


def last_verified(scene: Scene, step: int) -> Iterator[GuardHold]:
    """The newest step whose content was checked stays until a newer one has been."""
    newest = scene.newest_verified
    if newest is not None and newest.step == step:
        yield _hold("last-verified", newest, "the newest step whose content was checked; no newer one has been")


def rewound(scene: Scene, step: int) -> Iterator[GuardHold]:
    """It was written after every step that would be kept, or since such a one was."""
    if step in scene.rewind.held:
        detail = "written after the steps that would be kept: a run begun anew, whose numbers do not tell what is new"
        yield GuardHold("rewound", scene.evidence.primary, None, detail)


def pinned(scene: Scene, step: int) -> Iterator[GuardHold]:
    """A person pinned it, on whichever replica."""
    for pin in scene.pins.get(step, ()):
        until = "" if pin.until_ns is None else f", for {format_duration(max(0, pin.until_ns - scene.now_ns))} more"
        yield GuardHold("pinned", pin.replica, None, f"{pin.reason or 'pinned'} ({pin.by or 'nobody named'}{until})")


def leased(scene: Scene, step: int) -> Iterator[GuardHold]:
    """A reader holds a lease on it."""
    for lease in scene.leases.get(step, ()):
        left = format_duration(max(0, lease.until_ns - scene.now_ns))
        yield GuardHold("leased", lease.replica, None, f"read by {lease.holder or 'somebody'}, for {left} more")


def busy(scene: Scene, step: int) -> Iterator[GuardHold]:
    """Another process holds it, or a temporary of it, open or locked."""
    for copy in _copies(scene, step):
        if copy.busy is not None:
            yield _hold("busy", copy, copy.busy)
    for temporary in scene.temporaries.get(step, ()):
        if temporary.busy is not None:
            yield GuardHold("busy", temporary.replica, temporary.path, f"a temporary of this step: {temporary.busy}")


def referenced(scene: Scene, step: int) -> Iterator[GuardHold]:
    """The trainer's own state needs it, or names it as best."""
    inventory = scene.evidence.inventory
    if step in inventory.referenced:
        yield GuardHold("referenced", None, None, inventory.referenced[step])
    elif step == inventory.best_recorded:
        yield GuardHold("referenced", None, None, "the trainer recorded it as its best")


def linked(scene: Scene, step: int) -> Iterator[GuardHold]:
    """It is, or has at its top, a symlink out of the root, is no plain file or directory, or holds a mount."""
    for copy in _copies(scene, step):
        if copy.link is not None:
            yield _hold("linked", copy, copy.link)


GUARDS: tuple[Guard, ...] = (
    in_flight,
    unknown_mtime,
    resume_candidate,
    last_verified,
    rewound,
    pinned,
    leased,
    busy,
    referenced,
    linked,
)


def _copies(scene: Scene, step: int) -> list[Copy]:
    return list(scene.evidence.copies[step].values())


def _hold(guard: str, copy: Copy, detail: str) -> GuardHold:
    return GuardHold(guard, copy.replica, copy.paths[0] if copy.paths else None, detail)
