"""A checkpoint directory watched: files that appear under a final name and then grow, and who writes them."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from prune.audit import words
from prune.audit.inotify import CREATE, DELETE, MODIFY, MOVED_FROM, MOVED_TO, OVERFLOW, Event, Inotify
from prune.errors import Failed, UsageError
from prune.layouts import naming, step_file

_TICK = 0.5  # seconds between looks at the clock
_LATER = "and then grew"
_AGAIN = "was there, and was written over in place"
_FILLED = "appeared and was filled under its final name"


@dataclass(frozen=True, slots=True)
class Sight:
    """One name that showed something unfinished. ``writer`` is the process that had it open, where /proc tells."""

    path: str
    what: str
    first_size: int
    last_size: int
    writer: str | None


@dataclass
class Watcher:
    """What is known of each name from the events so far. Knows no kernel: events go in, sights come out."""

    size_of: Callable[[str], int]
    writer_of: Callable[[str], str | None]
    appeared: dict[str, int] = field(default_factory=dict)  # files made here under a final name -> their size then
    folders: set[str] = field(default_factory=set)  # step directories made here under a final name
    sights: dict[str, Sight] = field(default_factory=dict)
    lost: bool = False  # the kernel dropped events

    def take(self, event: Event) -> Sight | None:
        """The sight that an event makes, at the first such event of a name."""
        if event.mask & OVERFLOW:
            self.lost = True
        elif event.mask & (DELETE | MOVED_FROM):
            self.appeared.pop(event.path, None)
            self.folders.discard(event.path)
        elif event.mask & CREATE:
            return self._created(event)
        elif event.mask & MOVED_TO:
            self.appeared.pop(event.path, None)  # renamed onto the name: whole, as far as names can tell
            return self._filled(event.path)
        elif event.mask & MODIFY and not event.is_directory:
            return self._modified(event.path)
        return None

    def appeared_before_its_watch(self, folder: str, names: list[str]) -> list[Sight]:
        """The sights of a new directory that was already filled when its watch began."""
        if _is_step(folder):
            self.folders.add(folder)
        events = [Event(CREATE, os.path.join(folder, name)) for name in names]
        return [sight for sight in map(self.take, events) if sight is not None]

    def _created(self, event: Event) -> Sight | None:
        if event.is_directory:
            if _is_step(event.path):
                self.folders.add(event.path)
            return None
        if _is_final(event.path):
            self.appeared[event.path] = self.size_of(event.path)
        return self._filled(event.path)

    def _filled(self, path: str) -> Sight | None:
        """A step directory that was made under its name and gets its entries there."""
        folder = os.path.dirname(path)
        if folder not in self.folders or folder in self.sights or not _is_final(path):
            return None
        return self._see(Sight(folder, _FILLED, 0, 0, self.writer_of(path)))

    def _modified(self, path: str) -> Sight | None:
        if not _is_final(path):
            return None
        if path in self.sights:
            seen = self.sights[path]
            self.sights[path] = replace(seen, writer=seen.writer or self.writer_of(path))
            return None
        what = f"appeared {_LATER}" if path in self.appeared else _AGAIN
        return self._see(Sight(path, what, self.appeared.get(path, -1), self.size_of(path), self.writer_of(path)))

    def _see(self, sight: Sight) -> Sight:
        self.sights[sight.path] = sight
        return sight

    def result(self) -> list[Sight]:
        """Everything seen, with the sizes of now."""
        return [replace(sight, last_size=self.size_of(sight.path)) for _, sight in sorted(self.sights.items())]


def watch(
    directory: str, *, seconds: float | None, tell: Callable[[Sight], None], going: Callable[[], bool] = lambda: True
) -> tuple[list[Sight], bool]:
    """Watches a directory and all below it, hidden ones left out, for so long (None: until it is interrupted).

    Calls ``tell`` at the first sight of each name. Returns all sights, and whether the kernel dropped events.
    Raises UsageError for what is no directory, Failed where the kernel gives no watches.
    """
    if not os.path.isdir(directory):
        raise UsageError(f"{directory}: there is no such directory to watch")
    watcher = Watcher(_size, _writer)
    end = None if seconds is None else time.monotonic() + seconds
    with _watching(directory) as events, contextlib.suppress(KeyboardInterrupt):
        while going() and (end is None or time.monotonic() < end):
            rest = _TICK if end is None else min(_TICK, max(0.0, end - time.monotonic()))
            for event in events.events(rest):
                sights = [watcher.take(event)]
                if event.is_directory and event.mask & (CREATE | MOVED_TO) and not _is_hidden(event.path):
                    sights += _watch_below(events, event.path, watcher if event.mask & CREATE else None)
                for sight in filter(None, sights):
                    tell(sight)
    return watcher.result(), watcher.lost


@contextlib.contextmanager
def _watching(directory: str) -> Iterator[Inotify]:
    try:
        events = Inotify()
    except OSError as error:
        raise Failed(f"this system gives no inotify: {error.strerror}") from error
    try:
        _watch_below(events, os.path.realpath(directory), None)
        yield events
    finally:
        events.close()


def _watch_below(events: Inotify, top: str, new: Watcher | None) -> list[Sight]:
    """Watches a directory and those below it. ``new``: it was just made, and what is in it appeared since."""
    sights: list[Sight] = []
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".")]
        try:
            events.watch(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            mend = "raise fs.inotify.max_user_watches" if error.errno == errno.ENOSPC else None
            raise Failed(f"{folder} cannot be watched: {error.strerror}", mend=mend) from error
        if new is not None:
            sights += new.appeared_before_its_watch(folder, names)
    return sights


def _is_final(path: str) -> bool:
    """A name that is a checkpoint's or a part of one, and no temporary."""
    name = os.path.basename(path)
    if next(naming.written_for(name), None) is not None or naming.nameless_temporary(name):
        return False
    parts = os.path.dirname(path).split(os.sep)[-3:]
    if any(next(naming.written_for(part), None) is not None for part in parts):
        return False  # inside a directory that has a temporary name
    return (
        words.is_checkpoint([name])
        or words.is_pointer([name])
        or step_file.read(name) is not None
        or (any(_is_step(part) for part in parts) and not words.is_other_file(name))
    )


def _is_step(path: str) -> bool:
    """A directory that is named as one step."""
    name = os.path.basename(path)
    if next(naming.written_for(name), None) is not None:
        return False
    found = step_file.read_stem(name)
    return found is not None and any(character.isalpha() for character in name)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _writer(path: str) -> str | None:
    """The process that has a file open for writing right now, where this user may see it."""
    for pid in _processes():
        try:
            numbers = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for number in numbers:
            with contextlib.suppress(OSError, ValueError):
                if os.readlink(f"/proc/{pid}/fd/{number}") == path and _is_writing(pid, number):
                    return _named(pid)
    return None


def _processes() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except OSError:
        return []


def _is_writing(pid: str, number: str) -> bool:
    with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as file:
        flags = next(line.split()[1] for line in file if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _named(pid: str) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        command = file.read(400).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return f"process {pid} ({command[:120]})" if command else f"process {pid}"
