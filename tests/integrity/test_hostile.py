"""Hostile bytes: every reader ends, in bounded memory, with nothing but the errors it declares."""

from __future__ import annotations

import pickle
import struct
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prune.integrity import (
    checksums,
    dcp,
    files,
    hdf5,
    manifest,
    npy,
    pickle_files,
    pickles,
    safetensors,
    sharded_index,
    sidecar,
    tensorflow,
    zips,
)
from prune.integrity.content import check_content
from prune.integrity.window import Damage, Doubt, Window
from prune.layouts.base import Members
from prune.stores.local import LocalRoot
from tests.integrity.copies import members_of
from tests.integrity.made import (
    SAMPLES,
    damaged,
    dcp_metadata,
    npy_file,
    safetensors_file,
    torch_file,
    write,
    zip_file,
)


def nothing(_: int) -> None:
    """A tick that nobody listens to."""


def index_of(data: bytes) -> object:
    window = Window.over(data)
    bundle = tensorflow.read_index(window)
    bundle.needed("p")
    return bundle.tensors and tensorflow.check_sums(Window.over(bytes(5000)), bundle.tensors, nothing)


def places_of(data: bytes) -> object:
    places = dcp.places(data)
    if places is None:
        return None
    dcp.too_short(dcp.needed(places), {"__0_0.distcp": 100})
    return [dcp.check_sums(Window.over(torch_file()), spans, nothing) for spans in places.values()]


READERS: dict[str, tuple[Callable[[bytes], object], tuple[type[Exception], ...]]] = {
    "zips.check": (lambda data: zips.check(Window.over(data)), (Damage,)),
    "zips.check_sums": (lambda data: zips.check_sums(Window.over(data), nothing), (Damage,)),
    "safetensors": (lambda data: safetensors.check(Window.over(data)), (Damage,)),
    "hdf5": (lambda data: hdf5.check(Window.over(data)), (Damage, Doubt)),
    "npy": (lambda data: npy.check(Window.over(data)), (Damage,)),
    "pickle_files": (lambda data: pickle_files.check(Window.over(data)), (Damage,)),
    "pickles": (pickles.load, (pickles.UnreadablePickle,)),
    "sharded_index": (sharded_index.shards, (Damage,)),
    "dcp": (places_of, (Damage,)),
    "tensorflow": (index_of, (Damage,)),
    "manifest": (manifest.parse, (ValueError,)),
    "sidecar": (sidecar.parse, (ValueError,)),
}


HEADER = b"\0\0\x02\x08\x01"  # an empty key, and that there is one shard
TENSOR = b"\x08\x01\x12\x04\x12\x02\x08\x02\x20\x00\x28\x08\x35\x07\0\0\0"  # two floats at the start of shard 0


def tensorflow_index(body: bytes = HEADER + b"\0\x0a" + bytes([len(TENSOR)]) + b"net/kernel" + TENSOR) -> bytes:
    """An index of one block with these entries and sums that match."""

    def varint(value: int) -> bytes:
        out = b""
        while value > 0x7F:
            out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
        return out + bytes([value])

    def block(body: bytes) -> bytes:
        body += struct.pack("<II", 0, 1) + b"\0"
        return body + struct.pack("<I", tensorflow.masked(tensorflow.crc32c(body)))

    first = block(body)
    second = block(b"\0\x01" + varint(len(handle := varint(0) + varint(len(first) - 5))) + b"z" + handle)
    footer = varint(0) + varint(0) + varint(len(first)) + varint(len(second) - 5)
    return first + second + footer.ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")


WHOLE_FILES: dict[str, bytes] = {
    "zip": torch_file(700),
    "packed": zip_file({"a": b"w" * 3000, "b": bytes(range(256)) * 4}, packed=True),
    "safetensors": safetensors_file(7, 30, 0, 100),
    "npy": npy_file(),
    "old torch": (SAMPLES / "old_torch.pt").read_bytes(),
    "h5": (SAMPLES / "hdf5_earliest.h5").read_bytes()[:2000],
    "h5 latest": (SAMPLES / "hdf5_latest.h5").read_bytes()[:700],
    "pickle": pickle.dumps({"a": [1, 2.5, b"x" * 300, "y" * 40], (1, 2): {3}, "o": ValueError("z")}, 4),
    "pickle 0": pickle.dumps({"a": [1, 2.5, b"x" * 30, "y"], "o": ValueError("z")}, 0),
    "metadata": dcp_metadata({"__0_0.distcp": [(0, 50), (50, 100)], "__1_0.distcp": [(0, 9)]}),
    "index": tensorflow_index(),
    "index.json": b'{"metadata": {"total_size": 3}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}',
    "manifest": manifest.serialise(manifest.Manifest("a", 3, 10**18, (manifest.ManifestFile("a", 5, "ab" * 32),))),
    "sidecar": sidecar.render({"a": "ab" * 32, "new\nline": "cd" * 32}),
}


