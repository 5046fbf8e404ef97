"""What one value of the settings may be: each function takes it as written and returns it as meant.

They raise ValueError with the rest of the sentence "KEY = VALUE: …"; :mod:`prune.settings.keys` puts the file and
the key before it. Values may come from TOML, from a variable or from the command line, so whole numbers are also
understood as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from prune.settings import units
from prune.settings.schema import Best, Share

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def count(value: object) -> int:
    """A whole number of at least 1; nothing is ever read as "all" or "none"."""
    if isinstance(value, str) and value.isdecimal() and value.isascii():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("must be a whole number of at least 1")
    return value


def duration(value: object) -> int:
    return units.parse_duration(cast("str", value))


def lasting(value: object) -> int:
    """A duration longer than nothing."""
    if (length := duration(value)) > 0:
        return length
    raise ValueError("must be longer than 0")


def size(value: object) -> int:
    if (amount := units.parse_size(cast("str", value))) > 0:
        return amount
    raise ValueError("must be more than 0 bytes")


def sizes(value: object) -> dict[str, int]:
    """A table of names and sizes."""
    found = {}
    for key, said in table(value).items():
        try:
            found[name(key)] = size(said)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return found


def whole(value: object) -> int:
    """Any whole number, below zero too."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


def room(value: object) -> int | Share:
    """A water mark: a size, or a percentage of the volume, more than nothing and less than all of it."""
    mark = units.parse_size_or_percent(cast("str", value))
    if isinstance(mark, Share):
        if 0 < mark.percent < 100:
            return mark
        raise ValueError("must be more than 0% and less than 100%")
    return size(mark)


def count_or_share(value: object) -> int | Share:
    if isinstance(value, str) and value.rstrip().endswith("%"):
        share = units.parse_percent(value)
        if share.percent > 0:
            return share
        raise ValueError("must be more than 0%")
    try:
        return count(value)
    except ValueError as error:
        raise ValueError(f"{error}, or a percentage like 75%") from None


def lag(value: object) -> tuple[Literal["steps", "time"], int]:
    """How far a mirror may be behind: a bare whole number is steps, anything else a duration."""
    try:
        return "steps", count(value)
    except ValueError:
        pass
    if isinstance(value, str) and not value.strip().isdecimal():
        return "time", lasting(value)
    raise ValueError("must be a number of steps of at least 1, or a duration like 12h")


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text, in quotes")
    if not value.strip():
        raise ValueError("is empty")
    return value


def text_or_empty(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text, in quotes")
    return value.strip()


def name(value: object) -> str:
    if _NAME.fullmatch(text(value)):
        return cast("str", value)
    raise ValueError("must be a name of letters, digits, dots, dashes and underscores")


def run_name(value: object) -> str:
    """A run's name as people write it; a path or a line break in it would only confuse."""
    found = text(value)
    if "/" in found.replace("{run}", "") or not found.isprintable():
        raise ValueError("must be a printable name without a slash")
    return found


def yes_or_no(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError("must be true or false")


def one_of(*words: str) -> Callable[[object], str]:
    def chosen(value: object) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise ValueError(f"must be {' or '.join(json.dumps(word) for word in words)}")

    return chosen


def table(value: object) -> Mapping[str, Any]:
    decoded = _decoded(value, "{")
    if isinstance(decoded, Mapping):
        return decoded
    raise ValueError("must be a table")


def items(value: object) -> list[Any]:
    decoded = _decoded(value, "[")
    if isinstance(decoded, list | tuple):
        return list(decoded)
    raise ValueError("must be a list")


def texts(value: object) -> tuple[str, ...]:
    """A list of texts, or a lone one."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return (text(value),)
    return tuple(text(item) for item in items(value))


def mirrors(value: object) -> list[Any]:
    """A list of roots or tables, or a lone root."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [text(value)]
    return items(value)


def best(value: object) -> Best:
    """``{metric, mode, count}``, or ``METRIC:min|max[:COUNT]``."""
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        return _best_of_text(value)
    if not isinstance(found := _decoded(value, "{"), Mapping):
        raise ValueError('must be {metric = "…", mode = "min" or "max", count = …}')
    unknown = set(found) - {"metric", "mode", "count"}
    if unknown:
        raise ValueError(f"knows metric, mode and count, not {min(unknown)!r}")
    if "metric" not in found or "mode" not in found:
        raise ValueError('needs metric = "…" and mode = "min" or "max"')
    return _best(found["metric"], found["mode"], found.get("count", 1))


def best_or_count(value: object) -> Best | int:
    """In ``final``, a bare number takes its metric from ``keep.best``."""
    if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
        return count(value)
    return best(value)


def schedule(value: object) -> str:
    """A cron line of five fields, or an interval like ``10m``."""
    found = text(value).strip()
    if len(found.split()) == 5:
        return found
    try:
        lasting(found)
    except ValueError:
        raise ValueError('must be a cron line of five fields ("*/10 * * * *") or an interval ("10m")') from None
    return found


def timezone(value: object) -> str:
    import zoneinfo

    found = text(value)
    try:
        zoneinfo.ZoneInfo(found)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError('is no time zone known here; write "UTC" or a name like "Europe/Berlin"') from None
    return found


def listen(value: object) -> str:
    """``HOST:PORT``, or nothing for no HTTP at all."""
    found = text_or_empty(value)
    host, colon, port = found.rpartition(":")
    if found and not (colon and host and port.isdecimal() and int(port) < 65536):
        raise ValueError('must be HOST:PORT, like "127.0.0.1:9469", or "" for no HTTP')
    return found


def state(value: object) -> str:
    found = text(value)
    if found.startswith(("sqlite:///", "postgresql://", "postgresql+")):
        return found
    raise ValueError("must begin with sqlite:/// or postgresql://")


def policy(value: object) -> str:
    return text(value)


def _best_of_text(value: str) -> Best:
    metric, _, rest = value.rpartition(":")
    number = "1"
    if rest.isdecimal():
        number = rest
        metric, _, rest = metric.rpartition(":")
    if not metric:
        raise ValueError("must be METRIC:min or METRIC:max, and :COUNT if more than one is to be kept")
    return _best(metric, rest, number)


def _best(metric: object, mode: object, number: object) -> Best:
    if mode not in ("min", "max"):
        raise ValueError(f"mode must be min or max, not {mode!r}")
    try:
        return Best(text(metric), cast("Any", mode), count(number))
    except ValueError as error:
        raise ValueError(f"metric or count: {error}") from None


def _decoded(value: object, opening: str) -> object:
    """A variable can only hold text: a table or a list in it is written as JSON."""
    if isinstance(value, str) and value.lstrip().startswith(opening):
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("is not valid JSON") from None
    return value
