"""Content checks: everything is read, against manifests, sidecars and the formats' own sums."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prune.integrity.content import Expected, check_content, sidecars_of, weight
from prune.integrity.manifest import Manifest, ManifestFile
from prune.integrity.sidecar import render
from prune.model import Health, Verdict
from prune.stores.local import LocalRoot
from tests.integrity.copies import copy_at
from tests.integrity.made import SAMPLES, dcp_metadata, safetensors_file, torch_file, write, zeroed
from tests.trees.real import EXPECTED, unpack

LATER, EARLIER = 10**20, 10**18  # after and before anything a test writes


def checked(root: Path, *paths: str, **more: object) -> Verdict:
    with copy_at(root, *paths) as (members, reader):
        return check_content(members, reader, **more)  # type: ignore[arg-type]


def sealed(root: Path, *paths: str, at_ns: int = LATER) -> Manifest:
    """A manifest of some files as they are, made at that time."""
    files = tuple(
        ManifestFile(path, (root / path).stat().st_size, hashlib.sha256((root / path).read_bytes()).hexdigest())
        for path in paths
    )
    return Manifest(paths[0], 1, at_ns, files)


def overwrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Changes a file's bytes and leaves its time as it was, as a failing disk does."""
    status = path.stat()
    path.write_bytes(change(path.read_bytes()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


# --- the formats' own sums ---------------------------------------------------------------------------------------


def test_a_zip_whose_members_all_match_is_intact(tmp_path: Path) -> None:
    assert checked(write(tmp_path, {"a.pt": torch_file()})).health is Health.INTACT


@pytest.mark.parametrize(
    ("tree", "health"),
    [
        ("torch_plain", Health.INTACT),
        ("deepspeed_zero1", Health.INTACT),
        ("keras_epochs", Health.INTACT),
        ("lightning_last_link", Health.INTACT),
        ("tf_manager", Health.INTACT),
        ("ray_train", Health.INTACT),
        ("safetensors_unpadded", Health.WHOLE),
        ("hf_trainer", Health.WHOLE),
        ("accelerate_auto", Health.WHOLE),
        ("dcp_sync", Health.WHOLE),
        ("orbax_killed_sync", Health.WHOLE),
    ],
)
def test_real_complete_steps_are_as_good_as_their_format_can_tell(tree: str, health: Health, tmp_path: Path) -> None:
    root = unpack(tree, tmp_path)
    for step in EXPECTED[tree]["complete"]:
        assert checked(root, *EXPECTED[tree]["units"][str(step)]).health is health, step


ZEROED = [
    ("torch_plain", "100", "step_0100.pt"),
    ("deepspeed_zero1", "80", "global_step80/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"),
    ("keras_epochs", "12", "model.12-0.20.keras"),
    ("lightning_last_link", "80", "lightning_logs/version_0/checkpoints/epoch=2-step=80.ckpt"),
    ("tf_manager", "120", "ckpt-120.data-00000-of-00001"),
    ("tf_manager", "120", "ckpt-120.index"),
    ("dcp_sync", "100", "step-100/__1_0.distcp"),
    ("hf_trainer", "100", "checkpoint-100/optimizer.pt"),
    ("accelerate_auto", "3", "checkpoints/checkpoint_3/random_states_0.pkl"),
]


@pytest.mark.parametrize(("tree", "step", "file"), ZEROED)
def test_zeros_in_the_middle_are_found_where_the_format_has_sums(
    tree: str, step: str, file: str, tmp_path: Path
) -> None:
    root = unpack(tree, tmp_path)
    length = min(4096, (root / file).stat().st_size // 3)
    overwrite(root / file, lambda data: zeroed(data, (len(data) - length) // 2, length))
    verdict = checked(root, *EXPECTED[tree]["units"][step])
    assert verdict.health is Health.BROKEN
    assert file in str(verdict.detail)


def test_the_real_zeroed_file_names_its_member_and_both_sums(tmp_path: Path) -> None:
    root = unpack("hf_trainer_damaged", tmp_path)
    verdict = checked(root, "checkpoint-40")
    assert verdict.health is Health.BROKEN
    assert "checkpoint-40/optimizer.pt: member" in str(verdict.detail)
    assert "expected CRC-32" in str(verdict.detail)


def test_every_blob_of_a_dcp_shard_is_held_against_its_sums(tmp_path: Path) -> None:
    one, two = torch_file(3000), torch_file(700)
    files = {
        "s/__0_0.distcp": one + two,
        "s/.metadata": dcp_metadata({"__0_0.distcp": [(0, len(one)), (len(one), len(two))]}),
    }
    assert checked(write(tmp_path, files)).health is Health.WHOLE
    overwrite(tmp_path / "s/__0_0.distcp", lambda data: zeroed(data, len(one) + 300, 20))
    assert checked(tmp_path, "s").health is Health.BROKEN


def test_places_that_overlap_are_not_read_again_and_again(tmp_path: Path) -> None:
    blob = torch_file(9000)
    files = {
        "s/__0_0.distcp": blob + bytes(300),
        "s/.metadata": dcp_metadata({"__0_0.distcp": [(0, len(blob) + n) for n in range(300)]}),
    }
    told: list[int] = []
    checked(write(tmp_path, files), progress=told.append)
    assert sum(told) < 10 * len(blob)


def test_a_file_without_recorded_sums_is_whole_and_not_intact(tmp_path: Path) -> None:
    data = (SAMPLES / "torch_without_sums.pt").read_bytes()
    assert checked(write(tmp_path, {"a.pt": data})).health is Health.WHOLE


def test_a_copy_of_nothing_that_carries_weight_is_not_intact(tmp_path: Path) -> None:
    assert checked(write(tmp_path, {"s/config.json": b"{}", "s/DONE": b""})).health is Health.UNVERIFIED


def test_side_files_do_not_stop_intact(tmp_path: Path) -> None:
    files = {"s/a.pt": torch_file(), "s/config.json": b"{}", "s/vocab.txt": b"a", "s/DONE": b""}
    assert checked(write(tmp_path, files)).health is Health.INTACT


# --- manifests ---------------------------------------------------------------------------------------------------


def test_content_that_matches_its_manifest_is_intact_whatever_the_format(tmp_path: Path) -> None:
    write(tmp_path, {"own.bin": b"my own format" * 1000})
    assert checked(tmp_path, manifest=sealed(tmp_path, "own.bin")).health is Health.INTACT


@pytest.mark.parametrize("name", ["own.bin", "a.safetensors", "a.pt"])
def test_a_flipped_bit_is_damage_with_both_hashes(name: str, tmp_path: Path) -> None:
    data = {"own.bin": b"my own format" * 99, "a.safetensors": safetensors_file(5000), "a.pt": torch_file()}[name]
    manifest = sealed(write(tmp_path, {name: data}), name)
    overwrite(tmp_path / name, flip)
    verdict = checked(tmp_path, manifest=manifest)
    assert verdict.health is Health.BROKEN
    assert manifest.files[0].sha256 in str(verdict.detail)
    assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() in str(verdict.detail)


def test_a_payload_with_nothing_in_it_is_broken_whatever_its_manifest_says(tmp_path: Path) -> None:
    write(tmp_path, {"a.pt": b""})
    assert checked(tmp_path, manifest=sealed(tmp_path, "a.pt")).health is Health.BROKEN


def test_zero_bytes_where_a_header_belongs_are_broken_whatever_a_manifest_says(tmp_path: Path) -> None:
    write(tmp_path, {"a.pt": bytes(20_000)})
    assert checked(tmp_path, manifest=sealed(tmp_path, "a.pt")).health is Health.BROKEN


def test_a_step_saved_again_is_judged_by_its_own_sums(tmp_path: Path) -> None:
    write(tmp_path, {"a.pt": torch_file(3000)})
    manifest = sealed(tmp_path, "a.pt", at_ns=EARLIER)
    for size in (9000, 3000):
        write(tmp_path, {"a.pt": torch_file(size)[:-30] + torch_file(size)[-30:]})
        overwrite(tmp_path / "a.pt", lambda data: data.replace(b"a/version", b"a/vErsion"))
        verdict = checked(tmp_path, manifest=manifest)
        assert verdict.health is Health.INTACT, size
        assert "void" in str(verdict.detail)


def test_a_step_saved_again_in_a_format_without_sums_is_suspect(tmp_path: Path) -> None:
    write(tmp_path, {"own.bin": b"one" * 500, "m.safetensors": safetensors_file(100)})
    for name, data in (("own.bin", b"two" * 500), ("m.safetensors", safetensors_file(100).replace(b"w", b"v"))):
        manifest = sealed(tmp_path, name, at_ns=EARLIER)
        write(tmp_path, {name: data})
        verdict = checked(tmp_path, name, manifest=manifest)
        assert verdict.health is Health.SUSPECT, name
        assert "nothing else decides" in str(verdict.detail)


def test_a_step_saved_again_and_damaged_is_broken(tmp_path: Path) -> None:
    write(tmp_path, {"a.pt": torch_file(3000)})
    manifest = sealed(tmp_path, "a.pt", at_ns=EARLIER)
    write(tmp_path, {"a.pt": zeroed(torch_file(3000), 1000, 50)})
    assert checked(tmp_path, manifest=manifest).health is Health.BROKEN


def test_a_file_that_the_manifest_does_not_name_is_judged_by_its_own_sums(tmp_path: Path) -> None:
    write(tmp_path, {"s/a.bin": b"my own" * 99, "s/b.pt": torch_file()})
    manifest = sealed(tmp_path, "s/a.bin")
    assert checked(tmp_path, "s", manifest=manifest).health is Health.INTACT
    overwrite(tmp_path / "s/b.pt", lambda data: zeroed(data, 1000, 50))
    assert checked(tmp_path, "s", manifest=manifest).health is Health.BROKEN


def test_what_the_layout_knows_comes_first(tmp_path: Path) -> None:
    write(tmp_path, {"a.pt": torch_file()})
    known = Verdict(Health.BROKEN, "trainer_state.json is missing")
    assert checked(tmp_path, known=known, manifest=sealed(tmp_path, "a.pt")) == known


# --- sidecars ----------------------------------------------------------------------------------------------------


def with_sidecar(root: Path, name: str, data: bytes) -> Path:
    write(root, {name: data, f"{name}.sha256": render({name: hashlib.sha256(data).hexdigest()})})
    at = time.time() - 100
    os.utime(root / name, (at, at))
    return root


def test_a_sidecar_that_matches_makes_a_copy_intact(tmp_path: Path) -> None:
    root = with_sidecar(tmp_path, "own.bin", b"my own" * 500)
    assert checked(root).health is Health.INTACT


def test_a_sidecar_that_does_not_match_older_bytes_tells_damage(tmp_path: Path) -> None:
    root = with_sidecar(tmp_path, "own.bin", b"my own" * 500)
    overwrite(root / "own.bin", flip)
    verdict = checked(root)
    assert verdict.health is Health.BROKEN
    assert "by its sidecar" in str(verdict.detail)


def test_a_sidecar_older_than_its_file_is_void_where_the_format_has_sums_and_else_leaves_doubt(tmp_path: Path) -> None:
    for name, data, health in (("a.pt", torch_file(), Health.INTACT), ("b.bin", b"own" * 99, Health.SUSPECT)):
        root = with_sidecar(tmp_path, name, b"before" * 100)
        (root / name).write_bytes(data)
        os.utime(root / f"{name}.sha256", (5e8, 5e8))
        assert checked(root, name, f"{name}.sha256").health is health


def test_a_sidecar_that_cannot_be_parsed_says_nothing(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.pt": torch_file(), "a.pt.sha256": b"not a digest"})
    assert checked(root).health is Health.INTACT


def test_a_manifest_outweighs_a_sidecar(tmp_path: Path) -> None:
    root = with_sidecar(tmp_path, "own.bin", b"my own" * 500)
    (root / "own.bin.sha256").write_bytes(render({"own.bin": "0" * 64}))
    assert checked(root, manifest=sealed(root, "own.bin")).health is Health.INTACT


def test_sidecars_can_be_given(tmp_path: Path) -> None:
    root = write(tmp_path, {"own.bin": b"my own"})
    given = {"own.bin": Expected(hashlib.sha256(b"my own").hexdigest(), LATER)}
    assert checked(root, sidecars=given).health is Health.INTACT
    assert checked(root, sidecars={}).health is Health.UNVERIFIED
    with copy_at(root) as (members, reader):
        assert sidecars_of(members, reader) == {}


# --- the work ----------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_read_makes_the_copy_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"own.bin": b"my own" * 99, "b.pt": torch_file()})
    manifest = sealed(tmp_path, "own.bin")
    real = LocalRoot.open

    def failing(self: LocalRoot, path: str) -> object:
        if path == broken:
            raise OSError(5, "Input/output error", path)
        return real(self, path)

    monkeypatch.setattr(LocalRoot, "open", failing)
    for broken in ("own.bin", "b.pt"):
        verdict = checked(tmp_path, manifest=manifest, known=Verdict(Health.WHOLE))
        assert verdict.health is Health.UNKNOWN
        assert broken in str(verdict.detail)


@pytest.mark.parametrize("threads", [1, 4])
def test_progress_is_told_every_byte_that_is_read(threads: int, tmp_path: Path) -> None:
    root = write(tmp_path, {f"s/{n}.pt": torch_file(40_000) for n in range(5)})
    told: list[int] = []
    with copy_at(root, "s") as (members, reader):
        assert check_content(members, reader, threads=threads, progress=told.append).health is Health.INTACT
        assert 0.9 * weight(members) < sum(told) <= weight(members)
    told.clear()
    manifest = sealed(root, *(f"s/{n}.pt" for n in range(5)))
    with copy_at(root, "s") as (members, reader):
        check_content(members, reader, manifest=manifest, threads=threads, progress=told.append)
        assert sum(told) == weight(members)
