"""What is said of a log: as sentences for people, as JSON for programs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from prune.diagnose.place import Home, Look
from prune.diagnose.reading import Reading
from prune.diagnose.signatures import Trouble
from prune.model import Health
from prune.settings.schema import RunSettings
from prune.settings.units import format_size

SCHEMA = "prune.diagnosis/1"
_TEXT = 300  # characters of a line that are repeated


@dataclass(frozen=True, slots=True)
class Resume:
    """What to resume from instead."""

    step: int
    replica: str
    path: str
    health: Health


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a log tells, what stands on the disk, and what to do."""

    reading: Reading
    look: Look | None = None
    home: Home | None = None
    run: RunSettings | None = None
    resume: Resume | None = None
    mechanism: str | None = None

    @property
    def is_checkpoint_problem(self) -> bool:
        """Whether a checkpoint, or the place it lies in, is what failed."""
        cause = self.reading.cause
        if cause is not None:
            return cause.signature.trouble is not Trouble.OTHER
        return self.look is not None and (not self.look.exists or self.look.health is Health.BROKEN)

    @property
    def command(self) -> str | None:
        """The command that names what to resume from, and checks it."""
        if self.run is None or not self.is_checkpoint_problem:
            return None
        words = ["prune", "resume"]
        for replica in self.run.replicas:
            words += [f"--{replica.role}", replica.root]
        return shlex.join(words)


def to_json(found: Diagnosis) -> dict[str, Any]:
    """The result for programs."""
    cause, look, resume = found.reading.cause, found.look, found.resume
    return {
        "schema": SCHEMA,
        "checkpoint_problem": found.is_checkpoint_problem,
        "signature": cause.signature.id if cause else None,
        "trouble": cause.signature.trouble.value if cause else None,
        "line": cause.line if cause else None,
        "text": cause.text[:_TEXT] if cause else found.reading.raised,
        "path": look.path if look else None,
        "exists": look.exists if look else None,
        "size": look.size if look and look.exists else None,
        "health": look.health.value if look and look.health else None,
        "detail": look.detail if look else None,
        "step": found.home.step if found.home else None,
        "broke": _broke(found),
        "mechanism": found.mechanism,
        "resume": None if resume is None else {"step": resume.step, "replica": resume.replica, "path": resume.path,
                                               "health": resume.health.value},
        "command": found.command,
        "also": [{"signature": other.signature.id, "line": other.line, "text": other.text[:_TEXT]}
                 for other in found.reading.also],
    }  # fmt: skip


def sentences(found: Diagnosis) -> list[tuple[str, str]]:
    """Label and sentence of everything that is said, in order."""
    cause = found.reading.cause
    if not found.is_checkpoint_problem:
        return list(_no_problem(found))
    said = [("what the log says", f"line {cause.line}: {cause.text[:_TEXT]}")] if cause else []
    said.append(("what broke", _broke(found) or ""))
    if found.look is not None:
        said.append(("the file", _file(found)))
    if found.mechanism:
        said.append(("how, most likely", found.mechanism))
    said.append(("resume from", _resume(found)))
    if found.command:
        said.append(("command", found.command))
    said += [("also in the log", f"line {other.line}: {other.signature.broke}") for other in found.reading.also[:5]]
    return said


def _no_problem(found: Diagnosis) -> list[tuple[str, str]]:
    cause, raised = found.reading.cause, found.reading.raised
    said = [("diagnosis", "not a checkpoint problem")]
    if cause is not None:
        said += [
            ("what it is", cause.signature.broke),
            ("what the log says", f"line {cause.line}: {cause.text[:_TEXT]}"),
        ]
    elif raised is not None:
        said.append(("what the log says", f"{raised[:_TEXT]}; that is no sign of a damaged checkpoint"))
    elif found.reading.killed is not None:
        said.append(("what the log says", f"a process was ended: {found.reading.killed[:_TEXT]}"))
    else:
        said.append(("what the log says", "nothing that is known to tell of a checkpoint, and no error at its end"))
    if found.look is not None and found.look.exists:
        said.append(("the file", _file(found)))
    return said


def _broke(found: Diagnosis) -> str | None:
    cause, look = found.reading.cause, found.look
    if look is not None and look.exists and look.health is Health.BROKEN and look.detail:
        return look.detail
    if look is not None and not look.exists:
        return cause.signature.broke if cause else "it is not there"
    return cause.signature.broke if cause else None


def _file(found: Diagnosis) -> str:
    look = found.look
    assert look is not None
    of_step = f", step {found.home.step} of {found.home.root}" if found.home and found.home.step is not None else ""
    if not look.exists:
        return f"{look.path}{of_step}: not there (if the log is from another machine, ask there)"
    health = f", {look.health.value}" if look.health else ""
    return f"{look.path}{of_step}: {format_size(look.size)}{health}"


def _resume(found: Diagnosis) -> str:
    if found.resume is not None:
        resume = found.resume
        return f"step {resume.step} on {resume.replica}, which is {resume.health.value}: {resume.path}"
    if found.run is not None:
        return "nothing that can be restored was found; look at the mirrors, or for an older run"
    return "the run was not found from here; say where it is: prune resume --primary ROOT"
