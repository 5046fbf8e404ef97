"""torch.distributed.checkpoint: ``.metadata`` says which bytes of which ``.distcp`` shard hold what.

Shards are written first, ``.metadata`` last and by rename (pytorch/pytorch,
``torch/distributed/checkpoint/filesystem.py``); without collectives each rank writes ``__<rank>.metadata``.
Shards have no end record: each must be long enough for everything the metadata puts in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from prune.integrity import pickles, zips
from prune.integrity.window import Damage, Window

NAME = ".metadata"
SHARD = re.compile(r"(?:.+)?__(\d+)_(\d+)\.distcp")
RANK_METADATA = re.compile(r"__(\d+)\.metadata")
LONGEST = 64 << 20  # of a metadata file that is read
_STORAGE = "._StorageInfo"


def metadata_names(names: Iterable[str]) -> list[str]:
    """Which of a directory's names are its metadata: ``.metadata`` where it is there, else one for each rank."""
    found = sorted(names)
    if NAME in found:
        return [NAME]
    return [name for name in found if RANK_METADATA.fullmatch(name)]


def unfinished(names: Iterable[str]) -> str | None:
    """The sentence for a save into this directory that did not finish, told by names alone, or None."""
    found = set(names)
    shards = sorted(name for name in found if name.endswith(".distcp"))
    metadata = metadata_names(found)
    temporary = sorted(n for n in found if n.endswith(".metadata.tmp"))
    if temporary:
        return f"{temporary[0]} is there: the save did not finish"
    if shards and not metadata:
        return f"{len(shards)} shards without .metadata: the save did not finish"
    if metadata and NAME not in metadata:
        ranks = {match[1] for name in metadata if (match := RANK_METADATA.fullmatch(name))}
        for shard in shards:
            if (match := SHARD.fullmatch(shard)) and match[1] not in ranks:
                return f"{shard} without __{match[1]}.metadata: the save did not finish"
    return None


Places = Mapping[str, frozenset[tuple[int, int]]]  # by a shard's name: offset and length of each thing in it


def places(data: bytes) -> Places | None:
    """What lies where, by shard; None where the metadata says no such thing, or more than is read here.

    Raises Damage when the metadata itself is cut or is none.
    """
    if not data:
        raise Damage("the metadata is empty")
    try:
        value, _ = pickles.load(data)
    except pickles.BeyondBounds:
        return None
    except pickles.CutPickle:
        raise Damage(f"the metadata ends after {len(data)} bytes, before its end mark: it was cut") from None
    except pickles.UnreadablePickle as error:
        raise Damage(f"the metadata cannot be read ({error})") from None
    storage = value.get("storage_data") if isinstance(value, pickles.Opaque) else None
    if not isinstance(storage, dict):
        return None
    found: dict[str, set[tuple[int, int]]] = {}
    for item in storage.values():
        place = _place(item)
        if place is None:
            return None
        found.setdefault(place[0], set()).add(place[1:])
    return {path: frozenset(spans) for path, spans in found.items()}


def needed(found: Places) -> Mapping[str, int]:
    """How long each shard must be at the least."""
    return {path: max(offset + length for offset, length in spans) for path, spans in found.items()}


def check_sums(window: Window, spans: frozenset[tuple[int, int]], tick: Callable[[int], None]) -> bool:
    """Reads what lies in one shard against its checksums: torch.save writes each thing as a ZIP of its own.

    False where something has no checksums. Raises Damage.
    """
    if sum(length for _, length in spans) > window.size:
        return False
    complete = True
    for offset, length in sorted(spans):
        part = window.part(offset, length)
        complete = zips.looks_like(part) and zips.check_sums(part, tick) and complete
    return complete


def _place(item: object) -> tuple[str, int, int] | None:
    if not isinstance(item, pickles.Opaque) or not item.name.endswith(_STORAGE):
        return None
    path, offset, length = item.get("relative_path"), item.get("offset"), item.get("length")
    if not isinstance(path, str) or not isinstance(offset, int) or not isinstance(length, int):
        return None
    if {"", ".", ".."} & set(path.split("/")):
        raise Damage(f"the metadata names {path[:80]!a}, which is not below its directory")
    if offset < 0 or length < 0 or max(offset, length) >> 62:
        raise Damage(f"the metadata gives {path[:80]!a} an impossible place")
    return path, offset, length


def too_short(lengths: Mapping[str, int], sizes: Mapping[str, int]) -> str | None:
    """The sentence for the first shard that is missing or too short, or None. ``sizes`` by the same names."""
    for path, length in sorted(lengths.items()):
        if path not in sizes:
            return f"{path} missing: .metadata expects {length} bytes of it"
        if sizes[path] < length:
            return f"{path}: expected at least {length} bytes by .metadata, found {sizes[path]}: it was cut"
    return None
