"""Copies that fail: nothing under a final name, what stood there untouched, and the next run completes them."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from prune.mirror import transfer
from prune.mirror.transfer import Differs, Transfer
from prune.publish import publish
from prune.stop import Stop
from tests.mirror.helpers import copied, mirrored_now, seen, temporaries
from tests.runs import applied, run_of
from tests.trees.build import age, mirrored, names, step_dirs, step_files
from tests.trees.damage import damage, flip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A tmpfs of its own; skips where it cannot be mounted."""
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True)
    if done.returncode:
        pytest.skip("mounting a tmpfs needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


def flipping(at: int = 1000):  # type: ignore[no-untyped-def]
    """Flips a bit of what landed, after copying and before it is compared."""

    def landed(target: int) -> None:
        (byte,) = os.pread(target, 1, at)
        os.pwrite(target, bytes([byte ^ 1]), at)

    return landed


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("size", [4096, transfer.SMALL + 4096])
@pytest.mark.parametrize("build", [step_files, step_dirs])
def test_a_bit_that_flips_between_copying_and_comparing_is_seen(
    tmp_path: Path, state: Path, build, size: int, cold: bool
) -> None:  # type: ignore[no-untyped-def]
    primary = build(tmp_path / "P", [10], size=size)
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")

    done = mirrored_now(run, state, landed=flipping(), cold=cold)

    assert copied(done) == []
    assert [failed.step for failed in done.failed] == [10]
    assert "changed on their way" in done.failed[0].error
    assert names(tmp_path / "M") == set()
    assert temporaries(tmp_path / "M") == []
    assert copied(mirrored_now(run, state)) == [(10, "mirror")]


def test_a_flip_leaves_the_copy_that_was_to_be_replaced_where_it_is(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = mirrored(primary, tmp_path / "M")
    damage(mirror / "step_0020.pt", "truncated to 73 %")
    before = seen(mirror)

    done = mirrored_now(run_of(primary, mirror), state, landed=flipping())

    assert [failed.step for failed in done.failed] == [20]
    assert seen(mirror) == before
    assert os.listdir(mirror / ".prune" / "trash") == []


def test_against_a_manifest_a_flip_is_not_blamed_on_the_source(tmp_path: Path, state: Path) -> None:
    root = tmp_path / "P"
    root.mkdir()
    with publish(root / "step_0010.bin", step=10) as file:
        file.write(b"\x01opaque" * 3000)
    (tmp_path / "M").mkdir()

    done = mirrored_now(run_of(root, tmp_path / "M"), state, landed=flipping())

    assert [failed.step for failed in done.failed] == [10]
    assert copied(mirrored_now(run_of(root, tmp_path / "M"), state)) == [(10, "mirror")]


def test_a_copy_that_does_not_fit_is_refused_before_its_first_byte(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10], size=3 << 20)
    with small_disk(tmp_path / "M", "2m") as mirror:
        written: list[int] = []

        done = mirrored_now(run_of(primary, mirror), state, landed=written.append)

        assert [failed.step for failed in done.failed] == [10]
        assert "are free" in done.failed[0].error
        assert "mirror-too-small" in {note.kind for note in done.attention}
        assert (written, names(mirror), temporaries(mirror)) == ([], set(), [])


def test_older_steps_are_not_sent_to_a_mirror_that_the_newest_do_not_fit(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20], size=4096)
    step_files(primary, [30, 40, 50], size=3 << 20)
    with small_disk(tmp_path / "M", "2m") as mirror:
        done = mirrored_now(run_of(primary, mirror, last=2), state)

        assert [failed.step for failed in done.failed] == [50]
        assert names(mirror) == set()


def test_older_steps_are_not_sent_to_a_mirror_that_refuses_every_write(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(10, 70, 10))
    (tmp_path / "M").mkdir()

    def refuse(_target: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    done = mirrored_now(run_of(primary, tmp_path / "M", last=2), state, landed=refuse)

    assert [failed.step for failed in done.failed] == [60, 50]
    assert names(tmp_path / "M") == set()


def test_room_is_made_by_policy_and_never_below_it(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30], size=1 << 20)
    with small_disk(tmp_path / "M", "3600k") as mirror:
        run = run_of(primary, mirror, last=2)
        assert copied(mirrored_now(run, state)) == [(30, "mirror"), (20, "mirror")]
        step_files(primary, [40, 50], size=1 << 20)

        done = mirrored_now(run, state)

        assert (50, "mirror") in copied(done)
        assert {"step_0050.pt"} < names(mirror)
        assert len(names(mirror)) >= 2
        for name in names(mirror):
            assert (mirror / name).read_bytes() == (primary / name).read_bytes()
        applied(run, state)
        assert len(names(mirror)) >= 2


