"""What cannot be meant is answered by a sentence and an exit code, and nothing is deleted."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prune.report.json import content_id
from tests.cli.command import prune
from tests.scenarios.asking import apply, plan
from tests.scenarios.unprivileged import as_nobody, needs_root
from tests.trees.build import HOUR, age, mirrored, names, step_dirs, step_files

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return step_files(tmp_path / "P", range(1, 7))


def refused(*words: object, because: str) -> None:
    for verb in ("plan", "apply"):
        done = prune(verb, *map(str, words))
        assert done.code == 2, (verb, done)
        assert because in done.err, done.err
        assert done.out == ""


# --- roots ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", " ", "/", "//", "/.", "/tmp/.."])
def test_a_root_that_is_nothing_or_everything_is_refused(root: str, run: Path) -> None:
    for words in (("--primary", root), ("--primary", run, "--mirror", root)):
        for verb in ("plan", "apply", "make-room 1GB", "status"):
            done = prune(*verb.split(), *map(str, words))
            assert done.code in (2, 3), (verb, root, done.err)
            assert done.err or verb == "status"
    assert len(names(run)) == 6


def test_a_primary_that_is_not_there_blocks_and_names_itself(tmp_path: Path) -> None:
    done = prune("plan", "--primary", tmp_path / "missing", "--json")
    assert done.code == 3
    assert done.json["runs"][0]["blocks"][0]["block"] == "replica-unreachable"
    assert str(tmp_path / "missing") in done.json["runs"][0]["blocks"][0]["detail"]


def test_nested_roots_are_refused_by_both_names(run: Path) -> None:
    (run / "mirror").mkdir()
    refused("--primary", run, "--mirror", run / "mirror", because=str(run / "mirror"))
    refused("--primary", run / "mirror", "--mirror", run, because=str(run))


def test_one_root_twice_is_refused_under_whatever_name(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    refused("--primary", run, "--mirror", run, because=str(run))
    refused("--primary", run, "--mirror", tmp_path / "link", because=str(tmp_path / "link"))
    refused("--primary", run, "--mirror", f"{run}/../P/.", because="P")


def test_a_mirror_of_bind_mounted_primary_is_the_primary(run: Path, tmp_path: Path) -> None:
    import subprocess

    other = tmp_path / "other name"
    other.mkdir()
    if subprocess.run(["mount", "--bind", run, other], capture_output=True).returncode != 0:
        pytest.skip("a bind mount needs root")
    try:
        refused("--primary", run, "--mirror", other, because=str(other))
    finally:
        subprocess.run(["umount", "-l", other], check=True)


def test_swapped_roots_are_noticed(run: Path, tmp_path: Path) -> None:
    mirror = mirrored(run, tmp_path / "M")
    apply(run, mirror, keep=4)
    for root in (run, mirror):
        step_files(root, (7, 8), seconds=HOUR)
    done = apply(mirror, run, keep=2)
    assert (done.code, done.blocked, done.deleted) == (3, "volume-changed", set())
    assert "are the roots swapped?" in plan(mirror, run, keep=2).run["blocks"][0]["detail"]


def test_a_relative_root_in_a_file_is_refused(tmp_path: Path, run: Path) -> None:
    config = tmp_path / "prune.toml"
    config.write_text('[[runs]]\nname = "t"\nprimary = "P"\n')
    refused("--config", config, because="P")
    config.write_text(f'[[runs]]\nname = "t"\nprimary = "{run}"\nmirrors = ["./M"]\n')
    refused("--config", config, because="./M")


def test_a_relative_root_on_the_command_line_starts_here(tmp_path: Path, run: Path) -> None:
    done = prune("apply", "--yes", "--primary", "P", "--keep-last", "2", cwd=tmp_path)
    assert done.code == 0
    assert len(names(run)) == 2
    assert prune("apply", "--yes", "--primary", ".", "--keep-last", "1", cwd=run).code == 0
    assert len(names(run)) == 1


@pytest.mark.parametrize("kind", ["file", "fifo", "socket", "dangling link"])
def test_what_is_no_directory_is_no_root(tmp_path: Path, run: Path, kind: str) -> None:
    odd = tmp_path / "odd"
    if kind == "file":
        odd.write_text("a checkpoint, perhaps")
    elif kind == "fifo":
        os.mkfifo(odd)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(odd))
    else:
        odd.symlink_to(tmp_path / "nowhere")
    for words in (("--primary", odd), ("--primary", run, "--mirror", odd)):
        for verb in ("plan", "apply"):
            done = prune(verb, "--keep-last", "2", *words)
            assert done.code in (2, 3)
            assert "odd" in done.err + done.out
    assert len(names(run)) == 6


def test_a_file_where_a_checkpoint_directory_should_be_is_foreign_or_stays(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    shutil.rmtree(primary / "step-2")
    (primary / "step-2").write_text("not a directory")
    os.mkfifo(primary / "step-3x")
    shutil.rmtree(primary / "step-1")
    os.mkfifo(primary / "step-1")
    age(primary, 2 * HOUR)

    done = apply(primary, keep=2)

    assert done.code == 0
    assert {"step-1", "step-2", "step-3x", "step-4", "step-5"} <= names(primary)


@needs_root
@pytest.mark.parametrize("which", ["primary", "mirror"])
def test_a_root_that_may_not_be_listed_blocks(which: str) -> None:
    with as_nobody() as nobody:
        primary = step_files(nobody.place / "P", range(1, 7))
        mirror = mirrored(primary, nobody.place / "M")
        nobody.owns(primary)
        nobody.owns(mirror)
        barred = primary if which == "primary" else mirror
        os.chown(barred, 0, 0)
        barred.chmod(0o711)
        planned, done = nobody.plan(primary, mirror, keep=2), nobody.apply(primary, mirror, keep=2)
    assert (planned.code, done.code, done.deleted) == (3, 3, set())
    assert done.blocked in ("listing-incomplete", "replica-unreachable")
    assert "Permission denied" in planned.run["blocks"][0]["detail"]


@needs_root
def test_a_root_that_may_not_be_written_deletes_nothing_and_says_what_is_missing() -> None:
    with as_nobody() as nobody:
        primary = step_files(nobody.place / "P", range(1, 7))
        primary.chmod(0o755)
        planned, done = nobody.plan(primary, keep=2), nobody.apply(primary, keep=2)
    assert planned.deleted == {1, 2, 3, 4}
    assert (done.code, done.blocked, done.deleted) == (3, "control-unusable", set())
    assert "give this user write permission there" in str(done.run) + done.err


@needs_root
def test_what_another_user_locked_into_the_trash_is_told_and_the_rest_goes() -> None:
    """A directory that only root may change inside of a victim: it is out of sight, and told."""
    with as_nobody() as nobody:
        primary = step_dirs(nobody.place / "P", range(1, 7))
        nobody.owns(primary)
        optim = primary / "step-2" / "optim"
        os.chown(optim, 0, 0)
        optim.chmod(0o755)
        done = nobody.apply(primary, keep=2)
        left = names(primary)
    assert done.code == 1
    assert [failed["step"] for failed in done.run["failed"]] == [2]
    assert done.deleted == {1, 3, 4}
    assert left == {"step-5", "step-6"}


# --- names ---------------------------------------------------------------------------------------------------------

ODD = [b"step_0001.pt\n", b"step_\xff0001.pt", b"\xfe\xff", b"step_0001.pt ", b" step_0001.pt", b"step_0001.pt\r",
       b"-rf", b"--keep-last=0", b"$(touch x)", b"step_\xd9\xa1.pt", b"step_00000000000000000000000000000001.pt",
       b"step_-1.pt", b"step_1e3.pt", b"x" * 255]  # fmt: skip


def test_names_that_nobody_expected_are_foreign_and_stay(run: Path) -> None:
    for raw in ODD:
        path = os.fsencode(run) + b"/" + raw
        with open(path, "wb") as file:
            file.write(b"?")
        os.utime(path, (0, 1_700_000_000))

    planned, done = plan(run, keep=2), apply(run, keep=2)

    assert (planned.code, done.code) == (0, 0)
    assert planned.run["foreign"] == len(ODD)
    assert done.deleted == {1, 2, 3, 4}
    assert set(os.listdir(os.fsencode(run))) >= set(ODD)


@pytest.mark.parametrize("raw", [b"r\xff\xfe", b"new\nline", "läufe".encode(), b"a b'c\"d"])
def test_a_root_of_any_name_is_planned_applied_and_told(tmp_path: Path, raw: bytes) -> None:
    primary = step_files(Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw)), range(1, 7))
    plan_file = tmp_path / "plan.json"
    assert prune("plan", "--primary", primary, "--keep-last", "2").code == 0
    assert prune("plan", "--primary", primary, "--keep-last", "2", "--out", plan_file).code == 0
    done = prune("apply", plan_file, "--yes", "--json")
    assert done.code == 0, done.err
    assert {copy["step"] for copy in done.json["runs"][0]["deleted"]} == {1, 2, 3, 4}
    assert prune("history", "--primary", primary).code == 0


@pytest.mark.parametrize(
    "name", ["old-step-100-copy", "step-100.bak", "step-100-export", "step-100 (copy)", "step-100~", "my step-1 00"]
)
def test_a_name_that_merely_contains_a_step_is_foreign(tmp_path: Path, name: str) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400))
    shutil.copytree(primary / "step-100", primary / name)
    age(primary / name, 10 * HOUR)
    assert apply(primary, keep=2).deleted == {100, 200}
    assert name in names(primary)


def test_a_hundred_thousand_foreign_entries_are_counted_and_left_alone(run: Path) -> None:
    for number in range(100_000):
        os.close(os.open(f"{run}/log-{number}.txt", os.O_CREAT | os.O_WRONLY))
    done = apply(run, keep=2)
    assert (done.code, done.deleted) == (0, {1, 2, 3, 4})
    assert plan(run, keep=2).run["foreign"] == 100_000
    assert sum(1 for _ in os.scandir(run)) == 100_000 + 2 + 1


def test_two_names_for_one_step_block_until_one_is_moved(run: Path) -> None:
    shutil.copy2(run / "step_0003.pt", run / "step_3.pt")
    done = apply(run, keep=2)
    assert (done.code, done.blocked, done.deleted) == (3, "layout-ambiguous", set())
    assert "step_3.pt" in plan(run, keep=2).run["blocks"][0]["detail"]


def test_an_empty_directory_is_a_new_run_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "P").mkdir()
    done = apply(tmp_path / "P", keep=2)
    assert (done.code, done.deleted) == (0, set())
    assert list((tmp_path / "P").iterdir()) == []


def test_a_mirror_in_which_nothing_ever_was_is_not_written_to(run: Path, tmp_path: Path) -> None:
    """Its disk may be missing: what is written there now would be hidden below it later."""
    mirror = tmp_path / "M"
    mirror.mkdir()
    done = apply(run, mirror, keep=2)
    assert (done.code, done.deleted) == (0, set())
    assert list(mirror.iterdir()) == []
    mirrored(run, tmp_path / "disk")
    mirror.rmdir()
    (tmp_path / "disk").rename(mirror)
    shutil.rmtree(mirror / ".prune", ignore_errors=True)
    assert apply(run, mirror, keep=2).deleted == {1, 2, 3, 4}


# --- plan files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def plan_file(tmp_path: Path, run: Path) -> Path:
    path = tmp_path / "plan.json"
    assert prune("plan", "--primary", run, "--keep-last", "2", "--out", path).code == 0
    return path


def signed(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A plan changed by somebody who also made its id fit."""
    document = json.loads(path.read_text())
    change(document)
    document["id"] = content_id(document)
    path.write_text(json.dumps(document))


