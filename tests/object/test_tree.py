"""Keys as folders, and folders taken out again."""

from __future__ import annotations

import pytest

from prune.stores.object.client import Object
from prune.stores.object.tree import Tree

KEYS = [f"step-{step}/{sub}shard_{shard}.bin" for step in (1, 2, 3) for sub in ("", "optim/") for shard in range(4)]


def tree_of(keys: list[str]) -> Tree:
    return Tree.of(7, ((key, Object(key, 10, 5, f"tag of {key}")) for key in [*keys, "latest"]))


@pytest.mark.parametrize("gone", ["step-2", "step-2/optim"])
def test_a_folder_taken_out_leaves_what_a_new_listing_without_it_would_show(gone: str) -> None:
    tree = tree_of(KEYS)
    assert tree.without(gone)
    rest = tree_of([key for key in KEYS if not key.startswith(f"{gone}/")])
    assert tree.folder(gone) is None
    for path in ("", "step-1", "step-2", "step-3"):
        mine, theirs = tree.folder(path), rest.folder(path)
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert (mine.count, mine.size, mine.digest) == (theirs.count, theirs.size, theirs.digest)
            assert mine.measure(7).files == theirs.measure(7).files


@pytest.mark.parametrize("path", ["", "step-9", "step-1/shard_0.bin", "latest", "step-1/none/below"])
def test_what_is_no_folder_is_not_taken_out_and_said(path: str) -> None:
    tree = tree_of(KEYS)
    assert not tree.without(path)
    assert tree.top.count == len(KEYS) + 1
