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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_process import NET, REQUEST, served

import fusewire as fw
from fusewire.serving import Model, running
from fusewire.serving.http.requests import Limits

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"),
                                reason="finds workers in /proc")
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

    def wait_for(self, more: int, kind: str = "right") -> None:
        """Waits until there are so many more answers of a kind, by default right ones."""
        wanted, end = self._count(kind) + more, time.monotonic() + 60
        while self._count(kind) < wanted:
            assert time.monotonic() < end, self.answers
            time.sleep(0.005)

    def _count(self, kind: str) -> int:
        return sum(count for name, count in list(self.answers.items()) if name.startswith(kind))

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
                time.sleep(0.05)  # a new client is work that the server waits for
                client = httpx.Client(timeout=30)
            else:
                if self.leaves and answer.headers.get("connection") == "close":
                    self.stop.set()  # the server ends: a new connection would come too late
            self.answers[kind] += 1
        client.close()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(folder.name))
    return sorted(found)


def forking(pid: int) -> int:
    """The process whose forks are the workers of a supervisor."""
    [found] = [child for child in children(pid) if children(child)]
    return found


BROKEN = ("ConnectError", "ReadError", "RemoteProtocolError", "WriteError")
"""What a client sees of a worker that was killed: its connection ends."""


def write_model(folder: Path) -> None:
    """Writes the model of the requests, or replaces it."""
    (folder / "net/1").mkdir(parents=True, exist_ok=True)
    fw.onnx.export(lambda input: input[:, :2] + 3, (fw.ones(2, 4),), folder / "new.onnx",
                   input_names=["input"], dynamic_shapes={"input": {0: "n"}}, verify=False)
    (folder / "new.onnx").replace(folder / "net/1/model.onnx")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_model(folder)
    return folder


@pytest.fixture(scope="module")
def workers(repository: Path) -> Iterator[tuple[Any, str]]:
    """Two workers that are ready: their supervisor, and their address."""
    with served("--repository", str(repository), "--workers", "2", "--max-batch", "2", "--threads",
                "1") as (process, url):
        yield process, url


def test_sighup_loads_the_repository_again_in_all_workers(workers: Any, repository: Path) -> None:
    process, url = workers
    with Load(url) as load:
        load.wait_for(10)
        for _ in range(ROUNDS):
            write_model(repository)
            process.send_signal(signal.SIGHUP)
            load.wait_for(50)
        answer = httpx.post(f"{url}/v2/repository/models/net/load")
        assert answer.status_code == 400 and "SIGHUP" in answer.json()["error"]
    assert set(load.answers) == {"right"}


def test_a_killed_worker_is_replaced(workers: Any) -> None:
    process, url = workers
    parent = forking(process.pid)
    with Load(url) as load:
        load.wait_for(20)
        for _ in range(ROUNDS):
            killed = children(parent)[0]
            os.kill(killed, signal.SIGKILL)
            end = time.monotonic() + 60
            while len(children(parent)) < 2 or killed in children(parent):
                assert time.monotonic() < end
                time.sleep(0.02)
            load.wait_for(20)
    assert set(load.answers) - {"right"} <= set(BROKEN)


def test_workers_outlive_the_process_they_are_forks_of(workers: Any) -> None:
    process, url = workers
    with Load(url) as load:
        for _ in range(ROUNDS):
            before = forking(process.pid)
            old = children(before)
            os.kill(before, signal.SIGKILL)
            load.wait_for(20)
            for worker in old:
                os.kill(worker, signal.SIGKILL)
            end = time.monotonic() + 60
            while not any(len(children(child)) == 2 for child in children(process.pid)):
                assert time.monotonic() < end
                time.sleep(0.02)
            load.wait_for(20)
        workers_now = children(forking(process.pid))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert set(load.answers) - {"right"} <= set(BROKEN)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers_now)


@pytest.mark.parametrize("count", [1, 2])
def test_sigterm_under_load_answers_what_was_taken(tmp_path: Path, count: int) -> None:
    file = tmp_path / "net.py"
    file.write_text(NET, encoding="utf-8")
    for _ in range(ROUNDS):
        with served(f"net={file}", "--workers", str(count), "--threads", "1", "--drain", "0.5"
                    ) as (process, url), Load(url, leaves=True) as load:
            load.wait_for(20)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert set(load.answers) == {"right"}, load.answers


def test_a_full_queue_under_load() -> None:
    def slow(input: fw.Tensor) -> fw.Tensor:
        return input[:, :2] + 3

    for _ in range(ROUNDS):
        model = Model(slow, {"input": fw.zeros(1, 4)}, max_batch=2, delay=0.02)
        with running({"net": model}, limits=Limits(concurrency=1)) as server, \
                Load(server.url) as load:
            load.wait_for(20)
            load.wait_for(20, "503")
            assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200
        wrong = [kind for kind in load.answers if kind != "right"]
        assert all(kind.startswith("503 ") and "requests are being answered" in kind
                   for kind in wrong)


def test_workers_that_never_get_ready_end_the_command(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def load():\n    return 3\n", encoding="utf-8")
    command = [sys.executable, "-m", "fusewire", "serve", f"x={tmp_path / 'bad.py'}", "--http", "0",
               "--workers", "2"]
    done: Any = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "ended before they were ready" in done.stderr
