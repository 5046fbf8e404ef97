"""Who may ask what over HTTP, and what is answered."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from prune.service.hosts import HostCheck
from prune.service.http import application
from tests.service.homes import Home, home

TOKEN = "s3cret-t0ken"


@pytest.fixture
def place(tmp_path: Path) -> Home:
    return home(tmp_path, token=TOKEN)


@pytest.fixture
def client(place: Home) -> TestClient:
    return TestClient(application(place.daemon), base_url="http://127.0.0.1:9469", raise_server_exceptions=False)


def allowed() -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"}


# --- looking ---------------------------------------------------------------------------------------------------------


def test_the_page_is_whole_before_the_first_pass_and_after_it(client: TestClient, place: Home) -> None:
    assert client.get("/").status_code == 200
    place.pass_over()
    text = client.get("/").text
    assert "step 600 on" in text
    assert "Last passes" in text


def test_the_page_loads_nothing_from_anywhere_and_runs_no_script(client: TestClient, place: Home) -> None:
    place.pass_over()
    answer = client.get("/")
    assert "<script" not in answer.text
    assert "http://" not in answer.text.replace("http://127.0.0.1", "")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy


def test_names_on_the_page_are_text_and_never_markup(tmp_path: Path) -> None:
    place = home(tmp_path, name="<img src=x onerror=alert(1)>")
    place.pass_over()
    text = TestClient(application(place.daemon), base_url="http://localhost").get("/").text
    assert "<img src=x" not in text
    assert "&lt;img src=x" in text


def test_a_run_has_a_page_of_its_own_and_an_unknown_one_has_none(client: TestClient, place: Home) -> None:
    place.pass_over()
    assert "Step 600" in client.get("/runs/tiny").text
    assert client.get("/runs/other").status_code == 404


@pytest.mark.parametrize(
    ("name", "path"),
    [("\udcff\udcfe", "%FF%FE"), ("two\nlines", "two%0Alines"), ("a/b?c#", "a%2Fb%3Fc%23"), ("50%41", "50%2541")],
)
def test_a_run_of_any_name_has_a_page_that_the_overview_leads_to(tmp_path: Path, name: str, path: str) -> None:
    place = home(tmp_path, name=name)
    place.pass_over()
    client = TestClient(application(place.daemon), base_url="http://localhost")
    assert f'"{path}"' in client.get("/").text
    assert "Step 600" in client.get(f"/runs/{path}").text
    assert client.get("/metrics").status_code == 200


def test_health_is_an_error_with_the_reason_once_the_last_good_pass_is_too_old(client: TestClient, place: Home) -> None:
    place.pass_over()
    assert client.get("/healthz").json()["status"] == "well"
    then = place.daemon.clock()
    place.daemon.clock = lambda: then + 10**13  # a bit less than three hours later
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert "tiny: the last good pass ended 2h" in answer.json()["reasons"][0]


def test_metrics_are_in_the_text_format(client: TestClient, place: Home) -> None:
    place.pass_over()
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'prune_resume_candidate_step{run="tiny"} 600.0' in answer.text
    assert "prune_pass_seconds_count 1.0" in answer.text


def test_status_plan_and_history_are_the_documents_of_the_command_line(client: TestClient, place: Home) -> None:
    place.pass_over()
    status = client.get("/api/v1/status").json()
    assert status["schema"] == "prune.status/1"
    assert status["runs"][0]["run"] == "tiny"
    assert status["runs"][0]["last_success"] is not None
    plan = client.get("/api/v1/plan?run=tiny").json()
    assert plan["schema"] == "prune.plan/1"
    assert [step["step"] for step in plan["runs"][0]["steps"]] == [400, 500, 600]
    history = client.get("/api/v1/history?step=100").json()
    assert {event["kind"] for event in history["events"]} == {"deleted"}


@pytest.mark.parametrize("query", ["step=x", "limit=-1", "limit=1e9", "step=²"])
def test_questions_that_make_no_sense_are_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/api/v1/history?{query}").status_code == 400


def test_looking_changes_nothing(client: TestClient, place: Home) -> None:
    before = sorted(os.listdir(place.primary))
    for path in ("/", "/runs/tiny", "/healthz", "/metrics", "/api/v1/status", "/api/v1/plan", "/api/v1/history"):
        client.get(path)
    assert sorted(os.listdir(place.primary)) == before


# --- changing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["apply", "pin", "unpin"])
def test_without_a_configured_token_nothing_is_changed(tmp_path: Path, path: str) -> None:
    place = home(tmp_path, token="")
    client = TestClient(application(place.daemon), base_url="http://localhost")
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer x"}):
        assert client.post(f"/api/v1/{path}", json={"run": "tiny", "step": 100}, headers=headers).status_code == 403
    assert len(place.steps()) == 6


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"bearer{TOKEN}"]
)
def test_a_wrong_token_is_refused(client: TestClient, place: Home, given: str) -> None:
    answer = client.post("/api/v1/apply", json={"run": "tiny"}, headers={"Authorization": given})
    assert answer.status_code == 401
    assert len(place.steps()) == 6


def test_a_get_never_changes_anything(client: TestClient) -> None:
    assert client.get("/api/v1/apply", headers=allowed()).status_code == 405


def test_apply_with_the_token_is_a_pass(client: TestClient, place: Home) -> None:
    answer = client.post("/api/v1/apply", json={"run": "tiny"}, headers=allowed())
    assert answer.status_code == 200
    document = answer.json()
    assert document["schema"] == "prune.result/1"
    assert {copy["step"] for copy in document["runs"][0]["deleted"]} == {100, 200, 300}
    assert place.steps() == ["step_0400.pt", "step_0500.pt", "step_0600.pt"]


def test_a_pin_over_http_protects_and_an_unpin_lets_go(client: TestClient, place: Home) -> None:
    body = {"run": "tiny", "step": 100, "reason": "the baseline", "until": "2d"}
    assert client.post("/api/v1/pin", json=body, headers=allowed()).json()["pinned_on"] == ["primary", "mirror"]
    client.post("/api/v1/apply", json={"run": "tiny"}, headers=allowed())
    assert "step_0100.pt" in place.steps()
    client.post("/api/v1/unpin", json={"run": "tiny", "step": 100}, headers=allowed())
    client.post("/api/v1/apply", json={"run": "tiny"}, headers=allowed())
    assert "step_0100.pt" not in place.steps()


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b'{"run": 3}', b'{"run": "tiny"}', b'{"run": "tiny", "step": "x"}',
             b"[" * 50_000, b'{"run": "tiny", "step": 99999999999999999999}',
             b'{"run": "tiny", "step": true}', b'{"run": "tiny", "step": 100, "until": "soon"}']
)  # fmt: skip
def test_bodies_that_make_no_sense_are_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/v1/pin", content=body, headers=allowed())
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_a_body_of_any_length_is_not_read(client: TestClient) -> None:
    assert client.post("/api/v1/pin", content=b"x" * 10**6, headers=allowed()).status_code == 413


def test_the_token_is_in_no_log(client: TestClient, place: Home, capsys: pytest.CaptureFixture[str]) -> None:
    from prune import logs
    from prune.service.daemon import check_service

    logs.configure(verbose=True)
    check_service(place.daemon.source.settings)
    client.post("/api/v1/apply", json={"run": "tiny"}, headers=allowed())
    logs.error(f"somebody sent {TOKEN}")
    said = capsys.readouterr().err
    logs.configure()
    assert "apply asked for" in said
    assert TOKEN not in said


# --- host names ------------------------------------------------------------------------------------------------------


def check(listen: str) -> Any:
    return HostCheck(None, lambda: listen)._ours  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["127.0.0.1:9469", "localhost:9469", "LOCALHOST", "[::1]:9469", "10.0.0.7:9469"])
def test_our_own_names_and_numbers_are_served(host: str) -> None:
    assert check("127.0.0.1:9469")(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9469", "", "localhost.evil.example", "127.0.0.1.nip.io"]
)
def test_a_name_that_somebody_pointed_at_us_is_not_served(host: str) -> None:
    assert not check("127.0.0.1:9469")(host)


def test_a_request_for_another_name_is_answered_by_nothing_but_a_refusal(client: TestClient) -> None:
    for path in ("/", "/metrics", "/api/v1/status"):
        answer = client.get(path, headers={"Host": "evil.example"})
        assert answer.status_code == 421
        assert json.loads(answer.text) == {"error": "this host name is not served here"}


def test_names_in_the_settings_are_served_and_no_others() -> None:
    further = HostCheck(None, lambda: "0.0.0.0:9469", lambda: ("ckpt.example.org",))  # type: ignore[arg-type]
    assert further._ours("CKPT.example.org")
    assert not further._ours("ckpt.example.com")


def test_the_name_that_is_bound_is_served() -> None:
    assert check("ckpt.internal:9469")("ckpt.internal:9469")
