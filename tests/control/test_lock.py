"""The lock of a control folder is one process's own, also where that process has children."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from prune.control.lock import Held, acquire
from prune.stores.local import LocalRoot


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LocalRoot]:
    with LocalRoot(str(tmp_path)) as root:
        yield root


@pytest.fixture
def forked() -> Iterator[list[int]]:
    children: list[int] = []
    yield children
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def fork_a_sleeper() -> int:
    """A child that holds copies of all descriptors, as a data loader's worker does."""
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    return child


@pytest.mark.parametrize("file_system", ["ext4", "nfs4"])
def test_a_released_lock_is_free_although_a_child_was_forked_while_it_was_held(
    folder: LocalRoot, forked: list[int], file_system: str
) -> None:
    lock = acquire(folder, file_system=file_system)
    forked.append(fork_a_sleeper())
    lock.release()
    acquire(folder, file_system=file_system).release()


def test_a_child_that_lets_its_copy_go_does_not_free_its_parents_lock(folder: LocalRoot) -> None:
    lock = acquire(folder, file_system="ext4")
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(Held):
        acquire(folder, file_system="ext4")
    lock.release()
