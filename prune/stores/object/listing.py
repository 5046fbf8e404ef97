"""Listings that are complete, or an error.

A page that says it is the last one when it is not (a proxy that cut it short, a store under repair) looks like a
small bucket. So after the last page the store is asked once more, for what comes after the last key: old objects
there prove that the listing was cut.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from prune.stores.object.client import Bucket, Object


class Incomplete(OSError):
    """The store left out a part of a listing."""


def everything(bucket: Bucket, prefix: str, *, after: str | None = None) -> Iterator[Object]:
    """Every object below a prefix, after a key where one is given. Raises OSError, also at the very end.

    What was given before an error must not be acted upon.
    """
    last, newest = after, 0
    for page in bucket.pages(prefix, after=after):
        for found in page:
            if last is None or found.key > last:
                last = found.key
            newest = max(newest, found.modified_ns)
            yield found
    if last is None:
        return
    for page in bucket.pages(prefix, after=last):
        for found in page:
            if found.modified_ns <= newest:
                raise Incomplete(
                    errno.EIO,
                    f"the store said that its listing was complete and left out {found.key}",
                    f"{bucket.address}/{prefix}".rstrip("/"),
                )
            yield found
