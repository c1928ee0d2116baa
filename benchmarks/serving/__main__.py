"""Prints requests a second, latencies and processor time of `fusewire serve`.

    python -m benchmarks.serving                      # 1, 16 and 64 callers, JSON and binary
    python -m benchmarks.serving --callers 64 --server-cpus 0 --load-cpus 1
    python -m benchmarks.serving --tokens 64          # texts of so many tokens by a small GPT
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .load import binary_request, json_request, measured

FOLDER = Path(__file__).parent
PATH = "/v2/models/model/infer"
PROMPT = 32  # tokens


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    os.sched_setaffinity(0, options.load_cpus)
    requests = texts(options.tokens) if options.tokens else images(options.shape)
    print("format  callers  requests/s  p50 ms  p99 ms  server us a request")
    with server(options) as (pid, port):
        for form, request in requests.items():
            if form in options.formats:
                for callers in options.callers:
                    report(form, pid, port, request, callers, options)
    return 0


def images(shape: Sequence[int]) -> dict[str, bytes]:
    """Requests for the scores of an image, in each format."""
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    entry = {"name": "images", "datatype": "FP32", "shape": list(shape),
             "data": values.reshape(-1).tolist()}
    return {"JSON": json_request(PATH, {"inputs": [entry]}),
            "binary": binary_request(PATH, {"images": values})}


def texts(tokens: int) -> dict[str, bytes]:
    """Requests for the likeliest continuation by so many tokens."""
    prompt = np.random.default_rng(0).integers(0, 4096, PROMPT).tolist()
    return {"JSON": json_request("/v1/completions", {
        "model": "model", "prompt": prompt, "max_tokens": tokens, "temperature": 0})}


def report(form: str, pid: int, port: int, request: bytes, callers: int,
           options: argparse.Namespace) -> None:
    """Prints the median row of several measurements."""
    rows = []
    for _ in range(options.rounds):
        before = processor_seconds(pid)
        load = measured(port, request, callers, options.seconds, warm_up=0.0)
        used = processor_seconds(pid) - before
        rows.append((load.rate, load.milliseconds(0.5), load.milliseconds(0.99),
                     used / len(load.latencies) * 1e6))
    rate, middle, late, cost = map(statistics.median, zip(*rows))
    print(f"{form:6}  {callers:7}  {rate:10.0f}  {middle:6.2f}  {late:6.2f}  {cost:19.0f}",
          flush=True)


def processor_seconds(pid: int) -> float:
    """The time that a process has taken of processors."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(options: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """A server that is ready: its process and its port."""
    model = options.model or FOLDER / ("gpt_model.py" if options.tokens else "digits_model.py")
    command = [sys.executable, "-m", "fusewire", "serve", f"model={model}", "--http", "0",
               "--threads", str(len(options.server_cpus)), *options.arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        os.sched_setaffinity(process.pid, options.server_cpus)
        try:
            lines: Any = process.stdout
            address = re.search(r":(\d+)$", next(lines).strip())
            if address is None or not any(line.startswith("ready") for line in lines):
                raise RuntimeError("the server did not start")
            yield process.pid, int(address[1])
        finally:
            process.terminate()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.serving")
    made.add_argument("--callers", type=_numbers, default=(1, 16, 64), metavar="N,...")
    made.add_argument("--formats", type=lambda text: text.split(","), default=("JSON", "binary"))
    made.add_argument("--seconds", type=float, default=5.0, help="of a measurement (default: 5)")
    made.add_argument("--rounds", type=int, default=3, help="medians of so many (default: 3)")
    made.add_argument("--server-cpus", type=_numbers, default=(0,), metavar="N,...")
    made.add_argument("--load-cpus", type=_numbers, default=(1,), metavar="N,...")
    made.add_argument("--model", type=Path, help="a file with load() (default: digits, or a GPT)")
    made.add_argument("--shape", type=_numbers, default=(1, 1, 8, 8), metavar="N,...",
                      help="of the images of a request (default: 1,1,8,8)")
    made.add_argument("--tokens", type=int, help="asks for texts of so many tokens")
    made.add_argument("arguments", nargs="*", help="further arguments of fusewire serve, behind --")
    return made


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
