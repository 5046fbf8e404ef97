"""Cheap checks of a copy by the formats of its files: heads, tails and small files, no payload read in full."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prune.integrity import dcp, hdf5, npy, safetensors, sharded_index, tensorflow, zips
from prune.integrity.window import Damage, Doubt, Window
from prune.layouts.base import Members
from prune.model import Health, Kind, Verdict
from prune.stores.base import FileStat, Reader

_PAYLOAD = frozenset({
    "bin", "ckpt", "distcp", "h5", "hdf5", "index", "keras", "msgpack", "npy", "npz", "ocdbt", "pickle", "pkl", "pt",
    "pth", "safetensors", "zip",
})  # fmt: skip
_HEADED = _PAYLOAD - {"index", "msgpack"}  # formats that begin with something else than zero bytes
_TEMPORARY = re.compile(r"(?P<final>.+)\.(?:part|partial|tmp|incomplete|atomic_tmp|staging)")
_SAFETENSORS_TEMPORARY = re.compile(r"\.tmp[A-Za-z0-9]{6}")
_CUT = "the save did not finish"


@dataclass
class Found:
    """What was seen so far: the first evidence of each kind, and how many files passed."""

    broken: str | None = None
    unknown: str | None = None
    suspect: str | None = None
    passed: int = 0

    def note(self, verdict: Verdict) -> None:
        if verdict.health is Health.BROKEN:
            self.broken = self.broken or verdict.detail
        elif verdict.health is Health.UNKNOWN:
            self.unknown = self.unknown or verdict.detail
        elif verdict.health is Health.SUSPECT:
            self.suspect = self.suspect or verdict.detail
        elif verdict.health is Health.WHOLE:
            self.passed += 1

    def verdict(self) -> Verdict:
        for health, detail in (
            (Health.BROKEN, self.broken),
            (Health.UNKNOWN, self.unknown),
            (Health.SUSPECT, self.suspect),
        ):
            if detail is not None:
                return Verdict(health, detail)
        return Verdict(Health.WHOLE if self.passed else Health.UNVERIFIED)


def examine(members: Members, reader: Reader) -> Verdict:
    """Health of a copy by its structure alone.

    Broken, with a sentence, when any file or set of files is; unknown when one could not be read; whole when at
    least one file is of a format that can be checked and all such pass; unverified when there is nothing to check.
    Raises nothing.
    """
    files = _plain(members)
    found = Found()
    for look in (_empty, _unfinished_names, _sets):
        for verdict in look(files, reader):
            found.note(verdict)
            if found.broken:
                return found.verdict()
    for path in sorted(files):
        if check := _check_for(path):
            found.note(look_at(path, reader, check))
            if found.broken:
                break
    return found.verdict()


def examine_dcp(members: Members, reader: Reader, directory: str) -> Verdict:
    """Health of one directory of a copy that torch.distributed.checkpoint wrote (path relative to the root)."""
    found = Found()
    for verdict in _dcp(directory, _in(_plain(members), directory), reader):
        found.note(verdict)
    return found.verdict()


def look_at(path: str, reader: Reader, check: Callable[[Window], bool]) -> Verdict:
    """One file's health by one check."""
    try:
        with reader.open(path) as file:
            window = Window(file)
            if window.blank and _extension(path) in _HEADED:
                return _broken(path, f"{window.size} bytes, zero at both ends: nothing was written there")
            return Verdict(Health.WHOLE if check(window) else Health.UNVERIFIED)
    except Damage as damage:
        return _broken(path, str(damage))
    except Doubt as doubt:
        return Verdict(Health.SUSPECT, f"{path}: {doubt}")
    except OSError as error:
        return _unknown(path, error)


def _plain(members: Members) -> Mapping[str, FileStat]:
    return {path: stat for path, stat in members.files.items() if stat.kind is Kind.FILE}


def _broken(path: str, why: str) -> Verdict:
    return Verdict(Health.BROKEN, f"{path}: {why}")


def _unknown(path: str, error: OSError) -> Verdict:
    return Verdict(Health.UNKNOWN, f"{path}: could not be read: {error.strerror or error}")


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _extension(path: str) -> str:
    stem, dot, extension = _name(path).rpartition(".")
    return extension.lower() if dot and stem else ""


def _in(files: Mapping[str, FileStat], directory: str) -> dict[str, FileStat]:
    """Files below a directory by path relative to it."""
    prefix = f"{directory}/" if directory else ""
    return {path[len(prefix) :]: stat for path, stat in files.items() if path.startswith(prefix)}


# --- by sizes and names alone ------------------------------------------------------------------------------------


def _empty(files: Mapping[str, FileStat], _: Reader) -> Iterator[Verdict]:
    for path, stat in files.items():
        if stat.size == 0 and _must_have_bytes(path):
            yield _broken(path, "0 bytes: nothing was written to it")


def _must_have_bytes(path: str) -> bool:
    """Shards of DCP are judged by their metadata: a rank with nothing to write leaves an empty one."""
    name, extension = _name(path), _extension(path)
    if name == dcp.NAME or dcp.RANK_METADATA.fullmatch(name) or tensorflow.DATA.fullmatch(name):
        return True
    return extension == "json" or (extension in _PAYLOAD and extension != "distcp")


