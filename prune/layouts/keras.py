"""Keras: files by a template such as ``model.{epoch:02d}-{val_loss:.2f}.keras``, and a folder of one backup.

Names and files: keras-team/keras, ``src/callbacks/model_checkpoint.py`` (``{epoch}`` counts from one),
``src/callbacks/backup_and_restore.py``, ``src/callbacks/csv_logger.py`` (counts from zero),
``src/saving/saving_lib.py`` (``X.weights.json`` names its shards ``X_<i>.weights.h5``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from prune.layouts import csv_metrics, markers, metric_files, series
from prune.layouts.around import Around
from prune.layouts.base import (
    Claim,
    Entry,
    Glance,
    Health,
    Kind,
    Members,
    Part,
    Pick,
    Pointer,
    Reader,
    RootView,
    Verdict,
)
from prune.layouts.naming import DIGITS
from prune.model import PointerState

BACKUP, BACKUP_STATE = "latest.weights.h5", "training_metadata.json"
_BACKUPS = frozenset({BACKUP, BACKUP_STATE, f"{BACKUP}.bkp", f"{BACKUP_STATE}.bkp"})
_LOGS = ("log.csv", "logs.csv", "training.log", "training.csv", "history.csv")
_INDEX = ".weights.json"
_ENDINGS = ("keras", "weights.h5", "weights.json", "h5", "hdf5")
# A metric's name ends in no digit, and each value is taken as a whole or not at all: names have one reading.
_METRIC = r"(?P<name>[A-Za-z](?:[A-Za-z_]|[0-9]+[A-Za-z_])*)[=:_-]?"
_NUMBER = r"(?P<value>-?[0-9]+\.[0-9]+(?:e-?[0-9]+)?)"
_VALUE = re.compile(rf"[-_](?:{_METRIC})?{_NUMBER}")
_ITEM = _VALUE.pattern.replace("?P<name>", "?:").replace("?P<value>", "?:")
_NAME = re.compile(
    rf"(?P<prefix>[^.].*?|)(?P<step>{DIGITS})(?P<values>(?>{_ITEM})*)"
    rf"\.(?P<ending>{'|'.join(map(re.escape, _ENDINGS))})",
    re.DOTALL,
)
_SHARD = re.compile(r"(?P<stem>.+)_(?P<number>[0-9]{5})\.weights\.h5", re.DOTALL)
_DEFAULT_MONITOR = "val_loss"  # of ModelCheckpoint: what a number without a name is taken for


class Keras(Around):
    """Nothing resumes by itself but ``BackupAndRestore``, which keeps one backup under fixed names."""

    name = "keras"
    title = "Keras"
    weight = 2

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        for claim in claims:
            found = _NAME.fullmatch(claim.path) if claim.part is Part.PAYLOAD else None
            if found and (found["values"] or found["ending"] in ("keras", "weights.h5", "weights.json")):
                return f"{claim.path} is named as Keras's ModelCheckpoint names its files"
        if glance.has(BACKUP) and glance.has(BACKUP_STATE):
            return f"{BACKUP} and {BACKUP_STATE} are BackupAndRestore's"
        return None

    def own(self, entry: Entry) -> Claim | None:
        if entry.kind is not Kind.FILE or "/" in entry.path:
            return None
        if entry.path in _BACKUPS:
            return Claim(entry.path, entry.kind, Part.POINTER)
        shard = _SHARD.fullmatch(entry.path)
        of = _NAME.fullmatch(f"{shard['stem']}{_INDEX}") if shard else None
        if of is not None:
            return Claim(entry.path, entry.kind, Part.SIDECAR, int(of["step"]), of["prefix"])
        return _numbered(entry)

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """A name like a shard's is one in a run of sharded saves, with its index or, unfinished, without; in any other
        run the same name is that of a whole file."""
        sharded = {claim.series for claim in claims if claim.part is Part.PAYLOAD and claim.path.endswith(_INDEX)}
        sharded |= _alike(claims)
        there = {claim.path for claim in claims}
        first: dict[tuple[str, int | None], str] = {}
        for claim in sorted(claims, key=lambda claim: claim.path):
            if claim.part is Part.SIDECAR and _SHARD.fullmatch(claim.path):
                first.setdefault((claim.series, claim.step), claim.path)
        return series.settle([_whole_or_shard(claim, there, sharded, set(first.values())) for claim in claims])

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return series.collision(claims)

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """The index of shards first."""
        return sorted(paths, key=lambda path: (not path.endswith(_INDEX), path))

    def examine(self, members: Members, reader: Reader) -> Verdict:
        for path in members.paths:
            verdict = _missing_shard(path, members, reader) if path.endswith(_INDEX) else None
            if verdict:
                return verdict
            if (index := _lost_index(path, members)) is not None:
                return markers.missing(path, index)
        return super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        path = view.at(BACKUP)
        if path not in view.by_path:
            return []
        epoch = _backup_epoch(view)
        known = epoch if epoch in view.steps else None
        return [
            Pointer("", path, known, PointerState.OK, f"a backup after epoch {epoch}" if epoch is not None else None)
        ]

    def trainer_pick(self, view: RootView) -> Pick | None:
        if view.at(BACKUP) in view.by_path:
            epoch = _backup_epoch(view)
            return Pick(epoch if epoch in view.steps else None, view.at(BACKUP), "BackupAndRestore")
        found = super().trainer_pick(view)
        return Pick(found.step, found.path, "highest epoch, by hand: nothing resumes by itself") if found else None

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """What stands in the names, and more exactly in a ``CSVLogger``'s file, which counts epochs from zero."""
        found = {step: _in_names(claims) for step, claims in view.steps.items()}
        for log in _LOGS:
            for epoch, row in csv_metrics.by_epoch(view.reader, view.at(log)).items():
                if epoch + 1 in found:
                    found[epoch + 1].update(row)
        return {step: values for step, values in found.items() if values}


