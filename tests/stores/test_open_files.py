"""Who holds files open below given roots."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prune.stores import open_files
from prune.stores.open_files import look, looking_once


@contextmanager
def held(path: Path) -> Iterator[str]:
    """Another process that has the file open."""
    code = "import sys; f = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield f"process {process.pid} "
    finally:
        process.communicate(b"")


def test_what_another_process_holds_below_a_root_is_found_and_nothing_beside_it(tmp_path: Path) -> None:
    for name in ("a/x/deep", "a-beside/y", "b/z"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with held(tmp_path / "a/x/deep") as who, held(tmp_path / "a-beside/y"), held(tmp_path / "b/z"):
        found = look([f"{tmp_path}/a"])
        assert list(found.paths) == [f"{tmp_path}/a/x/deep"]
        assert (found.holder(f"{tmp_path}/a/x") or "").startswith(who)
        assert found.holder(f"{tmp_path}/b/z") is None
        assert len(look([f"{tmp_path}/a", f"{tmp_path}/b/"]).paths) == 2


def test_within_a_pass_over_many_runs_the_processes_are_gone_through_once(tmp_path: Path, monkeypatch) -> None:
    passes = []
    pids = open_files._pids
    monkeypatch.setattr(open_files, "_pids", lambda proc: (passes.append(proc), pids(proc))[1])
    with looking_once():
        for _ in range(5):
            look([str(tmp_path)], anew=False)
        assert len(passes) == 1
        with looking_once():
            look([str(tmp_path)], anew=False)
        assert len(passes) == 1
        look([str(tmp_path)])  # who is about to delete looks anew
        assert len(passes) == 2
        other = threading.Thread(target=look, args=([str(tmp_path)],), kwargs={"anew": False})
        other.start()
        other.join()
        assert len(passes) == 3
    look([str(tmp_path)], anew=False)
    assert len(passes) == 4


def test_what_was_seen_is_not_used_for_long(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "x").touch()
    monkeypatch.setattr(open_files, "SHARED_SECONDS", 0.0)
    with looking_once():
        assert not look([str(tmp_path)], anew=False).paths
        with held(tmp_path / "x"):
            assert look([str(tmp_path)], anew=False).paths


def test_a_lock_of_another_process_is_found_by_device_and_inode(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    code = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); "
        "sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    status = os.stat(path)
    assert str(process.pid) in look([str(tmp_path)]).locked[status.st_dev, status.st_ino]
    process.communicate(b"")
    with path.open() as own:
        fcntl.flock(own, fcntl.LOCK_EX)
        assert (status.st_dev, status.st_ino) not in look([str(tmp_path)]).locked
