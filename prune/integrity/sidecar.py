"""Hashes that stand beside the files: ``.sha256`` as coreutils writes and checks it, Megatron's ``integrity.json``.

Format: coreutils/coreutils, ``src/cksum.c`` (``split_3``, ``output_file``): digest, a space, a space or ``*`` for
binary, the name; a leading backslash says that the name has escapes. Also the ``SHA256 (name) = digest`` form, and a
lone digest, which many scripts write. NVIDIA/Megatron-LM, ``core/dist_checkpointing/integrity.py``
(``save_integrity_manifest``): ``algorithm``, and ``files`` of the directory it stands in by name, written last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

SUFFIX = ".sha256"
INTEGRITY = "integrity.json"
LONGEST = 64 << 20
_LINE = re.compile(rb"(\\?)([0-9a-fA-F]{64}) [ *](.+)", re.DOTALL)
_TAGGED = re.compile(rb"(\\?)SHA256 \((.+)\) = ([0-9a-fA-F]{64})", re.DOTALL)
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_ALONE = re.compile(rb"[0-9a-fA-F]{64}")
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


def parse(data: bytes) -> dict[str, str]:
    """SHA-256 in lower-case hexadecimal by name, names as they are written.

    A lone digest is under the empty name. Raises ValueError naming the first line that is of no such form.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        line = line.removesuffix(b"\r")
        if not line.strip() or line.startswith(b"#"):
            continue
        if match := _LINE.fullmatch(line):
            found[_name(match[3], escaped=bool(match[1]))] = match[2].decode().lower()
        elif match := _TAGGED.fullmatch(line):
            found[_name(match[2], escaped=bool(match[1]))] = match[3].decode().lower()
        elif _ALONE.fullmatch(line.strip()):
            found[""] = line.strip().decode().lower()
        else:
            raise ValueError(f"line {number} is not 'digest  name' as sha256sum writes it")
    if not found:
        raise ValueError("it holds no digest")
    return found


def _name(raw: bytes, *, escaped: bool) -> str:
    if escaped:
        raw = re.sub(rb"\\[\\nr]", lambda match: _ESCAPES[match[0]], raw)
    return raw.decode("utf-8", "surrogateescape")


def render(hashes: Mapping[str, str]) -> bytes:
    """The lines for some names, as ``sha256sum`` would write them and ``sha256sum -c`` takes them."""
    return b"".join(_render(name, sha256) for name, sha256 in sorted(hashes.items()))


def _render(name: str, sha256: str) -> bytes:
    raw = name.encode("utf-8", "surrogateescape")
    escaped = raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return (b"\\" if escaped != raw else b"") + sha256.encode() + b"  " + escaped + b"\n"


def holds_hashes(path: str) -> bool:
    """Whether a file under this name says what others hash to."""
    return path.endswith(SUFFIX) or path.rpartition("/")[2] == INTEGRITY


def parse_integrity(data: bytes) -> dict[str, str]:
    """SHA-256 in lower-case hexadecimal by name, of an ``integrity.json``. Raises ValueError where it is none."""
    try:
        told = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    files = told.get("files") if isinstance(told, dict) and told.get("algorithm", "sha256") == "sha256" else None
    if not isinstance(files, dict):
        raise ValueError("it holds no SHA-256 by name")
    return {
        name: digest.lower() for name, digest in files.items() if isinstance(digest, str) and _DIGEST.fullmatch(digest)
    }


def expected(path: str, data: bytes, present: Mapping[str, object]) -> dict[str, str]:
    """What a sidecar at ``path`` says of the files that are there, by path relative to the root.

    Names are relative to the root, or to the sidecar's own directory; an absolute one, written on another machine,
    counts by its last part. Names that are not there are left out. Raises ValueError as :func:`parse` does.
    """
    directory, _, own = path.rpartition("/")
    found: dict[str, str] = {}
    if own == INTEGRITY:
        by_path = {f"{directory}/{name}" if directory else name: told for name, told in parse_integrity(data).items()}
        return {place: sha256 for place, sha256 in by_path.items() if place in present}
    for name, sha256 in parse(data).items():
        name = own.removesuffix(SUFFIX) if not name else name.removeprefix("./")
        last = name.rpartition("/")[2]
        beside = [f"{directory}/{place}" if directory else place for place in (name, last)]
        for place in (name, *(beside if name.startswith("/") else beside[:1])):
            if place in present:
                found[place] = sha256
                break
    return found
