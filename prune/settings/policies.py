"""Policies by name or by file. The ready ones are TOML files that come with the product, one per stack."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from prune.errors import UsageError
from prune.settings import keys
from prune.settings.files import expanded, read_toml
from prune.settings.keys import Where, nearest


@dataclass(frozen=True, slots=True)
class ReadyPolicy:
    """One ready policy as `prune policies` shows it."""

    name: str
    path: str
    title: str
    layout: str
    table: dict[str, Any]


def folder() -> str:
    """Where the ready policies are: in the installed package, or at the top of a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, "policies")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), "policies")


def ready() -> list[str]:
    """The names of the ready policies, sorted."""
    try:
        return sorted(name.removesuffix(".toml") for name in os.listdir(folder()) if name.endswith(".toml"))
    except FileNotFoundError:
        return []


def read_ready(name: str) -> ReadyPolicy:
    path = os.path.join(folder(), f"{name}.toml")
    table = read_toml(path)
    layout = table.get("layout", "auto")
    shown = layout.get("name", "auto") if isinstance(layout, dict) else layout
    return ReadyPolicy(name, path, table.get("title", ""), shown, table)


def find(policy: str, *, beside: str) -> str:
    """The file of a policy: a ready one's name, or a path (a relative one starts from the directory ``beside``).

    Raises UsageError naming the nearest ready policy when there is none.
    """
    is_path = "/" in policy or policy.endswith(".toml")
    if is_path:
        path = os.path.join(beside, policy)
        if os.path.isfile(path):
            return path
        raise UsageError(f"there is no policy file {path}", mend=_known())
    if policy in ready():
        return os.path.join(folder(), f"{policy}.toml")
    near = nearest(policy, ready())
    raise UsageError(f"there is no ready policy {policy!r}", mend=f"Did you mean {near!r}?" if near else _known())


def load(policy: str, *, beside: str) -> tuple[dict[str, Any], Where]:
    """A policy's tables, with its place for messages. Raises UsageError for what is wrong in it."""
    path = find(policy, beside=beside)
    where = Where(path)
    table = expanded(read_toml(path), where, os.environ)
    keys.read(table, keys.POLICY, where)
    return table, where


def _known() -> str:
    return f"Ready policies: {', '.join(ready()) or 'none are installed'}; or name a file ending in .toml."
