"""Reports as people read them: the policy first, words beside every colour, nothing a terminal would choke on."""

from __future__ import annotations

import pytest

from prune.model import Attention, Block, Decision, DeletedCopy, Outcome, Plan, RunOutcome
from prune.report.lines import Cell, Grid, line, listed, printable
from prune.report.outcomes import outcome_report
from prune.report.render import plain, width
from prune.report.sentence import policy_sentence
from prune.report.tables import plan_report
from prune.report.times import ago, from_iso, iso
from prune.report.why import why_nothing_freed
from prune.settings.schema import DAY, HOUR, MINUTE, Best, Keep
from tests.report.plans import NOW, full_plan, run_plan, settings, step


def shown(*steps, verbose: bool = False, **more) -> str:
    return plain(plan_report(Plan("", NOW, (run_plan(*steps, **more),), settings=settings()), verbose=verbose))


def test_a_plan_begins_with_its_policy_in_one_sentence():
    first = plain(plan_report(full_plan())).splitlines()[0]
    assert first == (
        "tiny (step-file): keep the last 2 steps aligned on primary and mirror; delete the rest on every replica."
    )


def test_what_stands_in_the_way_comes_before_the_steps_with_its_mend():
    lines = plain(plan_report(full_plan())).splitlines()
    assert lines[1] == "  BLOCKED read-only (mirror): mounted read-only"
    assert lines[2] == "  attention damaged (mirror): step 40 is broken"
    assert lines[3] == "      → prune mirror"


def test_each_step_shows_every_replica_its_fate_and_why():
    text = plain(plan_report(full_plan()))
    assert "  10  1.0 GiB whole  1.0 GiB whole   delete    no rule keeps it" in text
    assert "  20  1.0 GiB whole  1.0 GiB whole   guarded   pinned: pinned by ada: for the paper" in text
    assert "  40  1.0 GiB whole  1.0 GiB broken  keep      last, training would resume here, mirror: cut short" in text


def test_the_room_that_would_be_made_is_told_per_volume():
    text = plain(plan_report(full_plan()))
    assert "primary /data/tiny: would free 1.0 GiB; 10.0 GiB free, then 11.0 GiB of 100 GiB (11%)" in text
    assert "mirror /mnt/tiny: would free 1.0 GiB; free space is not known" in text


def test_a_long_stretch_of_like_steps_is_cut_in_its_middle():
    steps = [step(number, Decision.DELETE) for number in range(1, 1001)]
    text = shown(*steps, step(1001), step(1002))
    assert "956 more like these: 43 to 998" in text
    assert len(text.splitlines()) < 25
    assert len(shown(*steps, verbose=True).splitlines()) > 1000


def test_a_step_unlike_the_others_is_never_cut_away():
    steps = [step(number, Decision.DELETE) for number in range(1, 101)]
    text = shown(*steps[:50], step(51), *steps[51:])
    assert " 51  1.0 GiB whole  1.0 GiB whole  keep" in text


def test_however_varied_the_steps_are_the_table_stays_short():
    steps = [step(number, reasons=(f"reason-{number}",)) for number in range(1, 1001)]
    text = shown(*steps)
    assert len(text.splitlines()) < 140
    assert "--verbose shows all" in text


def test_a_missing_copy_is_a_dash():
    from tests.report.plans import copy

    assert "1.0 GiB whole  -       keep" in shown(step(30, copies=(copy(30),)))


@pytest.mark.parametrize(
    ("name", "seen"),
    [("plain.pt", "plain.pt"), ("a\nb", "a\\nb"), ("a\udcffb", "a\\xffb"), ("a\x1b[31mb", "a\\x1b[31mb"),
     ("a\u202eb", "a\\u202eb"), ("größe 数", "größe 数")],
)  # fmt: skip
def test_names_are_shown_safely(name, seen):
    assert printable(name) == seen
    printable(name).encode("utf-8")


def test_wide_characters_do_not_break_the_columns():
    grid = Grid(("name", "x"), [(Cell("数数"), Cell("1")), (Cell("ab"), Cell("2"))])
    assert plain([grid]).splitlines()[1:] == ["数数  1", "ab    2"]
    assert width("数a") == 3


def test_an_outcome_is_told_with_what_was_measured():
    run = RunOutcome(
        "tiny",
        deleted=(DeletedCopy(10, "primary", 4096, 1, True), DeletedCopy(10, "mirror", 4096, 1, False)),
        gone=((5, "mirror"),),
        free_before={"primary": 0, "mirror": 0},
        free_after={"primary": 4096, "mirror": 0},
        attention=(Attention("no-gain", "mirror", "nothing was gained", "look for snapshots"),),
    )
    text = plain(outcome_report(Outcome("id", (run,))))
    assert "tiny: deleted 1 step (4.0 KiB on primary and 4.0 KiB on mirror); 1 copy in the trash" in text
    assert "1 copy was already gone" in text
    assert "primary: 4.0 KiB free (+4.0 KiB)" in text


def test_a_policy_names_every_rule():
    keep = Keep(5, 1000, DAY, 24 * HOUR, 1, 7, 4, Best("loss", "min", 2), 3)
    sentence = policy_sentence(keep, run_plan().replicas)
    for words in (
        "every multiple of 1000",
        "one step per 1d",
        "within 1d",
        "1 hour",
        "7 days",
        "4 weeks",
        "lowest loss",
    ):
        assert words in sentence


def test_the_reason_why_nothing_is_freed_is_one_line():
    assert why_nothing_freed(run_plan()) == "there is no checkpoint yet"
    assert why_nothing_freed(run_plan(step(10, Decision.DELETE))) is None
    assert "the policy wants all 1 steps" in str(why_nothing_freed(run_plan(step(10))))
    assert "fewer than 2 steps are aligned" in str(why_nothing_freed(run_plan(step(10), cutoff=None)))
    assert "pinned (1)" in str(why_nothing_freed(run_plan(full_plan().runs[0].steps[1])))
    blocked = run_plan(step(10), blocks=(Block("locked", "primary", "by another process"),))
    assert why_nothing_freed(blocked) == "blocked by locked on primary: by another process"


def test_times_are_utc_and_those_that_no_calendar_holds_are_null():
    assert iso(NOW) == "2026-11-29T15:38:00Z"
    assert from_iso("2026-11-29T15:38:00Z") == NOW
    assert iso(-11_644_473_600 * 10**9) == "1601-01-01T00:00:00Z"
    assert (iso(None), iso(10**30), iso(-(10**30))) == (None, None, None)
    assert (ago(NOW - 5 * MINUTE, NOW), ago(NOW + HOUR, NOW), ago(None, NOW)) == (
        "5m ago", "in 1h", "at an unknown time"
    )  # fmt: skip
    with pytest.raises(ValueError, match="time zone"):
        from_iso("2026-11-29T15:38:00")


def test_lists_read_like_sentences():
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert plain([line("a", Cell("b", "bad"), indent=2)]) == "  ab"
