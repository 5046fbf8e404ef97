"""Plans and outcomes as the JSON that programs rely on: ``prune.plan/1`` and ``prune.result/1``.

Every field of the nouns that a program may want has one name here, and nothing is renamed without a new version.
A plan's id is the hash of its own content, so that a plan file edited by hand is noticed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from prune.model import (
    Attention,
    Block,
    Candidate,
    Copy,
    Decision,
    DeletedCopy,
    GuardHold,
    Identity,
    OrphanPlan,
    Outcome,
    Plan,
    Replica,
    RunOutcome,
    RunPlan,
    StepPlan,
    Thin,
)
from prune.report.times import iso
from prune.settings.plain import run_table
from prune.settings.schema import RunSettings, Settings

PLAN_SCHEMA = "prune.plan/1"
RESULT_SCHEMA = "prune.result/1"


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The document of a plan, with the settings it was made from. Its id is computed from the content."""
    settings: Settings | None = plan.settings
    runs = {run.name: run for run in settings.runs} if settings else {}
    document = {
        "schema": PLAN_SCHEMA,
        "id": "",
        "created_at": iso(plan.created_at_ns),
        "clock": {"source": plan.clock, "skew_seconds": plan.skew_seconds},
        "config": settings.source if settings else None,
        "runs": [run_to_json(run, runs.get(run.run)) for run in plan.runs],
    }
    document["id"] = content_id(document)
    return document


def plan_id(plan: Plan) -> str:
    """The id of a plan: what :func:`plan_to_json` will say of it."""
    return str(plan_to_json(plan)["id"])


