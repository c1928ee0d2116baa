"""Answers in JSON, those to errors among them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..base.failures import UNAVAILABLE, RequestError

Handler = Callable[[Request], Awaitable[Response]]


def json_response(values: Any, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(json.dumps(values), status, media_type="application/json")


def error_response(error: RequestError) -> Response:
    """An answer with the status and the reason of an error."""
    response = json_response({"error": error.reason}, error.status)
    if error.status == UNAVAILABLE:
        response.headers["retry-after"] = "1"
    return response


def answered(handler: Handler) -> Handler:
    """The handler, with a RequestError as an answer with its status and reason."""
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            return error_response(error)

    return answer
