"""verl: ``global_step_<N>/`` with ``actor/`` and ``critic/`` (PPO) or the files themselves (SFT), and a tracker.

Names and files: verl-project/verl, ``trainer/ppo/ray_trainer.py`` (``_save_checkpoint``),
``utils/checkpoint/fsdp_checkpoint_manager.py`` (the number of ranks stands in every name),
``utils/checkpoint/checkpoint_handler.py`` (SFT). verl's own rotation removes ``actor/`` and ``critic/`` and leaves the
directory: a hollow one is no checkpoint.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from prune.layouts import markers, rank_grid, trackers
from prune.layouts.around import Around
from prune.layouts.base import (
    Claim,
    Entry,
    FileStat,
    Glance,
    Kind,
    Members,
    Part,
    Pick,
    Pointer,
    Reader,
    RootView,
    Verdict,
)

TRACKER = "latest_checkpointed_iteration.txt"
_STEP = re.compile(rf"global_step_(?P<step>{trackers.NUMBER})")
_RANK = re.compile(
    r"(?:(?P<role>actor|critic)/)?(?P<family>model|optim|extra_state)"
    r"_world_size_(?P<world>[1-9][0-9]{0,6})_rank_(?P<rank>0|[1-9][0-9]{0,6})\.pt"
)
_DROPPED = re.compile(r"(?:(?:actor|critic)/)?optim_world_size_[0-9]+_rank_[0-9]+\.pt")
_DROPPED_TOO = re.compile(r"(?:(?:actor|critic)/)?extra_state_world_size_[0-9]+_rank_[0-9]+\.pt|data(?:_[0-9]+)?\.pt")
_LOADER = re.compile(r"data(?:_[0-9]+)?\.pt")
_LOADERS = re.compile(r"data_(0|[1-9][0-9]{0,6})\.pt")
_ROLES = ("actor", "critic")


class Verl(Around):
    name = "verl"
    title = "verl"
    weight = 3
    unthinnable = None

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        for claim in claims:
            inside = glance.inside(claim.path) if claim.part is Part.PAYLOAD else frozenset()
            if "actor" in inside or any(_RANK.fullmatch(name) or _LOADER.fullmatch(name) for name in inside):
                return f"{claim.path} holds what verl writes"
        return None

    def own(self, entry: Entry) -> Claim | None:
        if entry.path == TRACKER and entry.kind in (Kind.FILE, Kind.LINK):
            return Claim(entry.path, entry.kind, Part.POINTER)
        found = _STEP.fullmatch(entry.path) if entry.kind is Kind.DIR else None
        return Claim(entry.path, entry.kind, Part.PAYLOAD, int(found["step"])) if found else None

    def examine(self, members: Members, reader: Reader) -> Verdict:
        path, files = markers.top(members)
        return _incomplete(path, files, thinned=members.thinned) or super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        pointer = trackers.tracker(view, TRACKER, lambda text: _named(view, text))
        return [pointer] if pointer else []

    def trainer_pick(self, view: RootView) -> Pick | None:
        """What the tracker names; without it, or where that is gone, verl starts anew and says so nowhere loud."""
        return trackers.followed(view, next(iter(self.pointers(view)), None), TRACKER)

    def referenced(self, view: RootView) -> Mapping[int, str]:
        return trackers.named_by(self.pointers(view))

    def weights_only(self, members: Members) -> bool:
        _, files = markers.top(members)
        families = {match["family"] for name in files if (match := _RANK.fullmatch(name))}
        return bool(families) and "optim" not in families

    def resume_only(self, members: Members) -> Sequence[str]:
        optimizer = markers.matching(members, _DROPPED)
        return [*optimizer, *markers.matching(members, _DROPPED_TOO)] if optimizer else ()


def _named(view: RootView, text: str) -> trackers.Named:
    if not re.fullmatch(trackers.DIGITS, text):
        raise ValueError(f"holds no number: {text[:80]!a}")
    return trackers.Named(int(text), view.at(f"global_step_{int(text)}"))


def _incomplete(path: str, files: Mapping[str, FileStat], *, thinned: bool) -> Verdict | None:
    """What is missing of a step; None when every rank of every family is there, or the files are of another kind."""
    models = [name for name in files if not _LOADER.fullmatch(name)]
    if not models:
        return markers.broken(path, "hollow: verl removed what was in it, or the save had just begun")
    flat = not any(name.startswith(tuple(f"{role}/" for role in _ROLES)) for name in files)
    if not flat and not any(name.startswith("actor/") for name in files):
        return markers.missing(path, "actor/", "only the critic is left")
    if not thinned and not any(_LOADER.fullmatch(name) for name in files):
        return markers.missing(path, "data_0.pt" if flat else "data.pt")
    gap = rank_grid.gap(rank_grid.ranks(files, _LOADERS))
    if gap is not None:
        return markers.missing(path, f"data_{gap[0]}.pt")
    return _missing_rank(path, files)


def _missing_rank(path: str, files: Mapping[str, FileStat]) -> Verdict | None:
    worlds: dict[str, set[int]] = defaultdict(set)
    ranks: dict[tuple[str, str], set[int]] = defaultdict(set)
    for match in filter(None, map(_RANK.fullmatch, files)):
        role = f"{match['role']}/" if match["role"] else ""
        worlds[role].add(int(match["world"]))
        ranks[role, match["family"]].add(int(match["rank"]))
    for role, sizes in worlds.items():
        if len(sizes) > 1:
            return markers.broken(path, f"{role or 'it'} holds files of {min(sizes)} and of {max(sizes)} ranks")
    for (role, family), found in sorted(ranks.items()):
        world = next(iter(worlds[role]))
        if len(found) < world:
            first = next(rank for rank in range(world) if rank not in found)
            return markers.missing(path, f"{role}{family}_world_size_{world}_rank_{first}.pt")
    for role in worlds:
        if (role, "model") not in ranks:
            return markers.missing(path, f"{role}model_world_size_*")
    return None
