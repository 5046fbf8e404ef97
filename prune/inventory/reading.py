"""One replica's listing: read once, complete or a block."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from prune.control import Control
from prune.inventory.gathering import Gathering
from prune.inventory.listing import Listing, group, lost
from prune.inventory.opening import read_space
from prune.inventory.site import OpenReplica
from prune.layouts.base import Layout
from prune.layouts.listing import Listing as Claims
from prune.layouts.listing import read_root
from prune.model import Attention, Block, Temporary

if TYPE_CHECKING:
    from prune.stores.object.root import ObjectRoot


def list_replica(work: Gathering, replica: OpenReplica) -> None:
    site, root = work.site, replica.root
    if root is None or any(block.block != "control-unusable" for block in replica.trouble):
        return
    if site.layout is None:
        replica.listing = Listing({}, [], 0) if not site.blocks else None
        return
    try:
        base = site.base if not site.base or root.exists(site.base) else ""
        found = read_root(site.layout, root, base, now_ns=work.now_ns, fresh_ns=work.fresh_ns)
    except OSError as error:
        replica.block("listing-incomplete", f"{error.filename or replica.settings.root}: {error.strerror}")
        return
    replica.listing = group(found)
    if replica.in_store:
        _as_in_a_store(work, replica)
    elif replica.control is not None and any(len(claims) > 1 for claims in replica.listing.steps.values()):
        replica.listing = replace(replica.listing, lost=_lost(site.layout, replica.control, found))
    collision = site.layout.collisions(found.view.claims)
    if collision is not None:
        site.blocks.append(
            Block("layout-ambiguous", replica.name, f"{collision}; move one of them away, or name the run's names with "
                  'layout = "custom" and a pattern')
        )  # fmt: skip


def _lost(layout: Layout, control: Control, found: Claims) -> dict[int, list[str]]:
    try:
        return lost(layout, found.view.claims, control.manifest_names())
    except OSError:
        return {}  # that manifests cannot be listed is told where they are read


def _as_in_a_store(work: Gathering, replica: OpenReplica) -> None:
    """What is withdrawn there still stands under its names, and is no copy any more; what is left of its budget."""
    from prune.stores.object.control import as_objects
    from prune.stores.object.hidden import hidden
    from prune.stores.object.root import in_store

    root, control, listing = in_store(replica.root), as_objects(replica.control), replica.listing
    assert root is not None
    assert listing is not None
    replica.uploads = _uploads(work, replica, root)
    try:
        read_space(replica)
        if control is not None:
            steps = {step: [claim.path for claim in claims] for step, claims in listing.steps.items()}
            for step in hidden(root, control, steps, since_ns=work.now_ns - work.site.run.guards.orphans):
                del listing.steps[step]
    except ValueError as error:
        replica.block("control-unusable", f"{control.path if control else replica.settings.root}: {error}")
    except OSError as error:
        replica.block("listing-incomplete", f"{error.filename or replica.settings.root}: {error.strerror}")
    if root.keeps_versions():
        work.site.attention.append(
            Attention("versioned", replica.name, f"the bucket of {replica.settings.root} keeps versions: what is "
                      "deleted frees nothing yet", "let a lifecycle rule of the bucket expire those not current")
        )  # fmt: skip


def _uploads(work: Gathering, replica: OpenReplica, root: ObjectRoot) -> list[Temporary]:
    """What was begun to be uploaded in parts and takes up room unseen."""
    from prune.stores.object.uploads import as_temporaries

    try:
        return as_temporaries(root, replica.name)
    except OSError as error:
        detail = f"unfinished uploads to {replica.settings.root} cannot be listed: {error.strerror}"
        mend = "allow this user to list them, or let a lifecycle rule of the bucket end them"
        work.site.attention.append(Attention("uploads", replica.name, detail, mend))
        return []
