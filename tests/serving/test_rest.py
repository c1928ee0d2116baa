"""The Open Inference Protocol by REST: JSON and binary tensors, by Triton's client and by hand."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
from prometheus_client.parser import text_string_to_metric_families
from served_models import net

import fusewire as fw
from fusewire.serving import Model, running

KINDS = {"bool": "BOOL", "uint8": "UINT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
         "float16": "FP16", "float64": "FP64"}


@pytest.fixture
def client(server: Any) -> triton.InferenceServerClient:
    return triton.InferenceServerClient(f"127.0.0.1:{server.port}")


def asked(name: str, array: Any, kind: str, binary: bool) -> triton.InferInput:
    tensor = triton.InferInput(name, list(array.shape), kind)
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def post(http: httpx.Client, model: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body)
    return http.post(f"/v2/models/{model}/infer", content=content, headers=headers)


def rows(data: Any, shape: Any = (1, 4), **more: Any) -> dict[str, Any]:
    return {"name": "input", "datatype": "FP32", "shape": list(shape), "data": data, **more}


def test_the_server_and_its_models_describe_themselves(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("net")
    assert client.get_server_metadata()["version"] == fw.__version__
    assert client.get_model_metadata("net") == {
        "name": "net", "versions": ["1"], "platform": "fusewire",
        "inputs": [{"name": "input", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "output_0", "datatype": "FP32", "shape": [-1, 3]}]}


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("dtype", KINDS)
def test_every_data_type_comes_back(client: Any, dtype: str, binary: bool) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    result = client.infer(f"same_{dtype}", [asked("x", array, KINDS[dtype], binary)], outputs=[
        triton.InferRequestedOutput("output_0", binary_data=binary)])
    got = result.as_numpy("output_0")
    assert got.dtype == array.dtype and np.array_equal(got, array)


def test_bfloat16_is_two_raw_bytes_a_number(http: httpx.Client) -> None:
    array = np.array([[1.5, -2, 3e38]], ml_dtypes.bfloat16)
    head = json.dumps({"inputs": [{"name": "x", "datatype": "BF16", "shape": [1, 3], "parameters": {
        "binary_data_size": 6}}], "parameters": {"binary_data_output": True}}).encode()
    answer = post(http, "same_bfloat16", head + array.tobytes(),
                  **{"Inference-Header-Content-Length": str(len(head))})
    length = int(answer.headers["inference-header-content-length"])
    [output] = json.loads(answer.content[:length])["outputs"]
    assert output["datatype"] == "BF16" and output["parameters"] == {"binary_data_size": 6}
    assert answer.content[length:] == array.tobytes()


def test_the_numbers_are_those_of_the_module(http: httpx.Client) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    answer = post(http, "net", {"id": "a7", "inputs": [rows(x.tolist(), (3, 4))]}).json()
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("a7", "net", "1")
    [output] = answer["outputs"]
    got = np.array(output["data"], np.float32).reshape(output["shape"])
    np.testing.assert_allclose(got, net()(fw.Tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_several_inputs_and_outputs_in_the_order_of_the_request(http: httpx.Client) -> None:
    pair = [{"name": name, "datatype": "FP32", "shape": [1, 2], "data": data}
            for name, data in (("y", [3, 4]), ("x", [1, 2]))]
    answer = post(http, "two", {"inputs": pair, "outputs": [{"name": "product"}, {"name": "sum"}]})
    assert [(o["name"], o["data"]) for o in answer.json()["outputs"]] == [
        ("product", [3, 8]), ("sum", [4, 6])]


def test_a_model_that_takes_no_batches(http: httpx.Client) -> None:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [5], "data": [1, 2, 3, 4, 5]}]}
    assert post(http, "whole", body).json()["outputs"][0]["data"] == [15]


BAD: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "not JSON"),
    "deep JSON": (b"[" * 100_000, "not JSON"),
    "a list": ([], "has to be an object"),
    "no inputs": ({}, "inputs is None"),
    "another input": ({"inputs": [{**rows([0] * 4), "name": "z"}]}, "has the inputs z"),
    "an input twice": ({"inputs": [rows([0] * 4), rows([0] * 4)]}, "is there twice"),
    "a data type that is none": ({"inputs": [{**rows([0] * 4), "datatype": "FP8"}]}, "FP8"),
    "another data type": ({"inputs": [{**rows([0] * 4), "datatype": "FP64"}]},
                          "the model takes 'input' FP32"),
    "a text": ({"inputs": [rows(["a"] * 4)]}, "holds other values"),
    "ragged rows": ({"inputs": [rows([[1, 2], [3]])]}, "differ in length"),
    "too few numbers": ({"inputs": [rows([1, 2, 3])]}, "data of the shape [3]"),
    "a shape of another rank": ({"inputs": [rows([0] * 4, (4,))]}, "the model takes input [n, 4]"),
    "a negative size": ({"inputs": [rows([0] * 4, (-1, 4))]}, "is no shape"),
    "a huge size": ({"inputs": [rows([0] * 4, (1 << 70, 4))]}, "is no shape"),
    "no rows": ({"inputs": [rows([], (0, 4))]}, "send 1 to 8"),
    "too many rows": ({"inputs": [rows([0] * 36, (9, 4))]}, "send 1 to 8"),
    "another output": ({"inputs": [rows([0] * 4)], "outputs": [{"name": "z"}]}, "no output 'z'"),
    "bytes that are not there": ({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4],
                                              "parameters": {"binary_data_size": 16}}]},
                                 "0 bytes are left"),
    "a number as id": ({"inputs": [rows([0] * 4)], "id": 7}, "has to be a string"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_requests_are_answered_with_the_reason(http: httpx.Client, case: str) -> None:
    body, reason = BAD[case]
    answer = post(http, "net", body)
    assert answer.status_code == 400 and reason in answer.json()["error"]


@pytest.mark.parametrize(("dtype", "data"), [
    ("uint8", [1, 2, 256]), ("uint8", [-1, 0, 0]), ("int64", [1, 2, 1 << 63]),
    ("int32", [1.5, 2, 3]), ("bool", [0, 1, 1]), ("int16", [True, False, True])])
def test_numbers_outside_of_a_data_type_are_refused(http: httpx.Client, dtype: str, data: Any
                                                    ) -> None:
    answer = post(http, f"same_{dtype}", {"inputs": [
        {"name": "x", "datatype": KINDS[dtype], "shape": [1, 3], "data": data}]})
    assert answer.status_code == 400


@pytest.mark.parametrize(("size", "length", "reason"), [
    (15, None, "takes 16"), (16, "99999", "inference-header-content-length"),
    (16, "-1", "inference-header-content-length"), (17, None, "bytes are left"),
    (8, None, "takes 16"), (True, None, "binary_data_size"), (-4, None, "binary_data_size")])
def test_wrong_lengths_of_binary_tensors(http: httpx.Client, size: Any, length: str | None,
                                         reason: str) -> None:
    head = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4],
                                   "parameters": {"binary_data_size": size}}]}).encode()
    answer = post(http, "net", head + bytes(16), **{
        "inference-header-content-length": length or str(len(head))})
    assert answer.status_code == 400 and reason in answer.json()["error"]


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/v2/models/none", 404), ("GET", "/v2/models/net/versions/7", 404),
    ("POST", "/v2/models/none/infer", 404), ("GET", "/nothing", 404),
    ("GET", "/v2/models/net/infer", 405), ("DELETE", "/v2", 405)])
def test_what_is_not_there(http: httpx.Client, method: str, path: str, status: int) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status and answer.json()["error"]


def test_an_index_out_of_range_names_it(http: httpx.Client) -> None:
    answer = post(http, "look_up", {"inputs": [
        {"name": "x", "datatype": "INT64", "shape": [2], "data": [3, 77]}]})
    assert answer.status_code == 400 and "77" in answer.json()["error"]


def test_statistics_and_metrics_count(http: httpx.Client) -> None:
    def read() -> tuple[dict[str, Any], dict[str, float]]:
        stats = http.get("/v2/models/two/stats").json()["model_stats"][0]
        page = text_string_to_metric_families(http.get("/metrics").text)
        return stats, {s.name: s.value for family in page for s in family.samples
                       if s.labels.get("model") == "two"}

    stats, metrics = read()
    pair = [{"name": n, "datatype": "FP32", "shape": [2, 2], "data": [0] * 4} for n in "xy"]
    assert post(http, "two", {"inputs": pair}).status_code == 200
    assert post(http, "two", {"inputs": pair[:1]}).status_code == 400
    after, metrics_after = read()
    assert after["inference_count"] - stats["inference_count"] == 2
    assert after["inference_stats"]["success"]["count"] == \
        stats["inference_stats"]["success"]["count"] + 1
    assert after["inference_stats"]["queue"]["ns"] > 0
    change = {name: metrics_after[name] - metrics[name] for name in metrics}
    assert change["nv_inference_request_success"] == change["nv_inference_request_failure"] == 1
    assert change["nv_inference_count"] == 2 and change["nv_inference_exec_count"] == 1
    assert change["fusewire_recordings"] == 0


def test_a_server_leaves_the_logging_of_its_process_alone() -> None:
    """`logging.config` closes all handlers, and some of them close their streams."""
    closed: list[str] = []

    class Noting(logging.Handler):
        def close(self) -> None:
            closed.append("closed")
            super().close()

    handler = Noting()
    with running({"sum": Model(lambda x: x + 1, {"x": fw.zeros(1, 2)}, max_batch=1)}):
        assert closed == []
    handler.close()
