"""TensorFlow: ``P-<N>.index`` with its ``P-<N>.data-0000i-of-0000K``, and a text file ``checkpoint`` that names one.

Names and files: tensorflow/tensorflow, ``python/checkpoint/checkpoint_management.py`` (state file, sweep),
``python/checkpoint/functional_saver.py`` (``P_temp/``), ``core/util/tensor_bundle/tensor_bundle.cc``
(``.tempstate``). N counts saves, unless the training script numbers them itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from prune.layouts import series, trackers
from prune.layouts.around import Around
from prune.layouts.base import (
    Claim,
    Entry,
    Glance,
    Health,
    Kind,
    Members,
    Part,
    Pick,
    Pointer,
    Reader,
    RootView,
    Verdict,
)
from prune.layouts.naming import DIGITS
from prune.model import PointerState

STATE = "checkpoint"
_LONGEST_STATE = 64 << 20  # it lists every checkpoint that the manager still knows
# Keras's save_weights puts the number before .ckpt (cp-0001.ckpt.index), TF1 after it (model.ckpt-1000.index).
_PREFIX = rf"(?P<before>[^/\n]*?[-_])(?P<step>{DIGITS})(?P<after>\.ckpt)?"
_DATA = re.compile(_PREFIX + r"\.data-(?P<shard>[0-9]{5})-of-(?P<total>[0-9]{5})")
_INDEX = re.compile(_PREFIX + r"\.index")
_META = re.compile(_PREFIX + r"\.meta")
_UNFINISHED_DIR = re.compile(_PREFIX + r"_temp(?:[_-][0-9a-zA-Z-]+)?")
_UNFINISHED_FILE = re.compile(_PREFIX + r"\.(?:index|data-[0-9]{5}-of-[0-9]{5})\.(?:tempstate[0-9]+|part)")
_SUFFIX = re.compile(r"\.(?:index|data-[0-9]{5}-of-[0-9]{5})\Z")
_LINE = re.compile(r'\s*model_checkpoint_path:\s*(?P<quote>["\'])(?P<path>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)\s*')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class TensorFlow(Around):
    """A step without its ``.index`` is none to TensorFlow, so the index is what is written last and withdrawn first."""

    name = "tensorflow"
    title = "TensorFlow CheckpointManager"
    weight = 3

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        found = next((claim for claim in claims if claim.part is Part.PAYLOAD), None)
        return f"{found.path} is part of a TensorFlow checkpoint" if found else None

    def own(self, entry: Entry) -> Claim | None:
        if entry.path == STATE and entry.kind in (Kind.FILE, Kind.LINK):
            return Claim(entry.path, entry.kind, Part.POINTER)
        if entry.kind is Kind.DIR:
            return _numbered(entry, _UNFINISHED_DIR, Part.TEMPORARY)
        if entry.kind is not Kind.FILE:
            return None
        return (
            _numbered(entry, _INDEX, Part.PAYLOAD)
            or _numbered(entry, _DATA, Part.PAYLOAD)
            or _numbered(entry, _META, Part.SIDECAR)
            or _numbered(entry, _UNFINISHED_FILE, Part.TEMPORARY)
        )

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        return series.settle(claims)

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        """One number under two prefixes that are no set: two managers in one directory, or padding that changed."""
        seen: dict[tuple[int, str], str] = {}
        for claim in claims:
            if claim.part is Part.PAYLOAD and claim.step is not None:
                prefix = _SUFFIX.sub("", claim.path)
                other = seen.setdefault((claim.step, re.sub("[0-9]+", "#", prefix)), prefix)
                if other != prefix:
                    return f"{other} and {prefix} are both step {claim.step}"
        there = sorted(trackers.series_of(claims))
        return f"{there[0]!r} and {there[1]!r} are checkpoints of different managers" if len(there) > 1 else None

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        return sorted(paths, key=lambda path: (not path.endswith(".index"), path))

    def load_path(self, paths: Sequence[str]) -> str:
        """The prefix, which is the name of no file."""
        return paths[0].removesuffix(".index")

    def examine(self, members: Members, reader: Reader) -> Verdict:
        if not any(path.endswith(".index") for path in members.paths):
            return Verdict(Health.BROKEN, ".index missing: the save did not finish")
        return super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        pointer = trackers.tracker(view, STATE, lambda text: named_prefix(view, text), limit=_LONGEST_STATE)
        return [pointer] if pointer else []

    def trainer_pick(self, view: RootView) -> Pick | None:
        """What ``checkpoint`` names, if its index is there; TensorFlow falls back to none of the others."""
        pointer = next(iter(self.pointers(view)), None)
        if pointer is None or pointer.state is not PointerState.OK or pointer.step is None:
            return None
        paths = self.withdraw_order(claim.path for claim in view.steps.get(pointer.step, ()))
        if not paths or not paths[0].endswith(".index"):
            return None
        return Pick(pointer.step, self.load_path(paths), STATE)


def named_prefix(view: RootView, text: str) -> trackers.Named:
    """The checkpoint that a state file names. TF1 wrote absolute paths, which a copy of the directory outlives: the
    last name decides. Raises ValueError when no line names one."""
    line = next((found for line in text.splitlines() if (found := _LINE.fullmatch(line))), None)
    if line is None:
        raise ValueError("names no model_checkpoint_path")
    prefix = _unescaped(line["path"]).rpartition("/")[2]
    number = re.fullmatch(_PREFIX, prefix)
    return trackers.Named(int(number["step"]) if number else None, view.at(f"{prefix}.index"))


def _numbered(entry: Entry, pattern: re.Pattern[str], part: Part) -> Claim | None:
    found = pattern.fullmatch(entry.path)
    if found is None:
        return None
    return Claim(entry.path, entry.kind, part, int(found["step"]), f"{found['before']}N{found['after'] or ''}")


def _unescaped(text: str) -> str:
    """A string of a text proto: C escapes, octal for bytes that are no ASCII."""
    data = bytearray()
    for plain, octal, letter in re.findall(r"([^\\]+)|\\([0-7]{1,3})|\\(.)", text, re.DOTALL):
        if octal:
            data.append(int(octal, 8) & 0xFF)
        else:
            data += (plain or _ESCAPES.get(letter, letter)).encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape")
