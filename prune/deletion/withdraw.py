"""One batch of steps out of sight: recorded, renamed into the trash, looked at, and put back where that is due.

A batch shares its syncs. Each step in it is still recorded before any of its names goes, and the record says
``withdrawn`` only when the names of all of them have gone.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from prune.control import record
from prune.control.record import Withdrawal
from prune.control.tombstones import Tombstone
from prune.deletion import objects, trash
from prune.deletion.recovery import not_back
from prune.inventory.site import OpenReplica, Site
from prune.model import Copy, Kind, StepPlan
from prune.stores.local import LocalRoot
from prune.stores.pace import Measured

_MENDS = {
    errno.EACCES: "; let this user write in it, where it is a directory (chmod u+w), and in the folder it stands in",
    errno.EPERM: "; it is immutable (lsattr shows it), or another user's in a folder with the sticky bit",
    errno.EROFS: "; mount the volume for writing",
    errno.EBUSY: "; unmount what is mounted there",
}


@dataclass
class Going:
    """One copy on its way out."""

    replica: OpenReplica
    copy: Copy
    withdrawal: Withdrawal
    out: bool = False  # all its names are in the trash
    unlinked: bool = False  # a lone file that could not be withdrawn and went at once
    error: str | None = None
    freed: int = 0
    held_elsewhere: bool = False
    files: int = 0


@dataclass
class Batch:
    """Copies of some steps, mirrors before the primary within each step."""

    going: list[Going] = field(default_factory=list)
    put_back: dict[int, str] = field(default_factory=dict)  # step -> why it came back

    def of(self, replica: OpenReplica) -> list[Going]:
        return [g for g in self.going if g.replica is replica]

    @property
    def replicas(self) -> list[OpenReplica]:
        return list({id(g.replica): g.replica for g in self.going}.values())


def batch_of(site: Site, steps: Sequence[StepPlan], *, plan_id: str, now_ns: int, until_ns: int | None) -> Batch:
    """What goes of these steps, with fresh ids and opaque names."""
    batch = Batch()
    for step in steps:
        id = secrets.token_hex(8)
        for copy in sorted(step.goes, key=lambda c: c.replica == site.primary.name):
            moves = tuple((path, record.opaque_name()) for path in copy.paths)
            withdrawal = Withdrawal(
                id, plan_id, step.step, moves, copy.identity, copy.bytes or 0, now_ns, until_ns=until_ns
            )
            if step.thinned and copy.spare is not None:
                withdrawal = replace(withdrawal, why=record.THINNED, folders=copy.spare.folders)
            batch.going.append(Going(site.by_name(copy.replica), copy, withdrawal))
    return batch


Each = Callable[[Callable[[list["Going"]], None], Sequence[list["Going"]]], None]


def withdraw(batch: Batch, each: Each, still_ours: Callable[[], bool] = lambda: True) -> None:
    """Records, renames and syncs; failures stand in ``Going.error`` and leave that copy whole under its names.

    ``each`` does a thing for every step of the batch, one after the other or at once. Before each step it asks whether
    the run is ``still_ours``: a pass that was paused for long must take nothing more when it wakes.
    """
    for replica in batch.replicas:
        _record_intents(replica, batch.of(replica))
    steps = dict.fromkeys(going.copy.step for going in batch.going)

    def step_out(copies: list[Going]) -> None:
        if still_ours():
            _step_out(copies)
            return
        for going in copies:
            going.error = going.error or "left as it is: the run was lost to another process"

    each(step_out, [[going for going in batch.going if going.copy.step == step] for step in steps])
    if not still_ours():
        return  # what is out already comes back by the look at it
    for replica in batch.replicas:
        _record_withdrawn(replica, batch.of(replica))


MeasureAll = Callable[[LocalRoot, Sequence[Sequence[str]]], list[Measured]]


def look_at_withdrawn(batch: Batch, vetoes: dict[int, str], measure_all: MeasureAll) -> None:
    """Puts back every step of which any copy is not what was planned, or on which a veto fell meanwhile."""
    reasons = dict(vetoes)
    for replica in batch.replicas:
        out = [going for going in batch.of(replica) if going.out]
        assert replica.control is not None
        if replica.in_store:
            found = objects.look(replica, [going.withdrawal for going in out])
        else:
            found = measure_all(replica.control.folder, [trash.trash_paths(going.withdrawal) for going in out])
        for going, measured in zip(out, found, strict=True):
            why = trash.differs(going.withdrawal, measured)
            if why is not None:
                reasons.setdefault(going.copy.step, f"{going.copy.paths[0]} on {replica.name}: {why}")
            elif not isinstance(measured, OSError):
                going.freed, going.files = measured[0].freed, measured[0].files
                going.held_elsewhere = measured[0].linked > measured[0].freed
                if objects.frees_nothing_yet(replica):
                    going.freed = 0
    for step, why in reasons.items():
        together = [going for going in batch.going if going.copy.step == step and going.out]
        if together:
            batch.put_back[step] = why
        for going in together:
            _put_back(going)


def _record_intents(replica: OpenReplica, going: list[Going]) -> None:
    assert replica.control is not None
    try:
        replica.control.append_record(*(record.intent_line(g.withdrawal) for g in going))
        replica.control.bury([stone for g in going for stone in stones(g)])
    except OSError as error:
        for g in going:
            g.error = f"{replica.control.path}: {error.strerror}; without a record nothing is withdrawn"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                _unlink_at_once(g)


def stones(going: Going) -> list[Tombstone]:
    """What a mirror must not bring back: this content under these names; of a step that stays, what it lacks now."""
    copy = going.copy
    if going.withdrawal.why == record.THINNED:
        identity = copy.identity
        return [Tombstone(copy.paths[0], copy.step, identity.size, identity.mtime_ns, parts=copy.paths)]
    return [Tombstone(path, copy.step, copy.identity.size, copy.identity.mtime_ns, copy.content) for path in copy.paths]


def _step_out(copies: list[Going]) -> None:
    """The copies of one step, mirrors before the primary."""
    for going in copies:
        if going.error is None and going.replica.in_store:
            going.out = True  # by its record alone: nothing can be renamed out of sight there
        elif going.error is None:
            _rename_out(going)


def _rename_out(going: Going) -> None:
    replica = going.replica
    assert replica.root is not None
    assert replica.control is not None
    if not _keeps_times(going):
        return
    done: list[tuple[str, str]] = []
    for path, name in going.withdrawal.moves:
        try:
            replica.root.rename(path, f"trash/{name}", into=replica.control.folder)
        except FileNotFoundError:
            continue  # somebody else took this one; the look afterwards counts what is left
        except OSError as error:
            going.error = f"{path}: {error.strerror}{_MENDS.get(error.errno or 0, '')}"
            if done:
                _back_under_its_names(going, done)
            _forget(going)
            if error.errno in (errno.EXDEV, errno.ENOSPC, errno.EDQUOT):
                _unlink_at_once(going)
            return
        done.append((path, name))
    going.out = bool(done)
    if not done:
        _forget(going)
    elif not _keeps_times(going):
        _put_back(going)


def _keeps_times(going: Going) -> bool:
    """Whether the directories that stay have the mtimes they had. Asked first while nothing has gone, so that where
    they cannot be set nothing does."""
    try:
        trash.times_as_before(going.replica, going.withdrawal)
    except OSError as error:
        going.error = f"{going.copy.paths[0]}: the mtime of its directory cannot be kept: {error.strerror}"
        if not going.out:
            _forget(going)
        return False
    return True


def _back_under_its_names(going: Going, done: list[tuple[str, str]]) -> None:
    trouble = trash.put_back(going.replica, replace(going.withdrawal, moves=tuple(done)))
    if trouble is not None:
        going.error = f"{going.error}; and putting back failed: {trouble}"


def _forget(going: Going) -> None:
    """The record learns that nothing of this copy is out. Where that fails, recovery finds the same by looking."""
    control = going.replica.control
    assert control is not None
    try:
        control.append_record(record.back_line(going.withdrawal.id))
        control.lift(stones(going))
    except OSError as error:
        going.error = going.error or f"{control.path}: {error.strerror}"


def _unlink_at_once(going: Going) -> None:
    """A lone file goes by one unlink, which is as atomic as a rename. A directory stays, and that is told."""
    replica, paths = going.replica, going.copy.paths
    assert replica.root is not None
    if going.withdrawal.why == record.THINNED:
        return  # without its tombstone nobody could tell that the step was thinned
    try:
        if len(paths) != 1 or replica.root.stat(paths[0]).kind is not Kind.FILE:
            return
        found = replica.root.stat(paths[0])
        if (found.size, found.mtime_ns, found.ino) != (
            going.copy.identity.size, going.copy.identity.mtime_ns, going.copy.identity.ino
        ):  # fmt: skip
            return
        replica.root.unlink(paths[0])
        replica.root.fsync(paths[0].rpartition("/")[0])
    except OSError:
        return  # the first error stands
    going.error = None
    going.freed, going.files = found.allocated if found.links <= 1 else 0, 1
    going.held_elsewhere = found.links > 1
    going.unlinked = True


def _record_withdrawn(replica: OpenReplica, going: list[Going]) -> None:
    out = [g for g in going if g.out]
    if not out:
        return
    assert replica.root is not None
    assert replica.control is not None
    try:
        trash.sync_parents(replica.root, [path for g in out for path in g.copy.paths])
        replica.control.folder.fsync("trash")
        replica.control.append_record(*(record.withdrawn_line(g.withdrawal.id, g.withdrawal.until_ns) for g in out))
    except OSError as error:
        # Not durable, or not on record: all of it comes back, and is told.
        for g in out:
            g.error = f"{replica.control.path}: {error.strerror}"
            _put_back(g)


def _put_back(going: Going) -> None:
    trouble = trash.put_back(going.replica, going.withdrawal)
    control = going.replica.control
    assert control is not None
    going.out = False
    if trouble is not None:
        going.error = trouble
    try:
        if trouble is None:
            control.append_record(record.back_line(going.withdrawal.id))
            control.lift(stones(going))
        else:
            not_back((going.replica, going.withdrawal), going.withdrawal.at_ns)
    except OSError as error:
        going.error = going.error or f"{control.path}: {error.strerror}"
