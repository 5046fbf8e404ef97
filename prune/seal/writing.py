"""Manifests and sidecars put where they belong, under the locks of all replicas."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prune.deletion.locks import Locks, make_controls, take
from prune.integrity.manifest import Manifest, serialise
from prune.integrity.sidecar import SUFFIX, render
from prune.inventory.site import OpenReplica, Site
from prune.model import Block, Copy
from prune.publish.install import Companion
from prune.publish.target import PART
from prune.seal.outcome import Ready, Refused, Sealed
from prune.stores.pace import measure_copy

_SEALING = ".json.sealing"  # not the name under which a publisher's manifest waits


@dataclass
class Writing:
    """Writes what was decided."""

    site: Site
    sidecar: bool
    sealed: list[Sealed] = field(default_factory=list)
    proven: list[Copy] = field(default_factory=list)  # what their new manifests were made of
    refused: list[Refused] = field(default_factory=list)
    failed: list[Refused] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def write(self, ready: Sequence[Ready], *, wait_ns: int) -> None:
        """Every copy's manifests, each copy looked at again. Nothing at all where a lock cannot be had."""
        if not ready:
            return
        with Locks() as locks:
            self.blocks += make_controls(self.site)
            held = take(self.site, locks, wait_ns=wait_ns) if not self.blocks else None
            self.blocks += [held] if held is not None else []
            if not self.blocks:
                for each in ready:
                    self._one(each)

    def _one(self, ready: Ready) -> None:
        copy = ready.copy
        replica = self.site.by_name(copy.replica)
        assert replica.root is not None
        assert replica.control is not None
        try:
            measure, first = measure_copy(replica.root, copy.paths)
            if measure.identity(first) != copy.identity:
                self.refused.append(Refused.of(copy, "it changed since it was read"))
                return
            if ready.new:
                for name, manifest in ready.manifests.items():
                    if replica.in_store:
                        replica.control.write_manifest(name, serialise(manifest))
                        continue
                    place = f"manifests/{name}"
                    companion = Companion(replica.control.folder, place + _SEALING, place + ".json")
                    companion.write(serialise(manifest))
                    companion.install()
                self.proven.append(copy)
            sidecars = self._sidecars(replica, copy, ready.manifests) if self.sidecar else False
        except OSError as error:
            self.failed.append(Refused.of(copy, error.strerror or str(error)))
            return
        files = [file for manifest in ready.manifests.values() for file in manifest.files]
        size = sum(file.size for file in files)
        self.sealed.append(Sealed(copy.step, copy.replica, copy.paths, len(files), size, ready.new, sidecars))

    def _sidecars(self, replica: OpenReplica, copy: Copy, manifests: Mapping[str, Manifest]) -> bool:
        """``NAME.sha256`` beside each entry that has none, with names as ``sha256sum -c`` takes them in that folder."""
        assert replica.root is not None
        assert self.site.layout is not None
        if self.site.layout.reads_every_entry:
            detail = "its stack takes every entry of this directory for a checkpoint: no sidecar is put there"
            self.refused.append(Refused.of(copy, detail))
            return False
        written = False
        for path in copy.paths:
            manifest = manifests.get(os.path.basename(path))
            if manifest is None or replica.root.exists(path + SUFFIX):
                continue
            folder = path.rpartition("/")[0]
            lines = {os.path.relpath(file.path, folder or "."): file.sha256 for file in manifest.files}
            written = True
            if replica.in_store:
                replica.root.write_atomic(path + SUFFIX, render(lines))
                continue
            companion = Companion(replica.root, path + SUFFIX + PART, path + SUFFIX)
            companion.write(render(lines))
            companion.install()
        return written
