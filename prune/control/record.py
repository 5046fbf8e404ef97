"""The record of withdrawals: what was renamed from where to which opaque name, and how far it got.

Lines of JSON, appended and synced. A line that was torn by a crash was never acted upon: an intent is synced
before its renames, a ``withdrawn`` after them.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from prune.model import Identity

State = Literal["intent", "withdrawn", "purging", "purged", "back"]
_LETTERS = string.ascii_lowercase
THINNED = "thinned"  # why parts of a step went that itself stays


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """One copy on its way out. ``moves`` are (path below the root, name in the trash), in withdrawing order."""

    id: str  # the same on every replica of the step
    plan: str
    step: int
    moves: tuple[tuple[str, str], ...]
    identity: Identity  # as planned; of what lies in the trash all but the top's ctime must still fit
    bytes: int
    at_ns: int
    until_ns: int | None = None  # purge not before; None: at once
    why: str = "pruned"  # or "repaired", "orphan", "thinned"
    state: State = "intent"
    folders: tuple[tuple[str, int], ...] = ()  # directories that stay, with the mtimes they must have afterwards


def opaque_name() -> str:
    """Sixteen letters: no scanner of step numbers can read one out of them."""
    import secrets

    return "".join(secrets.choice(_LETTERS) for _ in range(16))


def intent_line(withdrawal: Withdrawal) -> bytes:
    identity = withdrawal.identity
    folders = {"folders": [list(folder) for folder in withdrawal.folders]} if withdrawal.folders else {}
    return _line({
        "op": "intent",
        "id": withdrawal.id,
        "plan": withdrawal.plan,
        "step": withdrawal.step,
        "moves": [list(move) for move in withdrawal.moves],
        "identity": [identity.dev, identity.ino, identity.size, identity.mtime_ns, identity.ctime_ns, identity.files],
        "bytes": withdrawal.bytes,
        "at": withdrawal.at_ns,
        "why": withdrawal.why,
        **folders,
    })  # fmt: skip


def withdrawn_line(id: str, until_ns: int | None) -> bytes:
    return _line({"op": "withdrawn", "id": id, "until": until_ns})


def purging_line(id: str) -> bytes:
    """What was withdrawn was looked at: from here on it is on its way out and never comes back."""
    return _line({"op": "purging", "id": id})


def purged_line(id: str) -> bytes:
    return _line({"op": "purged", "id": id})


def back_line(id: str) -> bytes:
    return _line({"op": "back", "id": id})


def parse(data: bytes) -> dict[str, Withdrawal]:
    """Withdrawals by id, in order of their intents. Torn lines are passed over."""
    found: dict[str, Withdrawal] = {}
    for line in data.split(b"\n"):
        entry = _parse_line(line)
        if entry is None:
            continue
        try:
            _apply(found, entry)
        except (KeyError, TypeError, ValueError):
            continue
    return found


def open_ones(found: Mapping[str, Withdrawal]) -> Iterable[Withdrawal]:
    """Those that still have something in the trash, or may have."""
    return [w for w in found.values() if w.state in ("intent", "withdrawn", "purging")]


def _apply(found: dict[str, Withdrawal], entry: dict[str, Any]) -> None:
    id = str(entry["id"])
    match entry["op"]:
        case "intent":
            found[id] = Withdrawal(
                id,
                str(entry["plan"]),
                int(entry["step"]),
                tuple((str(path), str(name)) for path, name in entry["moves"]),
                Identity(*(int(value) for value in entry["identity"])),
                int(entry["bytes"]),
                int(entry["at"]),
                why=str(entry.get("why", "pruned")),
                folders=tuple((str(path), int(mtime_ns)) for path, mtime_ns in entry.get("folders", ())),
            )
        case "withdrawn":
            until = entry["until"]
            found[id] = replace(found[id], state="withdrawn", until_ns=None if until is None else int(until))
        case "purging" | "purged" | "back" as state:
            found[id] = replace(found[id], state=state)


def _line(data: dict[str, Any]) -> bytes:
    # The leading newline ends a line that a crash may have torn.
    return b"\n" + json.dumps(data, separators=(",", ":")).encode() + b"\n"


def _parse_line(line: bytes) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
