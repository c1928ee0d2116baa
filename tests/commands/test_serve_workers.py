"""Workers share a port: one that is killed is replaced, and nothing else is lost.

FUSEWIRE_TEST_SERVERS is the number of kills, of reloads, of full queues and of ends under load.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_process import NET, REQUEST, served

import fusewire as fw

ROUNDS = int(os.environ.get("FUSEWIRE_TEST_SERVERS", "1"))
CALLERS = 4


class Load:
    """Clients that ask without a pause, and count what they get.

    Args:
        url: of the server.
        leaves: True for clients that stop when an answer closes its connection.
    """

    def __init__(self, url: str, leaves: bool = False) -> None:
        self.url, self.leaves = f"{url}/v2/models/net/infer", leaves
        self.answers: Counter[str] = Counter()
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self._ask) for _ in range(CALLERS)]

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def wait_for(self, more: int) -> None:
        """Waits until there are so many more right answers."""
        wanted, end = self.answers["right"] + more, time.monotonic() + 60
        while self.answers["right"] < wanted:
            assert time.monotonic() < end, self.answers
            time.sleep(0.01)

    def _ask(self) -> None:
        client = httpx.Client(timeout=30)
        while not self.stop.is_set():
            try:
                answer = client.post(self.url, json=REQUEST)
                data = answer.json().get("outputs", [{}])[0].get("data")
                kind = "right" if data == [3.0, 3.0] else f"{answer.status_code} {answer.text:.80}"
            except httpx.TransportError as error:
                kind = type(error).__name__
                client.close()
                client = httpx.Client(timeout=30)
            else:
                if self.leaves and answer.headers.get("connection") == "close":
                    self.stop.set()  # the server ends: a new connection would come too late
            self.answers[kind] += 1
        client.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET, encoding="utf-8")
    return path


def children(pid: int) -> list[int]:
    """The workers of a supervisor."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                command = (folder / "cmdline").read_text()
            except OSError:
                continue
            if int(fields[1]) == pid and "spawn_main" in command:
                found.append(int(folder.name))
    return sorted(found)


BROKEN = ("ConnectError", "ReadError", "RemoteProtocolError", "WriteError")
"""What a client sees of a worker that was killed: its connection ends."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds workers in /proc")
def test_a_killed_worker_is_replaced(file: Path) -> None:
    with served(f"net={file}", "--workers", "2", "--threads", "1") as (process, url), \
            Load(url) as load:
        load.wait_for(20)
        for _ in range(ROUNDS):
            before = children(process.pid)
            os.kill(before[0], signal.SIGKILL)
            end = time.monotonic() + 60
            while len(children(process.pid)) < 2 or before[0] in children(process.pid):
                assert time.monotonic() < end
                time.sleep(0.02)
            load.wait_for(20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    wrong = {kind for kind in load.answers if kind != "right"} - set(BROKEN)
    assert wrong == set()


def test_sigterm_under_load_answers_what_was_taken(file: Path) -> None:
    for workers in (1, 2):
        for _ in range(ROUNDS):
            with served(f"net={file}", "--workers", str(workers), "--threads", "1", "--drain",
                        "0.5") as (process, url), Load(url, leaves=True) as load:
                load.wait_for(20)
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
            assert set(load.answers) == {"right"}, load.answers


def test_sighup_loads_the_repository_again_in_all_workers(tmp_path: Path) -> None:
    folder = tmp_path / "models/net/1"
    folder.mkdir(parents=True)

    def write() -> None:
        fw.onnx.export(lambda input: input[:, :2] + 3, (fw.ones(2, 4),), tmp_path / "new.onnx",
                       input_names=["input"], dynamic_shapes={"input": {0: "n"}}, verify=False)
        (tmp_path / "new.onnx").replace(folder / "model.onnx")

    write()
    with served("--repository", str(tmp_path / "models"), "--workers", "2", "--max-batch", "2",
                "--threads", "1") as (process, url), Load(url) as load:
        load.wait_for(10)
        for _ in range(ROUNDS):
            write()
            process.send_signal(signal.SIGHUP)
            load.wait_for(50)
        answer = httpx.post(f"{url}/v2/repository/models/net/load")
        assert answer.status_code == 400 and "SIGHUP" in answer.json()["error"]
    assert set(load.answers) == {"right"}


def test_a_full_queue_under_load(file: Path) -> None:
    for _ in range(ROUNDS):
        with served(f"net={file}", "--concurrency", "2") as (_, url), Load(url) as load:
            load.wait_for(50)
        wrong = [kind for kind in load.answers if kind != "right"]
        assert all(kind.startswith("503 ") and "requests are being answered" in kind
                   for kind in wrong)


def test_workers_that_never_get_ready_end_the_command(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def load():\n    return 3\n", encoding="utf-8")
    command = [sys.executable, "-m", "fusewire", "serve", f"x={tmp_path / 'bad.py'}", "--http", "0",
               "--workers", "2"]
    done: Any = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "ended before they were ready" in done.stderr
