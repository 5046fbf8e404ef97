"""Saves under way, saves that died, and others who delete: none of them costs a step that restores."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.runs import applied, deleted_steps, run_of
from tests.scenarios.asking import apply, plan
from tests.trees.build import HOUR, age, mirrored, names, step_dirs, step_files, torch_zip

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def between_saves(tmp_path: Path) -> list[Path]:
    """One good step on both sides, and on the primary the beginnings of the next."""
    primary = step_dirs(tmp_path / "P", [100])
    mirror = mirrored(primary, tmp_path / "M")
    (primary / "step-200").mkdir()
    (primary / "step-200" / "rank_0.pt.part").write_bytes(torch_zip()[:900])
    return [primary, mirror]


@pytest.mark.parametrize("since", [10, HOUR], ids=["being written", "its writer was killed"])
def test_the_only_good_step_stays_until_the_next_one_is_whole(between_saves: list[Path], since: float) -> None:
    age(between_saves[0] / "step-200", since)

    planned, done = plan(*between_saves, keep=1), apply(*between_saves, keep=1)

    assert planned.candidate == 100
    assert done.deleted == set()
    assert [names(root) for root in between_saves] == [{"step-100", "step-200"}, {"step-100"}]


@pytest.mark.parametrize("since", [10, HOUR])
def test_not_even_a_want_of_room_takes_the_only_good_step(between_saves: list[Path], since: float) -> None:
    primary, mirror = between_saves
    age(primary / "step-200", since)

    done = prune("make-room", "900PiB", "--yes", "--primary", primary, "--mirror", mirror, "--keep-last", "1", "--json")

    assert done.code == 4
    assert (primary / "step-100" / "rank_0.pt").exists()
    assert names(mirror) == {"step-100"}


def test_once_the_next_one_is_whole_on_both_sides_the_one_before_goes(between_saves: list[Path]) -> None:
    primary, mirror = between_saves
    shutil.rmtree(primary / "step-200")
    step_dirs(primary, [200], seconds=HOUR)
    assert apply(primary, mirror, keep=1).deleted == set(), "the mirror does not have it yet"

    shutil.copytree(primary / "step-200", mirror / "step-200")
    age(mirror / "step-200", HOUR)

    assert apply(primary, mirror, keep=1).deleted == {100}
    assert names(primary) == names(mirror) == {"step-200"}


def test_staging_is_neither_counted_nor_touched_and_falls_under_its_own_rule(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300))
    for name, seconds in ((".staging-step-400", 10), (".staging-step-250", 5 * HOUR), (".staging-step-150", 30 * HOUR)):
        (primary / name).mkdir()
        (primary / name / "model.pt").write_bytes(b"PK\x03\x04half")
        age(primary / name, seconds)
    for name in ("notes", "step-final"):
        (primary / name).mkdir()
        age(primary / name, 90 * HOUR)

    planned, done = plan(primary, keep=2), apply(primary, keep=2)

    assert {o["path"]: (o["decision"], o["reason"]) for o in planned.run["orphans"]} == {
        ".staging-step-400": ("keep", "in-flight"),
        ".staging-step-250": ("keep", "younger-than-1d"),
        ".staging-step-150": ("delete", "orphan"),
    }
    assert planned.deleted == done.deleted == {100}
    assert [o["path"] for o in done.run["orphans_deleted"]] == [".staging-step-150"]
    left = {path.name for path in primary.iterdir()} - {".prune"}
    assert left == {"step-200", "step-300", "notes", "step-final", ".staging-step-400", ".staging-step-250"}


def test_what_others_deleted_between_plan_and_apply_is_counted_apart(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400, 500))
    state = tmp_path / "state.db"
    taken = []

    def rotation() -> bool:
        """The trainer deletes all of one victim and half of another, once everything is planned."""
        if not taken:
            shutil.rmtree(primary / "step-100")
            (primary / "step-200" / "rank_0.pt").unlink()
            taken.append(True)
        return True

    outcome = applied(run_of(primary, last=2), state, keep_going=rotation)

    assert outcome.gone == ((100, "primary"),)
    assert deleted_steps(outcome) == [300]
    assert {held.step for held in outcome.guarded} == {200}, "somebody is at work on it"
    assert not outcome.failed
    age(primary / "step-200", 3 * HOUR)
    assert deleted_steps(applied(run_of(primary, last=2), state)) == [200]
    assert names(primary) == {"step-400", "step-500"}


def test_a_reviewed_plan_whose_steps_others_deleted_ends_well(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400, 500))
    mirror = mirrored(primary, tmp_path / "M")
    asked = ("--primary", primary, "--mirror", mirror, "--keep-last", "2")
    assert prune("plan", *asked, "--out", tmp_path / "plan.json").code == 0
    for root in (primary, mirror):
        shutil.rmtree(root / "step-100")
    (primary / "step-200" / "rank_0.pt").unlink()

    done = prune("apply", tmp_path / "plan.json", "--yes", "--json")

    run = done.json["runs"][0]
    assert done.code == 0
    assert {copy["step"] for copy in run["deleted"]} == {300}
    assert {held["step"] for held in run["guarded"]} == {200}, "somebody is at work on it"
    assert {(gone["step"], gone["replica"]) for gone in run["gone"]} == {(100, "primary"), (100, "mirror")}


def test_a_save_published_while_a_pass_is_under_way_is_never_taken(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 9))
    published = iter(range(100, 200))

    def trainer() -> bool:
        (primary / f"step_{next(published):04d}.pt").write_bytes(torch_zip())
        return True

    outcome = applied(run_of(primary, last=2), tmp_path / "s.db", keep_going=trainer, batch=1)

    assert deleted_steps(outcome) == list(range(1, 7))
    assert {name for name in names(primary) if name >= "step_0100"} >= {f"step_{n:04d}.pt" for n in range(100, 106)}


def test_a_step_that_another_process_has_open_stays_until_it_is_closed(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    reader = subprocess.Popen(
        [sys.executable, "-c", "import sys; f = open(sys.argv[1], 'rb'); print(flush=True); sys.stdin.read()",
         str(primary / "step_0002.pt")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert reader.stdout is not None
    reader.stdout.readline()
    held = apply(primary, keep=2)
    reader.communicate(b"")

    assert held.deleted == {1, 3}
    assert held.guards == {2: {"busy"}}
    assert apply(primary, keep=2).deleted == {2}


def test_a_step_opened_while_it_is_withdrawn_comes_back(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    readers = []

    def reader() -> bool:
        if not readers:
            code = "import sys; f = open(sys.argv[1], 'rb'); print(flush=True); sys.stdin.read()"
            process = subprocess.Popen([sys.executable, "-c", code, str(primary / "step_0002.pt")],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
            assert process.stdout is not None
            process.stdout.readline()
            readers.append(process)
        return True

    outcome = applied(run_of(primary, last=2), tmp_path / "s.db", keep_going=reader)
    readers[0].communicate(b"")

    assert deleted_steps(outcome) == [1, 3]
    assert [(held.step, held.guard) for held in outcome.guarded] == [(2, "changed")]
    assert (primary / "step_0002.pt").exists()


def test_a_step_saved_again_under_its_name_while_it_was_in_hand_is_never_replaced(tmp_path: Path) -> None:
    """The old copy cannot come back, since its name is taken again: it waits in the trash, and that is told."""
    primary = step_files(tmp_path / "P", range(1, 6))
    run = run_of(primary, last=2)
    new = torch_zip(9000)

    def saves_again() -> bool:
        (primary / "step_0002.pt").unlink()
        (primary / "step_0002.pt").write_bytes(new)
        return True

    outcome = applied(run, tmp_path / "s.db", keep_going=saves_again)

    assert 2 not in deleted_steps(outcome)
    assert (primary / "step_0002.pt").read_bytes() == new


def test_half_of_a_step_never_goes_for_the_age_of_one_of_its_files(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    age(primary / "step-1" / "rank_1.pt", 5)

    done = apply(primary, keep=2)

    assert done.deleted == {2, 3}
    assert "in-flight" in done.guards[1]
    assert len(list((primary / "step-1").rglob("*.pt"))) == 4


def test_a_pass_over_many_runs_is_not_stopped_by_one_that_is_in_trouble(tmp_path: Path) -> None:
    good = step_files(tmp_path / "ckpt" / "good", range(1, 6))
    bad = step_files(tmp_path / "ckpt" / "bad", range(1, 6))
    (bad / ".prune").write_text("a file where our folder should be")
    config = tmp_path / "prune.toml"
    config.write_text(f'[[runs]]\nprimary = "{tmp_path}/ckpt/{{run}}"\n[runs.keep]\nlast = 2\n')

    done = prune("apply", "--yes", "--config", config, "--json")

    assert done.code == 3
    assert {run["run"]: len(run["deleted"]) for run in done.json["runs"]} == {"bad": 0, "good": 3}
    assert len(names(good)) == 2
    assert len(names(bad)) == 5


def test_stopping_ends_the_pass_after_the_batch_in_hand(tmp_path: Path) -> None:
    from prune.stop import Stop

    primary = step_files(tmp_path / "P", range(1, 9))
    stop = Stop()
    outcome = applied(run_of(primary, last=2), tmp_path / "s.db", stop=stop, batch=1,
                      told=lambda _copy: stop.request())  # fmt: skip
    assert deleted_steps(outcome) == [1]
    assert len(names(primary)) == 7
