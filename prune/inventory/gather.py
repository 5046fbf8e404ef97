"""One run's replicas → its Inventory, judged newest first and only as far as the decision needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prune import planner
from prune.integrity import compare
from prune.inventory import copies as looking
from prune.inventory.content import checked, content_verdict
from prune.inventory.damage import explained
from prune.inventory.identity import check_volumes
from prune.inventory.judging import Evidence, judge, no_evidence, recalled, settle_age
from prune.inventory.listing import Listing, group
from prune.inventory.site import OpenReplica, Site, look_afresh, open_control, read_space
from prune.layouts.listing import every_pointer, read_root
from prune.model import (
    Attention,
    Block,
    Copy,
    Health,
    Inventory,
    Lease,
    Pick,
    Pin,
    Pointer,
    PointerState,
    Replica,
    Temporary,
)  # fmt: skip
from prune.stores.open_files import OpenFiles, look
from prune.stores.pace import at_once, measure_all

if TYPE_CHECKING:
    from prune.stores.object.root import ObjectRoot

# Copies whose health no decision needs are judged all the same while few entries are involved, so that a person
# sees it; beyond that a look at a huge run would cost what it keeps, not what it deletes.
COURTESY_ENTRIES = 1024
COURTESY_BYTES = 32 << 20

Progress = Callable[[str, int, int], None]


@dataclass
class Gathering:
    """What a gathering works with."""

    site: Site
    now_ns: int
    evidence: Evidence
    keep_last: int | None
    progress: Progress
    imagine: Callable[[Inventory], Inventory] = lambda found: found
    courtesy: bool = True
    open_files: OpenFiles = field(default_factory=OpenFiles)

    @property
    def fresh_ns(self) -> int:
        return self.site.run.guards.in_flight


def _silent(_what: str, _done: int, _of: int) -> None:
    pass


def gather(
    site: Site,
    *,
    now_ns: int,
    evidence: Evidence = no_evidence,
    keep_last: int | None = None,
    judge_all: bool = False,
    measure: bool = True,
    before: Inventory | None = None,
    imagine: Callable[[Inventory], Inventory] = lambda found: found,
    courtesy: bool = True,
    progress: Progress = _silent,
) -> Inventory:
    """Lists every replica and looks at what the plan needs. Writes nothing.

    ``keep_last`` is a lowered N (pressure); ``judge_all`` judges every copy (verify, status). ``measure=False`` stops
    where something would be deleted, unmeasured: enough to know that a pass has nothing to do. ``before`` is an
    earlier inventory of the same site: what stands unchanged is not looked at again. ``imagine`` turns what was found
    into what the plan is to be made of, for those who ask what it would be if. Without ``courtesy`` no copy is judged
    that no decision leans on, however few there are.
    Never raises for what a replica does: its trouble becomes blocks.
    """
    work = Gathering(site, now_ns, evidence, keep_last, progress, imagine, courtesy)
    inventory = _surveyed(work, again=before is not None)
    if before is not None:
        inventory = _carried_over(inventory, before)
    if not measure:
        return _as_needed(work, inventory, measure=False)
    inventory = _judged(work, inventory, judge_all)
    return inventory if before is not None else explained(site, _candidate_read(work, inventory))


def survey(site: Site, *, now_ns: int) -> Inventory:
    """What the listings alone tell: no copy is looked into. Writes nothing, and raises as little as :func:`gather`."""
    return _surveyed(Gathering(site, now_ns, no_evidence, None, _silent))


def _surveyed(work: Gathering, *, again: bool = False) -> Inventory:
    """``again``: somebody is about to act on it, so that nothing another run's look saw is good enough."""
    site = work.site
    look_afresh(site)
    find_layout(site)
    open_control(site, site.layout)
    for replica in site.replicas:
        _list(work, replica)
    check_volumes(site)
    work.open_files = look([r.root.real for r in site.replicas if r.root is not None], anew=again)
    return _listed(work)


def _carried_over(inventory: Inventory, before: Inventory) -> Inventory:
    """Copies that stand as they stood keep what was found of them; who holds them open is always looked at anew."""
    copies = {
        step: {name: _same_or_new(copy, before.copies.get(step, {}).get(name)) for name, copy in found.items()}
        for step, found in inventory.copies.items()
    }
    return replace(inventory, copies=copies)


def _same_or_new(found: Copy, earlier: Copy | None) -> Copy:
    if earlier is None or earlier.listed is None or (earlier.listed, earlier.paths) != (found.listed, found.paths):
        return found
    return replace(earlier, busy=found.busy)


