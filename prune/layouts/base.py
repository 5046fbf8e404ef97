"""What a layout says of one training stack's names: one more stack is one more small file of these answers.

A layout reads names and small marker files; it never imports its stack, never runs pickle, never writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from prune.model import EMPTY, Health, Kind, Pick, Pointer, Verdict
from prune.stores.base import Entry, FileStat, Reader


class Part(StrEnum):
    """What an entry of a root is to its step."""

    PAYLOAD = "payload"  # a file or directory of the checkpoint
    SIDECAR = "sidecar"  # goes where its payload goes: .sha256, vecnormalize, dataloader state
    TEMPORARY = "temporary"  # being written, or left by a dead writer
    POINTER = "pointer"  # names a checkpoint, is none
    CONTAINER = "container"  # a directory whose entries are claimed one by one


@dataclass(frozen=True, slots=True)
class Claim:
    """One entry claimed by a layout. ``step`` is None only for pointers, containers and nameless temporaries.

    ``series`` tells apart names that share a number but not a meaning (``step_10.pt`` and ``step_0010.pt`` have
    the same step and different series: a collision).
    """

    path: str
    kind: Kind
    part: Part
    step: int | None = None
    series: str = ""


@dataclass(frozen=True, slots=True)
class Members:
    """The files of one copy with their sizes: what a completeness check may look at without opening anything."""

    step: int
    paths: tuple[str, ...]  # top-most entries
    files: Mapping[str, FileStat]  # every regular file and link, by path relative to the root
    dirs: Mapping[str, FileStat]

    def below(self, path: str) -> dict[str, FileStat]:
        """Files below one of the top-most entries, by path relative to it (a file itself: by its name)."""
        prefix = path + "/"
        found = {name[len(prefix) :]: stat for name, stat in self.files.items() if name.startswith(prefix)}
        if path in self.files:
            found[path.rpartition("/")[2]] = self.files[path]
        return found


@dataclass(frozen=True)
class RootView:
    """A listed root, as a layout sees it to answer questions about pointers, picks and metrics."""

    reader: Reader
    base: str  # the directory in the root that holds the steps; "" is the root itself
    claims: Sequence[Claim]
    now_ns: int  # for "empty and fresh"
    fresh_ns: int  # younger than this is fresh

    @cached_property
    def steps(self) -> Mapping[int, list[Claim]]:
        """Payload claims by step."""
        found: dict[int, list[Claim]] = {}
        for claim in self.claims:
            if claim.part is Part.PAYLOAD and claim.step is not None:
                found.setdefault(claim.step, []).append(claim)
        return found

    def at(self, name: str) -> str:
        """Path of a name in the base directory."""
        return f"{self.base}/{name}" if self.base else name


class Layout:
    """Base of all layouts. A subclass sets the names and overrides what its stack does differently."""

    name: str = ""
    title: str = ""  # for people: "Hugging Face Trainer"
    reads_every_entry = False  # the control folder must stand beside the root (or the base)
    weight = 1  # a more specific layout outweighs a general one that claims the same names

    def claim(self, entry: Entry) -> Claim | None:
        """What this entry is, by full match of its name; None: foreign. ``entry.path`` is relative to the base."""
        raise NotImplementedError

    def renumber(self, claims: Sequence[Claim], view: RootView) -> Sequence[Claim]:
        """Gives steps to claims whose names carry none (Ray); the default changes nothing."""
        return claims

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        """A sentence when names collide on one replica, else None: two payloads of one step in different series."""
        series: dict[int, dict[str, str]] = {}
        for claim in claims:
            if claim.part is Part.PAYLOAD and claim.step is not None:
                of_step = series.setdefault(claim.step, {})
                of_step.setdefault(claim.series, claim.path)
                if len(of_step) > 1:
                    first, second = sorted(of_step.values())[:2]
                    return f"{first} and {second} are both step {claim.step}"
        return None

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """The order in which a copy of several entries is renamed away, such that what remains at any moment
        fails the stack's own completeness test. Publishing and mirroring use it backwards."""
        return sorted(paths)

    def examine(self, members: Members, reader: Reader) -> Verdict:
        """Completeness and structure of one copy, from cheap reads (heads, tails, small markers)."""
        from prune.integrity import structure

        return structure.examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        """The pointers on this root with the step each names. ``replica`` is filled in by the caller."""
        return ()

    def trainer_pick(self, view: RootView) -> Pick | None:
        """What the stack's own trainer would resume from here, wholeness not considered."""
        if not view.steps:
            return None
        step = max(view.steps)
        return Pick(step, view.steps[step][0].path, "highest number")

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """Metrics by step, where they are on disk."""
        return EMPTY

    def best_recorded(self, view: RootView) -> int | None:
        """The step that the stack itself recorded as best."""
        return None

    def referenced(self, view: RootView) -> Mapping[int, str]:
        """Steps that a state file of the trainer lists and needs, with the reason."""
        return EMPTY

    def weights_only(self, members: Members) -> bool:
        """True where a copy can be told to lack what resuming needs."""
        return False


__all__ = [
    "Claim", "Entry", "FileStat", "Health", "Kind", "Layout", "Members", "Part", "Pick", "Pointer", "Reader",
    "RootView", "Verdict",
]  # fmt: skip
