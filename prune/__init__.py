"""Retention for training checkpoints: decide which live and which die, on a primary and its mirrors, safely.

What is exported here loads when it is first used: ``import prune`` costs next to nothing in a training script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from prune.errors import Blocked as Blocked
    from prune.errors import Damaged as Damaged
    from prune.errors import NothingYet as NothingYet
    from prune.errors import PruneError as PruneError
    from prune.lease import lease as lease
    from prune.load import load_latest as load_latest
    from prune.publish import publish as publish
    from prune.publish import publish_directory as publish_directory
    from prune.resume import resume as resume
    from prune.scripting import apply as apply
    from prune.scripting import load_settings as load_settings
    from prune.scripting import plan as plan
    from prune.seal import seal as seal

_HOMES = {
    "Blocked": "prune.errors",
    "Damaged": "prune.errors",
    "NothingYet": "prune.errors",
    "PruneError": "prune.errors",
    "apply": "prune.scripting",
    "lease": "prune.lease",
    "load_latest": "prune.load",
    "load_settings": "prune.scripting",
    "plan": "prune.scripting",
    "publish": "prune.publish",
    "publish_directory": "prune.publish",
    "resume": "prune.resume",
    "seal": "prune.seal",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'prune' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
