"""What a dead pass left, and what waited for its time.

What a pass had withdrawn and not yet begun to purge is put back, whatever it had decided: since it died a pin may have
come, a kept step may have gone, a mirror may have been lost. The pass that recovers decides anew, and withdraws again
what still goes. What was being purged is purged. What waits in the trash goes when its time is over, and only once a
plan of what stands now has nothing against it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from prune.control import record
from prune.control.record import THINNED, Withdrawal
from prune.control.tombstones import Tombstone
from prune.deletion import trash
from prune.inventory.site import OpenReplica, Site
from prune.model import RunPlan
from prune.settings.schema import DAY

CONFLICT_KEPT_NS = 7 * DAY  # what cannot go back to where it was waits this long for a person
Where = tuple[OpenReplica, Withdrawal]
REPAIRED = "repaired"  # why a damaged copy went: a good one took its place


@dataclass
class Recovered:
    """What was put back, what was finished, and what could not be."""

    back: list[tuple[int, str]] = field(default_factory=list)
    purged: list[tuple[int, str]] = field(default_factory=list)
    failed: list[tuple[int, str, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.back or self.purged or self.failed)

    def add(self, more: Recovered) -> None:
        """Takes in what was settled afterwards."""
        self.back += more.back
        self.purged += more.purged
        self.failed += more.failed


def recover(site: Site, *, now_ns: int) -> Recovered:
    """Settles every withdrawal of the run that a dead pass left open. The locks are held."""
    result = Recovered()
    for together in _by_id(site).values():
        died = any(withdrawal.state == "intent" or _unlooked(withdrawal) for _, withdrawal in together)
        for where in together:
            _settle(where, result, died, now_ns=now_ns, repaired_ns=site.run.guards.repaired)
    for replica in site.replicas:
        _tidy(replica, result)
    return result


def _settle(where: Where, result: Recovered, died: bool, *, now_ns: int, repaired_ns: int) -> None:
    withdrawal = where[1]
    if withdrawal.state == "purging":
        _finish(where, result)
    elif died and withdrawal.why == REPAIRED:
        _repaired(where, result, now_ns, repaired_ns)
    elif died:
        _back(where, result, now_ns)


def finish_due(site: Site, plan: RunPlan, held: Collection[int], *, now_ns: int) -> Recovered:
    """Purges what has waited in the trash for its time. The plan is that of what stands now, and blocks nothing.

    What was pinned or leased meanwhile (``held``), or is not what went in, comes back. While nothing that stands can
    be resumed from, the trash keeps what it holds.
    """
    result = Recovered()
    for together in _by_id(site).values():
        if not all(withdrawal.state == "withdrawn" and _due(withdrawal, now_ns) for _, withdrawal in together):
            continue
        if together[0][1].step in held or any(trash.misfit(*where) for where in together):
            for where in together:
                _back(where, result, now_ns)
        elif plan.resume_candidate is not None:
            for where in together:
                _finish(where, result)
    for replica in site.replicas:
        _tidy(replica, result)
    return result


def _by_id(site: Site) -> dict[str, list[Where]]:
    found: dict[str, list[Where]] = {}
    for replica in site.replicas:
        if replica.usable and replica.control is not None:
            for withdrawal in replica.control.trashed():
                found.setdefault(withdrawal.id, []).append((replica, withdrawal))
    return found


def _due(withdrawal: Withdrawal, now_ns: int) -> bool:
    return withdrawal.until_ns is None or withdrawal.until_ns <= now_ns


def _unlooked(withdrawal: Withdrawal) -> bool:
    """Killed before anything was to be purged: what is to wait in the trash has a time until which it waits."""
    return withdrawal.state == "withdrawn" and withdrawal.until_ns is None


def _back(where: Where, result: Recovered, now_ns: int) -> None:
    replica, withdrawal = where
    assert replica.control is not None
    if _step_is_gone(replica, withdrawal):
        _keep_for_a_person(where, result, now_ns)
        return
    trouble = trash.put_back(replica, withdrawal)
    if trouble is not None:
        result.failed.append((withdrawal.step, replica.name, trouble))
    try:
        if trouble is not None:
            not_back(where, now_ns)
            return
        replica.control.append_record(record.back_line(withdrawal.id))
        replica.control.lift(stones_of(replica, withdrawal))
    except OSError as error:
        result.failed.append((withdrawal.step, replica.name, f"{replica.control.path}: {error.strerror}"))
        return
    result.back.append((withdrawal.step, replica.name))


def not_back(where: Where, now_ns: int) -> None:
    """The record learns what becomes of a copy that could not be put back. Raises OSError.

    Where its name was taken meanwhile it waits for a person. Any other trouble may pass: the next pass tries again.
    """
    replica, withdrawal = where
    assert replica.control is not None
    until = now_ns + CONFLICT_KEPT_NS if trash.in_the_way(replica, withdrawal) else None
    replica.control.append_record(record.withdrawn_line(withdrawal.id, until))


def _step_is_gone(replica: OpenReplica, withdrawal: Withdrawal) -> bool:
    """Whether parts of a step have nowhere to come back to: somebody took the step itself since."""
    assert replica.root is not None
    if withdrawal.why != THINNED:
        return False
    try:
        return not any(replica.root.exists(folder) for folder, _ in withdrawal.folders)
    except OSError:
        return False


def _keep_for_a_person(where: Where, result: Recovered, now_ns: int) -> None:
    replica, withdrawal = where
    assert replica.control is not None
    try:
        replica.control.append_record(record.withdrawn_line(withdrawal.id, now_ns + CONFLICT_KEPT_NS))
    except OSError as error:
        result.failed.append((withdrawal.step, replica.name, f"{replica.control.path}: {error.strerror}"))


def _repaired(where: Where, result: Recovered, now_ns: int, repaired_ns: int) -> None:
    """A repair that died before its end.

    Its name shows the old copy or the new one, and what lies in the trash is the other: it waits there for its time.
    Where the name shows nothing, the old copy returns.
    """
    replica, withdrawal = where
    assert replica.control is not None
    try:
        if trash.in_the_way(replica, withdrawal):
            replica.control.append_record(record.withdrawn_line(withdrawal.id, now_ns + repaired_ns))
            return
    except OSError as error:
        result.failed.append((withdrawal.step, replica.name, f"{replica.control.path}: {error.strerror}"))
        return
    _back(where, result, now_ns)


def _finish(where: Where, result: Recovered) -> None:
    replica, withdrawal = where
    assert replica.control is not None
    try:
        replica.control.append_record(record.purging_line(withdrawal.id))
        purged = trash.purge(replica, withdrawal)
        if purged.error is not None:
            result.failed.append((withdrawal.step, replica.name, purged.error))
            return
        replica.control.append_record(record.purged_line(withdrawal.id), sync=False)
    except OSError as error:
        result.failed.append((withdrawal.step, replica.name, f"{replica.control.path}: {error.strerror}"))
        return
    result.purged.append((withdrawal.step, replica.name))


def stones_of(replica: OpenReplica, withdrawal: Withdrawal) -> list[Tombstone]:
    """The tombstones that a withdrawal set."""
    assert replica.control is not None
    names = {path for path, _ in withdrawal.moves}
    return [s for s in replica.control.tombstones() if s.name in names and s.step == withdrawal.step]


def _tidy(replica: OpenReplica, result: Recovered) -> None:
    """Empties a record on which nothing is open any more."""
    if not replica.usable or replica.control is None:
        return
    try:
        found = replica.control.withdrawals()
        if found and not record.open_ones(found):
            replica.control.clear_record()
    except OSError as error:
        result.failed.append((-1, replica.name, f"{replica.control.path}/record: {error.strerror}"))
