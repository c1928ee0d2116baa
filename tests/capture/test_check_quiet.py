"""`check=` is quiet where compiled code and eager differ by rounding alone, however much that is.

More of it: FUSEWIRE_TEST_QUIET=300 FUSEWIRE_TEST_QUIET_FROM=1000 pytest on this file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kinds import FLOATS, KINDS, SIZES
from optimizers import OPTIMIZERS, label, shapes_of
from oracle import recorded
from random_programs import inputs_of, program, run

import fusewire as fw
from fusewire.capture.replay.differential_check import differences
from fusewire.codegen.compile import compile_graph
from fusewire.export.demo.digits import split_digits
from fusewire.export.demo.model import DigitNet
from fusewire.export.demo.train import training_step

SEEDS = int(os.environ.get("FUSEWIRE_TEST_QUIET", "2"))
FIRST = int(os.environ.get("FUSEWIRE_TEST_QUIET_FROM", "0"))
RANGE = range(FIRST, FIRST + SEEDS)
SINGULAR: dict[str, Callable[[Any], Any]] = {
    "signs by division": lambda x: x / fw.sqrt(x * x),
    "root of a difference": lambda x: fw.sqrt(fw.abs(x.sum(-1, keepdims=True) - x)),
    "rsqrt of a variance": lambda x: (x - x.mean(-1, keepdims=True)) * fw.rsqrt(fw.var(x, -1)[0]),
    "log of a probability": lambda x: fw.log(fw.softmax(x * 50, -1)),
    "log near 1": lambda x: fw.log(1 + x * 1e-6),
    "steep softmax": lambda x: fw.softmax((x @ x.T) * 30, -1),
    "cancelled sum": lambda x: (x * 1000 - x.mean(-1, keepdims=True) * 1000).sum(-1),
    "offset": lambda x: fw.std(x + 1000, -1),
    "rounded": lambda x: fw.round(fw.tanh(x) * 7.5) + fw.floor(fw.exp(x)),
    "largest": lambda x: (fw.argmax(fw.tanh(x * 9), -1), fw.sort(fw.sin(x), axis=-1)),
    "compared": lambda x: fw.where(fw.sqrt(x * x) == fw.abs(x), x, -x),
    "periodic": lambda x: fw.sin(x * 1e4),
    "powers": lambda x: fw.exp(x * 9) / (1 + fw.exp(x * 9)) - fw.sigmoid(x * 9),
}


def assert_quiet(fn: Callable[..., Any], *given: Any) -> None:
    graph, arrays = recorded(fn, *given)
    found = compile_graph(graph)([a.copy() for a in arrays])
    assert not differences(graph, arrays, found)


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("dtype", [fw.float32, fw.float64, fw.float16, fw.bfloat16], ids=str)
def test_functions_that_enlarge_errors(name: str, dtype: Any) -> None:
    for seed in RANGE:
        x = np.random.default_rng(seed).standard_normal((17, 65)) * 10.0 ** -(seed % 3)
        assert_quiet(SINGULAR[name], fw.from_numpy(x.astype(np.float32)).astype(dtype))


@pytest.mark.parametrize("name", KINDS)
def test_kernels(name: str) -> None:
    for seed in RANGE:
        rng = np.random.default_rng([seed, *name.encode()])
        dtype = rng.choice(["float32", "float64", "float16", "bfloat16"] if name in FLOATS else
                           ["float32", "int32", "uint8"])
        graph, arrays = KINDS[name].graph(int(rng.choice(SIZES)), getattr(fw, str(dtype)), seed)
        found = compile_graph(graph)([a.copy() for a in arrays])
        assert not differences(graph, arrays, found), (name, seed, dtype)


def test_random_programs() -> None:
    for seed in range(FIRST, FIRST + 15 * SEEDS):
        assert_quiet(run, program(seed), inputs_of(seed))


@pytest.mark.parametrize("case", OPTIMIZERS, ids=label)
def test_optimizers_with_tiny_gradients(case: Any) -> None:
    name, settings = case
    rng = np.random.default_rng(FIRST)
    params = [fw.from_numpy(rng.standard_normal(s).astype("f4")).requires_grad_()
              for s in shapes_of(name)]
    optimizer = getattr(fw.optim, name)(params, **settings)

    @fw.compile(check="always")
    def step(*gradients: Any) -> None:
        for p, g in zip(params, gradients):
            p.grad = fw.sin(g) * 3 - fw.sin(g) * 3.0000002
        optimizer.step()

    for size in (1e-9, 1e-30, 1.0, 1e-4, 1e-9)[:2 + SEEDS]:
        step(*[fw.from_numpy(np.asarray(rng.standard_normal(p.shape) * size, "f4"))
               for p in params])


@pytest.mark.parametrize("dtype", [fw.float32, fw.float16, fw.bfloat16], ids=str)
def test_numbers_that_python_makes_of_rounded_values(dtype: Any) -> None:
    for seed in RANGE:
        x = np.random.default_rng(seed).standard_normal((17, 65)).astype("f4")

        @fw.compile(check="always")
        def rest(x: Any) -> Any:
            total = (x * 1000 - x.mean(-1, keepdims=True) * 1000).sum().item()
            return {"rest": total, "half": (total / 2, 0.5)}

        for _ in range(3):
            rest(fw.from_numpy(x).astype(dtype))


def test_the_step_of_the_demo() -> None:
    split = split_digits()
    for seed in RANGE:
        fw.manual_seed(seed)
        model = DigitNet()
        step = fw.compile(training_step(model, fw.optim.AdamW(model.parameters(), lr=2e-3)),
                          check="first")
        for i in range(3):
            part = slice(32 * i, 32 * i + 32)
            step(split.train_images[part], split.train_labels[part])
