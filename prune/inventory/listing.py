"""One listing of one root, grouped: which names belong to which step, which are temporaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from prune.layouts.base import Claim, Entry, Kind, Layout, Part, RootView
from prune.layouts.listing import Listing as Claims


@dataclass(frozen=True, slots=True)
class Listing:
    """What a complete listing of one root showed."""

    steps: dict[int, list[Claim]]  # payload and sidecars, by step
    temporaries: list[Claim]
    foreign: int
    view: RootView | None = None  # None: no layout knows this root
    remains: dict[int, list[Claim]] = field(default_factory=dict)  # sidecars whose payload is gone, by step
    lost: dict[int, list[str]] = field(default_factory=dict)  # names that have a manifest and are gone, by step


def group(claims: Claims) -> Listing:
    """Claims by step. A sidecar whose payload is not there belongs to nothing, and is foreign."""
    steps: dict[int, list[Claim]] = {}
    remains: dict[int, list[Claim]] = {}
    temporaries: list[Claim] = []
    foreign = claims.foreign
    for claim in claims.view.claims:
        if claim.part is Part.TEMPORARY:
            temporaries.append(claim)
        elif claim.step is not None and claim.part in (Part.PAYLOAD, Part.SIDECAR):
            steps.setdefault(claim.step, []).append(claim)
    for step, members in list(steps.items()):
        if all(claim.part is Part.SIDECAR for claim in members):
            foreign += len(members)
            remains[step] = steps.pop(step)
    return Listing(steps, temporaries, foreign, claims.view, remains)


def lost(layout: Layout, claims: Iterable[Claim], sealed: Iterable[str]) -> dict[int, list[str]]:
    """Names of a step's files that have a manifest and do not stand there; ``sealed`` are all that have one."""
    standing = {claim.path.rpartition("/")[2] for claim in claims}
    found: dict[int, list[str]] = {}
    for name in sorted(set(sealed) - standing):
        claim = layout.claim(Entry(name, Kind.FILE))
        if claim is not None and claim.step is not None and claim.part in (Part.PAYLOAD, Part.SIDECAR):
            found.setdefault(claim.step, []).append(name)
    return found