def test_a_plan_of_another_version_is_refused(plan_file: Path, run: Path) -> None:
    signed(plan_file, lambda document: document.update(schema="prune.plan/2"))
    done = prune("apply", plan_file, "--yes")
    assert done.code == 2
    assert "prune.plan/2" in done.err
    assert len(names(run)) == 6


def test_a_plan_edited_by_hand_is_refused(plan_file: Path, run: Path) -> None:
    plan_file.write_text(plan_file.read_text().replace('"keep"', '"delete"'))
    done = prune("apply", plan_file, "--yes")
    assert done.code == 2
    assert "was changed after it was made" in done.err
    assert len(names(run)) == 6


def test_even_a_forged_plan_deletes_no_more_than_a_fresh_one(plan_file: Path, run: Path) -> None:
    def everything(document: dict[str, Any]) -> None:
        for step in document["runs"][0]["steps"]:
            step.update(decision="delete", reasons=[], guards=[])

    signed(plan_file, everything)
    done = prune("apply", plan_file, "--yes", "--json")
    assert done.code == 0
    assert {copy["step"] for copy in done.json["runs"][0]["deleted"]} == {1, 2, 3, 4}


@pytest.mark.parametrize("path", ["../precious", "/etc/passwd", "a/../../precious", "", "."])
def test_a_forged_plan_that_leads_out_of_its_root_is_refused(plan_file: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "precious").write_text("stays")

    def outside(document: dict[str, Any]) -> None:
        document["runs"][0]["steps"][0]["copies"][0]["paths"] = [path]

    signed(plan_file, outside)
    done = prune("apply", plan_file, "--yes")
    assert done.code == 2
    assert (tmp_path / "precious").exists()


