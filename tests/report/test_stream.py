"""Documents of many runs are the same as of few; only how they are made differs."""

from __future__ import annotations

import json
from dataclasses import replace

from prune.report.json import plan_to_json
from prune.report.stream import pieces, plan_pieces
from tests.report.plans import NOW, full_plan, run_plan, settings


def test_a_plan_in_pieces_is_the_plan_and_has_its_id():
    one = full_plan()
    two = replace(one, runs=(*one.runs, replace(run_plan(), run="b\udcff")))
    for plan in (one, two, replace(one, runs=())):
        made = "".join(plan_pieces(settings(), plan.runs, NOW))
        assert json.loads(made) == plan_to_json(plan)


def test_every_run_stands_on_a_line_of_its_own_and_none_is_waited_for():
    asked = []

    def runs():
        for number in range(3):
            asked.append(number)
            yield {"run": number}

    told = pieces({"schema": "x"}, runs(), lambda: {"sum": len(asked)})
    assert asked == []
    assert next(told) == '{"schema": "x", "runs": ['
    next(told)
    assert asked == [0]
    lines = "".join(told).splitlines()
    assert lines[-1] == '], "sum": 3}'
    assert json.loads('{"schema": "x", "runs": [\n{"run": 0}' + "\n".join(lines))["runs"][2] == {"run": 2}


def test_no_run_at_all_is_an_empty_list():
    assert json.loads("".join(pieces({"schema": "x"}, [], dict))) == {"schema": "x", "runs": []}
