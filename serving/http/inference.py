"""Inference requests over HTTP, in as few steps as possible: most requests of a server are these.

The endpoint is an application of ASGI. It needs no objects for the request and its answer, and no
search for a route; these took more time than a small model.
"""

from __future__ import annotations

import re
from typing import Any

from ..base.failures import RequestError
from ..service import Service
from .answers import error_response
from .requests import Limits, body_of, header_of, trace_headers, unless_gone
from .rest_messages import HEADER_LENGTH, read_request, write_response

PATHS = ("/v2/models/{name}/infer", "/v2/models/{name}/versions/{version}/infer")
_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?/infer")
_LENGTH = HEADER_LENGTH.encode()
_JSON, _BYTES = ((b"content-type", kind) for kind in (b"application/json",
                                                      b"application/octet-stream"))


class Inference:
    """The endpoint of the paths `PATHS`.

    Args:
        service: the models.
        limits: what a client may use.
    """

    def __init__(self, service: Service, limits: Limits) -> None:
        self.service, self.limits = service, limits

    @staticmethod
    def takes(scope: Any) -> bool:
        """True if a request is one for inference."""
        return scope["method"] == "POST" and _PATH.fullmatch(scope["path"]) is not None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            content, length = await self._answer(scope, receive)
        except RequestError as error:
            await error_response(error)(scope, receive, send)
            return
        headers = [_JSON] if length is None else [_BYTES, (_LENGTH, b"%d" % length)]
        headers.append((b"content-length", b"%d" % len(content)))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, scope: Any, receive: Any) -> tuple[bytes, int | None]:
        """The body of the answer, and the length of its JSON if tensors follow as bytes."""
        match = _PATH.fullmatch(scope["path"])
        assert match is not None
        name, version = match[1], match[2] or ""
        self.service.find(name, version)
        body = await body_of(scope, receive, self.limits)
        asked = read_request(body, header_of(scope, _LENGTH))
        answer = await unless_gone(receive, self.service.infer(
            name, version, asked.inputs, asked.outputs, asked.timeout, trace_headers(scope)))
        return write_response(answer, asked)
