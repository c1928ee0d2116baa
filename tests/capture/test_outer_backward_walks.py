"""Sizes, and with them the way back outside of the function, change from call to call.

Each family of functions takes random walks (`outer_walks.py`), compiled and eagerly. More of them:
`FUSEWIRE_TEST_WALKS=50 pytest tests/capture/test_outer_backward_walks.py`.
"""

from __future__ import annotations

import os
from typing import Any

import outer_walks
import pytest
from outer_walks import FAMILIES, Family, walk
from programs.running import numpy_backed

import fusewire as fw
from fusewire import nn

WALKS = int(os.environ.get("FUSEWIRE_TEST_WALKS", "1"))
CALLS = 24


def families(test: Any) -> Any:
    return pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)(test)


@families
@pytest.mark.filterwarnings("ignore::fusewire.capture.runtime.warnings.CaptureWarning")
def test_walks(family: Family) -> None:
    replays = 0
    for seed in range(WALKS):
        difference, stats = walk(family, seed, CALLS, numpy_backed)
        assert not difference
        replays += stats.replays
    assert replays >= CALLS * WALKS / 8


@families
@pytest.mark.filterwarnings("ignore::fusewire.capture.runtime.warnings.CaptureWarning")
def test_walks_in_native_code(family: Family) -> None:
    for seed in range((WALKS + 1) // 2):
        difference, _ = walk(family, 1000 + seed, CALLS // 3, fw.compile)
        assert not difference


def test_a_walk_finds_a_wrong_gradient() -> None:
    def wrong(fn: Any) -> Any:
        calls = numpy_backed(fn)

        def f(x: fw.Tensor) -> Any:
            return calls(x.detach() if x.shape[0] == 3 else x)
        f.stats = calls.stats  # type: ignore[attr-defined]
        return f
    sin = next(f for f in FAMILIES if f.name == "sin")
    assert any(walk(sin, seed, CALLS, wrong)[0] for seed in range(3))
    assert outer_walks.different([fw.ones(2)], [fw.ones(2) * 1.1])


# ---- what walks have found


def test_one_axis_after_another() -> None:
    f = fw.compile(lambda x: x.sin(), fullgraph=True)
    for shape in ((3, 4), (3, 5), (2, 7), (2, 7), (6, 2)):
        x = fw.ones(*shape).requires_grad_()
        f(x).sum().backward()
        assert x.grad is not None and (x.grad == fw.ones(*shape).cos()).all()
    assert (f.stats.recordings, f.stats.replays) == (3, 2)


def test_the_last_small_batch_of_an_embedding() -> None:
    table = nn.Embedding(10, 4)
    f = fw.compile(lambda rows: table(rows), fullgraph=True)
    for shape in ((4, 10), (4, 12), (3, 12), (3, 12)):
        table.zero_grad()
        f(fw.zeros(*shape, dtype=fw.int64)).sum().backward()
        assert table.weight.grad is not None
        assert table.weight.grad[:2].tolist() == [[shape[0] * shape[1]] * 4, [0.0] * 4]


def test_a_size_is_told_by_the_tensor_that_has_it_in_this_recording() -> None:
    """Both axes were one size when they changed first, which an older recording goes on to say."""
    def f(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        total = y.sum()
        return fw.ones(x.shape[0]) * total

    compiled = fw.compile(f, fullgraph=True)
    for n, m in ((3, 3), (4, 4), (5, 6), (5, 6), (9, 2)):
        assert compiled(fw.ones(n), fw.ones(m)).tolist() == [m] * n
    assert compiled.stats.replays == 2


@pytest.mark.parametrize("reads", ("results", "decisions"))
def test_sizes_without_values_are_replayed(reads: str) -> None:
    def f(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        zeros = fw.zeros(x.shape[0], x.shape[1])
        return zeros if reads == "results" or zeros.sum() > y.sum() else y

    compiled = fw.compile(f, fullgraph=True)
    for n, m in ((3, 4), (3, 5), (2, 7), (2, 7), (5, 6), (5, 8)):
        assert compiled(fw.ones(n, m), -fw.ones(2)).shape == (n, m)
    assert (compiled.stats.recordings, compiled.stats.replays) == (3, 3)


def test_gradients_that_come_later_are_of_the_recording_that_they_go_back_through() -> None:
    """A program of gradients is made when they first come, when another recording was the last."""
    def f(x: fw.Tensor, w: fw.Tensor) -> Any:
        return nn.functional.conv2d(x, w, padding=1), w.sum()

    compiled = fw.compile(f, fullgraph=True)
    for height, width, dtype, which in ((5, 7, fw.float32, (0, 1)), (6, 9, fw.float32, (0, 1)),
                                        (1, 1, fw.float64, (0, 1)), (7, 8, fw.float32, (0,))):
        seen = []
        for each in (compiled, f):
            x = fw.ones(2, 1, height, width, dtype=dtype).requires_grad_()
            w = fw.ones(2, 1, 3, 3, dtype=dtype).requires_grad_()
            results = each(x, w)
            sum(results[i].sum() for i in which).backward()
            seen.append((x.grad, w.grad))
        for a, b in zip(*seen):
            assert outer_walks.near(a._data, b._data)
