"""Manifests: what a copy was when it was sealed, file by file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from prune.layouts.base import Members
from prune.model import SECOND, Health, Kind, Verdict

SCHEMA = "prune.manifest/1"
LONGEST = 32 << 20  # bytes of JSON that are parsed: more than a hundred thousand files
_HEX = re.compile(r"[0-9a-f]{64}")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One file: path relative to the root, length in bytes, SHA-256 in lower-case hexadecimal."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a copy was: its name and step, when it was made (nanoseconds since the epoch), and its files by path."""

    name: str
    step: int
    created_at_ns: int
    files: tuple[ManifestFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def serialise(manifest: Manifest) -> bytes:
    """The JSON of a manifest; names that are not UTF-8 survive it."""
    files = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in manifest.files]
    document = {
        "schema": SCHEMA,
        "name": manifest.name,
        "step": manifest.step,
        "created_at": instant(manifest.created_at_ns),
        "files": files,
    }
    return json.dumps(document, indent=1).encode("ascii") + b"\n"


def parse(text: bytes | str) -> Manifest:
    """The manifest in some JSON. Keys it does not know are passed over.

    Raises ValueError with a sentence that names the key and what is wrong with it.
    """
    if len(text) > LONGEST:
        raise ValueError(f"not a manifest: {len(text)} bytes are more than are read")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a manifest: it is not JSON ({error})") from None
    if not isinstance(document, dict):
        raise ValueError("not a manifest: it is not a JSON object")
    if document.get("schema") != SCHEMA:
        raise ValueError(f"schema is {_shown(document.get('schema'))}, this version reads {SCHEMA!r}")
    files = _value(document, "files", list)
    if not files:
        raise ValueError("files is empty: a manifest names at least one file")
    parsed = tuple(_file(file, f"files[{index}]") for index, file in enumerate(files))
    if len({file.path for file in parsed}) != len(parsed):
        raise ValueError("files names the same path twice")
    name = _value(document, "name", str)
    if not _confined(name):
        raise ValueError(f"name is {name!r:.80}, which is no name below a root")
    created = parse_instant(_value(document, "created_at", str))
    return Manifest(name, _value(document, "step", int), created, parsed)


def _file(file: Any, where: str) -> ManifestFile:
    if not isinstance(file, dict):
        raise ValueError(f"{where} is not a JSON object")
    path = _value(file, "path", str, where)
    if not _confined(path):
        raise ValueError(f"{where}.path is {path!r:.80}, which is not below the root")
    size = _value(file, "size", int, where)
    if size < 0:
        raise ValueError(f"{where}.size is {size}")
    sha256 = _value(file, "sha256", str, where).lower()
    if not _HEX.fullmatch(sha256):
        raise ValueError(f"{where}.sha256 is {sha256!r:.80}, not 64 hexadecimal digits")
    return ManifestFile(path, size, sha256)


def _value(document: dict[str, Any], key: str, kind: type, where: str = "") -> Any:
    shown = f"{where}.{key}" if where else key
    if key not in document:
        raise ValueError(f"{shown} is missing")
    value = document[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{shown} is {_shown(value)}, expected {_KINDS[kind]}")
    return value


_KINDS = {str: "a string", int: "an integer", list: "a list", dict: "an object"}


def _shown(value: Any) -> str:
    """A value for a message: lists and objects, which may be deep, by their kind."""
    return _KINDS[type(value)] if isinstance(value, list | dict) else f"{value!r:.80}"


def _confined(path: str) -> bool:
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def instant(time_ns: int) -> str:
    """A time as manifests hold it: UTC, ISO 8601, to the nanosecond where there are any."""
    seconds, rest = divmod(time_ns, SECOND)
    shown = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{shown}.{rest:09d}".rstrip("0") + "Z" if rest else f"{shown}Z"


def parse_instant(text: str) -> int:
    """Nanoseconds since the epoch of an ISO 8601 time with its zone. Raises ValueError."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(f"created_at is {text!r:.80}, expected a time like 2026-11-29T15:38:00Z")
    try:
        whole = datetime.fromisoformat(match[1] + ("+00:00" if match[3] == "Z" else match[3]))
        seconds = int((whole - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    except (ValueError, OverflowError):
        raise ValueError(f"created_at is {text!r:.80}, which is no time") from None
    return seconds * SECOND + int((match[2] or "").ljust(9, "0"))


def content_digest(manifest: Manifest) -> str:
    """One digest over all of a manifest's files: copies of equal content have equal ones."""
    digest = hashlib.sha256()
    for file in sorted(manifest.files, key=lambda file: file.path):
        path = file.path.encode("utf-8", "surrogateescape")
        digest.update(b"%d %d %s " % (len(path), file.size, file.sha256.encode()) + path)
    return digest.hexdigest()


def misfit(manifest: Manifest, sizes: Mapping[str, int]) -> str | None:
    """The sentence for the first file that is missing or of another length than the manifest says, or None.

    Files that the manifest does not name (a sidecar added later) are no misfit.
    """
    for file in manifest.files:
        if file.path not in sizes:
            return f"{file.path}: missing, its manifest expects {file.size} bytes"
        if sizes[file.path] != file.size:
            return f"{file.path}: expected {file.size} bytes by its manifest, found {sizes[file.path]}"
    return None


def fits(manifest: Manifest, sizes: Mapping[str, int]) -> bool:
    """Whether every file of the manifest is there with its length."""
    return misfit(manifest, sizes) is None


def sizes_of(members: Members) -> Mapping[str, int]:
    """Lengths of the regular files of a copy by path."""
    return {path: stat.size for path, stat in members.files.items() if stat.kind is Kind.FILE}


def written_after(manifest: Manifest, members: Members) -> bool:
    """Whether any of the manifest's files was written after it, or may have been."""
    for file in manifest.files:
        stat = members.files.get(file.path)
        if stat is not None and (stat.mtime_ns <= 0 or stat.mtime_ns > manifest.created_at_ns):
            return True
    return False


def judge_by_manifest(manifest: Manifest, members: Members, structure: Verdict) -> Verdict:
    """Health of a copy by the lengths in its manifest, given what its structure says.

    Sizes that fit make a copy whole. A manifest that does not fit what was written after it is void where the
    format's own checks pass, since the step was saved again; where the format has none the copy is suspect.
    A manifest that does not fit what is older than it tells damage. What structure finds broken stays broken.
    """
    if structure.health in (Health.BROKEN, Health.UNKNOWN, Health.SUSPECT):
        return structure
    sentence = misfit(manifest, sizes_of(members))
    if sentence is None:
        return Verdict(Health.WHOLE)
    if not written_after(manifest, members):
        return Verdict(Health.BROKEN, sentence)
    if structure.health.restorable and structure.health is not Health.UNVERIFIED:
        return Verdict(structure.health, f"saved again after its manifest, which is void ({sentence})")
    return Verdict(Health.SUSPECT, f"{sentence}; it was written after its manifest, and its format has no checks")


def is_void(manifest: Manifest, members: Members, structure: Verdict) -> bool:
    """Whether the step was saved again after its manifest, as :func:`judge_by_manifest` says."""
    return not fits(manifest, sizes_of(members)) and judge_by_manifest(manifest, members, structure).health.restorable
