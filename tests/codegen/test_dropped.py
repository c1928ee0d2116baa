"""Machine code, tables and caches of a compiled function go with it, but not while it runs."""

from __future__ import annotations

import gc
import threading
from typing import Any

import dropping
import numpy as np
import pytest

import fusewire as fw

ROUNDS = 7  # of all kinds


@pytest.mark.filterwarnings("ignore::fusewire.capture.runtime.warnings.CaptureWarning")
def test_dropped_functions_leave_nothing() -> None:
    kinds = len(dropping.KINDS)
    dropping.make(ROUNDS * kinds)
    files, mapped, memory = dropping.alive(), dropping.mappings(), dropping.resident()
    dropping.make(2 * ROUNDS * kinds, ROUNDS * kinds)
    assert dropping.alive() <= files
    # Twice that where code stays. Some is unloaded later, when other code is loaded.
    assert dropping.mappings() - mapped < ROUNDS * kinds
    assert dropping.resident() - memory < 6  # megabytes: where code stays they are 10


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
