"""HTTP for people, monitors and programs: on loopback by default, and changing nothing without a token."""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from prune import engine, holds, logs
from prune.errors import PruneError
from prune.forecast import Forecast
from prune.journal import open_journal
from prune.model import Plan, RunPlan
from prune.report.history import HISTORY_SCHEMA, event_to_json
from prune.report.json import plan_to_json, result_to_json
from prune.report.status import STATUS_SCHEMA, Standing, status_to_json
from prune.service.answers import (
    HEADERS,
    body_of,
    duration_of,
    html_answer,
    json_answer,
    name_in,
    refused,
    step_in,
    text_in,
    told,
    unexpected,
    whole,
)
from prune.service.board import RunView
from prune.service.hosts import HostCheck
from prune.service.page import page, run_page
from prune.settings.schema import RunSettings, Settings

if TYPE_CHECKING:
    from prune.service.daemon import Daemon

MOST_EVENTS = 1000
A_RUN = "/runs/"
NOTHING_FORETOLD = Forecast()


def application(daemon: Daemon) -> ASGIApp:
    """The whole HTTP side of a daemon."""
    desk = Desk(daemon)
    app = Starlette(
        routes=[
            Route("/", desk.page),
            Route(f"{A_RUN}{{run:anything}}", desk.run_page),
            Route("/healthz", desk.healthz),
            Route("/metrics", desk.metrics),
            Route("/api/v1/status", desk.status),
            Route("/api/v1/plan", desk.plan),
            Route("/api/v1/history", desk.history),
            Route("/api/v1/apply", desk.apply, methods=["POST"]),
            Route("/api/v1/pin", desk.pin, methods=["POST"]),
            Route("/api/v1/unpin", desk.unpin, methods=["POST"]),
        ],
        exception_handlers={HTTPException: told, PruneError: refused, Exception: unexpected},
    )
    return HostCheck(app, lambda: daemon.source.settings.service.listen, lambda: daemon.source.settings.service.hosts)


