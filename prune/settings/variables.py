"""``PRUNE_…`` variables laid over the tables of prune.toml, by pydantic-settings.

``PRUNE_SERVICE__TOKEN`` is ``service.token``. A run is named by its place or its name: ``PRUNE_RUNS__0__KEEP__LAST``,
``PRUNE_RUNS__TINY__KEEP__LAST`` (dashes and dots in a name are underscores there); ``PRUNE_RUNS`` as JSON replaces
them all. This module is imported only when there is such a variable: pydantic-settings costs as much to start as
all the rest together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from prune.errors import UsageError

_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]")


class _Variables(EnvSettingsSource):
    """Only what looks like JSON is read as JSON: a token of digits stays text."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            return super().decode_complex_value(field_name, field, value)
        return value


class _Document(BaseSettings):
    """The top of prune.toml, loosely: what each table may hold is checked by the same code for every source."""

    model_config = SettingsConfigDict(env_prefix="PRUNE_", env_nested_delimiter="__", extra="ignore")

    state: Any = None
    service: dict[str, Any] | str = {}
    runs: dict[str, Any] | list[Any] | str = {}
    fleet: dict[str, Any] | str = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return _Variables(settings_cls), init_settings


def overlaid(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The document with the variables over it, and which dotted key came from which variable.

    Raises UsageError for a variable that names no run, and for one whose JSON cannot be read.
    """
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    runs = document.get("runs", [])
    by_place = {str(index): run for index, run in enumerate(runs)} if isinstance(runs, list) else runs
    try:
        laid = _Document(**{**document, "runs": by_place}).model_dump(exclude_unset=True)
    except (ValidationError, SettingsError) as error:
        raise UsageError(f"a PRUNE_ variable cannot be understood: {_short(error)}") from None
    origins = _origins(os.environ)
    if isinstance(laid.get("runs"), dict):
        laid["runs"], origins = _runs_in_a_row(laid["runs"], origins)
    if not laid.get("runs"):
        laid.pop("runs", None)
    return {**document, **laid}, origins


def _origins(environ: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for variable in environ:
        if variable.upper().startswith("PRUNE_"):
            found[variable.lower().removeprefix("prune_").replace("__", ".")] = variable
    return found


def _runs_in_a_row(runs: dict[str, Any], origins: dict[str, str]) -> tuple[list[Any], dict[str, str]]:
    """The runs as a list again: a key that is a place stays there, one that is a name is laid over that run."""
    row = [runs[key] for key in sorted((key for key in runs if key.isdecimal()), key=int)]
    places = {key: index for index, key in enumerate(sorted((key for key in runs if key.isdecimal()), key=int))}
    for key, table in runs.items():
        if key.isdecimal():
            continue
        place = next((i for i, run in enumerate(row) if _matches(run, key)), None)
        if place is None:
            raise UsageError(f"PRUNE_RUNS__{key.upper()}__…: there is no run {key!r} in the configuration")
        row[place] = _deeper(row[place], table)
        places[key] = place
    return row, {_placed(dotted, places): variable for dotted, variable in origins.items()}


def _placed(dotted: str, places: Mapping[str, int]) -> str:
    top, _, rest = dotted.partition(".")
    key, _, below = rest.partition(".")
    if top == "runs" and key in places:
        return f"runs[{places[key]}].{below}"
    return dotted


def _matches(run: object, key: str) -> bool:
    name = run.get("name") if isinstance(run, Mapping) else None
    return isinstance(name, str) and _NOT_IN_A_NAME.sub("_", name.lower()) == _NOT_IN_A_NAME.sub("_", key.lower())


def _deeper(below: Any, above: Any) -> Any:
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return {**below, **{key: _deeper(below.get(key), value) for key, value in above.items()}}
    return above


def _short(error: Exception) -> str:
    return " ".join(str(error).splitlines()[:3])
