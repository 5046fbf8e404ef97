"""Zstandard frames decoded without a library: what stacks wrote, and bytes that are no frames."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune.integrity import ocdbt
from prune.integrity.zstd import MAGIC, Undecodable, decompress
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
        told = frame[5] if frame[4] >> 6 == 0 else int.from_bytes(frame[5:7], "little") + 256
        assert frame[4] >> 5 & 1
        assert len(decompress(frame, 1 << 20)) == told


def test_raw_blocks_and_runs_are_decoded() -> None:
    raw, run = b"abc", (1 | 1 << 1 | 5 << 3).to_bytes(3, "little") + b"r"
    assert decompress(MAGIC + b"\0\x58" + (3 << 3).to_bytes(3, "little") + raw + run, 100) == b"abcrrrrr"


def test_a_beginning_is_enough_where_no_more_is_asked_for() -> None:
    block = (100 << 3).to_bytes(3, "little") + b"x" * 100
    assert decompress(MAGIC + b"\0\x58" + block * 3, 150) == b"x" * 200


@pytest.mark.parametrize("level", [-5, 1, 3, 9, 19])
def test_it_decodes_as_the_library_does(level: int) -> None:
    library = pytest.importorskip("zstandard", reason="compares with it: pip install zstandard")
    chance = random.Random(level)
    texts = [json.dumps([{f"k{chance.randrange(50)}": chance.random()} for _ in range(n)]).encode() for n in (1, 900)]
    for data in (b"", b"a", bytes(70_000), os.urandom(3000), b"abc" * 50_000, *texts):
        assert decompress(library.ZstdCompressor(level=level).compress(data), 1 << 24) == data


@given(st.binary(max_size=400))
def test_no_bytes_crash_it_or_grow_without_bound(data: bytes) -> None:
    for body in (data, MAGIC + data, MAGIC + b"\x20\xff" + data):
        try:
            assert len(decompress(body, 1 << 16)) <= (1 << 16) + (128 << 10)
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
