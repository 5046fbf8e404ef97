# ruff: noqa: PT012  (the block is what is tested)
from __future__ import annotations

import os
import pickle
import subprocess
import zipfile
from pathlib import Path
from typing import BinaryIO

import pytest

import prune
from prune.errors import Failed, UsageError
from tests.publish.looking import fits, manifest, manifests, names


def publish_bytes(path: Path, data: bytes, **options: object) -> None:
    with prune.publish(path, **options) as file:  # type: ignore[arg-type]
        file.write(data)


def test_the_final_name_appears_only_when_the_block_ends(tmp_path: Path) -> None:
    with prune.publish(tmp_path / "step_0810.pt") as file:
        file.write(b"half")
        file.flush()
        assert names(tmp_path) == ["step_0810.pt.part"]
    assert names(tmp_path) == ["step_0810.pt"]


def test_the_manifest_tells_name_step_size_and_hash(tmp_path: Path) -> None:
    publish_bytes(tmp_path / "step_0810.pt", b"content")
    found = manifest(tmp_path, "step_0810.pt")
    assert (found.name, found.step, found.size) == ("step_0810.pt", 810, 7)
    assert fits(tmp_path, found)


def test_a_manifest_is_never_older_than_its_file(tmp_path: Path) -> None:
    publish_bytes(tmp_path / "step_1.pt", b"content")
    assert manifest(tmp_path, "step_1.pt").created_at_ns >= (tmp_path / "step_1.pt").stat().st_mtime_ns


def test_a_given_step_outweighs_the_name(tmp_path: Path) -> None:
    publish_bytes(tmp_path / "ckpt.pt", b"content", step=7)
    assert manifest(tmp_path, "ckpt.pt").step == 7


def test_a_name_without_a_step_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tells no step"):
        publish_bytes(tmp_path / "ckpt.pt", b"content")
    assert names(tmp_path) == []


def test_without_a_manifest_nothing_of_ours_is_made_in_the_root(tmp_path: Path) -> None:
    publish_bytes(tmp_path / "ckpt.pt", b"content", manifest=False)
    assert os.listdir(tmp_path) == ["ckpt.pt"]


def test_a_save_without_manifest_takes_away_the_one_it_makes_untrue(tmp_path: Path) -> None:
    publish_bytes(tmp_path / "step_1.pt", b"old")
    publish_bytes(tmp_path / "step_1.pt", b"newer", manifest=False)
    assert manifests(tmp_path) == []


def test_the_sidecar_is_what_sha256sum_checks(tmp_path: Path) -> None:
    for name in ("step_1.pt", "step 2.pt", "new\nline 3.pt", "back\\slash 4.pt"):
        publish_bytes(tmp_path / name, name.encode(), step=1, sidecar=True)
        subprocess.run(["sha256sum", "-c", f"{name}.sha256"], cwd=tmp_path, check=True, capture_output=True)


def test_a_sidecar_that_is_there_is_renewed(tmp_path: Path) -> None:
    publish_bytes(tmp_path / "step_1.pt", b"old", sidecar=True)
    publish_bytes(tmp_path / "step_1.pt", b"newer")
    subprocess.run(["sha256sum", "-c", "step_1.pt.sha256"], cwd=tmp_path, check=True, capture_output=True)


def test_an_error_in_the_block_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    publish_bytes(tmp_path / "step_1.pt", b"old")
    with pytest.raises(ZeroDivisionError), prune.publish(tmp_path / "step_1.pt") as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert names(tmp_path) == ["step_1.pt"]
    assert (tmp_path / "step_1.pt").read_bytes() == b"old"
    assert fits(tmp_path, manifest(tmp_path, "step_1.pt"))
    assert manifests(tmp_path) == ["step_1.pt.json"]


def test_an_interrupt_in_the_block_leaves_no_temporary(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), prune.publish(tmp_path / "step_1.pt") as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_an_empty_file_is_never_published(tmp_path: Path) -> None:
    publish_bytes(tmp_path / "step_1.pt", b"old")
    with pytest.raises(Failed, match="nothing was written"), prune.publish(tmp_path / "step_1.pt"):
        pass
    assert (tmp_path / "step_1.pt").read_bytes() == b"old"
    assert names(tmp_path) == ["step_1.pt"]


