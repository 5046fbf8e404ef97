"""Temporaries of dead writers: the same way out as a step, after a last look at each."""

from __future__ import annotations

import secrets

from prune.control import record
from prune.control.record import Withdrawal
from prune.deletion import trash
from prune.deletion.sweep import Tally
from prune.inventory.site import OpenReplica, Site
from prune.model import Decision, FailedCopy, Identity, OrphanPlan, RunPlan
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


def _delete(replica: OpenReplica, orphan: OrphanPlan, plan_id: str, now_ns: int) -> int | None:
    """Bytes freed, None when it is no longer the orphan that was planned."""
    assert replica.root is not None
    assert replica.control is not None
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
