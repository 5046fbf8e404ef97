import json
import os
from pathlib import Path
from typing import Any

import pytest

from prune.layouts import hf_trainer
from prune.layouts.base import Part
from prune.model import Health
from tests.layouts.helpers import Seen, claims, sketch
from tests.trees import stacks
from tests.trees.build import torch_zip
from tests.trees.real import unpack


def checkpoint(root: Path, step: int, **state: Any) -> Path:
    """A whole checkpoint with optimizer; keywords go into its ``trainer_state.json``."""
    folder = root / f"checkpoint-{step}"
    sketch(folder, "pytorch_model.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": []} | state))
    return folder


def test_only_directories_named_checkpoint_and_a_number_are_steps() -> None:
    assert claims("hf-trainer", "checkpoint-10/", "checkpoint-10", "checkpoint-100-export/", "xcheckpoint-1/") == {
        "checkpoint-10/": (Part.PAYLOAD, 10),
        "checkpoint-10": None,
        "checkpoint-100-export/": None,
        "xcheckpoint-1/": None,
    }


def test_staging_directories_of_older_releases_are_temporaries() -> None:
    assert claims("hf-trainer", "tmp-checkpoint-70/", "tmp-checkpoint-ab12cd_f/", "tmp-checkpoint-70") == {
        "tmp-checkpoint-70/": (Part.TEMPORARY, 70),
        "tmp-checkpoint-ab12cd_f/": (Part.TEMPORARY, None),
        "tmp-checkpoint-70": (Part.TEMPORARY, 70),
    }


def test_a_padded_twin_collides(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "checkpoint-10/a", "checkpoint-0010/a"), "hf-trainer")
    assert seen.collision == "checkpoint-0010 and checkpoint-10 are both step 10"


def test_a_whole_checkpoint_is_whole(tmp_path: Path) -> None:
    checkpoint(tmp_path, 10)
    assert Seen(tmp_path, "hf-trainer").verdict(10).health is Health.WHOLE


def test_without_its_state_the_save_did_not_finish(tmp_path: Path) -> None:
    (checkpoint(tmp_path, 10) / "trainer_state.json").unlink()
    verdict = Seen(tmp_path, "hf-trainer").verdict(10)
    assert verdict.health is Health.BROKEN
    assert verdict.detail == "checkpoint-10: trainer_state.json is missing: the save did not finish"


@pytest.mark.parametrize("text", ["", '{"global_step": 10, "log_hist', "[1]", "[" * 100_000, "\udcff"])
def test_a_state_that_cannot_be_parsed_breaks_the_checkpoint(text: str, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 10)
    (folder / "trainer_state.json").write_text(text, errors="surrogateescape")
    verdict = Seen(tmp_path, "hf-trainer").verdict(10)
    assert verdict.health is Health.BROKEN
    assert "trainer_state.json" in (verdict.detail or "")


def test_a_state_of_another_step_is_suspect(tmp_path: Path) -> None:
    checkpoint(tmp_path, 10, global_step=20)
    verdict = Seen(tmp_path, "hf-trainer").verdict(10)
    assert verdict.health is Health.SUSPECT
    assert verdict.detail == "checkpoint-10/trainer_state.json: its global_step is 20, the directory says 10"


def test_damage_outweighs_a_state_of_another_step(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 10, global_step=20)
    (folder / "optimizer.pt").write_bytes(torch_zip(64)[:-30])
    assert Seen(tmp_path, "hf-trainer").verdict(10).health is Health.BROKEN


def test_the_marker_of_a_save_on_a_signal_means_it_was_cut_off(tmp_path: Path) -> None:
    (checkpoint(tmp_path, 10) / hf_trainer.JIT_MARKER).write_text("")
    assert Seen(tmp_path, "hf-trainer").verdict(10).health is Health.BROKEN


def test_without_any_weights_there_is_nothing_to_resume_from(tmp_path: Path) -> None:
    (checkpoint(tmp_path, 10) / "pytorch_model.bin").unlink()
    verdict = Seen(tmp_path, "hf-trainer").verdict(10)
    assert verdict.health is Health.BROKEN
    assert "weights" in (verdict.detail or "")


@pytest.mark.parametrize("weights", ["adapter_model.safetensors", "0_Transformer/pytorch_model.bin", "custom.pt"])
def test_adapters_and_nested_models_are_weights(weights: str, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 10)
    (folder / "pytorch_model.bin").rename(folder / "adapter.tmp")
    (folder / weights).parent.mkdir(exist_ok=True)
    (folder / "adapter.tmp").rename(folder / weights)
    verdict = Seen(tmp_path, "hf-trainer").verdict(10)
    assert "weights" not in (verdict.detail or "")


