"""What `prune verify` finds on real trees and real damage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from prune.checking import Means
from prune.errors import UsageError
from prune.model import Copy, Health
from prune.publish import publish
from prune.seal import seal_all
from prune.verify import Verified, verify
from tests.runs import run_of, settings_of
from tests.trees.build import age, mirrored, snapshot, step_dirs, step_files, torch_zip
from tests.trees.damage import DAMAGES, KEEPS_THE_LENGTH, damage, flip, largest_file
from tests.trees.real import EXPECTED, unpack

WITH_CHECKSUMS = ("torch_plain", "keras_epochs", "tf_manager", "lightning_last_link", "deepspeed_zero1")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


def found(root: Path, state: Path, *mirrors: Path, steps: tuple[int, ...] = (), **means: object) -> Verified:
    settings = settings_of(run_of(root, *mirrors), state=state)
    return verify(settings, steps, means=Means(**means))[0]  # type: ignore[arg-type]


def health_of(verified: Verified, replica: str = "primary") -> dict[int, Health | None]:
    return {copy.step: copy.health for copy in verified.copies if copy.replica == replica}


def by_step(verified: Verified) -> Iterator[Copy]:
    return iter(sorted(verified.copies, key=lambda copy: copy.step))


@pytest.mark.parametrize("tree", sorted(EXPECTED))
def test_damage_is_found_and_nothing_else_is_called_damaged_on_trees_of_the_stacks(
    tree: str, tmp_path: Path, state: Path
) -> None:
    expected = EXPECTED[tree]
    root = unpack(tree, tmp_path)
    before = snapshot(root)

    health = health_of(found(root, state))

    assert snapshot(root) == before
    for step in expected["complete"]:
        assert health[step] in (Health.INTACT, Health.WHOLE, Health.UNVERIFIED), step
    for step in set(map(int, expected["damaged"])) & set(health):
        assert health[step] is Health.BROKEN, step


@pytest.mark.parametrize("how", sorted(DAMAGES))
@pytest.mark.parametrize("tree", WITH_CHECKSUMS)
def test_every_damage_is_found_where_the_format_has_checksums(tree: str, how: str, tmp_path: Path, state: Path) -> None:
    root = unpack(tree, tmp_path)
    newest = EXPECTED[tree]["resume"]
    damage(max((largest_file(root / path) for path in EXPECTED[tree]["units"][str(newest)]), key=_size), how)

    assert health_of(found(root, state))[newest] is Health.BROKEN


@pytest.mark.parametrize("how", sorted(DAMAGES))
@pytest.mark.parametrize("tree", ["safetensors_unpadded", "hf_trainer", "dcp_sync", "accelerate_auto"])
def test_a_sealed_copy_shows_every_damage_whatever_its_format(tree: str, how: str, tmp_path: Path, state: Path) -> None:
    root = unpack(tree, tmp_path)
    newest = EXPECTED[tree]["resume"]
    paths = [root / path for path in EXPECTED[tree]["units"][str(newest)]]
    _sidecars(root, paths)
    assert health_of(found(root, state))[newest] in (Health.INTACT, Health.WHOLE)

    damage(max(map(largest_file, paths), key=_size), how)

    assert health_of(found(root, state))[newest] is Health.BROKEN


@pytest.mark.parametrize("how", sorted(set(DAMAGES) - KEEPS_THE_LENGTH))
def test_what_changes_the_length_of_a_published_file_is_found_by_size_alone(
    how: str, tmp_path: Path, state: Path
) -> None:
    _published(tmp_path / "P", 10)
    damage(tmp_path / "P" / "step_0010.bin", how)

    (copy,) = found(tmp_path / "P", state, check="size").copies

    assert copy.health is Health.BROKEN
    assert "expected" in (copy.detail or "") or "0 bytes" in (copy.detail or "")


def test_a_flipped_bit_is_beyond_sizes_and_structure_and_found_by_content(tmp_path: Path, state: Path) -> None:
    _published(tmp_path / "P", 10)
    flip(tmp_path / "P" / "step_0010.bin")

    assert health_of(found(tmp_path / "P", state, check="size"))[10] is Health.WHOLE
    assert health_of(found(tmp_path / "P", state, check="structure"))[10] is Health.WHOLE
    assert health_of(found(tmp_path / "P", state, check="sha256"))[10] is Health.BROKEN


def test_a_file_cut_a_moment_ago_is_broken_and_not_called_in_flight(tmp_path: Path, state: Path) -> None:
    step_files(tmp_path / "P", [10, 20], seconds=0)
    damage(tmp_path / "P" / "step_0020.pt", "truncated to 73 %")

    assert health_of(found(tmp_path / "P", state)) == {10: Health.INTACT, 20: Health.BROKEN}


def test_a_temporary_is_no_copy(tmp_path: Path, state: Path) -> None:
    step_files(tmp_path / "P", [10])
    (tmp_path / "P" / "step_0020.pt.part").write_bytes(torch_zip()[:100])

    assert health_of(found(tmp_path / "P", state)) == {10: Health.INTACT}


def test_an_unchanged_copy_is_read_once_and_again_only_when_asked(tmp_path: Path, state: Path) -> None:
    step_files(tmp_path / "P", [10, 20])
    read: list[int] = []

    def count(_what: str, done: int, _of: int) -> None:
        read.append(done)

    found(tmp_path / "P", state, progress=count)
    first, read[:] = len(read), []
    found(tmp_path / "P", state, progress=count)
    second, read[:] = len(read), []
    found(tmp_path / "P", state, progress=count, again=True)

    assert (first > 0, second, len(read) > 0) == (True, 0, True)


def test_a_copy_that_changed_is_read_again(tmp_path: Path, state: Path) -> None:
    step_files(tmp_path / "P", [10])
    assert health_of(found(tmp_path / "P", state))[10] is Health.INTACT

    flip(tmp_path / "P" / "step_0010.pt", 3000)

    assert health_of(found(tmp_path / "P", state))[10] is Health.BROKEN


def test_only_the_steps_that_are_asked_for_are_checked(tmp_path: Path, state: Path) -> None:
    step_files(tmp_path / "P", [10, 20, 30])
    mirrored(tmp_path / "P", tmp_path / "M")

    copies = found(tmp_path / "P", state, tmp_path / "M", steps=(20,)).copies

    assert [(copy.step, copy.replica) for copy in copies] == [(20, "primary"), (20, "mirror")]


def test_a_step_that_no_replica_holds_is_an_error(tmp_path: Path, state: Path) -> None:
    step_files(tmp_path / "P", [10])

    with pytest.raises(UsageError, match="no replica holds step 11"):
        found(tmp_path / "P", state, steps=(11,))


def test_a_mirror_that_cannot_be_reached_is_unseen_and_the_rest_is_checked(tmp_path: Path, state: Path) -> None:
    step_files(tmp_path / "P", [10])

    verified = found(tmp_path / "P", state, tmp_path / "nowhere")

    assert health_of(verified) == {10: Health.INTACT}
    assert [block.block for block in verified.unseen] == ["replica-unreachable"]
    assert verified.incomplete


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_is_unknown_and_not_damaged(tmp_path: Path, state: Path) -> None:
    step_files(tmp_path / "P", [10])
    (tmp_path / "P" / "step_0010.pt").chmod(0)

    verified = found(tmp_path / "P", state)

    assert health_of(verified) == {10: Health.UNKNOWN}
    assert not verified.damaged


def test_a_manifest_that_cannot_be_parsed_makes_its_copy_unknown(tmp_path: Path, state: Path) -> None:
    _published(tmp_path / "P", 10)
    (tmp_path / "P" / ".prune" / "manifests" / "step_0010.bin.json").write_text('{"schema": "prune')

    assert health_of(found(tmp_path / "P", state)) == {10: Health.UNKNOWN}


def test_the_manifest_that_a_killed_publisher_was_about_to_install_counts(tmp_path: Path, state: Path) -> None:
    _published(tmp_path / "P", 10)
    manifests = tmp_path / "P" / ".prune" / "manifests"
    (manifests / "step_0010.bin.json").rename(manifests / "step_0010.bin.json.next")

    assert health_of(found(tmp_path / "P", state)) == {10: Health.INTACT}
    flip(tmp_path / "P" / "step_0010.bin")
    assert health_of(found(tmp_path / "P", state)) == {10: Health.BROKEN}


def test_a_copy_that_is_the_same_as_an_intact_one_is_intact(tmp_path: Path, state: Path) -> None:
    primary = unpack("safetensors_unpadded", tmp_path)
    mirror = mirrored(primary, tmp_path / "M")
    seal_all(settings_of(run_of(mirror), state=tmp_path / "other.db"))

    assert set(health_of(found(primary, state, mirror)).values()) == {Health.INTACT}


def test_copies_that_differ_without_checksums_are_both_suspect(tmp_path: Path, state: Path) -> None:
    primary = unpack("safetensors_unpadded", tmp_path)
    mirrored(primary, tmp_path / "M")
    flip(tmp_path / "M" / "step_990.safetensors", -1)

    verified = found(primary, state, tmp_path / "M")

    suspects = {(copy.step, copy.replica) for copy in verified.copies if copy.health is Health.SUSPECT}
    assert suspects == {(990, "primary"), (990, "mirror")}
    again = found(primary, state, tmp_path / "M")
    assert {(c.step, c.replica) for c in again.copies if c.health is Health.SUSPECT} == suspects


def test_of_two_that_differ_the_sealed_one_is_right(tmp_path: Path, state: Path) -> None:
    primary = unpack("safetensors_unpadded", tmp_path)
    mirrored(primary, tmp_path / "M")
    _sidecars(primary, [primary / "step_990.safetensors"])
    flip(tmp_path / "M" / "step_990.safetensors", -1)

    copies = {(c.step, c.replica): c.health for c in found(primary, state, tmp_path / "M").copies}

    assert copies[990, "primary"] is Health.INTACT
    assert copies[990, "mirror"] is Health.SUSPECT


def test_an_unknown_format_far_smaller_than_its_siblings_is_suspect(tmp_path: Path, state: Path) -> None:
    root = tmp_path / "P"
    root.mkdir()
    for step in (10, 20, 30, 40):
        (root / f"step_{step}.bin").write_bytes(b"\x01opaque" * (10 if step == 40 else 1000))
    age(root, 7200)

    assert health_of(found(root, state, steps=(40,))) == {40: Health.SUSPECT}


def test_a_directory_is_checked_file_by_file(tmp_path: Path, state: Path) -> None:
    root = step_dirs(tmp_path / "P", [10, 20])
    damage(root / "step-20" / "optim" / "state.pt", "one byte short")

    verified = found(root, state, threads=4)

    assert health_of(verified) == {10: Health.INTACT, 20: Health.BROKEN}
    assert any("optim/state.pt" in (copy.detail or "") for copy in verified.copies)


def test_a_planted_pickle_is_never_run(tmp_path: Path, state: Path) -> None:
    root = tmp_path / "P"
    root.mkdir()
    marker = tmp_path / "it ran"
    planted = f"cos\nsystem\n(S'touch \"{marker}\"'\ntR.".encode()
    (root / "step_10.pkl").write_bytes(planted)
    (root / "step_20.pt").write_bytes(b"\x80\x02" + planted)

    found(root, state)

    assert not marker.exists()


def test_progress_counts_to_the_bytes_that_were_read(tmp_path: Path, state: Path) -> None:
    step_files(tmp_path / "P", [10, 20], size=1 << 20)
    told: list[tuple[int, int]] = []

    found(tmp_path / "P", state, progress=lambda _what, done, of: told.append((done, of)))

    assert told[-1][0] <= told[-1][1]
    assert told[-1][1] >= 2 << 20


def _size(path: Path) -> int:
    return path.stat().st_size


def _published(root: Path, step: int) -> None:
    """A published file of no known format, old enough to be nobody's work in progress."""
    root.mkdir()
    with publish(root / f"step_{step:04d}.bin", step=step) as file:
        file.write(b"\x01opaque" * 4000)


