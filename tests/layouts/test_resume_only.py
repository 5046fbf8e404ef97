"""What thinning may take out of a checkpoint: with it gone, the rest is whole, and is weights alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from prune import layouts
from prune.inventory.thinning import spare_of
from prune.model import Health
from prune.stores.pace import measure_copy
from tests.layouts.helpers import Seen
from tests.trees import stacks
from tests.trees.build import age
from tests.trees.real import unpack

REAL = {
    "hf-trainer": ("hf_trainer", ""),
    "accelerate": ("accelerate_auto", "checkpoints"),
    "deepspeed": ("deepspeed_zero1", ""),
}


def real(name: str, into: Path) -> tuple[Seen, int]:
    tree, base = REAL[name]
    seen = Seen(unpack(tree, into) / base, name)
    return seen, seen.steps[0]


def verl(into: Path) -> tuple[Seen, int]:
    stacks.verl(into / "run", 5)
    return Seen(into / "run", "verl"), 5


BUILT: dict[str, Callable[[Path], tuple[Seen, int]]] = {
    **{name: (lambda into, name=name: real(name, into)) for name in REAL},
    "verl": verl,
}


@pytest.mark.parametrize("name", BUILT)
def test_without_what_only_resuming_needs_the_rest_is_whole_and_weights_alone(name: str, tmp_path: Path) -> None:
    seen, step = BUILT[name](tmp_path)
    before, parts = seen.verdict(step), list(seen.layout.resume_only(seen.members(step)))
    assert before.health is Health.WHOLE
    assert parts
    for part in parts:
        path = seen.root / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    left = replace(seen.members(step), thinned=True)

    assert seen.layout.examine(left, seen.reader) == before
    assert seen.layout.weights_only(left)
    assert list(seen.layout.resume_only(left)) == []
    assert spare_of(seen.layout, left) is None


@pytest.mark.parametrize("name", BUILT)
def test_what_goes_is_summed_as_a_copy_of_its_own_is_measured(name: str, tmp_path: Path) -> None:
    seen, step = BUILT[name](tmp_path)
    spare = spare_of(seen.layout, seen.members(step))
    assert spare is not None
    measure, first = measure_copy(seen.reader, spare.paths)
    assert (spare.identity, spare.bytes, spare.files) == (measure.identity(first), measure.freed, measure.files)


def test_the_optimizer_goes_first_so_that_a_half_thinned_checkpoint_is_weights_alone(tmp_path: Path) -> None:
    seen, step = real("hf-trainer", tmp_path)
    first = seen.layout.resume_only(seen.members(step))[0]
    (seen.root / first).unlink()
    assert seen.weights_only(step)


def test_trainer_state_and_arguments_stay(tmp_path: Path) -> None:
    seen, step = real("hf-trainer", tmp_path)
    parts = seen.layout.resume_only(seen.members(step))
    assert sorted(part.rpartition("/")[2] for part in parts) == ["optimizer.pt", "rng_state.pth", "scheduler.pt"]


def test_sharded_optimizers_and_every_ranks_states_go(tmp_path: Path) -> None:
    folder = stacks.hf(tmp_path, 10)
    (folder / "optimizer.pt").unlink()
    (folder / "pytorch_model.bin").unlink()
    stacks.put_shards(folder / "pytorch_model_fsdp_0")
    stacks.put_shards(folder / "optimizer_0")
    for rank in range(2):
        stacks.put_torch(folder / f"rng_state_{rank}.pth")
    age(folder, 3600)
    seen = Seen(tmp_path, "hf-trainer")

    parts = seen.layout.resume_only(seen.members(10))

    assert [part.rpartition("/")[2] for part in parts] == ["optimizer_0", "rng_state_0.pth", "rng_state_1.pth"]
    spare = spare_of(seen.layout, seen.members(10))
    measure, first = measure_copy(seen.reader, spare.paths)
    assert spare.identity == measure.identity(first)


def test_under_deepspeed_the_optimizer_goes_only_where_the_model_was_saved_beside_it(tmp_path: Path) -> None:
    folder = stacks.hf(tmp_path, 10)
    (folder / "optimizer.pt").unlink()
    stacks.deepspeed(folder, 10)
    stacks.put(folder / "latest", "global_step10")
    seen = Seen(tmp_path, "hf-trainer")
    assert [part.split("/", 2)[2] for part in seen.layout.resume_only(seen.members(10))] == [
        "zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ]
    (folder / "pytorch_model.bin").unlink()
    assert seen.layout.resume_only(seen.members(10)) == ()


def test_where_zero_3_keeps_the_weights_in_the_optimizer_nothing_goes(tmp_path: Path) -> None:
    folder = stacks.deepspeed(tmp_path, 10)
    (folder / "mp_rank_00_model_states.pt").unlink()
    for rank in range(2):
        stacks.put_torch(folder / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
    seen = Seen(tmp_path, "deepspeed")
    assert seen.layout.resume_only(seen.members(10)) == ()


def test_a_save_of_the_stack_that_lost_the_same_files_is_still_broken(tmp_path: Path) -> None:
    """Only the record of thinning makes a copy without them whole."""
    for name in ("deepspeed", "verl", "accelerate"):
        seen, step = BUILT[name](tmp_path / name)
        for part in seen.layout.resume_only(seen.members(step)):
            (seen.root / part).unlink()
        assert seen.verdict(step).health is Health.BROKEN, name


def test_layouts_that_cannot_tell_it_apart_say_why() -> None:
    able = {name for name in layouts.names() if name != "custom" and layouts.get(name, {}).unthinnable is None}
    assert able == {"hf-trainer", "axolotl", "unsloth", "accelerate", "deepspeed", "verl"}
    assert "same files" in (layouts.get("lightning", {}).unthinnable or "")
