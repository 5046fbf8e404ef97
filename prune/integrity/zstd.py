"""Zstandard frames, decoded by the library of that name where it is installed: it comes with ``ckpt-prune[orbax]``.

Without it what is compressed is not looked into, and a check says what the bytes around it tell.
"""

from __future__ import annotations

MAGIC = b"\x28\xb5\x2f\xfd"
_WINDOW = 8 << 20  # the most memory that a frame may ask for


class Undecodable(ValueError):
    """No frame that is decoded here: damaged, asking for too much, or there is no library to decode it."""


def decompress(data: bytes, most: int) -> bytes:
    """What a frame holds, at most the first ``most`` bytes of it. Raises Undecodable."""
    try:
        import zstandard
    except ImportError:
        raise Undecodable("Zstandard is not installed: pip install 'ckpt-prune[orbax]'") from None
    try:
        told = zstandard.frame_content_size(data)  # -1 where the frame does not tell
        with zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(data) as reader:
            found = reader.read(most)
    except (zstandard.ZstdError, MemoryError) as error:
        raise Undecodable(f"no Zstandard frame that can be followed: {error}") from error
    if len(found) < min(told, most):
        raise Undecodable(f"the frame ends after {len(found)} of {told} bytes")
    return found
