"""``*.index.json``: which shard holds which weight; every shard it names must be there.

Format: huggingface/transformers, ``modeling_utils.py`` (``save_pretrained`` writes shards first, the index after).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from prune.integrity.window import Damage

LONGEST = 32 << 20
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})(?P<ext>\.safetensors|\.bin)")
_NEEDS_INDEX = frozenset({"model", "pytorch_model", "adapter_model", "diffusion_pytorch_model"})


def shards(text: bytes) -> tuple[str, ...]:
    """The shards an index names, sorted. Raises Damage when it is no index or names files out of its directory."""
    try:
        weights = json.loads(text)["weight_map"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise Damage("the index of shards cannot be parsed: it was cut, or is none") from None
    if not isinstance(weights, dict) or not all(isinstance(name, str) for name in weights.values()):
        raise Damage("the index of shards has no weight_map of names")
    names = sorted(set(weights.values()))
    for name in names:
        if name.startswith("/") or "\\" in name or "\0" in name or {"", ".", ".."} & set(name.split("/")):
            raise Damage(f"the index of shards names {name[:80]!a}, which is not below its directory")
    return tuple(names)


def missing(named: Collection[str], present: Collection[str]) -> str | None:
    """The sentence for shards that an index names and nobody has, or None."""
    gone = [name for name in named if name not in present]
    if not gone:
        return None
    more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return f"{gone[0]}{more} missing: the index names {len(named)} shards"


def incomplete_set(names: Collection[str]) -> str | None:
    """The sentence for a set ``X-00001-of-0000N`` in one directory that lacks numbers or its index, or None."""
    sets: dict[tuple[str, str, str], set[int]] = {}
    for name in names:
        if match := _SHARD.fullmatch(name):
            sets.setdefault((match["stem"], match["total"], match["ext"]), set()).add(int(match["number"]))
    for (stem, total, ext), numbers in sorted(sets.items()):
        for number in range(1, int(total) + 1):
            if number not in numbers:
                return f"{stem}-{number:05d}-of-{total}{ext} missing: {len(numbers)} of {int(total)} shards are there"
        index = f"{stem}{ext}.index.json"
        if stem in _NEEDS_INDEX and index not in names:
            return f"{index} missing: {int(total)} shards without the index that is written after them"
    return None