def find_layout(site: Site) -> None:
    """The layout the configuration names, or the one the primary shows, or a mirror where it shows none."""
    from prune import layouts
    from prune.layouts.detect import detect, find_base

    if site.layout is not None:
        return
    name, options = site.run.layout, site.run.layout_options
    shown = []
    for replica in site.replicas:
        if replica.root is None:
            continue
        try:
            if name != "auto":
                layout = layouts.get(name, options)
                base = find_base(replica.root, layout)
                if base is not None:
                    site.layout, site.base = layout, base
                    return
                shown.append((replica, f"nothing there is named as {name} names checkpoints"))
                site.layout = site.layout or layout
                continue
            found = detect(replica.root)
        except OSError as error:
            replica.block("listing-incomplete", f"{error.filename or replica.settings.root}: {error.strerror}")
            continue
        if found.layout is not None:
            site.layout, site.base = found.layout, found.base
            return
        shown.append((replica, found.why))
        if found.rivals:
            mend = 'name one with --layout, or layout = "…" in the configuration'
            site.blocks.append(Block("layout-ambiguous", replica.name, f"{found.why}; {mend}"))
            return
    for replica, why in shown:
        if site.layout is None:
            site.attention.append(
                Attention("no-checkpoints", replica.name, f"{replica.settings.root}: {why}",
                          "point at the directory that holds the checkpoints, or name the layout with --layout")
            )  # fmt: skip


def _list(work: Gathering, replica: OpenReplica) -> None:
    site, root = work.site, replica.root
    if root is None or any(block.block != "control-unusable" for block in replica.trouble):
        return
    if site.layout is None:
        replica.listing = Listing({}, [], 0) if not site.blocks else None
        return
    try:
        base = site.base if not site.base or root.exists(site.base) else ""
        found = read_root(site.layout, root, base, now_ns=work.now_ns, fresh_ns=work.fresh_ns)
    except OSError as error:
        replica.block("listing-incomplete", f"{error.filename or replica.settings.root}: {error.strerror}")
        return
    replica.listing = group(found)
    if replica.in_store:
        _as_in_a_store(work, replica)
    collision = site.layout.collisions(found.view.claims)
    if collision is not None:
        site.blocks.append(
            Block("layout-ambiguous", replica.name, f"{collision}; move one of them away, or name the run's names with "
                  'layout = "custom" and a pattern')
        )  # fmt: skip


def _as_in_a_store(work: Gathering, replica: OpenReplica) -> None:
    """What is withdrawn there still stands under its names, and is no copy any more; what is left of its budget."""
    from prune.stores.object.control import as_objects
    from prune.stores.object.hidden import hidden
    from prune.stores.object.root import in_store

    root, control, listing = in_store(replica.root), as_objects(replica.control), replica.listing
    assert root is not None
    assert listing is not None
    replica.uploads = _uploads(work, replica, root)
    try:
        read_space(replica)
        if control is not None:
            steps = {step: [claim.path for claim in claims] for step, claims in listing.steps.items()}
            for step in hidden(root, control, steps, since_ns=work.now_ns - work.site.run.guards.orphans):
                del listing.steps[step]
    except ValueError as error:
        replica.block("control-unusable", f"{control.path if control else replica.settings.root}: {error}")
    except OSError as error:
        replica.block("listing-incomplete", f"{error.filename or replica.settings.root}: {error.strerror}")
    if root.bucket.versioned:
        work.site.attention.append(
            Attention("versioned", replica.name, f"the bucket of {replica.settings.root} keeps versions: what is "
                      "deleted frees nothing yet", "let a lifecycle rule of the bucket expire those not current")
        )  # fmt: skip


def _uploads(work: Gathering, replica: OpenReplica, root: ObjectRoot) -> list[Temporary]:
    """What was begun to be uploaded in parts and takes up room unseen."""
    from prune.stores.object.uploads import as_temporaries

    try:
        return as_temporaries(root, replica.name)
    except OSError as error:
        detail = f"unfinished uploads to {replica.settings.root} cannot be listed: {error.strerror}"
        mend = "allow this user to list them, or let a lifecycle rule of the bucket end them"
        work.site.attention.append(Attention("uploads", replica.name, detail, mend))
        return []


