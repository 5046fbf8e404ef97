"""Every ready policy: commented, loadable, and carried out on a tree of its own stack."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from prune import engine, layouts
from prune.layouts.listing import read_root
from prune.model import Decision
from prune.settings import policies
from prune.settings.load import load
from prune.settings.schema import Settings
from prune.stores.local import LocalRoot
from tests.trees import stacks
from tests.trees.build import age, step_dirs, step_files
from tests.trees.real import unpack

NAMES = policies.ready()
UNPRUNED = {"custom", "megatron-non-persistent"}  # described by the user; kept to one by Megatron itself
STEPS = (10, 20, 30, 40, 50)


def many(build: Callable[..., object], tracker: str | None = None, value: str = "{}") -> Callable[[Path], Path]:
    """A tree of five steps of one builder, with the tracker that a save leaves."""

    def tree(into: Path) -> Path:
        for step in STEPS:
            build(into, step)
        if tracker:
            stacks.put(into / tracker, value.format(STEPS[-1]))
        return into

    return tree


def real(name: str, base: str = "") -> Callable[[Path], Path]:
    return lambda into: unpack(name, into) / base


def _nemo(into: Path) -> Path:
    for step in STEPS:
        stacks.nemo(into, f"gpt--val_loss={step / 10:.2f}-step={step}-consumed_samples={step}.0")
    stacks.nemo(into, "gpt--val_loss=5.00-step=50-consumed_samples=50.0-last")
    return into


def _fairseq(into: Path) -> Path:
    for step in STEPS:
        newest = stacks.put_torch(into / f"checkpoint_1_{step}.pt", updates=step)
    stacks.put(into / "checkpoint_last.pt", newest.read_bytes())
    return into


def _nanogpt(into: Path) -> Path:
    return stacks.put_torch(into / "ckpt.pt", iter_num=50).parent


TREES: dict[str, Callable[[Path], Path]] = {
    "accelerate": real("accelerate_auto", "checkpoints"),
    "axolotl": many(stacks.hf),
    "composer": real("composer_rank0"),
    "dcp": real("dcp_sync"),
    "deepspeed": real("deepspeed_zero1"),
    "fairseq": _fairseq,
    "hf-trainer": real("hf_trainer"),
    "keras": real("keras_epochs"),
    "lightning": real("lightning_last_link", "lightning_logs/version_0/checkpoints"),
    "llama-factory": many(stacks.llama_factory),
    "megatron-bridge": many(stacks.megatron_bridge),
    "megatron-lm": many(stacks.megatron, "latest_checkpointed_iteration.txt"),
    "nanogpt": _nanogpt,
    "nemo": _nemo,
    "olmo-core": real("olmo_core"),
    "orbax": real("orbax_killed_sync"),
    "ray-train": real("ray_train"),
    "stable-baselines3": real("sb3_callback"),
    "step-dir": lambda into: step_dirs(into, STEPS),
    "step-file": lambda into: step_files(into, STEPS),
    "tensorflow": real("tf_manager"),
    "torchtitan": lambda into: _steps_of_torchtitan(into),
    "ultralytics": real("ultralytics_run", "weights"),
    "unsloth": many(stacks.hf),
    "verl": many(stacks.verl, "latest_checkpointed_iteration.txt"),
}


def _steps_of_torchtitan(into: Path) -> Path:
    for step in STEPS:
        stacks.put_shards(into / f"step-{step}")
    return into


@pytest.fixture(autouse=True)
def _only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("PRUNE_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "nobody"))


def settings_of(policy: str, root: Path, *, last: int | None = None) -> Settings:
    """A configuration of one run under this policy, loaded as a user's is; N lowered for a small tree."""
    config = root.parent / f"{root.name}.toml"
    state = root.parent / f"{root.name}.sqlite"
    config.write_text(
        f'state = "sqlite:///{state}"\n[[runs]]\nname = "tiny"\nprimary = "{root}"\npolicy = "{policy}"\n'
    )
    settings = load(str(config), None, [])
    (run,) = settings.runs
    return settings if last is None else replace(settings, runs=(replace(run, keep=replace(run.keep, last=last)),))


def seen(layout: str, root: Path) -> tuple[list[int], object]:
    """The steps that are there, and what the trainer would pick among them."""
    with LocalRoot(str(root)) as reader:
        view = read_root(layouts.get(layout), reader, now_ns=0, fresh_ns=0).view
        return sorted(view.steps), layouts.get(layout).trainer_pick(view)


def test_every_layout_has_its_policy_and_every_policy_its_tree() -> None:
    assert sorted(set(layouts.names()) - UNPRUNED) == NAMES
    assert sorted(TREES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_says_what_the_trainer_must_be_set_to_and_the_stacks_traps(name: str) -> None:
    policy = policies.read_ready(name)
    text = Path(policy.path).read_text()
    assert text.startswith("# ")
    assert "# Traps. " in text
    assert policy.title
    assert policy.layout == name
    assert set(policy.table) - {"title", "layout", "layout_options"} == {"keep", "guards", "pressure"}


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_loads_and_its_options_fit_its_layout(name: str, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (run,) = settings_of(name, tmp_path / "root").runs
    assert layouts.get(run.layout, run.layout_options).name == name
    assert run.keep.last >= 1
    assert run.pressure.keep_last is None or 1 <= run.pressure.keep_last <= run.keep.last


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"ray-train", "nanogpt"}))
def test_a_policy_leaves_the_newest_and_what_the_trainer_would_pick(name: str, tmp_path: Path) -> None:
    root = TREES[name](tmp_path / "tree")
    age(root, 7200)
    before, pick = seen(name, root)
    settings = settings_of(name, root, last=1)
    (plan,) = engine.plan(settings).runs
    assert plan.blocked is None
    expected = [step.step for step in plan.steps if step.decision is not Decision.DELETE]
    (outcome,) = engine.apply(settings).runs
    assert not outcome.failed
    after, still = seen(name, root)
    assert after == expected
    assert len(after) < len(before)
    assert still == pick


def test_what_ray_lists_is_held_however_small_the_number(tmp_path: Path) -> None:
    root = TREES["ray-train"](tmp_path)
    age(root, 7200)
    (plan,) = engine.plan(settings_of("ray-train", root, last=1)).runs
    held = {step.step: {hold.guard for hold in step.guards} for step in plan.steps if step.guards}
    assert plan.victims == ()
    assert all("referenced" in held[step] for step in (0, 1, 3, 4))


def test_nanogpts_one_file_is_never_deleted(tmp_path: Path) -> None:
    root = TREES["nanogpt"](tmp_path / "tree")
    age(root, 7200)
    (outcome,) = engine.apply(settings_of("nanogpt", root)).runs
    assert outcome.deleted == ()
    assert (root / "ckpt.pt").exists()
