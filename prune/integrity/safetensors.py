"""safetensors: eight bytes of header length, a JSON header, then the tensors without gaps.

Format: huggingface/safetensors, README.md "Format" (the length is at most 100 MB there).
"""

from __future__ import annotations

import json
from typing import Any

from prune.integrity.window import Damage, Window

_LONGEST_HEADER = 100_000_000  # what the library accepts
_LONGEST_PARSED = 16 << 20  # JSON becomes many times its length in memory
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip


def check(window: Window) -> bool:
    """Whether header and length agree; False where the header is too long to be read here. Raises Damage."""
    length = _header_length(window)
    if length > _LONGEST_PARSED:
        return False
    tensors = _tensors(window.exactly(8, length, "the safetensors header"))
    end = _end_of_tensors(tensors, window.size)
    expected = 8 + length + end
    if window.size != expected:
        what = "it was cut" if window.size < expected else "something was added"
        raise Damage(f"expected {expected} bytes by its safetensors header, found {window.size}: {what}")
    return True


def _header_length(window: Window) -> int:
    if window.size < 8:
        raise Damage(f"a safetensors file has at least 8 bytes, found {window.size}")
    length = int.from_bytes(window.head[:8], "little")
    if length == 0:
        raise Damage("the safetensors header is empty")
    if length > _LONGEST_HEADER:
        raise Damage(f"this is no safetensors header: it claims {length} bytes")
    if 8 + length > window.size:
        raise Damage(f"expected at least {8 + length} bytes for its safetensors header, found {window.size}")
    return length


def _tensors(header: bytes) -> dict[str, Any]:
    try:
        tensors = json.loads(header)
    except (ValueError, RecursionError):
        raise Damage("the safetensors header is not JSON") from None
    if not isinstance(tensors, dict):
        raise Damage("the safetensors header is not a JSON object")
    tensors.pop("__metadata__", None)
    return tensors


def _end_of_tensors(tensors: dict[str, Any], size: int) -> int:
    """Where the last tensor ends, after the header. Raises Damage when they overlap, leave gaps or misfit."""
    spans = []
    for name, tensor in tensors.items():
        begin, end = _span(name, tensor)
        _fits(name, tensor, end - begin, size)
        spans.append((begin, end))
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise Damage(f"the safetensors header leaves a gap or an overlap at byte {at} of the tensors")
        at = end
    return at


def _span(name: str, tensor: Any) -> tuple[int, int]:
    offsets = tensor.get("data_offsets") if isinstance(tensor, dict) else None
    if isinstance(offsets, list) and len(offsets) == 2:
        begin, end = offsets
        if type(begin) is int and type(end) is int and 0 <= begin <= end < 1 << 63:
            return begin, end
    raise Damage(f"the safetensors header has no place for tensor {name[:80]!a}")


def _fits(name: str, tensor: dict[str, Any], length: int, size: int) -> None:
    bits, shape = _BITS.get(str(tensor.get("dtype"))), tensor.get("shape")
    if bits is None or not isinstance(shape, list):
        return
    if 0 in shape:
        needed = 0
    else:
        needed = bits
        for extent in shape:
            if type(extent) is not int or extent < 0 or needed > 8 * (size + length):
                raise Damage(f"the safetensors header gives tensor {name[:80]!a} an impossible shape")
            needed *= extent
    if needed != 8 * length:
        raise Damage(f"tensor {name[:80]!a} needs {needed // 8} bytes, the safetensors header gives it {length}")
