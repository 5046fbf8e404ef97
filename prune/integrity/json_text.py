"""JSON beside the payload: text that begins an object or a list and never closes it was cut.

Nothing is said of what it means. Several documents in one file are as good as one, and so are comments: only how the
brackets pair tells.
"""

from __future__ import annotations

import re

from prune.integrity.window import Damage, Window

_LONGEST = 64 << 10  # bytes looked at in full; of longer text only both ends, where most cuts show
_CLOSING = {b"{": b"}", b"[": b"]"}
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def check(window: Window) -> bool:
    """False, for brackets prove nothing. Raises Damage where the text was cut, or zeroed in part."""
    if window.blank:
        raise Damage(f"{window.size} bytes, all zero: nothing was written there")
    opening = window.head.lstrip()[:1]
    if opening not in _CLOSING or b"\0" in window.head[:4]:  # no object or list; UTF-16
        return False
    text = window.head if window.size <= len(window.head) else window.read(0, _LONGEST)
    whole = len(text) == window.size
    end = text if whole else window.tail
    if b"\0" in text or b"\0" in end:
        raise Damage(f"zero bytes in the text of {window.size}: parts of it were never written")
    if not end.rstrip().endswith(_CLOSING[opening]) or (whole and _stays_open(text)):
        raise Damage(f"its {window.size} bytes end before what they begin: it was cut")
    return False


def _stays_open(text: bytes) -> bool:
    bare = _STRING.sub(b"", text)
    return any(bare.count(opening) > bare.count(closing) for opening, closing in _CLOSING.items())
