"""Hashes beside the files: what sha256sum writes is read, what is written sha256sum takes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune.integrity.sidecar import expected, parse, parse_integrity, render

HASH, OTHER = "ab" * 32, "cd" * 32


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (f"{HASH}  step_1.pt\n", {"step_1.pt": HASH}),
        (f"{HASH} *step_1.pt\n", {"step_1.pt": HASH}),
        (f"{HASH.upper()}  step_1.pt", {"step_1.pt": HASH}),
        (f"# by hand\n\n{HASH}  a\r\n{OTHER}  b\n", {"a": HASH, "b": OTHER}),
        (f"\\{HASH}  new\\nline\\\\back\\rreturn\n", {"new\nline\\back\rreturn": HASH}),
        (f"{HASH}  not\\nescaped\n", {"not\\nescaped": HASH}),
        (f"SHA256 (a b) = {HASH}\n", {"a b": HASH}),
        (f"{HASH}\n", {"": HASH}),
        (f"{HASH}   leading space\n", {" leading space": HASH}),
    ],
)
def test_every_form_of_coreutils_is_read(data: str, found: dict[str, str]) -> None:
    assert parse(data.encode()) == found


@pytest.mark.parametrize("data", ["", "\n\n", f"{HASH[:-1]}  a\n", f"{HASH}a\n", f"{HASH} a\n", "zz" * 32 + "  a\n"])
def test_what_is_of_no_such_form_is_refused(data: str) -> None:
    with pytest.raises(ValueError):
        parse(data.encode())


@given(st.dictionaries(st.binary(min_size=1).filter(lambda b: b"\0" not in b), st.just(HASH), min_size=1))
def test_names_of_any_bytes_survive(raw: dict[bytes, str]) -> None:
    hashes = {name.decode("utf-8", "surrogateescape"): sha256 for name, sha256 in raw.items()}
    assert parse(render(hashes)) == hashes


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_sha256sum_takes_what_is_written_and_its_own_is_read(tmp_path: Path) -> None:
    names = ["step_1.pt", "with space", "new\nline", "back\\slash", os.fsdecode(b"not-utf8-\xff")]
    for name in names:
        (tmp_path / name).write_bytes(os.fsencode(name))
    hashes = {name: hashlib.sha256(os.fsencode(name)).hexdigest() for name in names}
    (tmp_path / "all.sha256").write_bytes(render(hashes))
    subprocess.run(["sha256sum", "--strict", "-c", "all.sha256"], cwd=tmp_path, check=True, capture_output=True)
    theirs = subprocess.run(["sha256sum", *names], cwd=tmp_path, check=True, capture_output=True).stdout
    assert parse(theirs) == hashes


@pytest.mark.parametrize(
    ("path", "line", "found"),
    [
        ("a.pt.sha256", "a.pt", "a.pt"),
        ("a.pt.sha256", "./a.pt", "a.pt"),
        ("a.pt.sha256", "/data/ckpt/a.pt", "a.pt"),
        ("d/b.pt.sha256", "d/b.pt", "d/b.pt"),
        ("d/b.pt.sha256", "b.pt", "d/b.pt"),
        ("d/b.pt.sha256", "/elsewhere/b.pt", "d/b.pt"),
    ],
)
def test_names_are_found_from_the_root_and_beside_the_sidecar(path: str, line: str, found: str) -> None:
    assert expected(path, f"{HASH}  {line}\n".encode(), {"a.pt": 1, "d/b.pt": 1}) == {found: HASH}


def test_a_lone_digest_speaks_of_the_file_it_is_named_after() -> None:
    assert expected("d/b.pt.sha256", HASH.encode(), {"d/b.pt": 1}) == {"d/b.pt": HASH}


def test_names_that_are_not_there_say_nothing() -> None:
    assert expected("x.sha256", f"{HASH}  gone\n{HASH}  ../../etc/passwd\n".encode(), {"a": 1}) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"files": []}',
        b'{"algorithm": "md5", "files": {}}',
        b"\xff",
        b"[" * 100_000,
        b'{"files": {"a"',
    ],
)
def test_an_integrity_json_that_is_none_is_told(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_integrity(data)


def test_an_integrity_json_speaks_of_its_own_directory_alone() -> None:
    digest = "AB" * 32
    data = json.dumps(
        {"algorithm": "sha256", "files": {"a.pt": digest, "../b.pt": digest, "c.pt": 7, "gone.pt": digest}}
    )
    present = dict.fromkeys(("iter_1/a.pt", "iter_1/c.pt", "b.pt", "a.pt"))
    assert expected("iter_1/integrity.json", data.encode(), present) == {"iter_1/a.pt": digest.lower()}
