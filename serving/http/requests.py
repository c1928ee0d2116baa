"""Bodies of HTTP requests within limits, and clients that leave."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from ..base import tracing
from ..base.failures import GONE, TOO_LARGE, TOO_SLOW, RequestError

T = TypeVar("T")
_WATCH_AFTER_SECONDS = 0.05


@dataclass(frozen=True)
class Limits:
    """What a client may use.

    Args:
        body_bytes: of a request. Default 64 MiB.
        body_seconds: within which a body has to arrive. Default 30.
        concurrency: requests at once, of all clients. Default 4096.
    """

    body_bytes: int = 64 << 20
    body_seconds: float = 30.0
    concurrency: int = 4096


def header_of(scope: Any, name: bytes) -> str | None:
    """The first header of a name in lower case; None if there is none. scope: of ASGI."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


def trace_headers(scope: Any) -> dict[str, str]:
    """The headers of a request if spans are recorded, else none. scope: of ASGI."""
    if not tracing.is_active():
        return {}
    return {str(name, "latin-1"): str(value, "latin-1") for name, value in scope["headers"]}


async def body_of(scope: Any, receive: Any, limits: Limits) -> bytes:
    """The body of a request. RequestError if it is too large, or comes too slowly.

    Args:
        scope, receive: of ASGI.
        limits: what a client may use.
    """
    length = header_of(scope, b"content-length")
    if length is not None and length.isdecimal() and int(length) > limits.body_bytes:
        raise _too_large(limits)
    message = await _within(receive(), limits)
    body = message.get("body", b"")
    if message.get("more_body") or message["type"] != "http.request":
        body = await _within(_rest(receive, message, limits), limits)
    if len(body) > limits.body_bytes:
        raise _too_large(limits)
    return body


async def _rest(receive: Any, message: Any, limits: Limits) -> bytes:
    chunks, size = [], 0
    while True:
        if message["type"] == "http.disconnect":
            raise RequestError(GONE, "the client left")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limits.body_bytes:
            raise _too_large(limits)
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await receive()


async def _within(coroutine: Coroutine[Any, Any, T], limits: Limits) -> T:
    """The result of `coroutine`. RequestError if it takes too long.

    A timer costs less than `asyncio.wait_for`, which runs the coroutine in a task of its own.
    """
    task, expired = asyncio.current_task(), []

    def expire() -> None:
        expired.append(True)
        if task is not None:
            task.cancel()

    timer = asyncio.get_running_loop().call_later(limits.body_seconds, expire)
    try:
        return await coroutine
    except asyncio.CancelledError:
        if not expired:
            raise
        if sys.version_info >= (3, 11) and task is not None:
            task.uncancel()
        raise RequestError(TOO_SLOW, f"the body did not arrive in {limits.body_seconds} s"
                           ) from None
    finally:
        timer.cancel()


def _too_large(limits: Limits) -> RequestError:
    return RequestError(TOO_LARGE, f"the body is larger than {limits.body_bytes} bytes")


async def unless_gone(receive: Any, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the client leaves.

    Nobody looks for that in the first moments: most answers are there sooner, and the watch would
    be a task for each request.

    Args:
        receive: of ASGI, behind the body.
        work: computes the answer.
    """
    watch = _Watch(receive)
    timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_SECONDS, watch.start)
    try:
        return await work
    except asyncio.CancelledError:
        if not watch.has_left:
            raise
        if sys.version_info >= (3, 11):
            watch.task.uncancel()
        raise RequestError(GONE, "the client left") from None
    finally:
        timer.cancel()
        watch.end()


class _Watch:
    """Cancels the present task when the client leaves."""

    def __init__(self, receive: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.receive, self.task, self.has_left = receive, task, False
        self._waiting: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begins to wait for the client to leave."""
        self._waiting = asyncio.ensure_future(_left(self.receive))
        self._waiting.add_done_callback(self._cancel)

    def end(self) -> None:
        """Ends the wait. Nothing is cancelled from now on."""
        if self._waiting is not None:
            self._waiting.remove_done_callback(self._cancel)
            self._waiting.cancel()
            self._waiting = None

    def _cancel(self, waiting: asyncio.Future[None]) -> None:
        if self._waiting is not None and not waiting.cancelled():
            self.has_left = True
            self.task.cancel()


async def _left(receive: Any) -> None:
    """Returns when the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
