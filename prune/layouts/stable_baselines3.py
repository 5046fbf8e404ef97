"""stable-baselines3: ``<prefix>_<T>_steps.zip``, with the replay buffer and the normalisation of that time beside it.

Names and files: DLR-RM/stable-baselines3, ``common/callbacks.py`` (``CheckpointCallback``, ``EvalCallback``). T counts
the steps of all environments together, and starts anew where ``reset_num_timesteps`` is left on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from prune.layouts import markers, sb3_evaluations, series
from prune.layouts.around import Around
from prune.layouts.base import Claim, Entry, Glance, Kind, Members, Part, Pick, Reader, RootView, Verdict
from prune.layouts.naming import DIGITS
from prune.model import EMPTY

_MODEL = re.compile(rf"(?P<prefix>.+)_(?P<step>{DIGITS})_steps\.zip", re.DOTALL)
_BESIDE = re.compile(rf"(?P<prefix>.+)_(?P<what>replay_buffer|vecnormalize)_(?P<step>{DIGITS})_steps\.pkl", re.DOTALL)
_CUT_SHORT = "the steps around it have one, so its save was killed before it, or saving it was turned off"


class StableBaselines3(Around):
    """Nothing resumes by itself: a script loads the path that it is given."""

    name = "stable-baselines3"
    title = "stable-baselines3"
    weight = 3

    def __init__(self) -> None:
        self._lacking: dict[str, Mapping[int, frozenset[str]]] = {}  # by root, of its last listing

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        found = next((claim for claim in claims if claim.part is Part.PAYLOAD), None)
        return f"{found.path} is named as CheckpointCallback names its models" if found else None

    def own(self, entry: Entry) -> Claim | None:
        if entry.kind is not Kind.FILE or "/" in entry.path:
            return None
        for pattern, part in ((_MODEL, Part.PAYLOAD), (_BESIDE, Part.SIDECAR)):
            found = pattern.fullmatch(entry.path)
            if found:
                return Claim(entry.path, entry.kind, part, int(found["step"]), found["prefix"])
        return None

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        return series.settle(claims)

    def renumber(self, claims: Sequence[Claim], view: RootView) -> Sequence[Claim]:
        """Changes nothing: which of a step's files are missing is told by the steps around it alone."""
        self._lacking[view.reader.root] = _lacking(claims)
        return claims

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return series.collision(claims)

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """The model first: what is beside it is nothing without it."""
        return sorted(paths, key=lambda path: (not path.endswith(".zip"), path))

    def examine(self, members: Members, reader: Reader) -> Verdict:
        """The model is written first: what belongs beside it, cut short or not there, is a save that died."""
        model = next((path for path in members.paths if path.endswith(".zip")), None)
        if model is None:
            return markers.missing(f"step {members.step}", "the model's .zip")
        lacking = self._lacking.get(reader.root, {}).get(members.step, frozenset()) - _beside(members.paths)
        if lacking:
            return markers.missing(model, f"its {min(lacking)}", _CUT_SHORT)
        return super().examine(members, reader)

    def trainer_pick(self, view: RootView) -> Pick | None:
        found = super().trainer_pick(view)
        return Pick(found.step, found.path, "highest number, by hand: nothing resumes by itself") if found else None

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """Mean rewards of an evaluation at exactly a checkpoint's time, where ``evaluations.npz`` lies beside."""
        rewards = sb3_evaluations.mean_rewards(view.reader, view.at(sb3_evaluations.NAME))
        return {step: {"mean_reward": rewards[step]} for step in view.steps if step in rewards} or EMPTY


def _beside(paths: Iterable[str]) -> frozenset[str]:
    """What stands beside a model: its replay buffer, its normalisation."""
    return frozenset(found["what"] for path in paths if (found := _BESIDE.fullmatch(path)))


def _lacking(claims: Sequence[Claim]) -> dict[int, frozenset[str]]:
    """What a step has not, although the step before has it, and the step after, where there is one."""
    paths: dict[int, list[str]] = {}
    for claim in claims:
        if claim.step is not None and claim.part in (Part.PAYLOAD, Part.SIDECAR):
            paths.setdefault(claim.step, []).append(claim.path)
    steps = sorted(paths)
    had = [_beside(paths[step]) for step in steps]
    around = zip(steps[1:], had, had[1:], [*had[2:], None], strict=False)
    found = {step: (before if after is None else before & after) - own for step, before, own, after in around}
    return {step: lacking for step, lacking in found.items() if lacking}
