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
_BESIDE = re.compile(rf"(?P<prefix>.+)_(?:replay_buffer|vecnormalize)_(?P<step>{DIGITS})_steps\.pkl", re.DOTALL)


class StableBaselines3(Around):
    """Nothing resumes by itself: a script loads the path that it is given."""

    name = "stable-baselines3"
    title = "stable-baselines3"
    weight = 3

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

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return series.collision(claims)

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """The model first: what is beside it is nothing without it."""
        return sorted(paths, key=lambda path: (not path.endswith(".zip"), path))

    def examine(self, members: Members, reader: Reader) -> Verdict:
        """The model is written first: a buffer beside it that is cut short is a save that died."""
        if not any(path.endswith(".zip") for path in members.paths):
            return markers.missing(f"step {members.step}", "the model's .zip")
        return super().examine(members, reader)

    def trainer_pick(self, view: RootView) -> Pick | None:
        found = super().trainer_pick(view)
        return Pick(found.step, found.path, "highest number, by hand: nothing resumes by itself") if found else None

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """Mean rewards of an evaluation at exactly a checkpoint's time, where ``evaluations.npz`` lies beside."""
        rewards = sb3_evaluations.mean_rewards(view.reader, view.at(sb3_evaluations.NAME))
        return {step: {"mean_reward": rewards[step]} for step in view.steps if step in rewards} or EMPTY
