"""Finding prune.toml, reading it, and putting the environment's values into its ``${VAR}``."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from prune.errors import UsageError
from prune.settings.keys import TOP, Where, nearest

_VARIABLE = re.compile(r"\$(\$)?\{([^}]*)\}")
_KUBERNETES = re.compile(r"PRUNE_(SERVICE_)?(HOST|PORT)\b|PRUNE_(SERVICE_)?PORT_")
_MOST = 64 << 20  # thousands of runs take a few
_LINE = re.compile(r"\s*\(at line (\d+), column (\d+)\)|\s*\(at end of document\)")


def find_config(config: str | None, environ: Mapping[str, str]) -> str | None:
    """The configuration file of this call: the one named, else the first that is there; None if there is none.

    Raises UsageError when a file that was named by option or variable is not there.
    """
    if config is not None:
        return _named(config, "--config")
    if "PRUNE_CONFIG" in environ:
        return _named(environ["PRUNE_CONFIG"], "$PRUNE_CONFIG")
    return next((path for path in search_path() if os.path.lexists(path)), None)


def search_path() -> Iterator[str]:
    """Where a configuration file is looked for, when none is named."""
    yield "prune.toml"
    import platformdirs

    yield os.path.join(platformdirs.user_config_dir("prune"), "prune.toml")
    for folder in platformdirs.site_config_dir("prune", multipath=True).split(os.pathsep):
        yield os.path.join(folder, "prune.toml")
    yield "/etc/prune/prune.toml"


def read_toml(path: str) -> dict[str, Any]:
    """The tables of a TOML file. Raises UsageError with the line where it cannot be understood."""
    import tomllib

    try:
        with open(path, "rb", opener=without_waiting) as file:
            data = file.read(_MOST + 1)
        if len(data) > _MOST:
            raise UsageError(f"{path}: is no configuration: it has more than {_MOST >> 20} MiB")
        return tomllib.loads(data.removeprefix(codecs.BOM_UTF8).decode())  # editors on Windows begin with it
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8", mend="Save the file as UTF-8.") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deep to be read", mend="Settings need three levels at most.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {_syntax(str(error))}", mend="Mend the line; the file must be TOML.") from None


def without_waiting(path: str, flags: int) -> int:
    """An opener that waits for nobody: a named pipe without a writer is as empty as it looks."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def expanded(value: Any, where: Where, environ: Mapping[str, str], *, key: str = "") -> Any:
    """``value`` with every ``${VAR}`` replaced; ``$${`` stands for ``${``. Raises UsageError for one that is unset.

    Empty counts as unset: a root or a number that an empty variable shortens is never what was meant.
    """
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _variable(match, value, where, environ, key), value)
    if isinstance(value, Mapping):
        called = value.get("name")
        below = where.down(key, aka=called if isinstance(called, str) else "") if key else where
        return {name: expanded(item, below, environ, key=str(name)) for name, item in value.items()}
    if isinstance(value, list):
        below = where.down(key) if key else where
        return [expanded(item, below, environ, key=f"[{index}]") for index, item in enumerate(value)]
    return value


def has_variables(environ: Mapping[str, str]) -> bool:
    """Whether any ``PRUNE_…`` variable lays something over the file, but for the one that says where the state is:
    that is a plain text, and no reason to load pydantic."""
    heads = {_head(variable) for variable in environ if variable.upper().startswith("PRUNE_")}
    return not heads.isdisjoint(TOP.keys() - {"state"})


def stray(environ: Mapping[str, str]) -> str | None:
    """A sentence about a variable that looks like ours and sets nothing, if there is one.

    It is no error: others may use such names too. Kubernetes makes some for any service called prune; those are
    passed over.
    """
    for variable in environ:
        head = _head(variable)
        ours = variable.upper().startswith("PRUNE_") and head not in TOP and head != "config"
        ours = ours and not _KUBERNETES.match(variable)
        if ours and (near := nearest(head, TOP)):
            return f"{variable} sets nothing; did you mean PRUNE_{near.upper()}?"
    return None


def _head(variable: str) -> str:
    return variable.lower().removeprefix("prune_").partition("__")[0]


def _variable(match: re.Match[str], value: str, where: Where, environ: Mapping[str, str], key: str) -> str:
    escaped, name = match.groups()
    if escaped:
        return "${" + name + "}"
    if found := environ.get(name):
        return found
    state = "is empty" if name in environ else "is not set"
    mend = f"Set {name} in the environment of this process, or write the value itself."
    raise where.refusal(key, value, f"${{{name}}} {state}", mend=mend)


def _named(path: str, by: str) -> str:
    if not path:
        raise UsageError(f"{by} is empty", mend="Name a configuration file, or leave it out.")
    if os.path.isdir(path):
        raise UsageError(f"{by} {path}: is a directory", mend="Name the configuration file in it.")
    if not os.path.lexists(path):
        raise UsageError(f"{by} {path}: there is no such file", mend="`prune init` writes one.")
    return path


def _syntax(message: str) -> str:
    match = _LINE.search(message)
    if match and match[1]:
        return f"line {match[1]}, column {match[2]}: {message[: match.start()]}"
    return f"at its end: {message[: match.start()]}" if match else message
