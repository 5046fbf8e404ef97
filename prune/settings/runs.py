"""One run of the settings, from its table, its policy and the flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prune.settings import keys, policies, templates
from prune.settings.flags import RunFlags
from prune.settings.keys import Where, read
from prune.settings.roots import is_url, tidy
from prune.settings.rules import Rules, final_of, guards_of, keep_of, pressure_of, rules_of
from prune.settings.schema import ReplicaSettings, RunSettings

COMMAND_LINE = Where("command line")
_PRIMARY_CANNOT = ("name", "optional", "max_lag")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a table comes from: what relative policy files and (on the command line alone) roots start from."""

    where: Where
    folder: str  # of the file; policies named by a relative path are looked up here
    relative_roots: str | None = None


def read_run(table: object, source: Source, flags: RunFlags | None = None) -> RunSettings:
    """The run that one ``[[runs]]`` table describes, with the flags over it. Raises UsageError for what is wrong."""
    name = table.get("name") if isinstance(table, Mapping) else None
    where = replace(source.where, aka=name) if isinstance(name, str) else source.where
    values = read(table, keys.RUN, where)
    rules = rules_of(values, where)
    if "policy" in values:
        rules = rules.over(_policy(values["policy"], beside=source.folder))
    replicas = _replicas(values, where, source.relative_roots)
    return _built(values.get("name", ""), replicas, _with_flags(rules, flags))


def ad_hoc(flags: RunFlags) -> RunSettings:
    """The one run that the command line describes. Raises UsageError for what is wrong."""
    return _built("", flag_replicas(flags), _with_flags(Rules(COMMAND_LINE), flags))


def flag_replicas(flags: RunFlags) -> tuple[ReplicaSettings, ...]:
    """The primary and the mirrors of the command line; relative roots start from the current directory."""
    assert flags.primary is not None
    return (
        ReplicaSettings("primary", _flag_root("primary", flags.primary, flags), "primary"),
        *flag_mirrors(flags),
    )


def flag_mirrors(flags: RunFlags) -> tuple[ReplicaSettings, ...]:
    return tuple(
        ReplicaSettings(mirror_name(index), _flag_root("mirror", root, flags), "mirror")
        for index, root in enumerate(flags.mirrors)
    )


def mirror_name(index: int) -> str:
    """``mirror``, ``mirror-2``, …: by place, so that naming one leaves the others' names as they are."""
    return "mirror" if index == 0 else f"mirror-{index + 1}"


def default_name(root: str) -> str:
    """A run without a name is called by its primary's last path part; what cannot be shown of it is escaped."""
    name = root.rstrip("/").rpartition("/")[2] or root
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in name)


def _built(name: str, replicas: tuple[ReplicaSettings, ...], rules: Rules) -> RunSettings:
    keep = keep_of(rules)
    if not name and not templates.is_template(replicas[0].root):
        name = default_name(replicas[0].root)
    return RunSettings(
        name=name,
        replicas=replicas,
        keep=keep,
        guards=guards_of(rules),
        pressure=pressure_of(rules, keep),
        final=final_of(rules),
        **rules.top,
    )


def _with_flags(rules: Rules, flags: RunFlags | None) -> Rules:
    if flags is None:
        return rules
    if flags.policy is not None:
        rules = _policy(flags.policy, beside=os.getcwd()).over(replace(rules, final=None))
    said = flags.rules()
    top = rules_of(said, COMMAND_LINE) if said else Rules(COMMAND_LINE)
    above = Rules(rules.where, top.top, flags.keep(), flags.guards())
    if above.keep:  # who says for this call what is kept says it of finished runs too
        rules = replace(rules, final=None)
    return above.over(rules)


def _policy(name: str, *, beside: str) -> Rules:
    table, where = policies.load(name, beside=beside)
    rules = rules_of(read(table, keys.POLICY, where), where)
    return Rules(where, rules.top | {"policy": name}, rules.keep, rules.guards, rules.pressure, rules.final)


def _replicas(values: Mapping[str, Any], where: Where, relative_to: str | None) -> tuple[ReplicaSettings, ...]:
    if "primary" not in values:
        raise where.refusal(
            "primary", None, "a run needs a primary root", mend='Write primary = "/path/to/checkpoints".'
        )
    primary = _replica(values["primary"], "primary", where, "primary", relative_to)
    mirrors = [
        _replica(said, mirror_name(index), where.down("mirrors"), f"[{index}]", relative_to)
        for index, said in enumerate(values.get("mirrors", []))
    ]
    try:
        templates.check(primary.root, [mirror.root for mirror in mirrors])
    except ValueError as error:
        raise where.refusal("primary", primary.root, str(error)) from None
    return _distinct((primary, *mirrors), where)


def _replica(said: object, name: str, where: Where, key: str, relative_to: str | None) -> ReplicaSettings:
    role = "primary" if name == "primary" else "mirror"
    table = said if isinstance(said, Mapping) else {"root": said}
    inside = where.down(key) if isinstance(said, Mapping) else where
    values = read(table, keys.REPLICA, inside)
    if "root" not in values:
        raise where.refusal(key, said, 'needs a root = "…"')
    for only_mirrors in _PRIMARY_CANNOT:
        if role == "primary" and only_mirrors in values:
            raise inside.refusal(
                only_mirrors, table[only_mirrors], "is for mirrors; the primary is where training writes"
            )
    root = _root(values.pop("root"), inside if isinstance(said, Mapping) else where, said, key, relative_to)
    kind, amount = values.pop("max_lag", (None, None))
    if "control" in values and not is_url(root) and not os.path.isabs(values["control"]):
        raise inside.refusal("control", values["control"], "is relative; write a whole path")
    return ReplicaSettings(
        name=values.pop("name", name),
        root=root,
        role=role,  # type: ignore[arg-type]
        max_lag_ns=amount if kind == "time" else None,
        max_lag_steps=amount if kind == "steps" else None,
        **values,
    )


def _root(root: str, where: Where, said: object, key: str, relative_to: str | None) -> str:
    try:
        return tidy(root, relative_to=relative_to)
    except ValueError as error:
        relative = "relative" in str(error)
        mend = f"Write {os.path.abspath(os.path.expanduser(root))!r} if that is what you mean." if relative else None
        raise where.refusal("root" if isinstance(said, Mapping) else key, root, str(error), mend=mend) from None


def _flag_root(flag: str, root: str, flags: RunFlags) -> str:
    try:
        return tidy(root, relative_to=os.getcwd())
    except ValueError as error:
        raise flags.refusal(flag, root, error) from None


def _distinct(replicas: tuple[ReplicaSettings, ...], where: Where) -> tuple[ReplicaSettings, ...]:
    seen = set()
    for index, replica in enumerate(replicas):
        if replica.name in seen or (index and replica.name == "primary"):
            raise where.refusal("mirrors", replica.name, "two replicas of a run have this name")
        seen.add(replica.name)
    return replicas
