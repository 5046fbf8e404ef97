"""Who writes a temporary: a note that rides on the file and leaves no trace in its bytes.

The note is an extended attribute of the ``.part`` file itself, or where the file system has none a small file in
the control folder's ``staging/``. The lock that a living writer holds is what decides; the note says whose it is,
and tells a dead writer from a paused one where the lock alone cannot.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prune.control.lock import boot_id
from prune.errors import UsageError
from prune.publish.target import control_path, opaque, root_of

ATTRIBUTE = "user.prune.writer"
_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Writer:
    """One process as it can be told from all others, also after its number was given to another one."""

    host: str
    pid: int
    boot: str  # the kernel's boot id: another one means another machine, or this one before it was restarted
    started: int  # when the process began, in clock ticks after boot
    space: int | None  # the pid namespace: in another one, the number says nothing here
    at_ns: int  # when it began to write

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Writer:
    """The note of the process that calls."""
    pid = os.getpid()
    return Writer(socket.gethostname(), pid, boot_id(), _started(pid) or 0, pid_space(), time.time_ns())


def is_alive(writer: Writer, *, shared: bool = True) -> bool | None:
    """Whether that process still exists, paused or not; None where it cannot be told from here.

    ``shared``: the file lies where other machines can write too. On a file system that only this machine can
    have mounted, a note from another boot is a note from before a restart.
    """
    if writer.boot != boot_id():
        return None if shared else False
    if writer.space != pid_space() or _started(os.getpid()) is None:
        return None
    return _started(writer.pid) == writer.started


def writer_of(path: str | os.PathLike[str]) -> Writer | None:
    """Who writes, or wrote, the temporary at ``path``; None where nothing says so.

    ``path`` is a ``NAME.part`` file, in a root or in a control folder's ``staging/``. Raises nothing.
    """
    path = os.fsdecode(os.fspath(path))
    with contextlib.suppress(OSError):
        return parse(os.getxattr(path, ATTRIBUTE, follow_symlinks=False))
    note = note_path(path)
    return _read_note(note) if note is not None else None


def sign(fd: int, path: str) -> None:
    """Writes the note of this process onto an open temporary.

    The note is an aid: where neither the file nor the control folder can take it, the lock still tells the living.
    """
    data = to_bytes(this_process())
    with contextlib.suppress(OSError):
        os.setxattr(fd, ATTRIBUTE, data)
        return
    note = note_path(path)
    if note is not None:
        with contextlib.suppress(OSError):
            Path(note).parent.mkdir(exist_ok=True)
            Path(note).write_bytes(data)


def unsign(fd: int, path: str) -> None:
    """Takes the note away again: the published file carries nothing of ours."""
    with contextlib.suppress(OSError):
        os.removexattr(fd, ATTRIBUTE)
    forget(path)


def forget(path: str) -> None:
    """Removes the note that stands beside a temporary, where there is one."""
    note = note_path(path)
    if note is not None:
        with contextlib.suppress(OSError):
            os.unlink(note)


def note_path(path: str) -> str | None:
    """Where the note of a temporary stands on file systems without extended attributes; None: it can nowhere."""
    head, name = os.path.split(os.path.abspath(path))
    try:
        return os.path.join(control_path(root_of(head)), "staging", f"{opaque(name)}.writer")
    except UsageError:
        return None


def to_bytes(writer: Writer) -> bytes:
    return json.dumps(asdict(writer), separators=(",", ":")).encode()


def parse(data: bytes) -> Writer | None:
    """None where the bytes are no note of ours."""
    try:
        found: Any = json.loads(data)
        space = found["space"]
        return Writer(str(found["host"]), int(found["pid"]), str(found["boot"]), int(found["started"]),
                      None if space is None else int(space), int(found["at_ns"]))  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None


def pid_space() -> int | None:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


def _started(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat (proc_pid_stat(5)); None for a process that is gone, or dead and not yet reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything, parentheses too
    if len(fields) < 20 or fields[0] in "ZXx":
        return None
    return int(fields[19])


def _read_note(path: str) -> Writer | None:
    try:
        with open(path, "rb") as file:
            return parse(file.read(_LIMIT))
    except OSError:
        return None
