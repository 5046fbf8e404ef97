"""What the formats' own checksums say of files, read in full.

ZIP has a CRC-32 for each member, TensorFlow a CRC-32C for each tensor, a DCP shard is ZIP after ZIP; OCDBT
has one for its nodes; safetensors, HDF5, npy and pickles have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prune.integrity import dcp, ocdbt, stream, tensorflow, zips
from prune.integrity.files import read_small, unreadable
from prune.integrity.hashing import Tick, for_each
from prune.integrity.window import Damage, Window
from prune.layouts.base import Members
from prune.model import Health, Verdict
from prune.stores.base import Reader

Check = Callable[[Window, Tick], bool]  # True: all of the file is covered and right; False: something has no checksum


def check_all(
    members: Members, reader: Reader, paths: Iterable[str], *, threads: int | None = None, tick: Tick | None = None
) -> Mapping[str, Verdict]:
    """Verdicts by path: intact, broken, unknown, or unverified where a format has no checksums."""
    wanted = sorted(paths)
    checks = _Checks(members, reader)
    by_path = {path: checks.of(path) for path in wanted}

    def job(path: str, tick: Tick) -> Verdict:
        return _check(reader, path, by_path[path], tick)

    found = for_each(wanted, job, threads=threads, tick=tick)
    return {
        path: unreadable(path, verdict) if isinstance(verdict, OSError) else verdict for path, verdict in found.items()
    }


def _check(reader: Reader, path: str, check: Check, tick: Tick) -> Verdict:
    with reader.open(path) as file:
        window = Window(file)
        read = 0
        with stream.considerate(file, window.size) as passed:

            def counted(amount: int) -> None:
                nonlocal read
                read += amount
                passed(read)
                tick(amount)

            try:
                complete = check(window, counted)
            except Damage as damage:
                return Verdict(Health.BROKEN, f"{path}: {damage}")
    return Verdict(Health.INTACT if complete else Health.UNVERIFIED)


class _Checks:
    """Finds the check for a file; what a directory's metadata says is read once."""

    def __init__(self, members: Members, reader: Reader) -> None:
        self.members = members
        self.reader = reader
        self.shards: dict[str, dcp.Places] = {}
        self.bundles: dict[str, Mapping[int, list[tensorflow.Tensor]]] = {}

    def of(self, path: str) -> Check:
        directory, _, name = path.rpartition("/")
        if name.endswith(".distcp"):
            return self._of_shard(directory, path)
        if match := tensorflow.DATA.fullmatch(name):
            prefix = path[: len(path) - len(name)] + match["prefix"]
            tensors = self._bundle(prefix).get(int(match["shard"]))
            return lambda window, tick: tensors is not None and tensorflow.check_sums(window, tensors, tick)
        if ocdbt.PATH.fullmatch(path):
            return ocdbt.check_sums
        return _index if name.endswith(".index") else _zip

    def _of_shard(self, directory: str, path: str) -> Check:
        if directory not in self.shards:
            self.shards[directory] = self._places(directory)
        prefix = f"{directory}/" if directory else ""
        spans = self.shards[directory].get(path[len(prefix) :])
        return lambda window, tick: spans is not None and dcp.check_sums(window, spans, tick)

    def _places(self, directory: str) -> dcp.Places:
        """What all metadata of a directory says; nothing where it cannot be read, which is structure's to tell."""
        prefix = f"{directory}/" if directory else ""
        names = [path[len(prefix) :] for path in self.members.files if path.startswith(prefix)]
        found: dict[str, frozenset[tuple[int, int]]] = {}
        for name in dcp.metadata_names(name for name in names if "/" not in name):
            try:
                places = dcp.places(read_small(prefix + name, self.reader, dcp.LONGEST))
            except (OSError, Damage):
                continue
            for shard, spans in (places or {}).items():
                found[shard] = found.get(shard, frozenset()) | spans
        return found

    def _bundle(self, prefix: str) -> Mapping[int, list[tensorflow.Tensor]]:
        if prefix not in self.bundles:
            by_shard: dict[int, list[tensorflow.Tensor]] = {}
            try:
                with self.reader.open(f"{prefix}.index") as file:
                    for tensor in tensorflow.read_index(Window(file)).tensors or ():
                        by_shard.setdefault(tensor.shard, []).append(tensor)
            except (OSError, Damage):
                by_shard = {}
            self.bundles[prefix] = by_shard
        return self.bundles[prefix]


def _zip(window: Window, tick: Tick) -> bool:
    return zips.looks_like(window) and zips.check_sums(window, tick)


def _index(window: Window, tick: Tick) -> bool:
    """TensorFlow's index holds a checksum for each of its blocks; other files of that name hold none."""
    if not tensorflow.looks_like(window):
        return False
    tick(window.size)
    return tensorflow.read_index(window).tensors is not None
