"""`prune verify`, `prune resume` and `prune mirror` as a shell sees them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.trees.build import names, snapshot, step_files
from tests.trees.damage import damage, flip


def test_verify_ends_with_0_where_all_is_well(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair

    done = prune("verify", "--primary", primary, "--mirror", mirror)

    assert (done.code, done.err) == (0, "")
    assert "20 intact" in done.out


def test_verify_ends_with_5_and_names_what_is_damaged_and_why(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair
    damage(mirror / "step_0070.pt", "truncated to 73 %")

    done = prune("verify", "--primary", primary, "--mirror", mirror)

    assert done.code == 5
    assert "step_0070.pt" in done.out
    assert "end record" in done.out


def test_verify_ends_with_1_when_something_could_not_be_examined(pair: tuple[Path, Path], tmp_path: Path) -> None:
    primary, _ = pair
    damage(primary / "step_0070.pt", "0 bytes")

    done = prune("verify", "--primary", primary, "--mirror", tmp_path / "nowhere")

    assert done.code == 1
    assert "replica-unreachable" in done.out


def test_verify_prints_its_document_alone(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair
    damage(mirror / "step_0070.pt", "one byte short")

    done = prune("verify", "--primary", primary, "--mirror", mirror, "--json", "70", "step_0080.pt")

    assert done.code == 5
    document = done.json
    assert document["schema"] == "prune.verify/1"
    (run,) = document["runs"]
    assert run["run"] == "ckpt"
    told = {(copy["step"], copy["replica"]): copy for copy in run["copies"]}
    assert set(told) == {(70, "primary"), (70, "mirror"), (80, "primary"), (80, "mirror")}
    assert {"step", "replica", "paths", "health", "detail"} <= set(told[70, "mirror"])
    assert (told[70, "mirror"]["health"], told[80, "mirror"]["health"]) == ("broken", "intact")
    assert told[70, "mirror"]["paths"] == ["step_0070.pt"]


@pytest.mark.parametrize("check", ["size", "structure", "sha256"])
def test_verify_and_resume_write_nothing_in_any_root(pair: tuple[Path, Path], check: str) -> None:
    primary, mirror = pair
    damage(primary / "step_0100.pt", "4 KiB zeroed")
    before = snapshot(primary), snapshot(mirror)

    prune("verify", "--primary", primary, "--mirror", mirror, "--check", check)
    prune("resume", "--primary", primary, "--mirror", mirror, "--check", check)

    assert (snapshot(primary), snapshot(mirror)) == before


def test_resume_prints_the_path_alone_and_explains_on_stderr(pair: tuple[Path, Path]) -> None:
    primary, _ = pair
    damage(primary / "step_0100.pt", "truncated to 50 %")

    done = prune("resume", "--primary", primary)

    assert done.code == 0
    assert done.out == f"{primary / 'step_0090.pt'}\n"
    assert "step 100 on primary is passed over: broken" in done.err
    assert "the trainer itself would resume from" in done.err


def test_resume_tells_a_new_run_none_usable_and_not_knowing_apart(pair: tuple[Path, Path], tmp_path: Path) -> None:
    primary, _ = pair
    (tmp_path / "new").mkdir()
    for path in primary.iterdir():
        damage(path, "0 bytes")

    ends = {
        "new": prune("resume", "--primary", tmp_path / "new"),
        "expected": prune("resume", "--primary", tmp_path / "new", "--expect"),
        "damaged": prune("resume", "--primary", primary),
        "unreachable": prune("resume", "--primary", tmp_path / "nowhere"),
    }

    assert {name: done.code for name, done in ends.items()} == {
        "new": 6, "expected": 5, "damaged": 5, "unreachable": 3,
    }  # fmt: skip
    assert {done.out for done in ends.values()} == {""}


def test_resume_as_a_document_holds_what_was_skipped_and_what_the_trainer_would_pick(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair
    damage(primary / "step_0100.pt", "truncated to 50 %")

    document = prune("resume", "--primary", primary, "--mirror", mirror, "--json").json

    assert document["schema"] == "prune.resume/1"
    assert (document["step"], document["replica"], document["health"]) == (100, "mirror", "intact")
    assert document["path"] == str(mirror / "step_0100.pt")
    (skipped,) = document["skipped"]
    assert set(skipped) == {"step", "replica", "path", "health", "detail"}
    assert {"step": 100, "usable": False} | document["trainer_would_pick"] == document["trainer_would_pick"]


def test_where_nothing_is_usable_the_document_still_says_why(pair: tuple[Path, Path]) -> None:
    primary, _ = pair
    for path in primary.iterdir():
        damage(path, "0 bytes")

    done = prune("resume", "--primary", primary, "--json")

    assert done.code == 5
    assert (done.json["step"], done.json["path"]) == (None, None)
    assert len(done.json["skipped"]) == 10


def test_restoring_and_holding_are_the_only_writes_of_resume(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair
    damage(primary / "step_0100.pt", "truncated to 50 %")

    done = prune("resume", "--primary", primary, "--mirror", mirror, "--restore", "--hold", "2h", "--json")

    assert done.code == 0
    assert (done.json["replica"], done.json["path"]) == ("primary", str(primary / "step_0100.pt"))
    assert done.json["lease"]
    assert (primary / "step_0100.pt").read_bytes() == (mirror / "step_0100.pt").read_bytes()
    assert list((primary / ".prune" / "leases").iterdir())
    assert list((mirror / ".prune" / "leases").iterdir())


def test_none_older_than_asked_for(pair: tuple[Path, Path]) -> None:
    primary, _ = pair
    damage(primary / "step_0100.pt", "0 bytes")

    assert prune("resume", "--primary", primary, "--min-step", "90").code == 0
    assert prune("resume", "--primary", primary, "--min-step", "91").code == 5


def test_mirror_copies_and_says_what(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "ckpt", [10, 20, 30])
    (tmp_path / "mirror").mkdir()

    done = prune("mirror", "--primary", primary, "--mirror", tmp_path / "mirror", "--keep-last", "2")

    assert done.code == 0
    assert "2 copies" in done.out
    assert names(tmp_path / "mirror") == {"step_0020.pt", "step_0030.pt"}


def test_mirror_prints_its_document_alone(tmp_path: Path) -> None:
    import hashlib

    primary = step_files(tmp_path / "ckpt", [10])
    (tmp_path / "mirror").mkdir()

    document = prune("mirror", "--primary", primary, "--mirror", tmp_path / "mirror", "--json").json

    assert document["schema"] == "prune.mirror/1"
    (run,) = document["runs"]
    digest = hashlib.sha256((primary / "step_0010.pt").read_bytes()).hexdigest()
    assert {"step": 10, "replica": "mirror", "bytes": 4444, "sha256": digest}.items() <= run["copied"][0].items()
    assert run["failed"] == []


def test_mirror_ends_with_3_where_it_could_not_write_at_all(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "ckpt", [10])
    (tmp_path / "mirror").mkdir()
    words = ("mirror", "--primary", primary, "--mirror", tmp_path / "mirror")
    assert prune(*words).code == 0
    shutil.rmtree(tmp_path / "mirror")
    (tmp_path / "mirror").mkdir()

    assert prune(*words).code == 3
    assert prune("mirror", "--primary", primary, "--mirror", tmp_path / "nowhere").code == 3


def test_mirror_without_a_mirror_is_bad_usage(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "ckpt", [10])

    assert prune("mirror", "--primary", primary).code == 2


def test_a_person_says_whose_copy_is_right(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair
    flip(primary / "step_0100.pt", 3000)

    done = prune("mirror", "--primary", primary, "--mirror", mirror, "100", "--from", "mirror", "--json")

    assert done.code == 0, done.err
    assert json.loads(done.out)["runs"][0]["copied"][0]["replica"] == "primary"
    assert (primary / "step_0100.pt").read_bytes() == (mirror / "step_0100.pt").read_bytes()


def test_steps_that_are_none_are_refused(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair

    assert prune("verify", "--primary", primary, "latest").code == 2
    assert prune("mirror", "--primary", primary, "--mirror", mirror, "latest").code == 2
    assert prune("verify", "--primary", primary, "4711").code == 2
