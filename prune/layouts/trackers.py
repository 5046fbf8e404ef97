"""Small text files by which stacks name a step: ``latest``, ``latest_checkpointed_iteration.txt``, ``checkpoint``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prune.layouts.base import Claim, Kind, Part, RootView
from prune.layouts.naming import DIGITS
from prune.model import Pick, Pointer, PointerState
from prune.stores.base import read_text

__all__ = [
    "DIGITS", "NUMBER", "Named", "followed", "named_by", "only_series", "pointing", "series_of", "text", "tracker",
    "twice",
]  # fmt: skip

_EPOCH_NS = 315_619_200 * 10**9  # 1980-01-02: file systems that keep no times answer with something earlier
NUMBER = r"(?:0|[1-9][0-9]{0,17})"  # as stacks write it that never pad: one name for each step


@dataclass(frozen=True)
class Named:
    """What a tracker's text names: a step where its name tells one, and its path in the root."""

    step: int | None
    path: str


def tracker(view: RootView, name: str, read: Callable[[str], Named], *, limit: int = 1 << 16) -> Pointer | None:
    """The pointer that a text file of the base directory is; None when there is no such plain file.

    ``read`` turns the stripped text into what it names and raises ValueError when it names nothing. A file longer than
    ``limit`` bytes cannot be read.
    """
    path = view.at(name)
    claim = view.by_path.get(path)
    if claim is None or claim.kind is not Kind.FILE:
        return None
    try:
        text = read_text(view.reader, path, limit).strip()
    except (OSError, ValueError) as error:
        return Pointer("", path, None, PointerState.UNREADABLE, f"cannot be read: {error}")
    if not text:
        return empty(view, path)
    try:
        named = read(text)
    except ValueError as error:
        return Pointer("", path, None, PointerState.UNREADABLE, str(error))
    return pointing(view, path, named)


def text(view: RootView, name: str) -> str | None:
    """The stripped text of a tracker; None when it is not there, cannot be read, or is a link."""
    claim = view.by_path.get(view.at(name))
    if claim is None or claim.kind is not Kind.FILE:
        return None
    try:
        return read_text(view.reader, claim.path, limit=1 << 16).strip()
    except (OSError, ValueError):
        return None


def pointing(view: RootView, path: str, named: Named) -> Pointer:
    """The pointer at ``path`` that names something: there, gone, or not to be seen."""
    if view.steps.get(named.step if named.step is not None else -1):
        return Pointer("", path, named.step, PointerState.OK)
    try:
        view.reader.stat(named.path)
    except FileNotFoundError:
        return Pointer("", path, named.step, PointerState.DANGLING, f"names {named.path!r}, which is not there")
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        return Pointer("", path, None, PointerState.UNREADABLE, f"names {named.path!r}: {error}")
    return Pointer("", path, named.step, PointerState.OK, f"names {named.path!r}, which no step's name tells")


def followed(view: RootView, pointer: Pointer | None, how: str) -> Pick | None:
    """What a trainer that follows this pointer picks; None where the pointer tells nothing."""
    if pointer is None or pointer.step is None:
        return None
    claims = view.steps.get(pointer.step)
    return Pick(pointer.step, claims[0].path if claims else pointer.path, how)


def named_by(pointers: Iterable[Pointer]) -> Mapping[int, str]:
    """Steps that pointers name, with the reason why they must stay: a trainer that follows one would not start."""
    return {
        pointer.step: f"{pointer.path} names it"
        for pointer in pointers
        if pointer.step is not None and pointer.state is PointerState.OK
    }


def series_of(claims: Iterable[Claim]) -> frozenset[str]:
    """The series in which payload names stand."""
    return frozenset(claim.series for claim in claims if claim.part is Part.PAYLOAD)


def only_series(claims: Iterable[Claim], series: str) -> list[Claim]:
    """Claims without the payload, sidecars and temporaries of other series."""
    return [claim for claim in claims if claim.series in (series, "") or claim.part is Part.POINTER]


def twice(claims: Iterable[Claim]) -> str | None:
    """A sentence when two directories are the same step, as padding allows (``step10`` and ``step010``)."""
    seen: dict[int, str] = {}
    for claim in claims:
        if claim.part is Part.PAYLOAD and claim.step is not None:
            other = seen.setdefault(claim.step, claim.path)
            if other != claim.path:
                return f"{other} and {claim.path} are both step {claim.step}"
    return None


def empty(view: RootView, path: str) -> Pointer:
    """Many stacks rewrite their tracker in place: empty and fresh is a write in flight, empty for long a dead one."""
    try:
        mtime_ns = view.reader.stat(path).mtime_ns
    except OSError as error:
        return Pointer("", path, None, PointerState.UNREADABLE, f"is empty and cannot be looked at: {error}")
    if mtime_ns > _EPOCH_NS and view.now_ns - mtime_ns > view.fresh_ns:
        return Pointer("", path, None, PointerState.DANGLING, "is empty: its writer died while rewriting it")
    return Pointer("", path, None, PointerState.UNREADABLE, "is empty: it is being rewritten")
