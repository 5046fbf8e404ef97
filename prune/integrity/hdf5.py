"""HDF5 (``.h5``, ``.hdf5``, old Keras): the superblock holds the address at which the file ends.

Layout: HDF5 File Format Specification 3.0, II.A "Disk Format: Level 0A". The library refuses a file that is
shorter than that address (HDFGroup/hdf5, ``src/H5Fsuper.c``).
"""

from __future__ import annotations

from prune.integrity.window import Damage, Doubt, Window

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_OPEN_FOR_WRITING = 1  # consistency flag, kept by superblocks of version 3
_PLACES = (0, 512, 1024, 2048)  # a user block may stand before it


def looks_like(window: Window) -> bool:
    return _place(window) is not None


def check(window: Window) -> bool:
    """Whether the file ends where it says; False where the superblock is of no known kind. Raises Damage, Doubt."""
    place = _place(window)
    if place is None:
        return False
    end = _recorded_end(window, place)
    if end is None:
        return False
    if end > window.size:
        raise Damage(f"expected {end} bytes by its HDF5 superblock, found {window.size}: it was cut")
    if end < window.size:  # closing makes them equal
        raise Doubt(f"expected {end} bytes by its HDF5 superblock, found {window.size}: its writer did not close it")
    if window.head[place + 8] == 3 and window.head[place + 11] & _OPEN_FOR_WRITING:
        raise Doubt("its HDF5 superblock says that it is open for writing: its writer did not close it")
    return True


def _place(window: Window) -> int | None:
    if SIGNATURE not in window.head:
        return None
    return next((place for place in _PLACES if window.head[place : place + 8] == SIGNATURE), None)


def _recorded_end(window: Window, place: int) -> int | None:
    block = window.exactly(place, min(96, window.size - place), "the HDF5 superblock")
    if len(block) < 16:
        raise Damage(f"the HDF5 superblock is cut after {len(block)} bytes")
    version = block[8]
    if version in (0, 1):
        width, at = block[13], 24 + 4 * version
    elif version in (2, 3):
        width, at = block[9], 12
    else:
        return None
    if width not in (2, 4, 8):
        return None
    field = block[at + 2 * width : at + 3 * width]  # after the base address and one more
    if len(field) < width:
        raise Damage(f"the HDF5 superblock is cut after {len(block)} bytes")
    end = int.from_bytes(field, "little")
    if end == (1 << 8 * width) - 1:
        raise Damage("the HDF5 superblock records no end: its writer did not close it")
    return end
