"""Items of an Orbax step: trees of arrays in OCDBT, with ``_METADATA`` and a ``manifest.ocdbt``.

Format: google/orbax, ``_src/serialization`` (``ocdbt.process_<i>/`` of every process, merged into the item's own
manifest).
A step that Orbax was killed while deleting keeps its name and loses files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from prune.integrity import ocdbt
from prune.layouts import markers, metric_files, orbax_handlers, orbax_tree
from prune.layouts.base import FileStat, Health, Reader, Verdict

MANIFEST = "manifest.ocdbt"
_METADATA = "_METADATA"
_LEGACY_METADATA = "checkpoint"  # msgpack, before _METADATA was
_LONGEST_MANIFEST = 4 << 20
_DATA = re.compile(rb"(?<![A-Za-z0-9_])d/[0-9a-f]{32}(?![0-9a-f])")


def examine(path: str, files: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
    """What is wrong with the items of one step; None when nothing that can be seen is."""
    for item in sorted(_items(files)):
        inside = {name[len(item) :]: stat for name, stat in files.items() if name.startswith(item)}
        for verdict in _item(f"{path}/{item}", inside, reader):
            if verdict is not None:
                return verdict
    return None


def _items(files: Mapping[str, FileStat]) -> set[str]:
    """Directories (with a slash at the end, ``""`` for the step itself) that hold a tree of arrays."""
    found: set[str] = set()
    for name in files:
        folders = name.split("/")
        if folders[-1] in (MANIFEST, _METADATA) or (len(folders) > 1 and folders[-2] == "d"):
            place = folders[:-1] if folders[-1] in (MANIFEST, _METADATA) else folders[:-2]
            if place and place[-1].startswith("ocdbt.process_"):
                place = place[:-1]
            found.add("".join(f"{folder}/" for folder in place))
    return found


def _item(path: str, files: Mapping[str, FileStat], reader: Reader) -> Iterator[Verdict | None]:
    place = path.rstrip("/")
    if _METADATA not in files and _LEGACY_METADATA not in files:
        yield markers.missing(place, _METADATA, "Orbax writes it with every tree")
    if _METADATA in files:
        yield _by_metadata(path, files, reader)
    elif MANIFEST not in files:
        yield markers.missing(place, MANIFEST)
    for folder in sorted({name.partition("/")[0] for name in files if name.startswith("ocdbt.process_")}):
        if f"{folder}/{MANIFEST}" not in files:
            yield markers.missing(f"{path}{folder}", MANIFEST)
    for name in sorted(files):
        last = name.rpartition("/")[2]
        if last == MANIFEST:
            yield _manifest(path, name, files, reader)
        elif name.rpartition("/")[0].rpartition("/")[2] == "d":
            yield _data(path + name, files[name])


def _by_metadata(path: str, files: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
    try:
        metadata = metric_files.read_json(reader, path + _METADATA)
    except ValueError as error:
        return markers.broken(path + _METADATA, f"cannot be parsed: {error}")
    except OSError as error:
        return _unknown(path + _METADATA, error)
    needed = orbax_handlers.without_arrays(metadata)
    if needed is not None:
        lost = sorted(needed - files.keys())
        return markers.missing(path.rstrip("/"), lost[0], "its tree lists texts") if lost else None
    uses_ocdbt = isinstance(metadata, dict) and metadata.get("use_ocdbt") is True
    if uses_ocdbt and MANIFEST not in files:
        return markers.missing(path.rstrip("/"), MANIFEST)
    if isinstance(metadata, dict) and metadata.get("use_ocdbt") is False:
        return orbax_handlers.arrays(path, metadata, files)
    if uses_ocdbt and not any(name.startswith("d/") or "/d/" in name for name in files):
        return markers.broken(path.rstrip("/"), "its manifest is there and none of its data")
    return None


def _manifest(path: str, name: str, files: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
    """Its length and checksum, and the data file of its root where the name of one can be read off."""
    if files[name].size > _LONGEST_MANIFEST:
        return None
    try:
        with reader.open(path + name) as file:
            data = file.read(_LONGEST_MANIFEST + 1)
    except OSError as error:
        return _unknown(path + name, error)
    if not ocdbt.is_sound(data):
        return markers.broken(path + name, f"{len(data)} bytes that are no whole manifest")
    if name == MANIFEST and (verdict := orbax_tree.examine(path, data, files, reader)) is not None:
        return verdict
    folder = name[: -len(MANIFEST)]
    named = set(_DATA.findall(data))
    gone = [one.decode() for one in named if folder + one.decode() not in files]
    # Names in the manifest may be compressed; a single one that stands there in full is what it seems to be.
    return (
        markers.missing((path + folder).rstrip("/"), gone[0], "its manifest names it")
        if len(named) == 1 and gone
        else None
    )


def _data(path: str, stat: FileStat) -> Verdict | None:
    """What a data file begins and does not end is for the checks of formats to tell; an empty one begins nothing."""
    return markers.broken(path, "0 bytes: nothing was written to it") if stat.size == 0 else None


def _unknown(path: str, error: OSError) -> Verdict:
    return Verdict(Health.UNKNOWN, f"{path}: cannot be read: {error.strerror or error}")
