"""A copy whose payload is gone, sidecars alone being left of it, is brought back whole."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from prune.journal import open_journal
from prune.resume import Terms, find, on_primary
from prune.settings.schema import RunSettings
from prune.stores.local import LocalRoot
from tests.mirror.helpers import copied, mirrored_now, seen, temporaries
from tests.runs import run_of
from tests.trees.build import HOUR, age, mirrored, step_dirs, step_files
from tests.trees.real import unpack


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


def sidecar(path: Path, digest: str | None = None) -> Path:
    """``NAME.sha256`` beside a file, as old as it is."""
    beside = path.with_name(path.name + ".sha256")
    beside.write_text(f"{digest or sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    status = path.stat()
    os.utime(beside, ns=(status.st_atime_ns, status.st_mtime_ns))
    return beside


def with_sidecars(root: Path) -> Path:
    for path in sorted(root.glob("*.pt")):
        sidecar(path)
    return root


def trash(root: Path) -> list[Path]:
    return [path for path in (root / ".prune" / "trash").iterdir() if path.is_file()]


def test_a_file_that_was_removed_without_its_sidecar_is_mirrored_again(tmp_path: Path, state: Path) -> None:
    primary = with_sidecars(step_files(tmp_path / "P", [10, 20]))
    mirror = mirrored(primary, tmp_path / "M")
    (mirror / "step_0020.pt").unlink()

    done = mirrored_now(run_of(primary, mirror), state)

    assert not done.failed
    assert copied(done) == [(20, "mirror")]
    assert seen(mirror) == seen(primary)
    assert len(trash(mirror)) == 1
    assert temporaries(mirror) == []


def test_what_is_left_of_an_older_copy_does_not_speak_of_the_new_one(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = mirrored(primary, tmp_path / "M")
    sidecar(mirror / "step_0020.pt", digest="0" * 64)
    (mirror / "step_0020.pt").unlink()

    done = mirrored_now(run_of(primary, mirror), state)

    assert copied(done) == [(20, "mirror")]
    assert seen(mirror) == seen(primary)


def test_what_a_stack_saves_beside_its_model_is_no_obstacle_without_it(tmp_path: Path, state: Path) -> None:
    primary = unpack("sb3_callback", tmp_path)
    run = run_of(primary, tmp_path / "M", last=100)
    (tmp_path / "M").mkdir()
    mirrored_now(run, state)
    wanted = seen(tmp_path / "M")
    (tmp_path / "M" / "rl_model_80_steps.zip").unlink()

    done = mirrored_now(run, state)

    assert not done.failed
    assert copied(done) == [(80, "mirror")]
    assert seen(tmp_path / "M") == wanted


def test_a_directory_that_was_removed_without_its_sidecar_is_mirrored_again(tmp_path: Path, state: Path) -> None:
    primary = step_dirs(tmp_path / "P", [10, 20])
    mirror = tmp_path / "M"
    mirror.mkdir()
    run = run_of(primary, mirror)
    mirrored_now(run, state)
    (mirror / "step-20.sha256").write_text("".join(
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(primary)}\n"
        for path in sorted((primary / "step-20").rglob("*.pt"))
    ))  # fmt: skip
    age(mirror / "step-20.sha256", HOUR)
    (mirror / "step-20").rename(tmp_path / "gone")

    done = mirrored_now(run, state)

    assert not done.failed
    assert copied(done) == [(20, "mirror")]
    assert seen(mirror) == seen(primary)


def test_a_sidecar_that_somebody_writes_just_now_is_waited_for(tmp_path: Path, state: Path) -> None:
    primary = with_sidecars(step_files(tmp_path / "P", [10, 20]))
    mirror = mirrored(primary, tmp_path / "M")
    (mirror / "step_0020.pt").unlink()
    os.utime(mirror / "step_0020.pt.sha256")
    before = seen(mirror)

    done = mirrored_now(run_of(primary, mirror), state)

    assert copied(done) == []
    assert seen(mirror) == before
    assert any("step_0020.pt.sha256 was written moments ago" in note.detail for note in done.attention)


def test_a_mirror_that_died_between_two_names_is_completed(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary = with_sidecars(step_files(tmp_path / "P", [10, 20]))
    mirror = tmp_path / "M"
    mirror.mkdir()
    run = run_of(primary, mirror)
    renamed = LocalRoot.rename_new

    def dies(self: LocalRoot, source: str, target: str, *, into: LocalRoot | None = None) -> None:
        if target == "step_0020.pt":
            os._exit(9)
        renamed(self, source, target, into=into)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(LocalRoot, "rename_new", dies)
        mirrored_now(run, state)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not (mirror / "step_0020.pt").exists()

    done = mirrored_now(run, state)

    assert not done.failed
    assert seen(mirror) == seen(primary)
    assert temporaries(mirror) == []


def test_restoring_clears_what_is_left_on_the_primary_out_of_the_way(tmp_path: Path, state: Path) -> None:
    primary = with_sidecars(step_files(tmp_path / "P", [10, 20]))
    mirror = mirrored(primary, tmp_path / "M")
    wanted = seen(mirror)
    (primary / "step_0020.pt").unlink()

    assert restored(run_of(primary, mirror), state) == str(primary / "step_0020.pt")
    assert seen(primary) == wanted


def test_what_belongs_to_no_checkpoint_stays_and_is_named_with_the_mend(tmp_path: Path, state: Path) -> None:
    primary = with_sidecars(step_files(tmp_path / "P", [10, 20]))
    mirror = mirrored(primary, tmp_path / "M")
    for name in ("step_0020.pt", "step_0020.pt.sha256"):
        (mirror / name).unlink()
    (mirror / "step_0020.pt.sha256").mkdir()
    before = seen(mirror)

    done = mirrored_now(run_of(primary, mirror), state)

    assert without_temporaries(seen(mirror)) == before
    (failed,) = done.failed
    assert "step_0020.pt.sha256 is in the way on mirror" in failed.error
    assert "move it away" in failed.error


def without_temporaries(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    return {path: what for path, what in found.items() if not path.endswith(".part")}


def restored(run: RunSettings, state: Path) -> str:
    journal = open_journal(f"sqlite:///{state}", write=True)
    try:
        found = on_primary(run, find(run, Terms(), journal), Terms(), journal, f"sqlite:///{state}")
    finally:
        journal.close()
    assert found.candidate is not None
    return found.candidate.path
