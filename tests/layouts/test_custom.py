from pathlib import Path

import pytest

from prune import layouts
from prune.errors import UsageError
from prune.layouts.base import Layout, Part
from tests.layouts.helpers import Seen, claims, sketch


def custom(pattern: object) -> Layout:
    return layouts.get("custom", {"pattern": pattern})


@pytest.mark.parametrize("pattern", ["net-{step}.dat", "net-{step:06d}.dat", r"net-(?P<step>[0-9]+)\.dat"])
def test_a_template_and_an_expression_say_the_same(pattern: str) -> None:
    names = ("net-000010.dat", "net-.dat", "xnet-10.dat", "net-10.dat.bak", "net-10xdat", "net-1234567890123456789.dat")
    found = claims(custom(pattern), *names)
    assert found == {names[0]: (Part.PAYLOAD, 10)} | dict.fromkeys(names[1:])


def test_checksums_and_temporaries_of_a_pattern_follow_by_themselves() -> None:
    found = claims(custom("net-{step}.dat"), "net-10.dat.sha256", "net-10.dat.part")
    assert list(found.values()) == [(Part.SIDECAR, 10), (Part.TEMPORARY, 10)]


def test_everything_that_matches_with_one_number_is_one_set_of_files(tmp_path: Path) -> None:
    sketch(tmp_path, "a_10.dat", "b_10.dat", "a_20.dat", "b_20.dat")
    seen = Seen(tmp_path, custom(r"[ab]_(?P<step>\d+)\.dat"))
    assert seen.paths() == {10: ["a_10.dat", "b_10.dat"], 20: ["a_20.dat", "b_20.dat"]}
    assert seen.collision is None


def test_placeholders_of_other_names_stand_for_anything(tmp_path: Path) -> None:
    found = claims(custom("{model}-e{epoch}-s{step}*"), "gpt-e1-s20.bin", "gpt-s20.bin")
    assert list(found.values()) == [(Part.PAYLOAD, 20), None]


@pytest.mark.parametrize("pattern", [None, "", 7, "model.pt", "dir/{step}.pt", "(?P<step>[0-9+", "(?P<steps>[0-9]+)"])
def test_a_pattern_that_cannot_be_used_is_refused_with_the_mend(pattern: object) -> None:
    with pytest.raises(UsageError, match="pattern") as refusal:
        custom(pattern)
    assert refusal.value.mend


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(UsageError, match="no option 'patern'"):
        layouts.get("custom", {"patern": "x"})
    with pytest.raises(UsageError, match="no option 'pattern'"):
        layouts.get("step-file", {"pattern": "x"})


def test_a_group_that_takes_letters_claims_only_numbers() -> None:
    assert claims(custom(r"net-(?P<step>.+)\.dat"), "net-ten.dat", "net-10.dat", "net-²0.dat") == {
        "net-ten.dat": None,
        "net-10.dat": (Part.PAYLOAD, 10),
        "net-²0.dat": None,
    }
