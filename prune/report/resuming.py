"""What to resume from, as the JSON that programs rely on: ``prune.resume/1``; and the lines that explain it."""

from __future__ import annotations

from typing import Any

from prune.report.json import attention_to_json
from prune.report.lines import printable
from prune.resume import Resumption

RESUME_SCHEMA = "prune.resume/1"


def resumption_to_json(found: Resumption) -> dict[str, Any]:
    """The document; where there is no candidate its fields are null and ``why`` says why."""
    candidate, trainer = found.candidate, found.trainer
    return {
        "schema": RESUME_SCHEMA,
        "run": found.run,
        "step": candidate.step if candidate else None,
        "replica": candidate.replica if candidate else None,
        "path": candidate.path if candidate else None,
        "paths": list(candidate.paths) if candidate else [],
        "health": candidate.health.value if candidate else None,
        "detail": candidate.detail if candidate else None,
        "why": str(found.error) if found.error else None,
        "skipped": [
            {
                "step": skipped.step,
                "replica": skipped.replica,
                "path": skipped.path,
                "health": skipped.health.value,
                "detail": skipped.detail,
            }
            for skipped in found.skipped
        ],
        "trainer_would_pick": {
            "step": trainer.step,
            "path": trainer.path,
            "usable": trainer.usable,
            "how": trainer.how,
        }
        if trainer
        else None,
        "attention": attention_to_json(found.attention),
        "lease": found.lease,
    }


def spoken(found: Resumption) -> list[str]:
    """Lines for stderr: what a person should know besides the path."""
    lines = [f"prune: {note.kind}: {printable(note.detail)}\n  {note.mend}" for note in found.attention]
    if found.candidate is not None and found.candidate.health.value == "unverified":
        lines.append(f"prune: nothing is there to check step {found.candidate.step} against")
    return lines
