"""stable-baselines3: ``<prefix>_<T>_steps.zip``, with the replay buffer and the normalisation of that time beside it.

Names and files: DLR-RM/stable-baselines3, ``common/callbacks.py`` (``CheckpointCallback``, ``EvalCallback``). T counts
the steps of all environments together, and starts anew where ``reset_num_timesteps`` is left on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from prune.layouts import markers, sb3_evaluations, series
from prune.layouts.around import Around
from prune.layouts.base import Claim, Entry, Glance, Health, Kind, Members, Part, Pick, Reader, RootView, Verdict
from prune.layouts.naming import DIGITS
from prune.model import EMPTY

_MODEL = re.compile(rf"(?P<prefix>.+)_(?P<step>{DIGITS})_steps\.zip", re.DOTALL)
_BESIDE = re.compile(rf"(?P<prefix>.+)_(?:replay_buffer|vecnormalize)_(?P<step>{DIGITS})_steps\.pkl", re.DOTALL)
_STOP = b"."  # the last byte of every pickle


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
        """The model is written first, so a buffer cut short is a save that died."""
        if not any(path.endswith(".zip") for path in members.paths):
            return markers.missing(f"step {members.step}", "the model's .zip")
        verdict = super().examine(members, reader)
        return (verdict.health.restorable and _cut_pickle(members, reader)) or verdict

    def trainer_pick(self, view: RootView) -> Pick | None:
        found = super().trainer_pick(view)
        return Pick(found.step, found.path, "highest number, by hand: nothing resumes by itself") if found else None

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """Mean rewards of an evaluation at exactly a checkpoint's time, where ``evaluations.npz`` lies beside."""
        rewards = sb3_evaluations.mean_rewards(view.reader, view.at(sb3_evaluations.NAME))
        return {step: {"mean_reward": rewards[step]} for step in view.steps if step in rewards} or EMPTY


def _cut_pickle(members: Members, reader: Reader) -> Verdict | None:
    for path in members.paths:
        if not path.endswith(".pkl"):
            continue
        try:
            with reader.open(path) as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - 1))
                last = file.read(1)
        except OSError as error:
            return Verdict(Health.UNKNOWN, f"{path}: could not be read: {error.strerror or error}")
        if last != _STOP:
            return markers.broken(path, f"{size} bytes that do not end as a pickle does: it was cut")
    return None
