"""Durations, sizes and shares mean what a person who writes them means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune.settings import units
from prune.settings.schema import DAY, HOUR, MINUTE, SECOND, WEEK, Share


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", 30 * SECOND), ("5m", 5 * MINUTE), ("12h", 12 * HOUR), ("7d", 7 * DAY), ("2w", 2 * WEEK),
        ("1.5h", 90 * MINUTE), ("1h30m", 90 * MINUTE), ("3d 4h", 3 * DAY + 4 * HOUR), ("250ms", SECOND // 4),
        ("PT5M", 5 * MINUTE), ("P1DT2H", DAY + 2 * HOUR), ("P2W", 2 * WEEK), ("PT0.5S", SECOND // 2),
        ("300", 300 * SECOND), (300, 300 * SECOND), ("0s", 0), (0, 0), (" 5m ", 5 * MINUTE),
    ],
)  # fmt: skip
def test_a_duration_is_read_as_written(text, expected):
    assert units.parse_duration(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "  ", "5x", "-5m", -1, "m", "P", "PT", "P1M", "P1Y", "1.5", "five", "5 m h", True, 1.5, None, "²"],
)
def test_what_is_no_duration_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"negative|empty|no duration|not understood"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500MB", 500_000_000), ("2.5GB", 2_500_000_000), ("1TiB", 1 << 40), ("1 kib", 1024), ("10 B", 10),
        ("4096", 4096), (4096, 4096), ("0.1KB", 100), ("1EiB", 1 << 60),
    ],
)  # fmt: skip
def test_a_size_is_read_as_written(text, expected):
    assert units.parse_size(text) == expected


def test_a_unit_that_could_be_two_sizes_is_asked_back():
    with pytest.raises(ValueError, match="50GB or 50GiB"):
        units.parse_size("50G")


@pytest.mark.parametrize("text", ["", "MB", "12XB", "-1GB", -5, "1.5", True, 2.5, "1 000 MB"])
def test_what_is_no_size_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"negative|empty|no size|not understood"):
        units.parse_size(text)


def test_a_share_is_read_as_a_percentage():
    assert units.parse_percent("15%") == Share(15.0)
    assert units.parse_size_or_percent("12.5 %") == Share(12.5)
    assert units.parse_size_or_percent("1GiB") == 1 << 30
    assert Share(15.0).of(1000) == 150


@pytest.mark.parametrize("text", ["101%", "%", "-5%", "x%"])
def test_an_impossible_share_is_refused(text):
    with pytest.raises(ValueError, match=r"more than all|no percentage|negative"):
        units.parse_size_or_percent(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2_470_000_000, "2.3 GiB"), (1 << 40, "1.0 TiB"),
     (1023 * 1024, "1.0 MiB"), (150 << 20, "150 MiB"), (-2048, "-2.0 KiB")],
)  # fmt: skip
def test_a_size_is_shown_in_binary_units(size, text):
    assert units.format_size(size) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0s"), (SECOND // 4, "250ms"), (5 * MINUTE, "5m"), (3 * DAY + 4 * HOUR + 5, "3d 4h"), (WEEK, "7d"),
     (90 * SECOND, "1m 30s"), (DAY + 5 * MINUTE, "1d"), (-5 * MINUTE, "-5m")],
)  # fmt: skip
def test_a_duration_is_shown_in_its_two_largest_units(ns, text):
    assert units.format_duration(ns) == text


@given(st.integers(min_value=0, max_value=10_000 * DAY))
def test_a_shown_duration_is_understood_again(ns):
    again = units.parse_duration(units.format_duration(ns))
    assert again <= ns
    assert ns - again < max(ns / 20, SECOND)


@given(st.text(max_size=12))
def test_no_text_makes_the_parsers_fail_in_another_way(text):
    for parse in (units.parse_duration, units.parse_size, units.parse_size_or_percent):
        try:
            assert parse(text) is not None
        except ValueError:
            pass
