"""TLS and tokens protect both protocols, and bodies that are slow or large are refused."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

import fusewire as fw
from fusewire.serving import Model, running
from fusewire.serving.http.requests import Limits

# A key of tests only: nobody else trusts it.
CERTIFICATE = Path(__file__).with_name("tls_certificate.pem")
KEY = Path(__file__).with_name("tls_key.pem")
ASKED = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}


def double() -> Model:
    return Model(lambda x: 2 * x, {"x": fw.zeros(1, 2)}, max_batch=2)


def by_grpc(port: int, **options: Any) -> Any:
    client = triton.InferenceServerClient(f"localhost:{port}", **options)
    x = triton.InferInput("x", [1, 2], "FP32")
    x.set_data_from_numpy(np.array([[1, 2]], np.float32))
    return lambda **more: client.infer("double", [x], **more).as_numpy("output_0").tolist()


def test_tls_and_tokens_in_both_protocols() -> None:
    with running({"double": double()}, certificate=str(CERTIFICATE), key=str(KEY),
                 tokens=["secret"]) as server:
        context = ssl.create_default_context(cafile=str(CERTIFICATE))
        url = f"https://localhost:{server.port}/v2/models/double/infer"
        with httpx.Client(verify=context) as http:
            assert http.post(url, json=ASKED).status_code == 401
            answer = http.post(url, json=ASKED, headers={"authorization": "Bearer secret"})
            assert answer.json()["outputs"][0]["data"] == [2, 4]
        infer = by_grpc(server.grpc_port, ssl=True, root_certificates=str(CERTIFICATE))
        for headers in (None, {"authorization": "Bearer secrets"}, {"authorization": "secret"}):
            with pytest.raises(InferenceServerException, match="no valid token"):
                infer(headers=headers)
        assert infer(headers={"authorization": "Bearer secret"}) == [[2, 4]]


def test_a_slow_body_is_given_up_and_a_large_one_refused() -> None:
    with running({"double": double()}, limits=Limits(body_bytes=200, body_seconds=0.1)) as server:
        head = b"POST /v2/models/double/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
        for length, status in ((100, b"408"), (201, b"413")):
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
                connection.sendall(head % length + b"{")
                assert connection.recv(4096).split()[1] == status
        with pytest.raises(InferenceServerException, match="RESOURCE_EXHAUSTED"):
            triton.InferenceServerClient(f"localhost:{server.grpc_port}").is_model_ready("a" * 500)
        assert httpx.post(f"{server.url}/v2/models/double/infer", json=ASKED).status_code == 200
