"""stable-baselines3: a step whose save was killed between its files, told by the steps around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune.model import Health
from tests.layouts.helpers import Seen, sketch
from tests.trees.stacks import put

BUFFER = "rl_model_replay_buffer_{}_steps.pkl"
NORMALISED = "rl_model_vecnormalize_{}_steps.pkl"
PICKLE = b"\x80\x04N."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four steps with everything beside them."""
    sketch(tmp_path, *(f"rl_model_{step}_steps.zip" for step in (100, 200, 300, 400)))
    for step in (100, 200, 300, 400):
        put(tmp_path / BUFFER.format(step), PICKLE)
        put(tmp_path / NORMALISED.format(step), PICKLE)
    return tmp_path


def broken(root: Path, base: str = "") -> dict[int, str | None]:
    seen = Seen(root, "stable-baselines3", base)
    verdicts = {step: seen.verdict(step) for step in seen.steps}
    return {step: verdict.detail for step, verdict in verdicts.items() if verdict.health is Health.BROKEN}


def test_with_everything_beside_every_model_nothing_is_missing(root: Path) -> None:
    assert broken(root) == {}


@pytest.mark.parametrize("name", [BUFFER, NORMALISED])
@pytest.mark.parametrize("step", [200, 400])
def test_a_save_killed_before_a_file_that_the_steps_around_have_is_broken(root: Path, name: str, step: int) -> None:
    (root / name.format(step)).unlink()
    what = name.removeprefix("rl_model_").partition("_{}")[0]
    assert list(broken(root)) == [step]
    assert f"rl_model_{step}_steps.zip: its {what} is missing" in (broken(root)[step] or "")


def test_below_a_base_it_is_told_all_the_same(root: Path) -> None:
    base = root / "run" / "models"
    base.mkdir(parents=True)
    for path in root.glob("rl_model_*"):
        path.rename(base / path.name)
    (base / BUFFER.format(400)).unlink()
    assert list(broken(root, "run/models")) == [400]


def test_what_later_steps_do_without_as_well_was_turned_off(root: Path) -> None:
    for step in (300, 400):
        (root / BUFFER.format(step)).unlink()
    assert broken(root) == {}


def test_what_was_turned_on_later_is_not_missing_before(root: Path) -> None:
    for step in (100, 200):
        (root / NORMALISED.format(step)).unlink()
    assert broken(root) == {}


def test_a_file_that_came_after_the_listing_is_missing_no_more(root: Path) -> None:
    (root / BUFFER.format(400)).unlink()
    listed = Seen(root, "stable-baselines3")
    put(root / BUFFER.format(400), PICKLE)
    now = Seen(root, "stable-baselines3").members(400)
    assert listed.layout.examine(now, listed.reader).health.restorable
