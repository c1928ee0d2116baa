"""Runs `fusewire serve` as a process, with a model of a file."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NET = """
import fusewire as fw
from fusewire.serving import Model


def load():
    return Model(lambda input: input[:, :2] + 3, {"input": fw.zeros(1, 4)}, max_batch=2)
"""
REQUEST = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4], "data": [0] * 4}]}


@contextmanager
def served(*arguments: str) -> Iterator[tuple[Any, str]]:
    """A process of the command that is ready, and its address. It is killed at the end."""
    command = [sys.executable, "-m", "fusewire", "serve", *arguments, "--http", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                          ) as process:
        try:
            lines = iter(process.stdout)  # type: ignore[arg-type]
            address = re.search(r"http\S+", next(lines))
            assert address is not None
            assert any(line.startswith("ready") for line in lines)
            yield process, address[0]
        finally:
            process.kill()
