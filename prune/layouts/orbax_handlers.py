"""What the items of an Orbax step must hold by the handlers that wrote them, as the checkpoint lists both.

Handlers: google/orbax, ``_src/handlers/json_checkpoint_handler.py`` (one JSON file),
``pytree_checkpoint_handler.py`` and ``standard_checkpoint_handler.py`` (a tree with its ``_METADATA``), and
``experimental/v1/_src/handlers/pytree_handler.py``. Without OCDBT each array is a directory of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prune.layouts import markers, metric_files
from prune.layouts.base import FileStat, Health, Reader, Verdict

METADATA = "_METADATA"
LEGACY_METADATA = "checkpoint"  # msgpack, before _METADATA was
_STRINGS, _TEXT = "_strings.json", "string"
_NOTHING = ("None", "Dict", "List", "Tuple", "NamedTuple")  # as empty leaves are called
_COMMIT = "commit_success.txt"
_TREES = ("StandardCheckpointHandler", "PyTreeCheckpointHandler", "PyTreeHandler")
_JSON = "JsonCheckpointHandler"
_LONGEST_JSON = 4 << 20  # parsed in a cheap look
_ARRAYS = ("jax.Array", "np.ndarray")
_DESCRIBED = (".zarray", "zarr.json")


def examine(path: str, handlers: Mapping[Any, Any], files: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
    """The first item that lacks what its handler writes with every one."""
    for item, handler in handlers.items():
        if not any(name.startswith(f"{item}/") for name in files):
            return markers.missing(path, str(item), "the checkpoint lists it as an item")
        kind = str(handler).rpartition(".")[2]
        if kind in _TREES and f"{item}/{METADATA}" not in files and f"{item}/{LEGACY_METADATA}" not in files:
            return markers.missing(f"{path}/{item}", METADATA, "Orbax writes it with every tree")
        if kind == _JSON and (verdict := _json(path, str(item), files, reader)) is not None:
            return verdict
    return None


def arrays(path: str, metadata: Any, files: Iterable[str]) -> Verdict | None:
    """Whether a tree that is no OCDBT holds its arrays; ``path`` is the item with a slash at its end."""
    there: dict[str, set[str]] = {}
    for name in files:
        folder, _, rest = name.partition("/")
        there.setdefault(folder, set()).add(rest)
    for folder, empty in _folders(metadata):
        held = there.get(folder, set())
        if not any(name in held for name in _DESCRIBED):
            return markers.missing(f"{path}{folder}", _DESCRIBED[0], "its tree lists it as an array")
        if not empty and held <= {*_DESCRIBED, ".zattrs"}:
            return markers.broken(f"{path}{folder}", "its description is there and none of its values")
    return None


def without_arrays(metadata: Any) -> frozenset[str] | None:
    """The files that a tree without any array needs: its leaves are texts (Keras's model configuration) or nothing
    at all (the state of an optimizer that has none). None for any other tree."""
    tree = metadata.get("tree_metadata") if isinstance(metadata, dict) else None
    try:
        kinds = {leaf["value_metadata"]["value_type"] for leaf in tree.values()} if isinstance(tree, dict) else set()
    except (TypeError, KeyError):
        return None
    if not kinds or not kinds <= {_TEXT, *_NOTHING}:
        return None
    return frozenset({_STRINGS} if _TEXT in kinds else ())


def _folders(metadata: Any) -> Iterator[tuple[str, bool]]:
    """Folders of the arrays of a tree, and whether one may hold no values. What is not understood is left out."""
    all_stored = isinstance(metadata, dict) and metadata.get("store_array_data_equal_to_fill_value") is True
    tree = metadata.get("tree_metadata") if isinstance(metadata, dict) else None
    for leaf in tree.values() if isinstance(tree, dict) else ():
        try:
            keys, value = [str(key["key"]) for key in leaf["key_metadata"]], leaf["value_metadata"]
            shape = value["write_shape"]
            stored = value["value_type"] in _ARRAYS and not value["skip_deserialize"]
        except (TypeError, KeyError):
            continue
        if stored and keys and not any("/" in key for key in keys):
            yield ".".join(keys), not all_stored or not isinstance(shape, list) or 0 in shape


def _json(path: str, item: str, files: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
    written = [name for name in files if name.startswith(f"{item}/") and name != f"{item}/{_COMMIT}"]
    if not written:
        return markers.broken(f"{path}/{item}", "holds nothing: Orbax writes a file of JSON into it")
    for name in (name for name in written if files[name].size <= _LONGEST_JSON):
        try:
            metric_files.read_json(reader, f"{path}/{name}")
        except ValueError as error:
            return markers.broken(f"{path}/{name}", f"cannot be parsed: {error}")
        except OSError as error:
            return Verdict(Health.UNKNOWN, f"{path}/{name}: cannot be read: {error.strerror or error}")
    return None
