"""OpenAI's interface: completions, chats, embeddings, streams."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

import fusewire as fw

from ..base import tracing
from ..base.failures import INVALID, NOT_FOUND, UNAVAILABLE, RequestError, failure_of
from ..http.answers import Handler, json_response
from ..http.requests import Limits, body_of, trace_headers, unless_gone
from ..http.rest_messages import read_object
from ..service import Service, check_ready
from .continuation import Continuation, Piece, Pieces
from .embedder import Embedder
from .generator import Generator
from .openai_answers import Answers, ChatAnswers, CompletionAnswers
from .openai_requests import TextRequest, read_chat, read_completion, read_texts


def openai_answered(handler: Handler) -> Handler:
    """The handler, with a RequestError as an error of OpenAI's interface. So is a FusewireError of
    a tokenizer or a template, which read what the client sent."""
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (RequestError, fw.FusewireError) as raised:
            error = failure_of(raised)
            response = json_response({"error": error_of(error)}, error.status)
            if error.status == UNAVAILABLE:
                response.headers["retry-after"] = "1"
            return response

    return answer


def error_of(error: RequestError) -> dict[str, Any]:
    """The object of an error."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {"message": error.reason, "type": kind, "param": None,
            "code": "model_not_found" if error.status == NOT_FOUND else None}


def routes(service: Service, limits: Limits) -> list[BaseRoute]:
    """The routes of OpenAI's interface.

    Args:
        service: its `texts` are generators and embedders by name.
        limits: what a client may use.
    """
    end = Endpoints(service, limits)
    table = [("/v1/models", "GET", end.models), ("/v1/models/{name:path}", "GET", end.model),
             ("/v1/completions", "POST", end.completions),
             ("/v1/chat/completions", "POST", end.chat),
             ("/v1/embeddings", "POST", end.embeddings)]
    return [Route(path, openai_answered(handler), methods=[method])
            for path, method, handler in table]


class Endpoints:
    """The handlers of OpenAI's interface."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self.service, self.limits, self.since = service, limits, int(time.time())

    async def models(self, request: Request) -> Response:
        return json_response({"object": "list", "data": list(map(self._model, self._texts))})

    async def model(self, request: Request) -> Response:
        self._find({"model": request.path_params["name"]}, object, "")
        return json_response(self._model(request.path_params["name"]))

    async def completions(self, request: Request) -> Response:
        return await self._continued(request, read_completion, CompletionAnswers)

    async def chat(self, request: Request) -> Response:
        return await self._continued(request, read_chat, ChatAnswers)

    async def embeddings(self, request: Request) -> Response:
        values = await self._values(request)
        name, embedder = self._find(values, Embedder, "embeddings")
        kind = values.get("encoding_format") or "float"
        if kind not in ("float", "base64") or values.get("dimensions") is not None:
            raise RequestError(INVALID, "encoding_format is float or base64, and dimensions cannot "
                               "be chosen")
        texts = read_texts(values.get("input"), embedder.tokenizer, embedder.vocabulary, "input")
        inputs = [embedder.inputs(tokens) for tokens in texts]
        answers = await unless_gone(request.receive, asyncio.gather(*(
            self.service.infer(name, "", each, None) for each in inputs)))
        count = sum(map(len, texts))
        return json_response({
            "object": "list", "model": name,
            "data": [{"object": "embedding", "index": i,
                      "embedding": _encoded(answer.results[0][1][0], kind)}
                     for i, answer in enumerate(answers)],
            "usage": {"prompt_tokens": count, "total_tokens": count}})

    # ---- parts

    @property
    def _texts(self) -> dict[str, Any]:
        return self.service.texts

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self.since, "owned_by": "fusewire"}

    async def _values(self, request: Request) -> dict[str, Any]:
        return read_object(await body_of(request.scope, request.receive, self.limits))

    def _find(self, values: dict[str, Any], kind: type, what: str) -> tuple[str, Any]:
        """The name and the model that a request asks for."""
        check_ready(self.service)
        name = values.get("model")
        found = self._texts.get(name) if isinstance(name, str) else None
        if found is None:
            raise RequestError(NOT_FOUND, f"there is no model {name!r:.60}; the models are "
                               f"{', '.join(self._texts) or 'none'}")
        if not isinstance(found, kind):
            raise RequestError(INVALID, f"model {name!r} makes no {what}")
        return str(name), found

    async def _continued(self, request: Request, read: Callable[..., TextRequest],
                         kind: type[Answers]) -> Response:
        """The continuations that a request asks for, at once or as a stream of events."""
        values = await self._values(request)
        name, generator = self._find(values, Generator, "texts")
        asked = read(values, generator)
        prefix = "chatcmpl-" if kind is ChatAnswers else "cmpl-"
        answers = kind(f"{prefix}{secrets.token_hex(12)}", name, asked, generator.tokenizer)
        with contextlib.ExitStack() as span:
            link = span.enter_context(tracing.request("continue", trace_headers(request.scope), {
                "fusewire.model": name, "fusewire.texts": len(asked.texts)}))
            pieces = Pieces()
            for number, text in enumerate(asked.texts):
                text.deliver_to(pieces, number, asked.stream, link)
            generator.engine.submit(*asked.texts)
            if asked.stream:
                return StreamingResponse(
                    _events(asked, pieces, answers, span.pop_all()),
                    media_type="text/event-stream", headers={"cache-control": "no-cache"})
            try:
                whole = await unless_gone(request.receive, _all(pieces, len(asked.texts)))
            finally:
                _cancel(asked.texts)
            return json_response(answers.whole(whole))


async def _all(pieces: Pieces, count: int) -> list[list[Piece]]:
    """The pieces of all texts of a request."""
    of_texts: list[list[Piece]] = [[] for _ in range(count)]
    async for number, piece in _each(pieces, count):
        of_texts[number].append(piece)
    return of_texts


async def _each(pieces: Pieces, count: int) -> AsyncIterator[tuple[int, Piece]]:
    """Yields the number of a text and its next piece, until all texts have ended."""
    while count:
        number, piece = await pieces.next()
        if piece.error is not None:
            raise piece.error
        yield number, piece
        count -= piece.finish is not None


async def _events(asked: TextRequest, pieces: Pieces, answers: Answers,
                  span: contextlib.AbstractContextManager[Any]) -> AsyncIterator[str]:
    """Yields events within the span of the request. When the client leaves, the texts end."""
    try:
        with span:
            for event in answers.first():
                yield _event(event)
            async for number, piece in _each(pieces, len(asked.texts)):
                if piece.text or piece.finish or piece.logprobs:
                    yield _event(answers.chunk(number, piece))
        if asked.with_usage:
            yield _event(answers.last())
        yield "data: [DONE]\n\n"
    except RequestError as error:
        yield _event({"error": error_of(error)})
    finally:
        _cancel(asked.texts)


def _event(values: Any) -> str:
    return f"data: {json.dumps(values, separators=(',', ':'))}\n\n"


def _cancel(texts: Sequence[Continuation]) -> None:
    for text in texts:
        text.cancel()


def _encoded(vector: Any, kind: str) -> Any:
    """An embedding as numbers, or as base64 of float32."""
    if kind == "float":
        return vector.tolist()
    return base64.b64encode(vector.astype(np.float32).tobytes()).decode()