def test_a_failed_write_that_the_block_passes_over_is_never_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with pytest.raises(Failed, match="No space left"), prune.publish(tmp_path / "step_1.pt") as file:
        file.write(b"a" * (1 << 20))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="No space left"):
                file.write(b"b" * (1 << 20))
        file.write(b"c" * (1 << 20))
    assert names(tmp_path) == []


def test_the_cause_is_told_where_a_serialiser_hides_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    def serialise(file: BinaryIO) -> None:
        try:
            file.write(b"b" * (1 << 20))
        except OSError:
            raise RuntimeError("unexpected pos 64 vs 0") from None

    with (
        pytest.raises(Failed, match=r"step_1\.pt was not published: No space left"),
        prune.publish(tmp_path / "step_1.pt") as file,
        monkeypatch.context() as patch,
    ):
        patch.setattr(os, "pwrite", full)
        serialise(file)
    assert names(tmp_path) == []


def test_the_mode_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        publish_bytes(tmp_path / "step_1.pt", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "step_1.pt").stat().st_mode & 0o777 == 0o640


def test_the_published_file_carries_nothing_of_ours(tmp_path: Path) -> None:
    publish_bytes(tmp_path / "step_1.pt", b"content")
    assert os.listxattr(tmp_path / "step_1.pt") == []
    assert (tmp_path / "step_1.pt").read_bytes() == b"content"


def test_publishing_onto_a_link_replaces_the_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "target.pt").write_bytes(b"untouched")
    (tmp_path / "last_1.pt").symlink_to("target.pt")
    publish_bytes(tmp_path / "last_1.pt", b"new")
    assert not (tmp_path / "last_1.pt").is_symlink()
    assert (tmp_path / "target.pt").read_bytes() == b"untouched"


def test_a_link_at_the_temporary_name_is_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"untouched")
    (tmp_path / "step_1.pt.part").symlink_to("victim")
    with pytest.raises(UsageError, match="in the way"):
        publish_bytes(tmp_path / "step_1.pt", b"new")
    assert (tmp_path / "victim").read_bytes() == b"untouched"


def test_a_root_reached_through_a_link_is_the_root_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    publish_bytes(tmp_path / "link" / "step_1.pt", b"content")
    assert fits(tmp_path / "real", manifest(tmp_path / "real", "step_1.pt"))


def test_a_relative_path_means_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with prune.publish("step_1.pt") as file:
        file.write(b"content")
        os.chdir("/")
    assert names(tmp_path) == ["step_1.pt"]
    assert fits(tmp_path, manifest(tmp_path, "step_1.pt"))


def test_names_that_are_not_utf8_are_published(tmp_path: Path) -> None:
    name = os.fsdecode(b"step_\xff_7.pt")
    publish_bytes(tmp_path / name, b"content")
    assert fits(tmp_path, manifest(tmp_path, name))


def test_a_name_too_long_for_its_temporaries_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for length, options in ((246, {}), (251, {"manifest": False})):
        with pytest.raises(UsageError, match="bytes long"):
            publish_bytes(tmp_path / ("1" + "n" * (length - 1)), b"content", step=1, **options)
    assert names(tmp_path) == []


def test_the_longest_names_that_fit_are_published(tmp_path: Path) -> None:
    name = "n" * (255 - len(".json.next"))
    publish_bytes(tmp_path / name, b"content", step=1)
    assert fits(tmp_path, manifest(tmp_path, name))


