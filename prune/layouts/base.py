"""What a layout says of one training stack's names: one more stack is one more small file of these answers.

A layout reads names and small marker files; it never imports its stack, never runs pickle, never writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from prune.errors import UsageError
from prune.model import EMPTY, Health, Kind, Pick, Pointer, Verdict
from prune.stores.base import Entry, FileStat, Reader

if TYPE_CHECKING:
    from prune.layouts.rotation import Rotation

PEEK_LIMIT = 10_000  # names read of one directory when only looking what kind it is


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
    thinned: bool = False  # by the record, what only resuming needs was taken out of it

    def below(self, path: str) -> dict[str, FileStat]:
        """Files below one of the top-most entries, by path relative to it (a file itself: by its name)."""
        prefix = path + "/"
        found = {name[len(prefix) :]: stat for name, stat in self.files.items() if name.startswith(prefix)}
        if path in self.files:
            found[path.rpartition("/")[2]] = self.files[path]
        return found


@dataclass(frozen=True)
class RootView:
    """A listed root, as a layout sees it to answer questions about pointers, picks and metrics.

    The claims are those of the whole listing, settled and renumbered; their paths are relative to the root.
    """

    reader: Reader
    base: str  # the directory in the root that holds the steps; "" is the root itself
    claims: Sequence[Claim]
    now_ns: int  # for "empty and fresh"
    fresh_ns: int  # younger than this is fresh
    memo: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)  # what was read already

    @cached_property
    def steps(self) -> Mapping[int, list[Claim]]:
        """Payload claims by step."""
        found: dict[int, list[Claim]] = {}
        for claim in self.claims:
            if claim.part is Part.PAYLOAD and claim.step is not None:
                found.setdefault(claim.step, []).append(claim)
        return found

    @cached_property
    def by_path(self) -> Mapping[str, Claim]:
        return {claim.path: claim for claim in self.claims}

    def at(self, name: str) -> str:
        """Path in the root of a name in the base directory."""
        return f"{self.base}/{name}" if self.base else name


@dataclass(frozen=True)
class Glance:
    """What detection saw of one directory: a few examples of every shape of name in it, never the whole listing.

    Paths of ``entries`` are relative to ``base``, as :meth:`Layout.claim` takes them.
    """

    reader: Reader
    base: str
    entries: Sequence[Entry]
    _peeked: dict[str, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)

    def at(self, name: str) -> str:
        """Path in the root of a name in the directory looked at."""
        return f"{self.base}/{name}" if self.base else name

    def has(self, name: str) -> bool:
        """Whether the directory holds this name; what cannot be looked at counts as absent."""
        try:
            self.reader.stat(self.at(name))
        except OSError:
            return False
        return True

    def inside(self, name: str) -> frozenset[str]:
        """The names directly in one of its directories (the first few thousand); none when it cannot be listed."""
        if name not in self._peeked:
            try:
                found = frozenset(entry.name for entry in islice(self.reader.scan(self.at(name)), PEEK_LIMIT))
            except OSError:
                found = frozenset()
            self._peeked[name] = found
        return self._peeked[name]


class Layout:
    """Base of all layouts. A subclass sets the names and overrides what its stack does differently."""

    name: str = ""
    title: str = ""  # for people: "Hugging Face Trainer"
    reads_every_entry = False  # the control folder must stand beside the root (or the base)
    weight = 1  # a more specific layout outweighs a general one that claims the same names
    unthinnable: str | None = "it writes weights, and what only resuming needs, into the same files"

    @classmethod
    def configured(cls, options: Mapping[str, Any]) -> Self:
        """A layout with the options a user gave. Raises UsageError for one it does not know."""
        for key in options:
            raise UsageError(f"layout {cls.name} has no option {key!r}", mend="Remove it from layout_options.")
        return cls()

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        """Why a directory is this stack's, None when it is not. ``claims`` are those of the glance's examples.

        The default is satisfied by names: any step will do. Where names are shared with other stacks, look into
        a step (``glance.inside``) for what only this one writes.
        """
        found = next((claim for claim in claims if claim.part is Part.PAYLOAD), None)
        return f"{found.path} is named as {self.title} names its checkpoints" if found else None

    def claim(self, entry: Entry) -> Claim | None:
        """What this entry is, by full match of its name; None: foreign. ``entry.path`` is relative to the base."""
        return None

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """What only the whole listing can tell: which of several series is the run's. Called once, after every
        entry was claimed; claims left out become foreign. The default changes nothing."""
        return claims

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

    def load_path(self, paths: Sequence[str]) -> str:
        """What the stack's own loader is given for a copy of these entries, which stand in their withdraw order."""
        return paths[0]

    def examine(self, members: Members, reader: Reader) -> Verdict:
        """Completeness and structure of one copy, from cheap reads (heads, tails, small markers)."""
        from prune.integrity import structure

        return structure.examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        """The pointers on this root with the step each names. ``replica`` is filled in by the caller.

        The default knows symbolic links that lead to a step, whatever their name: every stack has those.
        """
        from prune.layouts import links

        return links.pointers(self, view)

    def stands_in(self, path: str) -> bool:
        """Whether a pointer under this name, where it is no link, is itself a full copy of the step it names."""
        return False

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

    def rotation(self, view: RootView) -> Rotation | None:
        """How many checkpoints the stack's own rotation keeps, where a file tells it; None where none does."""
        return None

    def weights_only(self, members: Members) -> bool:
        """True where a copy can be told to lack what resuming needs."""
        return False

    def resume_only(self, members: Members) -> Sequence[str]:
        """What of a copy only resuming needs: files or whole directories of it, by path relative to the root.

        The weights, and what the stack needs to read them, are never among it. The first one is taken out first and
        comes back last; a save of the stack always writes it. A layout that knows any sets ``unthinnable`` to None,
        and its :meth:`examine` must find nothing wrong with a copy without them whose ``members.thinned`` is true.
        """
        return ()


__all__ = [
    "Claim", "Entry", "FileStat", "Glance", "Health", "Kind", "Layout", "Members", "Part", "Pick", "Pointer", "Reader",
    "RootView", "Verdict",
]  # fmt: skip
