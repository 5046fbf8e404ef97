import json
from pathlib import Path

import pytest

from prune import layouts
from prune.errors import UsageError
from prune.integrity import ocdbt
from prune.integrity.crc32c import crc32c
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


def test_a_data_file_that_only_the_compressed_index_names_is_missed(tmp_path: Path) -> None:
    """The index as a larger save has it: its values stand in a file of the process that wrote them."""
    root = unpack("orbax_killed_sync", tmp_path)
    item, name = root / "10" / "default", "ocdbt.process_0/d/" + "a" * 32
    values = item / name
    values.write_bytes(b"\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00v")
    write_tree(item, name)
    assert Seen(root, "orbax").verdict(10).health is Health.WHOLE

    values.write_bytes(bytes(len(values.read_bytes())))
    assert "begin with zeros" in (Seen(root, "orbax").verdict(10).detail or "")
    values.unlink()
    assert Seen(root, "orbax").verdict(10).detail == f"10/default: {name} is missing: its index names it"


def test_a_root_that_is_no_node_breaks_the_step(run: Path) -> None:
    data = run / "10" / "default" / "d" / "789ba29e76fd819a20548f1056bd621d"
    data.write_bytes(bytes(len(data.read_bytes())))
    assert "no whole node at byte 0" in (Seen(run, "orbax").verdict(10).detail or "")


def write_tree(item: Path, *names: str) -> None:
    """A manifest over one leaf that names these data files, neither of them compressed."""
    table = bytes([len(names), *[0] * (len(names) - 1), *map(len, names), *[16] * len(names)])
    leaf = b"\0" + table + "".join(names).encode() + b'\1{"compressor":{"id":"zstd"},"zarr_format":2}'
    where = "d/" + "b" * 32
    node = framed(ocdbt.NODE, leaf)
    (item / where).write_bytes(node)
    config = bytes(16) + b"\0\x80\x08\x80\xc2\xd7\x2f\x04\0"
    of_root = bytes([1, 1, 0, 0, 0, len(node)])
    (item / "manifest.ocdbt").write_bytes(framed(ocdbt.MANIFEST, config + b"\1\x22\0" + where.encode() + of_root))


def framed(magic: bytes, body: bytes) -> bytes:
    data = magic + (len(body) + 18).to_bytes(8, "little") + b"\0\0" + body
    return data + crc32c(data).to_bytes(4, "little")


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
