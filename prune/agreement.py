"""Whether the copies of a step on several replicas hold the same bytes, where no manifest tells.

A copy whose format has no checksums and that nobody sealed can only be checked against its other replica. Its hashes
are remembered as the detail of its check, so that they are read once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from prune.checking import Checking, Interrupted
from prune.integrity.content import carries_weight
from prune.integrity.hashing import hash_many
from prune.integrity.manifest import Manifest, ManifestFile, content_digest
from prune.inventory.judging import members_of
from prune.model import Copy, Health, Verdict

_NOTED = re.compile(r"SHA-256 over its files: (?P<digest>[0-9a-f]{64})")


@dataclass
class Agreement:
    """Compares copies that were checked already."""

    checking: Checking

    def of(self, found: Sequence[Copy]) -> list[Copy]:
        """The copies; those that differ from another replica's are suspect, those that equal an intact one intact."""
        steps: dict[int, list[Copy]] = {}
        for copy in found:
            steps.setdefault(copy.step, []).append(copy)
        return [copy for held in steps.values() for copy in self._of_step(held)]

    def _of_step(self, held: list[Copy]) -> list[Copy]:
        good = [copy for copy in held if copy.health is not None and copy.health.restorable]
        if len(good) < 2 or all(copy.health is Health.INTACT for copy in good):
            return held
        digests = {copy.replica: self._digest(copy) for copy in good}
        held = [self._noted(copy, digests.get(copy.replica)) for copy in held]
        known = {name: digest for name, digest in digests.items() if digest is not None}
        return [self._weighed(copy, known, good) for copy in held]

    def _weighed(self, copy: Copy, digests: Mapping[str, str], good: Sequence[Copy]) -> Copy:
        own = digests.get(copy.replica)
        if own is None or copy.health is Health.INTACT:
            return copy
        others = [other for other in good if digests.get(other.replica, own) != own]
        intact = [other for other in others if other.health is Health.INTACT]
        if not others:
            return self._vouched_for(copy, good)
        against = (intact or others)[0].replica
        word = "which matches its checksums" if intact else "and nothing tells which of the two is right"
        detail = f"its content differs from that of the same step on {against}, {word}"
        return replace(copy, health=Health.SUSPECT, detail=detail)

    def _vouched_for(self, copy: Copy, same: Sequence[Copy]) -> Copy:
        """The copy, intact if another replica's with the same content is."""
        if not any(other.health is Health.INTACT for other in same):
            return copy
        now = self.checking.means.clock()
        self.checking.ledger.remember(self.checking.site.by_name(copy.replica), copy, Verdict(Health.INTACT), now)
        return replace(copy, health=Health.INTACT, detail=None, verified_ns=now)

    def _digest(self, copy: Copy) -> str | None:
        """A digest over the files that carry weight; None when it cannot be told."""
        noted = _NOTED.fullmatch(copy.detail or "")
        if noted:
            return noted["digest"]
        replica = self.checking.site.by_name(copy.replica)
        assert replica.root is not None
        try:
            members = members_of(replica.root, copy)[0]
            paths = [path for path, stat in members.files.items() if carries_weight(path, stat)]
            hashes = hash_many(replica.root, paths, threads=self.checking.threads, tick=self.checking.tick)
        except (OSError, Interrupted):
            return None
        files = []
        for path, hashed in sorted(hashes.items()):
            if isinstance(hashed, OSError):
                return None
            files.append(ManifestFile(path, hashed.size, hashed.sha256))
        return content_digest(Manifest("", copy.step, 0, tuple(files))) if files else None

    def _noted(self, copy: Copy, digest: str | None) -> Copy:
        if digest is None or copy.health is Health.INTACT or copy.detail is not None:
            return copy
        noted = replace(copy, detail=f"SHA-256 over its files: {digest}")
        assert copy.health is not None
        replica = self.checking.site.by_name(copy.replica)
        now = self.checking.means.clock()
        self.checking.ledger.remember(replica, noted, Verdict(copy.health, noted.detail), now)
        return noted