def _listed(work: Gathering) -> Inventory:
    """The inventory as the listings alone tell it."""
    site = work.site
    blocks = list(site.blocks)
    attention = list(site.attention)
    copies: dict[int, dict[str, Copy]] = {}
    temporaries: list[Temporary] = []
    pointers: list[Pointer] = []
    picks: dict[str, Pick] = {}
    pins: list[Pin] = []
    leases: list[Lease] = []
    for replica in site.replicas:
        _tell_trouble(replica, blocks, attention)
        if not _counts(replica):
            continue
        _copies(work, replica, copies)
        _temporaries(work, replica, temporaries)
        _pointers(work, replica, pointers, picks)
        _holds(replica, pins, leases, blocks)
    base = Inventory(
        run=site.run.name,
        layout=site.layout.name if site.layout else "none",
        replicas=tuple(_described(r) for r in site.replicas),
        copies=copies,
        temporaries=tuple(temporaries),
        pointers=tuple(pointers),
        picks=picks,
        pins=tuple(pins),
        leases=tuple(leases),
        blocks=tuple(dict.fromkeys(blocks)),
        attention=tuple(attention),
        foreign=sum(r.listing.foreign for r in site.replicas if r.listing is not None),
        unthinnable=site.layout.unthinnable if site.layout else None,
    )
    return _with_memories(site, _with_metrics(work, base))


def _counts(replica: OpenReplica) -> bool:
    """Whether what a replica shows may be believed: an optional one in trouble is left out, its copies untouched."""
    return replica.usable or (replica.listing is not None and replica.settings.required)


def _described(replica: OpenReplica) -> Replica:
    described = replica.describe()
    return described if _counts(replica) else replace(described, listed=False)


def _tell_trouble(replica: OpenReplica, blocks: list[Block], attention: list[Attention]) -> None:
    if replica.settings.required:
        blocks += replica.trouble
        return
    for trouble in replica.trouble:
        attention.append(
            Attention(trouble.block, replica.name, trouble.detail,
                      "an optional mirror holds nothing back; nothing is deleted on it meanwhile")
        )  # fmt: skip


def _copies(work: Gathering, replica: OpenReplica, copies: dict[int, dict[str, Copy]]) -> None:
    layout, listing = work.site.layout, replica.listing
    if layout is None or listing is None:
        return
    locked = work.open_files.locked
    steps = list(listing.steps.items())
    for copy in at_once(replica.waits, lambda item: looking.listed_copy(replica, layout, *item), steps):
        if copy is None:
            continue
        busy = _busy(work, replica, copy.paths)
        lock = locked.get((copy.identity.dev, copy.identity.ino))
        copies.setdefault(copy.step, {})[replica.name] = replace(copy, busy=busy or lock) if busy or lock else copy


def _busy(work: Gathering, replica: OpenReplica, paths: Sequence[str]) -> str | None:
    if not work.open_files.paths or replica.root is None:
        return None
    real = replica.root.real
    return next((who for path in paths if (who := work.open_files.holder(os.path.join(real, path)))), None)


def _temporaries(work: Gathering, replica: OpenReplica, into: list[Temporary]) -> None:
    assert replica.listing is not None
    for claim in replica.listing.temporaries:
        found = looking.temporary(replica, claim, work.open_files)
        if found is not None:
            into.append(found)
    into += replica.uploads


def _pointers(work: Gathering, replica: OpenReplica, pointers: list[Pointer], picks: dict[str, Pick]) -> None:
    layout, listing = work.site.layout, replica.listing
    if layout is None or listing is None or listing.view is None:
        return
    try:
        pointers += [replace(pointer, replica=replica.name) for pointer in every_pointer(layout, listing.view)]
        pick = layout.trainer_pick(listing.view)
    except OSError as error:
        detail = f"{error.filename or replica.settings.root}: {error.strerror}"
        pointers.append(Pointer(replica.name, str(error.filename or ""), None, PointerState.UNREADABLE, detail))
        return
    if pick is not None:
        picks[replica.name] = pick


def _holds(replica: OpenReplica, pins: list[Pin], leases: list[Lease], blocks: list[Block]) -> None:
    if replica.control is None:
        return
    try:
        pins += replica.control.pins(replica.name)
        leases += replica.control.leases(replica.name)
    except (OSError, ValueError) as error:
        blocks.append(Block("pins-unreadable", replica.name, f"{error}; mend or remove that file"))


