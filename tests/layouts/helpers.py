"""Reads a directory through one layout, as the product does, and holds it against what is known of a real tree."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from prune import layouts
from prune.layouts.base import Entry, Layout, Members, Part
from prune.layouts.listing import Listing, every_pointer, read_root
from prune.model import Kind, Pick, Pointer, Verdict
from prune.stores.local import LocalRoot
from tests.trees.build import torch_zip
from tests.trees.real import EXPECTED, unpack

FRESH = 300 * 1_000_000_000


class Seen:
    """A root as one layout sees it."""

    def __init__(self, root: Path, layout: str | Layout, base: str = "", *, now_ns: int | None = None) -> None:
        self.root, self.base = root, base
        self.layout = layouts.get(layout) if isinstance(layout, str) else layout
        self.reader = LocalRoot(str(root))
        now = time.time_ns() if now_ns is None else now_ns
        self.listing: Listing = read_root(self.layout, self.reader, base, now_ns=now, fresh_ns=FRESH)
        self.view = self.listing.view

    def paths(self, *parts: Part) -> dict[int | None, list[str]]:
        """Paths of claims by step; of all parts that belong to steps unless some are named."""
        wanted = parts or (Part.PAYLOAD, Part.SIDECAR, Part.TEMPORARY)
        found: dict[int | None, list[str]] = {}
        for claim in self.view.claims:
            if claim.part in wanted:
                found.setdefault(claim.step, []).append(claim.path)
        return {step: sorted(found[step]) for step in found}

    @property
    def steps(self) -> list[int]:
        return sorted(self.view.steps)

    @property
    def collision(self) -> str | None:
        return self.layout.collisions(self.view.claims)

    @property
    def pick(self) -> Pick | None:
        return self.layout.trainer_pick(self.view)

    @property
    def pointers(self) -> dict[str, Pointer]:
        return {pointer.path: pointer for pointer in every_pointer(self.layout, self.view)}

    def members(self, step: int) -> Members:
        """Every file of one step's copy."""
        owned = self.paths(Part.PAYLOAD, Part.SIDECAR)[step]
        tops = tuple(self.layout.withdraw_order(owned))
        files, dirs = {}, {}
        for path in tops:
            top = self.reader.stat(path)
            (dirs if top.kind is Kind.DIR else files)[path] = top
            for entry, status in self.reader.walk(path):
                (dirs if status.kind is Kind.DIR else files)[entry.path] = status
        return Members(step, tops, files, dirs)

    def verdict(self, step: int) -> Verdict:
        return self.layout.examine(self.members(step), self.reader)

    def weights_only(self, step: int) -> bool:
        return self.layout.weights_only(self.members(step))


def check_real_tree(name: str, layout: str | Layout, into: Path, base: str = "", *, unseen: Iterable[int] = ()) -> Seen:
    """Unpacks a real tree and asserts everything ``expected.json`` says of it; ``unseen`` are damaged steps that only
    a full read can see."""
    expected = EXPECTED[name]
    seen = Seen(unpack(name, into), layout, base)
    assert {str(step): paths for step, paths in seen.paths().items()} == expected["units"]
    assert sorted(chain(*seen.paths(Part.TEMPORARY).values())) == sorted(expected["partials"])
    assert {path: seen.pointers[path].step for path in seen.pointers} == expected["pointer_targets"]
    assert _files_of_no_step(seen) == sorted(expected["foreign"])
    assert seen.collision is None
    for step in expected["complete"]:
        assert seen.verdict(step).health.restorable, (step, seen.verdict(step))
    for step in expected["damaged"]:
        finished = int(step) in seen.view.steps
        if finished and int(step) not in unseen:
            assert not seen.verdict(int(step)).health.restorable, step
            assert seen.verdict(int(step)).detail
    assert seen.pick is not None
    assert seen.pick.step == expected["framework_resume"]["step"]
    assert seen.layout.best_recorded(seen.view) in (None, expected["best"])
    return seen


def _files_of_no_step(seen: Seen) -> list[str]:
    claimed = [claim.path for claim in seen.view.claims]
    found = []
    for folder, _, names in os.walk(seen.root):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), seen.root)
            if not any(path == one or path.startswith(one + "/") for one in claimed):
                found.append(path)
    return sorted(found)


def sketch(root: Path, *names: str) -> Path:
    """A root with these names in it: directories where they end in a slash, else small whole torch files."""
    root.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(torch_zip(64))
    return root


def claims(layout: str | Layout, *names: str) -> dict[str, tuple[Part, int | None] | None]:
    """What a layout makes of names alone, a slash at the end marking directories."""
    chosen = layouts.get(layout) if isinstance(layout, str) else layout
    found: dict[str, tuple[Part, int | None] | None] = {}
    for name in names:
        claim = chosen.claim(Entry(name.rstrip("/"), Kind.DIR if name.endswith("/") else Kind.FILE))
        found[name] = None if claim is None else (claim.part, claim.step)
    return found
