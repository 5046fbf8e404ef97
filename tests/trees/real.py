"""Small trees that the frameworks wrote themselves, unpacked with their times to the nanosecond.

The archives and ``expected.json`` lie in ``real/`` beside this file.
"""

from __future__ import annotations

import json
import os
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "real"
EXPECTED: dict[str, dict[str, Any]] = json.loads((HERE / "expected.json").read_text())


def unpack(name: str, into: Path) -> Path:
    """Unpacks the tree ``name`` below ``into`` and returns its directory, links and mtimes as they were."""
    with tarfile.open(HERE / f"{name}.tar.gz") as archive:
        archive.extractall(into, filter="data")
        members = archive.getmembers()
    for member in reversed(members):  # a directory's time after its contents'
        _set_mtime(into / member.name, member)
    return into / name


def _set_mtime(path: Path, member: tarfile.TarInfo) -> None:
    """tarfile keeps times as floats, which are short of nanoseconds."""
    mtime_ns = int(Decimal(member.pax_headers.get("mtime", str(member.mtime))) * 1_000_000_000)
    os.utime(path, ns=(mtime_ns, mtime_ns), follow_symlinks=False)
