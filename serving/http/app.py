"""The ASGI application: routes behind tokens and limits."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..base.failures import UNAVAILABLE
from ..service import Service
from .answers import json_response
from .inference import Inference
from .requests import Limits

OPEN_PATHS = ("/v2/health/live", "/v2/health/ready")  # probes have no token
_CLOSE = (b"connection", b"close")


def is_known(token: str, tokens: Collection[str]) -> bool:
    """True if a token is among the known ones. The time tells nothing about them."""
    return any([hmac.compare_digest(token.encode(), known.encode()) for known in tokens])


class Gate:
    """Lets requests in that have a token, up to a number at once.

    Args:
        app: the application behind it, with all routes.
        service: while it shuts down, answers close their connections.
        tokens: of clients; none lets everybody in.
        limits: what clients may use.
    """

    def __init__(self, app: Any, service: Service, tokens: Collection[str], limits: Limits
                 ) -> None:
        self.app, self.service, self.tokens, self.limits = app, service, tokens, limits
        self.inference = Inference(service, limits)
        self.count = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the server does not speak {scope['type']}")
        if self.service.draining:
            send = _closing(send)
        # The application has a route for inference, too; it would take a fifth of the time.
        app = self._refusal(scope) or (
            self.inference if Inference.takes(scope) else self.app)
        self.count += 1
        try:
            await app(scope, receive, send)
        finally:
            self.count -= 1

    def _refusal(self, scope: Any) -> Response | None:
        """The answer to a request that is not let in."""
        if scope["path"] in OPEN_PATHS:
            return None
        if self.tokens and not is_known(_bearer(scope["headers"]), self.tokens):
            response = json_response({"error": "the request has no valid token; send the header "
                                      "Authorization: Bearer TOKEN"}, 401)
            response.headers["www-authenticate"] = "Bearer"
            return response
        if self.count >= self.limits.concurrency:
            return json_response({"error": f"{self.count} requests are being answered, as many as "
                                  "the server takes; try again later"}, UNAVAILABLE)
        return None


def _bearer(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The token of a request, or ""."""
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].decode("latin-1").strip()
    return ""


def _closing(send: Any) -> Any:
    """A `send` whose answers close their connections."""
    async def close(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), _CLOSE]}
        await send(message)

    return close


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = f"there is no {request.method} {request.url.path}" \
        if error.status_code in (404, 405) else error.detail
    response = json_response({"error": reason}, error.status_code)
    response.headers.update(error.headers or {})
    return response


def application(routes: Sequence[BaseRoute], service: Service, tokens: Collection[str],
                limits: Limits) -> Gate:
    """The application of a server.

    Args:
        routes: what it answers.
        service: the models.
        tokens: of clients; none lets everybody in.
        limits: what clients may use.
    """
    app = Starlette(routes=list(routes), exception_handlers={HTTPException: _http_error})
    return Gate(app, service, tokens, limits)
