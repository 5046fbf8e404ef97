"""Reads pickles as data: an opcode reader that looks up, imports, calls and constructs nothing.

What a pickle would have looked up by name is a :class:`Global`, what it would have called or constructed is an
inert :class:`Opaque`; the rest is None, booleans, numbers, strings, bytes, lists, tuples and dicts. Time and memory
are bounded by the length of the data and by a number of opcodes. Opcodes: python/cpython, ``Lib/pickletools.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MOST_OPCODES = 8_000_000
MOST_BYTES = 64 << 20
_LONGEST_NAME = 512  # of a module or class; strings of any length can be pushed again and again for two bytes
_LONGEST_NUMBER = 100  # digits, where numbers are text
_DICTS = frozenset({"collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict"})
_U16, _I32, _U32, _U64 = (struct.Struct(form) for form in ("<H", "<i", "<I", "<Q"))
_F64 = struct.Struct(">d")


class UnreadablePickle(ValueError):
    """The bytes are no pickle, or none that is read here."""


class CutPickle(UnreadablePickle):
    """The bytes end before the pickle does."""


class BeyondBounds(UnreadablePickle):
    """The pickle may be a good one, but is longer than is read here."""


class Global(str):
    """A name (``module.attribute``) that a pickle would have looked up."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Opaque:
    """What a pickle would have constructed: by what name, from which arguments, with which state and items."""

    name: str
    args: object = ()
    state: object = None
    items: list[object] = field(default_factory=list)  # appended values, or (key, value) pairs

    def get(self, name: str) -> object:
        """An attribute out of the state, or None."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2:  # (None, attributes in slots)
            state = state[1]
        return state.get(name) if isinstance(state, dict) else None


def load(data: bytes, start: int = 0) -> tuple[object, int]:
    """The value of the pickle that begins at ``start``, and where it ends.

    Nesting is as deep as the data says: walk a value with :func:`walk`, not by recursion.
    Raises UnreadablePickle; CutPickle and BeyondBounds are told apart.
    """
    if len(data) > MOST_BYTES:
        raise BeyondBounds(f"{len(data)} bytes are more than are read")
    machine = _Machine(data, start)
    try:
        return machine.run(), machine.at
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


class _Machine:
    """The pickle virtual machine, without anything that acts."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}

    def run(self) -> object:
        data, end, table = self.data, len(self.data), _OPCODES
        for _ in range(MOST_OPCODES):
            if self.at >= end:
                raise CutPickle(f"the pickle does not end in its {end} bytes")
            code = data[self.at]
            self.at += 1
            if code == 0x2E:  # STOP
                return self.stack[-1]
            act = table[code]
            if act is None:
                raise UnreadablePickle(f"no pickle: opcode {code:#04x} at byte {self.at - 1}")
            act(self)
        raise BeyondBounds(f"more than {MOST_OPCODES} opcodes")

    def take(self, length: int) -> bytes:
        found = self.data[self.at : self.at + length]
        if len(found) < length:
            raise CutPickle(f"the pickle reaches past its {len(self.data)} bytes")
        self.at += length
        return found

    def number(self, form: struct.Struct) -> int:
        found: int = form.unpack(self.take(form.size))[0]
        return found

    def line(self, longest: int | None = None) -> bytes:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise CutPickle("the pickle ends in a line of text")
        found = self.data[self.at : end]
        self.at = end + 1
        if longest is not None and len(found) > longest:
            raise UnreadablePickle(f"a number or name of {len(found)} characters")
        return found

    def above_mark(self) -> list[object]:
        mark = self.marks.pop()
        found = self.stack[mark:]
        del self.stack[mark:]
        return found

    def remember(self, key: int) -> None:
        self.memo[key] = self.stack[-1]


def _global(module: object, name: object) -> Global:
    if not isinstance(module, str) or not isinstance(name, str) or len(module) + len(name) > _LONGEST_NAME:
        raise UnreadablePickle("a name that is none")
    return Global(f"{module}.{name}")


