"""Callers that ask a server without a pause, over sockets that one thread waits for.

A client library of Python takes more time for a request than the server does, so that its queue
would be measured. This one sends bytes that are made once, and reads as much as it must.
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PATIENCE = 30.0  # seconds without any answer


@dataclass(frozen=True)
class Load:
    """What callers saw.

    Args:
        seconds: in which the answers came.
        latencies: of the answers, in seconds, in ascending order.
    """

    seconds: float
    latencies: Sequence[float]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    def milliseconds(self, share: float) -> float:
        """The latency in ms that a share of the answers, from 0 to 1, does not exceed."""
        return float(np.quantile(self.latencies, share)) * 1e3


def json_request(path: str, values: Any) -> bytes:
    """The bytes of a POST of JSON."""
    return _post(path, json.dumps(values).encode(), {"content-type": "application/json"})


def binary_request(path: str, inputs: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The bytes of a request of the Open Inference Protocol, with float32 inputs and all outputs in
    the binary format."""
    entries = [{"name": name, "datatype": "FP32", "shape": list(array.shape),
                "parameters": {"binary_data_size": array.nbytes}} for name, array in inputs.items()]
    head = json.dumps({"inputs": entries, "parameters": {"binary_data_output": True}}).encode()
    body = b"".join([head, *(array.tobytes() for array in inputs.values())])
    return _post(path, body, {"inference-header-content-length": str(len(head))})


def _post(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}",
             *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


class _Caller:
    """A connection that has one request under way."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request, self.received, self.since = request, b"", 0.0

    def ask(self) -> None:
        self.since = time.perf_counter()
        self.socket.sendall(self.request)

    def read(self) -> bool:
        """True if the answer is complete. RuntimeError if it is no result."""
        part = self.socket.recv(1 << 16)
        self.received += part
        end = self.received.find(b"\r\n\r\n")
        if not part or not self.received.startswith(b"HTTP/1.1 200"[:len(self.received)]):
            raise RuntimeError(f"the server answers {self.received[:300]!r}")
        if end < 0:
            return False
        length = _LENGTH.search(self.received, 0, end)
        if length is None:
            raise RuntimeError(f"an answer without a length: {self.received[:300]!r}")
        if len(self.received) < end + 4 + int(length[1]):
            return False
        self.received = b""
        return True


def measured(port: int, request: bytes, callers: int, seconds: float, warm_up: float = 0.5) -> Load:
    """What some callers see who send the same request again and again.

    Args:
        port: of the server, on this machine.
        request: its bytes.
        callers: the number of connections.
        seconds: how long answers count.
        warm_up: seconds before that.

    Raises:
        RuntimeError: an answer is no result, or none comes.
    """
    all_callers = [_Caller(port, request) for _ in range(callers)]
    by_file = {caller.socket.fileno(): caller for caller in all_callers}
    ready = select.epoll()
    for number, caller in by_file.items():
        ready.register(number, select.EPOLLIN)
        caller.ask()
    begin = time.perf_counter() + warm_up
    latencies: list[float] = []
    try:
        while (now := time.perf_counter()) < begin + seconds:
            events = ready.poll(_PATIENCE)
            if not events:
                raise RuntimeError(f"no answer in {_PATIENCE} s")
            for number, _ in events:
                caller = by_file[number]
                if caller.read():
                    end = time.perf_counter()
                    if end >= begin:
                        latencies.append(end - caller.since)
                    caller.ask()
    finally:
        ready.close()
        for caller in all_callers:
            caller.socket.close()
    return Load(now - begin, sorted(latencies))
