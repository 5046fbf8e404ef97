"""Orbax: a directory for each step, ``[prefix_]<step>``, written under ``…orbax-checkpoint-tmp`` and renamed.

Names and commits: google/orbax, ``_src/path/step.py`` (name formats), ``_src/path/atomicity.py`` (a rename on POSIX;
on Google Cloud Storage ``commit_success.txt`` written into the final name; newer POSIX saves hold that file too, older
ones do not), ``_src/metadata/checkpoint.py`` (``_CHECKPOINT_METADATA``), ``checkpoint_manager.py`` (``latest_step``:
the highest finalized step, whole or not).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from prune.errors import UsageError
from prune.layouts import markers, metric_files, orbax_handlers, orbax_items, series
from prune.layouts.around import Around
from prune.layouts.base import (
    Claim,
    Entry,
    FileStat,
    Glance,
    Health,
    Kind,
    Members,
    Part,
    Pick,
    Reader,
    RootView,
    Verdict,
)  # fmt: skip
from prune.layouts.trackers import DIGITS

COMMIT = "commit_success.txt"
METADATA = "_CHECKPOINT_METADATA"
TEMPORARY = ".orbax-checkpoint-tmp"
_STEP = re.compile(rf"(?P<prefix>(?:[A-Za-z][A-Za-z0-9_.-]*_)?)(?P<step>{DIGITS})")
_OURS = frozenset({METADATA, COMMIT, "_METADATA", "_sharding", "manifest.ocdbt"})


class Orbax(Around):
    """The option ``commit_file = true`` says that steps are committed by ``commit_success.txt`` alone, as on object
    stores: then a step without it is none, and Orbax may remove every directory of the root that lacks it."""

    name = "orbax"
    title = "Orbax"
    weight = 3

    def __init__(self, commit_file: bool = False) -> None:
        self.commit_file = commit_file
        self.reads_every_entry = commit_file

    @classmethod
    def configured(cls, options: Mapping[str, Any]) -> Self:
        for key in options:
            if key != "commit_file":
                raise UsageError(f"layout orbax has no option {key!r}, only commit_file", mend="Remove it.")
        commit_file = options.get("commit_file", False)
        if not isinstance(commit_file, bool):
            raise UsageError("layout orbax: commit_file is true or false", mend="Write commit_file = true.")
        return cls(commit_file)

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        for claim in claims:
            if claim.part is Part.TEMPORARY and TEMPORARY in claim.path:
                return f"{claim.path} is named as Orbax names an unfinished save"
        for claim in claims:
            inside = glance.inside(claim.path) if claim.part is Part.PAYLOAD else frozenset()
            nested = (glance.inside(f"{claim.path}/{name}") for name in sorted(inside)[:8])
            if found := next((name for names in (inside, *nested) for name in sorted(_OURS & names)), None):
                return f"{claim.path} holds {found}, as Orbax writes it"
        return None

    def own(self, entry: Entry) -> Claim | None:
        found = None if entry.kind is Kind.FILE else _STEP.fullmatch(entry.path)
        return found and Claim(entry.path, entry.kind, Part.PAYLOAD, int(found["step"]), found["prefix"])

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        return series.settle(claims)

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return series.collision(claims)

    def examine(self, members: Members, reader: Reader) -> Verdict:
        path, files = markers.top(members)
        if path not in members.dirs:
            return super().examine(members, reader)
        if not files:
            return markers.broken(path, f"holds no file: {markers.UNFINISHED}")
        unfinished = next((name for name in sorted(files) if TEMPORARY in name), None)
        if unfinished is not None:
            return markers.broken(path, f"{unfinished.partition('/')[0]} is unfinished: {markers.UNFINISHED}")
        by_commit = self._committed(path, files, reader)
        if by_commit is not None:
            return by_commit
        return orbax_items.examine(path, files, reader) or super().examine(members, reader)

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """``<step>/metrics/metrics``, the JSON item that a CheckpointManager with metrics saves."""
        found: dict[int, Mapping[str, float]] = {}
        for step, claims in view.steps.items():
            try:
                row = metric_files.read_json(view.reader, f"{claims[0].path}/metrics/metrics")
            except (OSError, ValueError):
                continue  # no metrics, or a step whose own health tells what is wrong with it
            found[step] = metric_files.numbers(row)
        return found or metric_files.beside(view)

    def trainer_pick(self, view: RootView) -> Pick | None:
        for step in sorted(view.steps, reverse=True):
            path = view.steps[step][0].path
            if not self._needs_commit_file(view.reader) or COMMIT in Glance(view.reader, "", ()).inside(path):
                return Pick(step, path, "highest finalized step")
        return None

    def _needs_commit_file(self, reader: Reader) -> bool:
        return self.commit_file or reader.root.startswith("gs://")

    def _committed(self, path: str, found: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
        """What says that this save was never committed, or lost an item since."""
        if COMMIT not in found and self._needs_commit_file(reader):
            return markers.missing(path, COMMIT)
        if METADATA not in found:
            return None
        try:
            metadata = metric_files.read_json(reader, f"{path}/{METADATA}")
        except ValueError as error:
            return markers.broken(f"{path}/{METADATA}", f"cannot be parsed: {error}")
        except OSError as error:
            return Verdict(Health.UNKNOWN, f"{path}/{METADATA}: cannot be read: {error.strerror or error}")
        if not isinstance(metadata, dict):
            return markers.broken(f"{path}/{METADATA}", "is no JSON object")
        if COMMIT not in found and metadata.get("commit_timestamp_nsecs", 0) is None:
            return markers.broken(f"{path}/{METADATA}", f"has no time of commit: {markers.UNFINISHED}")
        items = metadata.get("item_handlers")
        return orbax_handlers.examine(path, items, found, reader) if isinstance(items, dict) else None