def content_id(document: Mapping[str, Any]) -> str:
    """The hash of everything in a plan's document but its id: 16 hexadecimal digits."""
    content = {key: value for key, value in document.items() if key != "id"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def run_to_json(run: RunPlan, settings: RunSettings | None = None) -> dict[str, Any]:
    """One run of a plan's document; ``settings`` let the plan file be applied without any other option."""
    document = {
        "run": run.run,
        "layout": run.layout,
        "keep": dict(run.keep),
        "replicas": [replica_to_json(replica) for replica in run.replicas],
        "blocked": block_to_json(run.blocked) if run.blocked else None,
        "blocks": [block_to_json(block) for block in run.blocks],
        "resume_candidate": candidate_to_json(run.resume_candidate),
        "cutoff": run.cutoff,
        "steps": [step_to_json(step) for step in run.steps],
        "orphans": [orphan_to_json(orphan) for orphan in run.orphans],
        "foreign": run.foreign,
        "attention": attention_to_json(run.attention),
        "notes": list(run.notes),
        "summary": summary(run),
    }
    if settings is not None:
        document["settings"] = run_table(settings)
    return document


def summary(run: RunPlan) -> dict[str, Any]:
    """How many steps meet which fate (the thinned ones are among the kept), and how many bytes go on each replica
    (orphans included)."""
    fates = Counter(step.decision for step in run.steps)
    thinned = len(run.thinned)
    return {**{fate.value: fates[fate] for fate in Decision}, "thin": thinned, "bytes_to_free": bytes_to_free(run)}


def bytes_that_go(run: RunPlan) -> dict[str, int]:
    """Allocated bytes of what applying the plan would delete, by replica."""
    going = {replica.name: 0 for replica in run.replicas}
    for copy in (copy for step in run.steps for copy in step.goes):
        going[copy.replica] = going.get(copy.replica, 0) + (copy.bytes or 0)
    for orphan in run.orphans:
        if orphan.decision is Decision.DELETE:
            going[orphan.replica] = going.get(orphan.replica, 0) + orphan.bytes
    return going


def bytes_to_free(run: RunPlan) -> dict[str, int]:
    """Allocated bytes that applying the plan would free, by replica; none where what is deleted stays as a version."""
    stays = {note.replica for note in run.attention if note.kind == "versioned"}
    return {name: 0 if name in stays else size for name, size in bytes_that_go(run).items()}


def replica_to_json(replica: Replica) -> dict[str, Any]:
    return {
        "name": replica.name,
        "role": replica.role,
        "root": replica.root,
        "required": replica.required,
        "identity": replica.identity,
        "control": replica.control,
        "free_bytes": replica.free_bytes,
        "total_bytes": replica.total_bytes,
        "free_inodes": replica.free_inodes,
        "trash_bytes": replica.trash_bytes,
        "trash_until": iso(replica.trash_until_ns),
    }


def step_to_json(step: StepPlan) -> dict[str, Any]:
    return {
        "step": step.step,
        "decision": step.decision.value,
        "reasons": list(step.reasons),
        "guards": [guard_to_json(guard) for guard in step.guards],
        "bytes": step.bytes,
        "copies": [copy_to_json(copy) for copy in step.copies],
        "thin": thin_to_json(step.thin),
    }


def thin_to_json(thin: Thin | None) -> dict[str, Any] | None:
    """What goes of a kept step. Where guards hold that, nothing does."""
    if thin is None:
        return None
    guards = [guard_to_json(guard) for guard in thin.guards]
    return {"paths": list(thin.paths), "bytes": dict(thin.bytes), "guards": guards}


def copy_to_json(copy: Copy) -> dict[str, Any]:
    return {
        "replica": copy.replica,
        "paths": list(copy.paths),
        "bytes": copy.bytes,
        "files": copy.files,
        "mtime": iso(copy.mtime_ns),
        "health": copy.health.value if copy.health else None,
        "detail": copy.detail,
        "weights_only": copy.weights_only,
        "identity": identity_to_json(copy.identity),
    }


def identity_to_json(identity: Identity) -> dict[str, int]:
    return {name: getattr(identity, name) for name in Identity.__dataclass_fields__}


def guard_to_json(guard: GuardHold) -> dict[str, Any]:
    return {"guard": guard.guard, "replica": guard.replica, "path": guard.path, "detail": guard.detail}


def block_to_json(block: Block) -> dict[str, Any]:
    return {"block": block.block, "replica": block.replica, "detail": block.detail}


def candidate_to_json(candidate: Candidate | None) -> dict[str, Any] | None:
    if candidate is None:
        return None
    return {"step": candidate.step, "replica": candidate.replica, "path": candidate.path}


def orphan_to_json(orphan: OrphanPlan) -> dict[str, Any]:
    return {
        "replica": orphan.replica,
        "path": orphan.path,
        "bytes": orphan.bytes,
        "decision": orphan.decision.value,
        "reason": orphan.reason,
        "identity": identity_to_json(orphan.identity),
    }


def attention_to_json(attention: Iterable[Attention]) -> list[dict[str, Any]]:
    return [
        {"kind": item.kind, "replica": item.replica, "detail": item.detail, "mend": item.mend} for item in attention
    ]


def result_to_json(outcome: Outcome, *, wanted: int | None = None, reached: bool | None = None) -> dict[str, Any]:
    """The document of what applying did; ``wanted`` bytes and whether they were ``reached`` belong to make-room."""
    document: dict[str, Any] = {"schema": RESULT_SCHEMA, "plan": outcome.plan}
    if wanted is not None:
        document |= {"wanted": wanted, "reached": bool(reached)}
    return document | {"runs": [run_outcome_to_json(run) for run in outcome.runs]}


def deleted_to_json(copy: DeletedCopy) -> dict[str, Any]:
    return {name: getattr(copy, name) for name in ("step", "replica", "bytes", "files", "purged")}


def run_outcome_to_json(run: RunOutcome) -> dict[str, Any]:
    return {
        "run": run.run,
        "blocked": block_to_json(run.blocked) if run.blocked else None,
        "blocks": [block_to_json(run.blocked)] if run.blocked else [],
        "deleted": [deleted_to_json(copy) for copy in run.deleted],
        "thinned": [deleted_to_json(copy) for copy in run.thinned],
        "guarded": [
            {"step": step.step, "replica": step.replica, "guard": step.guard, "detail": step.detail}
            for step in run.guarded
        ],
        "gone": [{"step": step, "replica": replica} for step, replica in run.gone],
        "failed": [{"step": copy.step, "replica": copy.replica, "error": copy.error} for copy in run.failed],
        "orphans_deleted": [
            {"replica": replica, "path": path, "bytes": size} for replica, path, size in run.orphans_deleted
        ],
        "free_before": dict(run.free_before),
        "free_after": dict(run.free_after),
        "attention": attention_to_json(run.attention),
    }
