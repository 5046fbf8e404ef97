"""Real trees of the frameworks: what structure and content can see of the damage in them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from prune.integrity.content import check_content
from prune.integrity.manifest import Manifest, ManifestFile
from prune.model import Health
from tests.integrity.copies import copy_at, examined
from tests.integrity.made import zeroed
from tests.trees.real import EXPECTED, unpack

BEYOND_STRUCTURE = {  # told by content, or by the layout's own markers
    ("hf_trainer_damaged", "40"),
    ("hf_trainer_damaged", "90"),
    ("orbax_killed_sync", "30"),
}


@pytest.mark.parametrize("tree", sorted(EXPECTED))
def test_no_complete_step_is_called_anything_but_restorable(tree: str, tmp_path: Path) -> None:
    root = unpack(tree, tmp_path)
    for step in EXPECTED[tree]["complete"]:
        verdict = examined(root, *EXPECTED[tree]["units"][str(step)])
        assert verdict.health.restorable, (step, verdict)


@pytest.mark.parametrize("tree", sorted(t for t in EXPECTED if EXPECTED[t]["layout"] != "orbax"))
def test_a_complete_step_of_known_formats_is_whole(tree: str, tmp_path: Path) -> None:
    root = unpack(tree, tmp_path)
    for step in EXPECTED[tree]["complete"]:
        assert examined(root, *EXPECTED[tree]["units"][str(step)]).health is Health.WHOLE, step


@pytest.mark.parametrize("tree", sorted(t for t in EXPECTED if EXPECTED[t]["damaged"]))
def test_what_was_cut_or_taken_away_is_broken(tree: str, tmp_path: Path) -> None:
    root = unpack(tree, tmp_path)
    for step in EXPECTED[tree]["damaged"]:
        if (tree, step) in BEYOND_STRUCTURE:
            continue
        verdict = examined(root, *EXPECTED[tree]["units"][step])
        assert verdict.health is Health.BROKEN, step
        assert verdict.detail


FORMATS = [  # tree, step, a file of the step, whether zeros in its middle can be told without a manifest
    ("torch_plain", "100", "step_0100.pt", True),
    ("safetensors_unpadded", "10000", "step_10000.safetensors", False),
    ("hf_trainer", "100", "checkpoint-100/model.safetensors", False),
    ("hf_trainer", "100", "checkpoint-100/optimizer.pt", True),
    ("hf_trainer", "100", "checkpoint-100/rng_state.pth", True),
    ("hf_trainer", "100", "checkpoint-100/training_args.bin", True),
    ("hf_sharded_missing_shard", "30", "checkpoint-30/model-00001-of-00005.safetensors", False),
    ("dcp_sync", "100", "step-100/__0_0.distcp", True),
    ("lightning_last_link", "80", "lightning_logs/version_0/checkpoints/epoch=2-step=80.ckpt", True),
    ("accelerate_auto", "10", "checkpoints/checkpoint_10/model.safetensors", False),
    ("accelerate_auto", "10", "checkpoints/checkpoint_10/random_states_0.pkl", True),
    ("accelerate_auto", "10", "checkpoints/checkpoint_10/optimizer.bin", True),
    ("deepspeed_zero1", "80", "global_step80/mp_rank_00_model_states.pt", True),
    ("tf_manager", "120", "ckpt-120.data-00000-of-00001", True),
    ("tf_manager", "120", "ckpt-120.index", True),
    ("keras_epochs", "12", "model.12-0.20.keras", True),
]
CUTS: dict[str, Callable[[int], int]] = {
    "73 %": lambda size: size * 73 // 100,
    "50 %": lambda size: size // 2,
    "nothing": lambda size: 0,
    "one byte short": lambda size: size - 1,
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("tree", "step", "file", "_"), FORMATS)
def test_every_format_cut_anywhere_is_found_by_structure(
    tree: str, step: str, file: str, _: bool, cut: str, tmp_path: Path
) -> None:
    root = unpack(tree, tmp_path)
    os.truncate(root / file, CUTS[cut]((root / file).stat().st_size))
    assert examined(root, *EXPECTED[tree]["units"][step]).health is Health.BROKEN


@pytest.mark.parametrize(("tree", "step", "file", "_"), FORMATS)
def test_every_format_of_nothing_but_zeros_is_found_by_content(
    tree: str, step: str, file: str, _: bool, tmp_path: Path
) -> None:
    root = unpack(tree, tmp_path)
    (root / file).write_bytes(bytes((root / file).stat().st_size))
    with copy_at(root, *EXPECTED[tree]["units"][step]) as (members, reader):
        assert check_content(members, reader).health is Health.BROKEN


@pytest.mark.parametrize(("tree", "step", "file", "has_sums"), FORMATS)
def test_zeros_in_the_middle_are_found_by_sums_or_by_the_manifest(
    tree: str, step: str, file: str, has_sums: bool, tmp_path: Path
) -> None:
    root = unpack(tree, tmp_path)
    data = (root / file).read_bytes()
    named = ManifestFile(file, len(data), hashlib.sha256(data).hexdigest())
    sealed = Manifest(file.partition("/")[0], int(step), 10**20, (named,))
    length = min(4096, len(data) // 3)
    (root / file).write_bytes(zeroed(data, (len(data) - length) // 2, length))
    with copy_at(root, *EXPECTED[tree]["units"][step]) as (members, reader):
        assert check_content(members, reader, manifest=sealed).health is Health.BROKEN
        assert (check_content(members, reader).health is Health.BROKEN) == has_sums
