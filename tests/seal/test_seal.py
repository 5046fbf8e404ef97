from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import prune
from prune.errors import UsageError
from prune.model import Health
from prune.seal import Sealing, seal_all
from prune.verify import verify
from tests.publish.looking import fits, manifest, manifests
from tests.runs import run_of, settings_of
from tests.trees import build
from tests.trees.damage import DAMAGES, damage
from tests.trees.real import EXPECTED, unpack


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


def seal(root: Path, state: Path, *mirrors: Path, steps: tuple[int, ...] = (), sidecar: bool = False) -> Sealing:
    return seal_all(settings_of(run_of(root, *mirrors), state=state), steps, sidecar=sidecar)[0]


def sealed_steps(found: Sealing, replica: str = "primary") -> list[int]:
    return sorted(each.step for each in found.sealed if each.replica == replica)


def refused(found: Sealing) -> dict[tuple[int, str], str]:
    return {(each.step, each.replica): each.detail for each in found.refused}


def test_every_whole_checkpoint_gets_a_manifest_that_fits(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20, 30])
    found = seal(root, state)
    assert sealed_steps(found) == [10, 20, 30]
    for step in (10, 20, 30):
        of_step = manifest(root, f"step_00{step}.pt")
        assert of_step.step == step
        assert fits(root, of_step)


def test_a_manifest_is_as_old_as_what_it_speaks_of(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10])
    seal(root, state)
    assert manifest(root, "step_0010.pt").created_at_ns == (root / "step_0010.pt").stat().st_mtime_ns


def test_sealing_touches_no_checkpoint(tmp_path: Path, state: Path) -> None:
    root = build.step_dirs(tmp_path / "run", [10, 20])
    before = build.snapshot(root / "step-10")
    seal(root, state)
    assert build.snapshot(root / "step-10") == before
    assert sorted(os.listdir(root)) == [".prune", "step-10", "step-20"]


def test_a_second_call_finds_all_of_it_done(tmp_path: Path, state: Path) -> None:
    root = build.step_dirs(tmp_path / "run", [10, 20])
    seal(root, state)
    again = seal(root, state)
    assert (again.sealed, again.already, again.refused) == ((), 2, ())


def test_what_was_sealed_verifies_as_intact(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    seal(root, state)
    (root / "step_0010.pt").write_bytes(build.torch_zip(fill=b"X"))
    os.utime(root / "step_0010.pt", (time.time() - 9999, time.time() - 9999))
    checked = verify(settings_of(run_of(root), state=state))[0]
    assert {copy.step: copy.health for copy in checked.copies} == {10: "broken", 20: "intact"}


def test_what_has_no_checksums_of_its_own_verifies_as_intact_once_it_is_sealed(tmp_path: Path, state: Path) -> None:
    root = unpack("safetensors_unpadded", tmp_path)
    run = settings_of(run_of(root), state=state)
    assert {copy.health for copy in verify(run)[0].copies} == {Health.WHOLE}
    seal(root, state)
    assert {copy.health for copy in verify(run)[0].copies} == {Health.INTACT}


def test_what_was_sealed_elsewhere_is_held_to_its_manifest(tmp_path: Path, state: Path) -> None:
    root = unpack("safetensors_unpadded", tmp_path)
    run = settings_of(run_of(root), state=state)
    verify(run)
    seal(root, tmp_path / "other" / "prune.db")
    assert {copy.health for copy in verify(run)[0].copies} == {Health.INTACT}


def test_only_the_steps_given_are_sealed(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20, 30])
    assert sealed_steps(seal(root, state, steps=(20,))) == [20]
    with pytest.raises(UsageError, match="holds step 99"):
        seal(root, state, steps=(99,))


def test_every_replica_gets_its_own(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    mirror = build.mirrored(root, tmp_path / "mirror")
    found = seal(root, state, mirror)
    assert sealed_steps(found, "mirror") == [10, 20]
    assert fits(mirror, manifest(mirror, "step_0010.pt"))


@pytest.mark.parametrize("kind", sorted(DAMAGES))
def test_what_is_damaged_is_never_sealed(kind: str, tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20, 30], size=40_000)
    damage(root / "step_0020.pt", kind)
    found = seal(root, state)
    assert sealed_steps(found) == [10, 30]
    assert [each.damage for each in found.refused] == [True]


