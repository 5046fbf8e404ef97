"""What a kept step's links lead to is not deleted from under it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.trees.build import HOUR, age, mirrored, names, step_dirs

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of five steps the newest has no weights of its own, but a link to those of the oldest."""
    root = step_dirs(tmp_path / "P", range(1, 6))
    (root / "step-5" / "rank_0.pt").unlink()
    os.symlink("../step-1/rank_0.pt", root / "step-5" / "rank_0.pt")
    age(root / "step-5", HOUR)
    return root


def test_a_step_that_a_kept_steps_links_lead_into_stays_and_says_why(root: Path) -> None:
    plan = prune("plan", "--json", "--primary", root, "--keep-last", "2").json["runs"][0]
    steps = {step["step"]: step for step in plan["steps"]}
    assert steps[5]["decision"] == "keep"
    assert steps[1]["decision"] == "guarded"
    assert [(hold["guard"], hold["detail"]) for hold in steps[1]["guards"]] == [
        ("referenced", "files of step 5 on primary are links into it")
    ]
    assert [step for step, each in steps.items() if each["decision"] == "delete"] == [2]


def test_applying_leaves_what_the_links_lead_to(root: Path) -> None:
    assert prune("apply", "--yes", "--primary", root, "--keep-last", "2").code == 0
    assert {f"step-{step}" for step in (1, 3, 4, 5)} <= names(root)
    assert "step-2" not in names(root)
    assert (root / "step-5" / "rank_0.pt").read_bytes()


def test_links_that_lead_within_the_step_or_to_no_step_hold_nothing(tmp_path: Path) -> None:
    root = step_dirs(tmp_path / "P", range(1, 6))
    (root / "shared").mkdir()
    (root / "shared" / "config.json").write_text("{}")
    os.symlink("../shared/config.json", root / "step-5" / "config.json")
    os.symlink("rank_0.pt", root / "step-5" / "latest.pt")
    age(root / "step-5", HOUR)
    plan = prune("plan", "--json", "--primary", root, "--keep-last", "2").json["runs"][0]
    assert [step["step"] for step in plan["steps"] if step["decision"] == "delete"] == [1, 2, 3]


def test_the_mend_for_a_step_that_leans_on_another_is_not_a_matter_of_rights(root: Path) -> None:
    plan = prune("plan", "--json", "--primary", root, "--keep-last", "2").json["runs"][0]
    (note,) = [note for note in plan["attention"] if note["kind"] == "unreadable"]
    assert "links" in note["mend"]


@pytest.mark.parametrize("spelled", ["through a linked folder", "absolute", "from the mirror into the primary"])
def test_however_the_way_to_it_is_spelled_what_links_lead_to_stays(tmp_path: Path, spelled: str) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    mirror = mirrored(primary, tmp_path / "M")
    os.symlink(primary, tmp_path / "alias")
    target = {
        "through a linked folder": tmp_path / "alias" / "step-1" / "rank_0.pt",
        "absolute": primary / "step-1" / "rank_0.pt",
        "from the mirror into the primary": Path("../../P/step-1/rank_0.pt"),
    }[spelled]
    holder = mirror if spelled.startswith("from") else primary
    (holder / "step-5" / "rank_0.pt").unlink()
    os.symlink(target, holder / "step-5" / "rank_0.pt")
    age(holder / "step-5", HOUR)
    prune("apply", "--yes", "--primary", primary, "--mirror", mirror, "--keep-last", "2")
    assert (primary / "step-1" / "rank_0.pt").exists()
    assert "step-1" in names(mirror)
