"""Whether each volume is the one it was: by the ids in the control folders alone."""

from __future__ import annotations

from prune.inventory.site import OpenReplica, Site
from prune.model import Attention


def check_volumes(site: Site) -> None:
    """Adds to each replica the block it deserves: changed, or vanished."""
    for replica in site.replicas:
        if replica.root is None or replica.listing is None:
            continue
        _own_record(replica)
    _same_id_twice(site)
    for witness in site.replicas:
        if witness.volume is not None:
            _peers(site, witness)
    _left_out(site)


def _own_record(replica: OpenReplica) -> None:
    volume, listing = replica.volume, replica.listing
    assert listing is not None
    if volume is None:
        return
    if volume.role != replica.settings.role:
        replica.block(
            "volume-changed",
            f"{replica.settings.root} was the {volume.role} and is configured as the {replica.settings.role}: are the "
            f"roots swapped? If this is meant: prune adopt {replica.name}",
        )
    elif volume.held.steps > 0 and not listing.steps:
        replica.block("replica-vanished", _vanished(replica, volume.held.steps, volume.held.newest))


def _same_id_twice(site: Site) -> None:
    seen: dict[str, OpenReplica] = {}
    for replica in site.replicas:
        if replica.volume is None:
            continue
        first = seen.setdefault(replica.volume.id, replica)
        if first is not replica:
            replica.block(
                "volume-changed",
                f"{replica.settings.root} carries the identity of {first.settings.root}: its control folder was copied "
                f"from there. If it is a volume of its own: prune adopt {replica.name}",
            )


def _peers(site: Site, witness: OpenReplica) -> None:
    assert witness.volume is not None
    for name, peer in witness.volume.peers.items():
        replica = next((r for r in site.replicas if r.name == name), None)
        if replica is None or replica is witness or replica.listing is None or replica.trouble:
            continue
        found = replica.volume.id if replica.volume else None
        if found == peer.id:
            continue
        if not replica.listing.steps and peer.held.steps > 0:
            replica.block("replica-vanished", _vanished(replica, peer.held.steps, peer.held.newest))
        elif replica.listing.steps or peer.held.steps > 0:
            now = "carries another identity" if found else "has lost its identity (its control folder is gone)"
            replica.block(
                "volume-changed",
                f"{replica.settings.root} {now} since {witness.name} last saw it: another disk, or a restored one? "
                f"If this is meant: prune adopt {replica.name}",
            )


def _left_out(site: Site) -> None:
    """A mirror that the primary knows and nobody named: its copies count for nothing and stay where they are."""
    primary = site.primary
    if primary.volume is None or primary.trouble:
        return
    names = {replica.name for replica in site.replicas}
    ids = {replica.volume.id for replica in site.replicas if replica.volume is not None}
    for name, peer in sorted(primary.volume.peers.items()):
        if name not in names and peer.id not in ids and peer.held.steps > 0:
            held = f"{peer.held.steps} steps, the newest {peer.held.newest}"
            site.attention.append(
                Attention(
                    "mirror-left-out", primary.name,
                    f"the last pass knew a {name} that held {held}: it is not named now, so it counts for nothing and "
                    "nothing is deleted on it",
                    f"name it by --mirror or in the configuration; if it is gone for good: prune adopt {primary.name}",
                )
            )  # fmt: skip


def _vanished(replica: OpenReplica, steps: int, newest: int | None) -> str:
    return (
        f"{replica.settings.root} held {steps} steps (newest {newest}) and now holds none: is its disk mounted? "
        f"If it is a new, empty volume: prune adopt {replica.name}"
    )
