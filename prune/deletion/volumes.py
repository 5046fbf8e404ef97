"""``volume.json`` kept true: who each volume is, what it holds, and the same of its peers."""

from __future__ import annotations

from collections.abc import Mapping

from prune.control.volume import Held, Peer, Volume, new_id
from prune.inventory.site import OpenReplica, Site
from prune.model import Attention


def volumes_to_write(site: Site) -> dict[str, Volume]:
    """The volume records that no longer say what is there."""
    usable = [r for r in site.replicas if r.usable and not r.blank]
    ids = {r.name: r.volume.id if r.volume else None for r in usable}
    held = {r.name: _held(r.listing.steps if r.listing else {}) for r in usable}
    found = {}
    for replica in usable:
        peers = dict(replica.volume.peers) if replica.volume else {}
        peers |= {name: Peer(id, held[name]) for name, id in ids.items() if name != replica.name and id is not None}
        wanted = Volume(ids[replica.name] or "", replica.settings.role, held[replica.name], peers)
        if wanted != replica.volume or None in ids.values():
            found[replica.name] = wanted
    return found


def _held(steps: Mapping[int, object]) -> Held:
    return Held(len(steps), max(steps, default=None))


def write_volumes(site: Site) -> list[Attention]:
    """Tells every volume who it is, what it holds, and the same of its peers.

    An id is on its own disk before any other volume speaks of it: else a pass cut short in between would leave a
    volume that seems to have lost its identity.
    """
    named = [r for r in site.replicas if r.usable and r.control is not None and r.volume is None]
    notes = [_write_volume(replica, Volume(new_id(), replica.settings.role)) for replica in named]
    notes += [_write_volume(site.by_name(name), volume) for name, volume in volumes_to_write(site).items()]
    return [note for note in notes if note is not None]


def _write_volume(replica: OpenReplica, volume: Volume) -> Attention | None:
    if replica.control is None or not volume.id:
        return None
    try:
        replica.control.write_volume(volume)
    except OSError as error:
        return Attention(
            "state", replica.name, f"{replica.control.path}/volume.json: {error.strerror}",
            "a volume that comes back empty may not be recognised until this can be written",
        )  # fmt: skip
    replica.volume = volume
    return None