class Desk:
    """Answers. What may wait for a disk is plain functions, which run in threads."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def _settings(self) -> Settings:
        return self._daemon.source.settings

    # --- for people ------------------------------------------------------------------------------------------

    def page(self, request: Request) -> Response:
        number = request.query_params.get("page", "1")
        return html_answer(page(
            self._settings,
            self._daemon.board,
            self._daemon.health(),
            self._passes(None),
            now_ns=self._daemon.clock(),
            query=request.query_params.get("q", "")[:200],
            number=int(number) if number.isdecimal() and len(number) < 9 else 1,
            trouble=self._daemon.source.trouble,
        ))  # fmt: skip

    def run_page(self, request: Request) -> Response:
        run = self._run(name_in(request, A_RUN))
        view = self._daemon.board.view(run.name)
        if view.plan is None or (not view.plan.steps and view.counts.decisions):
            view = self._looked_at(run, view)
        daemon = self._daemon
        return html_answer(run_page(self._settings, daemon.board, view, daemon.health(), self._passes(run.name),
                              now_ns=daemon.clock()))  # fmt: skip

    def _looked_at(self, run: RunSettings, view: RunView) -> RunView:
        """The view with the steps that the board had no room for."""
        plan = engine.plan_run(run, now_ns=self._daemon.clock())
        return replace(view, plan=plan)

    # --- for monitors ----------------------------------------------------------------------------------------

    def healthz(self, _request: Request) -> Response:
        health = self._daemon.health()
        body = {"status": "well" if health.well else "ill", "reasons": list(health.reasons), "runs": health.late_runs}
        return json_answer(body, 200 if health.well else 503)

    def metrics(self, _request: Request) -> Response:
        text = self._daemon.metrics.text()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8", headers=HEADERS)

    # --- for programs ----------------------------------------------------------------------------------------

    def status(self, request: Request) -> Response:
        views = self._views(request)
        found = [status_to_json(_standing(view, view.plan)) for view in views if view.plan is not None]
        for view, document in zip((v for v in views if v.plan is not None), found, strict=True):
            document["seen_at_ns"] = view.seen_ns
            document["error"] = view.error
        return json_answer({"schema": STATUS_SCHEMA, "runs": found})

    def plan(self, request: Request) -> Response:
        wanted = request.query_params.getlist("run")
        runs = tuple(self._run(name) for name in wanted) if wanted else self._settings.runs
        made: Plan = engine.plan(replace(self._settings, runs=runs), now_ns=self._daemon.clock())
        return json_answer(plan_to_json(made))

    def history(self, request: Request) -> Response:
        run = request.query_params.get("run")
        if run is not None:
            self._run(run)
        step = whole(request.query_params.get("step"), "step")
        limit = whole(request.query_params.get("limit"), "limit")
        journal = open_journal(self._settings.state, write=False)
        try:
            events = journal.history(run, step=step, limit=min(limit or 100, MOST_EVENTS))
        finally:
            journal.close()
        return json_answer({"schema": HISTORY_SCHEMA, "events": [event_to_json(event) for event in events],
                      "trouble": journal.trouble})  # fmt: skip

    # --- what changes something ------------------------------------------------------------------------------

    async def apply(self, request: Request) -> Response:
        """A pass over one run, now. Answers with what was done."""
        body = await self._allowed(request)
        run = self._run(text_in(body, "run"))
        logs.info(f"{run.name}: apply asked for over HTTP")
        outcome = await run_in_threadpool(self._daemon.worker.apply_now, run)
        if outcome is None:
            return json_answer({"error": self._daemon.board.view(run.name).error or "stopping"}, 500)
        return json_answer(result_to_json(self._daemon.worker.outcome_of(outcome)), 409 if outcome.blocked else 200)

    async def pin(self, request: Request) -> Response:
        body = await self._allowed(request)
        run, step = self._run(text_in(body, "run")), step_in(body)
        until = body.get("until")
        now = self._daemon.clock()
        until_ns = None if until is None else now + duration_of(until)
        reason = str(body.get("reason") or "over HTTP")
        places = await run_in_threadpool(holds.pin, run, step, reason=reason, now_ns=now, until_ns=until_ns)
        return json_answer({"run": run.name, "step": step, "pinned_on": places})

    async def unpin(self, request: Request) -> Response:
        body = await self._allowed(request)
        run, step = self._run(text_in(body, "run")), step_in(body)
        places = await run_in_threadpool(holds.unpin, run, step)
        return json_answer({"run": run.name, "step": step, "unpinned_on": places})

    async def _allowed(self, request: Request) -> dict[str, Any]:
        """The body of a request that carries the token. Raises HTTPException 401, 403, 400 or 413."""
        token = self._settings.service.token
        if not token:
            raise HTTPException(403, "no token is configured (service.token), so HTTP changes nothing")
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {token}".encode()):
            raise HTTPException(401, "a bearer token is needed", {"WWW-Authenticate": "Bearer"})
        return await body_of(request)

    # --- helpers ---------------------------------------------------------------------------------------------

    def _run(self, name: str) -> RunSettings:
        for run in self._settings.runs:
            if run.name == name:
                return run
        raise HTTPException(404, f"there is no run {name!r}")

    def _views(self, request: Request) -> list[RunView]:
        wanted = request.query_params.getlist("run")
        if wanted:
            return [self._daemon.board.view(self._run(name).name) for name in wanted]
        return self._daemon.board.views()

    def _passes(self, run: str | None) -> list[Any]:
        journal = open_journal(self._settings.state, write=False)
        try:
            return journal.history(run, kinds=("pass",), limit=12)
        finally:
            journal.close()


def _standing(view: RunView, plan: RunPlan | None) -> Standing:
    assert plan is not None
    return Standing(
        replace(plan, attention=view.attention, blocks=view.blocks),
        view.counts.health,
        {replica.name: view.forecasts.get(replica.name, NOTHING_FORETOLD) for replica in plan.replicas},
        view.last_success_ns,
        view.last_delete_ns,
    )