def test_the_files_that_are_damaged_here_are_whole_to_begin_with() -> None:
    assert zips.check_sums(Window.over(WHOLE_FILES["zip"]), nothing)
    assert zips.check_sums(Window.over(WHOLE_FILES["packed"]), nothing)
    assert safetensors.check(Window.over(WHOLE_FILES["safetensors"]))
    assert npy.check(Window.over(WHOLE_FILES["npy"]))
    assert pickle_files.check(Window.over(WHOLE_FILES["old torch"]))
    assert pickle_files.check(Window.over(WHOLE_FILES["pickle"]))
    bundle = tensorflow.read_index(Window.over(WHOLE_FILES["index"]))
    assert [(t.name, t.size, t.count) for t in bundle.tensors or ()] == [(b"net/kernel", 8, 2)]


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=600))
def test_any_bytes_end_in_an_answer_or_a_declared_error(reader: str, data: bytes) -> None:
    read, declared = READERS[reader]
    try:
        read(data)
    except declared:
        pass


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=damaged(WHOLE_FILES))
def test_damaged_files_end_in_an_answer_or_a_declared_error(reader: str, found: tuple[str, bytes]) -> None:
    read, declared = READERS[reader]
    try:
        read(found[1])
    except declared:
        pass


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_a_tensorflow_index_of_any_entries_with_right_sums_is_answered(body: bytes, header: bool) -> None:
    try:
        index_of(tensorflow_index(HEADER * header + body))
    except Damage:
        pass


def test_keys_that_grow_out_of_one_another_do_not_fill_the_memory() -> None:
    long = b"\0\xff\xff\x03\0" + b"k" * 65_535
    tracemalloc.start()
    bundle = tensorflow.read_index(Window.over(tensorflow_index(HEADER + long + b"\xff\xff\x03\0\0" * 20_000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert bundle.tensors is None
    assert peak < 100 << 20


NAMES = {
    "zip": "a.pt", "packed": "a.npz", "safetensors": "a.safetensors", "npy": "a.npy", "old torch": "o.pt", "h5": "a.h5",
    "h5 latest": "b.h5", "pickle": "a.pkl", "pickle 0": "b.pkl", "metadata": ".metadata", "index": "m.index",
    "index.json": "model.safetensors.index.json", "manifest": "x.json", "sidecar": "a.pt.sha256",
}  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(damaged(WHOLE_FILES), min_size=1, max_size=3))
def test_a_copy_of_damaged_files_always_gets_a_verdict(found: list[tuple[str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = write(Path(folder), {f"s/{NAMES[kind]}": data for kind, data in found})
        with LocalRoot(str(root)) as reader:
            members = members_of(reader, ["s"])
            verdict = check_content(members, reader, threads=1)
    assert verdict.health.restorable or verdict.detail


def end_of_zip(entries: int, size: int, offset: int) -> bytes:
    return struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, entries, entries, size, offset, 0)


def end_of_zip64(entries: int, size: int, offset: int) -> bytes:
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, entries, entries, size, offset)
    return record + struct.pack("<4sIQI", b"PK\x06\x07", 0, 0, 1) + end_of_zip(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)


CLAIMS: dict[str, tuple[str, bytes]] = {
    "a ZIP directory of 4 GiB": ("a.pt", b"PK\x03\x04" + bytes(40) + end_of_zip(65534, 0xFFFFFFF0, 0)),
    "a ZIP64 directory of an exbibyte": ("a.pt", end_of_zip64(2**60, 2**60, 0)),
    "a ZIP64 directory of a trillion entries": ("a.pt", end_of_zip64(2**40, 0, 0)),
    "a safetensors header of 99 MB": ("a.safetensors", struct.pack("<Q", 99_000_000) + b"{" * 50),
    "an npy header of 4 GiB": ("a.npy", b"\x93NUMPY\x02\x00" + b"\xff" * 4 + b"{"),
    "an npy of 10^18 items": ("a.npy", npy_file((10**9, 10**9), items=1)),
    "a pickle blob of 2^62 bytes": ("a.pkl", b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"w."),
    "metadata with a blob of 2^62 bytes": (".metadata", b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"w."),
    "an old torch file of 2^62 elements": ("a.pt", (SAMPLES / "old_torch.pt").read_bytes().replace(
        b"\x08" + bytes(7), struct.pack("<Q", 2**62))),
    "a TensorFlow block of 2^60 bytes": ("m.index", (b"\x00\x00" + b"\xff" * 8 + b"\x0f" + b"\xff" * 8 + b"\x0f")
        .ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")),
    "an HDF5 end at 2^63": ("a.h5", hdf5.SIGNATURE + bytes([0, 0, 0, 0, 0, 8, 8]) + b"\xfe" * 60),
}  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_claimed_length_is_ever_allocated(claim: str, tmp_path: Path) -> None:
    name, data = CLAIMS[claim]
    with LocalRoot(str(write(tmp_path, {f"s/{name}": data}))) as reader:
        members = members_of(reader, ["s"])
        tracemalloc.start()
        verdict = check_content(members, reader, threads=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert not verdict.health.restorable
    assert peak < 4 << 20


def test_json_of_great_depth_is_refused() -> None:
    deep = b"[" * 200_000
    for read, declared in (READERS["sharded_index"], READERS["manifest"]):
        with pytest.raises(declared):
            read(deep)
    with pytest.raises(Damage):
        safetensors.check(Window.over(struct.pack("<Q", len(deep)) + deep))


def test_a_million_shards_by_name_alone_are_not_looked_for_one_by_one() -> None:
    assert sharded_index.incomplete_set(["model-00001-of-99999.safetensors"])


def test_files_that_are_none_are_not_opened(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "a.pt")
    with LocalRoot(str(tmp_path)) as reader:
        members = members_of(reader, ["a.pt"])
        assert members.files["a.pt"].kind == "other"
        assert check_content(members, reader).health == "unknown"
        assert files.plain(members) == {}
        assert checksums.check_all(Members(1, (), {}, {}), reader, []) == {}
