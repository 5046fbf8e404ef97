"""Settings from prune.toml, the environment and the command line; later wins.

A run given whole on the command line reads no file, and imports nothing that only files and variables need.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prune import logs
from prune.errors import UsageError
from prune.model import Attention
from prune.settings import checks, files, keys, templates
from prune.settings.flags import RunFlags
from prune.settings.keys import Where
from prune.settings.roots import check_apart, forget_places
from prune.settings.runs import COMMAND_LINE, Source, ad_hoc, flag_mirrors, flag_replicas, read_run
from prune.settings.schema import Notify, RunSettings, Service, Settings

__all__ = ["RunFlags", "load"]


def load(config: str | None = None, flags: RunFlags | None = None, run_names: Sequence[str] = ()) -> Settings:
    """The settings of this call, checked.

    ``config`` is the file named by ``--config``, ``run_names`` the runs chosen by ``--run`` (none: all). With
    ``flags.primary`` and no ``config`` the command line alone describes one run. Raises UsageError for anything that
    is wrong, naming file, key, value and the mend; Blocked when the directory of a run template cannot be listed.
    """
    forget_places()
    if flags is not None and flags.primary is not None and config is None:
        return _from_command_line(flags, run_names)
    return _from_file(config, flags, run_names)


def _from_command_line(flags: RunFlags, run_names: Sequence[str]) -> Settings:
    run = ad_hoc(flags)
    if any(name != run.name for name in run_names):
        raise UsageError(
            f"--run {run_names[0]} chooses among the runs of a configuration, and --primary describes one right here",
            mend="Give one of them, or name the configuration by --config.",
        )
    runs, notices = _matched([run])
    if not runs:
        raise _no_run(notices, COMMAND_LINE.source)
    check_apart(runs)
    return Settings(runs=tuple(runs), state=_state_variable(), notices=notices)


def _from_file(config: str | None, flags: RunFlags | None, run_names: Sequence[str]) -> Settings:
    document = _document(config)
    runs, notices = _matched([*_runs(document, flags)])
    if not runs:
        raise _no_run(notices, document.where.source)
    _check_names(runs)
    chosen = _chosen(runs, run_names, document.where.source)
    if flags is not None and (flags.primary is not None or flags.mirrors):
        override = _with_roots(chosen, flags)
        runs = [override if run.name == override.name else run for run in runs]
        chosen = [override]
    check_apart(runs)
    service = document.values.get("service", {})
    fleet = keys.read(document.values.get("fleet", {}), keys.FLEET, document.where.down("fleet"))
    _check_groups(runs, fleet, document.where)
    return Settings(
        runs=tuple(chosen),
        state=document.values.get("state"),
        service=_service(service, document.where.down("service")),
        source=os.path.abspath(document.path) if document.path else None,
        fleet_budget=fleet.get("budget"),
        fleet_groups=fleet.get("groups", {}),
        fleet=tuple(runs) if fleet else (),
        notices=notices,
    )


def _check_groups(runs: Iterable[RunSettings], fleet: Mapping[str, Any], where: Where) -> None:
    """A budget that no run shares would be no budget: a group is misspelt on one side or the other."""
    groups = {run.group for run in runs if run.group is not None}
    for name in fleet.get("groups", {}):
        if name not in groups:
            near = keys.nearest(name, sorted(groups))
            mend = f"Did you mean {near!r}?" if near else 'Give the runs that share it group = "…".'
            raise where.down("fleet").refusal("groups", name, "no run belongs to this group", mend=mend)


@dataclass(frozen=True, slots=True)
class _Document:
    """prune.toml with the variables over it; only its top has been read yet."""

    values: Mapping[str, Any]
    where: Where
    path: str | None  # None: variables alone

    @property
    def folder(self) -> str:
        """Where policies named by a relative path are looked for."""
        return os.path.dirname(os.path.abspath(self.path or "prune.toml"))


def _document(config: str | None) -> _Document:
    path = files.find_config(config, os.environ)
    varied = files.has_variables(os.environ)
    if path is None and not varied:
        looked = ", ".join(files.search_path())
        raise UsageError(
            f"there is no configuration (looked for {looked})",
            mend="Name the directory of one run by --primary, write a file by `prune init`, or name one by --config.",
        )
    where = Where(path or "environment")
    values = files.expanded(files.read_toml(path), where, os.environ) if path else {}
    keys.read(values, keys.TOP, where)
    if stray := files.stray(os.environ):
        logs.warning(stray)
    if varied:
        from prune.settings.variables import overlaid

        values, origins = overlaid(values)
        where = replace(where, variables=origins)
    elif (state := _state_variable()) is not None:
        values = {**values, "state": state}
    return _Document(keys.read(values, keys.TOP, where), where, path)


def _runs(document: _Document, flags: RunFlags | None) -> Iterator[RunSettings]:
    tables = document.values.get("runs", [])
    if not isinstance(tables, list):
        raise document.where.refusal("runs", tables, "must be tables", mend="Begin each run with [[runs]].")
    for index, table in enumerate(tables):
        yield read_run(table, Source(document.where.down(f"runs[{index}]"), document.folder), flags)
    if not tables and flags is not None and flags.primary is not None:
        yield ad_hoc(flags)


def _matched(runs: Iterable[RunSettings]) -> tuple[list[RunSettings], tuple[Attention, ...]]:
    """The runs with every template replaced by what it stands for, and what to tell about one that stands for none."""
    found: list[RunSettings] = []
    notices = []
    for run in runs:
        if not templates.is_template(run.primary.root):
            found.append(run)
            continue
        matches = list(templates.matches(run))
        found += matches
        if not matches:
            detail = f"no directory fits {run.primary.root}: there is no run of this template"
            notices.append(Attention("no-run", "primary", detail, "Is it mounted, and is the path right?"))
    return found, tuple(notices)


def _no_run(notices: tuple[Attention, ...], source: str) -> UsageError:
    if notices:
        return UsageError(f"{source}: {notices[0].detail}", mend=notices[0].mend)
    return UsageError(
        f"{source}: there is no run in it", mend="Add a [[runs]] table with a primary, or give --primary."
    )


def _check_names(runs: Iterable[RunSettings]) -> None:
    seen: dict[str, RunSettings] = {}
    for run in runs:
        if run.name in seen:
            raise UsageError(
                f"two runs are called {run.name!r}: {seen[run.name].primary.root} and {run.primary.root}",
                mend='Give each a name = "…" of its own.',
            )
        seen[run.name] = run


def _chosen(runs: list[RunSettings], run_names: Sequence[str], source: str) -> list[RunSettings]:
    by_name = {run.name: run for run in runs}
    for name in run_names:
        if name not in by_name:
            near = keys.nearest(name, list(by_name))
            some = ", ".join(sorted(by_name)[:20])
            raise UsageError(
                f"--run {name}: {source} has no such run",
                mend=f"Did you mean {near!r}?" if near else f"Its runs: {some}.",
            )
    return [by_name[name] for name in dict.fromkeys(run_names)] if run_names else runs


def _with_roots(chosen: list[RunSettings], flags: RunFlags) -> RunSettings:
    """The one chosen run with its roots replaced: given a primary, only the mirrors given with it belong to it."""
    if len(chosen) != 1:
        flag = "--primary" if flags.primary is not None else "--mirror"
        raise UsageError(
            f"{flag} replaces the roots of one run, and {len(chosen)} are chosen", mend="Choose one by --run."
        )
    run = chosen[0]
    if flags.primary is not None:
        return replace(run, replicas=flag_replicas(flags))
    return replace(run, replicas=(run.primary, *flag_mirrors(flags)))


def _service(table: object, where: Where) -> Service:
    values = keys.read(table, keys.SERVICE, where)
    if "notify" in values:
        values["notify"] = Notify(**keys.read(values["notify"], keys.NOTIFY, where.down("notify")))
    notify: Notify = values.get("notify", Notify())
    for secret in (values.get("token"), notify.webhook, *notify.apprise):
        logs.hide(secret)
    return Service(**values)


def state_of(config: str | None) -> str | None:
    """Where the journal is, by the variable or a configuration: the one named, or the one that would be found."""
    if (state := _state_variable()) is not None:
        return state
    path = config if config is not None and os.path.isfile(config) else None
    path = path or files.find_config(None, os.environ)
    if path is None:
        return None
    where = Where(path)
    said = files.read_toml(path).get("state")
    return keys.read(files.expanded({"state": said}, where, os.environ), keys.TOP, where)["state"] if said else None


def _state_variable() -> str | None:
    """Where the journal is, for a run that reads no file: it may still be shared."""
    state = os.environ.get("PRUNE_STATE")
    if state is None:
        return None
    try:
        return checks.state(state)
    except ValueError as error:
        raise UsageError(f"environment variable PRUNE_STATE = {state!r}: {error}") from None
