"""The health of one copy: its layout's verdict, its manifest, its sidecars, its age."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace

from prune.control import Control
from prune.integrity.files import sizes
from prune.integrity.manifest import Manifest, content_digest, fits, is_void, judge_by_manifest
from prune.integrity.manifest import parse as parse_manifest
from prune.inventory.copies import link_out, with_measure, without_what_is_withdrawn
from prune.inventory.leaning import leans_on
from prune.inventory.site import OpenReplica
from prune.inventory.thinning import spare_of
from prune.layouts.base import Layout, Members
from prune.model import Copy, Health, Identity, Kind, Verdict
from prune.stores.base import FileStat
from prune.stores.local import LocalRoot
from prune.stores.measure import Measure

Evidence = Callable[[str, tuple[str, ...], Identity], tuple[Verdict, int] | None]
"""What an earlier content check said of exactly these bytes, and when: (root id or path, paths, identity)."""


def no_evidence(_root: str, _paths: tuple[str, ...], _identity: Identity) -> None:
    return None


def members_of(root: LocalRoot, copy: Copy) -> tuple[Members, Measure, FileStat, list[str]]:
    """Everything in a copy with its status, the sums over it, its first entry, and the links at its top.

    What thinning took out and an object store still shows is no member, but counts in the sums: they tell this copy
    from any other.
    """
    files: dict[str, FileStat] = {}
    dirs: dict[str, FileStat] = {}
    links: list[str] = []
    total = Measure()
    first: FileStat | None = None
    for path in copy.paths:
        top = root.stat(path)
        first = first or top
        if top.kind is Kind.DIR:
            dirs[path] = top
            total.count(top)
        for entry, status in root.walk(path):
            (dirs if status.kind is Kind.DIR else files)[entry.path] = status
            total.count(status)
            if status.kind is Kind.LINK and entry.path.rpartition("/")[0] == path:
                links.append(entry.path)
    assert first is not None
    if copy.thinned and root.fd < 0:
        files, dirs = _stays(files, copy), _stays(dirs, copy)
    return Members(copy.step, copy.paths, files, dirs, bool(copy.thinned)), total, first, links


def _stays(found: dict[str, FileStat], copy: Copy) -> dict[str, FileStat]:
    return {path: status for path, status in found.items() if not _taken_out(path, copy)}


def judge(replica: OpenReplica, layout: Layout, copy: Copy, *, now_ns: int, fresh_ns: int, evidence: Evidence) -> Copy:
    """The copy measured and with its health; what cannot be looked at is ``unknown``, never ``broken``."""
    assert replica.root is not None
    try:
        members, total, first, links = members_of(replica.root, copy)
        with replica.root.at_hand():
            verdict = layout.examine(members, replica.root)
        found = without_what_is_withdrawn(replica, with_measure(copy, total, first))
    except FileNotFoundError as error:
        return replace(copy, health=Health.UNKNOWN, detail=f"changed while it was looked at: {error.filename}")
    except OSError as error:
        return replace(copy, health=Health.UNKNOWN, detail=f"{error.filename or copy.paths[0]}: {error.strerror}")
    found = replace(
        found,
        link=found.link or link_out(replica.root, links),
        weights_only=bool(copy.thinned) or layout.weights_only(members),
        spare=None if copy.thinned else spare_of(layout, members),
        leans_on=leans_on(replica.root, members),
    )
    manifest, trouble = manifest_of(replica, copy)
    upcoming = upcoming_of(replica, copy, members, alone=manifest is None)
    if upcoming is not None and (manifest is None or not fits(manifest, sizes(members))):
        manifest, trouble = upcoming, None
    if manifest is not None:
        structure, verdict = verdict, judge_by_manifest(manifest, members, verdict)
        if not is_void(manifest, members, structure):
            found = replace(found, created_at_ns=manifest.created_at_ns, content=content_digest(manifest))
    if trouble is not None and verdict.health is not Health.BROKEN:
        verdict = Verdict(Health.UNKNOWN, trouble)
    return settle_age(with_evidence(found, verdict, replica, evidence), now_ns, fresh_ns)


def with_evidence(copy: Copy, verdict: Verdict, replica: OpenReplica, evidence: Evidence) -> Copy:
    """An earlier check of the content of exactly this copy outweighs what its structure says."""
    assert replica.root is not None
    known = evidence(replica.root.real, copy.paths, copy.identity)
    if known is not None and verdict.health is not Health.UNKNOWN:
        checked, at_ns = known
        if checked.health is Health.INTACT and verdict.health.restorable:
            return replace(copy, health=Health.INTACT, detail=checked.detail, verified_ns=at_ns)
        if checked.health is Health.BROKEN:
            return replace(copy, health=Health.BROKEN, detail=checked.detail)
    return replace(copy, health=verdict.health, detail=verdict.detail)


def recalled(replica: OpenReplica, copy: Copy, evidence: Evidence, sealed: Container[str]) -> Copy:
    """A measured copy that nobody judged, with what is on record of exactly this one: its manifest's time, a check.

    ``sealed`` are the names that have a manifest.
    """
    if any(path.rpartition("/")[2] in sealed for path in copy.paths):
        manifest, _trouble = manifest_of(replica, copy)
        copy = replace(copy, created_at_ns=manifest.created_at_ns if manifest is not None else None)
    if copy.health is not None or replica.root is None:
        return copy
    known = evidence(replica.root.real, copy.paths, copy.identity)
    if known is None:
        return copy
    verdict, at_ns = known
    verified = at_ns if verdict.health is Health.INTACT else None
    return replace(copy, health=verdict.health, detail=verdict.detail, verified_ns=verified)


def settle_age(copy: Copy, now_ns: int, fresh_ns: int) -> Copy:
    """What is fresh and not positively whole is being written."""
    fresh = copy.mtime_ns is not None and copy.mtime_ns > now_ns - fresh_ns
    if fresh and copy.health in (Health.UNVERIFIED, Health.SUSPECT, Health.BROKEN):
        detail = (
            f"written moments ago; {copy.detail}" if copy.detail else "written moments ago, nothing says it is done"
        )
        return replace(copy, health=Health.IN_FLIGHT, detail=detail)
    return copy


def manifest_of(replica: OpenReplica, copy: Copy) -> tuple[Manifest | None, str | None]:
    """The manifest that speaks of this copy, and what is wrong with one that cannot be read.

    Files of one step that were published one by one have a manifest each: together they are the copy's. One of a file
    that is gone belongs to them where it was made in the same instant, as all are when a step is sealed or mirrored.
    """
    if replica.control is None:
        return None, None
    try:
        found = list(_manifests(replica.control, (path.rpartition("/")[2] for path in copy.paths)))
        lost = replica.listing.lost.get(copy.step, []) if replica.listing is not None and found else []
        found += [each for each in _manifests(replica.control, lost) if _made_with(each, found)]
    except (ValueError, OSError) as error:
        return None, f"its manifest cannot be read: {error}"
    return _together(found, copy), None


def _made_with(lost: Manifest, found: Sequence[Manifest]) -> bool:
    """Whether the manifest of a file that is gone was made with these, and the file has not just another name now."""
    content = {file.sha256 for manifest in found for file in manifest.files}
    with_it = any(manifest.created_at_ns == lost.created_at_ns for manifest in found)
    return with_it and not any(file.sha256 in content for file in lost.files)


def _manifests(control: Control, names: Iterable[str]) -> Iterator[Manifest]:
    for name in names:
        text = control.manifest_text(name)
        if text is not None:
            yield parse_manifest(text)


def upcoming_of(replica: OpenReplica, copy: Copy, members: Members, *, alone: bool) -> Manifest | None:
    """The manifest that a publisher was about to install for what stands here, by the lengths of the files.

    It died after the data got their name and before the manifest got its own. One that is torn, or speaks of data
    that never got their name, says nothing. ``alone``: no other manifest speaks of the copy, so that this one, if it
    were of other data, would make damage of what is whole: then its time must be that of the data, too.
    """
    if replica.control is None:
        return None
    found: list[Manifest] = []
    for path in copy.paths:
        try:
            name = path.rpartition("/")[2]
            text = replica.control.manifest_text(name, upcoming=True)
            if text is not None:
                found.append(parse_manifest(text))
            if text is not None and alone and not _of_these(found[-1], members, replica.control.upcoming_ns(name)):
                return None
        except (ValueError, OSError):
            continue
    manifest = _together(found, copy)
    return manifest if manifest is not None and fits(manifest, sizes(members)) else None


def _of_these(manifest: Manifest, members: Members, data_ns: int) -> bool:
    """Whether a manifest that waits was made of what stands here, by the time that it carries."""
    times = [members.files[file.path].mtime_ns for file in manifest.files if file.path in members.files]
    return max(times, default=0) == data_ns


def _together(found: list[Manifest], copy: Copy) -> Manifest | None:
    mine = [manifest for manifest in found if manifest.step == copy.step]
    if not mine:
        return None
    files = {file.path: file for manifest in mine for file in manifest.files if not _taken_out(file.path, copy)}
    if not files:
        return None
    return replace(mine[0], created_at_ns=max(manifest.created_at_ns for manifest in mine), files=tuple(files.values()))


def _taken_out(path: str, copy: Copy) -> bool:
    """Whether thinning took this file out, or is about to: the manifest speaks of what stays."""
    return any(path == part or path.startswith(part + "/") for part in copy.thinned)