def _with_metrics(work: Gathering, inventory: Inventory) -> Inventory:
    """What the trainer's own state files say: metrics, the best step, steps it will not start without."""
    layout = work.site.layout
    if layout is None:
        return inventory
    metrics: Mapping[int, Mapping[str, float]] = {}
    referenced: dict[int, str] = {}
    best = None
    blocks = list(inventory.blocks)
    for replica in work.site.replicas:
        if not _counts(replica) or replica.listing is None or replica.listing.view is None:
            continue
        view = replica.listing.view
        try:
            referenced.update(layout.referenced(view))
            if not metrics:
                metrics, best = layout.metrics(view), layout.best_recorded(view)
        except OSError as error:
            blocks.append(Block("pointer-unreadable", replica.name, f"{error.filename}: {error.strerror}"))
    return replace(inventory, metrics=metrics, best_recorded=best, referenced=referenced, blocks=tuple(blocks))


def _with_memories(site: Site, inventory: Inventory) -> Inventory:
    """What the control folders remember: a rewind, and what was seen to stand still."""
    rewound: list[int] = []
    observed: dict[tuple[int, str], int] = {}
    blocks = list(inventory.blocks)
    for replica in site.replicas:
        if replica.control is None:
            continue
        try:
            since = replica.control.remembered("rewound").get("since_ns")
            if isinstance(since, int):
                rewound.append(since)
            for key, seen in replica.control.remembered("observed").items():
                if (copy := _copy_at(inventory, key, replica.name)) and isinstance(seen, list):
                    identity = copy.identity
                    if seen[1:] == [identity.dev, identity.ino, identity.size, identity.mtime_ns, identity.ctime_ns]:
                        observed[copy.step, replica.name] = int(seen[0])
        except (OSError, ValueError) as error:
            blocks.append(Block("control-unusable", replica.name, str(error)))
    return replace(
        inventory,
        rewound_since_ns=min(rewound, default=None),
        observed_ns=observed,
        blocks=tuple(dict.fromkeys(blocks)),
    )


def _copy_at(inventory: Inventory, key: str, replica: str) -> Copy | None:
    return inventory.copies.get(int(key), {}).get(replica) if key.isdigit() else None


def _judged(work: Gathering, inventory: Inventory, judge_all: bool) -> Inventory:
    """Judges and measures until the plan needs nothing more, then what little is left for people to see."""
    budget = COURTESY_ENTRIES if work.courtesy else 0
    while True:
        inventory = _as_needed(work, inventory)
        rest = _unjudged(inventory)
        if not judge_all:
            rest = [key for key in rest if not work.site.by_name(key[1]).in_store]
            rest, budget = _affordable(work, inventory, rest, budget)
        if not rest:
            return inventory
        inventory = _compared(work, _judge(work, inventory, rest))


def _candidate_read(work: Gathering, inventory: Inventory) -> Inventory:
    """Small resume candidates are read in full: what training would resume from is the last thing to be wrong about."""
    while True:
        found = planner.plan(inventory, work.site.run, work.now_ns, keep_last=work.keep_last).resume_candidate
        copy = inventory.copies[found.step][found.replica] if found is not None else None
        if copy is None or copy.verified_ns is not None or not copy.measured or (copy.size or 0) > COURTESY_BYTES:
            return inventory
        assert work.site.layout is not None
        verdict, identity = content_verdict(work.site.by_name(copy.replica), work.site.layout, copy)
        seen = settle_age(checked(copy, verdict, identity, work.now_ns), work.now_ns, work.fresh_ns)
        copies = {**inventory.copies, copy.step: {**inventory.copies[copy.step], copy.replica: seen}}
        inventory = _as_needed(work, replace(inventory, copies=copies))
        if seen.health is not None and seen.health.restorable:
            return inventory


def _as_needed(work: Gathering, inventory: Inventory, *, measure: bool = True) -> Inventory:
    while True:
        wanted = planner.wanted(work.imagine(inventory), work.site.run, work.now_ns, keep_last=work.keep_last)
        here = {(step, name) for step, found in inventory.copies.items() for name in found}
        judge_now = [key for key in wanted.judge & here if _health(inventory, key) is None]
        measure_now = [key for key in wanted.measure & here if not inventory.copies[key[0]][key[1]].measured]
        if (not judge_now and not measure_now) or (measure_now and not measure):
            return inventory
        inventory = _judge(work, inventory, judge_now)
        inventory = _measure(work, inventory, measure_now)
        inventory = _compared(work, inventory)


def _health(inventory: Inventory, key: tuple[int, str]) -> Health | None:
    return inventory.copies[key[0]][key[1]].health


