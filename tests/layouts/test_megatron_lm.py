"""Megatron-LM and Megatron-Bridge, on directories built as their sources write them, with shards that torch wrote."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from prune import layouts
from prune.integrity.content import check_content
from prune.layouts.detect import detect
from prune.model import Health, PointerState, Verdict
from prune.stores.local import LocalRoot
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.stacks import (
    cut,
    megatron,
    megatron_bridge,
    megatron_ranks,
    put,
    put_json,
    put_shards,
    put_torch_tensors,
)

TRACKER = "latest_checkpointed_iteration.txt"


def loadable(folder: Path) -> bool:
    """Megatron's own test of the distributed format."""
    try:
        return (
            "sharded_backend" in json.loads((folder / "metadata.json").read_text()) and (folder / ".metadata").exists()
        )
    except OSError:
        return False


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "run"
    for step in (100, 200, 300):
        megatron(root, step)
    put(root / TRACKER, "300")
    put(root / "release" / "metadata.json", "{}")
    return root


def test_steps_have_seven_digits_or_more_and_are_padded_no_further(root: Path) -> None:
    megatron(root, 12_345_678)
    (root / "iter_00000400").mkdir()
    (root / "iter_400").mkdir()
    seen = Seen(root, "megatron-lm")
    assert seen.steps == [100, 200, 300, 12_345_678]
    assert seen.listing.foreign == 3


def test_a_finished_save_is_whole(root: Path) -> None:
    assert Seen(root, "megatron-lm").verdict(300).health is Health.WHOLE


@pytest.mark.parametrize("name", ["metadata.json", ".metadata"])
def test_a_save_that_was_not_finalised_is_broken(root: Path, name: str) -> None:
    if name == "metadata.json":  # the mark of Megatron's own kind of shards
        with (root / "iter_0000300" / ".metadata").open("r+b") as file:
            data = file.read()
            file.seek(0)
            file.write(data.replace(b"torch.distributed", b"torch/shard_0.0_1", 1)[: len(data)])
    (root / "iter_0000300" / name).unlink()
    verdict = Seen(root, "megatron-lm").verdict(300)
    assert verdict.health is Health.BROKEN
    assert name in verdict.detail


def test_the_plain_format_of_torch_needs_no_metadata_json(tmp_path: Path) -> None:
    put_shards(tmp_path / "iter_0000100")
    assert Seen(tmp_path, "megatron-lm").verdict(100).health is Health.WHOLE


def test_shards_alone_are_broken(root: Path) -> None:
    for name in ("metadata.json", ".metadata"):
        (root / "iter_0000300" / name).unlink()
    assert Seen(root, "megatron-lm").verdict(300).health is Health.BROKEN


def test_a_metadata_json_that_was_cut_is_broken(root: Path) -> None:
    cut(root / "iter_0000300" / "metadata.json", 0.5)
    assert "cannot be parsed" in Seen(root, "megatron-lm").verdict(300).detail


def integrity(folder: Path) -> Path:
    """Megatron's own hashes, as it writes them when all else is written."""
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    return put_json(folder / "integrity.json", {"algorithm": "sha256", "files": files})


def by_content(root: Path, step: int) -> Verdict:
    seen = Seen(root, "megatron-lm")
    return check_content(seen.members(step), seen.view.reader, known=seen.verdict(step))


def test_megatrons_own_hashes_vouch_for_a_step_and_tell_a_shard_that_rotted(root: Path) -> None:
    integrity(root / "iter_0000300")
    assert by_content(root, 300).health is Health.INTACT
    shard = root / "iter_0000300" / "__0_0.distcp"
    times = shard.stat()
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    verdict = by_content(root, 300)
    assert verdict.health is Health.BROKEN
    assert "__0_0.distcp: expected SHA-256" in str(verdict.detail)


def test_what_megatrons_hashes_name_must_be_there(root: Path) -> None:
    put(root / "iter_0000300" / "tokenizer.model", "words")
    path = integrity(root / "iter_0000300")
    assert Seen(root, "megatron-lm").verdict(300).health is Health.WHOLE
    (root / "iter_0000300" / "tokenizer.model").unlink()
    verdict = Seen(root, "megatron-lm").verdict(300)
    assert verdict.health is Health.BROKEN
    assert "tokenizer.model missing" in str(verdict.detail)
    cut(path)
    assert Seen(root, "megatron-lm").verdict(300).health is Health.BROKEN


def test_a_killed_delete_that_left_the_metadata_is_broken(root: Path) -> None:
    for shard in (root / "iter_0000100").glob("*.distcp"):
        shard.unlink()
    assert Seen(root, "megatron-lm").verdict(100).health is Health.BROKEN


@pytest.mark.parametrize(
    "gone", ["mp_rank_01_000", "mp_rank_01_001/model_optim_rng.pt", "mp_rank_00_001/distrib_optim.pt"]
)
def test_in_the_older_format_every_rank_must_be_there(tmp_path: Path, gone: str) -> None:
    folder = megatron_ranks(tmp_path, 100)
    assert Seen(tmp_path, "megatron-lm").verdict(100).health is Health.WHOLE
    shutil.rmtree(folder / gone) if (folder / gone).is_dir() else (folder / gone).unlink()
    assert Seen(tmp_path, "megatron-lm").verdict(100).health is Health.BROKEN


