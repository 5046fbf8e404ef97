"""Plans for tests of reports: small, complete, with everything in them that a report has to show."""

from __future__ import annotations

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
)
from prune.settings.schema import Keep, ReplicaSettings, RunSettings, Settings

NOW = 1_795_966_680 * 1_000_000_000  # 2026-11-29T15:38:00Z
GIB = 1 << 30


def copy(
    step: int, replica: str = "primary", *, health: Health = Health.WHOLE, path: str | None = None, **more
) -> Copy:
    identity = Identity(1, step, GIB, NOW, NOW, 1)
    given = {"measured": True, "size": GIB, "bytes": GIB, "files": 1, "health": health} | more
    return Copy(step, replica, (path or f"step_{step:04d}.pt",), identity, NOW, None, **given)


def step(number: int, decision: Decision = Decision.KEEP, *, reasons=("last",), guards=(), copies=None) -> StepPlan:
    both = (copy(number), copy(number, "mirror"))
    return StepPlan(number, decision, reasons if decision is Decision.KEEP else (), guards, copies or both)


def run_plan(*steps: StepPlan, **more) -> RunPlan:
    replicas = (
        Replica("primary", "primary", "/data/tiny", identity="abc", free_bytes=10 * GIB, total_bytes=100 * GIB),
        Replica("mirror", "mirror", "/mnt/tiny", free_bytes=None, total_bytes=None),
    )
    given = {"cutoff": 30, "resume_candidate": Candidate(40, "primary", "step_0040.pt")} | more
    return RunPlan("tiny", "step-file", {"last": 2}, replicas, steps, **given)


def settings() -> Settings:
    replicas = (
        ReplicaSettings("primary", "/data/tiny", "primary"),
        ReplicaSettings("mirror", "/mnt/tiny", "mirror"),
    )
    return Settings((RunSettings("tiny", replicas, Keep(last=2)),), source="/etc/prune.toml")


def full_plan() -> Plan:
    """One of everything."""
    guard = GuardHold("pinned", "primary", "step_0020.pt", "pinned by ada: for the paper")
    run = run_plan(
        step(10, Decision.DELETE),
        step(20, Decision.GUARDED, guards=(guard,)),
        step(30),
        step(40, copies=(copy(40), copy(40, "mirror", health=Health.BROKEN, detail="cut short", path="b\udcff\n.pt"))),
        blocks=(Block("read-only", "mirror", "mounted read-only"),),
        orphans=(
            OrphanPlan("mirror", "step_0050.pt.part", 4096, Decision.KEEP, "in-flight", Identity(1, 2, 3, 4, 5, 1)),
            OrphanPlan("primary", "step_0005.pt.part", 8192, Decision.DELETE, "orphan", Identity(1, 3, 3, 4, 5, 1)),
        ),
        foreign=3,
        attention=(Attention("damaged", "mirror", "step 40 is broken", "prune mirror"),),
        notes=("nothing here can be content-checked",),
    )
    return Plan("", NOW, (run,), settings=settings())