def _unjudged(inventory: Inventory) -> list[tuple[int, str]]:
    return [(step, name) for step in reversed(inventory.steps) for name, copy in inventory.copies[step].items()
            if copy.health is None]  # fmt: skip


def _affordable(
    work: Gathering, inventory: Inventory, rest: list[tuple[int, str]], budget: int
) -> tuple[list[tuple[int, str]], int]:
    """As many copies, newest first, as the entries they hold leave room for."""
    chosen: list[tuple[int, str]] = []
    for key in rest:
        copy = inventory.copies[key[0]][key[1]]
        if work.site.by_name(copy.replica).waits and copy.files != len(copy.paths):
            continue  # nobody asked for it, and each call there costs
        cost = len(copy.paths) if copy.measured and copy.files == len(copy.paths) else _entries(work, copy, budget)
        if cost > budget:
            return chosen, 0
        budget -= cost
        chosen.append(key)
    return chosen, budget


def _entries(work: Gathering, copy: Copy, limit: int) -> int:
    """How many entries a directory copy holds, counted no further than ``limit``."""
    root = work.site.by_name(copy.replica).root
    assert root is not None
    count = 0
    folders = list(copy.paths)
    try:
        while folders and count <= limit:
            path = folders.pop()
            if root.stat(path).kind == "dir":
                for entry in root.scan(path):
                    count += 1
                    if entry.kind == "dir":
                        folders.append(entry.path)
                    if count > limit:
                        break
    except OSError:
        return 1  # judging it will tell
    return count + 1


def _judge(work: Gathering, inventory: Inventory, keys: Iterable[tuple[int, str]]) -> Inventory:
    keys = sorted(keys, reverse=True)
    if not keys:
        return inventory
    layout = work.site.layout
    assert layout is not None
    copies = {step: dict(found) for step, found in inventory.copies.items()}
    done = 0

    def judged(key: tuple[int, str]) -> Copy:
        nonlocal done
        work.progress("examining", done, len(keys))
        done += 1
        replica = work.site.by_name(key[1])
        return judge(
            replica, layout, inventory.copies[key[0]][key[1]], now_ns=work.now_ns, fresh_ns=work.fresh_ns,
            evidence=work.evidence,
        )  # fmt: skip

    waits = any(work.site.by_name(name).waits for _, name in keys)
    for copy in at_once(waits, judged, keys):
        copies[copy.step][copy.replica] = copy
    return replace(inventory, copies=copies)


def _measure(work: Gathering, inventory: Inventory, keys: Iterable[tuple[int, str]]) -> Inventory:
    copies = {step: dict(found) for step, found in inventory.copies.items()}
    for replica in work.site.replicas:
        mine = [copies[step][name] for step, name in sorted(keys) if name == replica.name]
        if not mine or replica.root is None:
            continue
        sealed = _sealed(replica)
        measured = measure_all(replica.root, [copy.paths for copy in mine], waits=replica.waits)
        for copy, found in zip(mine, measured, strict=True):
            work.progress("measuring", 0, len(mine))
            if isinstance(found, OSError):
                detail = f"{found.filename or copy.paths[0]}: {found.strerror}"
                copies[copy.step][replica.name] = replace(
                    looking.unreadable(copy.step, replica.name, copy.paths, detail),
                    health=copy.health or Health.UNKNOWN,
                )
                continue
            measure, first = found
            link = copy.link or looking.link_out(replica.root, measure.top_links)
            seen = replace(looking.with_measure(copy, measure, first), link=link)
            copies[copy.step][replica.name] = recalled(replica, seen, work.evidence, sealed)
    return replace(inventory, copies=copies)


def _sealed(replica: OpenReplica) -> frozenset[str]:
    """Names that have a manifest here; a folder that cannot be listed vouches for none."""
    try:
        return replica.control.manifest_names() if replica.control is not None else frozenset()
    except OSError:
        return frozenset()


def _compared(work: Gathering, inventory: Inventory) -> Inventory:
    """Marks as suspect what stands out against its siblings or its other replica."""
    suspects = compare.suspects(inventory.copies)
    if not suspects:
        return inventory
    copies = {step: dict(found) for step, found in inventory.copies.items()}
    for (step, name), detail in suspects.items():
        copy = copies[step][name]
        if copy.health is Health.UNVERIFIED:
            copies[step][name] = replace(copy, health=Health.SUSPECT, detail=detail)
    return replace(inventory, copies=copies)
