from pathlib import Path

import pytest

from prune.model import Health
from tests.layouts.helpers import Seen, sketch
from tests.trees.real import unpack


def test_shards_without_metadata_are_a_save_that_did_not_finish(tmp_path: Path) -> None:
    root = unpack("dcp_sync", tmp_path)
    (root / "step-50" / ".metadata").rename(root / "step-50" / ".metadata.tmp")
    (root / "step-60" / ".metadata").unlink()
    seen = Seen(root, "dcp")
    assert seen.verdict(50).health is Health.BROKEN
    assert seen.verdict(60).detail == "step-60: .metadata is missing: the save did not finish"


def test_a_missing_shard_breaks_the_step(tmp_path: Path) -> None:
    root = unpack("dcp_sync", tmp_path)
    (root / "step-50" / "__1_0.distcp").unlink()
    assert Seen(root, "dcp").verdict(50).health is Health.BROKEN


def test_shards_in_folders_of_a_step_need_their_own_metadata(tmp_path: Path) -> None:
    root = unpack("dcp_sync", tmp_path)
    for step in (50, 60):
        (root / f"step-{step}" / "model").mkdir()
        for name in (".metadata", "__0_0.distcp", "__1_0.distcp"):
            (root / f"step-{step}" / name).rename(root / f"step-{step}" / "model" / name)
    (root / "step-60" / "model" / ".metadata").unlink()
    seen = Seen(root, "dcp")
    assert seen.verdict(50).health is Health.WHOLE
    assert seen.verdict(60).detail == "step-60/model: .metadata is missing: the save did not finish"


@pytest.mark.parametrize("names", [(), ("notes.txt",)])
def test_a_step_with_nothing_of_a_save_in_it_is_broken(names: tuple[str, ...], tmp_path: Path) -> None:
    sketch(tmp_path, "step-10/", *(f"step-10/{name}" for name in names))
    assert Seen(tmp_path, "dcp").verdict(10).health is Health.BROKEN


def test_an_export_as_safetensors_is_committed_by_its_index(tmp_path: Path) -> None:
    sketch(tmp_path, "step-10/sharded/x.bin")
    (tmp_path / "step-10" / "model.safetensors.index.json").write_text('{"weight_map": {"w": "sharded/x.bin"}}')
    assert Seen(tmp_path, "dcp").verdict(10).health is Health.WHOLE
