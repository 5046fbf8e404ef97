"""JSON beside the payload: what was cut is seen, and nothing else is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prune.model import Health
from tests.integrity.copies import examined
from tests.integrity.made import torch_file, write

BROKEN, WHOLE = Health.BROKEN, Health.WHOLE
SMALL = json.dumps({"a": [1, {"b": 'a "quoted} one'}], "c": {"d": "]"}}, indent=2).encode()
LONG = json.dumps({"vocab": {f"word {number}": number for number in range(9000)}, "merges": [1]}).encode()


def health_beside(text: bytes, folder: Path) -> Health:
    return examined(write(folder, {"good.pt": torch_file(), "config.json": text})).health


@pytest.mark.parametrize("keep", [1, 0.5, 0.73, -1])
@pytest.mark.parametrize("text", [SMALL, LONG], ids=["small", "long"])
def test_json_that_was_cut_is_broken(text: bytes, keep: float, tmp_path: Path) -> None:
    end = int(len(text) * keep) if 0 < keep < 1 else int(keep)
    assert health_beside(text[:end], tmp_path) is BROKEN


def test_small_json_that_was_cut_behind_a_bracket_is_broken(tmp_path: Path) -> None:
    assert health_beside(b'{"a": {"b": 1}', tmp_path) is BROKEN


def test_json_with_zero_bytes_in_its_middle_is_broken(tmp_path: Path) -> None:
    assert health_beside(b'{"a": "' + bytes(2000) + b'"}', tmp_path) is BROKEN


@pytest.mark.parametrize(
    "text",
    [
        SMALL, LONG, b" {}\n", b"[]", b"7", b'"a"', b"null", b"words, not JSON", b'{"a": 1}\n{"a": 2}\n',
        b'{"a": 1,} // {kept} for later }', b'{"path": "C:\\\\"}', '{"a": 1}'.encode("utf-16-le"),
    ],
)  # fmt: skip
def test_other_text_under_that_name_is_let_be(text: bytes, tmp_path: Path) -> None:
    assert health_beside(text, tmp_path) is WHOLE


@pytest.mark.parametrize("name", ["_METADATA", "_sharding", "array_metadatas/process_0"])
@pytest.mark.parametrize("keep", [0, 0.5, -1])
def test_what_orbax_writes_as_json_without_saying_so_is_held_to_it(name: str, keep: float, tmp_path: Path) -> None:
    folder = write(tmp_path, {"good.pt": torch_file(), name: SMALL})
    assert examined(folder).health is WHOLE
    (folder / name).write_bytes(SMALL[: int(len(SMALL) * keep) if keep >= 0 else -1])
    assert examined(folder).health is BROKEN
