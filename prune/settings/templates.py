"""One table for a whole fleet: ``primary = "/lustre/ckpt/{run}"``, each directory that fits is a run.

Hidden names never are runs, and neither are links: a ``latest`` beside the runs would be one of them twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile

from prune.errors import Blocked
from prune.settings.roots import is_url
from prune.settings.schema import ReplicaSettings, RunSettings

PLACE = "{run}"


def is_template(root: str) -> bool:
    return PLACE in root


def check(primary: str, mirrors: list[str]) -> None:
    """Raises ValueError with the rest of a sentence where a template cannot be meant."""
    if is_url(primary) and is_template(primary):
        raise ValueError("{run} can only be looked up on a local primary; name the runs one by one")
    if primary.count(PLACE) > 1:
        raise ValueError("{run} may stand in it once")
    for mirror in mirrors:
        if is_template(primary) != is_template(mirror):
            raise ValueError(f"the primary and the mirror {mirror} must both hold {{run}}, or neither")


def standing_for(roots: Iterable[str]) -> str | None:
    """The template that all of these directories fit; None where they differ in more than one part of their paths.

    What the differing names begin with stays in it down to its last separator, so that ``version_7`` fits tomorrow.
    """
    split = [root.split("/") for root in roots]
    if len(split) < 2 or len({len(parts) for parts in split}) > 1:
        return None
    differing = [at for at, names in enumerate(zip(*split, strict=True)) if len(set(names)) > 1]
    if len(differing) != 1 or any(is_template(root) for root in map("/".join, split)):
        return None
    at = differing[0]
    first, last = min(parts[at] for parts in split), max(parts[at] for parts in split)
    common = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    prefix = common[: max(common.rfind(sign) for sign in "_-.") + 1]
    return "/".join([*split[0][:at], prefix + PLACE, *split[0][at + 1 :]])


def matches(run: RunSettings) -> Iterator[RunSettings]:
    """The runs that a template stands for, by name. Raises Blocked when its directory cannot be listed."""
    for found in sorted(_names(run.primary.root)):
        yield replace(
            run,
            name=_named(run.name, found),
            replicas=tuple(_filled(replica, found) for replica in run.replicas),
        )


def _names(template: str) -> Iterator[str]:
    before, _, after = template.partition(PLACE)
    folder, prefix = os.path.split(before)
    suffix, slash, below = after.partition("/")
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                fits = name.startswith(prefix) and name.endswith(suffix) and len(name) > len(prefix) + len(suffix)
                if not fits or name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                    continue
                if not slash or os.path.isdir(os.path.join(folder, name, below)):
                    yield name[len(prefix) : len(name) - len(suffix)]
    except OSError as error:
        raise Blocked(
            f"the runs of {template} cannot be listed: {folder}: {error.strerror}",
            mend="Mount it or mend its permissions; what cannot be listed is not taken as empty.",
        ) from None


def _named(name: str, found: str) -> str:
    """The run's own name: what matched, within the configured name where there is one."""
    if is_template(name):
        return name.replace(PLACE, found)
    return f"{name}-{found}" if name else found


def _filled(replica: ReplicaSettings, found: str) -> ReplicaSettings:
    control = replica.control.replace(PLACE, found) if replica.control else None
    return replace(replica, root=replica.root.replace(PLACE, found), control=control)
