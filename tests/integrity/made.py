"""Files of each format, made small, and ways to damage them."""

from __future__ import annotations

import io
import json
import pickle
import struct
import sys
import types
import zipfile
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from hypothesis import strategies as st

SAMPLES = Path(__file__).parent / "samples"


def zip_file(members: Mapping[str, bytes], *, packed: bool = False) -> bytes:
    """A ZIP, stored as torch writes it or deflated as ``numpy.savez_compressed`` does."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def torch_file(size: int = 5000) -> bytes:
    data = bytes(range(1, 256)) * (size // 255 + 1)
    return zip_file({"a/data.pkl": b"\x80\x02}q\x00.", "a/data/0": data[:size], "a/version": b"3\n"})


def safetensors_file(*sizes: int, header: Mapping[str, object] | None = None) -> bytes:
    """Tensors of so many bytes each, or any header over that many bytes."""
    tensors: dict[str, object] = {}
    at = 0
    for index, size in enumerate(sizes):
        tensors[f"t{index}"] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header if header is not None else tensors).encode()
    return struct.pack("<Q", len(text)) + text + b"w" * at


def npy_file(shape: tuple[int, ...] = (3, 4), descr: str = "<f4", items: int | None = None) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(118) + b"\n"
    count = 1
    for extent in shape:
        count *= extent
    item = int(descr[2:])
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(header))
        + header
        + b"w" * (count if items is None else items) * item
    )


def dcp_metadata(places: Mapping[str, list[tuple[int, int]]], *, protocol: int = 4) -> bytes:
    """A ``.metadata`` as torch pickles it, without torch: the same classes by name."""
    metadata, storage, modules = _torch_classes()
    storage_data = {}
    for path, spans in places.items():
        for number, (offset, length) in enumerate(spans):
            info = storage()
            vars(info).update(relative_path=path, offset=offset, length=length)
            storage_data[f"{path}:{number}"] = info
    value = metadata()
    vars(value).update(state_dict_metadata={}, planner_data=None, storage_data=storage_data)
    with mock.patch.dict(sys.modules, modules):
        return pickle.dumps(value, protocol)


def _torch_classes() -> tuple[type, type, dict[str, types.ModuleType]]:
    """Two classes by the names torch has for them, and the modules in which pickle finds them."""
    base = "torch.distributed.checkpoint"
    parents = ("torch", "torch.distributed", base)
    modules = {name: types.ModuleType(name) for name in (*parents, f"{base}.metadata", f"{base}.filesystem")}
    metadata = type("Metadata", (), {"__module__": f"{base}.metadata"})
    storage = type("_StorageInfo", (), {"__module__": f"{base}.filesystem"})
    vars(modules[f"{base}.metadata"])["Metadata"] = metadata
    vars(modules[f"{base}.filesystem"])["_StorageInfo"] = storage
    return metadata, storage, modules


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    """Files by path below a root."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def zeroed(data: bytes, start: int, length: int) -> bytes:
    return data[:start] + bytes(len(data[start : start + length])) + data[start + length :]


@st.composite
def damaged(draw: st.DrawFn, files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """One of the files cut, with bytes flipped, or with a wild number written somewhere into it."""
    name = draw(st.sampled_from(sorted(files)))
    data = bytearray(files[name])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["cut", "flip", "number", "zero", "splice"])):
            case "cut":
                del data[at:]
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "number":
                number = draw(st.sampled_from([0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, 10**6]))
                data[at : at + 8] = number.to_bytes(8, "little")
            case "zero":
                data[at : at + 64] = bytes(len(data[at : at + 64]))
            case "splice":
                data[at:at] = draw(st.binary(max_size=16))
    return name, bytes(data)
