"""Whether the data files that an item's index names are there: Orbax merges what its processes wrote into one tree.

A step whose deletion was cut short keeps its name and may keep its index: only the index tells what is gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from prune.integrity import ocdbt, ocdbt_tree
from prune.integrity.window import Window
from prune.layouts import markers
from prune.layouts.base import FileStat, Health, Reader, Verdict

_MOST_NODES = 16  # looked into: of a larger tree, the first ones
_LONGEST = 512 << 10  # of one node: the tables at its beginning are what is wanted
_LOOKED_AT = 4096


def examine(path: str, manifest: bytes, files: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
    """What is wrong with the tree of the item at ``path``; None where nothing is, or it cannot be followed."""
    try:
        root = ocdbt_tree.newest_root(manifest)
    except ocdbt_tree.Unreadable:
        return None
    todo = [root] if root is not None else []
    for _ in range(_MOST_NODES):
        if not todo:
            break
        place = todo.pop()
        if place.path not in files:
            return _missing(path, place.path)
        try:
            data = _read(path + place.path, reader, place.offset, min(place.length, _LONGEST))
        except OSError as error:
            return Verdict(Health.UNKNOWN, f"{path}{place.path}: cannot be read: {error.strerror or error}")
        if not _is_node(data, place.length):
            return markers.broken(path + place.path, f"no whole node at byte {place.offset}, where its index says")
        try:
            node = ocdbt_tree.read_node(data, place.base)
        except ocdbt_tree.Unreadable:
            continue
        if (verdict := _values(path, node, files, reader)) is not None:
            return verdict
        todo += node.children
    return None


def _values(path: str, node: ocdbt_tree.Node, files: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
    for name in node.files:
        if name not in files:
            return _missing(path, name)
    for name in node.files if node.packed else ():
        try:
            head = _read(path + name, reader, 0, _LOOKED_AT)
        except OSError as error:
            return Verdict(Health.UNKNOWN, f"{path}{name}: cannot be read: {error.strerror or error}")
        if head and not any(head):
            return markers.broken(path + name, f"{files[name].size} bytes that begin with zeros: nothing was written")
    return None


def _is_node(data: bytes, length: int) -> bool:
    """By its checksum; of a long one the beginning alone was read."""
    if length <= _LONGEST:
        return len(data) == length and ocdbt.is_sound(data, ocdbt.NODE)
    return data.startswith(ocdbt.NODE) and int.from_bytes(data[4:12], "little") == length


def _missing(path: str, name: str) -> Verdict:
    return markers.missing(path.rstrip("/"), name, "its index names it")


def _read(path: str, reader: Reader, offset: int, length: int) -> bytes:
    with reader.open(path) as file:
        return Window(file).read(offset, length)
