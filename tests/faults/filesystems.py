"""Real file systems for a test's time: in memory, in a file, in layers, read-only, or in a process of our own.

Each is a context manager that yields where it is mounted, and skips the test with the reason where that cannot be.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
# The smallest that each one's mkfs makes, in MiB; the files are sparse.
IN_A_FILE = {"ext4": (24, ["-q", "-m", "0"]), "xfs": (320, ["-q"]), "btrfs": (128, ["-q"])}


def mount(*words: object, why: str) -> None:
    """Runs mount(8), or skips."""
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"{why} cannot be mounted here: {done.stderr.strip()}")


def unmount(folder: Path) -> None:
    for lazily in ((), ("-l",)):
        if subprocess.run(["umount", *lazily, folder], capture_output=True).returncode == 0:
            return


@contextmanager
def tmpfs(folder: Path, *, size: str = "32m", inodes: int | None = None) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size}" + (f",nr_inodes={inodes}" if inodes is not None else "")
    mount("-t", "tmpfs", "-o", options, "tmpfs", folder, why="a tmpfs")
    try:
        yield folder
    finally:
        unmount(folder)


@contextmanager
def in_a_file(folder: Path, kind: str, *, mebibytes: int | None = None) -> Iterator[Path]:
    """ext4, XFS or Btrfs in a sparse file beside the mount point."""
    if shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    least, options = IN_A_FILE[kind]
    image = folder.parent / f"{folder.name}.{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(image, "wb") as file:
        file.truncate((mebibytes or least) << 20)
    made = subprocess.run([f"mkfs.{kind}", *options, image], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"mkfs.{kind}: {made.stderr.strip()}")
    mount("-o", "loop", image, folder, why=kind)
    try:
        yield folder
    finally:
        unmount(folder)
        image.unlink()


@contextmanager
def overlay(folder: Path, lower: Path) -> Iterator[Path]:
    """A writable layer over a directory that is not changed: what lies below was never written here."""
    with tmpfs(folder.parent / f"{folder.name}-layers") as layers:
        upper, work = layers / "upper", layers / "work"
        for each in (upper, work, folder):
            each.mkdir()
        # Without redirects, as most distributions and container engines have it: a directory of the lower layer
        # cannot be renamed.
        options = f"lowerdir={lower},upperdir={upper},workdir={work},redirect_dir=off"
        mount("-t", "overlay", "-o", options, "overlay", folder, why="an overlay")
        try:
            yield folder
        finally:
            unmount(folder)


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """The same directory, in the same place, without the right to write."""
    mount("--bind", folder, folder, why="a bind mount")
    try:
        mount("-o", "remount,ro,bind", folder, why="a read-only bind mount")
        yield folder
    finally:
        unmount(folder)


@dataclass
class Fuse:
    """A mounted passthrough, the directory below it, and its faults."""

    root: Path
    below: Path
    place: Path

    def faults(self, **said: Any) -> None:
        """From the next call on it misbehaves so, and only so."""
        new = self.place.with_suffix(".new")
        new.write_text(json.dumps(said))
        new.rename(self.place)


@contextmanager
def fuse(folder: Path, *, below: Path | None = None, **faults: Any) -> Iterator[Fuse]:
    """The passthrough of :mod:`tests.faults.fuse`, in a process of its own; ``below`` may be one that stands."""
    if find_spec("mfusepy") is None:
        pytest.skip("mfusepy is not installed (pip install mfusepy)")
    if not os.path.exists("/dev/fuse"):
        pytest.skip("there is no /dev/fuse")
    below, place = below or folder.parent / f"{folder.name}-below", folder.parent / f"{folder.name}-faults.json"
    below.mkdir(exist_ok=True)
    folder.mkdir()
    mounted = Fuse(folder, below, place)
    mounted.faults(**faults)
    log = folder.parent / f"{folder.name}-fuse.log"
    with open(log, "wb") as told:
        server = subprocess.Popen([sys.executable, "-m", "tests.faults.fuse", below, folder, place], cwd=REPOSITORY,
                                  stdout=told, stderr=told)  # fmt: skip
    try:
        _wait_for(folder, server, log)
        yield mounted
    finally:
        mounted.faults()
        unmount(folder)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for(folder: Path, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 20
    while not os.path.ismount(folder):
        if server.poll() is not None or time.monotonic() > until:
            pytest.skip(f"a FUSE file system cannot be mounted here: {log.read_text()[-300:]}")
        time.sleep(0.02)
