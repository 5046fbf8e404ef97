"""How names of checkpoints are read: step numbers, the temporaries of writers and copiers, metrics in names.

Everything is a full match over bytes-as-text: names may hold newlines and undecodable bytes, so patterns use neither
``$`` nor a bare ``.``, and digits are ASCII digits only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

DIGITS = r"[0-9]{1,18}"  # a longer number fits no 64-bit counter, so it is no step
LARGEST_STEP = 10**18 - 1

# Suffixes under which programs write NAME before it gets its name: ours and most downloaders' (.part), rsync
# --partial and rclone (.partial, .<8 hex digits>.partial), torch-atomic-save (.staging, .atomic_tmp),
# Orbax (.orbax-checkpoint-tmp), tempfile users (.tmp and .tmp with random letters).
_SUFFIX = re.compile(
    r"(?P<name>.+?)"
    r"(?:\.part|\.partial|\.[0-9a-f]{8}\.partial|\.filepart|\.incomplete|\.inprogress"
    r"|\.temp|\.tmp(?:[._-]?[A-Za-z0-9_]{1,16})?|[_-]tmp|\.staging|\.atomic_tmp"
    r"|\.orbax-checkpoint-tmp(?:-[0-9]+)?)",
    re.DOTALL,
)
_PREFIX = re.compile(r"(?:\.?(?:tmp|temp|staging|partial)[-_.])(?P<name>.+)", re.DOTALL)
# rsync's own temporaries: a dot, the name, a dot and six random letters and digits. Words people append themselves
# (.backup) have no digit and no capital; names of checksums are none either.
_RSYNC = re.compile(r"\.(?P<name>.+)\.(?=[A-Za-z0-9]*[A-Z0-9])(?!sha256)[A-Za-z0-9]{6}", re.DOTALL)
# safetensors writes to such a file in the same directory before it renames it; it names no step.
_NAMELESS = re.compile(r"\.tmp[A-Za-z0-9]{6}")

# A million foreign names must cost little: only names with such a word, or hidden ones, are looked at closely.
_MAYBE = re.compile(r"\A\.|tmp|temp|part|staging|incomplete|inprogress")

_PAIR = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_/.]*?)=(?P<value>[-+]?(?:[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|nan|inf))"
    r"(?=[-_,]|\Z)",
    re.IGNORECASE,
)
COUNTERS = frozenset({"epoch", "step", "global_step", "batch", "v"})


def written_for(name: str) -> Iterator[str]:
    """The final names that a temporary name may be written for; nothing for a name that is no temporary."""
    if _MAYBE.search(name) is None:
        return
    for pattern in (_SUFFIX, _PREFIX, _RSYNC):
        found = pattern.fullmatch(name)
        if found is not None:
            yield found["name"]


def prefixed(name: str) -> bool:
    """Whether a name says at its start that it is a temporary: ``tmp-step_60.pt``, ``.staging-000400``."""
    return _PREFIX.fullmatch(name) is not None


def nameless_temporary(name: str) -> bool:
    """Whether this is a temporary that tells no step."""
    return name.startswith(".tmp") and _NAMELESS.fullmatch(name) is not None


def metrics(stem: str) -> dict[str, float]:
    """The ``name=value`` pairs in a name, counters left out: ``epoch=1-step=40-val_loss=0.21`` has one."""
    found: dict[str, float] = {}
    for pair in _PAIR.finditer(stem):
        name = pair["name"].rpartition("/")[2].lstrip("_")
        if name.lower() not in COUNTERS:
            found[name] = float(pair["value"])
    return {name: value for name, value in found.items() if not math.isinf(value)}