def _numbered(entry: Entry) -> Claim | None:
    found = _NAME.fullmatch(entry.path)
    if found is None:
        return None
    return Claim(entry.path, entry.kind, Part.PAYLOAD, int(found["step"]), found["prefix"])


def _whole_or_shard(claim: Claim, there: set[str], sharded: set[str], first: set[str]) -> Claim:
    shard = _SHARD.fullmatch(claim.path) if claim.part is Part.SIDECAR else None
    if shard is None or f"{shard['stem']}{_INDEX}" in there:
        return claim
    if claim.series in sharded:
        return replace(claim, part=Part.PAYLOAD) if claim.path in first else claim
    return _numbered(Entry(claim.path, claim.kind)) or replace(claim, part=Part.PAYLOAD)


def _alike(claims: Iterable[Claim]) -> set[str]:
    """Series of which several steps have shards numbered from nought: sharded, though no index is left."""
    numbers: dict[str, dict[int | None, set[int]]] = {}
    for claim in claims:
        shard = _SHARD.fullmatch(claim.path) if claim.part is Part.SIDECAR else None
        if shard is not None:
            numbers.setdefault(claim.series, {}).setdefault(claim.step, set()).add(int(shard["number"]))
    return {
        name
        for name, steps in numbers.items()
        if len(steps) > 1 and all(found == set(range(len(found))) for found in steps.values())
    }


def _lost_index(path: str, members: Members) -> str | None:
    """The index that a shard of this step lacks: Keras writes it when all shards are written."""
    folder, slash, name = path.rpartition("/")
    shard = _SHARD.fullmatch(name)
    of = _NAME.fullmatch(f"{shard['stem']}{_INDEX}") if shard else None
    if shard is None or of is None or int(of["step"]) != members.step:
        return None
    if len(members.paths) == 1 and int(shard["number"]) == members.step:
        return None  # ``run3_00003.weights.h5`` is also a whole file's name, and the step's only one
    index = f"{shard['stem']}{_INDEX}"
    return None if f"{folder}{slash}{index}" in members.files else index


def _in_names(claims: Iterable[Claim]) -> dict[str, float]:
    values: dict[str, float] = {}
    for claim in claims:
        found = _NAME.fullmatch(claim.path.rpartition("/")[2])
        for match in _VALUE.finditer(found["values"]) if found else ():
            values.setdefault(match["name"] or _DEFAULT_MONITOR, float(match["value"]))
    return values


def _missing_shard(path: str, members: Members, reader: Reader) -> Verdict | None:
    try:
        weights = metric_files.read_json(reader, path)["weight_map"].values()
        named = {name for value in weights for name in (value if isinstance(value, list) else [value])}
    except OSError as error:
        return Verdict(Health.UNKNOWN, f"{path}: could not be read: {error.strerror or error}")
    except (ValueError, TypeError, KeyError, AttributeError):
        return markers.broken(path, f"cannot be parsed: {markers.UNFINISHED}")
    folder = path[: -len(path.rpartition("/")[2])]
    for name in sorted(map(str, named)):
        if folder + name not in members.files:
            return markers.broken(path, f"{name} is missing: the index names {len(named)} shards")
    return None


def _backup_epoch(view: RootView) -> int | None:
    """The epochs done when the backup was made, as ``{epoch}`` counts them."""
    try:
        told = metric_files.read_json(view.reader, view.at(BACKUP_STATE), 1 << 16)
    except (OSError, ValueError):
        return None
    epoch = told.get("epoch") if isinstance(told, dict) else None
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else None
