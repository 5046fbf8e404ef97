"""Whether the trainer deletes checkpoints, too: two janitors in one house."""

from __future__ import annotations

from prune.doctor.probes import Finding
from prune.inventory.opening import open_site
from prune.inventory.recognising import find_layout
from prune.layouts.listing import read_root
from prune.layouts.rotation import Rotation
from prune.settings.schema import Keep, RunSettings

CHECK = "trainer-rotates"


def other_janitor(run: RunSettings) -> list[Finding]:
    """What is known of the trainer's own rotation on the primary; nothing where no file there tells."""
    with open_site(run) as site:
        find_layout(site)
        root = site.primary.root
        if site.layout is None or root is None:
            return []
        try:
            listed = read_root(site.layout, root, site.base, now_ns=0, fresh_ns=0)
            found = site.layout.rotation(listed.view)
        except OSError as error:
            return [Finding(CHECK, "attention", f"could not be told: {error.strerror}", "look into its settings")]
    return [] if found is None else [_judged(found, run.keep)]


def _judged(found: Rotation, keep: Keep) -> Finding:
    if found.keeps is None:
        return Finding(CHECK, "ok", f"{found.setting} keeps all ({found.path})", "this policy alone deletes")
    said = f"{found.setting} = {found.keeps} ({found.path})"
    more = _keeps_more_than_last(keep)
    if found.keeps > keep.last and not more:
        return Finding(CHECK, "ok", said, f"the trainer keeps more than keep.last = {keep.last}: this policy is first")
    wanted = f"steps that keep.{more} wants" if more else f"what keep.last = {keep.last} counts on"
    means = f"two janitors: the trainer deletes {wanted}; let it keep all, and leave deleting to this policy"
    return Finding(CHECK, "attention", said, means)


def _keeps_more_than_last(keep: Keep) -> str | None:
    """A rule that keeps steps older than the newest N, which a trainer's rotation knows nothing of."""
    rules = ("every", "every_time", "within", "hourly", "daily", "weekly", "best")
    return next((name for name in rules if getattr(keep, name) is not None), None)
