"""What the frameworks themselves wrote: right steps, partials, pointers, foreign files, verdicts and picks."""

from pathlib import Path

import pytest

from prune.layouts.detect import detect
from prune.stores.local import LocalRoot
from tests.layouts.helpers import check_real_tree
from tests.trees.real import unpack

NEST = "lightning_logs/version_0/checkpoints"
TREES = [
    ("torch_plain", "step-file", ""),
    ("torch_plain_newest_truncated_73", "step-file", ""),
    ("torch_plain_killed_part", "step-file", ""),
    ("safetensors_unpadded", "step-file", ""),
    ("hf_trainer", "hf-trainer", ""),
    ("hf_trainer_damaged", "hf-trainer", ""),
    ("hf_sharded_missing_shard", "hf-trainer", ""),
    ("dcp_sync", "dcp", ""),
    ("dcp_newest_metadata_truncated", "dcp", ""),
    ("accelerate_auto", "accelerate", "checkpoints"),
    ("lightning_last_link", "lightning", NEST),
    ("lightning_killed", "lightning", NEST),
    ("orbax_killed_sync", "orbax", ""),
]
UNSEEN = {"hf_trainer_damaged": (40,)}  # zeros inside a file of full length: only its checksums tell


@pytest.mark.parametrize(("name", "layout", "base"), TREES)
def test_a_real_tree_is_read_as_it_is_known_to_be(name: str, layout: str, base: str, tmp_path: Path) -> None:
    check_real_tree(name, layout, tmp_path, base, unseen=UNSEEN.get(name, ()))


@pytest.mark.parametrize(("name", "layout", "base"), TREES)
def test_a_real_tree_is_detected_with_its_base(name: str, layout: str, base: str, tmp_path: Path) -> None:
    with LocalRoot(str(unpack(name, tmp_path))) as reader:
        found = detect(reader)
    assert found.layout is not None, found.why
    assert (found.layout.name, found.base, found.rivals) == (layout, base, ())