@pytest.mark.parametrize("root", ["/", "", "relative"])
def test_a_forged_plan_for_a_root_that_cannot_be_one_is_refused(plan_file: Path, run: Path, root: str) -> None:
    def elsewhere(document: dict[str, Any]) -> None:
        text = json.dumps(document).replace(json.dumps(str(run)), json.dumps(root))
        document.update(json.loads(text))

    signed(plan_file, elsewhere)
    assert prune("apply", plan_file, "--yes").code == 2
    assert len(names(run)) == 6


def test_a_plan_for_other_roots_is_refused(plan_file: Path, tmp_path: Path) -> None:
    other = step_files(tmp_path / "other" / "P", range(1, 7))
    done = prune("apply", plan_file, "--yes", "--primary", other, "--keep-last", "2")
    assert done.code == 2
    assert "is for other roots" in done.err
    assert len(names(other)) == 6


@pytest.mark.parametrize("missing", ["runs", "clock", "created_at", "id"])
def test_a_plan_with_a_part_missing_is_refused(plan_file: Path, run: Path, missing: str) -> None:
    def without(document: dict[str, Any]) -> None:
        del document[missing]

    document = json.loads(plan_file.read_text())
    without(document)
    if missing != "id":
        document["id"] = content_id(document)
    plan_file.write_text(json.dumps(document))
    assert prune("apply", plan_file, "--yes").code == 2
    assert len(names(run)) == 6


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"null", b'"prune.plan/1"', b"{" * 50_000, b"[]" * 10])
def test_what_is_no_plan_at_all_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "plan.json").write_bytes(data)
    done = prune("apply", tmp_path / "plan.json", "--yes")
    assert done.code == 2
    assert "plan.json" in done.err


@pytest.mark.parametrize("place", ["missing.json", ".", "P"])
def test_a_plan_that_is_not_a_file_is_refused(tmp_path: Path, run: Path, place: str) -> None:
    done = prune("apply", tmp_path / place, "--yes")
    assert done.code == 2
    assert len(names(run)) == 6
