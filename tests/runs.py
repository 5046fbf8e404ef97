"""Runs for tests: settings of a primary with its mirror, and the state kept out of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prune import engine
from prune.model import Outcome, Plan, RunOutcome, RunPlan
from prune.settings.schema import Guards, Keep, ReplicaSettings, RunSettings, Settings


def run_of(primary: Path, *mirrors: Path, last: int = 12, name: str = "tiny", **more: Any) -> RunSettings:
    """A run on these roots that keeps the last N aligned steps."""
    keep = more.pop("keep", Keep(last=last))
    replicas = [ReplicaSettings("primary", str(primary), "primary")]
    for number, mirror in enumerate(mirrors, 1):
        replicas.append(ReplicaSettings("mirror" if number == 1 else f"mirror-{number}", str(mirror), "mirror"))
    return RunSettings(name, tuple(replicas), keep=keep, **more)


def settings_of(*runs: RunSettings, state: Path) -> Settings:
    return Settings(tuple(runs), state=f"sqlite:///{state}")


def planned(run: RunSettings, state: Path) -> RunPlan:
    return plan_of(run, state).runs[0]


def plan_of(run: RunSettings, state: Path) -> Plan:
    return engine.plan(settings_of(run, state=state))


def applied(run: RunSettings, state: Path, **more: Any) -> RunOutcome:
    return outcome_of(run, state, **more).runs[0]


def outcome_of(run: RunSettings, state: Path, *, reviewed: Plan | None = None, **conduct: Any) -> Outcome:
    return engine.apply(settings_of(run, state=state), reviewed=reviewed, conduct=engine.Conduct(**conduct))


def deleted_steps(outcome: RunOutcome, replica: str = "primary") -> list[int]:
    return [copy.step for copy in outcome.deleted if copy.replica == replica]


__all__ = ["Guards", "applied", "deleted_steps", "outcome_of", "plan_of", "planned", "run_of", "settings_of"]
