"""What was pruned: written before it is withdrawn, so that no mirror ever brings it back. Binds only that content."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tombstone:
    name: str
    step: int
    size: int
    mtime_ns: int
    content: str | None = None
    parts: tuple[str, ...] = ()  # what was taken out of a step that stays; ``name`` is the first of them

    def binds(self, *, name: str, step: int, size: int, mtime_ns: int, content: str | None) -> bool:
        """Whether a copy is the very one that was pruned; a re-saved step of the same number is a new one."""
        if (self.name, self.step) != (name, step):
            return False
        if self.content is not None and content is not None:
            return self.content == content
        return (self.size, self.mtime_ns) == (size, mtime_ns)


def line(stone: Tombstone, *, lifted: bool = False) -> bytes:
    data: dict[str, object] = {"name": stone.name, "step": stone.step, "size": stone.size, "mtime_ns": stone.mtime_ns}
    if stone.content is not None:
        data["content"] = stone.content
    if stone.parts:
        data["parts"] = stone.parts
    if lifted:
        data["lifted"] = True
    return b"\n" + json.dumps(data, separators=(",", ":")).encode() + b"\n"


def parse(data: bytes) -> list[Tombstone]:
    """Tombstones in force. Torn lines are passed over: their step was never withdrawn."""
    found: dict[Tombstone, None] = {}
    for text in data.split(b"\n"):
        if not text.strip():
            continue
        try:
            entry = json.loads(text)
            stone = Tombstone(str(entry["name"]), int(entry["step"]), int(entry["size"]), int(entry["mtime_ns"]),
                              entry.get("content"), tuple(map(str, entry.get("parts", ()))))  # fmt: skip
        except (ValueError, KeyError, TypeError):
            continue
        if entry.get("lifted"):
            found.pop(stone, None)
        else:
            found[stone] = None
    return list(found)


def parse_thinned(data: bytes) -> list[Tombstone]:
    """Those in force that speak of parts alone. They are few among many: other lines are not parsed."""
    return parse(b"\n".join(line for line in data.split(b"\n") if b'"parts"' in line)) if b'"parts"' in data else []


def binding(stones: Iterable[Tombstone], *, name: str, step: int, size: int, mtime_ns: int,
            content: str | None = None) -> Tombstone | None:  # fmt: skip
    """The tombstone that binds such a copy, if any does."""
    for stone in stones:
        if stone.binds(name=name, step=step, size=size, mtime_ns=mtime_ns, content=content):
            return stone
    return None
