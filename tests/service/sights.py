"""Plans and outcomes of a small run, as the daemon would see them."""

from __future__ import annotations

from collections.abc import Sequence

from prune.model import (
    Attention,
    Block,
    Candidate,
    Copy,
    Decision,
    DeletedCopy,
    FailedCopy,
    GuardHold,
    Health,
    Identity,
    Replica,
    RunOutcome,
    RunPlan,
    StepPlan,
)

MINUTE = 60 * 1_000_000_000
NOW = 1_795_966_680 * 1_000_000_000  # 2026-11-29T15:38:00Z
GIB = 1 << 30


def copy(step: int, replica: str = "primary", *, health: Health = Health.WHOLE, detail: str | None = None) -> Copy:
    at = NOW - (100 - step // 100) * 10 * MINUTE
    return Copy(
        step=step,
        replica=replica,
        paths=(f"step_{step:04d}.pt",),
        identity=Identity(1, step + 1, GIB, at, at, 1),
        mtime_ns=at,
        oldest_mtime_ns=at,
        measured=True,
        size=GIB,
        bytes=GIB,
        files=1,
        health=health,
        detail=detail,
    )


def step(
    number: int,
    decision: Decision = Decision.KEEP,
    *,
    reasons: Sequence[str] = (),
    guards: Sequence[GuardHold] = (),
    health: Health = Health.WHOLE,
    detail: str | None = None,
    replicas: Sequence[str] = ("primary", "mirror"),
) -> StepPlan:
    copies = tuple(copy(number, replica, health=health, detail=detail) for replica in replicas)
    return StepPlan(number, decision, tuple(reasons), tuple(guards), copies)


def replica(name: str = "primary", *, free: int | None = 20 * GIB, inodes: int | None = 1000) -> Replica:
    role = "primary" if name == "primary" else "mirror"
    return Replica(
        name, role, f"/data/{name}/tiny", free_bytes=free, total_bytes=100 * GIB, free_inodes=inodes, total_inodes=5000
    )


def tiny(
    run: str = "tiny",
    *,
    steps: Sequence[StepPlan] | None = None,
    blocks: Sequence[Block] = (),
    attention: Sequence[Attention] = (),
) -> RunPlan:
    """Steps 100 to 1000: two would go, one is guarded, one is broken, one in flight."""
    if steps is None:
        steps = (
            step(100, Decision.DELETE),
            step(200, Decision.DELETE),
            step(300, Decision.GUARDED, guards=[GuardHold("pinned", "primary", None, "the baseline of the paper")]),
            step(400, reasons=["last"]),
            step(500, reasons=["last"]),
            step(600, reasons=["newer-than-cutoff"], health=Health.BROKEN, detail="9 bytes of 1 GiB"),
            step(700, reasons=["last"]),
            step(800, reasons=["newer-than-cutoff"], health=Health.IN_FLIGHT),
        )
    return RunPlan(
        run=run,
        layout="step-file",
        keep={"last": 3},
        replicas=(replica("primary"), replica("mirror", free=30 * GIB)),
        steps=tuple(steps),
        cutoff=400,
        resume_candidate=Candidate(700, "primary", "/data/primary/tiny/step_0700.pt"),
        blocks=tuple(blocks),
        attention=tuple(attention),
    )


def outcome(run: str = "tiny", *, failed: Sequence[FailedCopy] = (), blocked: Block | None = None) -> RunOutcome:
    """Steps 100 and 200 deleted on both sides."""
    deleted = tuple(
        DeletedCopy(number, side, GIB, 1, True)
        for number in (100, 200)
        for side in ("primary", "mirror")
        if not blocked
    )
    return RunOutcome(run, blocked=blocked, deleted=deleted, failed=tuple(failed))
