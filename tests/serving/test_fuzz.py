"""Malformed requests get an answer of 4xx, or a meant one of 5xx, and the server goes on.

FUSEWIRE_TEST_REQUESTS is the number of requests, and FUSEWIRE_TEST_REQUESTS_FROM the first seed.
"""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from small_texts import small_embedder, small_generator

from fusewire.serving import running

COUNT = int(os.environ.get("FUSEWIRE_TEST_REQUESTS", "400"))
FIRST = int(os.environ.get("FUSEWIRE_TEST_REQUESTS_FROM", "0"))
PARTS = 4
INFER = {"id": "a", "inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4],
                                "data": [1.0, 2.0, 3.0, 4.0], "parameters": {}}],
         "outputs": [{"name": "output_0", "parameters": {"binary_data": True}}],
         "parameters": {"timeout": 1000000, "binary_data_output": False}}
PATHS = ("/v2/models/net/infer", "/v2/models/look_up/infer", "/v2/models/two/infer",
         "/v2/models/net/versions/1/infer", "/v2/repository/index",
         "/v2/repository/models/net/load", "/v1/completions", "/v1/chat/completions",
         "/v1/embeddings")
TEXTS: dict[str, dict[str, Any]] = {
    "completions": {
        "model": "gpt", "prompt": ["w1 w2 ", [1, 2, 3]], "max_tokens": 3, "temperature": 0.7,
        "top_p": 0.9, "top_k": 5, "min_p": 0.1, "n": 2, "stop": ["w9 "], "seed": 1, "logprobs": 2,
        "presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"3": 1}, "echo": True,
        "stream": False, "stream_options": {"include_usage": True}, "suffix": None},
    "chat/completions": {
        "model": "gpt", "messages": [{"role": "user", "content": [{"type": "text", "text": "w1 "}]},
                                     {"role": "user", "content": "w2 "}], "max_tokens": 3,
        "max_completion_tokens": 3, "logprobs": True, "top_logprobs": 2, "temperature": 0,
        "tools": [], "response_format": {"type": "text"}},
    "embeddings": {"model": "bert", "input": ["w1 w2 ", "w3 "], "encoding_format": "base64"}}
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 31, 1 << 63, 1 << 200, 1e308, float("nan"), float("inf"), "",
    "a" * 3000, "\ud800", "\0", "../..", [], {}, [[]], [[1], [1, 2]], [None], {"a": {}}, "BF16",
    "BYTES", "INT64", [1, 2, 3], [1 << 40, 1 << 40], "model", 0.5)
MEANT = (503, 504)  # too many requests, too late
Random = random.Random


def change(value: Any, rng: Random) -> Any:
    """A value of JSON with one part replaced, dropped, doubled, or moved."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        changed = {**value, key: change(value[key], rng)}
        if rng.random() < 0.2:
            del changed[key]
        return changed
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        changed_list = [*value[:at], change(value[at], rng), *value[at + 1:]]
        return rng.choice([changed_list, changed_list * 2, changed_list[1:], [changed_list]])
    return rng.choice(ODD)


def damaged(data: bytes, rng: Random) -> bytes:
    """Bytes with some replaced, cut off, or added."""
    at = rng.randrange(len(data) + 1)
    return rng.choice([data[:at], data[:at] + rng.randbytes(3) + data[at:], data[at:],
                       data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at + 4:]])


def malformed_json(http: httpx.Client, rng: Random) -> httpx.Response:
    values: Any = INFER
    for _ in range(rng.randrange(1, 4)):
        values = change(values, rng)
    body = json.dumps(values).encode("utf-8", "surrogatepass")
    return http.post(rng.choice(PATHS), content=body)


def malformed_text(http: httpx.Client, rng: Random) -> httpx.Response:
    return http.post(rng.choice(PATHS), content=damaged(json.dumps(INFER).encode(), rng))


def malformed_binary(http: httpx.Client, rng: Random) -> httpx.Response:
    size = rng.choice([16, 15, 17, 0, -1, 1 << 40, "16", None, True])
    entry = {"name": "input", "datatype": rng.choice(["FP32", "FP16", "BOOL", "INT8", "BYTES"]),
             "shape": rng.choice([[1, 4], [4], [1, 8], [2, 4], [], [0, 4], [1, 4, 1]]),
             "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [entry] * rng.choice([1, 1, 2])}).encode()
    length = rng.choice([str(len(head)), str(len(head) + 1), "0", "-5", "99999999999999", "x", "é"])
    return http.post(PATHS[0], content=damaged(head + rng.randbytes(16), rng) if rng.random() < 0.3
                     else head + rng.randbytes(16),
                     headers={"inference-header-content-length": length.encode()})


def malformed_path(http: httpx.Client, rng: Random) -> httpx.Response:
    parts = [rng.choice(["v2", "v1", "models", "net", "versions", "1", "infer", "ready", "..", "",
                         "%00", "%2e%2e", "%ff", "x" * 300, "stats", "repository", "index", "~",
                         "load", "{name}"]) for _ in range(rng.randrange(1, 7))]
    method = rng.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"])
    return http.request(method, "/" + "/".join(parts), content=rng.choice([b"", b"{}", b"[1]"]))


def malformed_text_request(http: httpx.Client, rng: Random) -> httpx.Response:
    path = rng.choice(list(TEXTS))
    values: Any = TEXTS[path]
    for _ in range(rng.randrange(1, 4)):
        values = change(values, rng)
    body = json.dumps(values).encode("utf-8", "surrogatepass")
    return http.post(f"/v1/{path}", content=body)


@pytest.fixture(scope="module")
def texts() -> Iterator[httpx.Client]:
    """A client of a server with language models."""
    with running({"gpt": small_generator(slots=2), "bert": small_embedder()}) as started, \
            httpx.Client(base_url=started.url, timeout=30) as client:
        yield client


KINDS: tuple[Callable[[httpx.Client, Random], httpx.Response], ...] = (
    malformed_json, malformed_text, malformed_binary, malformed_path)


@pytest.mark.parametrize("part", range(PARTS))
def test_malformed_requests_are_refused(http: httpx.Client, part: int) -> None:
    for seed in range(FIRST + part * COUNT // PARTS, FIRST + (part + 1) * COUNT // PARTS):
        rng = Random(seed)
        answer = rng.choice(KINDS)(http, rng)
        assert answer.status_code < 500 or answer.status_code in MEANT, (seed, answer.text)
        assert "Traceback" not in answer.text and "/site-packages" not in answer.text, seed
    assert http.get("/v2/health/ready").status_code == 200


def test_malformed_requests_for_texts_are_refused(texts: httpx.Client) -> None:
    statuses = set()
    for seed in range(FIRST, FIRST + COUNT // 4):
        answer = malformed_text_request(texts, Random(seed))
        assert answer.status_code < 500 or answer.status_code in MEANT, (seed, answer.text)
        assert "Traceback" not in answer.text and "/site-packages" not in answer.text, seed
        statuses.add(answer.status_code)
    assert {200, 400} <= statuses and texts.get("/v2/health/ready").status_code == 200


def test_bytes_that_are_no_http_are_refused(server: Any, http: httpx.Client) -> None:
    whole = b"POST /v2/models/net/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nabcd"
    for seed in range(FIRST, FIRST + COUNT // 8):
        rng = Random(seed)
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(damaged(damaged(whole, rng), rng))
            connection.shutdown(socket.SHUT_WR)
            answer = connection.makefile("rb").read()
            assert b" 500 " not in answer.split(b"\r\n")[0], seed
    assert http.get("/v2/health/ready").status_code == 200
