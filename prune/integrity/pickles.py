"""Reads pickles as data: an opcode reader that looks up, imports, calls and constructs nothing.

What a pickle would have looked up by name is a :class:`Global`, what it would have called or constructed is an
inert :class:`Opaque`; the rest is None, booleans, numbers, strings, bytes, lists, tuples and dicts. Time and memory
are bounded by the length of the data and by a number of opcodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from prune.integrity.pickle_machine import Machine
from prune.integrity.pickle_values import BeyondBounds, CutPickle, Global, Opaque, UnreadablePickle

__all__ = ["BeyondBounds", "CutPickle", "Global", "Opaque", "UnreadablePickle", "load", "walk"]

MOST_OPCODES = 8_000_000
MOST_BYTES = 64 << 20


def load(data: bytes, start: int = 0) -> tuple[object, int]:
    """The value of the pickle that begins at ``start``, and where it ends.

    Nesting is as deep as the data says: walk a value with :func:`walk`, not by recursion.
    Raises UnreadablePickle; CutPickle and BeyondBounds are told apart.
    """
    if len(data) > MOST_BYTES:
        raise BeyondBounds(f"{len(data)} bytes are more than are read")
    machine = Machine(data, start)
    try:
        return machine.run(MOST_OPCODES), machine.at
    except (IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, UnreadablePickle):
            raise
        raise UnreadablePickle(f"no pickle, at byte {machine.at}") from None


def walk(value: object) -> Iterator[object]:
    """Every value in a value, itself first, each container once, without recursion."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        found = waiting.pop()
        yield found
        if not isinstance(found, list | tuple | dict | Opaque) or id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, Opaque):
            waiting += (found.args, found.state, *found.items)
        elif isinstance(found, dict):
            waiting += found.values()
        else:
            waiting += found
