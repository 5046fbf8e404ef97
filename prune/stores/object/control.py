"""The control folder as keys under ``.prune/``: small objects, each written whole and under conditions.

There is no trash. What is on its way out stands in a note of its own under ``withdrawn/``, one for each batch: the
lines that the record of a local root holds, and of each copy the keys and ETags that may be deleted. A copy that is
noted there is none any more for us; its objects stay where they are until they are deleted.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from prune.control import record
from prune.control.folder import Control
from prune.control.record import Withdrawal
from prune.model import Pin
from prune.stores.base import read_text
from prune.stores.object.client import Object
from prune.stores.object.root import ObjectRoot
from prune.stores.object.troubles import Changed

WITHDRAWN = "withdrawn"
ARRIVING = "arriving"
_SMALL = 1 << 20  # bytes of an object that is remembered once it was read


class ControlRoot(ObjectRoot):
    """The keys of a control folder. What was read is remembered as long as a listing shows the same version."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._texts: dict[str, tuple[int, bytes]] = {}

    def open(self, path: str) -> BinaryIO:
        status = self.stat(path)
        if status.size > _SMALL:
            return super().open(path)
        mark, text = self._texts.get(path, (-1, b""))
        if mark != status.ino:
            try:
                with super().open(path) as file:
                    text = file.read()
            except Changed:  # written since it was listed: as it is now will do
                self.refresh()
                with super().open(path) as file:
                    text = file.read()
                status = self.stat(path)
            self._texts[path] = (status.ino, text)
        return cast(BinaryIO, io.BytesIO(text))


@dataclass(frozen=True, slots=True)
class Arriving:
    """A copy that somebody is uploading, or was when he died."""

    token: str
    step: int
    paths: frozenset[str]
    since_ns: int  # by the store's clock


@dataclass
class Note:
    """One object under ``withdrawn/``: its path, its ETag, and the lines in it."""

    path: str
    etag: str
    text: bytes
    ids: set[str] = field(default_factory=set)


