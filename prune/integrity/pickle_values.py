"""What a pickle becomes where nothing is looked up, called or constructed."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST_NAME = 512  # of a module or class; strings of any length can be pushed again and again for two bytes
_DICTS = frozenset({"collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict"})


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

    @property
    def attributes(self) -> dict[object, object]:
        """The attributes that its state holds; none where that is no dict."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2:  # (None, attributes in slots)
            state = state[1]
        return state if isinstance(state, dict) else {}

    def get(self, name: str) -> object:
        """An attribute out of the state, or None."""
        return self.attributes.get(name)


def global_name(module: object, name: object) -> Global:
    if not isinstance(module, str) or not isinstance(name, str) or len(module) + len(name) > LONGEST_NAME:
        raise UnreadablePickle("a name that is none")
    return Global(f"{module}.{name}")


def made(maker: object, args: object) -> object:
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


def set_items(target: object, flat: list[object]) -> None:
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


def append_to(target: object, values: list[object]) -> None:
    if isinstance(target, list):
        target.extend(values)
    elif isinstance(target, Opaque):
        target.items.extend(values)
    else:
        raise UnreadablePickle("values appended to what takes none")
