"""Threads change no bit of any kind of kernel, and survive everything at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kinds import KINDS
from sampling import WHOLE, sample

import fusewire as fw
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.llvm import step_table


@pytest.fixture
def several_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every job goes to all threads, be it worth it or not."""
    monkeypatch.setattr(step_table, "_cost", lambda kernel: 1 << 30)
    before = fw.get_num_threads()
    yield
    fw.set_num_threads(before)


@pytest.mark.parametrize("name", sample(list(KINDS), 8))
def test_the_number_of_threads_changes_no_bit(name: str, several_threads: None) -> None:
    """Neither when a program runs nor when it is made."""
    graph, arrays = KINDS[name].graph(300, "float32")
    results = []
    for made_for in (1, 3):
        fw.set_num_threads(made_for)
        program = compile_graph(graph)
        for count in (1, 2, 3, 4):
            fw.set_num_threads(count)
            results += [program(list(arrays)) for _ in range(3)]
    for result in results:
        for got, wanted in zip(result, results[0]):
            np.testing.assert_array_equal(got, wanted)


def test_callers_forks_interrupts_and_too_many_threads() -> None:
    command = [sys.executable, "soak.py", "120" if WHOLE else "1.5"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "numbers of threads" in done.stdout
