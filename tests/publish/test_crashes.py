"""Real kills and real failures of the calls that matter, each in a process of its own."""

# ruff: noqa: PT012  (the block is what is tested)

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import prune
import prune.publish.directory as directory_module
import prune.publish.file as file_module
import prune.publish.install as install_module
from prune.errors import Failed
from prune.model import Health
from prune.settings.schema import Guards
from prune.verify import verify
from tests.publish.looking import manifests, names, one_manifest_fits, staged
from tests.runs import run_of, settings_of

SIZE = 3 << 20
NAME = "step-10"
OLD, NEW = b"o" * SIZE, b"n" * SIZE

SAVE_FILE = f"""
import sys, prune
with prune.publish(sys.argv[1], sidecar=True) as file:
    file.write(b"n" * {SIZE})
"""
SAVE_DIRECTORY = f"""
import sys, prune
with prune.publish_directory(sys.argv[1]) as folder:
    (folder / "model").write_bytes(b"n" * {SIZE})
"""
CALLS = ("pwrite64", "write", "fsync", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "unlinkat", "flock")

faults = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not there to inject faults")


def traced(script: str, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["strace", "-f", "-qq", *options, sys.executable, "-B", "-c", script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def places(script: str, root: Path) -> Iterator[tuple[str, int]]:
    """Every call of the kinds above that this script makes, by kind and number."""
    log = root.parent / "calls"
    assert traced(script, root / NAME, "-o", str(log), "-e", f"trace={','.join(CALLS)}").returncode == 0
    counts: dict[str, int] = {}
    for line in log.read_text().splitlines():
        if found := re.match(r"\d+ +(\w+)\(", line):
            counts[found[1]] = counts.get(found[1], 0) + 1
    for call, count in counts.items():
        yield from ((call, number) for number in range(1, count + 1))


def save_old(root: Path, script: str) -> None:
    if script == SAVE_FILE:
        with prune.publish(root / NAME, sidecar=True) as file:
            file.write(OLD)
    else:
        with prune.publish_directory(root / NAME) as folder:
            (folder / "model").write_bytes(OLD)


def stands(root: Path) -> bytes | None:
    """What stands under the final name now, None for nothing."""
    path = root / NAME
    if path.is_dir():
        assert os.listdir(path) == ["model"]
        return (path / "model").read_bytes()
    return path.read_bytes() if path.exists() else None


def fresh(tmp_path: Path, script: str, *, with_old: bool) -> Path:
    root = tmp_path / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    if with_old:
        save_old(root, script)
    return root


def settled(root: Path, script: str) -> None:
    """The next save ends as if nothing had happened before it."""
    done = subprocess.run([sys.executable, "-c", script, str(root / NAME)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert stands(root) == NEW
    assert names(root) == [NAME, f"{NAME}.sha256"] if script == SAVE_FILE else [NAME]
    assert manifests(root) == [f"{NAME}.json"]
    assert one_manifest_fits(root, NAME)
    assert staged(root) == []


CASES = [
    pytest.param(SAVE_FILE, False, id="a new file"),
    pytest.param(SAVE_FILE, True, id="a file over an old one"),
    pytest.param(SAVE_DIRECTORY, False, id="a new directory"),
    pytest.param(SAVE_DIRECTORY, True, id="a directory over an old one"),
]


@faults
@pytest.mark.faults
@pytest.mark.parametrize(("script", "with_old"), CASES)
def test_killed_at_any_call_the_final_name_shows_the_old_or_the_new_and_never_half(
    script: str, with_old: bool, tmp_path: Path
) -> None:
    for call, number in places(script, fresh(tmp_path, script, with_old=with_old)):
        root = fresh(tmp_path, script, with_old=with_old)
        done = traced(script, root / NAME, "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={number}")
        assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), (call, number, done)
        found = stands(root)
        assert found in ((OLD, NEW) if with_old else (None, NEW)), (call, number)
        if found is not None:
            assert one_manifest_fits(root, NAME), (call, number)
        settled(root, script)


@faults
@pytest.mark.faults
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize(("script", "with_old"), CASES)
def test_a_failing_call_is_told_and_leaves_the_old_or_the_new_and_no_temporary(
    script: str, with_old: bool, error: str, tmp_path: Path
) -> None:
    for call, number in places(script, fresh(tmp_path, script, with_old=with_old)):
        if call == "flock" or (call == "write" and error == "EIO"):
            continue
        root = fresh(tmp_path, script, with_old=with_old)
        done = traced(script, root / NAME, "-o", "/dev/null", "-e", f"inject={call}:error={error}:when={number}")
        found = stands(root)
        where = (call, number, done.stderr)
        assert found in ((OLD, NEW) if with_old else (None, NEW)), where
        if found is not None:
            assert one_manifest_fits(root, NAME), where
        if call != "unlinkat":
            assert done.returncode != 0 or found == NEW, where
            assert f"{NAME}.part" not in names(root), where
            assert staged(root) == [], where
        if done.returncode != 0 and found == NEW:
            assert "published and whole" in done.stderr, where
        settled(root, script)


def test_killed_at_random_moments_no_name_ever_shows_half_a_file(tmp_path: Path) -> None:
    script = """
import os, sys, prune
for round in range(10_000):
    for name in ("step_1.bin", f"step_{round + 2}.bin"):
        with prune.publish(os.path.join(sys.argv[1], name)) as file:
            for _ in range(6):
                file.write(bytes([round % 251]) * 300_000)
    print("saved", flush=True)
"""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(25):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() * 0.05)
        process.kill()
        process.wait()
        for name in names(tmp_path):
            if not name.endswith(".part"):
                data = (tmp_path / name).read_bytes()
                assert len(data) == 1_800_000
                assert len(set(data)) == 1
                assert one_manifest_fits(tmp_path, name)
        for name in names(tmp_path):
            if name not in ("step_1.bin", "step_1.bin.part"):
                (tmp_path / name).unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB and few inodes."""
    root = tmp_path / "disk"
    root.mkdir()
    options = "size=4m,nr_inodes=24"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(root)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    yield root
    subprocess.run(["umount", "-l", str(root)], check=False)


def test_a_full_disk_leaves_no_final_name_and_no_temporary(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"), prune.publish(small_disk / "step_1.pt") as file:
        for _ in range(8):
            file.write(b"a" * (1 << 20))
    assert names(small_disk) == []
    with prune.publish(small_disk / "step_1.pt") as file:
        file.write(b"a" * (2 << 20))
    assert names(small_disk) == ["step_1.pt"]


def test_a_full_disk_leaves_the_old_file_as_it_was(small_disk: Path) -> None:
    with prune.publish(small_disk / "step_1.pt") as file:
        file.write(b"old" * 500_000)
    with pytest.raises(OSError, match="No space left"), prune.publish(small_disk / "step_1.pt") as file:
        for _ in range(8):
            file.write(b"a" * (1 << 20))
    assert (small_disk / "step_1.pt").read_bytes() == b"old" * 500_000
    assert one_manifest_fits(small_disk, "step_1.pt")


def test_a_disk_without_room_for_the_manifest_leaves_no_final_name(small_disk: Path) -> None:
    with prune.publish(small_disk / "step_0.pt") as file:
        file.write(b"first")
    filler = small_disk / "filler"
    with pytest.raises(Failed, match="No space left"), prune.publish(small_disk / "step_1.pt") as file:
        file.write(b"a" * 1000)
        file.flush()
        with pytest.raises(OSError, match="No space left"), filler.open("wb") as other:
            other.write(b"f" * (8 << 20))
    assert names(small_disk) == ["filler", "step_0.pt"]


def test_a_disk_without_inodes_leaves_no_final_name(small_disk: Path) -> None:
    with prune.publish(small_disk / "step_0.pt") as file:
        file.write(b"first")
    with pytest.raises(OSError, match="No space left"):
        for number in range(100):
            (small_disk / f"filler{number}").touch()
    before = names(small_disk)
    with pytest.raises(Failed, match="No space left"), prune.publish(small_disk / "step_1.pt") as file:
        file.write(b"a")
    assert names(small_disk) == before


def dies(path: Path, data: bytes, *, before_the_name: bool) -> None:
    """Publishes in a process that is killed right before, or right after, the data get their final name."""
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        return

    def kill(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if before_the_name:
        file_module._appear = directory_module._Stage.appear = kill  # type: ignore[method-assign]
    else:
        install_module.Companion.install = kill  # type: ignore[method-assign]
    try:
        save(path, data)
    finally:
        os._exit(1)


def save(path: Path, data: bytes) -> None:
    if path.suffix:
        with prune.publish(path, step=10) as file:
            file.write(data)
    else:
        with prune.publish_directory(path, step=10) as folder:
            (folder / "model.bin").write_bytes(data)


def judged(path: Path) -> Health:
    state = path.parent.parent / "state.db"
    (copy,) = verify(settings_of(run_of(path.parent, guards=Guards(in_flight=0)), state=state))[0].copies
    assert copy.health is not None
    return copy.health


@pytest.mark.parametrize("name", ["step_10.bin", "step-10"])
def test_a_second_kill_does_not_part_a_checkpoint_from_its_manifest(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run" / name
    path.parent.mkdir()
    save(path, b"a" * 1000)
    dies(path, b"b" * 1000, before_the_name=False)
    dies(path, b"c" * 1000, before_the_name=True)

    assert judged(path) is Health.INTACT


@pytest.mark.parametrize("name", ["step_10.bin", "step-10"])
def test_the_manifest_of_a_save_that_never_appeared_makes_no_damage_of_an_older_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run" / name
    path.parent.mkdir()
    within = path if path.suffix else path / "model.bin"
    within.parent.mkdir(exist_ok=True)
    within.write_bytes(b"a" * 1000)
    dies(path, b"b" * 1000, before_the_name=True)

    assert judged(path) is Health.UNVERIFIED