def test_an_unreadable_state_is_unknown_not_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(tmp_path, 10)
    seen = Seen(tmp_path, "hf-trainer")
    opened = seen.reader.open

    def refused(path: str) -> Any:
        if path.endswith("trainer_state.json"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path)

    monkeypatch.setattr(seen.reader, "open", refused)
    assert seen.verdict(10).health is Health.UNKNOWN


def test_a_deepspeed_tag_named_in_the_checkpoint_must_be_there(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 10)
    sketch(folder, "global_step10/mp_rank_00_model_states.pt")
    (folder / "latest").write_text("global_step20")
    verdict = Seen(tmp_path, "hf-trainer").verdict(10)
    assert verdict.health is Health.BROKEN
    assert verdict.detail == "checkpoint-10/latest: names 'global_step20', which is not there"
    (folder / "latest").write_text("global_step10")
    assert Seen(tmp_path, "hf-trainer").verdict(10).health is Health.WHOLE


def test_a_long_state_is_judged_by_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_trainer, "LONG_STATE", 100)
    rows = [{"step": n, "loss": 1.0} for n in range(50)]
    folder = checkpoint(tmp_path, 10, log_history=rows)
    assert Seen(tmp_path, "hf-trainer").verdict(10).health is Health.WHOLE
    text = (folder / "trainer_state.json").read_text()
    (folder / "trainer_state.json").write_text(text[: len(text) // 2])
    assert Seen(tmp_path, "hf-trainer").verdict(10).health is Health.BROKEN


def test_without_an_optimizer_it_is_weights_only(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 10)
    assert not Seen(tmp_path, "hf-trainer").weights_only(10)
    (folder / "optimizer.pt").unlink()
    assert Seen(tmp_path, "hf-trainer").weights_only(10)


@pytest.mark.parametrize("rank", [0, 1])
def test_in_a_deepspeed_tag_every_ranks_part_must_be_there(tmp_path: Path, rank: int) -> None:
    folder = checkpoint(tmp_path, 10)
    stacks.deepspeed(folder, 10)
    (folder / "latest").write_text("global_step10")
    assert Seen(tmp_path, "hf-trainer").verdict(10).health is Health.WHOLE
    (folder / "global_step10" / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").unlink()
    verdict = Seen(tmp_path, "hf-trainer").verdict(10)
    assert verdict.health is Health.BROKEN
    assert verdict.detail.startswith("checkpoint-10/global_step10: ")
    assert "optim_states.pt" in verdict.detail


def test_the_random_state_of_a_rank_in_between_is_missed_and_a_node_may_begin_at_any(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 10)
    (folder / "rng_state.pth").unlink()
    for rank in (8, 9, 11):
        (folder / f"rng_state_{rank}.pth").write_bytes(torch_zip())
    verdict = Seen(tmp_path, "hf-trainer").verdict(10)
    assert verdict.health is Health.BROKEN
    assert "rng_state_10.pth is missing" in verdict.detail
    (folder / "rng_state_10.pth").write_bytes(torch_zip())
    assert Seen(tmp_path, "hf-trainer").verdict(10).health is Health.WHOLE


@pytest.mark.parametrize("name", ["optimizer_0/__0_0.distcp", "global_step10/x_optim_states.pt", "optimizer.bin"])
def test_sharded_optimizers_are_optimizers(name: str, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 10)
    (folder / "optimizer.pt").unlink()
    sketch(folder, name)
    assert not Seen(tmp_path, "hf-trainer").weights_only(10)


def test_metrics_and_best_come_from_the_newest_state_that_parses(tmp_path: Path) -> None:
    root = unpack("hf_trainer", tmp_path)
    (root / "checkpoint-100" / "trainer_state.json").write_text("")
    seen = Seen(root, "hf-trainer")
    found = seen.layout.metrics(seen.view)
    assert sorted(found) == [10, 20, 30, 40, 50, 60, 70, 80, 90]
    assert found[30]["eval_loss"] == 2.739401340484619
    assert seen.layout.best_recorded(seen.view) == 30
    assert seen.layout.referenced(seen.view) == {30: "trainer_state.json names it as best"}


def test_no_best_is_recorded_where_none_is_named(tmp_path: Path) -> None:
    checkpoint(tmp_path, 10, best_global_step=None, best_model_checkpoint=None)
    seen = Seen(tmp_path, "hf-trainer")
    assert seen.layout.best_recorded(seen.view) is None
    assert seen.layout.referenced(seen.view) == {}


def test_the_trainer_would_pick_the_highest_number_even_broken(tmp_path: Path) -> None:
    checkpoint(tmp_path, 9)
    os.mkdir(tmp_path / "checkpoint-10")
    seen = Seen(tmp_path, "hf-trainer")
    assert seen.pick is not None
    assert seen.pick.step == 10
    assert seen.verdict(10).health is Health.BROKEN