def test_what_is_far_smaller_than_its_siblings_is_never_sealed(tmp_path: Path, state: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    for step in range(10, 70, 10):
        (root / f"step_{step}.bin").write_bytes(os.urandom(50_000 if step != 60 else 900))
        build.age(root / f"step_{step}.bin", 9000)
    found = seal(root, state)
    assert (60, "primary") in refused(found)
    assert 60 not in sealed_steps(found)


def test_what_is_being_written_is_never_sealed(tmp_path: Path, state: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    for step in (10, 20):
        (root / f"step_{step}.bin").write_bytes(os.urandom(5000))
    build.age(root / "step_10.bin", 9000)
    found = seal(root, state)
    assert sealed_steps(found) == [10]
    assert "moments ago" in refused(found)[20, "primary"]


def test_a_step_with_a_fresh_temporary_is_never_sealed(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    (root / "step_0020.pt.part").write_bytes(b"half")
    found = seal(root, state)
    assert sealed_steps(found) == [10]
    assert "temporary" in refused(found)[20, "primary"]


def test_a_whole_file_may_be_sealed_right_after_its_save(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10], seconds=0)
    assert sealed_steps(seal(root, state)) == [10]


def test_a_lost_manifest_is_not_made_again_from_bytes_that_the_mirrors_contradicts(tmp_path: Path, state: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    for step in (10, 20):
        (root / f"step_{step}.bin").write_bytes(os.urandom(5000))
        build.age(root / f"step_{step}.bin", 9000)
    mirror = build.mirrored(root, tmp_path / "mirror")
    seal(root, state, mirror)
    (root / ".prune" / "manifests" / "step_20.bin.json").unlink()
    data = bytearray((root / "step_20.bin").read_bytes())
    data[100] ^= 1
    (root / "step_20.bin").write_bytes(data)
    build.age(root / "step_20.bin", 9000)
    found = seal(root, state, mirror)
    assert sealed_steps(found) == []
    assert (20, "primary") in refused(found)
    assert "step_20.bin.json" not in manifests(root)


def test_a_manifest_that_outlived_its_copy_still_contradicts(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    mirror = build.mirrored(root, tmp_path / "mirror")
    seal(root, state, mirror)
    (mirror / "step_0020.pt").unlink()
    (root / ".prune" / "manifests" / "step_0020.pt.json").unlink()
    (root / "step_0020.pt").write_bytes(build.torch_zip(fill=b"Z"))
    build.age(root / "step_0020.pt", 9000)
    found = seal(root, state, mirror)
    assert "the manifest on mirror says" in refused(found)[20, "primary"]
    assert [each.damage for each in found.refused] == [True]


def test_a_lost_manifest_is_made_again_where_the_mirrors_agrees(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    mirror = build.mirrored(root, tmp_path / "mirror")
    seal(root, state, mirror)
    (root / ".prune" / "manifests" / "step_0020.pt.json").unlink()
    assert sealed_steps(seal(root, state, mirror)) == [20]
    assert manifests(root) == ["step_0010.pt.json", "step_0020.pt.json"]


def test_a_sidecar_on_the_mirror_contradicts_too(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10])
    mirror = build.mirrored(root, tmp_path / "mirror")
    subprocess.run("sha256sum step_0010.pt > step_0010.pt.sha256", shell=True, check=True, cwd=mirror)
    build.age(mirror / "step_0010.pt.sha256", 100)
    (root / "step_0010.pt").write_bytes(build.torch_zip(fill=b"Z"))
    build.age(root / "step_0010.pt", 9000)
    found = seal(root, state, mirror)
    assert "sidecar on mirror says" in refused(found)[10, "primary"]


def test_a_step_that_was_saved_again_gets_a_new_manifest(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10])
    seal(root, state)
    (root / "step_0010.pt").write_bytes(build.torch_zip(size=9000, fill=b"N"))
    assert sealed_steps(seal(root, state)) == [10]
    assert fits(root, manifest(root, "step_0010.pt"))


def test_a_manifest_that_cannot_be_read_is_left_alone(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10])
    seal(root, state)
    (root / ".prune" / "manifests" / "step_0010.pt.json").write_text("{torn")
    found = seal(root, state)
    assert sealed_steps(found) == []
    assert (root / ".prune" / "manifests" / "step_0010.pt.json").read_text() == "{torn"


def test_with_a_replica_out_of_reach_nothing_is_sealed(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10])
    found = seal(root, state, tmp_path / "unmounted")
    assert [block.block for block in found.blocks] == ["replica-unreachable"]
    assert not (root / ".prune").exists()


def test_while_another_holds_the_lock_nothing_is_sealed(tmp_path: Path, state: Path) -> None:
    root = build.step_files(tmp_path / "run", [10])
    seal(root, state)
    (root / ".prune" / "manifests" / "step_0010.pt.json").unlink()
    script = "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); time.sleep(99)"
    arguments = [sys.executable, "-c", script, str(root / ".prune" / "lock")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        found = seal(root, state)
        holder.kill()
    assert [block.block for block in found.blocks] == ["locked"]
    assert manifests(root) == []


def test_sidecars_are_written_only_when_asked_and_sha256sum_takes_them(tmp_path: Path, state: Path) -> None:
    root = build.step_dirs(tmp_path / "run", [10])
    build.step_files(tmp_path / "files", [10, 20])
    seal(root, state)
    assert sorted(os.listdir(root)) == [".prune", "step-10"]
    for place in (root, tmp_path / "files"):
        found = seal(place, state, sidecar=True)
        assert all(each.sidecar for each in found.sealed)
        for sidecar in place.glob("*.sha256"):
            subprocess.run(["sha256sum", "--quiet", "-c", sidecar.name], cwd=place, check=True)
    assert len(list((tmp_path / "files").glob("*.sha256"))) == 2
    assert seal(root, state, sidecar=True).already == 1


@pytest.mark.parametrize("tree", sorted(EXPECTED))
def test_on_trees_of_the_stacks_what_is_whole_is_sealed_and_nothing_damaged_is(
    tree: str, tmp_path: Path, state: Path
) -> None:
    root = unpack(tree, tmp_path)
    found = seal(root, state)
    if found.blocks:
        pytest.skip(f"{found.blocks[0].block}: {found.blocks[0].detail}")
    damaged = {int(step) for step in EXPECTED[tree]["damaged"]} - {int(step) for step in EXPECTED[tree]["silent"]}
    assert set(sealed_steps(found)) <= {int(step) for step in EXPECTED[tree]["complete"]} | {
        int(step) for step in EXPECTED[tree]["silent"]
    }
    assert not damaged & set(sealed_steps(found))
    again = seal(root, state)
    assert (again.sealed, again.already) == ((), len(found.sealed))


def test_it_is_called_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state.db")
    root = build.step_files(tmp_path / "run", [10, 20])
    mirror = Path(shutil.copytree(root, tmp_path / "mirror", copy_function=shutil.copy2))
    found = prune.seal(root, steps=[20], mirrors=[mirror])
    assert [(each.step, each.replica) for each in found.sealed] == [(20, "primary"), (20, "mirror")]
