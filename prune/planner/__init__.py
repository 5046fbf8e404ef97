"""Inventory + policy + now → plan. Pure, total and deterministic: no clock, no disk, no environment.

    inventory ─▶ evidence ─▶ kept by the policy ─▶ vetoes ─▶ thinned ─▶ blocks ─▶ plan

Any inventory yields a plan and never an exception; the order of what it holds changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from prune import retention
from prune.evidence import Evidence, Key
from prune.guards import Scene, orphans, standing_blocks, too_many, worst_first
from prune.model import Candidate, Copy, Health, Inventory, RunPlan
from prune.planner.attention import attention
from prune.planner.decisions import decide, held_back
from prune.planner.finished import keep_of, rules_in_force
from prune.planner.notes import notes
from prune.planner.policy import as_mapping, describe, in_force
from prune.planner.thinning import thinned
from prune.settings.schema import RunSettings

__all__ = ["Wanted", "describe", "keep_of", "plan", "wanted"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Copies, as (step, replica), that a plan leans on and that nobody has looked at yet. False when there are none.

    Judging a copy tells its health, and with it ``weights_only`` and ``content``; it measures it too. Measuring tells
    identity, sizes and times of every file, ``link``, and what is known by identity or name alone: ``verified_ns``,
    ``created_at_ns`` and the inventory's ``observed_ns``.
    """

    judge: frozenset[Key] = frozenset()
    measure: frozenset[Key] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.judge or self.measure)


def plan(
    inventory: Inventory,
    run: RunSettings,
    now_ns: int,
    *,
    keep_last: int | None = None,
    allow_many: bool = False,
    allow_rewound: bool = False,
) -> RunPlan:
    """What would be kept and deleted in one run, and why.

    ``keep_last`` lowers N for this plan (pressure); it never raises it. ``allow_many`` lifts the brake
    ``guards.max_delete``; ``allow_rewound`` is a person's answer that the numbers tell what is new.
    What nobody has looked at counts as unknown: call :func:`wanted` first, until it wants nothing.
    """
    evidence = Evidence(inventory, run, now_ns)
    scene = _scene(evidence, keep_last=keep_last, allow_rewound=allow_rewound)
    blocks = standing_blocks(evidence)
    steps = thinned(scene, decide(scene, blocked=bool(blocks)))
    brake = None if allow_many else too_many(scene, {step.step for step in steps if step.goes})
    blocks = worst_first([*blocks, *([brake] if brake else [])])
    steps = held_back(scene, steps, blocks[0]) if blocks else steps
    return RunPlan(
        run=inventory.run,
        layout=inventory.layout,
        keep=as_mapping(scene.keep),
        replicas=evidence.replicas,
        steps=steps,
        cutoff=scene.kept.cutoff,
        resume_candidate=_candidate(evidence),
        blocks=blocks,
        orphans=orphans(evidence, blocked=bool(blocks)),
        foreign=inventory.foreign,
        attention=attention(scene, steps),
        notes=notes(scene, steps),
        rewound_since_ns=scene.rewind.since_ns,
    )


def wanted(
    inventory: Inventory,
    run: RunSettings,
    now_ns: int,
    *,
    keep_last: int | None = None,
    allow_rewound: bool = False,
) -> Wanted:
    """Which copies must be judged or measured before the plan can be made.

    What is not judged yet is taken to be restorable, so that the newest that may count come up first; judge and
    measure what is wanted, and ask again, until nothing is. Judging comes first, measuring once that has settled. A
    copy that no decision leans on is never wanted: with N steps or fewer, only the search for the resume candidate.
    """
    evidence = Evidence(inventory, run, now_ns, unjudged=Health.WHOLE)
    scene = _scene(evidence, keep_last=keep_last, allow_rewound=allow_rewound)
    thinned(scene, decide(scene, blocked=bool(standing_blocks(evidence))))
    _candidate(evidence)
    if evidence.to_judge:  # what health tells may spare the measuring
        return Wanted(judge=frozenset(evidence.to_judge))
    return Wanted(measure=frozenset(evidence.to_measure))


def _scene(evidence: Evidence, *, keep_last: int | None, allow_rewound: bool) -> Scene:
    keep = in_force(rules_in_force(evidence), keep_last)
    return Scene(evidence, keep, retention.kept(evidence, keep), allow_rewound)


def _candidate(evidence: Evidence) -> Candidate | None:
    copy = evidence.candidate
    return None if copy is None else Candidate(copy.step, copy.replica, _full_path(evidence, copy))


def _full_path(evidence: Evidence, copy: Copy) -> str:
    root = next(replica.root for replica in evidence.replicas if replica.name == copy.replica)
    path = copy.load_path or next(iter(copy.paths), "")
    return f"{root.rstrip('/')}/{path}".rstrip("/")
