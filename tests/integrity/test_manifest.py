"""Manifests: what they hold survives, what is wrong with one is told, and what one says of a copy."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune.integrity import manifest as module
from prune.integrity.manifest import Manifest, ManifestFile, content_digest, fits, misfit, parse, serialise
from prune.layouts.base import Members
from prune.model import Health, Kind, Verdict
from prune.stores.base import FileStat

HASH = "ab" * 32
NOON = 1_764_417_600_000_000_000
SEALED = Manifest("step_0810.pt", 810, NOON, (ManifestFile("step_0810.pt", 100, HASH),))
WHOLE, UNVERIFIED = Verdict(Health.WHOLE), Verdict(Health.UNVERIFIED)

names = st.text(st.characters(exclude_characters="/\0", exclude_categories=()), min_size=1).filter(
    lambda name: name not in (".", "..")
)


def file_of(size: int, mtime_ns: int = NOON - 1) -> FileStat:
    return FileStat(Kind.FILE, size, size, 1, mtime_ns, mtime_ns, 1, 1)


def copy_of(**files: FileStat) -> Members:
    return Members(810, tuple(files), {name.replace("__", "."): stat for name, stat in files.items()}, {})


@given(names, st.integers(0, 2**60), st.integers(0, 4_000_000_000 * 10**9), st.integers(0, 10**9))
def test_a_manifest_survives_its_own_writing(name: str, size: int, created: int, step: int) -> None:
    made = Manifest(name, step, created, (ManifestFile(name, size, HASH), ManifestFile(f"d/{name}", 0, HASH)))
    assert parse(serialise(made)) == made


def test_it_is_written_in_its_documented_form() -> None:
    assert json.loads(serialise(SEALED)) == {
        "schema": "prune.manifest/1",
        "name": "step_0810.pt",
        "step": 810,
        "created_at": "2025-11-29T12:00:00Z",
        "files": [{"path": "step_0810.pt", "size": 100, "sha256": HASH}],
    }


def test_keys_of_later_versions_are_passed_over() -> None:
    document = json.loads(serialise(SEALED)) | {"mood": "good"}
    assert parse(json.dumps(document)) == SEALED


@pytest.mark.parametrize("text", ["2025-11-29T12:00:00Z", "2025-11-29T12:00:00.0Z", "2025-11-29T13:00:00+01:00"])
def test_the_same_instant_in_other_words_is_the_same(text: str) -> None:
    assert module.parse_instant(text) == NOON


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema": "prune.manifest/2"}, "schema is 'prune.manifest/2'"),
        ({"schema": [[[[]]]]}, "schema is a list"),
        ({"name": None}, "name is None"),
        ({"name": "../x"}, "below a root"),
        ({"step": "810"}, "step is '810', expected an integer"),
        ({"step": True}, "step is True"),
        ({"created_at": "yesterday"}, "created_at is 'yesterday'"),
        ({"created_at": "2025-13-29T12:00:00Z"}, "which is no time"),
        ({"files": []}, "files is empty"),
        ({"files": {}}, "files is an object, expected a list"),
        ({"files": [3]}, "files[0] is not a JSON object"),
        ({"files": [{"path": "a", "size": 1}]}, "files[0].sha256 is missing"),
        ({"files": [{"path": "/a", "size": 1, "sha256": HASH}]}, "not below the root"),
        ({"files": [{"path": "a/../../b", "size": 1, "sha256": HASH}]}, "not below the root"),
        ({"files": [{"path": "a", "size": -1, "sha256": HASH}]}, "files[0].size is -1"),
        ({"files": [{"path": "a", "size": 1.0, "sha256": HASH}]}, "files[0].size is 1.0"),
        ({"files": [{"path": "a", "size": 1, "sha256": "ab"}]}, "not 64 hexadecimal digits"),
        ({"files": [{"path": "a", "size": 1, "sha256": HASH}] * 2}, "the same path twice"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_told_by_key(change: dict[str, object], told: str) -> None:
    document = json.loads(serialise(SEALED)) | change
    with pytest.raises(ValueError) as found:
        parse(json.dumps(document))
    assert told in str(found.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000])
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a manifest"):
        parse(text)


def test_every_cut_of_a_manifest_is_refused() -> None:
    text = serialise(SEALED)
    for end in range(len(text) - 2):
        with pytest.raises(ValueError):
            parse(text[:end])


def test_equal_content_has_equal_digests_in_any_order() -> None:
    one, two = ManifestFile("a", 1, HASH), ManifestFile("b", 1, "cd" * 32)
    first = replace(SEALED, files=(one, two))
    assert content_digest(first) == content_digest(replace(first, files=(two, one), created_at_ns=5))
    assert content_digest(first) != content_digest(replace(first, files=(one, replace(two, size=2))))
    assert content_digest(first) != content_digest(replace(first, files=(one, replace(two, path="c"))))


def test_a_misfit_names_file_expected_and_found_size() -> None:
    assert fits(SEALED, {"step_0810.pt": 100, "step_0810.pt.sha256": 80})
    assert misfit(SEALED, {"step_0810.pt": 73}) == "step_0810.pt: expected 100 bytes by its manifest, found 73"
    assert misfit(SEALED, {}) == "step_0810.pt: missing, its manifest expects 100 bytes"


@pytest.mark.parametrize("structure", [WHOLE, UNVERIFIED])
def test_sizes_that_fit_make_a_copy_whole(structure: Verdict) -> None:
    assert module.judge_by_manifest(SEALED, copy_of(step_0810__pt=file_of(100)), structure).health is Health.WHOLE


@pytest.mark.parametrize("health", [Health.BROKEN, Health.UNKNOWN, Health.SUSPECT])
def test_what_structure_found_stays_whatever_a_manifest_says(health: Health) -> None:
    found = Verdict(health, "0 bytes")
    assert module.judge_by_manifest(SEALED, copy_of(step_0810__pt=file_of(100)), found) == found


def test_a_misfit_of_what_is_older_than_the_manifest_is_damage() -> None:
    verdict = module.judge_by_manifest(SEALED, copy_of(step_0810__pt=file_of(73)), WHOLE)
    assert verdict.health is Health.BROKEN
    assert "found 73" in str(verdict.detail)


def test_a_missing_file_of_an_old_copy_is_damage() -> None:
    assert module.judge_by_manifest(SEALED, copy_of(other=file_of(73)), WHOLE).health is Health.BROKEN


@pytest.mark.parametrize("mtime_ns", [NOON + 1, 0, -5])
def test_a_manifest_that_does_not_fit_what_was_written_after_it_is_void(mtime_ns: int) -> None:
    members = copy_of(step_0810__pt=file_of(120, mtime_ns))
    assert module.judge_by_manifest(SEALED, members, WHOLE).health is Health.WHOLE
    assert module.is_void(SEALED, members, WHOLE)


def test_without_checks_of_its_own_a_copy_written_after_its_manifest_is_suspect() -> None:
    members = copy_of(step_0810__pt=file_of(120, NOON + 1))
    verdict = module.judge_by_manifest(SEALED, members, UNVERIFIED)
    assert verdict.health is Health.SUSPECT
    assert not module.is_void(SEALED, members, UNVERIFIED)


def test_a_manifest_that_fits_is_never_void() -> None:
    assert not module.is_void(SEALED, copy_of(step_0810__pt=file_of(100, NOON + 1)), WHOLE)
