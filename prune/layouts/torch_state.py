"""Single values out of a ``torch.save`` file, read as data: opcodes of its ``data.pkl``, never unpickled.

Format: pytorch/pytorch, ``torch/serialization.py`` (a ZIP of ``<name>/data.pkl`` and one member for each storage).
"""

from __future__ import annotations

from collections.abc import Iterable

from prune.integrity import pickles, zips
from prune.integrity.window import Damage, Window
from prune.stores.base import Reader

MOST = 8 << 20  # bytes of a data.pkl that is read for one number
_WIDTHS = {"torch.IntStorage": 4, "torch.LongStorage": 8, "torch.ShortStorage": 2}


def value(reader: Reader, path: str, *keys: str) -> object:
    """What stands under nested ``keys`` of the saved dict or object: plain values as they are.

    Raises LookupError where the file is no such file or holds no such key, OSError where it cannot be read.
    """
    with reader.open(path) as file:
        window = Window(file)
        try:
            directory = zips.find_directory(window)
            found: object = _pickled(window, directory, _pickle_in(zips.members(window, directory)))
        except (Damage, pickles.UnreadablePickle) as error:
            raise LookupError(f"{path}: {error}") from error
    for key in keys:
        if isinstance(found, pickles.Opaque):
            found = found.attributes
        if not isinstance(found, dict) or key not in found:
            raise LookupError(f"{path} holds no {key}")
        found = found[key]
    return found


def number(reader: Reader, path: str, *keys: str) -> int | None:
    """The whole number under nested ``keys`` of the saved dict, of a plain number or a tensor of one element.

    None where the file is no such file or holds no such number. Raises OSError where it cannot be read.
    """
    with reader.open(path) as file:
        window = Window(file)
        try:
            return _number(window, keys)
        except (Damage, pickles.UnreadablePickle):
            return None


def _number(window: Window, keys: tuple[str, ...]) -> int | None:
    directory = zips.find_directory(window)
    members = list(zips.members(window, directory))
    pickle = _pickle_in(members)
    value = _pickled(window, directory, pickle)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    place = _storage(value)
    name = pickle.name[: -len(b"data.pkl")] + b"data/" + place[1].encode() if place else b""
    member = next((member for member in members if member.name == name), None) if place else None
    if place is None or member is None or member.method != 0 or member.size != place[0]:
        return None
    return int.from_bytes(_bytes(window, directory, member), "little", signed=True)


def _pickle_in(members: Iterable[zips.Member]) -> zips.Member:
    """The member that holds the pickle. Raises UnreadablePickle."""
    found = next((member for member in members if member.name.rpartition(b"/")[2] == b"data.pkl"), None)
    if found is None or found.size > MOST or found.method != 0:
        raise pickles.UnreadablePickle("no pickle of a size that is read here")
    return found


def _pickled(window: Window, directory: zips.Directory, member: zips.Member) -> object:
    return pickles.load(_bytes(window, directory, member))[0]


def _bytes(window: Window, directory: zips.Directory, member: zips.Member) -> bytes:
    start = zips.data_offset(window, directory, member)
    return window.exactly(start, member.size, "a member")


def _storage(value: object) -> tuple[int, str] | None:
    """Width in bytes and key of the storage of a tensor of one whole number; None for anything else."""
    if not isinstance(value, pickles.Opaque) or not value.name.startswith("torch._utils._rebuild_tensor"):
        return None
    persistent = value.args[0] if isinstance(value.args, tuple) and value.args else None
    where = persistent.args if isinstance(persistent, pickles.Opaque) else None
    if not isinstance(where, tuple) or len(where) < 5 or where[4] != 1 or not isinstance(where[2], str):
        return None
    width = _WIDTHS.get(str(where[1]))
    return (width, where[2]) if width else None