@dataclass
class ObjectControl(Control):
    """An existing control prefix. It needs no making: its first key makes it."""

    _notes: dict[str, Note] = field(default_factory=dict, repr=False)  # by withdrawal id
    _later: dict[str, list[bytes]] = field(default_factory=dict, repr=False)  # by id: lines that may be lost
    _keys: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)  # by id
    _fresh: dict[str, dict[str, Object]] = field(default_factory=dict, repr=False)  # what this pass has looked at
    _unwritten: set[str] = field(default_factory=set, repr=False)  # whose keys stand in no note yet

    @classmethod
    def open(cls, path: str) -> ObjectControl:
        return cls(path, ControlRoot(path))

    @classmethod
    def make(cls, path: str) -> ObjectControl:
        return cls.open(path)

    @property
    def keys_root(self) -> ObjectRoot:
        assert isinstance(self.folder, ObjectRoot)
        return self.folder

    def furnish(self) -> None:
        """Nothing here needs a place of its own beforehand."""

    def close(self) -> None:
        self.flush()
        self.folder.close()

    def pins(self, replica: str) -> list[Pin]:
        """As they are now: asking for pins looks anew, also for leases."""
        self.keys_root.refresh()
        return super().pins(replica)

    # --- copies on their way here ----------------------------------------------------------------------------

    def note_arriving(self, token: str, step: int, paths: Sequence[str]) -> None:
        """From here on what stands under these paths is a copy being uploaded, and none yet. Raises OSError."""
        data = {"schema": "prune.arriving/1", "step": step, "paths": list(paths)}
        self.keys_root.write_atomic(f"{ARRIVING}/{token}.json", json.dumps(data).encode())

    def arrived(self, token: str) -> None:
        """It is a copy by now, or nothing of it is left. Raises OSError."""
        root = self.keys_root
        root.bucket.delete([root.address.key(f"{ARRIVING}/{token}.json")])
        root.refresh()

    def arriving(self) -> list[Arriving]:
        """What is noted to be on its way here. Raises OSError, ValueError."""
        try:
            entries = list(self.keys_root.scan(ARRIVING))
        except FileNotFoundError:
            return []
        found = []
        for entry in entries:
            data = json.loads(read_text(self.keys_root, entry.path))
            since = self.keys_root.stat(entry.path).mtime_ns
            token = entry.name.removesuffix(".json")
            found.append(Arriving(token, int(data["step"]), frozenset(map(str, data["paths"])), since))
        return found

    # --- withdrawals -----------------------------------------------------------------------------------------

    def withdrawals(self) -> dict[str, Withdrawal]:
        found: dict[str, Withdrawal] = {}
        for note in self._read_notes():
            found |= record.parse(note.text)
        for id, lines in self._later.items():
            if id in found:
                found |= record.parse(_of(found[id]) + b"".join(lines))
        return found

    def append_record(self, *lines: bytes, sync: bool = True) -> None:
        """Intents of one call make one note; all other lines go where the intent of their id stands."""
        if sync:
            self._append(_by_id(lines))
        else:
            for id, more in _by_id(lines).items():
                self._later.setdefault(id, []).extend(more)
            if any(note.ids <= self._later.keys() for note in self._notes.values()):
                self.flush()  # nothing in that note is open any more

    def flush(self) -> None:
        """Writes the lines that could wait; what cannot be written is found again by looking."""
        if self._later:
            try:
                self._append({})
            except OSError:
                self._later.clear()

    def note_keys(self, id: str, found: Mapping[str, Object]) -> None:
        """Which keys under which ETags belong to a withdrawal; written with the next line about it."""
        self._keys[id] = {path: each.etag for path, each in found.items()}
        self._fresh[id] = dict(found)
        self._unwritten.add(id)

    def keys_noted(self, id: str) -> dict[str, str] | None:
        """Keys by ETag as the note of a withdrawal has them, None where it has none. Raises OSError."""
        if id not in self._keys and id not in self._notes:
            self._read_notes()
        if id not in self._keys and id in self._notes:
            self._keys = _keys_in(self._notes[id].text) | self._keys
        return self._keys.get(id)

    def looked_at(self, id: str) -> dict[str, Object] | None:
        """The objects of a withdrawal, where they were noted by this very pass, a moment ago."""
        return self._fresh.get(id)

    def clear_record(self) -> None:
        """A note goes with the last withdrawal in it."""

    def trash_names(self) -> list[str]:
        return []

    def _append(self, lines: dict[str, list[bytes]]) -> None:
        waiting, self._later = self._later, {}
        fresh = [id for id, more in lines.items() if any(b'"op":"intent"' in line for line in more)]
        if fresh:
            self._write_new({id: lines.pop(id) for id in fresh})
        for id, more in lines.items():
            waiting.setdefault(id, []).extend(more)
        touched: dict[str, tuple[Note, list[bytes]]] = {}
        for id, more in waiting.items():
            note = self._note_of(id)
            if note is not None:
                keys = [_keys_line(id, self._keys[id])] if id in self._unwritten else []
                self._unwritten.discard(id)
                touched.setdefault(note.path, (note, []))[1].extend([*keys, *more])
        for note, more in touched.values():
            self._rewrite(note, b"".join(more))

    def _write_new(self, lines: Mapping[str, Iterable[bytes]]) -> None:
        text = b"".join(line for more in lines.values() for line in more)
        path = f"{WITHDRAWN}/{secrets.token_hex(8)}.json"
        note = Note(path, self.keys_root.write_new(path, text), text, set(lines))
        self._notes.update(dict.fromkeys(lines, note))

    def _rewrite(self, note: Note, more: bytes) -> None:
        """Adds to a note, or takes it away once nothing in it is open. The lock is held: nobody else writes it."""
        text = note.text + more
        root = self.keys_root
        if not record.open_ones(record.parse(text)):
            root.bucket.delete([root.address.key(note.path)])
            for id in note.ids:
                self._notes.pop(id, None)
                self._keys.pop(id, None)
                self._fresh.pop(id, None)
        else:
            note.etag = root.bucket.put(root.address.key(note.path), text, etag=note.etag)
            note.text = text
        root.refresh()

    def _note_of(self, id: str) -> Note | None:
        if id not in self._notes:
            self._read_notes()
        return self._notes.get(id)

    def _read_notes(self) -> list[Note]:
        """Every note as it stands. Raises OSError when any cannot be read."""
        root, found = self.keys_root, []
        try:
            entries = list(root.scan(WITHDRAWN))
        except FileNotFoundError:
            entries = []
        known = {note.path: note for note in self._notes.values()}
        for entry in entries:
            key = root.address.key(entry.path)
            note = known.get(entry.path)
            if note is None or not root.is_still(entry.path, note.etag, len(note.text)):
                try:
                    text, seen = root.bucket.read(key)
                except FileNotFoundError:
                    continue  # settled by another pass since it was listed
                note = Note(entry.path, seen.etag, text, set(record.parse(text)))
            found.append(note)
        self._notes = {id: note for note in found for id in note.ids}
        return found


def as_objects(control: Control | None) -> ObjectControl | None:
    """The control folder as one in an object store, None when it is none."""
    return control if isinstance(control, ObjectControl) else None


# --- lines -------------------------------------------------------------------------------------------------------


def _by_id(lines: Iterable[bytes]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for line in lines:
        found.setdefault(str(json.loads(line)["id"]), []).append(line)
    return found


def _of(withdrawal: Withdrawal) -> bytes:
    state = b""
    if withdrawal.state != "intent":
        state = record.withdrawn_line(withdrawal.id, withdrawal.until_ns)
    if withdrawal.state == "purging":
        state += record.purging_line(withdrawal.id)
    return record.intent_line(withdrawal) + state


def _keys_line(id: str, keys: Mapping[str, str]) -> bytes:
    return b"\n" + json.dumps({"op": "keys", "id": id, "keys": keys}, separators=(",", ":")).encode() + b"\n"


def _keys_in(text: bytes) -> dict[str, dict[str, str]]:
    entries = (json.loads(line) for line in text.split(b"\n") if line.startswith(b'{"op":"keys"'))
    return {entry["id"]: {str(path): str(etag) for path, etag in entry["keys"].items()} for entry in entries}
