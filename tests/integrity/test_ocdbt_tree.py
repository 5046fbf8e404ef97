"""The tree of an OCDBT database, read for the data files it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune.integrity import ocdbt, ocdbt_tree
from tests.trees.real import unpack


@pytest.fixture
def item(tmp_path: Path) -> Path:
    return unpack("orbax_killed_sync", tmp_path) / "20" / "default"


def test_the_root_of_what_orbax_wrote_is_a_sound_node_of_its_data_file(item: Path) -> None:
    root = ocdbt_tree.newest_root((item / "manifest.ocdbt").read_bytes())
    assert root is not None
    data = (item / root.path).read_bytes()[root.offset :][: root.length]
    assert ocdbt.is_sound(data, ocdbt.NODE)
    assert all((item / name).exists() for name in ocdbt_tree.read_node(data, root.base).files)


def test_the_newest_of_several_versions_of_one_process_is_read(item: Path) -> None:
    folder = item / "ocdbt.process_0"
    root = ocdbt_tree.newest_root((folder / "manifest.ocdbt").read_bytes())
    assert root is not None
    assert (folder / root.path).exists()


def test_a_table_of_files_gives_each_its_own_base() -> None:
    names = (b"ocdbt.process_0/d/", b"aa", b"bb")
    table = bytes([2, 18, 20, 2, 16, 16]) + b"".join(names)
    node = ocdbt_tree.read_node(ocdbt.NODE + bytes(10) + b"\1" + table + b"\0" + bytes(4), "base/")
    assert node.files == ("base/ocdbt.process_0/d/aa", "base/ocdbt.process_0/d/bb")


def test_children_of_an_inner_node_stand_where_it_says() -> None:
    table = bytes([1, 4, 2]) + b"p/d1"
    children = bytes([2, 0, 1, 1, 0, 0]) + b"kl" + bytes([0, 0, 5, 9, 40, 50])
    node = ocdbt_tree.read_node(ocdbt.NODE + bytes(10) + b"\1" + table + children + bytes(4), "")
    assert [(one.path, one.base, one.offset, one.length) for one in node.children] == [
        ("p/d1", "p/", 5, 40),
        ("p/d1", "p/", 9, 50),
    ]


@given(st.binary(max_size=300))
def test_no_bytes_crash_it(data: bytes) -> None:
    for body in (data, bytes(14) + data, bytes(14) + b"\1\2" + data):
        for read in (ocdbt_tree.newest_root, lambda given: ocdbt_tree.read_node(given, "")):
            try:
                read(body)
            except ocdbt_tree.Unreadable:
                pass
