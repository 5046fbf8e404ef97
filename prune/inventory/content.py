"""The health of one copy by reading all of it."""

from __future__ import annotations

from dataclasses import replace

from prune.inventory.judging import manifest_of, members_of
from prune.inventory.site import OpenReplica
from prune.layouts.base import Layout
from prune.model import Copy, Health, Identity, Verdict


def content_verdict(replica: OpenReplica, layout: Layout, copy: Copy) -> tuple[Verdict, Identity]:
    """What a full read of a copy says, and the identity it was read under. What cannot be read is ``unknown``."""
    from prune.integrity.content import check_content

    assert replica.root is not None
    try:
        members, total, first, _ = members_of(replica.root, copy)
        identity = total.identity(first)
        verdict = _seen_before(copy, identity) or layout.examine(members, replica.root)
        if verdict.health.restorable:
            manifest, _trouble = manifest_of(replica, copy)
            verdict = check_content(members, replica.root, manifest=manifest, known=verdict)
        return verdict, identity
    except OSError as error:
        return Verdict(Health.UNKNOWN, f"{error.filename or copy.paths[0]}: {error.strerror}"), copy.identity


def _seen_before(copy: Copy, identity: Identity) -> Verdict | None:
    """What the look at its structure said of exactly these files, so that they are not all opened once more."""
    same = copy.measured and copy.identity == identity
    return Verdict(copy.health) if same and copy.health in (Health.WHOLE, Health.UNVERIFIED) else None


def checked(copy: Copy, verdict: Verdict, identity: Identity, now_ns: int) -> Copy:
    """The copy with what a full read said of it, unless it changed under the reader's eyes."""
    if identity != copy.identity:
        return replace(copy, health=Health.UNKNOWN, detail="it changed while it was read", verified_ns=None)
    verified = now_ns if verdict.health is Health.INTACT else None
    return replace(copy, health=verdict.health, detail=verdict.detail, verified_ns=verified)
