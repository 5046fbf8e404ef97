"""Which copies may be sealed, and what their manifests will say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from prune.checking import Means, manifests_for
from prune.integrity.content import sidecars_of
from prune.integrity.hashing import Hashed, hash_many
from prune.integrity.manifest import Manifest, ManifestFile, is_void, parse
from prune.integrity.sidecar import SUFFIX
from prune.inventory.copies import listed_copy
from prune.inventory.judging import members_of
from prune.inventory.site import OpenReplica, Site
from prune.layouts.base import Members
from prune.model import Copy, Health, Kind
from prune.seal.outcome import Ready, Refused
from prune.settings.schema import RunSettings
from prune.stores.pace import measure_copy


@dataclass
class Deciding:
    site: Site
    means: Means
    sidecar: bool
    ready: list[Ready] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    already: int = 0

    def consider(self, copy: Copy, *, being_written: bool) -> None:
        """Hashes a copy that may be sealed; notes why another may not."""
        replica = self.site.by_name(copy.replica)
        if replica.root is None or self.site.layout is None:
            return
        reason = self._unfit(copy, being_written)
        if reason is not None:
            self._refuse(copy, reason, damage=copy.health in (Health.BROKEN, Health.SUSPECT))
            return
        try:
            members = members_of(replica.root, copy)[0]
            sealed = self._in_force(replica, copy, members)
            if sealed is not None and not (self.sidecar and _missing_sidecars(copy, members)):
                self.already += 1
                return
            manifests = sealed or self._hashed(replica, copy, members)
            contradiction = self._contradicted(copy, manifests)
        except (OSError, ValueError) as error:
            self._refuse(copy, f"could not be told: {error}")
            return
        if contradiction is not None:
            self._refuse(copy, contradiction, damage=True)
        else:
            self.ready.append(Ready(copy, manifests, new=sealed is None))

    def _unfit(self, copy: Copy, being_written: bool) -> str | None:
        if being_written or copy.busy is not None:
            return f"it is being written: {copy.busy or 'a temporary of this step was touched moments ago'}"
        if copy.link is not None:
            return copy.link
        if copy.health is None or not copy.health.restorable:
            return copy.detail or "it could not be examined"
        sure = copy.health in (Health.WHOLE, Health.INTACT)
        if not sure and is_fresh(copy.mtime_ns, self.site.run, self.means):
            return "it was written moments ago, and its format does not tell whether it is done"
        return None

    def _in_force(self, replica: OpenReplica, copy: Copy, members: Members) -> dict[str, Manifest] | None:
        """The manifests that hold for the copy, by name; None where it has none or they are void.

        Raises OSError or ValueError where one cannot be read: it may be right.
        """
        assert replica.root is not None
        assert self.site.layout is not None
        manifests, trouble = manifests_for(replica, copy, members)
        if trouble is not None:
            raise ValueError(trouble)
        structure = self.site.layout.examine(members, replica.root)
        void = copy.detail is not None and "is void" in copy.detail
        in_force = [] if void else [each for each in manifests if not is_void(each, members, structure)]
        if not in_force:
            return None
        hashes = {file.path: Hashed(file.size, file.sha256) for file in in_force[0].files}
        found = _by_entry(copy, hashes, in_force[0].created_at_ns)
        whole = all(os.path.basename(path) in found for path in copy.paths if _needs_one(path, members))
        return found if whole else None

    def _hashed(self, replica: OpenReplica, copy: Copy, members: Members) -> dict[str, Manifest]:
        """Manifests of what is there. They are as old as the copy's newest file: what is saved later outdates them."""
        assert replica.root is not None
        paths = [path for path, stat in members.files.items() if stat.kind is Kind.FILE and not path.endswith(SUFFIX)]
        found = hash_many(replica.root, paths, threads=self.means.threads)
        hashes: dict[str, Hashed] = {}
        for path, hashed in found.items():
            if isinstance(hashed, OSError):
                raise hashed
            hashes[path] = hashed
        measure, first = measure_copy(replica.root, copy.paths)
        if measure.identity(first) != copy.identity:
            raise ValueError("it changed while it was read")
        newest = max((members.files[path].mtime_ns for path in hashes), default=0)
        return _by_entry(copy, hashes, newest if newest > 0 else self.means.clock())

    def _contradicted(self, copy: Copy, manifests: Mapping[str, Manifest]) -> str | None:
        """The sentence for another replica whose record says otherwise. Raises OSError or ValueError where one cannot
        be read."""
        ours = {file.path: file for manifest in manifests.values() for file in manifest.files}
        for other in self.site.replicas:
            if other.name == copy.replica:
                continue
            for path, said in self._said(other, copy).items():
                if path in ours and ours[path].sha256 != said[0]:
                    return (
                        f"{path}: the {said[1]} on {other.name} says SHA-256 {said[0]}, here it is {ours[path].sha256}"
                    )
        return None

    def _said(self, other: OpenReplica, copy: Copy) -> dict[str, tuple[str, str]]:
        """SHA-256 and its source by path, as another replica records them for this step."""
        theirs = self._copy_on(other, copy)
        if theirs is not None and other.root is not None:
            members = members_of(other.root, theirs)[0]
            in_force = self._in_force(other, theirs, members)
            said = {path: (each.sha256, "sidecar") for path, each in sidecars_of(members, other.root).items()}
            for manifest in (in_force or {}).values():
                said.update((file.path, (file.sha256, "manifest")) for file in manifest.files)
            return said
        said = {}
        for path in copy.paths:  # the copy is gone there, its manifest may still tell what it was
            text = other.control.manifest_text(os.path.basename(path)) if other.control is not None else None
            if text is not None and (manifest := parse(text)).step == copy.step:
                said.update((file.path, (file.sha256, "manifest")) for file in manifest.files)
        return said

    def _copy_on(self, other: OpenReplica, copy: Copy) -> Copy | None:
        if other.listing is None or self.site.layout is None or copy.step not in other.listing.steps:
            return None
        return listed_copy(other, self.site.layout, copy.step, other.listing.steps[copy.step])

    def _refuse(self, copy: Copy, detail: str, *, damage: bool = False) -> None:
        self.refused.append(Refused.of(copy, detail, damage=damage))


def _by_entry(copy: Copy, hashes: Mapping[str, Hashed], created_ns: int) -> dict[str, Manifest]:
    """A manifest for each top-most entry, of the files that are its own; sidecars need none."""
    found: dict[str, Manifest] = {}
    for entry in copy.paths:
        files = tuple(
            ManifestFile(path, hashed.size, hashed.sha256)
            for path, hashed in sorted(hashes.items())
            if path == entry or path.startswith(entry + "/")
        )
        if files and not entry.endswith(SUFFIX):
            name = os.path.basename(entry)
            found[name] = Manifest(name, copy.step, created_ns, files)
    return found


def _needs_one(entry: str, members: Members) -> bool:
    """Whether a top-most entry holds any file that a manifest would name."""
    return not entry.endswith(SUFFIX) and any(path == entry or path.startswith(entry + "/") for path in members.files)


def _missing_sidecars(copy: Copy, members: Members) -> bool:
    return any(path + SUFFIX not in members.files for path in copy.paths if not path.endswith(SUFFIX))


def is_fresh(mtime_ns: int | None, run: RunSettings, means: Means) -> bool:
    return mtime_ns is not None and mtime_ns > means.clock() - run.guards.in_flight
