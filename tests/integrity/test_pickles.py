"""Pickles as data: the same values as the real thing for plain ones, and nothing ever run, imported or built."""

from __future__ import annotations

import collections
import os
import pickle
import struct
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prune.integrity import pickles
from prune.integrity.pickles import CutPickle, Global, Opaque, UnreadablePickle, load, walk
from tests.integrity.copies import copy_at, examined
from tests.integrity.made import dcp_metadata, write, zip_file

keys = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=8) | st.binary(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=400),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(plain, st.integers(0, 5))
def test_plain_data_of_every_protocol_reads_as_it_was(value: object, protocol: int) -> None:
    if protocol in (0, 1, 2):  # these write bytes as a call, and text by escapes
        value = 17 if _has_bytes(value) else value
    data = pickle.dumps(value, protocol)
    found, end = load(data)
    assert end == len(data)
    assert found == value


def _has_bytes(value: object) -> bool:
    return any(isinstance(part, bytes | str) for part in walk(value)) or any(
        isinstance(key, bytes | str) for part in walk(value) if isinstance(part, dict) for key in part
    )


@settings(max_examples=50, deadline=None)
@given(plain, st.integers(0, 5))
def test_a_pickle_cut_anywhere_never_reads(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    for end in range(0, len(data), max(1, len(data) // 40)):
        with pytest.raises(UnreadablePickle):
            load(data[:end])


class Bomb:
    """Its pickle would make a file, were it ever loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_planted_pickle_never_runs(protocol: int, tmp_path: Path) -> None:
    from prune.integrity.content import check_content

    ran = tmp_path / "ran"
    bomb = pickle.dumps({"step": 3, "bomb": Bomb(str(ran))}, protocol)
    found, _ = load(bomb)
    assert isinstance(found, dict)
    assert found["step"] == 3
    planted = found["bomb"]
    assert isinstance(planted, Opaque)
    assert planted.name.endswith(".system")
    files = {
        "s/a.pkl": bomb,
        "s/b.pt": zip_file({"b/data.pkl": bomb, "b/data/0": b"w" * 100}),
        "s/c.pt": pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({}, 2) + bomb + bomb,
        "d/.metadata": bomb,
        "d/__0_0.distcp": bomb,
        "e/__0.metadata": bomb,
        "e/__0_0.distcp": bomb,
    }
    write(tmp_path, files)
    for step in ("s", "d", "e"):
        examined(tmp_path, step)
        with copy_at(tmp_path, step) as (members, reader):
            check_content(members, reader)
    assert not ran.exists()
    pickle.loads(bomb)  # noqa: S301 - the bomb is a real one
    assert ran.exists()


def test_nothing_is_imported() -> None:
    before = set(sys.modules)
    load(b"\x80\x04\x8c\x0bantigravity\x8c\x03fly\x93.")
    load(b"cthis\ns\n.")
    load(b"(ithis\ns\n.")
    assert set(sys.modules) == before


def test_dicts_of_known_kinds_are_dicts() -> None:
    value = {"o": collections.OrderedDict(a=1), "d": collections.defaultdict(list, b=[2])}
    assert load(pickle.dumps(value))[0] == {"o": {"a": 1}, "d": {"b": [2]}}


def test_what_would_be_constructed_keeps_its_name_arguments_and_state() -> None:
    found, _ = load(pickle.dumps(Point(1, 2)))
    assert isinstance(found, Opaque)
    assert found.name == f"{__name__}.Point"
    assert found.get("x") == 1
    assert found.get("nothing") is None


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y


def test_names_are_globals_and_nothing_more() -> None:
    found, _ = load(pickle.dumps(os.path.join))
    assert isinstance(found, Global)
    assert found == "posixpath.join"


def test_several_pickles_in_a_row_are_read_one_by_one() -> None:
    data = pickle.dumps([1]) + pickle.dumps("two")
    first, end = load(data)
    second, last = load(data, end)
    assert (first, second, last) == ([1], "two", len(data))


def test_walking_sees_every_value_once_and_survives_rings() -> None:
    ring: list[object] = [1, (2, {"a": 3})]
    ring.append(ring)
    found, _ = load(pickle.dumps(ring))
    assert sorted(part for part in walk(found) if isinstance(part, int)) == [1, 2, 3]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80\x04",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"abc.",
        b"\x80\x04\x8d" + struct.pack("<Q", 2**63) + b"abc.",
        b"\x80\x02\x8b" + struct.pack("<I", 2**31) + b"abc.",
        b"I" + b"9" * 100_000 + b"\n.",
        b"L" + b"9" * 100_000 + b"L\n.",
        b"F" + b"9" * 100_000 + b"\n.",
        b"c" + b"a" * 10_000 + b"\nb\n.",
        b"\x80\x04h\x07.",
        b"(((((((.",
        b"a.",
        b"0.",
        b"e.",
        b"u.",
        b"R.",
        b"b.",
        b"}(K\x01u.",
        b"Nb.",
        b"K\x01]a.",
        b"\x80\x04\xff.",
        b"V\\ud83\n.",
        b"X\x02\x00\x00\x00\xff\xff.",
    ],
)
def test_malformed_pickles_are_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(UnreadablePickle, match=r"[a-z]"):
        load(data)


@pytest.mark.parametrize(
    "data",
    [b"N" + b"\x85" * 300_000, b"N" + b"N\x86" * 300_000, b"]" * 300_000 + b"a" * 299_999,
     b"}" + b"N}" * 100_000 + b"s" * 100_000, b"cm\nn\n" * 50_000 + b")" + b"R\x85" * 49_999 + b"R"],
    ids=["tuples", "pairs", "lists", "dicts", "objects"],
)  # fmt: skip
def test_nesting_as_deep_as_the_data_is_long_is_read_and_let_go_without_recursion(data: bytes) -> None:
    value, _ = load(b"\x80\x04" + data + b".")
    assert sum(1 for _ in walk(value)) >= 50_000
    del value


def test_a_memo_pushed_again_and_again_does_not_multiply() -> None:
    laugh = b"\x80\x04]\x94" + b"".join(b"h\x00h\x00\x86\x94" for _ in range(100)) + b"."
    tracemalloc.start()
    load(laugh)
    load(b"\x80\x04X" + struct.pack("<I", 1_000_000) + b"m" * 1_000_000 + b"\x94" + b"h\x000" * 1000 + b"h\x00.")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


def test_long_names_pushed_again_and_again_are_refused() -> None:
    text = b"X" + struct.pack("<I", 100_000) + b"m" * 100_000 + b"\x94"
    with pytest.raises(UnreadablePickle):
        load(b"\x80\x04" + text + b"h\x00h\x00\x93" * 1000 + b".")


def test_keys_that_would_take_long_to_hash_are_set_aside() -> None:
    wide = b"(" + b"K\x01" * 1000 + b"t\x94"
    data = b"\x80\x04" + wide + b"0}" + b"h\x00Ns" * 10_000 + b"."
    found, _ = load(data)
    assert isinstance(found, dict)
    assert all(isinstance(key, Opaque) for key in found)


def test_more_opcodes_than_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MOST_OPCODES", 100)
    with pytest.raises(UnreadablePickle, match="more than 100"):
        load(b"N0" * 100 + b"N.")


def test_more_bytes_than_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MOST_BYTES", 10)
    with pytest.raises(UnreadablePickle, match="more than are read"):
        load(pickle.dumps("more than ten bytes"))


def test_metadata_beyond_the_bounds_is_not_called_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MOST_OPCODES", 20)
    files = {"s/.metadata": dcp_metadata({"__0_0.distcp": [(0, 5)]}), "s/__0_0.distcp": b"12345"}
    assert examined(write(tmp_path, files)).health == "unverified"


def test_a_cut_pickle_is_told_from_one_that_is_none() -> None:
    with pytest.raises(CutPickle):
        load(pickle.dumps(["whole"])[:-1])
    with pytest.raises(UnreadablePickle) as found:
        load(b"\x00\x01")
    assert not isinstance(found.value, CutPickle)
