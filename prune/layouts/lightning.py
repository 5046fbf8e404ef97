"""PyTorch Lightning: ``epoch=E-step=S.ckpt`` files, or sharded directories of that name, beside ``last.ckpt``.

Names and order: Lightning-AI/pytorch-lightning, ``callbacks/model_checkpoint.py`` (``_format_checkpoint_name``, the
``-v1`` of a second writer), ``fabric/strategies/fsdp.py`` (``_is_sharded_checkpoint``: a directory with ``meta.pt``,
which is written last), ``strategies/deepspeed.py`` (the tag is ``checkpoint``),
``trainer/connectors/checkpoint_connector.py`` (``last`` is the ``last*.ckpt`` or on-exception file written latest).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from prune.layouts import lightning_last, markers, metric_files, series
from prune.layouts.around import SHA256, Around
from prune.layouts.base import (
    Claim,
    Entry,
    Glance,
    Members,
    Part,
    Pick,
    Pointer,
    Reader,
    RootView,
    Verdict,
)  # fmt: skip
from prune.layouts.rotation import Rotation, in_plain_text
from prune.layouts.trackers import DIGITS

_CHECKPOINT = re.compile(r"(?P<stem>.+?)(?:-v(?P<version>[1-9][0-9]{0,8}))?\.ckpt", re.DOTALL)
_STEP = re.compile(rf"(?<![A-Za-z0-9])step=(?P<step>{DIGITS})(?![0-9.])")
_EPOCH = re.compile(rf"(?<![A-Za-z0-9])epoch=(?P<step>{DIGITS})(?![0-9.])")
_VALUE = re.compile(r"=[-+]?[0-9][0-9.]*(?:e[-+]?[0-9]+)?|=nan|=inf", re.IGNORECASE)
META = "meta.pt"


class Lightning(Around):
    """Versions of one name (``-v1``) are one step's set of files: kept together, or gone together."""

    name = "lightning"
    title = "PyTorch Lightning"
    weight = 3

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        found = next((claim for claim in claims if claim.part is Part.PAYLOAD), None)
        return f"{found.path} is named as Lightning's ModelCheckpoint names its files" if found else None

    def own(self, entry: Entry) -> Claim | None:
        name = entry.path
        if lightning_last.stands_for_a_step(name):
            return Claim(name, entry.kind, Part.POINTER)
        checkpoint = _CHECKPOINT.fullmatch(name)
        if checkpoint is None or name.startswith("."):
            return None
        number = _STEP.search(checkpoint["stem"]) or _EPOCH.search(checkpoint["stem"])
        if number is None:
            return None
        shape = _VALUE.sub("=#", checkpoint["stem"])
        return Claim(name, entry.kind, Part.PAYLOAD, int(number["step"]), shape)

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        return series.settle(claims)

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        """Versions are no twins: compared are the names without them."""
        return series.collision(_first_versions(claims))

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """The newest version first, checksums last."""
        return sorted(paths, key=lambda path: (path.endswith(SHA256), -_version(path), path))

    def examine(self, members: Members, reader: Reader) -> Verdict:
        for path in members.paths:
            if path in members.dirs and (verdict := _unfinished(path, members, reader)):
                return verdict
        return super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        return lightning_last.pointers(self, view)

    def stands_in(self, path: str) -> bool:
        return lightning_last.stands_for_a_step(path.rpartition("/")[2])

    def rotation(self, view: RootView) -> Rotation | None:
        """What the configuration says that its command line saves; hyperparameters may say it, too."""
        return in_plain_text(view, ("config.yaml", "hparams.yaml"), "save_top_k")

    def trainer_pick(self, view: RootView) -> Pick | None:
        return lightning_last.pick(self, view)

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        return metric_files.beside(view)


def _first_versions(claims: Iterable[Claim]) -> Iterable[Claim]:
    """One claim for each name without its version."""
    seen: set[str] = set()
    for claim in sorted(claims, key=lambda claim: (_version(claim.path), claim.path)):
        checkpoint = _CHECKPOINT.fullmatch(claim.path)
        stem = checkpoint["stem"] if checkpoint else claim.path
        if stem not in seen:
            seen.add(stem)
            yield claim


def _version(path: str) -> int:
    checkpoint = _CHECKPOINT.fullmatch(path.removesuffix(SHA256))
    return int(checkpoint["version"]) if checkpoint and checkpoint["version"] else 0


def _unfinished(path: str, members: Members, reader: Reader) -> Verdict | None:
    """What a sharded directory lacks."""
    names = markers.at_top(members.below(path))
    if "checkpoint" not in names:  # DeepSpeed's tag
        return None if META in names else markers.missing(path, META)
    if "latest" not in names:
        return markers.missing(path, "latest")
    from prune.layouts import deepspeed

    return deepspeed.unfinished_below(replace(members, paths=(path,)), "checkpoint", reader)
