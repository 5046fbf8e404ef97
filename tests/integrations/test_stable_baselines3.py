"""stable-baselines3 trains, checkpoints, and goes on from what is left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3: pip install stable-baselines3")

from stable_baselines3 import DQN

from prune.model import Health
from prune.resume import resume
from tests.integrations.train_sb3 import beside, learn
from tests.integrations.training import train
from tests.runs import Guards, applied, deleted_steps, planned, run_of
from tests.trees.build import names

pytestmark = pytest.mark.slow

AT_ONCE = Guards(in_flight=0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sb3") / "run"
    learn(root, 600)
    return root


@pytest.fixture
def root(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def models(root: Path) -> list[Path]:
    """What a script would choose from, in the order of its own count of steps."""
    return sorted(root.glob("*_steps.zip"), key=lambda path: int(DQN.load(path).num_timesteps))


def files(*steps: int) -> set[str]:
    kinds = ("_{}_steps.zip", "_replay_buffer_{}_steps.pkl", "_vecnormalize_{}_steps.pkl")
    return {"rl_model" + kind.format(step) for step in steps for kind in kinds}


def test_steps_are_the_models_own_counts_and_the_candidate_is_the_furthest_that_it_loads(
    root: Path, state: Path
) -> None:
    plan = planned(run_of(root, last=2, guards=AT_ONCE), state)
    assert [step.step for step in plan.steps] == [DQN.load(path).num_timesteps for path in models(root)]
    assert {step.copies[0].health for step in plan.steps} == {Health.WHOLE}
    assert resume(root).path == str(models(root)[-1])


def test_after_a_prune_training_goes_on_from_the_candidate_with_its_buffer_and_normalisation(
    root: Path, state: Path
) -> None:
    run = run_of(root, last=2, guards=AT_ONCE)
    assert deleted_steps(applied(run, state)) == [100, 200, 300, 400]
    assert names(root) == files(500, 600)

    agent = learn(root, 800, Path(resume(root).path))

    assert (agent.num_timesteps, agent.replay_buffer.full) == (800, True)
    assert names(root) == files(500, 600, 700, 800)
    assert resume(root).step == 800


@pytest.mark.parametrize("what", ["model", "replay_buffer", "vecnormalize"])
def test_a_newest_step_with_any_of_its_files_cut_falls_back_to_one_that_loads(
    root: Path, state: Path, what: str
) -> None:
    newest = models(root)[-1]
    path = newest if what == "model" else beside(newest, what)
    os.truncate(path, path.stat().st_size // 2)

    found = resume(root)

    assert found.path == str(root / "rl_model_500_steps.zip")
    assert path.name in found.skipped[0].detail
    assert learn(root, 700, Path(found.path)).num_timesteps == 700


def test_killed_in_the_middle_of_a_save_the_step_is_never_restorable_nor_counted(root: Path, state: Path) -> None:
    cut = "rl_model_replay_buffer_700_steps.pkl"
    train("train_sb3", root, "800", root / "rl_model_600_steps.zip", state=state, kill_at=cut)
    assert files(700) & names(root) == {"rl_model_700_steps.zip", cut}

    assert resume(root).step == 600
    outcome = applied(run_of(root, last=2, guards=AT_ONCE), state)

    assert deleted_steps(outcome) == [100, 200, 300, 400]
    assert files(500, 600) <= names(root)
    assert learn(root, 800, Path(resume(root).path)).num_timesteps == 800
