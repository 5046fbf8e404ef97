"""What goes first of a copy in an object store: without it, no stack takes what is left for a checkpoint."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from prune.inventory.judging import members_of
from prune.inventory.listing import group
from prune.layouts.base import Members
from prune.layouts.detect import detect
from prune.layouts.listing import read_root
from prune.model import Copy, Identity
from prune.stores.local import LocalRoot
from prune.stores.object.client import Object
from prune.stores.object.delete import in_order
from tests.trees.real import EXPECTED, unpack
from tests.trees.stacks import deepspeed, hf, llama_factory, megatron, megatron_bridge, verl

MADE = {"deepspeed": deepspeed, "hf": hf, "llama_factory": llama_factory, "megatron": megatron,
        "megatron_bridge": megatron_bridge, "verl": verl}  # fmt: skip


def without(members: Members, gone: set[str]) -> Members:
    files = {path: stat for path, stat in members.files.items() if path not in gone}
    return replace(members, files=files, paths=tuple(path for path in members.paths if path not in gone))


def checked(folder: Path) -> tuple[int, list[str]]:
    """Copies of several objects below a directory, and those that still pass after their first objects went."""
    root = LocalRoot(str(folder))
    found = detect(root)
    if found.layout is None:
        return 0, []
    listing = group(read_root(found.layout, root, found.base, now_ns=time.time_ns(), fresh_ns=0))
    count, passing = 0, []
    for step, claims in listing.steps.items():
        paths = tuple(found.layout.withdraw_order([claim.path for claim in claims]))
        copy = Copy(step, "primary", paths, Identity(0, 0, 0, 0, 0, 0), None, None)
        members, _, _, _ = members_of(root, copy)
        if len(members.files) < 2 or not found.layout.examine(members, root).health.restorable:
            continue
        objects = {path: Object(path, stat.size, 0, "") for path, stat in members.files.items()}
        first, rest, last = in_order(paths, objects)
        assert len(first) + len(rest) + len(last) == len(objects)
        count += 1
        gone = {each.key for each in first}
        if gone != set(objects) and found.layout.examine(without(members, gone), root).health.restorable:
            passing.append(f"{folder.name} step {step}: {sorted(set(objects) - gone)}")
    return count, passing


BY_INDEX_ALONE = {"keras_sharded"}  # Keras loads by the name of the index, which goes first: shards alone have none


@pytest.mark.parametrize("name", sorted(set(EXPECTED) - BY_INDEX_ALONE))
def test_no_real_checkpoint_passes_without_what_goes_first(name: str, tmp_path: Path) -> None:
    _, passing = checked(unpack(name, tmp_path))

    assert passing == []


@pytest.mark.parametrize("stack", sorted(MADE))
def test_no_stack_takes_what_is_left_for_a_checkpoint(stack: str, tmp_path: Path) -> None:
    for step in (10, 20):
        MADE[stack](tmp_path / "run", step)

    _, passing = checked(tmp_path / "run")

    assert passing == []
