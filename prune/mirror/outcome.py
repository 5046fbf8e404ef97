"""How mirroring is carried out, and what it did."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from prune.model import Attention, Block, FailedCopy
from prune.stop import Stop


@dataclass(frozen=True)
class Conduct:
    """How mirroring is carried out. ``cold`` reads back from the device: None where it is worth it, on file systems
    whose memory proves nothing. ``landed`` is called with every open file between copying and comparing."""

    wait_ns: int = 0
    cold: bool | None = None
    stop: Stop = field(default_factory=Stop)
    progress: Callable[[str, int, int], None] = lambda _what, _done, _of: None  # told bytes
    clock: Callable[[], int] = time.time_ns
    landed: Callable[[int], None] = lambda _target: None


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy that was published, with what was read back of it."""

    step: int
    replica: str
    bytes: int
    sha256: str
    repaired: bool


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What mirroring one run did."""

    run: str
    copied: tuple[Copied, ...] = ()
    failed: tuple[FailedCopy, ...] = ()
    blocks: tuple[Block, ...] = ()
    pointers: tuple[tuple[str, str], ...] = ()  # replica, path
    attention: tuple[Attention, ...] = ()
