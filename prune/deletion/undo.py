"""What a person does about the trash and the volumes: put back, empty now, accept a new volume."""

from __future__ import annotations

from dataclasses import dataclass, field

from prune.control import record
from prune.control.holds import held_steps
from prune.control.record import THINNED, Withdrawal
from prune.control.volume import Held, Peer, Volume, new_id
from prune.deletion import trash
from prune.deletion.locks import Locks, make_controls, take
from prune.deletion.recovery import stones_of
from prune.deletion.turns import take_turn
from prune.errors import Blocked, Failed, UsageError
from prune.inventory.opening import look_afresh, open_control, open_site
from prune.inventory.site import OpenReplica, Site
from prune.journal import Event, Journal
from prune.journal.own import marking
from prune.model import Pin
from prune.settings.schema import RunSettings

Where = tuple[OpenReplica, Withdrawal]


@dataclass
class Settled:
    """What was put back or purged, copy by copy, and what could not be."""

    done: list[tuple[int, str, int]] = field(default_factory=list)  # step, replica, bytes
    failed: list[tuple[int, str, str]] = field(default_factory=list)
    away: list[tuple[str, str]] = field(default_factory=list)  # replicas whose trash could not be looked at, and why


def undo(run: RunSettings, plan_id: str | None, *, now_ns: int, wait_ns: int, journal: Journal) -> Settled:
    """Puts back what is still in the trash (of one plan, or all that was pruned), pins it, and lifts its tombstones.

    Raises Blocked when another pass holds a lock or a control folder cannot be used.
    """
    result = Settled()
    with open_site(run) as site, Locks() as locks:
        journal = marking(journal, site)
        _lock(site, locks, journal, wait_ns)
        result.away = _away(site)
        for replica, withdrawal in reversed(_trashed(site)):  # a step is back before what was taken out of it is
            wanted = withdrawal.plan == plan_id if plan_id is not None else withdrawal.why in ("pruned", THINNED)
            if wanted and withdrawal.state != "purging":
                _restore((replica, withdrawal), result, now_ns)
    _record(journal, run, "undone", result, plan_id, now_ns)
    return result


def purge(run: RunSettings, *, now_ns: int, wait_ns: int, journal: Journal) -> Settled:
    """Empties the trash of every replica now. Raises Blocked as ``undo`` does."""
    result = Settled()
    with open_site(run) as site, Locks() as locks:
        journal = marking(journal, site)
        _lock(site, locks, journal, wait_ns)
        result.away = _away(site)
        held = _held(site, now_ns)
        for replica, withdrawal in _trashed(site):
            if withdrawal.step in held and withdrawal.state != "purging":
                result.failed.append((withdrawal.step, replica.name, "is pinned or leased: `prune undo` puts it back"))
            else:
                _empty((replica, withdrawal), result)
        for replica in site.replicas:
            _sweep_unrecorded(replica, result)
    _record(journal, run, "purged", result, None, now_ns)
    return result


def adopt(run: RunSettings, name: str, *, now_ns: int, wait_ns: int, journal: Journal) -> str:
    """Accepts a volume as new: it gets an identity of its own and counts as empty. Returns its id.

    Raises UsageError for an unknown replica, Blocked when a lock is held, Failed when it cannot be written.
    """
    if name not in {replica.name for replica in run.replicas}:
        known = ", ".join(replica.name for replica in run.replicas)
        raise UsageError(f"run {run.name} has no replica {name!r}", mend=f"it has: {known}")
    with open_site(run) as site, Locks() as locks:
        journal = marking(journal, site)
        adopted = site.by_name(name)
        if adopted.root is None:
            raise Blocked(f"{adopted.settings.root} cannot be opened", mend="mount it first, then adopt it",
                          block="replica-unreachable", replica=adopted.name)  # fmt: skip
        _lock(site, locks, journal, wait_ns, whatever=True)
        volume = Volume(new_id(), adopted.settings.role)
        try:
            for replica in site.replicas:
                if replica.control is None:
                    continue
                if replica is adopted:
                    replica.control.write_volume(volume)
                elif replica.volume is not None:
                    peers = {**replica.volume.peers, name: Peer(volume.id, Held())}
                    replica.control.write_volume(
                        Volume(replica.volume.id, replica.volume.role, replica.volume.held, peers)
                    )
        except OSError as error:
            raise Failed(f"{error.filename}: {error.strerror}") from error
    journal.add([Event(now_ns, run.name, "adopted", replica=name, data={"id": volume.id})])
    return volume.id


