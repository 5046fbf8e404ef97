"""Checks of a copy by content: everything is read, against hashes recorded for it or its formats' own checksums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prune.integrity import checksums, sidecar, structure
from prune.integrity.files import extension, unreadable
from prune.integrity.hashing import Hashed, Tick, hash_many
from prune.integrity.manifest import Manifest, is_void, judge_by_manifest
from prune.layouts.base import Members
from prune.model import Health, Kind, Verdict
from prune.stores.base import FileStat, Reader

_LITTLE = 64 << 10  # bytes a file, on the average
_SIDE_FILES = frozenset({
    "cfg", "csv", "html", "jinja", "json", "jsonl", "log", "md", "model", "py", "sha256", "sh", "toml", "txt", "xml",
    "yaml", "yml",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expected:
    """The SHA-256 that a sidecar has for a file, and when the sidecar was written."""

    sha256: str
    written_ns: int


def check_content(
    members: Members,
    reader: Reader,
    *,
    manifest: Manifest | None = None,
    sidecars: Mapping[str, Expected] | None = None,
    known: Verdict | None = None,
    threads: int | None = None,
    progress: Tick | None = None,
) -> Verdict:
    """Health of a copy by its content, read in full.

    Intact when every file that carries weight matches its manifest or sidecar, or checksums of its own format that
    cover it in full; broken, with file or member, expected and found, when one does not; whole when the structure is
    complete and no checksum exists; unknown when something could not be read.

    ``sidecars`` are by path; None looks for them among the members. ``known`` is what the layout found of structure
    and completeness (None: the formats alone are examined). ``progress`` is told the bytes read, from one thread at
    a time; what it raises stops the check.
    """
    structural = found = known or structure.examine(members, reader)
    if not found.health.restorable:
        return found
    check = _Check(members, reader, threads or _threads_for(members), progress)
    if manifest is not None:
        found = judge_by_manifest(manifest, members, found)
        if not found.health.restorable:
            return found
        if not is_void(manifest, members, structural):
            expected = {file.path: Expected(file.sha256, manifest.created_at_ns) for file in manifest.files}
            check.hold(expected, "manifest")
    check.hold(sidecars_of(members, reader) if sidecars is None else sidecars, "sidecar")
    return check.verdict(found)


def _threads_for(members: Members) -> int | None:
    """One for very many little files, which threads only get in each other's way over; None: as many as there are
    processors."""
    sizes = [stat.size for stat in members.files.values()]
    return 1 if sizes and sum(sizes) < len(sizes) * _LITTLE else None


def sidecars_of(members: Members, reader: Reader) -> Mapping[str, Expected]:
    """What the files of hashes in a copy say of its other files. One that cannot be parsed says nothing."""
    found: dict[str, Expected] = {}
    for path, stat in sorted(members.files.items()):
        if sidecar.holds_hashes(path) and stat.kind is Kind.FILE and 0 < stat.size <= sidecar.LONGEST:
            try:
                with reader.open(path) as file:
                    hashes = sidecar.expected(path, file.read(sidecar.LONGEST), members.files)
            except (OSError, ValueError):
                continue
            found.update((name, Expected(sha256, stat.mtime_ns)) for name, sha256 in hashes.items())
    return found


def weight(members: Members) -> int:
    """Bytes that a check by content has to read, for a progress bar."""
    return sum(stat.size for path, stat in members.files.items() if carries_weight(path, stat))


def carries_weight(path: str, stat: FileStat) -> bool:
    """Whether a file is payload, as opposed to configuration, vocabularies, notes and empty markers."""
    return stat.kind is Kind.FILE and stat.size > 0 and extension(path) not in _SIDE_FILES


@dataclass
class _Check:
    """One copy being checked: what was recorded for its files, and which of them were written after that."""

    members: Members
    reader: Reader
    threads: int | None
    progress: Tick | None
    hashes: dict[str, tuple[str, str]] = field(default_factory=dict)  # path -> SHA-256, who says so
    rewritten: set[str] = field(default_factory=set)

    def hold(self, expected: Mapping[str, Expected], source: str) -> None:
        """Notes what some files should hash to; what was noted before stays."""
        for path, wanted in expected.items():
            stat = self.members.files.get(path)
            if stat is None or path in self.hashes:
                continue
            self.hashes[path] = (wanted.sha256, source)
            if stat.mtime_ns <= 0 or stat.mtime_ns > wanted.written_ns:
                self.rewritten.add(path)

    def verdict(self, found: Verdict) -> Verdict:
        """Hashes first; then what no hash vouches for, by the formats' own checksums."""
        matched: set[str] = set()
        rewritten: dict[str, str] = {}
        for path, hashed in hash_many(self.reader, self.hashes, threads=self.threads, tick=self.progress).items():
            if isinstance(hashed, OSError):
                return unreadable(path, hashed)
            if hashed.sha256 == self.hashes[path][0]:
                matched.add(path)
            elif path not in self.rewritten:
                return Verdict(Health.BROKEN, self._differs(path, hashed))
            else:
                rewritten[path] = self._differs(path, hashed)
        rest = [path for path, stat in self.members.files.items() if path not in matched and carries_weight(path, stat)]
        sums = checksums.check_all(self.members, self.reader, rest, threads=self.threads, tick=self.progress)
        return self._weigh(found, bool(matched), rewritten, sums)

    def _weigh(
        self, found: Verdict, matched: bool, rewritten: Mapping[str, str], sums: Mapping[str, Verdict]
    ) -> Verdict:
        for health in (Health.BROKEN, Health.UNKNOWN):
            for path in sorted(sums):
                if sums[path].health is health:
                    return sums[path]
        for path, sentence in sorted(rewritten.items()):
            if path not in sums or sums[path].health is not Health.INTACT:
                return Verdict(Health.SUSPECT, f"{sentence}; it was written after that, and nothing else decides")
        if (matched or sums) and all(verdict.health is Health.INTACT for verdict in sums.values()):
            void = f"saved again after its {self._source(rewritten)}, which is void" if rewritten else None
            return Verdict(Health.INTACT, void or found.detail)
        return found

    def _source(self, paths: Iterable[str]) -> str:
        return " and ".join(sorted({self.hashes[path][1] for path in paths}))

    def _differs(self, path: str, hashed: Hashed) -> str:
        sha256, source = self.hashes[path]
        return f"{path}: expected SHA-256 {sha256} by its {source}, found {hashed.sha256} ({hashed.size} bytes)"
