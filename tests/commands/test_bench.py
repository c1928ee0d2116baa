"""`fusewire bench`: every job gives the same in all libraries, and a time."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any

import numpy as np
import pytest

from fusewire.commands import bench
from fusewire.commands.support.jobs import JOBS, LIBRARIES


@pytest.mark.parametrize("job", JOBS)
def test_a_job(call: Any, job: str) -> None:
    done = call("bench", job, "--seconds", "0.001")
    here = [name for name in LIBRARIES if importlib.util.find_spec(name)]
    heading, row = done.out.splitlines()[:2]
    assert done.status == 0 and heading.split() == ["job", *here]
    assert row.startswith(JOBS[job].about)


def test_for_programs(call: Any) -> None:
    found = call("bench", "product", "network", "--seconds", "0.001", "--json").json
    assert found["unit"] == "seconds" and found["jobs"].keys() == {"product", "network"}
    assert all(time > 0 for times in found["jobs"].values() for time in times.values())


def test_results_are_compared(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job = JOBS["product"]
    wrong = {**job.calls, "numpy": lambda x, y: lambda: np.zeros((512, 512))}
    monkeypatch.setitem(bench.JOBS, "product", dataclasses.replace(job, calls=wrong))
    done = call("bench", "product")
    assert done.status == 1 and "the result of numpy differs from that of fusewire" in done.err
