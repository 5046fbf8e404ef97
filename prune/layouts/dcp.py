"""torch.distributed.checkpoint: directories of ``__<rank>_<i>.distcp`` shards with a ``.metadata`` written last.

Format: torch 2.11, ``torch/distributed/checkpoint/filesystem.py`` (shards under final names, then ``.metadata.tmp``
renamed to ``.metadata``; without collectives one ``__<rank>.metadata`` each) and ``_hf_utils.py`` (safetensors with
``model.safetensors.index.json``). The user names the directories.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from prune.layouts import markers
from prune.layouts.base import Claim, Glance, Members, Part, Reader, Verdict
from prune.layouts.step_dir import StepDir

METADATA = ".metadata"
HF_INDEX = "model.safetensors.index.json"
_SHARD = re.compile(r"__[0-9]+(?:_[0-9]+)?\.distcp")
_RANK_METADATA = re.compile(r"__[0-9]+\.metadata")


def committed(names: Collection[str]) -> bool:
    """Whether a directory holds the file that DCP writes last."""
    return METADATA in names or HF_INDEX in names or any(_RANK_METADATA.fullmatch(name) for name in names)


def written_by_dcp(names: Collection[str]) -> bool:
    """Whether names in a directory are DCP's."""
    return METADATA in names or any(_SHARD.fullmatch(name) for name in names)


class Dcp(StepDir):
    name = "dcp"
    title = "torch.distributed.checkpoint"
    weight = 2

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        """Any one step with DCP's own files in it, or in a folder of it (``model/``, ``optim/``)."""
        for claim in claims:
            if claim.part is not Part.PAYLOAD:
                continue
            inside = glance.inside(claim.path)
            nested = (glance.inside(f"{claim.path}/{name}") for name in sorted(inside)[:8])
            if written_by_dcp(inside) or any(written_by_dcp(names) for names in nested):
                return f"{claim.path} holds shards and metadata as torch.distributed.checkpoint writes them"
        return None

    def examine(self, members: Members, reader: Reader) -> Verdict:
        if members.paths[0] not in members.dirs:
            return super().examine(members, reader)
        return uncommitted(members) or super().examine(members, reader)


def uncommitted(members: Members) -> Verdict | None:
    """Broken, where nothing in a step says that its save finished."""
    path, files = markers.top(members)
    if not files:
        return None  # said better by whoever looks at empty directories
    folders: dict[str, set[str]] = {}
    for name in files:
        folder, _, last = name.rpartition("/")
        folders.setdefault(folder, set()).add(last)
    sharded = [folder for folder, names in folders.items() if any(_SHARD.fullmatch(name) for name in names)]
    for folder in sharded or [""]:
        if not any(committed(folders.get(place, ())) for place in _upwards(folder)):
            return markers.missing(f"{path}/{folder}".rstrip("/"), METADATA)
    return None


def _upwards(folder: str) -> list[str]:
    """The folder, and the step itself: ``sharded/`` lies below the index that covers it."""
    return [folder, folder.rpartition("/")[0]] if folder else [""]
