"""Compressed bytes are looked into within a bound, and bytes that are no frames are refused."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from prune.integrity import ocdbt
from prune.integrity.zstd import MAGIC, Undecodable, decompress
from prune.model import Health
from tests.cli.command import prune
from tests.trees.real import unpack


def frames(root: Path) -> list[bytes]:
    """The bodies of manifests and nodes that Orbax wrote."""
    files = [path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()]
    found = [data[14:-4] for data in files if data[:4] in (ocdbt.NODE, ocdbt.MANIFEST) and data[13] == 1]
    return [frame for frame in found if frame.startswith(MAGIC)]


def test_what_a_stack_wrote_is_decoded_to_the_length_it_tells(tmp_path: Path) -> None:
    found = frames(unpack("orbax_killed_sync", tmp_path))
    assert found
    for frame in found:
        assert len(decompress(frame, 1 << 20)) == zstandard.frame_content_size(frame) > 0


@pytest.mark.parametrize("most", [1, 150, 1 << 20])
def test_no_more_is_decoded_than_was_asked_for(most: int) -> None:
    frame = zstandard.compress(b"x" * 50_000_000)
    assert decompress(frame, most) == b"x" * most


@pytest.mark.parametrize("keep", [0, 3, 9, 100, -1])
def test_a_frame_that_was_cut_is_refused(keep: int) -> None:
    frame = zstandard.compress(random.Random(7).randbytes(5000))
    with pytest.raises(Undecodable):
        decompress(frame[:keep], 1 << 16)


@given(st.binary(max_size=400))
def test_no_bytes_crash_it_or_grow_without_bound(data: bytes) -> None:
    for body in (data, MAGIC + data, MAGIC + b"\x20\xff" + data):
        try:
            assert len(decompress(body, 1 << 16)) <= 1 << 16
        except Undecodable:
            pass


def test_a_frame_with_a_changed_byte_is_decoded_or_refused(tmp_path: Path) -> None:
    for frame in frames(unpack("orbax_killed_sync", tmp_path)):
        for place in range(4, len(frame)):
            changed = bytearray(frame)
            changed[place] ^= 1 << place % 8
            try:
                decompress(bytes(changed), 1 << 16)
            except Undecodable:
                pass


def test_without_the_library_a_good_tree_is_none_the_worse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = unpack("orbax_killed_sync", tmp_path)
    with_it = prune("plan", "--json", "--primary", root).json["runs"][0]["steps"]
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(Undecodable, match="ckpt-prune\\[orbax\\]"):
        decompress(zstandard.compress(os.urandom(10)), 100)
    without = prune("plan", "--json", "--primary", root).json["runs"][0]["steps"]
    assert [(s["step"], s["copies"][0]["health"]) for s in without] == [
        (s["step"], s["copies"][0]["health"]) for s in with_it
    ]
    assert any(step["copies"][0]["health"] == Health.WHOLE.value for step in without)
