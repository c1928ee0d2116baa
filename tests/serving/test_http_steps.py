"""What stands between a request and its model: a watch on the client, and the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from fusewire.serving.base.failures import GONE, RequestError
from fusewire.serving.base.garbage import settle
from fusewire.serving.http import requests
from fusewire.serving.http.inference import Inference
from fusewire.serving.http.requests import unless_gone


class Client:
    """A client that leaves after some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.looks = seconds, 0

    async def receive(self) -> dict[str, Any]:
        self.looks += 1
        await asyncio.sleep(self.seconds)
        return {"type": "http.disconnect"}


async def slow(seconds: float, log: list[str]) -> str:
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        log.append("cancelled")
        raise
    return "done"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_WATCH_AFTER_SECONDS", 0.01)


def test_a_client_that_leaves_cancels_its_work() -> None:
    async def main() -> None:
        log: list[str] = []
        with pytest.raises(RequestError, match="left") as failure:
            await unless_gone(Client(0).receive, slow(5, log))
        assert failure.value.status == GONE and log == ["cancelled"]
        await asyncio.sleep(0)  # this task goes on, it was not cancelled for good

    asyncio.run(main())


def test_an_early_answer_needs_no_watch_and_a_late_one_ends_it() -> None:
    async def main() -> None:
        for client, seconds, looks in ((Client(0), 0, 0), (Client(5), 0.05, 1)):
            assert await unless_gone(client.receive, slow(seconds, [])) == "done"
            assert client.looks == looks
            await asyncio.sleep(0.03)
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_a_cancelled_request_is_no_client_that_left() -> None:
    async def main() -> None:
        log: list[str] = []
        task = asyncio.ensure_future(unless_gone(Client(5).receive, slow(5, log)))
        await asyncio.sleep(0.03)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log == ["cancelled"]

    asyncio.run(main())


class Ring:
    def __init__(self) -> None:
        self.me = self


def test_what_is_alive_is_left_out_of_collections_and_garbage_is_not() -> None:
    ring = Ring()
    gone = weakref.ref(ring)
    try:
        settle()
        assert gc.get_freeze_count() > 1000
        del ring
        gc.collect()
        assert gone() is not None  # it was frozen alive
        settle()
        assert gone() is None
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(("method", "path", "is_taken"), [
    ("POST", "/v2/models/a/infer", True), ("POST", "/v2/models/a b/versions/1/infer", True),
    ("GET", "/v2/models/a/infer", False), ("POST", "/v2/models/a/b/infer", False),
    ("POST", "/v2/models//infer", False), ("POST", "/v2/models/a/infer/", False)])
def test_requests_for_inference(method: str, path: str, is_taken: bool) -> None:
    assert Inference.takes({"method": method, "path": path}) is is_taken
