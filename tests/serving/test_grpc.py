"""The Open Inference Protocol by gRPC, by Triton's client, and its messages beside Triton's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as triton
from served_models import net
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

import fusewire as fw
from fusewire.serving.base.grpc_messages import MESSAGES

KINDS = {"bool": "BOOL", "uint8": "UINT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
         "float16": "FP16", "float64": "FP64"}


@pytest.fixture
def client(server: Any) -> triton.InferenceServerClient:
    return triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")


def asked(name: str, array: Any, kind: str) -> triton.InferInput:
    tensor = triton.InferInput(name, list(array.shape), kind)
    tensor.set_data_from_numpy(array)
    return tensor


def layout(descriptor: Any) -> dict[str, Any]:
    """The fields of a message by name: number, type, and whether there may be several."""
    def of(field: Any) -> Any:
        kind = field.message_type.full_name if field.message_type else field.type
        oneof = field.containing_oneof.name if field.containing_oneof else ""
        return field.number, kind, field.is_repeated, oneof

    return {field.name: of(field) for field in descriptor.fields}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_are_those_of_tritons_client(name: str) -> None:
    outer, _, inner = name.partition(".")
    theirs = service_pb2.DESCRIPTOR.message_types_by_name[outer]
    if inner:
        theirs = theirs.nested_types_by_name[inner]
    ours, wanted = layout(MESSAGES[name].DESCRIPTOR), layout(theirs)
    assert ours == {field: wanted[field] for field in ours}


def test_the_server_and_its_models_describe_themselves(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("net")
    assert client.get_server_metadata().version == fw.__version__
    model = client.get_model_metadata("net", as_json=True)
    assert model["inputs"] == [{"name": "input", "datatype": "FP32", "shape": ["-1", "4"]}]


@pytest.mark.parametrize("dtype", KINDS)
def test_every_data_type_comes_back(client: Any, dtype: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    got = client.infer(f"same_{dtype}", [asked("x", array, KINDS[dtype])]).as_numpy("output_0")
    assert got.dtype == array.dtype and np.array_equal(got, array)


def test_bfloat16_is_two_raw_bytes_a_number(client: Any) -> None:
    array = np.array([[1.5, -2, 3e38]], ml_dtypes.bfloat16)
    tensor = triton.InferInput("x", [1, 3], "BF16")
    tensor._raw_content = array.tobytes()
    answer = client.infer("same_bfloat16", [tensor]).get_response()
    assert answer.outputs[0].datatype == "BF16"
    assert answer.raw_output_contents[0] == array.tobytes()


def test_numbers_in_place_of_bytes(client: Any) -> None:
    request = service_pb2.ModelInferRequest(model_name="two", id="a", inputs=[
        {"name": n, "datatype": "FP32", "shape": [1, 2], "contents": {"fp32_contents": [1, 2]}}
        for n in "xy"], outputs=[{"name": "product"}])
    answer = client._client_stub.ModelInfer(request)
    assert (answer.id, answer.outputs[0].name) == ("a", "product")
    assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [1, 4]


def test_a_stream_of_requests(client: Any) -> None:
    answers: list[Any] = []
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    client.start_stream(lambda result, error: answers.append((result, error)))
    for rows in (x, x[:, :3], x):
        client.async_stream_infer("net", [asked("input", rows, "FP32")])
    client.stop_stream()
    assert [error is None for _, error in answers] == [True, False, True]
    np.testing.assert_allclose(answers[2][0].as_numpy("output_0"),
                               net()(fw.Tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "array", "status"), [
    ("none", np.zeros((1, 4), np.float32), "NOT_FOUND"),
    ("net", np.zeros((1, 5), np.float32), "INVALID_ARGUMENT"),
    ("net", np.zeros((9, 4), np.float32), "INVALID_ARGUMENT"),
    ("net", np.zeros((1, 4), np.float64), "INVALID_ARGUMENT")])
def test_errors_have_a_status_and_a_reason(client: Any, name: str, array: Any, status: str) -> None:
    kind = {"float32": "FP32", "float64": "FP64"}[array.dtype.name]
    with pytest.raises(InferenceServerException) as caught:
        client.infer(name, [asked("input", array, kind)])
    assert caught.value.status() == f"StatusCode.{status}" and caught.value.message()


def test_statistics(client: Any) -> None:
    client.infer("net", [asked("input", np.zeros((2, 4), np.float32), "FP32")])
    [model] = client.get_inference_statistics("net").model_stats
    assert model.inference_stats.success.count >= 1 and model.inference_count >= 2
