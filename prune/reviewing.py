"""By which settings a reviewed plan is carried out: its own, or its configuration as it was changed since."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from prune.errors import UsageError
from prune.model import SECOND, Plan
from prune.report.reviewed import check_same_roots, read_plan
from prune.settings.files import read_toml
from prune.settings.load import load, state_of
from prune.settings.policies import find
from prune.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A plan that somebody looked at, and the settings to carry it out by."""

    plan: Plan
    settings: Settings
    changed: str | None = None  # the file of its configuration that is newer than it


def reviewed_plan(plan_file: str) -> Reviewed:
    """The plan in a file. Where its configuration, or a policy that this names, was changed since, no step goes that
    the changed one keeps; where it is gone, the plan brings all that is needed.

    Raises UsageError for a file that is no plan, and for a changed configuration that is wrong or has other roots.
    """
    plan = read_plan(plan_file)
    config = plan.settings.source
    changed = config and _newer(config, _made_ns(plan, plan_file))
    if not config or not changed:
        return Reviewed(plan, replace(plan.settings, state=state_of(config)))
    settings = load(config, None, tuple(run.run for run in plan.runs))
    check_same_roots(plan, settings, source=plan_file)
    return Reviewed(plan, settings, changed)


def _made_ns(plan: Plan, plan_file: str) -> int:
    """A plan's own time is in whole seconds, and its file may be a later copy."""
    return min(os.stat(plan_file).st_mtime_ns, plan.created_at_ns + SECOND)


def _newer(config: str, made_ns: int) -> str | None:
    """The first file of a configuration that was written, or put in its place, after the plan was made."""
    for path in _files(config):
        try:
            status = os.stat(path)
        except OSError:
            continue
        if max(status.st_mtime_ns, status.st_ctime_ns) > made_ns:
            return path
    return None


def _files(config: str) -> Iterator[str]:
    """The configuration, and the policies its runs name, as far as they can be found."""
    yield config
    try:
        runs = read_toml(config).get("runs", [])
    except UsageError:
        return
    for run in runs if isinstance(runs, list) else []:
        try:
            yield find(os.path.expandvars(run["policy"]), beside=os.path.dirname(config))
        except (KeyError, TypeError, UsageError):
            continue
