"""Checking copies by size, structure or content; nothing is written in any root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from prune.agreement import Agreement
from prune.checking import Checking, Ledger, Means
from prune.errors import UsageError
from prune.integrity import compare
from prune.inventory.gather import survey
from prune.inventory.opening import open_site
from prune.inventory.site import Site
from prune.journal import Journal, open_journal
from prune.journal.own import marking
from prune.model import Attention, Block, Copy, Health, Inventory
from prune.settings.schema import RunSettings, Settings

DAMAGE = frozenset({Health.BROKEN, Health.SUSPECT})


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found in one run. ``unseen`` are replicas that could not be looked at."""

    run: str
    copies: tuple[Copy, ...]
    unseen: tuple[Block, ...] = ()
    attention: tuple[Attention, ...] = ()

    @property
    def damaged(self) -> bool:
        return any(copy.health in DAMAGE for copy in self.copies)

    @property
    def incomplete(self) -> bool:
        """Whether anything could not be examined."""
        return bool(self.unseen) or any(copy.health is Health.UNKNOWN for copy in self.copies)


def verify(settings: Settings, steps: Iterable[int] = (), *, means: Means | None = None) -> list[Verified]:
    """Checks every copy of the steps given, or of all, on every replica of every run, newest first.

    The verdict is the raw one: a file cut a second ago is broken. Raises UsageError for a step that no replica holds.
    """
    means = means or Means()
    wanted = frozenset(steps)
    journal = open_journal(settings.state, write=True)
    try:
        found = [verify_run(run, wanted, means=means, journal=journal) for run in settings.runs if not means.stop]
    finally:
        journal.close()
    if not means.stop:
        check_steps(found, wanted)
    return found


def check_steps(found: Sequence[Verified], wanted: frozenset[int]) -> None:
    """Raises UsageError for a step that was asked for and that no replica holds."""
    missing = sorted(wanted - {copy.step for run in found for copy in run.copies})
    if missing and not any(run.unseen for run in found):
        raise UsageError(f"no replica holds step {missing[0]}", mend="`prune plan` lists the steps that are there")


def verify_run(run: RunSettings, steps: frozenset[int], *, means: Means, journal: Journal) -> Verified:
    """One run's copies, with what was found of each. Trouble with a replica stands in ``unseen``."""
    with open_site(run) as site:
        inventory = survey(site, now_ns=means.clock())
        copies = [
            copy
            for step in reversed(inventory.steps)
            if not steps or step in steps
            for copy in inventory.copies[step].values()
        ]
        work = Checking(site, means, Ledger(marking(journal, site)))
        found = work.all_of(copies)
        found = _against_siblings(inventory, found)
        if means.check == "sha256":
            found = Agreement(work).of(found)
        work.tell(found)
        return Verified(
            run.name,
            tuple(found),
            tuple(block for block in inventory.blocks if _hides(site, block)),
            inventory.attention,
        )


def _hides(site: Site, block: Block) -> bool:
    """Whether a block means that copies may exist that were not looked at."""
    replica = next((each for each in site.replicas if each.name == block.replica), None)
    return replica is None or replica.listing is None or block.block == "replica-vanished"


def _against_siblings(inventory: Inventory, found: Sequence[Copy]) -> list[Copy]:
    """The copies, those suspect that stand out by size. Siblings nobody was asked to check count by their size."""
    copies = {
        step: {name: replace(copy, health=copy.health or Health.UNVERIFIED) for name, copy in held.items()}
        for step, held in inventory.copies.items()
    }
    for copy in found:
        copies[copy.step][copy.replica] = copy
    suspects = compare.suspects(copies)
    return [_suspected(copy, suspects.get((copy.step, copy.replica))) for copy in found]


def _suspected(copy: Copy, detail: str | None) -> Copy:
    if detail is None or copy.health is not Health.UNVERIFIED:
        return copy
    return replace(copy, health=Health.SUSPECT, detail=detail)