def test_a_disk_that_fills_meanwhile_leaves_no_final_name_and_no_leftover(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10], size=3 << 20)
    age(primary, 7200)
    with small_disk(tmp_path / "M", "5m") as mirror:
        hog = mirror / "hog"

        def fill(_what: str, done: int, _of: int) -> None:
            if not hog.exists():
                with contextlib.suppress(OSError), open(hog, "wb") as file:
                    for _ in range(100):
                        file.write(bytes(1 << 20))
                        file.flush()

        done = mirrored_now(run_of(primary, mirror), state, progress=fill)

        assert [failed.step for failed in done.failed] == [10]
        assert os.strerror(errno.ENOSPC) in done.failed[0].error
        assert names(mirror) == {"hog"}
        assert temporaries(mirror) == []
        hog.unlink()
        assert copied(mirrored_now(run_of(primary, mirror), state)) == [(10, "mirror")]


def test_a_budget_counts_where_free_space_does_not(tmp_path: Path, state: Path) -> None:
    from dataclasses import replace

    primary = step_files(tmp_path / "P", [10, 20], size=1 << 20)
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")
    tight = replace(run.replicas[1], capacity=1_500_000, free_space="none")

    done = mirrored_now(replace(run, replicas=(run.replicas[0], tight)), state)

    assert copied(done) == [(20, "mirror")]
    assert "budget" in done.failed[0].error


def test_a_source_that_changes_while_it_is_copied_is_not_published(tmp_path: Path, state: Path) -> None:
    primary = step_dirs(tmp_path / "P", [10])
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")
    late = primary / "step-10" / "late.pt"

    def save_more(_fd: int) -> None:
        late.write_bytes(b"more")

    done = mirrored_now(run, state, landed=save_more)

    assert copied(done) == []
    assert names(tmp_path / "M") == set()
    assert "changed" in {note.kind for note in done.attention}


def test_a_source_that_is_pruned_while_it_is_copied_is_not_brought_back(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10])
    (tmp_path / "M").mkdir()

    done = mirrored_now(
        run_of(primary, tmp_path / "M"), state, landed=lambda _fd: (primary / "step_0010.pt").unlink(missing_ok=True)
    )

    assert copied(done) == []
    assert names(tmp_path / "M") == set()
    assert not done.failed


def test_a_name_that_somebody_takes_meanwhile_is_not_overwritten(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10])
    mirror = tmp_path / "M"
    mirror.mkdir()

    def copy_by_hand(_fd: int) -> None:
        (mirror / "step_0010.pt").write_bytes(b"by hand")

    done = mirrored_now(run_of(primary, mirror), state, landed=copy_by_hand)

    assert copied(done) == []
    assert (mirror / "step_0010.pt").read_bytes() == b"by hand"


@pytest.mark.parametrize("build", [step_files, step_dirs])
def test_an_interrupted_copy_is_continued_and_not_begun_again(tmp_path: Path, state: Path, build) -> None:  # type: ignore[no-untyped-def]
    primary = build(tmp_path / "P", [10], size=60 << 20)
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")
    stop = Stop()

    def halfway(_what: str, done: int, _of: int) -> None:
        if done > 20 << 20:
            stop.request()

    first = mirrored_now(run, state, stop=stop, progress=halfway)
    assert (first.copied, first.failed) == ((), ())
    assert names(tmp_path / "M") <= {"step_0010.pt.part"}
    handed: list[int] = []

    second = mirrored_now(run, state, progress=lambda _what, done, _of: handed.append(done))

    assert copied(second) == [(10, "mirror")]
    total = sum(path.stat().st_size for path in primary.rglob("*.pt"))
    assert handed[-1] < total - (15 << 20)
    assert seen(tmp_path / "M") == seen(primary)
    assert temporaries(tmp_path / "M") == []


