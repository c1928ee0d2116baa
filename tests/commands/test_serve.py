"""`fusewire serve` as a process: it says when it is ready, and SIGTERM ends it behind requests."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_process import NET, REQUEST, served


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET, encoding="utf-8")
    return path


def test_a_file_is_served_until_sigterm(file: Path) -> None:
    file.write_text(f"""
import atexit, gc
atexit.register(lambda: print("frozen", gc.get_freeze_count()))
{NET}""", encoding="utf-8")
    with served(f"net={file}", "--drain", "0.1") as (process, address):
        assert httpx.get(f"{address}/v2/health/ready").json() == {"ready": True}
        answer = httpx.post(f"{address}/v2/models/net/infer", json=REQUEST)
        assert answer.json()["outputs"][0]["shape"] == [1, 2]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0 and process.stderr.read() == ""
        frozen = int(process.stdout.read().split()[-1])
        assert frozen > 10_000  # full collections do not read what is loaded


def test_tokens_are_asked_for(file: Path, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("secret\nother\n", encoding="utf-8")
    with served(f"net={file}", "--tokens", str(tmp_path / "tokens"), "--max-body", "1000"
                ) as (_, address):
        url = f"{address}/v2/models/net/infer"
        for header in (None, "Bearer", "Bearer secre", "Basic secret", "Bearer é"):
            headers = {"authorization": header.encode()} if header else {}
            answer = httpx.post(url, json=REQUEST, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        known = {"authorization": "Bearer other"}
        assert httpx.post(url, json=REQUEST, headers=known).status_code == 200
        assert httpx.get(f"{address}/v2/health/live").status_code == 200
        assert httpx.post(url, content=b" " * 1001, headers=known).status_code == 413
        chunks = httpx.post(url, content=iter([b" " * 600] * 2), headers=known)
        assert chunks.status_code == 413


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "no model is named"), (["x=nothing.onnx"], "there is no nothing.onnx"),
    (["nothing.onnx"], "write it like"), (["../x=y"], "no name of a model")])
def test_what_cannot_be_served(call: Any, arguments: list[str], message: str) -> None:
    shown = call("serve", *arguments, "--http", "0")
    assert shown.status != 0 and message in shown.err
