"""A copy brought into an object store: uploaded under its keys, what tells its completeness last and under the lock.

Nothing can be built aside and renamed there. Until the last object is there the copy fails its stack's own test of
completeness; a lone object is not there at all before it is whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from prune.errors import Failed
from prune.integrity.manifest import Manifest, serialise
from prune.mirror.build import Build, Changed
from prune.mirror.transfer import Differs, Landed, SourceDamaged, Transfer
from prune.model import Kind
from prune.stores.object.client import Object
from prune.stores.object.control import ObjectControl, as_objects
from prune.stores.object.delete import in_order
from prune.stores.object.look import Found, found_now
from prune.stores.object.root import ObjectRoot, in_store
from prune.stores.object.upload import Uploading

_THREADS = 4


@dataclass
class Upload(Build):
    """One copy on its way into a store. What was begun there is not gone on with: it is sent again."""

    _last: list[Uploading] = field(default_factory=list)  # sent, and not to be seen before the copy is complete
    _sent: list[Object] = field(default_factory=list)  # to be seen already

    @property
    def root(self) -> ObjectRoot:
        root = in_store(self.target.root)
        assert root is not None
        return root

    @property
    def _control(self) -> ObjectControl:
        control = as_objects(self.target.control)
        assert control is not None
        return control

    @property
    def staged_bytes(self) -> int:
        return 0

    def run(self, transfer: Transfer, expected: Mapping[str, str]) -> None:
        """Sends every file. Raises Changed, SourceDamaged, Failed, OSError, and what the transfer's ``tick`` raises."""
        odd = next((path for path, stat in self.members.files.items() if stat.kind is not Kind.FILE), None)
        if odd is not None:
            raise Failed(f"{odd} is no plain file: an object store has no place for it")
        first, rest, last = self._phases()
        if rest or last:
            self._control.note_arriving(self.token, self.order.step, self.order.source.paths)
        for paths in (last, rest):
            with ThreadPoolExecutor(_THREADS) as pool:
                for sent in pool.map(lambda path: self._send(path, transfer, expected), paths):
                    self._sent.append(sent.finish())
        for path in first:
            self._last.append(self._send(path, transfer, expected))
        if not self.source_unchanged():
            raise Changed(f"{self.order.source.paths[0]} changed while it was copied")

    def _phases(self) -> tuple[list[str], list[str], list[str]]:
        files: Found = {path: Object(path, stat.size, 0, "") for path, stat in self.members.files.items()}
        first, rest, last = in_order(self.order.source.paths, files)
        return _keys(first), _keys(rest), _keys(last)

    def _send(self, path: str, transfer: Transfer, expected: Mapping[str, str]) -> Uploading:
        assert self.source.root is not None
        sending = Uploading(self.root, path, self.members.files[path].size)
        with self.source.root.open(path) as file:
            sending.send(file, transfer.tick)
        wanted = expected.get(path, sending.sha256)
        if sending.sha256 != wanted:
            raise SourceDamaged(f"expected SHA-256 {wanted}, found {sending.sha256} ({sending.sent} bytes)")
        self.landed[path] = Landed(sending.sent, sending.sha256)
        return sending

    def replaced_unchanged(self) -> bool:
        """Whatever damaged copy stood there, its objects have been replaced by now."""
        return True

    def discard(self) -> None:
        """Takes back what is to be seen of it, as far as it is still ours."""
        self._last.clear()
        mine, self._sent = self._sent, []
        with contextlib.suppress(OSError):
            there = found_now(self.root, [[self.root.address.below(each.key)] for each in mine])
            ours = [each.key for each, found in zip(mine, there, strict=True)
                    if any(now.etag == each.etag for now in found.values())]  # fmt: skip
            self.root.bucket.delete(ours)
            self._control.arrived(self.token)
        self.root.refresh()

    def forget(self) -> None:
        """There is nothing aside to be forgotten."""

    def appear(self, manifest: Manifest) -> None:
        """The manifests, then what tells completeness; then what a damaged copy had more than this one goes.

        The lock is held. Raises OSError, Differs when the store has something else than was sent.
        """
        if not self.order.pointer:
            for path in self.order.source.paths:
                files = tuple(f for f in manifest.files if f.path == path or f.path.startswith(path + "/"))
                if files and not path.endswith(".sha256"):
                    name = path.rpartition("/")[2]
                    own = Manifest(name, manifest.step, manifest.created_at_ns, files)
                    self._control.write_manifest(name, serialise(own))
        for sending in self._last:
            found = sending.finish()
            if found.size != self.landed[sending.path].size:
                raise Differs(f"{sending.path}: the store has {found.size} bytes")
        self._last.clear()
        self._sent.clear()
        self._take_away_more()
        self._control.arrived(self.token)
        self.root.refresh()

    def _take_away_more(self) -> None:
        old = self.order.replaces
        if old is not None:
            more = set(found_now(self.root, [list(old.paths)])[0]) - set(self.members.files)
            self.root.bucket.delete([self.root.address.key(path) for path in sorted(more)])


def _keys(found: Iterable[Object]) -> list[str]:
    return [each.key for each in found]
