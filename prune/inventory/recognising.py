"""Which layout a run is of: the one its settings name, or the one its roots show."""

from __future__ import annotations

from prune.inventory.site import Site
from prune.model import Attention, Block


def find_layout(site: Site) -> None:
    """The layout the configuration names, or the one the primary shows, or a mirror where it shows none."""
    from prune import layouts
    from prune.layouts.detect import detect, find_base

    if site.layout is not None:
        return
    name, options = site.run.layout, site.run.layout_options
    shown = []
    for replica in site.replicas:
        if replica.root is None:
            continue
        try:
            if name != "auto":
                layout = layouts.get(name, options)
                base = find_base(replica.root, layout)
                if base is not None:
                    site.layout, site.base = layout, base
                    return
                shown.append((replica, f"nothing there is named as {name} names checkpoints"))
                site.layout = site.layout or layout
                continue
            found = detect(replica.root)
        except OSError as error:
            replica.block("listing-incomplete", f"{error.filename or replica.settings.root}: {error.strerror}")
            continue
        if found.layout is not None:
            site.layout, site.base = found.layout, found.base
            return
        shown.append((replica, found.why))
        if found.rivals or found.places:
            mend = 'name one with --layout, or layout = "…" in the configuration'
            if found.places:
                mend = "or let `prune init` on it write a primary that stands for all of them"
            site.blocks.append(Block("layout-ambiguous", replica.name, f"{found.why}; {mend}"))
            return
    for replica, why in shown:
        if site.layout is None:
            site.attention.append(
                Attention("no-checkpoints", replica.name, f"{replica.settings.root}: {why}",
                          "point at the directory that holds the checkpoints, or name the layout with --layout")
            )  # fmt: skip
