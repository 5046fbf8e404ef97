"""Items of an Orbax step by their handlers: trees without OCDBT, and JSON. Built file by file as Orbax writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prune.model import Health, Verdict
from tests.layouts.helpers import Seen
from tests.trees.stacks import put, put_json

HANDLERS = "orbax.checkpoint._src.handlers"
TREE, JSON = "pytree_checkpoint_handler.PyTreeCheckpointHandler", "json_checkpoint_handler.JsonCheckpointHandler"


def leaf(*keys: str, kind: str = "jax.Array", shape: tuple[int, ...] = (4,)) -> dict[str, Any]:
    value = {"value_type": kind, "skip_deserialize": False, "write_shape": list(shape)}
    return {"key_metadata": [{"key": key, "key_type": 2} for key in keys], "value_metadata": value}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    step = tmp_path / "3"
    handlers = {"default": f"{HANDLERS}.{TREE}", "extra": f"{HANDLERS}.{JSON}"}
    put_json(step / "_CHECKPOINT_METADATA", {"item_handlers": handlers, "commit_timestamp_nsecs": 7})
    put(step / "commit_success.txt", "done")
    put_json(step / "extra" / "metadata", {"epoch": 3})
    put(step / "extra" / "commit_success.txt", "done")
    leaves = [leaf("a", "w"), leaf("b"), leaf("none", kind="None"), leaf("empty", shape=(0, 4))]
    tree = {"tree_metadata": {str(number): one for number, one in enumerate(leaves)}, "use_ocdbt": False,
            "store_array_data_equal_to_fill_value": True}  # fmt: skip
    put_json(step / "default" / "_METADATA", tree)
    for name in ("a.w", "b", "empty"):
        put_json(step / "default" / name / ".zarray", {"shape": [4], "chunks": [4]})
    put(step / "default" / "a.w" / "0")
    put(step / "default" / "b" / "0")
    return tmp_path


def verdict(run: Path) -> Verdict:
    return Seen(run, "orbax").verdict(3)


def test_a_tree_of_directories_and_an_item_of_json_are_restorable(run: Path) -> None:
    assert verdict(run).health.restorable


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ("default/_METADATA", "3/default: _METADATA is missing: Orbax writes it with every tree"),
        ("default/a.w/.zarray", "3/default/a.w: .zarray is missing: its tree lists it as an array"),
        ("default/b/0", "3/default/b: its description is there and none of its values"),
        ("extra/metadata", "3/extra: holds nothing: Orbax writes a file of JSON into it"),
    ],
)
def test_what_a_handler_always_writes_is_missed(gone: str, told: str, run: Path) -> None:
    (run / "3" / gone).unlink()
    assert verdict(run) == Verdict(Health.BROKEN, told)


def test_a_tree_of_texts_has_no_database_and_needs_its_file_of_texts(run: Path) -> None:
    tree = {"tree_metadata": {"x": leaf("config", kind="string")}, "use_ocdbt": True}
    put_json(run / "3" / "config" / "_METADATA", tree)
    texts = put_json(run / "3" / "config" / "_strings.json", {"config": "{}"})
    assert verdict(run).health.restorable
    texts.unlink()
    assert verdict(run).detail == "3/config: _strings.json is missing: its tree lists texts"


def test_a_tree_of_nothing_as_an_optimizer_without_state_leaves_it_is_whole(run: Path) -> None:
    tree = {"tree_metadata": {"x": leaf("a", kind="None"), "y": leaf("b", kind="Tuple")}, "use_ocdbt": True}
    put_json(run / "3" / "opt_state" / "_METADATA", tree)
    assert verdict(run).health.restorable


@pytest.mark.parametrize("name", ["extra/metadata", "default/a.w/.zarray"])
def test_json_that_is_none_breaks_the_step(name: str, run: Path) -> None:
    path = run / "3" / name
    path.write_bytes(bytes(path.stat().st_size))
    assert verdict(run).health is Health.BROKEN


def test_where_values_equal_to_the_fill_are_left_out_an_array_without_any_is_whole(run: Path) -> None:
    path = run / "3" / "default" / "_METADATA"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"store_array_data_equal_to_fill_value": False}))
    (run / "3" / "default" / "b" / "0").unlink()
    assert verdict(run).health.restorable


@pytest.mark.parametrize("tree", [None, [], {"x": 1}, {"x": {"key_metadata": 3}}, {"x": {"key_metadata": [{}]}}])
def test_a_tree_that_is_not_understood_asks_for_nothing(tree: Any, run: Path) -> None:
    put_json(run / "3" / "default" / "_METADATA", {"tree_metadata": tree, "use_ocdbt": False})
    assert verdict(run).health.restorable
