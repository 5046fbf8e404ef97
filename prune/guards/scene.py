"""What the guards look at: the evidence, what the policy keeps of it, and who claims which step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from prune.evidence import Evidence
from prune.guards import resuming
from prune.guards.rewound import Rewind, rewind
from prune.model import Copy, Lease, Pick, Pin, Pointer, Temporary
from prune.retention import Kept
from prune.settings.schema import Guards, Keep

Claim = TypeVar("Claim", Pin, Lease, Pointer, Temporary)


@dataclass(frozen=True)
class Scene:
    """One run at the moment of deciding.

    ``keep`` is the policy in force (N may have been lowered for room). ``allow_rewound``: a person has answered that
    the numbers tell what is new.
    """

    evidence: Evidence
    keep: Keep
    kept: Kept
    allow_rewound: bool = False

    @property
    def now_ns(self) -> int:
        return self.evidence.now_ns

    @property
    def guards(self) -> Guards:
        return self.evidence.run.guards

    @cached_property
    def unwanted(self) -> frozenset[int]:
        """Steps that the policy would delete."""
        return frozenset(self.kept.unwanted)

    # What the guards of resuming and of rewinding know, found once for all steps.

    @cached_property
    def resumed_from(self) -> Mapping[int, list[Copy]]:
        return resuming.resumed_from(self.evidence)

    @cached_property
    def written_last(self) -> Copy | None:
        return resuming.written_last(self.evidence, self.unwanted)

    @cached_property
    def newest_verified(self) -> Copy | None:
        return resuming.newest_verified(self.evidence, self.unwanted)

    @cached_property
    def rewind(self) -> Rewind:
        return Rewind(None) if self.allow_rewound else rewind(self.evidence, self.kept, last=self.keep.last)

    # Who claims which step.

    @cached_property
    def picks(self) -> Mapping[int, list[tuple[str, Pick]]]:
        """What each replica's trainer would pick, by step."""
        found: dict[int, list[tuple[str, Pick]]] = {}
        for replica, pick in sorted(self.evidence.inventory.picks.items(), key=lambda item: item[0]):
            if pick.step is not None:
                found.setdefault(pick.step, []).append((replica, pick))
        return found

    @cached_property
    def pins(self) -> Mapping[int, list[Pin]]:
        """Pins that have not run out, by step."""
        standing = (pin for pin in self.evidence.inventory.pins if pin.holds(self.now_ns))
        return _by_step(standing, lambda pin: (pin.replica, pin.at_ns, pin.by, pin.reason))

    @cached_property
    def leases(self) -> Mapping[int, list[Lease]]:
        """Leases that have not run out, by step."""
        standing = (lease for lease in self.evidence.inventory.leases if lease.holds(self.now_ns))
        return _by_step(standing, lambda lease: (lease.replica, lease.until_ns, lease.holder))

    @cached_property
    def pointers(self) -> Mapping[int, list[Pointer]]:
        return _by_step(self.evidence.inventory.pointers, lambda pointer: (pointer.replica, pointer.path))

    @cached_property
    def temporaries(self) -> Mapping[int, list[Temporary]]:
        return _by_step(self.evidence.inventory.temporaries, lambda temporary: (temporary.replica, temporary.path))


def _by_step(claims: Iterable[Claim], order: Callable[[Claim], Any]) -> Mapping[int, list[Claim]]:
    found: dict[int, list[Claim]] = {}
    for claim in sorted(claims, key=order):
        if claim.step is not None:
            found.setdefault(claim.step, []).append(claim)
    return found
