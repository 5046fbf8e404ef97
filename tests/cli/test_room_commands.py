"""`prune make-room`, `simulate` and `serve` as a shell sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.trees.build import age, step_files

MIB = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return step_files(tmp_path / "ckpt", range(100, 1101, 100), size=8 * MIB)


def test_room_that_is_there_is_reached_and_nothing_is_touched(root: Path) -> None:
    done = prune("make-room", "1KB", "--primary", root, "--yes", "--json")
    assert done.code == 0
    assert (done.json["wanted"], done.json["reached"]) == (1000, True)
    assert done.json["runs"] == []
    assert not (root / ".prune").exists()


def test_room_that_cannot_be_had_is_exit_four_with_bytes_short_and_who_stays(root: Path) -> None:
    done = prune("make-room", "10000TB", "--primary", root, "--keep-last", 9, "--yes")
    assert done.code == 4
    assert "NOT REACHED" in done.out
    assert "9 last" in done.out
    assert len(list(root.glob("*.pt"))) == 9


def test_a_blocked_run_is_exit_three(root: Path, tmp_path: Path) -> None:
    done = prune("make-room", "10000TB", "--primary", root, "--mirror", tmp_path / "gone", "--keep-last", 2, "--yes")
    assert done.code == 3
    assert len(list(root.glob("*.pt"))) == 11


def test_the_json_of_make_room_is_a_result_with_wanted_and_reached(root: Path) -> None:
    done = prune("make-room", "10000TB", "--primary", root, "--keep-last", 9, "--yes", "--json")
    document = done.json
    assert document["schema"] == "prune.result/1"
    assert (document["wanted"], document["reached"]) == (10**16, False)
    (run,) = document["runs"]
    assert {copy["step"] for copy in run["deleted"]} == {100, 200}
    assert set(run["free_before"]) == {"primary"}
    assert "target-not-reached" in {note["kind"] for note in run["attention"]}


@pytest.mark.parametrize("size", ["", "lots", "-1GB", "0", "1G", "120%"])
def test_a_size_that_makes_no_sense_is_refused(root: Path, size: str) -> None:
    assert prune("make-room", "--primary", root, "--yes", "--", size).code == 2


def test_make_room_on_a_replica_that_is_not_there_is_refused_by_name(root: Path) -> None:
    done = prune("make-room", "1GB", "--primary", root, "--on", "cloud", "--yes")
    assert done.code == 2
    assert "cloud" in done.err


# --- simulate --------------------------------------------------------------------------------------------------------


def test_a_policy_is_simulated_from_figures_alone() -> None:
    done = prune("simulate", "--size", "2.5GB", "--save-every", "10m", "--volume", "40GB", "--volume", "30GB",
                 "--keep-last", 12, "--json")  # fmt: skip
    assert done.code == 0
    (run,) = done.json["runs"]
    assert (run["steady_bytes"], run["peak_bytes"]) == (30 * 10**9, 35 * 10**9)
    assert [volume["fits"] for volume in run["volumes"]] == [True, False]
    assert run["largest_keep_last"] == 10


def test_trouble_is_attention_to_who_asks_strictly() -> None:
    figures = ("--size", "2.5GB", "--save-every", "10m", "--volume", "mirror=30GB", "--keep-last", 12)
    assert prune("simulate", *figures).code == 0
    assert prune("simulate", *figures, "--strict").code == 7
    assert "TROUBLE" in prune("simulate", *figures).out


def test_a_run_is_simulated_by_what_lies_on_its_disk(root: Path) -> None:
    for place, path in enumerate(sorted(root.glob("*.pt"))):
        age(path, 100_000 - place * 600)
    done = prune("simulate", "--primary", root, "--keep-last", 3, "--json")
    assert done.code == 0
    (run,) = done.json["runs"]
    assert (run["save_every_seconds"], run["steps_per_save"]) == (pytest.approx(600, abs=1), 100)
    assert run["checkpoint_bytes"] >= 8 * MIB
    assert run["volumes"][0]["bytes"] > 11 * 8 * MIB
    assert len(list(root.glob("*.pt"))) == 11
    assert not (root / ".prune").exists()


def test_figures_on_the_command_line_win_over_the_disk_s(root: Path) -> None:
    done = prune("simulate", "--primary", root, "--size", "1MB", "--save-every", "5m", "--volume", "10MB", "--json")
    (run,) = done.json["runs"]
    assert (run["checkpoint_bytes"], run["save_every_seconds"]) == (10**6, 300)
    assert [volume["bytes"] for volume in run["volumes"]] == [10**7]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--size", "1GB"), "--save-every"),
        (("--save-every", "10m"), "--size"),
        (("--size", "0", "--save-every", "10m"), "--size"),
        (("--size", "1GB", "--save-every", "soon"), "--save-every"),
        (("--size", "1GB", "--save-every", "10m", "--volume", "x=y"), "--volume"),
    ],
)
def test_a_figure_that_is_missing_or_makes_no_sense_is_named(options: tuple[str, ...], named: str) -> None:
    done = prune("simulate", *options)
    assert done.code == 2
    assert named in done.err


def test_a_run_with_one_checkpoint_cannot_tell_how_often_it_saves(tmp_path: Path) -> None:
    done = prune("simulate", "--primary", step_files(tmp_path / "young", [100]))
    assert done.code == 2
    assert "--save-every" in done.err


# --- serve -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", ["nowhere", "127.0.0.1:", ":80", "127.0.0.1:99999"])
def test_an_address_that_makes_no_sense_is_refused(root: Path, listen: str) -> None:
    done = prune("serve", "--primary", root, "--listen", listen)
    assert done.code == 2
    assert "--listen" in done.err


def test_help_of_every_command_about_room_reads_without_a_run() -> None:
    for verb in ("make-room", "simulate", "serve"):
        assert prune(verb, "--help").code == 0