def _lock(site: Site, locks: Locks, journal: Journal, wait_ns: int, *, whatever: bool = False) -> None:
    """Opens the control folders and takes the locks, without judging what the volumes hold."""
    look_afresh(site)
    if site.layout is None:
        from prune.inventory.recognising import find_layout

        find_layout(site)
    open_control(site, site.layout)
    if whatever:
        for replica in site.replicas:
            replica.trouble = [block for block in replica.trouble if "volume.json" not in block.detail]
    blocks = make_controls(site) if whatever else []
    block = blocks[0] if blocks else take_turn(locks, journal, site.run.name, wait_ns=wait_ns)
    block = block or take(site, locks, wait_ns=wait_ns)
    if block is not None:
        said = f"{block.replica}: {block.detail}" if block.replica else block.detail
        raise Blocked(said, block=block.block, replica=block.replica)


def _away(site: Site) -> list[tuple[str, str]]:
    return [(replica.name, replica.trouble[0].detail) for replica in site.replicas if replica.trouble]


def _held(site: Site, now_ns: int) -> set[int]:
    """Steps that are pinned or leased on any replica. Raises Blocked where that cannot be read."""
    found: set[int] = set()
    for replica in site.replicas:
        if replica.control is None or replica.trouble:
            continue
        try:
            found |= held_steps(replica.control.pins(""), replica.control.leases(""), now_ns)
        except (OSError, ValueError) as error:
            raise Blocked(f"{replica.name}: {error}", block="pins-unreadable", replica=replica.name) from error
    return found


def _trashed(site: Site) -> list[Where]:
    return [(r, w) for r in site.replicas if r.control is not None and not r.trouble for w in r.control.trashed()]


def _restore(where: Where, result: Settled, now_ns: int) -> None:
    replica, withdrawal = where
    assert replica.control is not None
    trouble = trash.put_back(replica, withdrawal)
    try:
        if trouble is None:
            pin = Pin(withdrawal.step, f"put back by undo of {withdrawal.plan}", "undo", now_ns)
            replica.control.write_pin(pin)
            replica.control.append_record(record.back_line(withdrawal.id))
            replica.control.lift(stones_of(replica, withdrawal))
    except OSError as error:
        trouble = f"{replica.control.path}: {error.strerror}"
    _note(result, where, trouble)


def _empty(where: Where, result: Settled) -> None:
    replica, withdrawal = where
    assert replica.control is not None
    try:
        replica.control.append_record(record.purging_line(withdrawal.id))
        trouble = trash.purge(replica, withdrawal).error
        if trouble is None:
            replica.control.append_record(record.purged_line(withdrawal.id), sync=False)
    except OSError as error:
        trouble = f"{replica.control.path}: {error.strerror}"
    _note(result, where, trouble)


def _sweep_unrecorded(replica: OpenReplica, result: Settled) -> None:
    """What lies in the trash without a record: a person asked for it to be emptied."""
    if replica.control is None or replica.trouble:
        return
    try:
        recorded = {name for withdrawal in replica.control.trashed() for _, name in withdrawal.moves}
        for name in replica.control.trash_names():
            if name not in recorded:
                replica.control.folder.remove(f"trash/{name}")
        if not replica.control.trashed():
            replica.control.clear_record()
    except OSError as error:
        result.failed.append((-1, replica.name, f"{replica.control.path}/trash: {error.strerror}"))


def _note(result: Settled, where: Where, trouble: str | None) -> None:
    replica, withdrawal = where
    if trouble is None:
        result.done.append((withdrawal.step, replica.name, withdrawal.bytes))
    else:
        result.failed.append((withdrawal.step, replica.name, trouble))


def _record(journal: Journal, run: RunSettings, kind: str, result: Settled, plan_id: str | None, now_ns: int) -> None:
    journal.add([Event(now_ns, run.name, kind, step, replica, plan_id, {"bytes": size}) for step, replica, size
                 in result.done])  # fmt: skip
