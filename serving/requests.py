"""Bodies of HTTP requests within limits, and clients that leave."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from .base.failures import GONE, TOO_LARGE, TOO_SLOW, RequestError

T = TypeVar("T")


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


async def body_of(receive: Any, headers: Any, limits: Limits) -> bytes:
    """The body of a request. RequestError if it is too large, or comes too slowly.

    Args:
        receive: of ASGI.
        headers: those of the request, by name in lower case.
        limits: what a client may use.
    """
    length = headers.get("content-length")
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

    Args:
        receive: of ASGI, behind the body.
        work: computes the answer.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_left(receive))
    watch.add_done_callback(lambda _: task.cancel())
    try:
        return await task
    except asyncio.CancelledError:
        if watch.done() and not watch.cancelled():
            raise RequestError(GONE, "the client left") from None
        raise
    finally:
        watch.cancel()


async def _left(receive: Any) -> None:
    """Returns when the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
