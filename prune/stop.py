"""A wish to stop: raised by a signal or a caller, looked at between two steps, so that the step in hand is finished."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any


class Stop:
    """True once somebody wishes to stop. Setting it is safe from a signal handler and from other threads."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal: int | None = None  # the signal that asked, 0 when a caller did

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def requested(self) -> bool:
        return self.signal is not None

    def request(self, by: int = 0) -> None:
        """Asks to stop after the step in hand; the first one to ask is remembered."""
        if self.signal is None:
            self.signal = by

    @property
    def exit_code(self) -> int | None:
        """130 after Ctrl-C, 143 after SIGTERM, None when no signal asked."""
        return 128 + self.signal if self.signal else None


@contextmanager
def stopping_on_signals(stop: Stop, *, say: str = "") -> Iterator[Stop]:
    """While the block runs, Ctrl-C and SIGTERM only raise ``stop``. In other threads than the main one: nothing.

    ``say`` is written to stderr when the first of them comes, so that nobody thinks it went unheard.
    """

    def raise_flag(number: int, _frame: FrameType | None) -> None:
        if say and not stop:
            with suppress(OSError):
                os.write(2, f"{say}\n".encode())
        stop.request(number)

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, raise_flag)
    except ValueError:  # not the main thread: whoever runs us there owns the signals
        pass
    try:
        yield stop
    finally:
        for asked, handler in before.items():
            signal.signal(asked, handler)