def _made(maker: object, args: object) -> object:
    """What calling ``maker`` stands for; empty dicts of known kinds are dicts."""
    if not isinstance(maker, Global):
        return Opaque("", (maker, args))
    if maker in _DICTS and (args == () or maker == "collections.defaultdict"):
        return {}
    if maker in ("copyreg._reconstructor", "copy_reg._reconstructor") and isinstance(args, tuple) and args:
        return Opaque(str(args[0]) if isinstance(args[0], Global) else "", args)
    return Opaque(str(maker), args)


def _key(key: object) -> object:
    """A dict's key that hashes in constant time; anything else is kept in an Opaque, which hashes by identity."""
    if key is None or isinstance(key, str | bytes | bool | float | Opaque):
        return key
    if isinstance(key, int) and key.bit_length() <= 64:
        return key
    return Opaque("key", key)


def _set_items(target: object, flat: list[object]) -> None:
    keys, values = flat[::2], flat[1::2]
    if len(keys) != len(values):
        raise UnreadablePickle("a key without a value")
    if isinstance(target, dict):
        for key, value in zip(keys, values, strict=True):
            target[_key(key)] = value
    elif isinstance(target, Opaque):
        target.items.extend(zip(keys, values, strict=True))
    else:
        raise UnreadablePickle("items set on what has none")


def _append(target: object, values: list[object]) -> None:
    if isinstance(target, list):
        target.extend(values)
    elif isinstance(target, Opaque):
        target.items.extend(values)
    else:
        raise UnreadablePickle("values appended to what takes none")


Act = Callable[[_Machine], None]


def _constant(value: object) -> Act:
    return lambda m: m.stack.append(value)


def _numbered(form: struct.Struct) -> Act:
    return lambda m: m.stack.append(form.unpack(m.take(form.size))[0])


def _blob(form: struct.Struct, *, text: bool) -> Act:
    def act(m: _Machine) -> None:
        found = m.take(m.number(form))
        m.stack.append(found.decode("utf-8", "surrogatepass") if text else found)

    return act


def _latin(form: struct.Struct) -> Act:
    return lambda m: m.stack.append(m.take(m.number(form)).decode("latin-1"))


def _long(form: struct.Struct) -> Act:
    return lambda m: m.stack.append(int.from_bytes(m.take(m.number(form)), "little", signed=True))


def _tuple(length: int) -> Act:
    def act(m: _Machine) -> None:
        if len(m.stack) < length:
            raise UnreadablePickle("a tuple of more than there is")
        found = tuple(m.stack[-length:])
        del m.stack[-length:]
        m.stack.append(found)

    return act


def _put(form: struct.Struct) -> Act:
    return lambda m: m.remember(m.number(form))


def _get(form: struct.Struct) -> Act:
    return lambda m: m.stack.append(m.memo[m.number(form)])


def _extension(form: struct.Struct) -> Act:
    return lambda m: m.stack.append(Opaque("extension", m.number(form)))


def _text_int(m: _Machine) -> None:
    text = m.line(_LONGEST_NUMBER)
    m.stack.append(text == b"01" if text in (b"00", b"01") else int(text))


def _text_string(m: _Machine) -> None:
    m.stack.append(m.line().strip(b"'\"").decode("latin-1"))


def _pop(m: _Machine) -> None:
    if m.marks and m.marks[-1] == len(m.stack):
        m.marks.pop()
    else:
        m.stack.pop()


