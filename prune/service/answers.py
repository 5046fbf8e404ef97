"""Answers and questions of HTTP: their headers, their JSON, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from prune import logs
from prune.layouts.naming import LARGEST_STEP
from prune.report.lines import in_utf8
from prune.service.page import style_hash
from prune.settings.units import parse_duration

BODY_LIMIT = 64 * 1024
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class Anything(PathConvertor):
    """The rest of a path, also where it is of several lines, as a directory's name may be."""

    regex = "(?s:.*)"


register_url_convertor("anything", Anything())


def html_answer(text: str) -> Response:
    policy = (
        f"default-src 'none'; style-src 'sha256-{style_hash()}'; img-src data:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    return HTMLResponse(in_utf8(text), headers={**HEADERS, "Content-Security-Policy": policy})


def json_answer(document: Mapping[str, Any], code: int = 200) -> Response:
    text = json.dumps(document, ensure_ascii=True, allow_nan=False)
    return Response(text + "\n", code, headers=HEADERS, media_type="application/json")


async def body_of(request: Request) -> dict[str, Any]:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_LIMIT:
            raise HTTPException(413, "the body is too long")
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is no JSON, or nested too deep") from None
    if not isinstance(found, dict):
        raise HTTPException(400, "the body is no JSON object")
    return found


def name_in(request: Request, before: str) -> str:
    """What stands in the path behind ``before``, byte for byte: a name need be neither UTF-8 nor of one line."""
    raw: bytes = request.scope["raw_path"]
    return unquote_to_bytes(raw.partition(before.encode())[2]).decode("utf-8", "surrogateescape")


def text_in(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise HTTPException(400, f"{key!r} must be given as text")
    return value


def step_in(body: Mapping[str, Any]) -> int:
    value = body.get("step")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_STEP:
        raise HTTPException(400, f"'step' must be a whole number from 0 to {LARGEST_STEP}")
    return value


def duration_of(value: object) -> int:
    try:
        return parse_duration(value)  # type: ignore[arg-type]  # refuses what is neither text nor a number
    except (ValueError, TypeError, AttributeError) as error:
        raise HTTPException(400, f"'until': {error}") from None


def whole(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if not (text.isdecimal() and text.isascii() and len(text) < 19):
        raise HTTPException(400, f"{name!r} must be a whole number")
    return int(text)


async def told(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = json_answer({"error": error.detail}, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def refused(_request: Request, error: Exception) -> Response:
    return json_answer({"error": str(error)}, 409)


async def unexpected(request: Request, error: Exception) -> Response:
    logs.error(f"{request.method} {request.url.path}: {type(error).__name__}: {error}")
    return json_answer({"error": "something went wrong; the service's log says what"}, 500)
