"""Machine code, tables and caches of a compiled function go with it, but not while it runs."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import dropping
import numpy as np

import fusewire as fw

ROUNDS = 7  # of all kinds


def test_dropped_functions_leave_nothing() -> None:
    # In a process of its own, where nothing else takes or frees memory.
    command = [sys.executable, dropping.__file__, "grown", str(ROUNDS)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    files, mapped, megabytes = int(printed[0]), int(printed[1]), float(printed[2])
    assert files <= 0
    # Twice that where code stays. Some is unloaded later, when other code is loaded.
    assert mapped < ROUNDS * len(dropping.KINDS)
    assert megabytes < 8  # 5 in a young process; 12 where code stays


def test_code_that_a_thread_runs_stays() -> None:
    def work(f: Any, x: fw.Tensor) -> None:
        for _ in range(30):
            results.append(f(x).item())

    results: list[float] = []
    x = fw.ones(400, 2000)
    for _ in range(3):
        f = fw.compile(lambda x: (x.sin() + x.cos().exp()).sum() / x.size)
        f(x)
        thread = threading.Thread(target=work, args=(f, x))
        thread.start()
        del f
        for i in range(6):  # loads code, and so unloads what is dropped
            dropping.function(i)
            gc.collect()
        thread.join()
    expected = np.sin(1.0) + np.exp(np.cos(1.0))
    assert np.allclose(results, expected, 1e-4) and len(results) == 90
