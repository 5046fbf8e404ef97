"""A small real run with a mirror, made up: whole checkpoints, a damaged one, and one that is being written."""

from __future__ import annotations

import os
import shutil
import zipfile
from dataclasses import dataclass

from prune.settings.schema import HOUR, Keep, ReplicaSettings, RunSettings, Settings

STEPS = range(100, 2100, 100)
DAMAGED = 1800
KEEP_LAST = 5
_TENSOR_BYTES = 256 * 1024
# A pickle of an empty dict: what stands in data.pkl of a checkpoint whose tensors are all in data/.
_EMPTY_PICKLE = b"\x80\x02}q\x00."


@dataclass(frozen=True, slots=True)
class Demo:
    """Where the run stands, and the settings that prune it."""

    folder: str
    primary: str
    mirror: str
    settings: Settings


def build(folder: str, *, now_ns: int) -> Demo:
    """Writes the run: one step an hour on both sides, one copy cut short, one save in flight."""
    primary, mirror = os.path.join(folder, "primary"), os.path.join(folder, "mirror")
    for root in (primary, mirror):
        os.mkdir(root)
    for place, step in enumerate(STEPS):
        path = os.path.join(primary, f"step_{step:05d}.pt")
        write_checkpoint(path, step)
        written_ns = now_ns - (len(STEPS) - place) * HOUR
        os.utime(path, ns=(written_ns, written_ns))
        shutil.copy2(path, mirror)
    _cut_short(os.path.join(mirror, f"step_{DAMAGED:05d}.pt"))
    with open(os.path.join(primary, f"step_{STEPS[-1] + 100:05d}.pt.part"), "wb") as file:
        file.write(b"PK\x03\x04" + b"\0" * 4096)
    return Demo(folder, primary, mirror, _settings(folder, primary, mirror))


def write_checkpoint(path: str, step: int) -> None:
    """A file as torch.save writes it: a ZIP archive, not compressed, with a pickle and the tensors' bytes."""
    name = os.path.basename(path).partition(".")[0]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", _EMPTY_PICKLE)
        archive.writestr(f"{name}/byteorder", b"little")
        archive.writestr(f"{name}/data/0", step.to_bytes(4, "little") * (_TENSOR_BYTES // 4))
        archive.writestr(f"{name}/version", b"3\n")


def _cut_short(path: str) -> None:
    """To 73 % of its length, as a copy that ran out of disk leaves it; the time stays."""
    status = os.stat(path)
    os.truncate(path, status.st_size * 73 // 100)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _settings(folder: str, primary: str, mirror: str) -> Settings:
    run = RunSettings(
        name="demo",
        replicas=(ReplicaSettings("primary", primary, "primary"), ReplicaSettings("mirror", mirror, "mirror")),
        keep=Keep(last=KEEP_LAST),
        grace=24 * HOUR,
    )
    return Settings(runs=(run,), state=f"sqlite:///{os.path.join(folder, 'state.db')}")
