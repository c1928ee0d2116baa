"""Every endpoint answers curl, the program of a shell."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_models import net
from small_texts import small_embedder, small_generator

import fusewire as fw
from fusewire.serving import Model, running
from fusewire.serving.http import rest
from fusewire.serving.http.requests import Limits
from fusewire.serving.text import openai_routes

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
X = np.array([[1, 2, 3, 4]], np.float32)
TENSOR = {"name": "input", "datatype": "FP32", "shape": [1, 4]}
INFER = {"inputs": [{**TENSOR, "data": X.reshape(-1).tolist()}]}
TEXT = {"model": "gpt", "prompt": "w1 w2 ", "max_tokens": 3, "temperature": 0}
CHAT = {"model": "gpt", "messages": [{"role": "user", "content": "w1 "}], "max_tokens": 3}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "double/1").mkdir(parents=True)
    fw.onnx.export(lambda input: 2 * input, (fw.ones(2, 4),), folder / "double/1/model.onnx",
                   input_names=["input"], dynamic_shapes={"input": {0: "n"}}, verify=False)
    made = {"net": Model(net(), {"input": fw.zeros(1, 4)}, max_batch=2),
            "gpt": small_generator(slots=2), "bert": small_embedder()}
    with running(made, repository=folder) as server:
        yield server.url


def curl(url: str, method: str, path: str, body: Any = None, *more: str, status: int = 200
         ) -> bytes:
    """The body of an answer."""
    given = [] if body is None else ["--header", "content-type: application/json", "--data-binary",
                                     json.dumps(body)]
    command = ["curl", "--silent", "--show-error", "--max-time", "60", "--request", method,
               "--write-out", "\n%{http_code}", *given, *more, url + path]
    content, _, code = subprocess.run(command, check=True, capture_output=True
                                      ).stdout.rpartition(b"\n")
    assert int(code) == status, content
    return content


ENDPOINTS: dict[tuple[str, str], tuple[str, Any, str]] = {
    ("GET", "/v2"): ("/v2", None, '"name": "fusewire"'),
    ("GET", "/v2/health/live"): ("/v2/health/live", None, '"live": true'),
    ("GET", "/v2/health/ready"): ("/v2/health/ready", None, '"ready": true'),
    ("GET", "/metrics"): ("/metrics", None, "nv_inference_request_success"),
    ("GET", "/v2/models/stats"): ("/v2/models/stats", None, '"model_stats"'),
    ("GET", "/v2/models/{name}"): ("/v2/models/net", None, '"datatype": "FP32"'),
    ("GET", "/v2/models/{name}/ready"): ("/v2/models/net/ready", None, '"ready": true'),
    ("GET", "/v2/models/{name}/stats"): ("/v2/models/net/stats", None, '"inference_count"'),
    ("POST", "/v2/models/{name}/infer"): ("/v2/models/net/infer", INFER, '"output_0"'),
    ("GET", "/v2/models/{name}/versions/{version}"):
        ("/v2/models/net/versions/1", None, '"datatype": "FP32"'),
    ("GET", "/v2/models/{name}/versions/{version}/ready"):
        ("/v2/models/net/versions/1/ready", None, '"ready": true'),
    ("GET", "/v2/models/{name}/versions/{version}/stats"):
        ("/v2/models/net/versions/1/stats", None, '"inference_count"'),
    ("POST", "/v2/models/{name}/versions/{version}/infer"):
        ("/v2/models/net/versions/1/infer", INFER, '"output_0"'),
    ("POST", "/v2/repository/index"): ("/v2/repository/index", {}, '"double"'),
    ("POST", "/v2/repository/models/{name}/load"):
        ("/v2/repository/models/double/load", {}, "{}"),
    ("GET", "/v1/models"): ("/v1/models", None, '"gpt"'),
    ("GET", "/v1/models/{name:path}"): ("/v1/models/gpt", None, '"gpt"'),
    ("POST", "/v1/completions"): ("/v1/completions", TEXT, '"finish_reason": "length"'),
    ("POST", "/v1/chat/completions"): ("/v1/chat/completions", CHAT, '"role": "assistant"'),
    ("POST", "/v1/embeddings"):
        ("/v1/embeddings", {"model": "bert", "input": "w1 w2 "}, '"embedding"'),
    ("POST", "/v2/repository/models/{name}/unload"):
        ("/v2/repository/models/double/unload", {}, "{}")}
"""Each endpoint by method and path -> a path, the body of a request, and a part of its answer."""


def test_every_endpoint_is_in_the_table() -> None:
    nothing: Any = None
    table = [*rest.routes(nothing, nothing, Limits()), *openai_routes.routes(nothing, Limits())]
    served = {(method, route.path) for route in table
              for method in route.methods - {"HEAD"}}  # type: ignore[attr-defined]
    assert served == set(ENDPOINTS)


@pytest.mark.parametrize(("method", "endpoint"), ENDPOINTS)
def test_an_endpoint_answers(url: str, method: str, endpoint: str) -> None:
    path, body, part = ENDPOINTS[method, endpoint]
    assert part in curl(url, method, path, body).decode()


def test_the_results_are_those_of_the_model(url: str) -> None:
    values = json.loads(curl(url, "POST", "/v2/models/net/infer", INFER))["outputs"][0]["data"]
    with fw.no_grad():
        wanted = net().eval()(fw.Tensor(X)).numpy()[0]
    np.testing.assert_allclose(values, wanted, rtol=1e-5)


def test_binary_tensors(url: str, tmp_path: Path) -> None:
    entry = {**TENSOR, "parameters": {"binary_data_size": X.nbytes}}
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    (tmp_path / "request").write_bytes(head + X.tobytes())
    content = curl(url, "POST", "/v2/models/net/infer", None, "--data-binary",
                   f"@{tmp_path / 'request'}", "--header",
                   f"inference-header-content-length: {len(head)}")
    values = json.loads(curl(url, "POST", "/v2/models/net/infer", INFER))["outputs"][0]["data"]
    assert content[-12:] == np.array(values, np.float32).tobytes()


def test_a_stream_of_events(url: str) -> None:
    events = curl(url, "POST", "/v1/completions", {**TEXT, "stream": True}, "--no-buffer")
    *chunks, done = [line[6:] for line in events.decode().split("\n\n") if line]
    whole = json.loads(curl(url, "POST", "/v1/completions", TEXT))["choices"][0]["text"]
    assert done == "[DONE]"
    assert "".join(json.loads(c)["choices"][0]["text"] for c in chunks) == whole


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/v2/nothing", 404), ("DELETE", "/v2/models/net", 405),
    ("GET", "/v2/models/net/infer", 405), ("POST", "/v2/models/none/infer", 404)])
def test_errors_have_their_status_and_a_reason(url: str, method: str, path: str, status: int
                                               ) -> None:
    body = INFER if method == "POST" else None
    assert json.loads(curl(url, method, path, body, status=status))["error"]
