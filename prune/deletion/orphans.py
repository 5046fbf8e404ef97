"""Temporaries of dead writers: the same way out as a step, after a last look at each."""

from __future__ import annotations

import secrets

from prune.control import record
from prune.control.record import Withdrawal
from prune.deletion import objects, trash
from prune.deletion.tally import Tally
from prune.inventory.site import OpenReplica, Site
from prune.model import Decision, FailedCopy, Identity, OrphanPlan, RunPlan
from prune.publish.directory import recover_staging
from prune.stores.open_files import look
from prune.stores.pace import measure_copy

NO_STEP = -1


def sweep_orphans(site: Site, plan: RunPlan, tally: Tally, *, plan_id: str, now_ns: int) -> None:
    """Deletes the orphans that the plan deletes and that stand as they stood."""
    for orphan in plan.orphans:
        if orphan.decision is not Decision.DELETE:
            continue
        replica = site.by_name(orphan.replica)
        if not replica.usable or replica.control is None:
            continue
        try:
            bytes = _delete(replica, orphan, plan_id, now_ns)
        except FileNotFoundError:
            continue  # its writer finished, or tidied up
        except OSError as error:
            tally.failed.append(FailedCopy(NO_STEP, orphan.replica, f"{orphan.path}: {error.strerror}"))
            continue
        if bytes is not None:
            tally.orphans.append((orphan.replica, orphan.path, bytes))


def sweep_staging(site: Site, tally: Tally, *, now_ns: int) -> None:
    """Clears what dead publishers and copiers left in the control folders.

    A directory that had stepped aside for one that never came returns to its name at once; what was half built goes
    when it is as old as any other orphan, and nobody holds it open.
    """
    for replica in site.replicas:
        if not replica.usable or replica.control is None or replica.root is None:
            continue
        try:
            if next(replica.control.folder.scan("staging"), None) is None:
                continue
            recover_staging(replica.control, replica.root)
            for path, freed in _old_stages(replica, now_ns - site.run.guards.orphans):
                replica.control.folder.remove(path)
                tally.orphans.append((replica.name, f"{replica.control.path}/{path}", freed))
        except FileNotFoundError:
            continue
        except OSError as error:
            tally.failed.append(FailedCopy(NO_STEP, replica.name, f"{replica.control.path}/staging: {error.strerror}"))


def _old_stages(replica: OpenReplica, before_ns: int) -> list[tuple[str, int]]:
    """Entries of ``staging/`` that nobody has written to since, with the bytes they hold."""
    assert replica.control is not None
    folder = replica.control.folder
    held = look([f"{folder.real}/staging"])
    found = []
    for entry in folder.scan("staging"):
        measure, _ = measure_copy(folder, [entry.path])
        times = (measure.oldest_mtime_ns or 0, measure.mtime_ns or 0)
        if min(times) > 0 and max(times) < before_ns and held.holder(f"{folder.real}/{entry.path}") is None:
            found.append((entry.path, measure.freed))
    return found


def _delete(replica: OpenReplica, orphan: OrphanPlan, plan_id: str, now_ns: int) -> int | None:
    """Bytes freed, None when it is no longer the orphan that was planned."""
    assert replica.root is not None
    assert replica.control is not None
    if replica.in_store:
        return orphan.bytes if objects.delete_orphan(replica, orphan.path, orphan.identity) else None
    if _now(replica, orphan.path) != orphan.identity or look([replica.root.real]).holder(
        f"{replica.root.real}/{orphan.path}"
    ):
        return None
    name = record.opaque_name()
    gone = Withdrawal(secrets.token_hex(8), plan_id, NO_STEP, ((orphan.path, name),), orphan.identity, orphan.bytes,
                      now_ns, why="orphan")  # fmt: skip
    replica.control.append_record(record.intent_line(gone))
    replica.root.rename(orphan.path, f"trash/{name}", into=replica.control.folder)
    trash.sync_parents(replica.root, [orphan.path])
    replica.control.append_record(record.withdrawn_line(gone.id, None))
    if trash.misfit(replica, gone) is not None:
        trouble = trash.put_back(replica, gone)
        if trouble is None:
            replica.control.append_record(record.back_line(gone.id))
        return None
    replica.control.append_record(record.purging_line(gone.id))
    purged = trash.purge(replica, gone)
    if purged.error is not None:
        raise OSError(0, purged.error)
    replica.control.append_record(record.purged_line(gone.id), sync=False)
    return orphan.bytes


def _now(replica: OpenReplica, path: str) -> Identity:
    assert replica.root is not None
    measure, first = measure_copy(replica.root, [path])
    return measure.identity(first)
