"""Random programs with graph breaks at random ops: results equal those of eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_break_run import Run, W, X, compare

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.lazy import lazy_interpreter


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of the small tensors of these tests too."""
    monkeypatch.setattr(lazy_interpreter, "MAX_EAGER_ELEMENTS", 0)


def program(seed: int) -> Callable[[fw.Tensor, fw.Tensor], list[Any]]:
    """A function of random ops, with values that leave in random places."""
    steps = np.random.default_rng(seed).integers(0, len(OPS), 25).tolist()
    picks = np.random.default_rng(seed + 1).integers(0, 1 << 30, (25, 2)).tolist()

    def f(x: fw.Tensor, w: fw.Tensor) -> list[Any]:
        values, left = [x, x * 0.5, w.sum() * x], []
        for step, (i, j) in zip(steps, picks):
            made = OPS[step](values[i % len(values)], values[j % len(values)], left)
            values.append(made)
            if i % 5 == 0:
                del values[j % len(values)]
            values = values or [x]
        loss = sum((v.tanh().mean() for v in values), start=w.sum())
        loss.backward()
        grad, w.grad = w.grad, None
        return [*values, *left, grad]

    return f


def _set(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
    made = x * 1
    made[1:3] = y[0]
    made[made > 2] = 0.5
    return made


def _in_place(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
    made = x + 0
    made *= 0.5
    made -= y
    return made


def _leak(x: fw.Tensor, left: list[Any], value: Any) -> fw.Tensor:
    left.append(value)
    return x


OPS: list[Callable[[fw.Tensor, fw.Tensor, list[Any]], fw.Tensor]] = [
    lambda x, y, left: (x + y) * 0.5,
    lambda x, y, left: x.tanh() * y,
    lambda x, y, left: x.sigmoid() - 0.25,
    lambda x, y, left: fw.maximum(x, y),
    lambda x, y, left: x - x.mean(1, keepdims=True),
    lambda x, y, left: x.softmax(1) + y.sum(0) * 0.01,
    lambda x, y, left: (x @ y.T).tanh() @ x,
    lambda x, y, left: fw.where(x > y, x, y * 2),
    lambda x, y, left: fw.concat([x[:2], y[2:]]),
    lambda x, y, left: x.flip(0),
    lambda x, y, left: x[fw.tensor([3, 1, 0, 2, 5, 4])],
    lambda x, y, left: x.detach() * y,
    lambda x, y, left: F.layer_norm(x, (5,)),
    lambda x, y, left: _set(x, y),
    lambda x, y, left: _in_place(x, y),
    lambda x, y, left: x * float(y.sum().tanh()),
    lambda x, y, left: y * 1.5 if (x * x).sum() > 7 else x + 1,
    lambda x, y, left: fw.tensor(np.sin(x.detach().numpy())) + y,
    lambda x, y, left: x if max(y[0].tolist()) > 0.5 else y,
    lambda x, y, left: _leak(x, left, (x * 3).detach()),
    lambda x, y, left: x.sort(1)[0] if isinstance(x.sort(1), tuple) else x.sort(1),
]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    f, run = program(seed), Run(program(seed))
    for scale in (1.0, 1.0, -0.7, 1.0):
        w, v = W.detach().requires_grad_(), W.detach().requires_grad_()
        compare(run(X * scale, w), f(X * scale, v), 300)
