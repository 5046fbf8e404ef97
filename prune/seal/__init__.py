"""Manifests for whole checkpoints that have none, made from bytes that were checked and that nothing contradicts.

deciding.py which copies may be sealed · writing.py their manifests and sidecars · outcome.py what came of it
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from prune.callable_module import make_callable
from prune.checking import Means
from prune.errors import UsageError
from prune.inventory.gather import survey
from prune.inventory.opening import open_site
from prune.journal import Event, Journal, open_journal
from prune.model import Block, Health, Verdict
from prune.seal.deciding import Deciding, is_fresh
from prune.seal.outcome import Refused, Sealed, Sealing
from prune.seal.writing import Writing
from prune.settings.schema import RunSettings, Settings
from prune.verify import verify_run

__all__ = ["Refused", "Sealed", "Sealing", "seal", "seal_all", "seal_run"]
StrPath = str | os.PathLike[str]


def seal(
    root: StrPath,
    *,
    steps: Iterable[int] = (),
    mirrors: Sequence[StrPath] = (),
    sidecar: bool = False,
    layout: str = "auto",
) -> Sealing:
    """Writes manifests for the checkpoints of a root, and of its ``mirrors``, that are whole and have none.

    Every copy is read in full first. ``steps``: only these; none given means all. ``sidecar``: also ``NAME.sha256``
    in coreutils form. What is broken, suspect or still being written is refused, and so is what another replica's
    manifest contradicts: ``refused`` tells each. Nothing is written into a checkpoint.

    Raises UsageError for roots, a layout or a step that cannot be.
    """
    from prune.resume import settings_of

    return seal_all(settings_of(root, mirrors, layout), steps, sidecar=sidecar)[0]


def seal_all(
    settings: Settings,
    steps: Iterable[int] = (),
    *,
    sidecar: bool = False,
    means: Means | None = None,
    wait_ns: int = 0,
) -> list[Sealing]:
    """Seals the copies of the steps given, or of all, on every local replica of every run.

    Raises UsageError for a step that no replica holds, Interrupted on a wish to stop.
    """
    means = means or Means()
    wanted = frozenset(steps)
    journal = open_journal(settings.state, write=True)
    try:
        return [seal_run(run, wanted, sidecar=sidecar, means=means, wait_ns=wait_ns, journal=journal)
                for run in settings.runs]  # fmt: skip
    finally:
        journal.close()


def seal_run(
    run: RunSettings, steps: frozenset[int], *, sidecar: bool, means: Means, wait_ns: int, journal: Journal
) -> Sealing:
    """One run: checked without its locks, hashed without them, written under them."""
    checked = verify_run(run, steps, means=means, journal=journal)
    missing = sorted(steps - {copy.step for copy in checked.copies})
    if missing and not checked.unseen:
        raise UsageError(f"no replica of {run.name} holds step {missing[0]}", mend="`prune plan` lists what is there")
    hidden = [block for block in checked.unseen if _is_required(run, block)]
    if hidden:  # a manifest there may contradict what is here
        return Sealing(run.name, blocks=tuple(hidden))
    with open_site(run) as site:
        inventory = survey(site, now_ns=means.clock())
        writing = {temporary.step for temporary in inventory.temporaries if is_fresh(temporary.mtime_ns, run, means)}
        deciding = Deciding(site, means, sidecar)
        for copy in checked.copies:
            if not means.stop:
                deciding.consider(copy, being_written=copy.step in writing)
        done = Writing(site, sidecar)
        done.write(deciding.ready, wait_ns=wait_ns)
        now = means.clock()
        for copy in done.proven:  # its manifest was made of what was just read
            if (root := site.by_name(copy.replica).root) is not None:
                journal.verified(root.real, copy.paths, copy.identity, Verdict(Health.INTACT), now)
    journal.add([Event(now, run.name, "sealed", each.step, each.replica) for each in done.sealed])
    refused = (*deciding.refused, *done.refused)
    return Sealing(run.name, tuple(done.sealed), deciding.already, refused, tuple(done.failed), tuple(done.blocks))


def _is_required(run: RunSettings, block: Block) -> bool:
    replica = next((each for each in run.replicas if each.name == block.replica), None)
    return replica is None or replica.required


make_callable(__name__)
