"""Plans as programs read them, and read back as they were."""

from __future__ import annotations

import copy as copies
import json

import pytest

from prune.errors import UsageError
from prune.model import (
    Block,
    DeletedCopy,
    FailedCopy,
    GuardedStep,
    Outcome,
    Plan,
    RunOutcome,
)
from prune.report.json import content_id, plan_id, plan_to_json, result_to_json
from prune.report.reviewed import plan_from_json
from tests.report.plans import NOW, full_plan, run_plan, settings, step


def document() -> dict:
    """The plan's document as a file gives it back."""
    return json.loads(json.dumps(plan_to_json(full_plan())))


def test_a_plan_survives_being_written_and_read():
    plan = plan_from_json(document())
    again = json.loads(json.dumps(plan_to_json(plan)))
    assert again == document()
    assert plan.settings.runs[0] == settings().runs[0]
    assert plan.runs[0].steps[3].copies[1].paths == ("b\udcff\n.pt",)


def test_a_plans_document_has_exactly_the_promised_keys():
    run = document()["runs"][0]
    assert set(document()) == {"schema", "id", "created_at", "clock", "config", "runs"}
    assert document()["created_at"] == "2026-11-29T15:38:00Z"
    assert set(run) >= {
        "run", "layout", "keep", "replicas", "blocked", "blocks", "resume_candidate", "cutoff", "steps", "orphans",
        "foreign", "attention", "notes", "summary",
    }  # fmt: skip
    assert run["blocked"] == run["blocks"][0]
    assert run["blocked"]["block"] == "read-only"
    assert run["summary"] == {
        "keep": 2,
        "delete": 1,
        "guarded": 1,
        "thin": 0,
        "bytes_to_free": {"primary": (1 << 30) + 8192, "mirror": 1 << 30},
    }
    assert run["steps"][1]["guards"] == [
        {"guard": "pinned", "replica": "primary", "path": "step_0020.pt", "detail": "pinned by ada: for the paper"}
    ]


def test_the_same_plan_has_the_same_id_and_another_one_another():
    assert plan_id(full_plan()) == plan_id(full_plan())
    assert plan_id(full_plan()) != plan_id(Plan("", NOW, (run_plan(step(10)),), settings=settings()))
    assert document()["id"] == content_id(document())


def test_a_run_that_nothing_holds_has_nulls_and_no_blocks():
    plan = Plan("", NOW, (run_plan(cutoff=None, resume_candidate=None),), settings=settings())
    run = plan_to_json(plan)["runs"][0]
    assert [run[key] for key in ("blocked", "cutoff", "resume_candidate")] == [None, None, None]
    assert (run["blocks"], run["steps"]) == ([], [])


@pytest.mark.parametrize(
    "path",
    [("created_at",), ("clock",), ("runs", 0, "steps", 0, "decision"), ("runs", 0, "replicas", 0, "root"),
     ("runs", 0, "steps", 0, "copies", 0, "identity"), ("runs", 0, "settings"), ("runs", 0, "orphans", 0, "path")],
)  # fmt: skip
def test_a_document_of_another_shape_is_refused_even_with_a_fitting_id(path):
    for wrong in (7, None, [], {}):
        edited = document()
        place = edited
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = wrong
        edited["id"] = content_id(edited)
        with pytest.raises(UsageError):
            plan_from_json(edited)


@pytest.mark.parametrize("path", ["../other.pt", "/etc/passwd", "a/../../b", "", "./x", "a//b"])
def test_a_path_that_leads_out_of_a_root_is_refused(path):
    edited = document()
    edited["runs"][0]["steps"][0]["copies"][0]["paths"] = [path]
    edited["id"] = content_id(edited)
    with pytest.raises(UsageError, match="is no path below a root"):
        plan_from_json(edited)


def test_any_edit_is_noticed():
    edited = copies.deepcopy(document())
    edited["runs"][0]["steps"][2]["decision"] = "delete"
    with pytest.raises(UsageError, match="was changed after it was made"):
        plan_from_json(edited)


def test_settings_of_another_run_are_refused():
    edited = document()
    edited["runs"][0]["settings"]["name"] = "other"
    edited["id"] = content_id(edited)
    with pytest.raises(UsageError):
        plan_from_json(edited)


def test_an_outcome_has_exactly_the_promised_keys():
    run = RunOutcome(
        "tiny",
        blocked=Block("locked", "primary", "by another process"),
        deleted=(DeletedCopy(10, "primary", 4096, 1, purged=False),),
        guarded=(GuardedStep(20, None, "pinned", "by ada"),),
        gone=((5, "mirror"),),
        failed=(FailedCopy(15, "mirror", "EIO"),),
        orphans_deleted=(("primary", "a.part", 8192),),
        free_before={"primary": 1},
        free_after={"primary": 2},
    )
    made = result_to_json(Outcome("id", (run,)))
    assert (made["schema"], made["plan"]) == ("prune.result/1", "id")
    told = made["runs"][0]
    assert told["deleted"] == [{"step": 10, "replica": "primary", "bytes": 4096, "files": 1, "purged": False}]
    assert told["guarded"] == [{"step": 20, "replica": None, "guard": "pinned", "detail": "by ada"}]
    assert (told["gone"], told["failed"]) == (
        [{"step": 5, "replica": "mirror"}],
        [{"step": 15, "replica": "mirror", "error": "EIO"}],
    )
    assert told["orphans_deleted"] == [{"replica": "primary", "path": "a.part", "bytes": 8192}]
    assert (told["free_before"], told["free_after"], told["attention"]) == ({"primary": 1}, {"primary": 2}, [])
    assert result_to_json(Outcome("id", ()), wanted=5, reached=False)["reached"] is False
