"""What may stand around any stack's own names: checksums beside a checkpoint, and temporaries under its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from prune.layouts.base import Claim, Entry, Kind, Layout, Part
from prune.layouts.naming import nameless_temporary, written_for

SHA256 = ".sha256"


class Around(Layout, ABC):
    """A layout that says its stack's own names in :meth:`own`; sums and temporaries of those follow by themselves."""

    @abstractmethod
    def own(self, entry: Entry) -> Claim | None:
        """What this entry is by the stack's own naming, by full match; None: not the stack's."""

    def claim(self, entry: Entry) -> Claim | None:
        return self.own(entry) or self._sums(entry) or self._temporary(entry)

    def _sums(self, entry: Entry) -> Claim | None:
        """``NAME.sha256`` goes where NAME goes."""
        if entry.kind is not Kind.FILE or not entry.path.endswith(SHA256):
            return None
        for about in self._as_any_kind(entry.path[: -len(SHA256)]):
            if about.part in (Part.PAYLOAD, Part.SIDECAR):
                return Claim(entry.path, entry.kind, Part.SIDECAR, about.step, about.series)
        return None

    def _temporary(self, entry: Entry) -> Claim | None:
        """A name that is one of the stack's names being written, by it or by a copier."""
        if entry.kind not in (Kind.FILE, Kind.DIR):
            return None
        parent = entry.path[: -len(entry.name)]
        for name in written_for(entry.name):
            for about in self._as_any_kind(parent + name):
                return Claim(entry.path, entry.kind, Part.TEMPORARY, about.step, about.series)
        nameless = entry.kind is Kind.FILE and nameless_temporary(entry.name)
        return Claim(entry.path, entry.kind, Part.TEMPORARY) if nameless else None

    def _as_any_kind(self, path: str) -> Iterator[Claim]:
        for kind in (Kind.FILE, Kind.DIR):
            claim = self.own(Entry(path, kind))
            if claim is not None and claim.part is not Part.CONTAINER:
                yield claim
