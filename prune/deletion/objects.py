"""The way out of an object store, for passes that know copies and withdrawals: imported where one is met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prune.control.record import Withdrawal
from prune.inventory.site import OpenReplica
from prune.model import Identity
from prune.stores.base import FileStat
from prune.stores.pace import Measured

if TYPE_CHECKING:
    from prune.deletion.trash import Purged
    from prune.stores.object.control import ObjectControl
    from prune.stores.object.root import ObjectRoot


def look(replica: OpenReplica, withdrawals: Sequence[Withdrawal]) -> list[Measured]:
    """What stands under the names of each withdrawal now; exactly that may be purged afterwards."""
    from prune.stores.object.look import look

    return look(*_store(replica), withdrawals)


def purge(replica: OpenReplica, withdrawals: Sequence[Withdrawal]) -> dict[str, Purged]:
    """Deletes withdrawals in bulk; how each ended, by id. Never raises."""
    from prune.deletion.trash import Purged
    from prune.stores.object import delete

    ended = delete.purge(*_store(replica), withdrawals)
    return {id: Purged(gone.files, gone.error) for id, gone in ended.items()}


def delete_orphan(replica: OpenReplica, path: str, planned: Identity) -> bool:
    """Deletes a temporary that is still exactly what was planned, or ends an upload; whether it did. Raises OSError."""
    from prune.stores.object import delete, uploads

    root = _store(replica)[0]
    if not uploads.is_upload(path):
        return delete.delete_orphan(root, path, planned)
    uploads.abort(root, path)
    return True


def stat_now(replica: OpenReplica, path: str) -> FileStat:
    """An object as it is now, whatever a listing remembers. Raises OSError."""
    from prune.stores.object.tree import status_of

    root = _store(replica)[0]
    return status_of(path, root.object(path), root.dev)


def frees_nothing_yet(replica: OpenReplica) -> bool:
    """Whether the bucket keeps versions, so that what is deleted takes up room until they expire."""
    return replica.in_store and _store(replica)[0].bucket.versioned


def _store(replica: OpenReplica) -> tuple[ObjectRoot, ObjectControl]:
    from prune.stores.object.control import as_objects
    from prune.stores.object.root import in_store

    root, control = in_store(replica.root), as_objects(replica.control)
    assert root is not None
    assert control is not None
    return root, control
