"""Root for whom permissions hold as for anybody else: tests of them mean as much in a container as on a desk."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH, _FOWNER = 1 << 1, 1 << 2, 1 << 3


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """This thread, and those it starts, may do no more than the owner of a file may."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    before, less = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, before) == 0
    less[:] = before[:]
    less[0] &= ~(_DAC_OVERRIDE | _DAC_READ_SEARCH | _FOWNER)
    assert libc.capset(header, less) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0
