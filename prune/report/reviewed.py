"""Reading a plan file back: a reviewed plan is a promise about what may go, so nothing about it is guessed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

from prune.errors import UsageError
from prune.model import (
    Attention,
    Block,
    Candidate,
    Copy,
    Decision,
    GuardHold,
    Health,
    Identity,
    OrphanPlan,
    Plan,
    Replica,
    RunPlan,
    StepPlan,
    Thin,
)
from prune.report.json import PLAN_SCHEMA, content_id
from prune.report.times import from_iso
from prune.settings.files import without_waiting
from prune.settings.keys import Where
from prune.settings.roots import is_url
from prune.settings.runs import Source, read_run
from prune.settings.schema import RunSettings, Settings

T = TypeVar("T")
_AGAIN = "Make the plan again: prune plan --out FILE."
_LIMIT = 1 << 30


def read_plan(path: str) -> Plan:
    """The plan in a file, with the settings it was made from.

    Raises UsageError for a file that is no plan, is of another version, or was edited.
    """
    try:
        with open(path, encoding="utf-8", opener=without_waiting) as file:
            text = file.read(_LIMIT)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is no plan: it is not UTF-8", mend=_AGAIN) from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: is no plan: it is not JSON", mend=_AGAIN) from None
    return plan_from_json(document, source=path)


def plan_from_json(document: object, *, source: str = "the plan") -> Plan:
    """The plan that a document holds; ``source`` is named in messages. Raises UsageError as :func:`read_plan`."""
    if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
        raise UsageError(f"{source}: is no plan: it names no schema", mend=_AGAIN)
    if document["schema"] != PLAN_SCHEMA:
        raise UsageError(f"{source}: is {document['schema']}, and this version reads {PLAN_SCHEMA}", mend=_AGAIN)
    if document.get("id") != content_id(document):
        raise UsageError(
            f"{source}: was changed after it was made: its id does not fit its content",
            mend=f"A plan is applied as it is or not at all. {_AGAIN}",
        )
    try:
        return _reviewed(document, source)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{source}: is no plan: {error!r}", mend=_AGAIN) from None


def check_same_roots(plan: Plan, settings: Settings, *, source: str) -> None:
    """Raises UsageError when the settings know a planned run not at all, or by other roots than were planned."""
    known = {run.name: run for run in settings.runs}
    for run in plan.settings.runs:
        if run.name not in known:
            raise UsageError(f"{source}: plans the run {run.name!r}, which is not among the chosen ones", mend=_AGAIN)
        planned, now = _roots(run), _roots(known[run.name])
        for name in planned.keys() | now.keys():
            if planned.get(name) != now.get(name):
                raise UsageError(
                    f"{source}: is for other roots: the {name} of {run.name!r} is {planned.get(name)} there"
                    f" and {now.get(name)} here",
                    mend=_AGAIN,
                )


def _roots(run: RunSettings) -> dict[str, str]:
    """Roots by replica; local ones by the path they really lead to."""
    return {r.name: r.root if is_url(r.root) else os.path.realpath(r.root) for r in run.replicas}


def _reviewed(document: dict[str, Any], source: str) -> Plan:
    runs = _list(document["runs"], _run)
    settings = tuple(_settings(run, index, source) for index, run in enumerate(document["runs"]))
    for planned, said in zip(runs, settings, strict=True):
        if planned.run != said.name:
            raise ValueError(f"the settings of {said.name!r} stand at the run {planned.run!r}")
    clock = document["clock"]
    return Plan(
        id=_text(document["id"]),
        created_at_ns=from_iso(_text(document["created_at"])),
        runs=runs,
        clock=_text(clock["source"]),
        skew_seconds=None if clock["skew_seconds"] is None else float(clock["skew_seconds"]),
        settings=Settings(runs=settings, source=_maybe(document.get("config"), _text)),
    )


def _settings(run: dict[str, Any], index: int, source: str) -> RunSettings:
    where = Where(source, f"runs[{index}].settings")
    return read_run(run["settings"], Source(where, os.path.dirname(os.path.abspath(source))))


def _run(run: dict[str, Any]) -> RunPlan:
    return RunPlan(
        run=_text(run["run"]),
        layout=_text(run["layout"]),
        keep=dict(run["keep"]),
        replicas=_list(run["replicas"], _replica),
        steps=_list(run["steps"], _step),
        cutoff=_maybe(run["cutoff"], _whole),
        resume_candidate=_maybe(run["resume_candidate"], _candidate),
        blocks=_list(run["blocks"], _block),
        orphans=_list(run["orphans"], _orphan),
        foreign=_whole(run["foreign"]),
        attention=_list(run["attention"], _attention),
        notes=_list(run["notes"], _text),
    )


def _replica(replica: dict[str, Any]) -> Replica:
    return Replica(
        name=_text(replica["name"]),
        role=_text(replica["role"]),
        root=_text(replica["root"]),
        required=replica["required"] is True,
        identity=_maybe(replica["identity"], _text),
        control=_maybe(replica["control"], _text),
        free_bytes=_maybe(replica["free_bytes"], _whole),
        total_bytes=_maybe(replica["total_bytes"], _whole),
        free_inodes=_maybe(replica["free_inodes"], _whole),
        trash_bytes=_whole(replica["trash_bytes"]),
        trash_until_ns=_maybe(replica["trash_until"], from_iso),
    )


def _step(step: dict[str, Any]) -> StepPlan:
    return StepPlan(
        step=_whole(step["step"]),
        decision=Decision(step["decision"]),
        reasons=_list(step["reasons"], _text),
        guards=_list(step["guards"], _guard),
        copies=_list(step["copies"], lambda copy: _copy(copy, _whole(step["step"]))),
        thin=_maybe(step.get("thin"), _thin),
    )


def _thin(thin: dict[str, Any]) -> Thin:
    sizes = {_text(replica): _whole(size) for replica, size in thin["bytes"].items()}
    return Thin(_list(thin["paths"], _path), sizes, _list(thin["guards"], _guard))


def _copy(copy: dict[str, Any], step: int) -> Copy:
    identity = _identity(copy["identity"])
    files = _maybe(copy["files"], _whole)
    return Copy(
        step=step,
        replica=_text(copy["replica"]),
        paths=_list(copy["paths"], _path),
        identity=identity,
        mtime_ns=None if copy["mtime"] is None else identity.mtime_ns,
        oldest_mtime_ns=None,
        measured=files is not None,
        size=identity.size,
        bytes=_maybe(copy["bytes"], _whole),
        files=files,
        health=_maybe(copy["health"], Health),
        detail=_maybe(copy["detail"], _text),
        weights_only=copy.get("weights_only") is True,
    )


def _identity(identity: dict[str, Any]) -> Identity:
    return Identity(**{name: _whole(identity[name]) for name in Identity.__dataclass_fields__})


def _candidate(candidate: dict[str, Any]) -> Candidate:
    return Candidate(_whole(candidate["step"]), _text(candidate["replica"]), _text(candidate["path"]))


def _orphan(orphan: dict[str, Any]) -> OrphanPlan:
    return OrphanPlan(
        replica=_text(orphan["replica"]),
        path=_path(orphan["path"]),
        bytes=_whole(orphan["bytes"]),
        decision=Decision(orphan["decision"]),
        reason=_text(orphan["reason"]),
        identity=_identity(orphan["identity"]),
    )


def _guard(guard: dict[str, Any]) -> GuardHold:
    replica, path = _maybe(guard["replica"], _text), _maybe(guard["path"], _text)
    return GuardHold(_text(guard["guard"]), replica, path, _text(guard["detail"]))


def _block(block: dict[str, Any]) -> Block:
    return Block(_text(block["block"]), _maybe(block["replica"], _text), _text(block["detail"]))


def _attention(item: dict[str, Any]) -> Attention:
    return Attention(_text(item["kind"]), _maybe(item["replica"], _text), _text(item["detail"]), _text(item["mend"]))


def _list(items: object, read: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(items, list):
        raise TypeError(f"{items!r} is no list")
    return tuple(read(item) for item in items)


def _maybe(value: Any, read: Callable[[Any], T]) -> T | None:
    return None if value is None else read(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _path(value: object) -> str:
    """A path below a root: a plan may never lead out of it."""
    path = _text(value)
    if not path or path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{path!r} is no path below a root")
    return path


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value