def test_what_is_left_of_a_copy_of_other_bytes_is_not_continued(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10], size=40 << 20)
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")
    stop = Stop()
    mirrored_now(run, state, stop=stop, progress=lambda _w, done, _o: stop.request() if done > 20 << 20 else None)
    assert (tmp_path / "M" / "step_0010.pt.part").exists()
    step_files(primary, [10], size=30 << 20)

    assert copied(mirrored_now(run, state)) == [(10, "mirror")]
    assert seen(tmp_path / "M") == seen(primary)


def test_rubbish_in_what_is_continued_is_seen_and_copied_afresh(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10], size=40 << 20)
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")
    stop = Stop()
    mirrored_now(run, state, stop=stop, progress=lambda _w, done, _o: stop.request() if done > 20 << 20 else None)
    flip(tmp_path / "M" / "step_0010.pt.part", 5000)

    assert copied(mirrored_now(run, state)) == [(10, "mirror")]
    assert seen(tmp_path / "M") == seen(primary)


def test_what_is_left_of_a_copy_that_is_wanted_no_more_is_swept(tmp_path: Path, state: Path) -> None:
    primary = step_dirs(tmp_path / "P", [10, 20], size=20 << 20)
    mirror = tmp_path / "M"
    mirror.mkdir()
    run = run_of(primary, mirror, last=1)
    stop = Stop()
    mirrored_now(run, state, stop=stop, progress=lambda _w, done, _o: stop.request() if done > 20 << 20 else None)
    assert temporaries(mirror)
    step_dirs(primary, [30])

    assert copied(mirrored_now(run, state)) == [(30, "mirror")]
    assert temporaries(mirror) == []


def test_a_build_that_another_process_is_at_work_on_is_left_to_it(tmp_path: Path, state: Path) -> None:
    """It holds a lock on its claim; the step it copies is not copied by two."""
    import fcntl

    from prune.mirror.staging import PREFIX
    from prune.publish.target import opaque

    primary = step_dirs(tmp_path / "P", [10])
    mirror = tmp_path / "M"
    (mirror / ".prune" / "staging").mkdir(parents=True)
    with open(mirror / ".prune" / "staging" / f"{PREFIX}{opaque('step-10')}.part", "w") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        done = mirrored_now(run_of(primary, mirror), state)

    assert copied(done) == []
    assert "being written" in done.failed[0].error


# --- one file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, transfer.SMALL, transfer.SMALL + 1, (32 << 20) + 7])
@pytest.mark.parametrize("already", [0, 0.5, 1, 2])
def test_a_file_is_copied_whatever_its_size_and_whatever_was_there(tmp_path: Path, size: int, already: float) -> None:
    data = os.urandom(size)
    (tmp_path / "source").write_bytes(data)
    (tmp_path / "target").write_bytes((data + data)[: int(size * already)])
    source = os.open(tmp_path / "source", os.O_RDONLY)
    target = os.open(tmp_path / "target", os.O_RDWR)

    landed = Transfer().copy(source, target, None)

    import hashlib

    assert (tmp_path / "target").read_bytes() == data
    assert (landed.size, landed.sha256) == (size, hashlib.sha256(data).hexdigest())
    os.close(source)
    os.close(target)


def test_a_wrong_prefix_is_seen(tmp_path: Path) -> None:
    data = os.urandom(transfer.SMALL * 2)
    (tmp_path / "source").write_bytes(data)
    (tmp_path / "target").write_bytes(bytes(1000))
    source = os.open(tmp_path / "source", os.O_RDONLY)
    target = os.open(tmp_path / "target", os.O_RDWR)

    with pytest.raises(Differs):
        Transfer().copy(source, target, None)
    os.close(source)
    os.close(target)


@pytest.mark.parametrize("damaged", [False, True])
def test_reads_that_give_less_than_there_is_hide_nothing_and_are_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    data = os.urandom(transfer.SMALL + 5000)
    (tmp_path / "source").write_bytes(data)
    (tmp_path / "target").touch()
    source = os.open(tmp_path / "source", os.O_RDONLY)
    target = os.open(tmp_path / "target", os.O_RDWR)
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: whole(fd, max(1, length * 3 // 4), at))
    flip_last = flipping(len(data) - 1) if damaged else lambda _target: None

    expected = pytest.raises(Differs) if damaged else contextlib.nullcontext()
    with expected:
        Transfer(landed=flip_last).copy(source, target, None)
    os.close(source)
    os.close(target)