def _stack_global(m: _Machine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    m.stack.append(_global(module, name))


def _line_global(m: _Machine) -> Global:
    return _global(m.line(_LONGEST_NAME).decode(), m.line(_LONGEST_NAME).decode())


def _reduce(m: _Machine) -> None:
    args, maker = m.stack.pop(), m.stack.pop()
    m.stack.append(_made(maker, args))


def _new_object_with_names(m: _Machine) -> None:
    named, args, maker = m.stack.pop(), m.stack.pop(), m.stack.pop()
    made = _made(maker, args)
    m.stack.append(Opaque(made.name, (args, named)) if isinstance(made, Opaque) else made)


def _object(m: _Machine) -> None:
    maker, *args = m.above_mark()
    m.stack.append(_made(maker, tuple(args)))


def _instance(m: _Machine) -> None:
    maker = _line_global(m)
    m.stack.append(_made(maker, tuple(m.above_mark())))


def _build(m: _Machine) -> None:
    state = m.stack.pop()
    if isinstance(target := m.stack[-1], Opaque):
        target.state = state


def _set_item(m: _Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    _set_items(m.stack[-1], [key, value])


def _dict(m: _Machine) -> None:
    found: dict[object, object] = {}
    _set_items(found, m.above_mark())
    m.stack.append(found)


def _skip(m: _Machine, length: int) -> None:
    m.take(length)


def _table() -> list[Act | None]:
    byte = struct.Struct("B")
    acts: dict[bytes, Act] = {
        b"(": lambda m: m.marks.append(len(m.stack)),
        b"0": _pop,
        b"1": lambda m: m.above_mark().clear(),
        b"2": lambda m: m.stack.append(m.stack[-1]),
        b"F": lambda m: m.stack.append(float(m.line(_LONGEST_NUMBER))),
        b"G": _numbered(_F64),
        b"I": _text_int,
        b"J": _numbered(_I32),
        b"K": _numbered(byte),
        b"L": lambda m: m.stack.append(int(m.line(_LONGEST_NUMBER).rstrip(b"L"))),
        b"M": _numbered(_U16),
        b"\x8a": _long(byte),
        b"\x8b": _long(_U32),
        b"N": _constant(None),
        b"\x88": _constant(True),
        b"\x89": _constant(False),
        b"S": _text_string,
        b"T": _latin(_U32),
        b"U": _latin(byte),
        b"V": lambda m: m.stack.append(m.line().decode("raw-unicode-escape")),
        b"X": _blob(_U32, text=True),
        b"\x8c": _blob(byte, text=True),
        b"\x8d": _blob(_U64, text=True),
        b"B": _blob(_U32, text=False),
        b"C": _blob(byte, text=False),
        b"\x8e": _blob(_U64, text=False),
        b"\x96": _blob(_U64, text=False),
        b"\x97": lambda m: m.stack.append(Opaque("buffer")),
        b"\x98": lambda m: None,
        b"]": lambda m: m.stack.append([]),
        b"l": lambda m: m.stack.append(m.above_mark()),
        b"a": lambda m: _append(m.stack[-2], [m.stack.pop()]),
        b"e": lambda m: _append(m.stack[m.marks[-1] - 1], m.above_mark()),
        b")": _constant(()),
        b"t": lambda m: m.stack.append(tuple(m.above_mark())),
        b"\x85": _tuple(1),
        b"\x86": _tuple(2),
        b"\x87": _tuple(3),
        b"}": lambda m: m.stack.append({}),
        b"d": _dict,
        b"s": _set_item,
        b"u": lambda m: _set_items(m.stack[m.marks[-1] - 1], m.above_mark()),
        b"\x8f": lambda m: m.stack.append([]),  # a set, as the list of its elements
        b"\x90": lambda m: _append(m.stack[m.marks[-1] - 1], m.above_mark()),
        b"\x91": lambda m: m.stack.append(tuple(m.above_mark())),
        b"p": lambda m: m.remember(int(m.line(_LONGEST_NUMBER))),
        b"q": _put(byte),
        b"r": _put(_U32),
        b"\x94": lambda m: m.remember(len(m.memo)),
        b"g": lambda m: m.stack.append(m.memo[int(m.line(_LONGEST_NUMBER))]),
        b"h": _get(byte),
        b"j": _get(_U32),
        b"c": lambda m: m.stack.append(_line_global(m)),
        b"\x93": _stack_global,
        b"R": _reduce,
        b"\x81": _reduce,  # NEWOBJ: the same to who constructs nothing
        b"\x92": _new_object_with_names,
        b"o": _object,
        b"i": _instance,
        b"b": _build,
        b"P": lambda m: m.stack.append(Opaque("persistent id", m.line().decode("latin-1"))),
        b"Q": lambda m: m.stack.append(Opaque("persistent id", m.stack.pop())),
        b"\x82": _extension(byte),
        b"\x83": _extension(_U16),
        b"\x84": _extension(_U32),
        b"\x80": lambda m: _skip(m, 1),  # PROTO
        b"\x95": lambda m: _skip(m, 8),  # FRAME: a hint for unpicklers that read ahead
    }
    table: list[Act | None] = [None] * 256
    for code, act in acts.items():
        table[code[0]] = act
    return table


_OPCODES = _table()
