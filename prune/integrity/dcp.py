"""torch.distributed.checkpoint: ``.metadata`` says which bytes of which ``.distcp`` shard hold what.

Shards are written first, ``.metadata`` last and by rename (pytorch/pytorch,
``torch/distributed/checkpoint/filesystem.py``); without collectives each rank writes ``__<rank>.metadata``.
Shards have no end record: each must be long enough for everything the metadata puts in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from prune.integrity import pickles
from prune.integrity.window import Damage

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


def needed(data: bytes) -> Mapping[str, int] | None:
    """How long each shard must be at the least, by its name; None where the metadata says no such thing.

    Raises Damage when the metadata itself is cut or is none.
    """
    if not data:
        raise Damage("the metadata is empty")
    try:
        value, _ = pickles.load(data)
    except pickles.CutPickle:
        raise Damage(f"the metadata ends after {len(data)} bytes, before its end mark: it was cut") from None
    except pickles.UnreadablePickle as error:
        raise Damage(f"the metadata cannot be read ({error})") from None
    storage = value.get("storage_data") if isinstance(value, pickles.Opaque) else None
    if not isinstance(storage, dict):
        return None
    lengths: dict[str, int] = {}
    for place in storage.values():
        path, end = _end(place)
        if path is None:
            return None
        lengths[path] = max(end, lengths.get(path, 0))
    return lengths


def _end(place: object) -> tuple[str | None, int]:
    if not isinstance(place, pickles.Opaque) or not place.name.endswith(_STORAGE):
        return None, 0
    path, offset, length = place.get("relative_path"), place.get("offset"), place.get("length")
    if not isinstance(path, str) or not isinstance(offset, int) or not isinstance(length, int):
        return None, 0
    if path.startswith("/") or {"", ".", ".."} & set(path.split("/")):
        raise Damage(f"the metadata names {path[:80]!a}, which is not below its directory")
    if offset < 0 or length < 0:
        raise Damage(f"the metadata gives {path[:80]!a} an impossible place")
    return path, offset + length


def too_short(lengths: Mapping[str, int], sizes: Mapping[str, int]) -> str | None:
    """The sentence for the first shard that is missing or too short, or None. ``sizes`` by the same names."""
    for path, length in sorted(lengths.items()):
        if path not in sizes:
            return f"{path} missing: .metadata expects {length} bytes of it"
        if sizes[path] < length:
            return f"{path}: expected at least {length} bytes by .metadata, found {sizes[path]}: it was cut"
    return None
