"""Alerts and dashboard speak of metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from prune.service.metrics import COUNTERS, GAUGES, HISTOGRAMS
from tests.deploy.files import DEPLOY, documents

RULES = DEPLOY / "prometheus" / "ckpt-prune.rules.yml"
RULE_TESTS = DEPLOY / "prometheus" / "ckpt-prune.rules.test.yml"
DASHBOARD = DEPLOY / "grafana" / "ckpt-prune.json"
KNOWN = (
    GAUGES.keys() | COUNTERS.keys() | {f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "count", "sum")}
)
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")


def run_promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def alerts() -> list[dict[str, Any]]:
    (rules,) = documents(RULES)
    return [rule for group in rules["groups"] for rule in group["rules"]]


def queries() -> Iterator[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def labels_of(name: str) -> set[str]:
    stem = re.sub(r"_(bucket|count|sum)$", "", name)
    return set({**GAUGES, **COUNTERS}[name][1]) if stem not in HISTOGRAMS else {"le"}


@promtool
def test_promtool_accepts_the_rules() -> None:
    run_promtool("check", "rules", str(RULES))


@promtool
def test_every_alert_fires_when_it_should_and_only_then() -> None:
    run_promtool("test", "rules", str(RULE_TESTS))


def test_every_alert_has_a_test() -> None:
    (tests,) = documents(RULE_TESTS)
    tested = {case["alertname"] for test in tests["tests"] for case in test["alert_rule_test"]}
    assert tested == {alert["alert"] for alert in alerts()}


def test_alerts_speak_only_of_metrics_that_exist() -> None:
    named = {name for alert in alerts() for name in re.findall(r"\bprune_\w+", alert["expr"])}
    assert named
    assert named <= KNOWN


def test_the_dashboard_speaks_only_of_metrics_that_exist() -> None:
    named = {name for query in queries() for name in re.findall(r"\bprune_\w+", query)}
    assert named
    assert named <= KNOWN


def test_selectors_use_only_labels_that_the_metric_has() -> None:
    for text in [*queries(), *(alert["expr"] for alert in alerts())]:
        for name, selector in re.findall(r"\b(prune_\w+)\{([^}]*)\}", text):
            used = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", selector))
            assert used <= labels_of(name), text


def test_dashboard_panels_are_told_apart_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_alert_says_what_to_do() -> None:
    for alert in alerts():
        assert alert["labels"]["severity"] in {"info", "warning", "critical"}
        assert {"summary", "description"} <= alert["annotations"].keys()
