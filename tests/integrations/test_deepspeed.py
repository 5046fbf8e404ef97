"""DeepSpeed trains, and resumes from what is left: by its file ``latest``, or by the tag that it is given."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch")
pytest.importorskip("deepspeed", reason="needs DeepSpeed: pip install deepspeed")

from prune.model import Health
from prune.resume import resume
from prune.settings.schema import Keep
from tests.integrations.training import told
from tests.runs import Guards, applied, deleted_steps, planned, run_of
from tests.trees.build import names

pytestmark = pytest.mark.slow

AT_ONCE = Guards(in_flight=0)
BESIDE = {"latest", "zero_to_fp32.py", "zero_to_torch.py"}
OPTIMIZER = "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"
MODEL = "mp_rank_00_model_states.pt"


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DS_ACCELERATOR", "cpu")
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, on_the_cpu: None) -> Path:
    root = tmp_path_factory.mktemp("deepspeed") / "run"
    fitted(root, 8, state=root.parent / "state.db")
    return root


@pytest.fixture
def root(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def fitted(root: Path, steps: int, *more: str, state: Path, kill_at: str | None = None) -> dict[str, Any]:
    return told("train_deepspeed", root, str(steps), *more, state=state, kill_at=kill_at)


def tags(*steps: int) -> set[str]:
    return {f"global_step{step}" for step in steps}


def test_after_a_prune_deepspeed_resumes_by_latest_from_the_candidate_and_goes_on(root: Path, state: Path) -> None:
    run = run_of(root, last=2, guards=AT_ONCE)
    plan = planned(run, state)
    assert [step.step for step in plan.steps] == [2, 4, 6, 8]
    assert {step.copies[0].health for step in plan.steps} <= {Health.WHOLE, Health.INTACT}
    assert deleted_steps(applied(run, state)) == [2, 4]
    candidate = resume(root)

    told = fitted(root, 12, state=state)

    assert (str(Path(told["resumed"]).parent), told["start"], told["ended"]) == (candidate.path, 8, 12)
    assert names(root) == tags(6, 8, 10, 12) | BESIDE


@pytest.mark.parametrize("name", [MODEL, OPTIMIZER])
def test_a_damaged_newest_tag_falls_back_to_one_that_deepspeed_loads(root: Path, state: Path, name: str) -> None:
    path = root / "global_step8" / name
    os.truncate(path, path.stat().st_size // 2)
    assert deleted_steps(applied(run_of(root, last=2, guards=AT_ONCE), state)) == [2]

    found = resume(root)

    assert (found.step, found.path) == (6, str(root / "global_step6"))
    told = fitted(root, 10, "--tag", Path(found.path).name, state=state)
    assert (told["start"], told["ended"]) == (6, 10)
    assert resume(root).path == str(root / (root / "latest").read_text())


@pytest.mark.parametrize("name", [MODEL, OPTIMIZER])
def test_killed_in_the_middle_of_a_save_latest_and_the_candidate_are_the_tag_before(
    root: Path, state: Path, name: str
) -> None:
    fitted(root, 12, state=state, kill_at=f"global_step10/{name}")
    assert (root / "global_step10").exists()
    assert deleted_steps(applied(run_of(root, last=2, guards=AT_ONCE), state)) == [2, 4]
    assert resume(root).path == str(root / (root / "latest").read_text()) == str(root / "global_step8")


def test_of_a_thinned_tag_deepspeed_loads_the_weights_as_they_were(root: Path, trained: Path, state: Path) -> None:
    full = fitted(trained, 2, "--tag", "global_step2", state=state)
    applied(run_of(root, keep=Keep(last=4, full=2), guards=AT_ONCE), state)
    assert {tag for tag in tags(2, 4, 6, 8) if not (root / tag / OPTIMIZER).exists()} == tags(2, 4)

    told = fitted(root, 0, "--tag", "global_step2", "--weights-alone", state=state)

    assert told["weights"] == full["weights"]
    assert resume(root).step == 8