def test_an_empty_step_is_broken(tmp_path: Path) -> None:
    (tmp_path / "iter_0000100").mkdir()
    assert Seen(tmp_path, "megatron-lm").verdict(100).health is Health.BROKEN


def test_the_tracker_decides_what_is_resumed(root: Path) -> None:
    put(root / TRACKER, "200")
    seen = Seen(root, "megatron-lm")
    assert (seen.pick.step, seen.pick.how) == (200, TRACKER)
    assert list(seen.layout.referenced(seen.view)) == [200]


def test_a_release_is_no_step_and_its_pointer_fine(root: Path) -> None:
    put(root / TRACKER, "release\n")
    seen = Seen(root, "megatron-lm")
    assert (seen.pointers[TRACKER].step, seen.pointers[TRACKER].state) == (None, PointerState.OK)
    assert seen.pick is None


def test_a_non_persistent_checkpoint_as_new_as_the_tracker_wins(root: Path) -> None:
    megatron(root / "non_persistent", 300)
    put(root / "non_persistent" / TRACKER, "300")
    seen = Seen(root, "megatron-lm")
    assert seen.pick.path == "non_persistent/iter_0000300"
    assert seen.steps == [100, 200, 300]
    put(root / "non_persistent" / TRACKER, "250")
    assert Seen(root, "megatron-lm").pick.path == "iter_0000300"


def test_nothing_of_ours_may_stand_in_the_non_persistent_folder(root: Path) -> None:
    megatron(root / "non_persistent", 300)
    put(root / "non_persistent" / TRACKER, "300")
    with LocalRoot(str(root / "non_persistent")) as reader:
        found = detect(reader).layout
    assert (found.name, found.reads_every_entry) == ("megatron-non-persistent", True)
    assert not layouts.get("megatron-lm").reads_every_entry


def test_a_withdrawn_step_cannot_be_loaded(root: Path) -> None:
    check_withdrawing(Seen(root, "megatron-lm"), 100, lambda at: loadable(at / "iter_0000100"))


# --- Megatron-Bridge ---------------------------------------------------------------------------------------------


@pytest.fixture
def bridge(tmp_path: Path) -> Path:
    root = tmp_path / "bridge"
    for step in (100, 200):
        megatron_bridge(root, step)
        put(root / "energon" / f"iter_{step:07d}" / "train_dataloader_dprank000.pt")
    return root


def test_each_of_the_two_trackers_names_a_step(bridge: Path) -> None:
    seen = Seen(bridge, "megatron-bridge")
    assert {path: pointer.step for path, pointer in seen.pointers.items()} == {
        TRACKER: 200,
        "latest_train_state.pt": 200,
    }


def test_the_train_state_outranks_the_text(bridge: Path) -> None:
    put(bridge / TRACKER, "100")
    seen = Seen(bridge, "megatron-bridge")
    assert (seen.pick.step, seen.pick.how) == (200, "latest_train_state.pt")
    assert sorted(seen.layout.referenced(seen.view)) == [100, 200]
    (bridge / "latest_train_state.pt").unlink()
    assert Seen(bridge, "megatron-bridge").pick.step == 100


def test_a_train_state_of_a_step_that_is_gone_dangles(bridge: Path) -> None:
    put_torch_tensors(bridge / "latest_train_state.pt", step=300)
    pointer = Seen(bridge, "megatron-bridge").pointers["latest_train_state.pt"]
    assert (pointer.step, pointer.state) == (300, PointerState.DANGLING)


def test_a_train_state_that_was_cut_is_unreadable(bridge: Path) -> None:
    cut(bridge / "latest_train_state.pt")
    assert Seen(bridge, "megatron-bridge").pointers["latest_train_state.pt"].state is PointerState.UNREADABLE


@pytest.mark.parametrize("name", ["train_state.pt", "run_config.yaml"])
def test_what_bridge_writes_last_must_be_there(bridge: Path, name: str) -> None:
    (bridge / "iter_0000200" / name).unlink()
    assert Seen(bridge, "megatron-bridge").verdict(200).health is Health.BROKEN
    assert Seen(bridge, "megatron-bridge").verdict(100).health is Health.WHOLE


def test_the_data_loaders_state_goes_with_its_step_and_after_it(bridge: Path) -> None:
    seen = Seen(bridge, "megatron-bridge")
    assert seen.paths()[100] == ["energon/iter_0000100", "iter_0000100"]
    order = check_withdrawing(seen, 100, lambda at: loadable(at / "iter_0000100"))
    assert order == ["iter_0000100", "energon/iter_0000100"]


def test_bridge_is_told_from_megatron_by_its_train_state(bridge: Path, root: Path) -> None:
    for at, name in ((bridge, "megatron-bridge"), (root, "megatron-lm")):
        with LocalRoot(str(at)) as reader:
            assert detect(reader).layout.name == name
