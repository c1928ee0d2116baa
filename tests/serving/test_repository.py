"""Models of a folder are loaded, replaced under load and unloaded; nothing outside is read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

import fusewire as fw
from fusewire.serving import running

ONE = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}


def write(folder: Path, factor: float, version: int = 1) -> None:
    """Writes a model that multiplies by a factor."""
    path = folder / str(version)
    path.mkdir(parents=True, exist_ok=True)
    fw.onnx.export(lambda x: x * factor, (fw.ones(2, 2),), path / "model.onnx", input_names=["x"],
                   output_names=["y"], dynamic_shapes={"x": {0: "batch"}}, verify=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    outside = root / "secret"
    write(outside, 7)
    models = root / "repository"
    write(models / "scale", 2)
    (models / "scale/config.json").write_text('{"max_batch": 2}', encoding="utf-8")
    (models / "broken/1").mkdir(parents=True)
    (models / "broken/1/model.onnx").write_bytes(b"no model")
    (models / "code/1").mkdir(parents=True)
    (models / "code/1/model.py").write_text("raise SystemExit('it ran')", encoding="utf-8")
    (models / "linked").symlink_to(outside)
    (models / "linked_file/1").mkdir(parents=True)
    (models / "linked_file/1/model.onnx").symlink_to(outside / "1/model.onnx")
    return models


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Any]:
    with running({}, repository=folder) as started:
        yield started


def load(http: httpx.Client, name: str) -> httpx.Response:
    return http.post(f"/v2/repository/models/{name}/load")


def answer(http: httpx.Client, path: str = "scale") -> list[float]:
    reply = http.post(f"/v2/models/{path}/infer", json=ONE)
    assert reply.status_code == 200, reply.text
    return reply.json()["outputs"][0]["data"]


def test_the_index_names_all_models_and_why_some_are_not_ready(http: httpx.Client) -> None:
    index = {row["name"]: row for row in http.post("/v2/repository/index").json()}
    assert {name: row["state"] for name, row in index.items()} == {
        "scale": "READY", **dict.fromkeys(("broken", "code", "linked", "linked_file"),
                                          "UNAVAILABLE")}
    assert "holds code" in index["code"]["reason"]
    assert "link that leads out" in index["linked"]["reason"] + index["linked_file"]["reason"]
    ready = http.post("/v2/repository/index", json={"ready": True}).json()
    assert [row["name"] for row in ready] == ["scale"]
    assert http.get("/v2/models/scale").json()["inputs"][0]["shape"] == [-1, 2]


@pytest.mark.parametrize("name", [
    "..", "../secret", "..%2fsecret", "%2e%2e%2fsecret", "%2e%2e", ".", "scale%2f..%2f..%2fsecret",
    "..%5csecret", "%00", "scale%00", "linked", "linked_file", "no_such", "x" * 5000, "é",
    "%ff%fe", "scale/1", "/etc", "~"])
def test_nothing_outside_of_the_repository_is_read(http: httpx.Client, name: str) -> None:
    for action in ("load", "unload"):
        reply = http.post(f"/v2/repository/models/{name}/{action}")
        assert reply.status_code in (400, 404, 405), (name, reply.text)
    assert answer(http) == [2, 4]


def test_a_request_brings_no_files_and_no_settings(http: httpx.Client) -> None:
    for parameters in ({"config": "{}"}, {"file:1/model.onnx": "AAAA"}):
        reply = http.post("/v2/repository/models/scale/load", json={"parameters": parameters})
        assert reply.status_code == 400 and "not supported" in reply.json()["error"]


def test_versions(http: httpx.Client, folder: Path) -> None:
    write(folder / "scale", 3, version=10)
    assert answer(http) == [2, 4]
    assert load(http, "scale").status_code == 200
    assert answer(http) == answer(http, "scale/versions/10") == [3, 6]
    assert answer(http, "scale/versions/1") == [2, 4]
    assert http.get("/v2/models/scale").json()["versions"] == ["1", "10"]
    for path in (folder / "scale/10").iterdir():
        path.unlink()
    (folder / "scale/10").rmdir()
    load(http, "scale")
    assert answer(http) == [2, 4]


def test_a_model_that_no_longer_loads_goes_on_as_it_was(http: httpx.Client, folder: Path) -> None:
    file = folder / "scale/1/model.onnx"
    whole = file.read_bytes()
    file.write_bytes(b"broken")
    reply = load(http, "scale")
    assert reply.status_code == 400 and "does not load" in reply.json()["error"]
    assert str(folder) not in reply.text
    assert answer(http) == [2, 4]
    file.write_bytes(whole)


def test_a_reload_under_load_loses_no_request(http: httpx.Client, server: Any, folder: Path
                                              ) -> None:
    stop, seen, wrong = threading.Event(), set[float](), list[str]()

    def ask() -> None:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            while not stop.is_set():
                reply = client.post("/v2/models/scale/infer", json=ONE)
                if reply.status_code != 200:
                    wrong.append(reply.text)
                    continue
                first, second = reply.json()["outputs"][0]["data"]
                seen.add(first)
                if second != 2 * first:
                    wrong.append(reply.text)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for factor in (5, 6, 2):
            write(folder / "scale", factor)
            assert load(http, "scale").status_code == 200
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == [] and seen <= {2, 5, 6} and len(seen) > 1


@pytest.mark.parametrize("kind", [tritonclient.http, tritonclient.grpc])
def test_tritons_client_loads_and_unloads(server: Any, kind: Any) -> None:
    port = server.port if kind is tritonclient.http else server.grpc_port
    client = kind.InferenceServerClient(f"127.0.0.1:{port}")
    client.unload_model("scale")
    assert not client.is_model_ready("scale")
    with pytest.raises(InferenceServerException, match="not loaded"):
        client.unload_model("scale")
    client.load_model("scale")
    assert client.is_model_ready("scale")
    with pytest.raises(InferenceServerException, match=r"no model|no POST"):
        client.load_model("../secret")
    assert len(client.get_model_repository_index() if kind is tritonclient.http else
               client.get_model_repository_index().models) == 5
    x = kind.InferInput("x", [2, 2], "FP32")
    x.set_data_from_numpy(np.ones((2, 2), np.float32))
    assert client.infer("scale", [x]).as_numpy("y").tolist() == [[2, 2], [2, 2]]
