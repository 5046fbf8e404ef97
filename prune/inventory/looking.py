"""Copies judged and measured newest first, only as far as the plan needs, then what little is left to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prune import planner
from prune.integrity import compare
from prune.inventory import copies as tops
from prune.inventory.content import checked, content_verdict
from prune.inventory.gathering import Gathering
from prune.inventory.judging import judge, recalled, settle_age
from prune.inventory.leaning import with_leaning
from prune.inventory.site import OpenReplica
from prune.model import Copy, Health, Inventory
from prune.stores.pace import at_once, measure_all

# Copies whose health no decision needs are judged all the same while few entries are involved, so that a person
# sees it; beyond that a look at a huge run would cost what it keeps, not what it deletes.
COURTESY_ENTRIES = 1024
COURTESY_BYTES = 32 << 20


def judged(work: Gathering, inventory: Inventory, judge_all: bool) -> Inventory:
    """Judges and measures until the plan needs nothing more, then what little is left for people to see."""
    budget = COURTESY_ENTRIES if work.courtesy else 0
    while True:
        inventory = as_needed(work, inventory)
        rest = _unjudged(inventory)
        if not judge_all:
            rest = [key for key in rest if not work.site.by_name(key[1]).in_store]
            rest, budget = _affordable(work, inventory, rest, budget)
        if not rest:
            return inventory
        inventory = _compared(work, _judge(work, inventory, rest))


def candidate_read(work: Gathering, inventory: Inventory) -> Inventory:
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
        inventory = as_needed(work, replace(inventory, copies=copies))
        if seen.health is not None and seen.health.restorable:
            return inventory


def as_needed(work: Gathering, inventory: Inventory, *, measure: bool = True) -> Inventory:
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

    def one(key: tuple[int, str]) -> Copy:
        nonlocal done
        work.progress("examining", done, len(keys))
        done += 1
        replica = work.site.by_name(key[1])
        return judge(
            replica, layout, inventory.copies[key[0]][key[1]], now_ns=work.now_ns, fresh_ns=work.fresh_ns,
            evidence=work.evidence,
        )  # fmt: skip

    waits = any(work.site.by_name(name).waits for _, name in keys)
    for copy in at_once(waits, one, keys):
        copies[copy.step][copy.replica] = copy
    return with_leaning(replace(inventory, copies=copies))


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
                    tops.unreadable(copy.step, replica.name, copy.paths, detail),
                    health=copy.health or Health.UNKNOWN,
                )
                continue
            measure, first = found
            link = copy.link or tops.link_out(replica.root, measure.top_links)
            seen = replace(tops.with_measure(copy, measure, first), link=link)
            seen = tops.without_what_is_withdrawn(replica, seen)
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
