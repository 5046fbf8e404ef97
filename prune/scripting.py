"""Planning and applying from Python: ``prune.load_settings``, ``prune.plan`` and ``prune.apply``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prune import engine
from prune.errors import UsageError
from prune.model import Outcome, Plan
from prune.settings.flags import RunFlags
from prune.settings.load import load
from prune.settings.schema import Settings

StrPath = str | os.PathLike[str]


def load_settings(
    config: StrPath | None = None,
    *,
    primary: StrPath | None = None,
    mirrors: Sequence[StrPath] = (),
    runs: Sequence[str] = (),
    **rules: Any,
) -> Settings:
    """Settings as the command line finds them.

    ``config`` is a ``prune.toml``; None with no ``primary`` looks where the commands look. ``primary`` with its
    ``mirrors`` describes one run without a file, and ``rules`` are the options of a run under their names in Python:
    ``keep_last=12``, ``keep_best="eval_loss:min"``, ``policy="hf-trainer"``, ``layout``, ``in_flight="5m"``, ``grace``.
    ``runs`` chooses runs of the file by name.

    Raises UsageError for anything that is wrong, naming file, key, value and the mend; Blocked when the directory of a
    run template cannot be listed.
    """
    unknown = sorted(rules.keys() - RunFlags.__dataclass_fields__.keys())
    if unknown:
        known = ", ".join(name for name in RunFlags.__dataclass_fields__ if name not in ("primary", "mirrors"))
        raise UsageError(f"{unknown[0]}={rules[unknown[0]]!r}: there is no such rule", mend=f"There are: {known}.")
    roots = tuple(os.fspath(mirror) for mirror in mirrors)
    flags = RunFlags(primary=None if primary is None else os.fspath(primary), mirrors=roots, **rules)
    return load(None if config is None else os.fspath(config), flags, runs)


def plan(settings: Settings | StrPath) -> Plan:
    """What would be kept and deleted in every run, and why. Writes nothing, anywhere.

    ``settings`` are those of :func:`load_settings`, or the path of a ``prune.toml``. Trouble with a replica becomes a
    block in the run's plan; raises UsageError for settings that cannot be.
    """
    return engine.plan(settings if isinstance(settings, Settings) else load_settings(settings))


def apply(plan: Plan | StrPath, *, wait: float = 0.0, allow_many: bool = False, allow_rewound: bool = False) -> Outcome:
    """Carries a plan out: at most what it deletes, cut down to what a fresh plan made under the locks still deletes.

    ``plan`` is that of :func:`plan`, or the path of one that ``prune plan --out`` wrote: where the configuration that
    this was made from was changed since, what it keeps now stays too. ``wait`` is how many seconds
    to wait for a lock that another holds; ``allow_many`` and ``allow_rewound`` lift those two brakes. What each run met
    is told in its outcome (deleted, guarded, gone, failed, blocked), never raised; raises UsageError for a plan that
    cannot be applied.
    """
    if not isinstance(plan, Plan):
        from prune.reviewing import reviewed_plan

        reviewed = reviewed_plan(os.fspath(plan))
        plan = replace(reviewed.plan, settings=reviewed.settings)
    if not isinstance(plan.settings, Settings):
        raise UsageError("this plan does not say by which settings it was made", mend="Make it by prune.plan.")
    conduct = engine.Conduct(wait_ns=int(wait * 10**9), allow_many=allow_many, allow_rewound=allow_rewound)
    return engine.apply(plan.settings, reviewed=plan, conduct=conduct)
