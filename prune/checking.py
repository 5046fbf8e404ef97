"""Checks of the copies of one open site: several at once, none read twice that has not changed since."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

from prune.integrity.behind_links import behind_links
from prune.integrity.files import must_have_bytes, plain
from prune.integrity.hashing import cores
from prune.integrity.manifest import Manifest, content_digest, is_void, judge_by_manifest
from prune.inventory.copies import link_out, with_measure, without_what_is_withdrawn
from prune.inventory.judging import manifest_of, members_of, upcoming_of
from prune.inventory.site import OpenReplica, Site
from prune.journal import Event, Journal
from prune.layouts.base import Layout, Members
from prune.model import Copy, Health, Verdict
from prune.stop import Stop
from prune.stores.pace import measure_copy

Check = Literal["size", "structure", "sha256"]
CHECKS: tuple[Check, ...] = ("size", "structure", "sha256")


@dataclass(frozen=True)
class Means:
    """How copies are checked. ``again`` reads also what was read before and has not changed since."""

    check: Check = "sha256"
    again: bool = False
    threads: int | None = None  # None: as many as there are processors
    progress: Callable[[str, int, int], None] = lambda _what, _done, _of: None  # told bytes
    stop: Stop = field(default_factory=Stop)
    clock: Callable[[], int] = time.time_ns


class Interrupted(Exception):
    """Somebody wishes to stop while a file is being read."""


@dataclass
class Ledger:
    """The journal's memory of checks, for several threads."""

    journal: Journal
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def known(self, replica: OpenReplica, copy: Copy) -> tuple[Verdict, int] | None:
        assert replica.root is not None
        with self._turn:
            return self.journal.evidence(replica.root.real, copy.paths, copy.identity)

    def remember(self, replica: OpenReplica, copy: Copy, verdict: Verdict, at_ns: int) -> None:
        assert replica.root is not None
        with self._turn:
            self.journal.verified(replica.root.real, copy.paths, copy.identity, verdict, at_ns)


@dataclass(frozen=True, slots=True)
class Look:
    """A copy with what everything short of reading it in full says, and how many bytes reading it would be."""

    copy: Copy
    to_read: int = 0


