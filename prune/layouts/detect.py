"""Which layout a directory has, and where in it the checkpoints lie: by names, and a look into a step or two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from prune import layouts
from prune.layouts import hints
from prune.layouts.base import Claim, Entry, Glance, Kind, Layout, Part, Reader
from prune.layouts.listing import CONTROL, join, relative

EXAMPLES = 6  # entries kept of every shape of name
SHAPES = 4096  # shapes kept; a directory of random names has as many as entries
DEPTH = 4  # folders below the root
FOLDERS = 512  # looked into at most, in all
SAMPLE = 20_000  # entries read of a folder below the root
# Folders that are there for checkpoints: below the root, plain numbered names count as steps only in these.
NESTS = frozenset({
    "checkpoint", "checkpoints", "ckpt", "ckpts", "model_checkpoints", "models", "saves", "snapshots",
    "training_checkpoints", "weights",
})  # fmt: skip
_NUMBER = re.compile("[0-9]+")


@dataclass(frozen=True)
class Detection:
    """What a directory is. ``layout`` is None where nothing fits or several do: then ``why`` says what was seen,
    ``rivals`` names the layouts that fit alike, and ``places`` the folders below that hold checkpoints of their own,
    each with its layout, None where that is ambiguous. ``sure`` is ``certain``, ``likely`` (by names alone) or ``no``.
    """

    layout: Layout | None
    base: str  # where the steps lie; "" is the root itself
    why: str
    sure: str = "no"
    rivals: tuple[str, ...] = ()
    places: Mapping[str, Layout | None] = field(default_factory=dict)
    complete: bool = True  # False: not every folder could be looked into, so what was not found may be there


@dataclass(frozen=True)
class Places:
    """Where the steps of one layout lie. ``unsure`` says why there may be more places; empty when there are not."""

    bases: tuple[str, ...]
    unsure: str = ""


@dataclass(frozen=True)
class _Fit:
    layout: Layout
    base: str
    why: str


@dataclass
class _Shape:
    count: int
    examples: list[Entry]


def detect(reader: Reader) -> Detection:
    """The layout of a root, or of the one directory in it that holds checkpoints.

    Raises OSError when the root cannot be listed completely.
    """
    shapes = _shapes(reader, "")
    if not shapes:
        return Detection(None, "", "empty")
    fits = _fits(reader, "", shapes)
    if fits:
        return _one_layout(fits + _below_general_ones(reader, shapes, fits))
    search = _Search(reader)
    nested: dict[str, list[_Fit]] = {}
    for base, at in search.folders(shapes):
        if found := _nested(reader, base, at):
            nested[base] = found
            search.leave(base)
    if len(nested) == 1 and search.complete:
        return _one_layout(next(iter(nested.values())))
    if nested:
        return _several(nested, search)
    why = f"nothing in it is named like a checkpoint; seen: {_seen(shapes)}{search.remark()}"
    return Detection(None, "", why, complete=search.complete)


def find_places(reader: Reader, layout: Layout) -> Places:
    """Every directory in which this layout claims steps; the root alone (``""``), if it does there.

    Raises OSError when the root cannot be listed.
    """
    shapes = _shapes(reader, "")
    if _holds_steps(reader, "", shapes, layout):
        return Places(("",))
    search = _Search(reader)
    found: list[str] = []
    for base, at in search.folders(shapes):
        if _may_hold(layout, base) and _holds_steps(reader, base, at, layout):
            found.append(base)
            search.leave(base)
    return Places(tuple(found), search.remark())


# --- one directory -----------------------------------------------------------------------------------------------


def _shapes(reader: Reader, base: str, limit: int | None = None) -> dict[tuple[str, Kind], _Shape]:
    """The entries of a directory by the shape of their names: numbers taken out, a few examples of each kept."""
    found: dict[tuple[str, Kind], _Shape] = {}
    for entry in islice(reader.scan(base), limit):
        if entry.name == CONTROL:
            continue
        key = (_NUMBER.sub("#", entry.name), entry.kind)
        shape = found.get(key)
        if shape is None:
            if len(found) >= SHAPES:
                found = {key: one for key, one in found.items() if one.count > 1}
            if len(found) < SHAPES:
                found[key] = _Shape(1, [Entry(relative(base, entry.path), entry.kind)])
            continue
        shape.count += 1
        if len(shape.examples) < EXAMPLES:
            shape.examples.append(Entry(relative(base, entry.path), entry.kind))
    return found


def _fits(reader: Reader, base: str, shapes: dict[tuple[str, Kind], _Shape]) -> list[_Fit]:
    """The layouts that recognise this directory and that no more specific one outweighs."""
    glance = _glance(reader, base, shapes)
    found: list[_Fit] = []
    for layout in _worth_asking(shapes):
        claims = _claims_of(glance, layout)
        why = layout.recognise(glance, claims) if claims else None
        if why is not None:
            found.append(_Fit(layout, base, why))
    heaviest = max((fit.layout.weight for fit in found), default=0)
    return [fit for fit in found if fit.layout.weight == heaviest]


def _worth_asking(shapes: dict[tuple[str, Kind], _Shape]) -> Iterator[Layout]:
    names = [name if kind is Kind.FILE else f"{name}/" for name, kind in shapes]
    for layout in layouts.names():
        if layout != "custom" and hints.worth_asking(layout, names):
            yield layouts.get(layout)


def _glance(reader: Reader, base: str, shapes: dict[tuple[str, Kind], _Shape]) -> Glance:
    return Glance(reader, base, [entry for shape in shapes.values() for entry in shape.examples])


def _holds_steps(reader: Reader, base: str, shapes: dict[tuple[str, Kind], _Shape], layout: Layout) -> bool:
    """Whether a layout knows a step here, or a save that is to become one."""
    claims = _claims_of(_glance(reader, base, shapes), layout)
    return any(
        claim.part is Part.PAYLOAD or (claim.part is Part.TEMPORARY and claim.step is not None) for claim in claims
    )


def _claims_of(glance: Glance, layout: Layout) -> list[Claim]:
    """What a layout claims among the examples, and in the containers among them."""
    found: list[Claim] = []
    waiting = list(glance.entries)
    while waiting:
        entry = waiting.pop()
        claim = layout.claim(entry)
        if claim is None:
            continue
        if claim.part is Part.CONTAINER:
            waiting += [Entry(join(entry.path, name), Kind.DIR) for name in islice(glance.inside(entry.path), EXAMPLES)]
        else:
            found.append(claim)
    return found


# --- directories below -------------------------------------------------------------------------------------------


class _Search:
    """Folders below a root, nearest first, as many as may be looked into."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.looked = 0
        self.complete = True  # whether every folder down to the depth was looked into
        self.unreadable: list[str] = []
        self._left: str | None = None

    def leave(self, path: str) -> None:
        """What lies in this folder, the one just given out, is its own: steps, and what is in those."""
        self._left = path

    def folders(self, top: dict[tuple[str, Kind], _Shape]) -> Iterator[tuple[str, dict[tuple[str, Kind], _Shape]]]:
        waiting = [(path, 1) for path in self._below("")]
        while waiting:
            path, depth = waiting.pop(0)
            if self.looked >= FOLDERS:
                self.complete = False
                return
            self.looked += 1
            try:
                shapes = _shapes(self.reader, path, SAMPLE)
                deeper = self._below(path) if depth < DEPTH else []
            except OSError:
                self.complete = False
                self.unreadable.append(path)
                continue
            yield path, shapes
            if path != self._left:
                waiting += [(one, depth + 1) for one in deeper]

    def _below(self, base: str) -> list[str]:
        """The folders in a folder; hidden ones and links are left alone, and what every ext file system has."""
        found = (
            entry.path
            for entry in islice(self.reader.scan(base), SAMPLE)
            if entry.kind is Kind.DIR and not entry.name.startswith(".") and entry.name != "lost+found"
        )
        return sorted(islice(found, FOLDERS + 1))

    def remark(self) -> str:
        if self.unreadable:
            return f"; {self.unreadable[0]} could not be listed"
        return "" if self.complete else f"; only {FOLDERS} folders below it were looked into"


