"""A copy by its structure: what each kind of damage is called, and what is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prune.integrity import structure
from prune.model import Health
from prune.stores.local import LocalRoot
from tests.integrity.copies import copy_at, examined
from tests.integrity.made import (
    SAMPLES,
    dcp_metadata,
    npy_file,
    safetensors_file,
    torch_file,
    write,
    zip_file,
)

BROKEN, SUSPECT, UNKNOWN = Health.BROKEN, Health.SUSPECT, Health.UNKNOWN
UNVERIFIED, WHOLE = Health.UNVERIFIED, Health.WHOLE


@pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.ckpt", "a.bin", "a.pkl"])
def test_a_torch_file_is_whole_under_any_of_its_names(name: str, tmp_path: Path) -> None:
    assert examined(write(tmp_path, {name: torch_file()})).health is WHOLE


@pytest.mark.parametrize("cut", [0.73, 0.5, -1])
@pytest.mark.parametrize("name", ["a.pt", "a.safetensors", "a.npz", "a.npy"])
def test_a_file_that_was_cut_is_broken_and_its_name_is_told(name: str, cut: float, tmp_path: Path) -> None:
    data = {
        "a.pt": torch_file(),
        "a.safetensors": safetensors_file(100, 3000),
        "a.npz": zip_file({"x.npy": npy_file()}),
        "a.npy": npy_file((40, 40)),
    }[name]
    end = int(len(data) * cut) if cut > 0 else int(cut)
    verdict = examined(write(tmp_path, {name: data[:end]}))
    assert verdict.health is BROKEN
    assert str(verdict.detail).startswith(f"{name}: ")


def test_a_cut_safetensors_file_says_expected_and_found_size(tmp_path: Path) -> None:
    data = safetensors_file(3000)
    detail = examined(write(tmp_path, {"a.safetensors": data[:-1]})).detail
    assert f"expected {len(data)} bytes" in str(detail)
    assert f"found {len(data) - 1}" in str(detail)


@pytest.mark.parametrize(
    "name",
    ["a.pt", "a.safetensors", "m.index", "c.npz", "b.h5", "x.keras", "o.pkl", "trainer_state.json", "f.msgpack",
     "ckpt-1.data-00000-of-00001", ".metadata", "__0.metadata", "a.zip", "d.bin"],
)  # fmt: skip
def test_a_payload_with_nothing_in_it_is_broken(name: str, tmp_path: Path) -> None:
    verdict = examined(write(tmp_path, {name: b"", "good.pt": torch_file()}))
    assert verdict.health is BROKEN
    assert name in str(verdict.detail)


@pytest.mark.parametrize("name", ["CHECKPOINT_COMPLETE", ".validate_storage_marker", "step-unfinished", "notes.txt"])
def test_an_empty_marker_is_legal(name: str, tmp_path: Path) -> None:
    assert examined(write(tmp_path, {name: b"", "good.pt": torch_file()})).health is WHOLE


@pytest.mark.parametrize("name", ["a.pt", "a.bin", "a.npz", "a.h5", "a.safetensors", "__0_0.distcp", "a.pkl", "s.json"])
def test_a_file_of_zero_bytes_at_both_ends_is_broken(name: str, tmp_path: Path) -> None:
    middle = b"" if name.endswith("json") else b"w" * 4096
    assert examined(write(tmp_path, {name: bytes(5000) + middle + bytes(5000)})).health is BROKEN


def test_raw_tensors_of_zeros_are_no_damage(tmp_path: Path) -> None:
    files = {"state.raw": bytes(9000), "config.json": b"{}"}
    assert examined(write(tmp_path, files)).health is UNVERIFIED


def test_unknown_bytes_under_a_torch_name_are_unverified(tmp_path: Path) -> None:
    assert examined(write(tmp_path, {"a.pt": b"my own format" * 100})).health is UNVERIFIED


def test_unknown_payload_beside_checked_payload_does_not_stop_whole(tmp_path: Path) -> None:
    files = {"a.pt": torch_file(), "own.bin": b"my own format" * 100, "vocab.txt": b"a b", "config.json": b"{}"}
    assert examined(write(tmp_path, files)).health is WHOLE


def test_a_copy_of_only_unknown_files_is_unverified(tmp_path: Path) -> None:
    assert examined(write(tmp_path, {"checkpoint": b"?" * 100, "config.json": b"{}"})).health is UNVERIFIED


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.h5", "a.hdf5", "a.keras", "a.zip"])
def test_an_extension_that_promises_a_format_is_held_to_it(name: str, tmp_path: Path) -> None:
    assert examined(write(tmp_path, {name: b"something else" * 100})).health is BROKEN


def test_a_file_that_cannot_be_opened_is_unknown_and_not_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.pt": torch_file(), "b.safetensors": safetensors_file(10)})

    def refuse(_: LocalRoot, path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    with copy_at(tmp_path) as (members, reader):
        monkeypatch.setattr(LocalRoot, "open", refuse)
        verdict = structure.examine(members, reader)
    assert verdict.health is UNKNOWN
    assert "Permission denied" in str(verdict.detail)


def test_damage_outweighs_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.pt": torch_file(), "b.pt": b""})
    with copy_at(tmp_path) as (members, reader):
        monkeypatch.setattr(LocalRoot, "open", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        assert structure.examine(members, reader).health is BROKEN


def test_a_file_that_vanished_after_listing_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, {"a.pt": torch_file()})
    with copy_at(tmp_path) as (members, reader):
        (tmp_path / "a.pt").unlink()
        assert structure.examine(members, reader).health is UNKNOWN


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"good/a.pt": torch_file(), "elsewhere.pt": b"PK\x03\x04 cut"})
    os.symlink("../elsewhere.pt", tmp_path / "good" / "notes")
    assert examined(tmp_path, "good").health is WHOLE


def test_weights_behind_a_link_are_unknown_wherever_it_leads(tmp_path: Path) -> None:
    write(tmp_path, {"good/a.pt": torch_file(), "good/config.json": b"{}", "elsewhere.pt": torch_file()})
    for target in ("../elsewhere.pt", "/nowhere/b.pt", "b.pt"):
        os.symlink(target, tmp_path / "good" / "b.pt")
        verdict = examined(tmp_path, "good")
        assert (verdict.health, "good/b.pt is a symlink" in str(verdict.detail)) == (UNKNOWN, True)
        os.unlink(tmp_path / "good" / "b.pt")


def test_a_link_to_a_file_beside_it_in_the_copy_is_as_good_as_that_file(tmp_path: Path) -> None:
    write(tmp_path, {"good/a.pt": torch_file()})
    os.symlink("a.pt", tmp_path / "good" / "b.pt")
    assert examined(tmp_path, "good").health is WHOLE
    (tmp_path / "good" / "a.pt").write_bytes(torch_file()[:-5])
    assert examined(tmp_path, "good").health is BROKEN


@pytest.mark.parametrize("name", ["step_10.pt", "step_10.weights", "step-10"])
def test_a_copy_that_is_a_link_or_a_pipe_itself_is_unknown(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"elsewhere/a.pt": torch_file()})
    os.symlink("elsewhere", tmp_path / name)
    assert examined(tmp_path, name).health is UNKNOWN
    os.unlink(tmp_path / name)
    os.mkfifo(tmp_path / name)
    assert examined(tmp_path, name).health is UNKNOWN


def test_a_copy_of_nothing_but_links_is_unknown_whatever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "step-10").mkdir()
    os.symlink("/nowhere", tmp_path / "step-10" / "weights")
    assert examined(tmp_path, "step-10").health is UNKNOWN


def test_a_directory_without_a_file_is_a_save_that_did_not_finish(tmp_path: Path) -> None:
    (tmp_path / "step-10.pt" / "optimizer").mkdir(parents=True)
    verdict = examined(tmp_path, "step-10.pt")
    assert (verdict.health, verdict.detail) == (BROKEN, "step-10.pt: holds no file: the save did not finish")


def test_files_of_any_name_with_nothing_in_any_of_them_are_broken(tmp_path: Path) -> None:
    write(tmp_path, {"step-10/weights": b"", "step-10/state": b""})
    assert examined(tmp_path, "step-10").health is BROKEN
    write(tmp_path, {"step-10/state": b"something"})
    assert examined(tmp_path, "step-10").health is UNVERIFIED


def test_a_temporary_whose_final_name_is_missing_means_the_save_did_not_finish(tmp_path: Path) -> None:
    write(tmp_path, {"s/a.pt": torch_file(), "s/b.pt.part": torch_file()})
    verdict = examined(tmp_path, "s")
    assert verdict.health is BROKEN
    assert "b.pt was never finished" in str(verdict.detail)


def test_a_temporary_left_beside_its_finished_file_is_no_damage(tmp_path: Path) -> None:
    write(tmp_path, {"s/a.pt": torch_file(), "s/a.pt.part": b"old"})
    assert examined(tmp_path, "s").health is WHOLE


def test_a_safetensors_temporary_with_holes_counts_only_where_no_finished_file_is(tmp_path: Path) -> None:
    write(tmp_path, {"killed/optimizer.pt": torch_file(), "resaved/model.safetensors": safetensors_file(9)})
    for step in ("killed", "resaved"):
        with open(tmp_path / step / ".tmpAb3xYz", "wb") as file:
            file.write(safetensors_file(10)[:20])
            file.truncate(100_000)
    assert examined(tmp_path, "killed").health is BROKEN
    assert examined(tmp_path, "resaved").health is WHOLE


# --- indexes of shards -------------------------------------------------------------------------------------------


def sharded(total: int, *, index: bool = True) -> dict[str, bytes]:
    names = [f"model-{number:05d}-of-{total:05d}.safetensors" for number in range(1, total + 1)]
    files = {name: safetensors_file(10) for name in names}
    weights = ", ".join(f'"w{number}": "{name}"' for number, name in enumerate(names))
    if index:
        files["model.safetensors.index.json"] = f'{{"weight_map": {{{weights}}}}}'.encode()
    return files


def test_all_shards_of_an_index_there_is_whole(tmp_path: Path) -> None:
    assert examined(write(tmp_path, sharded(3))).health is WHOLE


@pytest.mark.parametrize("gone", ["model-00002-of-00003.safetensors", "model.safetensors.index.json"])
def test_a_missing_shard_or_index_breaks_the_copy(gone: str, tmp_path: Path) -> None:
    files = sharded(3)
    del files[gone]
    verdict = examined(write(tmp_path, files))
    assert verdict.health is BROKEN
    assert gone in str(verdict.detail)


def test_shards_of_other_names_need_no_index(tmp_path: Path) -> None:
    files = {f"shard-00001-model-0000{n}-of-00002.safetensors": safetensors_file(9) for n in (1, 2)}
    assert examined(write(tmp_path, files)).health is WHOLE


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/../../b", "", "a//b", "a\\\\b"])
def test_an_index_that_leads_out_of_its_directory_is_broken(name: str, tmp_path: Path) -> None:
    files = {"model.safetensors.index.json": f'{{"weight_map": {{"w": "{name}"}}}}'.encode()}
    assert examined(write(tmp_path, files)).health is BROKEN


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}", b'{"weight_map": 3}', b'{"weight_map": {"w": 3}}', b"[" * 9999])
def test_an_index_that_cannot_be_parsed_is_broken(text: bytes, tmp_path: Path) -> None:
    assert examined(write(tmp_path, {"model.safetensors.index.json": text})).health is BROKEN


# --- torch.distributed.checkpoint --------------------------------------------------------------------------------


def dcp(**changes: bytes | None) -> dict[str, bytes]:
    files: dict[str, bytes | None] = {
        "s/__0_0.distcp": b"w" * 300,
        "s/__1_0.distcp": b"w" * 100,
        "s/.metadata": dcp_metadata({"__0_0.distcp": [(0, 100), (100, 200)], "__1_0.distcp": [(0, 100)]}),
    }
    files.update({f"s/{name}": data for name, data in changes.items()})
    return {name: data for name, data in files.items() if data is not None}


def test_shards_as_long_as_their_metadata_says_are_whole(tmp_path: Path) -> None:
    assert examined(write(tmp_path, dcp())).health is WHOLE


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"__1_0.distcp": b"w" * 99}, "expected at least 100 bytes by .metadata, found 99"),
        ({"__1_0.distcp": None}, "__1_0.distcp missing"),
        ({".metadata": None}, "2 shards without .metadata"),
        ({".metadata.tmp": b"x"}, ".metadata.tmp is there"),
        ({".metadata": b"\x80\x04}"}, "it was cut"),
        ({".metadata": b"no pickle"}, "cannot be read"),
        ({".metadata": dcp_metadata({"../__0_0.distcp": [(0, 1)]})}, "not below its directory"),
        ({".metadata": dcp_metadata({"__0_0.distcp": [(-5, 1)]})}, "impossible place"),
    ],
)
def test_dcp_damage_is_told(changes: dict[str, bytes | None], told: str, tmp_path: Path) -> None:
    verdict = examined(write(tmp_path, dcp(**changes)))
    assert verdict.health is BROKEN
    assert told in str(verdict.detail)


def test_every_cut_of_the_metadata_breaks_the_copy(tmp_path: Path) -> None:
    metadata = dcp()["s/.metadata"]
    for end in range(len(metadata)):
        root = write(tmp_path / str(end), dcp(**{".metadata": metadata[:end]}))
        assert examined(root).health is BROKEN, end


def test_a_pickle_of_another_kind_as_metadata_is_unverified(tmp_path: Path) -> None:
    assert examined(write(tmp_path, dcp(**{".metadata": b"\x80\x04}."}))).health is UNVERIFIED


def test_another_kind_of_metadata_without_shards_is_left_alone(tmp_path: Path) -> None:
    assert examined(write(tmp_path, {"s/.metadata": b"owner: me", "s/a.pt": torch_file()})).health is WHOLE


def test_idle_ranks_leave_empty_shards_and_the_copy_is_whole() -> None:
    assert any(path.stat().st_size == 0 for path in (SAMPLES / "dcp_idle_ranks").iterdir())
    assert examined(SAMPLES, "dcp_idle_ranks").health is WHOLE


def test_metadata_for_each_rank_will_do(tmp_path: Path) -> None:
    files = {f"s/{path.name}": path.read_bytes() for path in (SAMPLES / "dcp_rank_metadata").iterdir()}
    assert examined(write(tmp_path / "all", files)).health is WHOLE
    del files["s/__1.metadata"]
    assert examined(write(tmp_path / "one", files)).health is BROKEN


def test_a_nested_directory_of_shards_is_examined_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, {f"step/optim/{name[2:]}": data for name, data in dcp(**{"__0_0.distcp": b"w"}).items()})
    with copy_at(tmp_path) as (members, reader):
        assert structure.examine_dcp(members, reader, "step/optim").health is BROKEN
        assert structure.examine_dcp(members, reader, "step").health is UNVERIFIED
