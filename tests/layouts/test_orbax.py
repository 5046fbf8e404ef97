import json
from pathlib import Path

import pytest

from prune import layouts
from prune.errors import UsageError
from prune.layouts.base import Part
from prune.model import Health
from tests.layouts.helpers import Seen, claims, sketch
from tests.trees.real import unpack


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return unpack("orbax_killed_sync", tmp_path)


def test_steps_may_have_a_prefix_and_padding_and_temporaries_a_time() -> None:
    names = (
        "10/",
        "00000010/",
        "run_10/",
        "30.orbax-checkpoint-tmp/",
        "30.orbax-checkpoint-tmp-17/",
        "10",
        "metadata/",
    )
    step, temporary = (Part.PAYLOAD, 10), (Part.TEMPORARY, 30)
    assert list(claims("orbax", *names).values()) == [step, step, step, temporary, temporary, None, None]


def test_padded_and_unpadded_names_of_one_step_collide(run: Path) -> None:
    (run / "00000010").mkdir()
    assert Seen(run, "orbax").collision == "00000010 and 10 are both step 10"


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ("default/_METADATA", "_METADATA is missing"),
        ("default/manifest.ocdbt", "manifest.ocdbt is missing"),
        ("default/ocdbt.process_0/manifest.ocdbt", "manifest.ocdbt is missing"),
        ("default/d/789ba29e76fd819a20548f1056bd621d", "d/789ba29e76fd819a20548f1056bd621d is missing"),
    ],
)
def test_a_step_that_lost_a_file_of_its_item_is_broken(gone: str, told: str, run: Path) -> None:
    (run / "10" / gone).unlink()
    verdict = Seen(run, "orbax").verdict(10)
    assert verdict.health is Health.BROKEN
    assert told in (verdict.detail or "")


def test_a_step_that_lost_an_item_is_broken(run: Path) -> None:
    metadata = run / "10" / "_CHECKPOINT_METADATA"
    known = json.loads(metadata.read_text())
    known["item_handlers"]["params"] = "x"
    metadata.write_text(json.dumps(known))
    assert Seen(run, "orbax").verdict(10).detail == "10: params is missing: the checkpoint lists it as an item"


@pytest.mark.parametrize("cut", [0, 50, 113])
def test_a_cut_manifest_breaks_the_step(cut: int, run: Path) -> None:
    manifest = run / "10" / "default" / "manifest.ocdbt"
    manifest.write_bytes(manifest.read_bytes()[:cut])
    assert Seen(run, "orbax").verdict(10).health is Health.BROKEN


def test_a_flipped_bit_in_a_manifest_breaks_the_step(run: Path) -> None:
    manifest = run / "10" / "default" / "manifest.ocdbt"
    data = bytearray(manifest.read_bytes())
    data[40] ^= 1
    manifest.write_bytes(data)
    assert Seen(run, "orbax").verdict(10).health is Health.BROKEN


def test_a_cut_first_node_and_an_empty_data_file_break_the_step(run: Path) -> None:
    data = run / "10" / "default" / "d" / "789ba29e76fd819a20548f1056bd621d"
    data.write_bytes(data.read_bytes()[:300])
    assert Seen(run, "orbax").verdict(10).health is Health.BROKEN
    data.write_bytes(b"")
    assert Seen(run, "orbax").verdict(10).health is Health.BROKEN


def test_an_unfinished_item_in_a_finished_name_breaks_the_step(run: Path) -> None:
    (run / "10" / "default").rename(run / "10" / "default.orbax-checkpoint-tmp")
    assert Seen(run, "orbax").verdict(10).health is Health.BROKEN


def test_a_step_without_a_time_of_commit_and_without_the_file_never_finished(run: Path) -> None:
    metadata = run / "10" / "_CHECKPOINT_METADATA"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"commit_timestamp_nsecs": None}))
    assert Seen(run, "orbax").verdict(10).health.restorable
    (run / "10" / "commit_success.txt").unlink()
    assert Seen(run, "orbax").verdict(10).health is Health.BROKEN


def test_an_older_step_without_the_file_of_commit_is_not_thereby_broken(run: Path) -> None:
    (run / "10" / "commit_success.txt").unlink()
    assert Seen(run, "orbax").verdict(10).health.restorable


def test_in_commit_file_mode_a_step_without_the_file_is_none(run: Path) -> None:
    strict = layouts.get("orbax", {"commit_file": True})
    assert strict.reads_every_entry
    assert not layouts.get("orbax").reads_every_entry
    (run / "20" / "commit_success.txt").unlink()
    seen = Seen(run, strict)
    assert seen.verdict(20).health is Health.BROKEN
    assert seen.pick is not None
    assert seen.pick.step == 10


def test_a_wrong_option_is_refused() -> None:
    for options in ({"commit_files": True}, {"commit_file": "yes"}):
        with pytest.raises(UsageError, match="orbax"):
            layouts.get("orbax", options)


def test_metrics_stand_in_an_item_of_the_step(run: Path) -> None:
    sketch(run, "10/metrics/metrics", "20/metrics/metrics")
    (run / "10" / "metrics" / "metrics").write_text('{"loss": 0.5, "tag": "x"}')
    seen = Seen(run, "orbax")
    assert seen.layout.metrics(seen.view) == {10: {"loss": 0.5}}
