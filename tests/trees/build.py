"""Builders of small checkpoint trees: the one place where tests make them."""

from __future__ import annotations

import io
import os
import shutil
import time
import zipfile
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from prune.integrity.manifest import Manifest, ManifestFile, serialise

HOUR = 3600.0
STOP = b"\x80\x02}q\x00."  # the shortest pickle torch could have written: an empty dict


def torch_zip(size: int = 4096, fill: bytes = b"w") -> bytes:
    """What ``torch.save`` writes: a ZIP with ``data.pkl``, one record of ``size`` bytes, and ``version``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in (("data.pkl", STOP), ("data/0", (fill * size)[:size]), ("version", b"3\n")):
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), data)
    return buffer.getvalue()


def age(path: Path, seconds: float) -> None:
    """Sets the mtime of a file, or of a directory and all in it, to ``seconds`` ago; links themselves, not targets."""
    at = time.time() - seconds
    below = [Path(folder) / name for folder, folders, files in os.walk(path) for name in (*folders, *files)]
    for each in (*below, path):
        os.utime(each, (at, at), follow_symlinks=False)


def step_files(root: Path, steps: Iterable[int], *, seconds: float = 2 * HOUR, size: int = 4096) -> Path:
    """``step_0010.pt`` …: whole torch files, each written a second after the one before, the newest that long ago."""
    root.mkdir(parents=True, exist_ok=True)
    numbers = sorted(steps)
    for at, step in enumerate(numbers):
        path = root / f"step_{step:04d}.pt"
        path.write_bytes(torch_zip(size, fill=b"%d" % step))
        age(path, seconds + len(numbers) - at)
    return root


def step_dirs(root: Path, steps: Iterable[int], *, seconds: float = 2 * HOUR, files: int = 3, size: int = 512) -> Path:
    """``step-10/`` …: directories of whole torch files, the newest written that long ago."""
    root.mkdir(parents=True, exist_ok=True)
    numbers = sorted(steps)
    for at, step in enumerate(numbers):
        folder = root / f"step-{step}"
        (folder / "optim").mkdir(parents=True)
        for number in range(files):
            (folder / f"rank_{number}.pt").write_bytes(torch_zip(size, fill=b"%d" % step))
        (folder / "optim" / "state.pt").write_bytes(torch_zip(size))
        age(folder, seconds + len(numbers) - at)
    return root


def sealed(root: Path, step: int) -> Path:
    """Writes the manifest of ``step-N/`` as it stands, made a second after its newest file; returns the manifest."""
    folder = root / f"step-{step}"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    listed = tuple(
        ManifestFile(str(path.relative_to(root)), path.stat().st_size, sha256(path.read_bytes()).hexdigest())
        for path in files
    )
    created = max(path.stat().st_mtime_ns for path in files) + 10**9
    manifest = root / ".prune" / "manifests" / f"{folder.name}.json"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_bytes(serialise(Manifest(folder.name, step, created, listed)))
    return manifest


def mirrored(root: Path, mirror: Path) -> Path:
    """A copy of a root with all its times, as a mirror has it."""
    shutil.copytree(root, mirror, symlinks=True)
    return mirror


def snapshot(root: Path) -> dict[str, tuple[int, ...]]:
    """Every name below a root with inode, mode, links, size, mtime and ctime: what a preview must leave alone."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (".", *folders, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            found[os.path.relpath(path, root)] = (
                status.st_ino, status.st_mode, status.st_nlink, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            )  # fmt: skip
    return found


def names(root: Path) -> set[str]:
    """The final names in a root, hidden ones left out."""
    return {name for name in os.listdir(root) if not name.startswith(".")}
