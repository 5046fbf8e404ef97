"""Cheap checks of a copy by the formats of its files: heads, tails and small files, no payload read in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prune.integrity import dcp, sharded_index, tensorflow
from prune.integrity.behind_links import behind_links
from prune.integrity.files import (
    PAYLOAD,
    SAFETENSORS_TEMPORARY,
    broken,
    check_for,
    extension,
    final_name,
    look_at,
    must_have_bytes,
    name_of,
    plain,
    read_small,
    unreadable,
)
from prune.integrity.window import Damage, Window
from prune.layouts import markers
from prune.layouts.base import Members
from prune.model import Health, Verdict
from prune.stores.base import FileStat, Reader

_PICKLE = b"\x80"
_CUT = "the save did not finish"
Files = Mapping[str, FileStat]


@dataclass
class Found:
    """What was seen so far: the first sentence of each kind of trouble, and how many files passed."""

    trouble: dict[Health, str | None] = field(default_factory=dict)
    passed: int = 0

    def note(self, verdict: Verdict) -> None:
        if verdict.health is Health.WHOLE:
            self.passed += 1
        elif verdict.health is not Health.UNVERIFIED:
            self.trouble.setdefault(verdict.health, verdict.detail)

    @property
    def broken(self) -> bool:
        return Health.BROKEN in self.trouble

    def verdict(self) -> Verdict:
        for health in (Health.BROKEN, Health.UNKNOWN, Health.SUSPECT):
            if health in self.trouble:
                return Verdict(health, self.trouble[health])
        return Verdict(Health.WHOLE if self.passed else Health.UNVERIFIED)


def examine(members: Members, reader: Reader) -> Verdict:
    """Health of a copy by its structure alone.

    Broken, with a sentence, when any file or set of files is; unknown when one could not be read; whole when at
    least one file is of a format that can be checked and all such pass; unverified when there is nothing to check.
    Raises nothing.
    """
    files = plain(members)
    found = Found()
    if not members.files:
        return markers.broken(members.paths[0], f"holds no file: {_CUT}")
    for verdict in _looks(files, reader):
        found.note(verdict)
        if found.broken:
            break
    else:
        for verdict in behind_links(members, reader):
            found.note(verdict)
    return found.verdict()


def examine_dcp(members: Members, reader: Reader, directory: str) -> Verdict:
    """Health of one directory of a copy that torch.distributed.checkpoint wrote (path relative to the root)."""
    found = Found()
    for verdict in _dcp(directory, _below(plain(members), directory), reader):
        found.note(verdict)
    return found.verdict()


def _looks(files: Files, reader: Reader) -> Iterator[Verdict]:
    """Verdicts, those that need no reading first."""
    yield from _empty(files)
    yield from _unfinished(files)
    yield from _sets(files, reader)
    for path in sorted(files):
        if check := check_for(path):
            yield look_at(path, reader, check)


def _empty(files: Files) -> Iterator[Verdict]:
    for path, stat in files.items():
        if stat.size == 0 and must_have_bytes(path):
            yield broken(path, "0 bytes: nothing was written to it")
    if files and not any(stat.size for stat in files.values()):
        yield broken(next(iter(files)), "0 bytes, as all there is: nothing was written")


def _unfinished(files: Files) -> Iterator[Verdict]:
    """Temporaries whose final name is not there."""
    with_safetensors = {path.rpartition("/")[0] for path in files if path.endswith(".safetensors")}
    for path in files:
        final = final_name(path)
        if final is not None:
            if extension(final) in PAYLOAD and final not in files:
                yield broken(path, f"{name_of(final)} was never finished")
        elif SAFETENSORS_TEMPORARY.fullmatch(name_of(path)) and path.rpartition("/")[0] not in with_safetensors:
            yield broken(path, f"a temporary of safetensors that was never renamed: {_CUT}")


def _below(files: Files, directory: str) -> dict[str, FileStat]:
    """Files below a directory by path relative to it."""
    prefix = f"{directory}/" if directory else ""
    return {path[len(prefix) :]: stat for path, stat in files.items() if path.startswith(prefix)}


def _by_directory(files: Files) -> dict[str, dict[str, FileStat]]:
    found: dict[str, dict[str, FileStat]] = {}
    for path, stat in files.items():
        directory, _, name = path.rpartition("/")
        found.setdefault(directory, {})[name] = stat
    return found


def _sets(files: Files, reader: Reader) -> Iterator[Verdict]:
    """Files that belong together: shards with what names them."""
    for directory, names in sorted(_by_directory(files).items()):
        if sentence := sharded_index.incomplete_set(names):
            yield broken(directory or ".", sentence)
        if any(name.endswith(".distcp") for name in names) or dcp.metadata_names(names):
            yield from _dcp(directory, _below(files, directory), reader)
        with_data = {match["prefix"] for name in names if (match := tensorflow.DATA.fullmatch(name))}
        for name in sorted(names):
            path = f"{directory}/{name}" if directory else name
            if name.endswith(".index.json"):
                yield _sharded(path, _below(files, directory), reader)
            elif name.endswith(".index"):
                yield _bundle(path, names, reader, sure=name.removesuffix(".index") in with_data)
        for prefix in sorted(with_data):
            if f"{prefix}.index" not in names:
                yield broken(directory or ".", f"{prefix}.index is missing: {_CUT}")


def _sharded(path: str, beside: Files, reader: Reader) -> Verdict:
    try:
        named = sharded_index.shards(read_small(path, reader, sharded_index.LONGEST))
    except Damage as damage:
        return broken(path, str(damage))
    except OSError as error:
        return unreadable(path, error)
    sentence = sharded_index.missing(named, beside)
    return broken(path, sentence) if sentence else Verdict(Health.UNVERIFIED)


def _dcp(directory: str, below: Files, reader: Reader) -> Iterator[Verdict]:
    prefix, shown = (f"{directory}/", directory) if directory else ("", ".")
    names = [name for name in below if "/" not in name]
    if sentence := dcp.unfinished(names):
        yield broken(shown, sentence)
        return
    sizes = {name: stat.size for name, stat in below.items()}
    has_shards = any(name.endswith(".distcp") for name in names)
    for name in dcp.metadata_names(names):
        if sizes[name] > dcp.LONGEST:
            yield Verdict(Health.UNVERIFIED)
            continue
        try:
            data = read_small(prefix + name, reader, dcp.LONGEST)
            places = dcp.places(data) if has_shards or data.startswith(_PICKLE) else None  # others use that name too
        except Damage as damage:
            yield broken(prefix + name, str(damage))
        except OSError as error:
            yield unreadable(prefix + name, error)
        else:
            sentence = dcp.too_short(dcp.needed(places), sizes) if places else None
            whole = Health.WHOLE if places else Health.UNVERIFIED
            yield broken(shown, sentence) if sentence else Verdict(whole)


def _bundle(path: str, beside: Files, reader: Reader, *, sure: bool) -> Verdict:
    """A TensorFlow index with its data files. Other things are called ``.index`` too: ``sure`` says it is none."""
    try:
        with reader.open(path) as file:
            window = Window(file)
            if not sure and not tensorflow.looks_like(window):
                return Verdict(Health.UNVERIFIED)
            bundle = tensorflow.read_index(window)
    except Damage as damage:
        return broken(path, str(damage))
    except OSError as error:
        return unreadable(path, error)
    for name, length in sorted(bundle.needed(name_of(path).removesuffix(".index")).items()):
        if name not in beside:
            return broken(path, f"{name} is missing: the index names {bundle.shards} data files")
        if beside[name].size < length:
            return broken(path, f"{name}: expected at least {length} bytes, found {beside[name].size}: it was cut")
    return Verdict(Health.WHOLE if bundle.tensors is not None else Health.UNVERIFIED)
