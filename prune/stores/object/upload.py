"""What comes into an object store: streamed, hashed on its way, checked by the store, seen only when it is complete."""

from __future__ import annotations

import errno
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from prune.stores.object.client import Object, library
from prune.stores.object.root import ObjectRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from obstore import WritableFile

PIECE = 1 << 20
PART = 16 << 20  # bytes of a part: ten thousand of them make 160 GiB
_MOST_PARTS = 9_000  # a store takes ten thousand
_SIDE_BY_SIDE = 6


@dataclass
class Uploading:
    """One object on its way. Nothing is seen under its key before ``finish``; without it nothing ever is."""

    root: ObjectRoot
    path: str
    size: int  # bytes to come
    sent: int = 0
    _sha256: hashlib._Hash = field(default_factory=hashlib.sha256, repr=False)
    _writer: WritableFile | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        return self.root.address.key(self.path)

    def send(self, file: BinaryIO, tick: Callable[[int], None] = lambda _count: None) -> None:
        """Everything in a file, hashed as it goes. Raises OSError, and what ``tick`` raises."""
        obstore = library()
        bucket = self.root.bucket
        part = max(PART, -(-self.size // _MOST_PARTS))
        try:
            self._writer = obstore.open_writer(
                bucket.checking_store, self.key, buffer_size=part, max_concurrency=_SIDE_BY_SIDE
            )
        except Exception as error:
            raise bucket.trouble(error, self.key) from error
        while piece := file.read(PIECE):
            self._sha256.update(piece)
            try:
                self._writer.write(piece)
            except Exception as error:
                raise bucket.trouble(error, self.key) from error
            self.sent += len(piece)
            tick(len(piece))
        if self.sent != self.size:
            raise OSError(errno.EIO, f"{self.sent} of {self.size} bytes were there to be read", self.path)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def finish(self) -> Object:
        """Gives the object its key, and asks the store what it has. Raises OSError when that is something else."""
        assert self._writer is not None
        bucket = self.root.bucket
        try:
            self._writer.close()
        except Exception as error:
            raise bucket.trouble(error, self.key) from error
        found = self.root.object(self.path)
        if found.size != self.sent:
            raise OSError(errno.EIO, f"the store has {found.size} bytes of {self.sent}", self.key)
        return found
