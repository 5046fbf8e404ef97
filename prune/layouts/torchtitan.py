"""torchtitan: ``step-<N>`` directories that torch.distributed.checkpoint wrote, in a folder ``checkpoint``.

Names and picks: pytorch/torchtitan, ``components/checkpoint.py`` (``_find_load_step``: the highest ``step-N`` that
holds ``.metadata`` or ``model.safetensors.index.json``); with fault tolerance each replica's dataloader state lies in
``ft-replicat-<id>/step-<N>`` (``experiments/torchft/checkpoint.py``, spelled so).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from prune.layouts import dcp, naming
from prune.layouts.base import Claim, Entry, Glance, Kind, Members, Part, Pick, RootView
from prune.layouts.rotation import Rotation, in_plain_text

_STEP = re.compile(rf"step-(?P<step>{naming.DIGITS})")
_REPLICA = re.compile(r"ft-replicat-[0-9]+")


class Torchtitan(dcp.Dcp):
    name = "torchtitan"
    title = "torchtitan"
    weight = 3

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        """Where something tells it from plain DCP: replicas of fault tolerance, or a last step for export."""
        replica = next((entry.path for entry in glance.entries if _REPLICA.fullmatch(entry.path)), None)
        steps = [claim for claim in claims if claim.part is Part.PAYLOAD]
        if replica and steps:
            return f"{replica} lies beside {steps[0].path}, as torchtitan's fault tolerance makes it"
        insides = {claim.path: glance.inside(claim.path) for claim in steps}
        exported = next((path for path, found in insides.items() if dcp.HF_INDEX in found and "sharded" in found), None)
        sharded = any(dcp.written_by_dcp(found) for found in insides.values())
        return f"{exported} is exported as torchtitan exports its last step" if exported and sharded else None

    def own(self, entry: Entry) -> Claim | None:
        folder, _, name = entry.path.rpartition("/")
        step = _STEP.fullmatch(name)
        if folder:
            inside = step is not None and _REPLICA.fullmatch(folder) is not None
            return Claim(entry.path, entry.kind, Part.SIDECAR, int(step["step"]), "step-") if step and inside else None
        if entry.kind is Kind.DIR and _REPLICA.fullmatch(name):
            return Claim(entry.path, entry.kind, Part.CONTAINER)
        claim = super().own(entry)
        return claim if step is not None or (claim and claim.part is Part.POINTER) else None

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """The step itself first: without it no replica's dataloader state is of use."""
        return sorted(
            paths, key=lambda path: (_REPLICA.match(path.rpartition("/")[0].rpartition("/")[2]) is not None, path)
        )

    def rotation(self, view: RootView) -> Rotation | None:
        """0 means all. Its default of 10 is told by no file."""
        return in_plain_text(view, ("config.json", "config.toml", "job_config.json"), "keep_latest_k", all_from=0)

    def trainer_pick(self, view: RootView) -> Pick | None:
        for step in sorted(view.steps, reverse=True):
            path = view.steps[step][0].path
            inside = Glance(view.reader, "", ()).inside(path)
            if dcp.METADATA in inside or dcp.HF_INDEX in inside:
                return Pick(step, path, "highest step-N with .metadata or model.safetensors.index.json")
        return None

    def weights_only(self, members: Members) -> bool:
        """The last step may be saved for export: safetensors with their index, and no state of the optimizer."""
        found = members.below(members.paths[0])
        return dcp.HF_INDEX in found and dcp.METADATA not in found
