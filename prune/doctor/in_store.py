"""One replica in an object store, examined: whether it answers, keeps to conditions, keeps versions, and its clock."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from prune.doctor.probes import Finding
from prune.model import SECOND
from prune.settings.schema import ReplicaSettings
from prune.settings.units import format_duration, format_size
from prune.stores.object.credentials import static_keys
from prune.stores.object.delete import refuses_another
from prune.stores.object.root import ObjectRoot

_SKEW_NS = 60 * SECOND


def examine(replica: ReplicaSettings) -> list[Finding]:
    """Every finding; writes one key below the control folder's and takes it away again. Never raises for the store."""
    root = ObjectRoot(replica.root)
    try:
        root.reach()
    except OSError as error:
        means = "a required replica that cannot be reached blocks every delete of its run"
        return [Finding("reach", "bad", f"{error.filename}: {error.strerror}", means)]
    found = [Finding("reach", "ok", "the store answers", "it can be listed"), _room(replica)]
    with contextlib.closing(root):
        return [*found, *_probed(root), *_uploads(root)]


def _room(replica: ReplicaSettings) -> Finding:
    if replica.capacity is None:
        means = 'none, and nothing waits for room; capacity = "10TB" gives it a budget'
        return Finding("free-space", "ok", "a bucket has none of its own", means)
    means = "room is what is left of it"
    return Finding("free-space", "ok", f"a budget of {format_size(replica.capacity)}", means)


def _probed(root: ObjectRoot) -> Iterator[Finding]:
    path = f".prune/doctor-{os.urandom(4).hex()}"
    try:
        root.write_new(path, b"first")
        began = time.time_ns()
        yield _clock(root.object(path).modified_ns - began)
        yield _conditions(root, path)
        yield _versions(root)
        yield _deletes(root, path)
        with contextlib.suppress(FileNotFoundError):
            root.unlink(path)
    except OSError as error:
        means = "nothing can be pruned or mirrored here; plans, verify and resume work"
        yield Finding("write", "attention", f"{error.filename}: {error.strerror}", means)
        with contextlib.suppress(OSError):
            root.unlink(path)


def _clock(skew_ns: int) -> Finding:
    if abs(skew_ns) <= _SKEW_NS:
        return Finding("clock", "ok", "its clock and ours agree", "ages are what they seem")
    found = f"its clock is {format_duration(abs(skew_ns))} {'ahead' if skew_ns > 0 else 'behind'}"
    return Finding("clock", "attention", found, "the smaller of two ages counts, so that deleting waits longer")


def _conditions(root: ObjectRoot, path: str) -> Finding:
    try:
        root.write_new(path, b"second")
    except FileExistsError:
        return Finding("conditions", "ok", "it keeps to the conditions of writes", "one deleter at a time can be had")
    means = "no lock can be held here: every delete is blocked as control-unusable"
    return Finding("conditions", "bad", "it writes over what is there although told not to", means)


def _deletes(root: ObjectRoot, path: str) -> Finding:
    if refuses_another(root, root.object(path)):
        return Finding(
            "deletes", "ok", "it keeps to the conditions of deletes", "what is uploaded again meanwhile stays"
        )
    means = "what is uploaded under a victim's name while it is being deleted, within a request's time, goes with it"
    return Finding("deletes", "attention", "it deletes whatever stands under a name", means)


def _versions(root: ObjectRoot) -> Finding:
    if root.bucket.versioned:
        means = "what is deleted frees nothing until a lifecycle rule lets versions expire"
        return Finding("versions", "attention", "the bucket keeps versions", means)
    return Finding("versions", "ok", "the bucket keeps no versions", "what is deleted is gone, and frees its room")


def _uploads(root: ObjectRoot) -> Iterator[Finding]:
    if root.address.scheme == "s3" and static_keys() is None:
        means = "what nobody finished uploading takes up room: a lifecycle rule of the bucket can end it"
        yield Finding("uploads", "attention", "unfinished ones cannot be listed with a role's keys", means)