@pytest.mark.parametrize("bad", ["", "/", ".", "..", "sub/..", "no/such/directory/step_1.pt", "nul\0.pt"])
def test_what_is_no_name_is_refused_with_a_sentence(bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        publish_bytes(Path(bad) if "\0" not in bad else bad, b"content", step=1)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


def test_a_file_is_not_published_over_a_directory(tmp_path: Path) -> None:
    (tmp_path / "step_1.pt").mkdir()
    with pytest.raises(UsageError, match="is a directory"):
        publish_bytes(tmp_path / "step_1.pt", b"content")
    assert names(tmp_path) == ["step_1.pt"]


def test_a_control_folder_that_cannot_stand_is_told_before_the_save(tmp_path: Path) -> None:
    (tmp_path / ".prune").write_text("in the way")
    with pytest.raises(UsageError, match="not a directory"):
        publish_bytes(tmp_path / "step_1.pt", b"content")
    assert names(tmp_path) == []


def test_the_manifest_goes_to_the_root_that_is_known_as_one(tmp_path: Path) -> None:
    deep = tmp_path / "lightning_logs" / "version_0" / "checkpoints"
    deep.mkdir(parents=True)
    (tmp_path / ".prune").mkdir()
    (tmp_path / ".prune" / "volume.json").write_text("{}")
    publish_bytes(deep / "epoch=1-step=40.ckpt", b"content")
    found = manifest(tmp_path, "epoch=1-step=40.ckpt")
    assert found.step == 40
    assert fits(tmp_path, found)
    assert not (deep / ".prune").exists()


def test_a_root_that_is_given_takes_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    publish_bytes(tmp_path / "checkpoints" / "step_1.pt", b"content", root=tmp_path)
    assert fits(tmp_path, manifest(tmp_path, "step_1.pt"))
    with pytest.raises(UsageError, match="not inside"):
        publish_bytes(tmp_path / "step_1.pt", b"content", root=tmp_path / "checkpoints")


def test_a_control_folder_beside_the_root_is_used(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    root.mkdir()
    (tmp_path / ".checkpoints.prune").mkdir()
    publish_bytes(root / "step_1.pt", b"content")
    assert os.listdir(root) == ["step_1.pt"]
    assert (tmp_path / ".checkpoints.prune" / "manifests" / "step_1.pt.json").exists()


def test_pickles_and_archives_that_seek_have_the_right_hash(tmp_path: Path) -> None:
    with prune.publish(tmp_path / "step_1.pkl") as file:
        pickle.dump({"weights": list(range(200_000))}, file)
    with prune.publish(tmp_path / "step_2.zip") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", os.urandom(3 << 20))
        archive.writestr("b", b"b")
    for name in ("step_1.pkl", "step_2.zip"):
        assert fits(tmp_path, manifest(tmp_path, name))
    assert zipfile.ZipFile(tmp_path / "step_2.zip").testzip() is None


def test_numpy_saves_have_the_right_hash(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    arrays = {"a": np.arange(400_000.0), "b": np.ones((3, 5), order="F")}
    with prune.publish(tmp_path / "step_1.npz") as file:
        np.savez(file, **arrays)
    with prune.publish(tmp_path / "step_2.npy") as file:
        np.save(file, arrays["a"])
    for name in ("step_1.npz", "step_2.npy"):
        assert fits(tmp_path, manifest(tmp_path, name))
    with np.load(tmp_path / "step_1.npz") as loaded:
        assert (loaded["a"] == arrays["a"]).all()


def test_torch_saves_have_the_right_hash_and_load(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = {"w": torch.arange(600_000.0), "b": torch.zeros(3)}
    for step, new_format in ((1, True), (2, False)):
        with prune.publish(tmp_path / f"step_{step}.pt") as file:
            torch.save(state, file, _use_new_zipfile_serialization=new_format)
        assert fits(tmp_path, manifest(tmp_path, f"step_{step}.pt"))
        assert torch.load(tmp_path / f"step_{step}.pt", weights_only=True)["w"].equal(state["w"])


def test_what_a_library_writes_by_path_is_published_with_the_right_hash(tmp_path: Path) -> None:
    with prune.publish(tmp_path / "step_1.bin") as file:
        Path(file.name).write_bytes(b"written by path")
    assert (tmp_path / "step_1.bin").read_bytes() == b"written by path"
    assert fits(tmp_path, manifest(tmp_path, "step_1.bin"))


def test_a_file_that_a_library_renames_onto_the_temporary_is_published_readable(tmp_path: Path) -> None:
    with prune.publish(tmp_path / "step_1.safetensors") as file:
        private = tmp_path / ".tmpAbC123"
        private.write_bytes(b"written beside")
        private.chmod(0o600)
        private.rename(file.name)
    assert fits(tmp_path, manifest(tmp_path, "step_1.safetensors"))
    assert (tmp_path / "step_1.safetensors").stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_a_temporary_that_was_removed_under_the_writer_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no longer the file"), prune.publish(tmp_path / "step_1.pt") as file:
        file.write(b"content")
        os.unlink(file.name)
    assert names(tmp_path) == []


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
