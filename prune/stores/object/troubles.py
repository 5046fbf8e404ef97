"""What goes wrong with a request, as an OSError in words that hold no secret."""

from __future__ import annotations

import errno
import os
import re


class Changed(OSError):
    """The object is no longer the one whose ETag was given."""


class Unnameable(OSError):
    """A key in the listing that no path can stand for: the store answered, and what it holds cannot all be told."""


def as_os_error(error: BaseException, name: str) -> OSError:
    """An exception of the client library; ``name`` is the object's URL. One that is an OSError already stays."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    kind = type(error).__name__
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if kind == "AlreadyExistsError":
        return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    if kind in ("PreconditionError", "NotModifiedError"):
        return Changed(errno.ESTALE, "it is no longer the object it was", name)
    said = plainly(str(error))
    if kind == "InvalidPathError":
        key = re.search(r'Path "(.*)" contained|parsing Path "(.*)": ', str(error), re.DOTALL)
        which = repr(key[1] or key[2]) if key else said
        why = 'a key with an empty part, a part "." or "..", or a control character'
        return Unnameable(errno.EILSEQ, f"it holds {which}, {why}: rename that object, or delete it", name)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or re.search(r"\b40[13]\b", said):
        return PermissionError(errno.EACCES, f"access was denied ({said})", name)
    return OSError(errno.EIO, said, name)


def plainly(text: str) -> str:
    """The client's own words without URLs' queries, which may hold signatures, and without its innards."""
    first = text.partition("\n\nDebug source:")[0].strip()
    code = re.search(r"<Code>(\w+)</Code>(?:<Message>([^<]{1,200})</Message>)?", first)
    line = re.sub(r"\?[^\s)\"']*", "", first.partition("\n")[0])
    retried = re.search(r"after (\d+) retries", line)
    _, dash, tail = line.rpartition(" - ")
    said = (tail if dash else line).rstrip(": ")
    said = re.sub(r"<\?xml.*|<Error>.*", "", said).rstrip(": ")
    if code:
        said = f"{said}: {code[1]}" + (f", {code[2]}" if code[2] else "")
    return f"{said} (tried {int(retried[1]) + 1} times)" if retried else said
