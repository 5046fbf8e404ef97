"""Every error a user can meet, and the exit code it maps to.

PruneError
├── UsageError       bad usage or configuration (exit 2)
├── Blocked          nothing may be deleted in a run (exit 3)
├── NotReached       the wanted free space was not reached (exit 4)
├── Damaged          checkpoints were found and none is usable, or damage was found (exit 5)
├── NothingYet       a new run: every replica was listed completely and none ever held a step (exit 6)
├── Busy             another process is writing this very name (exit 1)
└── Failed           an input/output error; the rest was done (exit 1)
"""

from __future__ import annotations


class PruneError(Exception):
    """What happened, to which path or key, and what to do. Never shown with a traceback."""

    exit_code = 1

    def __init__(self, message: str, *, mend: str | None = None) -> None:
        super().__init__(message)
        self.mend = mend

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\n  {self.mend}" if self.mend else text


class UsageError(PruneError):
    """Bad usage or configuration; names the file, line or key, and the mend."""

    exit_code = 2


class Blocked(PruneError):
    """A reason to delete nothing in a run this time: ``block`` is its kind, on ``replica`` where it is one's."""

    exit_code = 3

    def __init__(
        self, message: str, *, mend: str | None = None, block: str = "control-unusable", replica: str | None = None
    ) -> None:
        super().__init__(message, mend=mend)
        self.block = block
        self.replica = replica


class NotReached(PruneError):
    """The wanted free space was not reached."""

    exit_code = 4


class Damaged(PruneError):
    """Checkpoints exist and none is usable, or damage was found."""

    exit_code = 5


class NothingYet(PruneError):
    """Every replica was listed completely and none ever held a step."""

    exit_code = 6


class Busy(PruneError):
    """Another process is writing this very name."""

    exit_code = 1


class Failed(PruneError):
    """Something failed on one copy; the rest was done."""

    exit_code = 1
