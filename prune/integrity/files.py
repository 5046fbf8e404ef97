"""One file of a copy: what its name promises, and the verdict of one check on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from prune.integrity import dcp, hdf5, json_text, npy, ocdbt, pickle_files, safetensors, tensorflow, zips
from prune.integrity.window import Damage, Doubt, Window
from prune.layouts.base import Members
from prune.model import Health, Kind, Verdict
from prune.stores.base import FileStat, Reader

Check = Callable[[Window], bool]  # True: positively whole; False: nothing to check; raises Damage or Doubt
PAYLOAD = frozenset({
    "bin", "ckpt", "distcp", "h5", "hdf5", "index", "keras", "msgpack", "npy", "npz", "ocdbt", "pickle", "pkl", "pt",
    "pth", "safetensors", "zip",
})  # fmt: skip
_HEADED = PAYLOAD - {"index", "msgpack"}  # formats that begin with something else than zero bytes
_SNIFFED = PAYLOAD - {"index", "distcp", "msgpack", "ocdbt"}
_BEGINNINGS: Mapping[str, tuple[Check, ...]] = {  # extensions that promise their format
    "npz": (zips.looks_like,),
    "zip": (zips.looks_like,),
    "keras": (zips.looks_like, hdf5.looks_like),
    "npy": (npy.looks_like,),
    "h5": (hdf5.looks_like,),
    "hdf5": (hdf5.looks_like,),
}
_JSON = re.compile(
    r"(?:.*/)?(?:_METADATA|_CHECKPOINT_METADATA|_sharding|array_metadatas/process_\d+|\.zarray)"
)  # of Orbax
_TEMPORARY = re.compile(r"(?P<final>.+)\.(?:part|partial|tmp|incomplete|atomic_tmp|staging)")
SAFETENSORS_TEMPORARY = re.compile(r"\.tmp[A-Za-z0-9]{6}")


def plain(members: Members) -> Mapping[str, FileStat]:
    """The regular files of a copy; links are not followed and other things not opened."""
    return {path: stat for path, stat in members.files.items() if stat.kind is Kind.FILE}


def sizes(members: Members) -> Mapping[str, int]:
    """Lengths of the regular files by path."""
    return {path: stat.size for path, stat in plain(members).items()}


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def extension(path: str) -> str:
    """The extension in lower case, without its dot; a leading dot begins none."""
    stem, dot, found = name_of(path).rpartition(".")
    return found.lower() if dot and stem else ""


def final_name(path: str) -> str | None:
    """What a temporary file would be called once it is finished; None for what is no temporary."""
    match = _TEMPORARY.fullmatch(name_of(path))
    return path[: len(path) - len(name_of(path))] + match["final"] if match else None


def must_have_bytes(path: str) -> bool:
    """Whether a file of this name with nothing in it is damaged.

    Shards of DCP are judged by their metadata: a rank with nothing to write leaves an empty one.
    """
    name = name_of(path)
    if name == dcp.NAME or dcp.RANK_METADATA.fullmatch(name) or tensorflow.DATA.fullmatch(name):
        return True
    return _is_json(path) or (extension(path) in PAYLOAD and extension(path) != "distcp")


def _is_json(path: str) -> bool:
    return extension(path) == "json" or _JSON.fullmatch(path) is not None


def broken(path: str, why: str) -> Verdict:
    return Verdict(Health.BROKEN, f"{path}: {why}")


def unreadable(path: str, error: OSError) -> Verdict:
    """The verdict on a file that could not be read: it says nothing of the file."""
    return Verdict(Health.UNKNOWN, f"{path}: could not be read: {error.strerror or error}")


def read_small(path: str, reader: Reader, most: int) -> bytes:
    """A small file in full. Raises OSError, and Damage when it is longer than any of its kind."""
    with reader.open(path) as file:
        window = Window(file)
        if window.size > most:
            raise Damage(f"{window.size} bytes, more than any of its kind has")
        return window.read(0, most)


def look_at(path: str, reader: Reader, check: Check) -> Verdict:
    """One file's health by one check."""
    try:
        with reader.open(path) as file:
            window = Window(file)
            if window.blank and extension(path) in _HEADED:
                return broken(path, f"{window.size} bytes, zero at both ends: nothing was written there")
            return Verdict(Health.WHOLE if check(window) else Health.UNVERIFIED)
    except Damage as damage:
        return broken(path, str(damage))
    except Doubt as doubt:
        return Verdict(Health.SUSPECT, f"{path}: {doubt}")
    except OSError as error:
        return unreadable(path, error)


def check_for(path: str) -> Check | None:
    """The check for a file of this name; None where it is not worth opening."""
    found = extension(path)
    if found == "safetensors":
        return safetensors.check
    if found in _BEGINNINGS:
        return lambda window: _begins_right(window, found) and _by_content(window)
    if found in _SNIFFED:
        return _by_content
    if ocdbt.PATH.fullmatch(path):
        return ocdbt.check
    if found == "distcp":
        return lambda _: False  # its metadata tells
    return json_text.check if _is_json(path) else None


def _by_content(window: Window) -> bool:
    """Most extensions say little: what a file begins and ends with decides."""
    if zips.looks_like(window):
        return zips.check(window)
    if hdf5.looks_like(window):
        return hdf5.check(window)
    if pickle_files.looks_like(window):
        return pickle_files.check(window)
    return npy.check(window)


def _begins_right(window: Window, promised: str) -> bool:
    if not any(looks_like(window) for looks_like in _BEGINNINGS[promised]):
        raise Damage(f"it does not begin as a .{promised} file does ({window.size} bytes)")
    return True