def _nested(reader: Reader, base: str, shapes: dict[tuple[str, Kind], _Shape]) -> list[_Fit]:
    return [fit for fit in _fits(reader, base, shapes) if _may_hold(fit.layout, base)]


def _below_general_ones(reader: Reader, shapes: dict[tuple[str, Kind], _Shape], fits: list[_Fit]) -> list[_Fit]:
    """What a stack itself saved in a folder for checkpoints, where the root holds only names that anybody may give.

    ``embeddings_epoch3.npy`` beside such a folder is no checkpoint of the run, and which of the two is meant nobody
    but its owner can tell.
    """
    if any(fit.layout.weight > 1 for fit in fits):
        return []
    found: list[_Fit] = []
    for (name, kind), shape in shapes.items():
        if kind is Kind.DIR and name.lower() in NESTS:
            base = shape.examples[0].path
            with suppress(OSError):  # what cannot be listed shows no other stack
                found += [fit for fit in _fits(reader, base, _shapes(reader, base, SAMPLE)) if fit.layout.weight > 1]
    return found


def _may_hold(layout: Layout, base: str) -> bool:
    """General layouts take any numbered name, so below the root they count only where checkpoints are expected."""
    return layout.weight > 1 or base.rpartition("/")[2].lower() in NESTS


# --- saying it ---------------------------------------------------------------------------------------------------


def _one_layout(fits: list[_Fit]) -> Detection:
    first = fits[0]
    if len(fits) == 1:
        where = f" (in {first.base})" if first.base else ""
        return Detection(
            first.layout, first.base, first.why + where, "certain" if first.layout.weight > 1 else "likely"
        )
    rivals = tuple(fit.layout.name for fit in fits)
    reasons = "; ".join(f"{fit.layout.name}: {fit.why}{f' (in {fit.base})' if fit.base else ''}" for fit in fits)
    return Detection(None, first.base, f"{' and '.join(rivals)} fit alike ({reasons})", rivals=rivals)


def _several(nested: dict[str, list[_Fit]], search: _Search) -> Detection:
    bases = tuple(sorted(nested))
    shown = ", ".join(bases[:5]) + (f" and {len(bases) - 5} more" if len(bases) > 5 else "")
    what = f"checkpoints lie in {shown}" if len(bases) > 1 else f"checkpoints lie in {shown}, perhaps elsewhere too"
    places = {base: fits[0].layout if len(fits) == 1 else None for base, fits in nested.items()}
    why = f"{what}: point at one of them{search.remark()}"
    return Detection(None, "", why, places=places, complete=search.complete)


def _seen(shapes: dict[tuple[str, Kind], _Shape]) -> str:
    """A few of the names that are there, most frequent first."""
    most = sorted(shapes.items(), key=lambda item: (-item[1].count, item[0]))[:5]
    shown = [_shown(kind, shape) for (_, kind), shape in most]
    return ", ".join(shown) + (f" and {len(shapes) - 5} other names" if len(shapes) > 5 else "")


def _shown(kind: Kind, shape: _Shape) -> str:
    name = ascii(shape.examples[0].path)[1:-1] + ("/" if kind is Kind.DIR else "")
    return name if shape.count == 1 else f"{name} (and {shape.count - 1} alike)"
