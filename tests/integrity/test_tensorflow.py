"""TensorFlow's bundles: a real one, and what is missing, cut or changed in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prune.integrity import tensorflow
from prune.integrity.window import Damage, Window
from prune.model import Health
from tests.integrity.copies import examined
from tests.integrity.made import write
from tests.trees.real import unpack


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A directory with ``ckpt-10`` alone."""
    root = unpack("tf_manager", tmp_path / "real")
    names = ("ckpt-10.index", "ckpt-10.data-00000-of-00001")
    return write(tmp_path / "one", {name: (root / name).read_bytes() for name in names})


def test_a_real_bundle_is_whole_and_its_tensors_match(bundle: Path) -> None:
    assert examined(bundle).health is Health.WHOLE
    found = tensorflow.read_index(Window.over((bundle / "ckpt-10.index").read_bytes()))
    assert found.shards == 1
    assert found.tensors
    data = Window.over((bundle / "ckpt-10.data-00000-of-00001").read_bytes())
    assert tensorflow.check_sums(data, found.tensors, lambda _: None)


def test_every_changed_byte_of_a_tensor_is_found(bundle: Path) -> None:
    tensors = tensorflow.read_index(Window.over((bundle / "ckpt-10.index").read_bytes())).tensors or ()
    data = (bundle / "ckpt-10.data-00000-of-00001").read_bytes()
    for tensor in tensors:
        for at in range(tensor.offset, tensor.offset + tensor.size, max(1, tensor.size // 5)):
            changed = Window.over(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
            with pytest.raises(Damage):
                tensorflow.check_sums(changed, tensors, lambda _: None)


@pytest.mark.parametrize("gone", ["ckpt-10.index", "ckpt-10.data-00000-of-00001"])
def test_a_missing_part_breaks_the_copy(gone: str, bundle: Path) -> None:
    (bundle / gone).unlink()
    verdict = examined(bundle)
    assert verdict.health is Health.BROKEN
    assert gone in str(verdict.detail)


def test_a_data_file_one_byte_short_is_broken_with_both_sizes(bundle: Path) -> None:
    os.truncate(bundle / "ckpt-10.data-00000-of-00001", 5639)
    verdict = examined(bundle)
    assert verdict.health is Health.BROKEN
    assert "expected at least 5640 bytes, found 5639" in str(verdict.detail)


def test_every_cut_of_the_index_is_damage(bundle: Path) -> None:
    data = (bundle / "ckpt-10.index").read_bytes()
    for end in range(len(data)):
        with pytest.raises(Damage):
            tensorflow.read_index(Window.over(data[:end]))


def test_every_changed_byte_of_the_indexs_blocks_is_damage(bundle: Path) -> None:
    data = (bundle / "ckpt-10.index").read_bytes()
    for at in range(340):
        with pytest.raises(Damage):
            tensorflow.read_index(Window.over(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]))


def test_another_kind_of_index_is_left_alone(tmp_path: Path) -> None:
    assert examined(write(tmp_path, {"faiss.index": b"IxFI" + b"w" * 300})).health is Health.UNVERIFIED
