"""A disk so full that not even the control folder can be made: lone files go one by one until it can.

Unlinking one file is as atomic as renaming it, and needs neither a block nor an inode. What is a directory, or
several files, stays until there is room to withdraw it first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator

from prune import guards
from prune.deletion.locks import make_controls
from prune.deletion.survivors import gone_or_another
from prune.inventory.copies import listed_copy
from prune.inventory.site import Site
from prune.model import Block, Copy, DeletedCopy, Kind, RunPlan, StepPlan


def relieve(site: Site, plan: RunPlan, keep_going: Callable[[], bool]) -> tuple[list[DeletedCopy], list[Block]]:
    """Deletes lone files among the plan's victims, oldest first, until every control folder can be made.

    Returns what was deleted and the blocks that remain.
    """
    deleted: list[DeletedCopy] = []
    with _roots_locked(site) as locked:
        if not locked:
            return deleted, [Block("locked", None, "another process holds a root; wait for it with --wait")]
        for step in plan.victims:
            blocks = make_controls(site, spare_blank=True)
            if not blocks or not keep_going() or gone_or_another(site, plan.steps) is not None:
                return deleted, blocks
            if _lone_files(site, step) and all(_unchanged(site, copy) for copy in step.copies):
                deleted += _unlink(site, step)
    return deleted, make_controls(site, spare_blank=True)


def is_full(block: Block) -> bool:
    """Whether a control folder could not be made for want of room."""
    return any(os.strerror(code) in block.detail for code in (errno.ENOSPC, errno.EDQUOT))


@contextlib.contextmanager
def _roots_locked(site: Site) -> Iterator[bool]:
    """A BSD lock on each root directory itself: all there is where no lock file can be made."""
    held = [replica.root.fd for replica in site.replicas if replica.root is not None and not replica.in_store]
    try:
        for fd in held:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        for fd in held:
            fcntl.flock(fd, fcntl.LOCK_UN)


def _lone_files(site: Site, step: StepPlan) -> bool:
    for copy in step.copies:
        root = site.by_name(copy.replica).root
        if root is None or len(copy.paths) != 1:
            return False
        try:
            if root.stat(copy.paths[0]).kind is not Kind.FILE:
                return False
        except OSError:
            return False
    return True


def _unchanged(site: Site, copy: Copy) -> bool:
    replica = site.by_name(copy.replica)
    if site.layout is None or replica.listing is None:
        return False
    now = listed_copy(replica, site.layout, copy.step, replica.listing.steps.get(copy.step, ()))
    return now is not None and guards.changed(copy, now) is None


def _unlink(site: Site, step: StepPlan) -> list[DeletedCopy]:
    """Mirrors before the primary; an error leaves the rest of the step for the pass proper."""
    deleted = []
    for copy in sorted(step.copies, key=lambda c: c.replica == site.primary.name):
        replica = site.by_name(copy.replica)
        assert replica.root is not None
        try:
            replica.root.unlink(copy.paths[0])
            replica.root.fsync(os.path.dirname(copy.paths[0]))
        except OSError:
            break
        if replica.listing is not None:
            replica.listing.steps.pop(copy.step, None)
        deleted.append(DeletedCopy(copy.step, copy.replica, copy.bytes or 0, 1, True))
    return deleted
