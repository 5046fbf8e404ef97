"""Files that are pickles: plain ones, and what ``torch.save`` wrote before it wrote ZIP files.

A plain pickle ends with its STOP opcode and no footer: following the opcodes to it, over the blobs without reading
them, tells a file that was cut. The old torch format is five pickles and then each storage, its number of elements
in front (pytorch/pytorch, ``torch/serialization.py``, ``_legacy_save``), so its length can be told.
"""

from __future__ import annotations

from collections.abc import Mapping

from prune.integrity import pickles
from prune.integrity.window import Damage, Window

TORCH_MAGIC = 0x1950A86A20F9469CFC6C
_MOST_OPCODES = 2_000_000
_SLICE = 64 << 10
_AHEAD = 300  # longer than any opcode with a fixed or one-byte length
_STOP = ord(".")
_UNKNOWN, _LINE, _TWO_LINES = -1, -2, -3
_ELEMENT = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
    "ComplexDouble": 16, "ComplexFloat": 8, "QInt8": 1, "QUInt8": 1, "QInt32": 4, "Untyped": 1,
}  # fmt: skip


def looks_like(window: Window) -> bool:
    """Whether the file begins as a pickle of protocol 2 or later; earlier ones begin like anything else."""
    return window.head[:1] == b"\x80" and window.head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def check(window: Window) -> bool:
    """Whether the file is complete; False where it cannot be told. Raises Damage."""
    if is_old_torch(window):
        return _check_old_torch(window)
    return end_of_pickle(window, 0) == window.size


def is_old_torch(window: Window) -> bool:
    try:
        return pickles.load(window.head[:64])[0] == TORCH_MAGIC
    except pickles.UnreadablePickle:
        return False


def end_of_pickle(window: Window, start: int) -> int | None:
    """Where the pickle that begins at ``start`` ends; None when it has bytes that are no opcodes or too many.

    Raises Damage when the file ends first.
    """
    data, base, at, foreign = b"", start, 0, False
    for _ in range(_MOST_OPCODES):
        if len(data) - at < _AHEAD and base + len(data) < window.size:
            base += at
            data, at = window.read(base, _SLICE), 0
            foreign = foreign or b"joblib" in data  # it puts raw arrays between the opcodes
        if at >= len(data):
            if foreign:
                return None
            raise Damage(f"the pickle in it needs more than the {window.size} bytes found: it was cut")
        code = data[at]
        if code == _STOP:
            return base + at + 1
        fixed, prefix = _FIXED[code], _PREFIX[code]
        if prefix:
            at += 1 + prefix + int.from_bytes(data[at + 1 : at + 1 + prefix], "little")
        elif fixed >= 0:
            at += 1 + fixed
        elif fixed == _UNKNOWN:
            return None
        else:
            after = _after_lines(data, at + 1, 1 if fixed == _LINE else 2)
            if after is None and base + len(data) < window.size:
                return None  # a longer line than is read at a time
            at = len(data) if after is None else after
    return None


def _after_lines(data: bytes, at: int, lines: int) -> int | None:
    for _ in range(lines):
        at = data.find(b"\n", at) + 1
        if at == 0:
            return None
    return at


def _opcodes() -> tuple[list[int], list[int]]:
    """For each opcode the bytes of its argument, and the bytes of the length before it."""
    fixed, prefix = [_UNKNOWN] * 256, [0] * 256
    for code in b"(012)t]ael}ds\x85\x86\x87u\x88\x89N\x8f\x90\x91\x93\x94Rob\x81\x92Q\x97\x98":
        fixed[code] = 0
    for codes, length in ((b"Kqh\x80\x82", 1), (b"M\x83", 2), (b"Jrj\x84", 4), (b"G\x95", 8)):
        for code in codes:
            fixed[code] = length
    for codes, length in ((b"\x8aCU\x8c", 1), (b"\x8bBTX", 4), (b"\x8e\x8d\x96", 8)):
        for code in codes:
            prefix[code] = length
    for code in b"FILSVpgP":
        fixed[code] = _LINE
    for code in b"ci":
        fixed[code] = _TWO_LINES
    return fixed, prefix


_FIXED, _PREFIX = _opcodes()


def _check_old_torch(window: Window) -> bool:
    ends = [0]
    for _ in range(5):  # magic, protocol, system, the object, the storages' keys
        end = end_of_pickle(window, ends[-1])
        if end is None:
            return False
        ends.append(end)
    if ends[5] - ends[3] > pickles.MOST_BYTES:
        return False
    try:
        value, _ = pickles.load(window.exactly(ends[3], ends[4] - ends[3], "the object"))
        keys, _ = pickles.load(window.exactly(ends[4], ends[5] - ends[4], "the storages' keys"))
    except pickles.UnreadablePickle:
        return False
    end = _end_of_storages(window, ends[5], keys, _element_sizes(value))
    if end is not None and end > window.size:
        raise Damage(f"expected {end} bytes by its storages, found {window.size}: it was cut")
    return end == window.size


def _element_sizes(value: object) -> Mapping[str, int]:
    """Bytes of an element by key, for every storage that the object refers to and whose type is known."""
    sizes: dict[str, int] = {}
    for found in pickles.walk(value):
        if isinstance(found, pickles.Opaque) and found.name == "persistent id" and isinstance(found.args, tuple):
            match found.args:
                case ("storage", pickles.Global() as kind, str() as key, *_):
                    name = kind.rpartition(".")[2].removesuffix("Storage")
                    if name in _ELEMENT:
                        sizes[key] = _ELEMENT[name]
    return sizes


def _end_of_storages(window: Window, at: int, keys: object, sizes: Mapping[str, int]) -> int | None:
    if not isinstance(keys, list):
        return None
    for key in keys:
        if not isinstance(key, str) or key not in sizes:
            return None
        if at + 8 > window.size:
            return at + 8
        count = int.from_bytes(window.exactly(at, 8, "a storage"), "little", signed=True)
        if count < 0:
            return None
        at += 8 + count * sizes[key]
    return at