def _sidecars(root: Path, paths: list[Path]) -> None:
    """Sums of every file of a copy, in coreutils form, beside its first path."""
    import hashlib

    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(root)}\n"
        for file in files
        if file.is_file()
    ]
    sums = paths[0].parent / f"{paths[0].name}.sha256"
    sums.write_text("".join(lines))
    shutil.copystat(paths[0], sums)
    newest = max(file.stat().st_mtime_ns for file in files)
    os.utime(sums, ns=(newest, newest))


def test_a_sealed_step_of_several_files_that_lost_one_is_broken(tmp_path: Path, state: Path) -> None:
    primary = unpack("sb3_callback", tmp_path)
    for path in primary.glob("*_steps.*"):
        if "_100_" not in path.name:
            path.unlink()
    seal_all(settings_of(run_of(primary), state=state))
    assert health_of(found(primary, state)) == {100: Health.INTACT}
    (primary / "rl_model_vecnormalize_100_steps.pkl").unlink()

    (copy,) = found(primary, state).copies

    assert copy.health is Health.BROKEN
    assert "rl_model_vecnormalize_100_steps.pkl: missing" in (copy.detail or "")


def test_a_file_of_a_sealed_step_that_got_another_name_is_not_lost(tmp_path: Path, state: Path) -> None:
    """Names that carry a metric change; what was sealed under the old one is no part of the step."""
    primary = unpack("keras_epochs", tmp_path)
    seal_all(settings_of(run_of(primary), state=state), sidecar=True)
    for end in ("", ".sha256"):
        (primary / f"model.12-0.20.keras{end}").rename(primary / f"model.12-0.19.keras{end}")
    seal_all(settings_of(run_of(primary), state=state), sidecar=True)
    for path in primary.glob("*.sha256"):
        age(path, 7200)

    assert health_of(found(primary, state))[12].restorable
