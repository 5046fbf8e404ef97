"""The doctor reads how many checkpoints the trainer itself keeps, where a file tells it without running pickle."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune.doctor import other_janitor
from prune.settings.schema import Best, Keep
from tests.runs import run_of
from tests.trees.real import unpack
from tests.trees.stacks import hf, megatron_bridge, put, put_torch


def told(root: Path, **keep: object) -> tuple[str, str] | None:
    found = other_janitor(run_of(root, keep=Keep(**({"last": 12} | keep))))  # type: ignore[arg-type]
    return (found[0].state, found[0].found) if found else None


def limited(root: Path, limit: int | None) -> Path:
    for step in (10, 20):
        put_torch(hf(root, step) / "training_args.bin", save_total_limit=limit, save_steps=10)
    return root


def test_the_arguments_that_a_real_trainer_saved_are_read_as_data(tmp_path: Path) -> None:
    root = unpack("hf_trainer", tmp_path)
    assert told(root) == ("ok", "save_total_limit keeps all (checkpoint-100/training_args.bin)")


@pytest.mark.parametrize(("limit", "state"), [(3, "attention"), (12, "attention"), (13, "ok"), (None, "ok"), (0, "ok")])
def test_a_trainer_that_keeps_no_more_than_the_policy_is_a_second_janitor(
    tmp_path: Path, limit: int | None, state: str
) -> None:
    found = told(limited(tmp_path, limit))
    assert found is not None
    assert found[0] == state
    assert "checkpoint-20/training_args.bin" in found[1]


@pytest.mark.parametrize("rule", [{"every": 1000}, {"daily": 7}, {"best": Best("loss", "min")}])
def test_where_the_policy_keeps_older_steps_any_rotation_of_the_trainer_is_one_too_many(
    tmp_path: Path, rule: dict[str, object]
) -> None:
    assert told(limited(tmp_path, 50), **rule)[0] == "attention"
    assert told(limited(tmp_path, None), **rule)[0] == "ok"


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 cut", b"\x80\x02."])
def test_arguments_that_cannot_be_read_tell_nothing_and_an_older_step_is_asked(tmp_path: Path, damage: bytes) -> None:
    limited(tmp_path, 3)
    (tmp_path / "checkpoint-20" / "training_args.bin").write_bytes(damage)
    assert told(tmp_path) == ("attention", "save_total_limit = 3 (checkpoint-10/training_args.bin)")
    (tmp_path / "checkpoint-10" / "training_args.bin").unlink()
    assert told(tmp_path) is None


@pytest.mark.parametrize(("text", "keeps"), [("save_total_limit: 6", 6), ("save_total_limit: 0", 4), ("lr: 1", 4)])
def test_axolotl_keeps_four_unless_its_configuration_says_more(tmp_path: Path, text: str, keeps: int) -> None:
    limited(tmp_path, None)
    put(tmp_path / "axolotl_config.yml", f"base_model: tiny\n{text}\n")
    found = told(tmp_path)
    assert found is not None
    assert found == ("attention", f"save_total_limit = {keeps} (axolotl_config.yml)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trainer:\n  callbacks:\n    - init_args:\n        save_top_k: 3\n", ("attention", "save_top_k = 3")),
        ("save_top_k: -1\n", ("ok", "save_top_k keeps all")),
        ("# save_top_k_of_old: 3\nlr: 0.1\n", None),
    ],
)
def test_what_lightnings_command_line_saved_is_found_above_the_checkpoints(
    tmp_path: Path, text: str, expected: tuple[str, str] | None
) -> None:
    version = tmp_path / "lightning_logs" / "version_0"
    for step in (10, 20):
        put_torch(version / "checkpoints" / f"epoch=0-step={step}.ckpt")
    put(version / "config.yaml", text)
    found = told(tmp_path)
    assert found == (expected and (expected[0], f"{expected[1]} (lightning_logs/version_0/config.yaml)"))


def test_megatron_bridges_newest_configuration_is_asked(tmp_path: Path) -> None:
    for step, keep in ((10, -1), (20, 2)):
        put(megatron_bridge(tmp_path, step) / "run_config.yaml", f"checkpoint:\n  most_recent_k: {keep}\n")
    assert told(tmp_path) == ("attention", "most_recent_k = 2 (iter_0000020/run_config.yaml)")


def test_a_root_without_checkpoints_or_none_at_all_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert told(tmp_path / "empty") is None
    assert told(tmp_path / "missing") is None
