"""The pickle virtual machine without anything that acts. Opcodes: python/cpython, ``Lib/pickletools.py``."""

from __future__ import annotations

import struct
from collections.abc import Callable

from prune.integrity.pickle_values import (
    LONGEST_NAME,
    BeyondBounds,
    CutPickle,
    Global,
    Opaque,
    UnreadablePickle,
    append_to,
    global_name,
    made,
    set_items,
)

_LONGEST_NUMBER = 100  # digits, where numbers are text
_U16, _I32, _U32, _U64 = (struct.Struct(form) for form in ("<H", "<i", "<I", "<Q"))
_F64 = struct.Struct(">d")


class Machine:
    """The pickle virtual machine, without anything that acts."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}

    def run(self, most: int) -> object:
        """The value of the pickle, from ``at`` to its STOP. Raises UnreadablePickle, and what malformed bytes cause."""
        data, end, table = self.data, len(self.data), _OPCODES
        for _ in range(most):
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
        raise BeyondBounds(f"more than {most} opcodes")

    def take(self, length: int) -> bytes:
        found = self.data[self.at : self.at + length]
        if len(found) < length:
            raise CutPickle(f"the pickle reaches past its {len(self.data)} bytes")
        self.at += length
        return found

    def number(self, form: struct.Struct) -> int:
        try:
            found: int = form.unpack_from(self.data, self.at)[0]
        except struct.error:
            raise CutPickle(f"the pickle reaches past its {len(self.data)} bytes") from None
        self.at += form.size
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


Act = Callable[[Machine], None]


def _constant(value: object) -> Act:
    return lambda m: m.stack.append(value)


def _numbered(form: struct.Struct) -> Act:
    return lambda m: m.stack.append(m.number(form))


def _blob(form: struct.Struct, *, text: bool) -> Act:
    def act(m: Machine) -> None:
        found = m.take(m.number(form))
        m.stack.append(found.decode("utf-8", "surrogatepass") if text else found)

    return act


def _latin(form: struct.Struct) -> Act:
    return lambda m: m.stack.append(m.take(m.number(form)).decode("latin-1"))


def _long(form: struct.Struct) -> Act:
    return lambda m: m.stack.append(int.from_bytes(m.take(m.number(form)), "little", signed=True))


def _tuple(length: int) -> Act:
    def act(m: Machine) -> None:
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


def _text_int(m: Machine) -> None:
    text = m.line(_LONGEST_NUMBER)
    m.stack.append(text == b"01" if text in (b"00", b"01") else int(text))


def _text_string(m: Machine) -> None:
    m.stack.append(m.line().strip(b"'\"").decode("latin-1"))


def _pop(m: Machine) -> None:
    if m.marks and m.marks[-1] == len(m.stack):
        m.marks.pop()
    else:
        m.stack.pop()


def _stack_global(m: Machine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    m.stack.append(global_name(module, name))


def _line_global(m: Machine) -> Global:
    return global_name(m.line(LONGEST_NAME).decode(), m.line(LONGEST_NAME).decode())


def _reduce(m: Machine) -> None:
    args, maker = m.stack.pop(), m.stack.pop()
    m.stack.append(made(maker, args))


def _new_object_with_names(m: Machine) -> None:
    named, args, maker = m.stack.pop(), m.stack.pop(), m.stack.pop()
    found = made(maker, args)
    m.stack.append(Opaque(found.name, (args, named)) if isinstance(found, Opaque) else found)


def _object(m: Machine) -> None:
    maker, *args = m.above_mark()
    m.stack.append(made(maker, tuple(args)))


def _instance(m: Machine) -> None:
    maker = _line_global(m)
    m.stack.append(made(maker, tuple(m.above_mark())))


def _build(m: Machine) -> None:
    state = m.stack.pop()
    if isinstance(target := m.stack[-1], Opaque):
        target.state = state


def _set_item(m: Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    set_items(m.stack[-1], [key, value])


def _dict(m: Machine) -> None:
    found: dict[object, object] = {}
    set_items(found, m.above_mark())
    m.stack.append(found)


def _skip(m: Machine, length: int) -> None:
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
        b"a": lambda m: append_to(m.stack[-2], [m.stack.pop()]),
        b"e": lambda m: append_to(m.stack[m.marks[-1] - 1], m.above_mark()),
        b")": _constant(()),
        b"t": lambda m: m.stack.append(tuple(m.above_mark())),
        b"\x85": _tuple(1),
        b"\x86": _tuple(2),
        b"\x87": _tuple(3),
        b"}": lambda m: m.stack.append({}),
        b"d": _dict,
        b"s": _set_item,
        b"u": lambda m: set_items(m.stack[m.marks[-1] - 1], m.above_mark()),
        b"\x8f": lambda m: m.stack.append([]),  # a set, as the list of its elements
        b"\x90": lambda m: append_to(m.stack[m.marks[-1] - 1], m.above_mark()),
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