@dataclass
class Checking:
    """Checks copies of one open site."""

    site: Site
    means: Means
    ledger: Ledger
    _done: int = 0
    _total: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def all_of(self, copies: Sequence[Copy]) -> list[Copy]:
        """Every copy with its health; those that went away meanwhile are left out, as is what a stop left undone."""
        with ThreadPoolExecutor(self.threads, thread_name_prefix="verify") as pool:
            looks = list(pool.map(self._look_unless_stopped, copies))
            self._total = sum(look.to_read for look in looks if look is not None)
            within = max(1, self.threads // max(1, sum(bool(look and look.to_read) for look in looks)))
            found = pool.map(lambda look: look and self._read_unless_stopped(look, within), looks)
            return [copy for copy in found if copy is not None]

    def one(self, copy: Copy) -> Copy | None:
        """One copy with its health; None when it went away meanwhile. Raises Interrupted."""
        look = self.look(copy)
        if look is None:
            return None
        self._total += look.to_read
        return self.read(look, threads=self.threads)

    def look(self, copy: Copy) -> Look | None:
        """The copy measured and judged by everything short of reading it in full; None when it went away."""
        replica = self.site.by_name(copy.replica)
        assert replica.root is not None
        assert self.site.layout is not None
        if copy.health is Health.UNKNOWN:  # could not even be listed
            return Look(copy)
        try:
            members, total, first, links = members_of(replica.root, copy)
            verdict = self._cheap(members, replica, self.site.layout)
            found = without_what_is_withdrawn(replica, with_measure(copy, total, first))
        except FileNotFoundError as error:
            if not _there(replica, copy):
                return None
            return Look(_unknown(copy, f"changed while it was looked at: {error.filename}"))
        except OSError as error:
            return Look(_unknown(copy, f"{error.filename or copy.paths[0]}: {error.strerror}"))
        manifests, trouble = manifests_for(replica, copy, members)
        structure = verdict
        if manifests:
            verdict = _best([judge_by_manifest(manifest, members, structure) for manifest in manifests])
        elif trouble is not None and verdict.health is not Health.BROKEN:
            verdict = Verdict(Health.UNKNOWN, trouble)
        in_force = [manifest for manifest in manifests if not is_void(manifest, members, structure)]
        found = replace(
            found,
            health=verdict.health,
            detail=verdict.detail,
            link=found.link or link_out(replica.root, links),
            weights_only=bool(copy.thinned) or self.site.layout.weights_only(members),
            content=content_digest(in_force[0]) if in_force else None,
        )
        return self._to_be_read(found, members, manifests)

    def read(self, look: Look, *, threads: int | None = None) -> Copy:
        """The copy after reading it in full, where the check asks for that. Raises Interrupted."""
        copy = look.copy
        if not look.to_read:
            return copy
        replica = self.site.by_name(copy.replica)
        assert replica.root is not None
        try:
            verdict = self._content(copy, replica, threads)
            measure, first = measure_copy(replica.root, copy.paths)
        except OSError as error:
            return _unknown(copy, f"{error.filename or copy.paths[0]}: {error.strerror}")
        if measure.identity(first) != copy.identity:
            return _unknown(copy, "changed while it was read")
        now = self.means.clock()
        if verdict.health is not Health.UNKNOWN:
            self.ledger.remember(replica, copy, verdict, now)
        return _after_check(copy, verdict, now)

    def tell(self, found: Iterable[Copy]) -> None:
        """Damage that was found goes into history."""
        now = self.means.clock()
        self.ledger.journal.add([
            Event(now, self.site.run.name, "damage", copy.step, copy.replica, data={"detail": copy.detail})
            for copy in found
            if copy.health is Health.BROKEN
        ])  # fmt: skip

    # --- inside ----------------------------------------------------------------------------------------------

    @property
    def threads(self) -> int:
        return self.means.threads or cores()

    def _look_unless_stopped(self, copy: Copy) -> Look | None:
        return None if self.means.stop else self.look(copy)

    def _read_unless_stopped(self, look: Look, threads: int) -> Copy | None:
        try:
            return None if self.means.stop else self.read(look, threads=threads)
        except Interrupted:
            return None

    def _cheap(self, members: Members, replica: OpenReplica, layout: Layout) -> Verdict:
        assert replica.root is not None
        if self.means.check != "size":
            return layout.examine(members, replica.root)
        empty = sorted(path for path, stat in plain(members).items() if not stat.size and must_have_bytes(path))
        if empty:
            return Verdict(Health.BROKEN, f"{empty[0]}: 0 bytes")
        return next(behind_links(members, replica.root), Verdict(Health.UNVERIFIED))

    def _to_be_read(self, copy: Copy, members: Members, manifests: Sequence[Manifest]) -> Look:
        from prune.integrity.content import weight

        assert copy.health is not None
        if self.means.check != "sha256" or not copy.health.restorable:
            return Look(copy)
        known = None if self.means.again else self.ledger.known(self.site.by_name(copy.replica), copy)
        if known is not None and self._still_says_all(copy, *known, manifests):
            return Look(_after_check(copy, *known))
        return Look(copy, weight(members) or 1)

    @staticmethod
    def _still_says_all(copy: Copy, verdict: Verdict, at_ns: int, manifests: Sequence[Manifest]) -> bool:
        """Whether reading again could tell no more: no manifest came since, nor one that is as old as what it names."""
        undecided = verdict.health in (Health.WHOLE, Health.UNVERIFIED)
        return not (undecided and copy.content) and all(each.created_at_ns <= at_ns for each in manifests)

    def _content(self, copy: Copy, replica: OpenReplica, threads: int | None) -> Verdict:
        from prune.integrity.content import check_content

        assert replica.root is not None
        assert copy.health is not None
        members = members_of(replica.root, copy)[0]
        manifests = manifests_for(replica, copy, members)[0]
        found: list[Verdict] = []
        for manifest in manifests or (None,):
            found.append(
                check_content(
                    members,
                    replica.root,
                    manifest=manifest,
                    known=Verdict(copy.health, copy.detail),
                    threads=threads,
                    progress=self.tick,
                )
            )
            if found[-1].health is Health.INTACT:
                break
        return _best(found)

    def tick(self, count: int) -> None:
        """Counts bytes read. Raises Interrupted."""
        if self.means.stop:
            raise Interrupted
        with self._turn:
            self._done += count
            self.means.progress("verifying", self._done, max(self._total, self._done))


def manifests_for(replica: OpenReplica, copy: Copy, members: Members) -> tuple[list[Manifest], str | None]:
    """The manifest in force and, after it, one that a dead publisher was about to install; and what is wrong."""
    manifest, trouble = manifest_of(replica, copy)
    upcoming = upcoming_of(replica, copy, members, alone=manifest is None)
    return [each for each in (manifest, upcoming) if each is not None], trouble


def _best(verdicts: Sequence[Verdict]) -> Verdict:
    """The best of several: any one manifest that fits will do. Of equally good ones the first."""
    order = list(Health)
    return min(verdicts, key=lambda verdict: (not verdict.health.restorable, order.index(verdict.health)))


def _after_check(copy: Copy, verdict: Verdict, at_ns: int) -> Copy:
    verified = at_ns if verdict.health is Health.INTACT else None
    return replace(copy, health=verdict.health, detail=verdict.detail, verified_ns=verified)


def _there(replica: OpenReplica, copy: Copy) -> bool:
    assert replica.root is not None
    try:
        return any(replica.root.exists(path) for path in copy.paths)
    except OSError:
        return True


def _unknown(copy: Copy, detail: str) -> Copy:
    return replace(copy, health=Health.UNKNOWN, detail=detail, verified_ns=None)
