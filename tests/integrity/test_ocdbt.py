"""Data files of OCDBT: followed from node to node and over values, to their very end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prune.integrity import ocdbt
from prune.integrity.crc32c import crc32c
from prune.integrity.window import Damage, Window
from prune.model import Health
from tests.integrity.copies import examined
from tests.integrity.made import write
from tests.trees.real import unpack

NAME = "d/0123456789abcdef0123456789abcdef"


def node(body: bytes) -> bytes:
    data = ocdbt.NODE + (16 + len(body)).to_bytes(8, "little") + body
    return data + crc32c(data).to_bytes(4, "little")


def frame(*blocks: bytes, run: int = 0, checksum: bool = False) -> bytes:
    """A Zstandard frame of raw blocks, and one run of so many bytes."""
    parts = [(len(block) << 3, block) for block in blocks] + ([((run << 3) | 2, b"r")] if run else [])
    parts[-1] = (parts[-1][0] | 1, parts[-1][1])
    body = b"".join(head.to_bytes(3, "little") + block for head, block in parts)
    return b"\x28\xb5\x2f\xfd" + bytes([4 * checksum, 0x58]) + body + bytes(4 * checksum)


VALUES = frame(os.urandom(900), b"", run=5000) + frame(os.urandom(300), checksum=True)
FILES = {
    "node": node(b"n" * 200),
    "values": VALUES,
    "both": VALUES + node(b"n" * 50),
    "nodes": node(b"one") + node(b"two"),
}


def followed(data: bytes) -> bool:
    return ocdbt.check(Window.over(data))


def summed(data: bytes) -> int:
    """The bytes that were read, when nothing was found."""
    told: list[int] = []
    assert ocdbt.check_sums(Window.over(data), told.append) is False
    return sum(told)


@pytest.mark.parametrize("kind", FILES)
def test_a_whole_file_is_followed_to_its_end(kind: str) -> None:
    assert followed(FILES[kind])
    assert summed(FILES[kind]) == len(FILES[kind])


@pytest.mark.parametrize("kind", FILES)
def test_a_cut_at_any_byte_is_seen_but_between_two_parts(kind: str) -> None:
    data, unseen = FILES[kind], []
    for end in range(1, len(data)):
        try:
            followed(data[:end])
        except Damage:
            continue
        unseen.append(end)
    assert all(data[end : end + 4] in (ocdbt.NODE, VALUES[:4]) for end in unseen)
    assert len(unseen) == {"node": 0, "values": 1, "both": 2, "nodes": 1}[kind]


def test_a_long_value_is_followed_only_where_all_is_read() -> None:
    data = frame(*(os.urandom(1000) for _ in range(40)))
    assert not followed(data[:-1])
    with pytest.raises(Damage, match="cut"):
        summed(data[:-1])


def test_a_node_that_does_not_fit_its_checksum_is_seen_where_all_is_read() -> None:
    data = bytearray(FILES["node"])
    data[100] ^= 1
    assert followed(bytes(data))
    with pytest.raises(Damage, match="CRC-32C"):
        summed(bytes(data))


def test_zeros_over_a_value_are_seen_where_they_hide_what_follows() -> None:
    data = bytearray(frame(os.urandom(3000), os.urandom(3000)))
    data[2000:6000] = b"\xff" * 4000
    with pytest.raises(Damage):
        summed(bytes(data))


@pytest.mark.parametrize("data", [b"", b"\0" * 5000, os.urandom(64) + VALUES, VALUES + b"an index" * 4])
def test_values_of_other_codecs_are_passed_over(data: bytes) -> None:
    assert ocdbt.check_sums(Window.over(data), lambda _: None) is False


def test_a_cut_data_file_makes_the_copy_broken(tmp_path: Path) -> None:
    folder = write(tmp_path, {f"default/{NAME}": FILES["both"]})
    assert examined(folder).health is Health.WHOLE
    (folder / "default" / NAME).write_bytes(FILES["both"][:-1])
    assert examined(folder).health is Health.BROKEN


def test_what_orbax_wrote_is_whole_and_no_data_file_of_it_can_be_cut_unseen(tmp_path: Path) -> None:
    root = unpack("orbax_killed_sync", tmp_path)
    files = [path for path in (root / "20").rglob("*") if path.is_file() and path.parent.name == "d"]
    assert files
    for path in files:
        data = path.read_bytes()
        assert followed(data)
        for end in (len(data) - 1, len(data) // 2, len(data) * 73 // 100):
            with pytest.raises(Damage):
                followed(data[:end])
    assert examined(root, "20").health is Health.WHOLE
