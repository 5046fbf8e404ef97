"""The formats one by one, on files that their own libraries wrote."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from prune.integrity import hdf5, npy, pickle_files, safetensors, zips
from prune.integrity.window import Damage, Doubt, Window
from prune.model import Health
from tests.integrity.copies import examined
from tests.integrity.made import SAMPLES, npy_file, safetensors_file, torch_file, write, zeroed, zip_file


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


# --- ZIP ---------------------------------------------------------------------------------------------------------


def test_members_are_those_that_the_standard_library_sees() -> None:
    data = zip_file({f"a/data/{n}": bytes([n]) * n * 100 for n in range(1, 60)}, packed=True)
    window = Window.over(data)
    directory = zips.find_directory(window)
    found = [(m.name.decode(), m.size, m.packed, m.crc, m.offset) for m in zips.members(window, directory)]
    expected = [
        (i.filename, i.file_size, i.compress_size, i.CRC, i.header_offset)
        for i in zipfile.ZipFile(io.BytesIO(data)).infolist()
    ]
    assert found == expected


def test_a_zip_of_more_members_than_the_old_end_record_can_count_is_whole() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(65_600):
            archive.writestr(str(number), b"")
    window = Window.over(buffer.getvalue())
    assert zips.find_directory(window).entries == 65_600
    assert zips.check(window)


def test_a_member_with_its_length_in_the_wide_field_is_read() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, archive.open("a", "w", force_zip64=True) as member:
        member.write(b"w" * 1000)
    window = Window.over(buffer.getvalue())
    assert zips.check(window)
    assert zips.check_sums(window, lambda _: None)


def test_an_end_record_inside_the_data_is_not_taken_for_the_last_one() -> None:
    fake = b"PK\x05\x06" + bytes(18)
    assert zips.check(Window.over(zip_file({"a": fake * 20, "b": b"x"}) + fake[:4]))


def test_a_zip_behind_something_else_is_read_where_it_is() -> None:
    assert zips.check(Window.over(b"#!/bin/sh\n" + zip_file({"a": b"w" * 100})))


def test_a_zip_with_a_comment_is_whole_and_a_cut_comment_is_damage() -> None:
    buffer = io.BytesIO(torch_file())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"made by hand"
    assert zips.check(Window.over(buffer.getvalue()))
    with pytest.raises(Damage):
        zips.check(Window.over(buffer.getvalue()[:-3]))


def test_an_empty_zip_has_nothing_to_check() -> None:
    assert not zips.check(Window.over(zip_file({})))


def test_a_zeroed_head_of_a_zip_is_damage() -> None:
    with pytest.raises(Damage, match="no ZIP member at byte 0"):
        zips.check(Window.over(zeroed(torch_file(), 0, 64)))


def test_a_member_cut_out_of_the_middle_is_damage() -> None:
    data = torch_file()
    with pytest.raises(Damage):
        zips.check(Window.over(data[:1000] + data[1500:]))


@pytest.mark.parametrize("packed", [False, True])
def test_every_flipped_byte_of_a_members_data_is_found_by_its_sum(packed: bool) -> None:
    data = zip_file({"x": np.random.default_rng(1).bytes(300)}, packed=packed)
    start = 30 + len("x")
    for at in range(start, start + 280):
        flipped = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        with pytest.raises(Damage):
            zips.check_sums(Window.over(flipped), lambda _: None)


def test_a_packed_member_of_one_long_run_is_read_in_bounded_pieces() -> None:
    assert zips.check_sums(Window.over(zip_file({"x": bytes(30 << 20)}, packed=True)), lambda _: None)


def test_members_over_one_another_are_damage_and_not_read_again_and_again() -> None:
    inner = zip_file({"x": bytes(1 << 20)}, packed=True)
    directory_at = inner.rindex(b"PK\x01\x02")
    entry = inner[directory_at : inner.rindex(b"PK\x05\x06")]
    many = 2000
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, many, many, len(entry) * many, directory_at, 0)
    window = Window.over(inner[:directory_at] + entry * many + end)
    read: list[int] = []
    with pytest.raises(Damage, match="over one another"):
        zips.check_sums(window, read.append)
    assert sum(read) < 4 * window.size


def test_a_file_saved_without_sums_is_whole_and_never_intact() -> None:
    window = Window.over(sample("torch_without_sums.pt"))
    assert zips.check(window)
    assert not zips.check_sums(window, lambda _: None)


# --- safetensors -------------------------------------------------------------------------------------------------


def tensor(begin: int, end: int, dtype: str = "U8", shape: list[int] | None = None) -> dict[str, object]:
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def test_safetensors_with_metadata_and_scalars_and_empty_tensors_is_whole() -> None:
    header = {"__metadata__": {"format": "pt"}, "a": tensor(0, 8, "F64", []), "b": tensor(8, 8, "F32", [0, 3])}
    assert safetensors.check(Window.over(safetensors_file(header=header) + b"w" * 8))


@pytest.mark.parametrize(
    "header",
    [
        {"a": tensor(0, 8), "b": tensor(9, 10)},
        {"a": tensor(0, 8), "b": tensor(7, 10)},
        {"a": tensor(1, 10)},
        {"a": tensor(0, 10, "F32", [3])},
        {"a": tensor(0, 10, "F32", [-1])},
        {"a": tensor(0, 10, "F32", [10**30, 10**30])},
        {"a": {"dtype": "U8", "shape": [10], "data_offsets": [0, -10]}},
        {"a": {"dtype": "U8", "shape": [10], "data_offsets": [0, "10"]}},
        {"a": {"dtype": "U8", "shape": [10]}},
        {"a": 3},
    ],
)
def test_a_safetensors_header_that_does_not_fit_itself_is_damage(header: dict[str, object]) -> None:
    with pytest.raises(Damage):
        safetensors.check(Window.over(safetensors_file(header=header) + b"w" * 10))


@pytest.mark.parametrize("length", [0, 2**40, 2**63, 2**64 - 1, 99_999_999])
def test_a_safetensors_header_length_is_bounded_before_it_is_believed(length: int) -> None:
    with pytest.raises(Damage):
        safetensors.check(Window.over(struct.pack("<Q", length) + b"{}" * 50))


def test_something_appended_to_safetensors_is_damage() -> None:
    with pytest.raises(Damage, match="something was added"):
        safetensors.check(Window.over(safetensors_file(10) + b"more"))


def test_a_safetensors_type_of_the_future_is_taken_at_its_word() -> None:
    assert safetensors.check(Window.over(safetensors_file(header={"a": tensor(0, 5, "F4", [10])}) + b"w" * 5))


# --- HDF5 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hdf5_earliest.h5", "hdf5_latest.h5", "hdf5_user_block.h5"])
def test_hdf5_of_every_superblock_is_whole_and_every_cut_is_damage(name: str, tmp_path: Path) -> None:
    data = sample(name)
    assert hdf5.check(Window.over(data))
    for end in (len(data) - 1, len(data) // 2, int(len(data) * 0.73), 600, 60, 20):
        assert examined(write(tmp_path, {"a.h5": data[:end]})).health is Health.BROKEN, end


def test_hdf5_longer_than_it_says_was_not_closed_and_is_suspect() -> None:
    with pytest.raises(Doubt, match="did not close"):
        hdf5.check(Window.over(sample("hdf5_earliest.h5") + bytes(800)))


def test_hdf5_marked_open_for_writing_is_suspect() -> None:
    data = bytearray(sample("hdf5_latest.h5"))
    data[8], data[11] = 3, 1
    with pytest.raises(Doubt, match="open for writing"):
        hdf5.check(Window.over(bytes(data)))


# --- npy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.ones((2, 2))), np.float32(3), np.array(["ab", "c"]),
     np.array(["2020-01-01"], dtype="M8[D]"), np.zeros((0, 3)), np.array([True]), np.zeros(3, ">i8")],
)  # fmt: skip
def test_what_numpy_saves_is_whole_and_one_byte_less_is_damage(array: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, array)
    assert npy.check(Window.over(buffer.getvalue()))
    with pytest.raises(Damage):
        npy.check(Window.over(buffer.getvalue()[:-1]))


@pytest.mark.parametrize("dtype", [object, [("a", "i4"), ("b", "f8")]])
def test_object_and_record_arrays_have_nothing_to_check(dtype: object) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3, dtype=dtype), allow_pickle=True)
    assert not npy.check(Window.over(buffer.getvalue()))


def test_an_impossible_npy_shape_is_damage() -> None:
    with pytest.raises(Damage):
        npy.check(Window.over(npy_file((10**18, 10**18, 10**18, 10**18), items=3)))


def test_an_npy_shape_that_is_no_list_of_numbers_is_not_judged() -> None:
    assert not npy.check(Window.over(npy_file().replace(b"(3, 4)", b"(3,\x1c4)")))


# --- pickles -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["old_torch.pt", "old_torch_protocol4.pt", "old_torch_module.pt"])
def test_the_old_torch_format_is_whole_and_every_cut_is_damage(name: str) -> None:
    data = sample(name)
    assert pickle_files.is_old_torch(Window.over(data))
    assert pickle_files.check(Window.over(data))
    for end in range(200, len(data), 7):
        with pytest.raises(Damage):
            pickle_files.check(Window.over(data[:end]))


def test_an_old_torch_file_with_a_storage_of_unknown_type_is_not_called_broken() -> None:
    data = sample("old_torch.pt").replace(b"ByteStorage", b"NewkStorage")
    assert not pickle_files.check(Window.over(data))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_plain_pickle_is_whole_up_to_its_stop_and_every_cut_is_damage(protocol: int) -> None:
    data = pickle.dumps({"a": np.arange(3000), "b": [1, {"x": (1, 2.5, None)}], "c": 10**40, "d": {1}}, protocol)
    assert pickle_files.check(Window.over(data))
    for end in range(2, len(data), max(1, len(data) // 300)):
        with pytest.raises(Damage):
            pickle_files.check(Window.over(data[:end]))


def test_bytes_after_a_pickle_are_not_judged() -> None:
    assert not pickle_files.check(Window.over(pickle.dumps([1, 2]) + b"raw array"))


def test_raw_arrays_between_opcodes_are_not_called_broken() -> None:
    data = pickle.dumps({"by": "joblib.numpy_pickle"})[:-1] + b"\x8e" + b"\xff" * 200
    assert not pickle_files.check(Window.over(data))


def test_the_end_of_a_pickle_is_found_over_long_blobs_without_reading_them() -> None:
    data = pickle.dumps([b"w" * (5 << 20), "x" * 300_000, 7], 4)
    assert pickle_files.end_of_pickle(Window.over(data + b"rest"), 0) == len(data)
