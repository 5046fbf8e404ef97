"""Which step is the newest: the number decides, and where numbers can no longer tell, nothing goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.scenarios.asking import apply, plan
from tests.trees.build import HOUR, age, mirrored, names, snapshot, step_dirs, step_files

pytestmark = pytest.mark.usefixtures("alone")

DAY = 24 * HOUR


def test_a_made_up_mtime_never_outranks_the_step_number(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (400, 600, 800, 1000))
    age(primary, 3 * DAY)
    age(primary / "step-1000", 3 * DAY + HOUR)
    mirror = mirrored(primary, tmp_path / "M")

    planned = plan(primary, mirror, keep=3)
    applied = apply(primary, mirror, keep=3)

    assert planned.candidate == 1000
    assert planned.deleted == applied.deleted == {400}
    assert names(primary) == names(mirror) == {"step-600", "step-800", "step-1000"}


def test_numbers_are_compared_as_numbers_and_never_as_text(tmp_path: Path) -> None:
    primary = tmp_path / "P"
    for step in (8, 9, 10, 99, 100, 1000):
        step_dirs(primary, [step], seconds=2 * HOUR)

    assert apply(primary, keep=2).deleted == {8, 9, 10, 99}
    assert names(primary) == {"step-100", "step-1000"}


@pytest.fixture
def begun_anew(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with steps of an earlier run, in which a new run has saved its first step."""
    primary = step_dirs(tmp_path / "P", (100, 500, 600, 700))
    age(primary, 6 * DAY)
    age(primary / "step-100", HOUR / 3)
    return primary, mirrored(primary, tmp_path / "M")


def test_the_first_step_of_a_run_begun_anew_in_a_used_folder_stays(begun_anew: tuple[Path, Path]) -> None:
    applied = apply(*begun_anew, keep=3)

    assert applied.code == 0
    assert applied.deleted == set()
    assert applied.guards[100] >= {"rewound", "resume-candidate"}
    assert "step 100 held: written after steps 500" in applied.told("rewound")
    assert prune("apply", "--yes", "--primary", begun_anew[0], "--keep-last", "3", "--strict").code == 7


def test_steps_of_the_new_run_stay_too_once_a_pass_has_seen_it_begin(begun_anew: tuple[Path, Path]) -> None:
    apply(*begun_anew, keep=3)
    for root in begun_anew:
        step_dirs(root, (110, 120, 130), seconds=HOUR / 6)
        age(root / "step-700", HOUR / 7)  # somebody touched the earlier run's newest

    assert apply(*begun_anew, keep=3).deleted == set()


def test_a_person_may_answer_that_the_numbers_are_right(begun_anew: tuple[Path, Path]) -> None:
    primary, _ = begun_anew
    step_dirs(primary, (90,), seconds=HOUR / 4)
    assert apply(primary, keep=3).deleted == set()
    answered = apply(primary, keep=3, more=["--allow-rewound"])
    assert 100 in answered.deleted
    assert answered.guards == {90: {"resume-candidate"}}, "what was written last is still what is resumed from"


def test_a_run_whose_name_begins_like_another_s_is_another_run(tmp_path: Path) -> None:
    seven = step_dirs(tmp_path / "exp7", range(10, 60, 10))
    seventy = step_dirs(tmp_path / "exp70", range(1, 6))
    before = snapshot(seventy)

    assert apply(seven, keep=3).deleted == {10, 20}
    assert snapshot(seventy) == before


def test_each_directory_of_a_template_is_a_run_within_its_own_limit(tmp_path: Path) -> None:
    for number in range(1, 7):
        step_dirs(tmp_path / "ckpt" / f"exp7-a{number}", [100])
    config = tmp_path / "prune.toml"
    config.write_text(f'[[runs]]\nprimary = "{tmp_path}/ckpt/{{run}}"\n[runs.keep]\nlast = 3\n')

    done = prune("plan", "--config", config, "--json")

    assert done.code == 0
    assert [run["run"] for run in done.json["runs"]] == [f"exp7-a{number}" for number in range(1, 7)]
    assert [run["summary"]["delete"] for run in done.json["runs"]] == [0] * 6


def test_a_step_dated_in_the_future_is_held_and_shifts_no_other(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400, 500))
    age(primary / "step-200", -40 * DAY)
    (primary / "step-000600.part").mkdir()
    age(primary / "step-000600.part", 2 * HOUR)
    (primary / "step-garbage").mkdir()
    mirror = mirrored(primary, tmp_path / "M")

    planned = plan(primary, mirror, keep=2)
    applied = apply(primary, mirror, keep=2)

    assert planned.kept == {400, 500}
    assert planned.guards == {200: {"in-flight"}}
    assert "mtime in the future (step 200)" in planned.told("future-mtime")
    assert "rewound" not in planned.attention
    assert applied.deleted == {100, 300}
    assert names(primary) == names(mirror) == {"step-200", "step-400", "step-500", "step-000600.part", "step-garbage"}


def test_a_clock_that_is_off_by_less_than_a_minute_is_no_news(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", (1, 2, 3, 4), seconds=-50)

    planned = plan(primary, keep=2)

    assert planned.guards == {1: {"in-flight"}, 2: {"in-flight"}}
    assert planned.attention == set()