def _unfinished_names(files: Mapping[str, FileStat], _: Reader) -> Iterator[Verdict]:
    """Temporaries whose final name is not there."""
    for path in files:
        directory, name = path.rpartition("/")[0], _name(path)
        if match := _TEMPORARY.fullmatch(name):
            final = f"{directory}/{match['final']}" if directory else match["final"]
            if _extension(final) in _PAYLOAD and final not in files:
                yield _broken(path, f"{match['final']} was never finished")
        elif _SAFETENSORS_TEMPORARY.fullmatch(name):
            beside = _in(files, directory)
            if not any(other.endswith(".safetensors") and "/" not in other for other in beside):
                yield _broken(path, f"a temporary of safetensors that was never renamed: {_CUT}")


# --- files that belong together ----------------------------------------------------------------------------------


@dataclass
class _Directories:
    names: dict[str, dict[str, FileStat]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Mapping[str, FileStat]) -> _Directories:
        found = cls()
        for path, stat in files.items():
            directory, _, name = path.rpartition("/")
            found.names.setdefault(directory, {})[name] = stat
        return found


def _sets(files: Mapping[str, FileStat], reader: Reader) -> Iterator[Verdict]:
    for directory, names in sorted(_Directories.of(files).names.items()):
        if sentence := sharded_index.incomplete_set(names):
            yield _broken(directory or ".", sentence)
        if any(name.endswith(".distcp") for name in names) or dcp.metadata_names(names):
            yield from _dcp(directory, _in(files, directory), reader)
        for name in sorted(names):
            path = f"{directory}/{name}" if directory else name
            if name.endswith(".index.json"):
                yield _sharded(path, _in(files, directory), reader)
            elif name.endswith(".index"):
                yield _bundle(path, name[: -len(".index")], names, reader)
            elif (match := tensorflow.DATA.fullmatch(name)) and f"{match['prefix']}.index" not in names:
                yield _broken(path, f"{match['prefix']}.index is missing: {_CUT}")


def _read(path: str, reader: Reader, most: int) -> bytes:
    """A small file in full, or Damage when it is longer than any of its kind."""
    with reader.open(path) as file:
        return Window(file).exactly(0, min(Window(file).size, most + 1), "the file")


def _sharded(path: str, beside: Mapping[str, FileStat], reader: Reader) -> Verdict:
    try:
        named = sharded_index.shards(_read(path, reader, sharded_index.LONGEST))
    except Damage as damage:
        return _broken(path, str(damage))
    except OSError as error:
        return _unknown(path, error)
    sentence = sharded_index.missing(named, beside)
    return _broken(path, sentence) if sentence else Verdict(Health.UNVERIFIED)


def _dcp(directory: str, below: Mapping[str, FileStat], reader: Reader) -> Iterator[Verdict]:
    prefix = f"{directory}/" if directory else ""
    if sentence := dcp.unfinished(name for name in below if "/" not in name):
        yield _broken(directory or ".", sentence)
        return
    sizes = {name: stat.size for name, stat in below.items()}
    for name in dcp.metadata_names(n for n in below if "/" not in n):
        try:
            if sizes[name] > dcp.LONGEST:
                yield Verdict(Health.UNVERIFIED)
                continue
            lengths = dcp.needed(_read(prefix + name, reader, dcp.LONGEST))
        except Damage as damage:
            yield _broken(prefix + name, str(damage))
            return
        except OSError as error:
            yield _unknown(prefix + name, error)
            return
        if lengths is None:
            yield Verdict(Health.UNVERIFIED)
            continue
        sentence = dcp.too_short(lengths, sizes)
        yield _broken(directory or ".", sentence) if sentence else Verdict(Health.WHOLE)


def _bundle(path: str, prefix: str, beside: Mapping[str, FileStat], reader: Reader) -> Verdict:
    """A TensorFlow index with its data files; other things are called ``.index`` too."""
    has_data = any((match := tensorflow.DATA.fullmatch(name)) and match["prefix"] == prefix for name in beside)
    try:
        with reader.open(path) as file:
            window = Window(file)
            if not has_data and not tensorflow.looks_like(window):
                return Verdict(Health.UNVERIFIED)
            bundle = tensorflow.read_index(window)
    except Damage as damage:
        return _broken(path, str(damage))
    except OSError as error:
        return _unknown(path, error)
    for name, length in sorted(bundle.needed(prefix).items()):
        if name not in beside:
            return _broken(path, f"{name} is missing: the index names {bundle.shards} data files")
        if beside[name].size < length:
            return _broken(path, f"{name}: expected at least {length} bytes, found {beside[name].size}: it was cut")
    return Verdict(Health.WHOLE if bundle.tensors is not None else Health.UNVERIFIED)


# --- files one by one --------------------------------------------------------------------------------------------


def _check_for(path: str) -> Callable[[Window], bool] | None:
    extension = _extension(path)
    if extension == "safetensors":
        return safetensors.check
    if extension in _PAYLOAD - {"index", "distcp", "msgpack", "ocdbt"}:
        return _by_content
    if extension == "distcp":
        return _nothing
    return _not_blank if extension == "json" else None


def _by_content(window: Window) -> bool:
    """Extensions of this kind say little: what a file begins and ends with decides."""
    if zips.looks_like(window):
        return zips.check(window)
    if hdf5.looks_like(window):
        return hdf5.check(window)
    return npy.check(window)


def _nothing(_: Window) -> bool:
    return False


def _not_blank(window: Window) -> bool:
    if window.blank:
        raise Damage(f"{window.size} bytes, all zero: nothing was written there")
    return False
