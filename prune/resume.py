"""What to resume from: the newest checkpoint that verifies, on whichever replica, and why newer ones were not it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from prune import holds, logs
from prune.callable_module import make_callable
from prune.candidates import Search, Skipped
from prune.checking import Check, Checking, Ledger, Means
from prune.errors import Failed, PruneError
from prune.inventory.gather import gather
from prune.inventory.opening import open_site
from prune.inventory.site import Site
from prune.journal import Event, Journal, open_journal
from prune.journal.own import marking
from prune.model import Attention, Candidate, Copy, Health, Inventory, PointerState
from prune.settings.schema import RunSettings, Settings
from prune.stores.there import is_there
from prune.unresumable import none_left

StrPath = str | os.PathLike[str]
Notify = Callable[[Skipped], object]
_ATTEMPTS = 5
_NEVER_NS = -(1 << 62)  # as guards.in_flight: nothing counts as being written, its raw health is asked for


@dataclass(frozen=True, slots=True)
class Usable(Candidate):
    """The checkpoint to resume from. ``path`` is what the stack's loader is given, ``paths`` what there is of it."""

    health: Health = Health.UNVERIFIED
    detail: str | None = None
    skipped: tuple[Skipped, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainerPick:
    """What the stack's own trainer would resume from on the primary, and whether it could."""

    step: int | None
    path: str
    usable: bool
    how: str


@dataclass(frozen=True, slots=True)
class Resumption:
    """An answer in full: the candidate and its copy as it was found, or the error that says why there is none."""

    run: str
    candidate: Usable | None = None
    copy: Copy | None = None
    error: PruneError | None = None
    skipped: tuple[Skipped, ...] = ()
    trainer: TrainerPick | None = None
    attention: tuple[Attention, ...] = ()
    lease: str | None = None


@dataclass(frozen=True)
class Terms:
    """What is asked of a checkpoint to resume from."""

    means: Means = field(default_factory=Means)
    min_step: int | None = None
    expect: bool = False  # there must be one: a new run is an error like any other
    notify: Notify | None = None
    told: bool = False  # what is passed over was told already


def resume(
    root: StrPath,
    *,
    mirrors: Sequence[StrPath] = (),
    check: Check = "sha256",
    layout: str = "auto",
    notify: Notify | None = None,
) -> Usable:
    """The checkpoint to resume from: the newest that verifies, the primary ``root`` first, then each of ``mirrors``.

    ``check`` is how deep: ``size``, ``structure`` or ``sha256``, which includes the formats' own checksums. ``notify``
    is called with every copy that was passed over (step, replica, path, health, detail), as a log line is written and
    history noted. Nothing is written in any root. One process of a job should ask, and tell the others.

    Raises NothingYet for a new run: every replica was listed and none ever held a step. Raises Damaged when there are
    checkpoints and none is usable, Blocked when a replica could not be looked at and nothing was found, UsageError
    for roots or a layout that cannot be.
    """
    settings = settings_of(root, mirrors, layout)
    terms = Terms(Means(check), notify=notify)
    journal = open_journal(settings.state, write=True)
    try:
        found = find(settings.runs[0], terms, journal)
        if found.candidate is None:
            raise found.error or Failed("nothing was found")
        return found.candidate
    finally:
        journal.close()


def settings_of(root: StrPath, mirrors: Sequence[StrPath], layout: str) -> Settings:
    """Settings of one run given by its roots."""
    from prune.settings.flags import RunFlags
    from prune.settings.load import load

    flags = RunFlags(os.fsdecode(root), tuple(os.fsdecode(mirror) for mirror in mirrors), layout=layout)
    return load(None, flags)


def find(run: RunSettings, terms: Terms, journal: Journal) -> Resumption:
    """The first usable copy, or why there is none. Raises Interrupted."""
    with searching(run, terms, journal) as search:
        for copy in search.usable():
            return answer(search, copy)
        error = none_left(search, journal, min_step=terms.min_step, expect=terms.expect)
        trainer = _trainer(search)
        attention = (*_standing(search), *_loud(trainer))
        return Resumption(run.name, error=error, skipped=tuple(search.skipped), trainer=trainer, attention=attention)


def on_primary(run: RunSettings, found: Resumption, terms: Terms, journal: Journal, state: str | None) -> Resumption:
    """The same candidate after a mirror's copy of it was put on the primary. Raises Blocked, Failed, Interrupted."""
    from prune.mirror.outcome import Conduct
    from prune.mirror.restore import restore

    if found.copy is None or found.copy.replica == run.primary.name:
        return found
    means = terms.means
    restore(run, found.copy, conduct=Conduct(stop=means.stop, progress=means.progress, clock=means.clock),
            journal=journal, state=state)  # fmt: skip
    again = find(run, replace(terms, told=True), journal)
    if again.candidate is None or again.candidate.step != found.copy.step:
        raise Failed(f"step {found.copy.step} was restored to the primary and does not verify there",
                     mend=f"resume from {found.candidate.path}" if found.candidate else None)  # fmt: skip
    return replace(again, skipped=found.skipped)


def held(run: RunSettings, found: Resumption, terms: Terms, journal: Journal, hold_ns: int) -> Resumption:
    """The candidate, leased before anybody is told of it; what went away in between is looked for again.

    Raises Failed when it cannot be leased or goes away again and again.
    """
    for _ in range(_ATTEMPTS):
        if found.candidate is None:
            return found
        name = holds.lease(run, found.candidate.step, until_ns=terms.means.clock() + hold_ns)
        if all(is_there(path) for path in found.candidate.paths):
            return replace(found, lease=name)
        holds.release(run, name)
        found = find(run, replace(terms, told=True), journal)
    raise Failed(f"{run.name}: what should be held went away {_ATTEMPTS} times; is somebody else deleting here?")


@contextmanager
def searching(run: RunSettings, terms: Terms, journal: Journal) -> Iterator[Search]:
    """A search over the run's replicas, opened and listed. Whatever it passes over is told."""
    raw = replace(run, guards=replace(run.guards, in_flight=_NEVER_NS))
    now = terms.means.clock()
    with open_site(raw) as site:
        journal = marking(journal, site)
        inventory = gather(site, now_ns=now, evidence=journal.evidence)
        checking = Checking(site, terms.means, Ledger(journal))
        teller = _Teller(run.name, journal, terms)
        yield Search(checking, inventory, run.guards.in_flight, terms.min_step, teller)


def answer(search: Search, copy: Copy) -> Resumption:
    """What is told of a copy that was chosen."""
    site = search.checking.site
    paths = search.paths(copy)
    health = copy.health or Health.UNVERIFIED
    skipped = tuple(search.skipped)
    candidate = Usable(copy.step, copy.replica, search.path(copy), health, copy.detail, skipped, paths)
    trainer = _trainer(search)
    attention = (*_standing(search), *_pointers(search.inventory, site, copy), *_loud(trainer))
    return Resumption(site.run.name, candidate, copy, None, skipped, trainer, attention)


@dataclass(frozen=True)
class _Teller:
    """Tells of every copy that is passed over: a log line, history, and whoever asked to be notified."""

    run: str
    journal: Journal
    terms: Terms

    def __call__(self, skipped: Skipped) -> None:
        if self.terms.told:
            return
        logs.warning(
            f"{self.run}: step {skipped.step} on {skipped.replica} is passed over: {skipped.health}"
            f"{f', {skipped.detail}' if skipped.detail else ''} ({skipped.path})"
        )
        data = {"path": skipped.path, "health": skipped.health.value, "detail": skipped.detail}
        self.journal.add(
            [Event(self.terms.means.clock(), self.run, "fallback", skipped.step, skipped.replica, data=data)]
        )
        if self.terms.notify is None:
            return
        try:
            self.terms.notify(skipped)
        except Exception as error:  # whoever is notified must not keep training from resuming
            logs.warning(f"the notifier failed: {type(error).__name__}: {error}")


def _trainer(search: Search) -> TrainerPick | None:
    """What the trainer would pick on the primary; usable when a check finds it so."""
    site = search.checking.site
    pick = search.inventory.picks.get(site.primary.name)
    if pick is None or site.primary.root is None:
        return None
    unit = search.inventory.copies.get(pick.step, {}).get(site.primary.name) if pick.step is not None else None
    copy = search.apart(pick) or unit
    found = search.check(copy) if copy is not None else None
    usable = found is not None and found.health is not None and found.health.restorable
    return TrainerPick(pick.step, os.path.join(site.primary.root.real, pick.path), usable, pick.how)


def _standing(search: Search) -> list[Attention]:
    """What gathering found; that an empty root shows no layout is what every new run begins with."""
    return [note for note in search.inventory.attention if note.kind != "no-checkpoints" or search.skipped]


def _loud(trainer: TrainerPick | None) -> list[Attention]:
    if trainer is None or trainer.usable:
        return []
    named = f"step {trainer.step}" if trainer.step is not None else trainer.path
    return [
        Attention("damaged-pick", "primary", f"the trainer itself would resume from {named} ({trainer.how}), which is "
                  "not usable", "give the trainer the path that `prune resume` prints, or run prune resume --restore")
    ]  # fmt: skip


def _pointers(inventory: Inventory, site: Site, copy: Copy) -> list[Attention]:
    """Pointers on the primary that do not lead to what was chosen."""
    notes = []
    for pointer in inventory.pointers:
        if pointer.replica != site.primary.name:
            continue
        if pointer.state is not PointerState.OK:
            detail = f"{pointer.path} {pointer.detail or 'cannot be followed'}"
            notes.append(Attention(f"pointer-{pointer.state.value}", pointer.replica, detail,
                                   "resume by the path that `prune resume` prints"))  # fmt: skip
        elif pointer.step is not None and pointer.step < copy.step and _is_pick(inventory, pointer.path, site):
            detail = f"{pointer.path} names step {pointer.step}; step {copy.step} is newer and verifies"
            notes.append(Attention("pointer-lags", pointer.replica, detail,
                                   "resume by the path that `prune resume` prints"))  # fmt: skip
    return notes


def _is_pick(inventory: Inventory, path: str, site: Site) -> bool:
    """Whether the trainer goes by this pointer, and not one that names the best step or another thing."""
    pick = inventory.picks.get(site.primary.name)
    return pick is None or pick.path == path or os.path.basename(path) in pick.how


make_callable(__name__)
