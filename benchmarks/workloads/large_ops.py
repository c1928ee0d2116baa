"""Single eager ops on large tensors: bound by memory, or by functions that NumPy computes slowly.

A new result of this size costs page faults in every library that does not cache memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw

from ..workload import Call, Inputs, Maker, Workload
from .weights import normal

COUNT = 10_000_000
ROWS, COLUMNS = 20_000, 512
TABLE, PICKED, WIDTH = 20_000, 200_000, 64


def _fusewire(function: Callable[..., Any]) -> Maker:
    def make(inputs: Inputs) -> Call:
        tensors = [fw.from_numpy(a) for a in inputs.values()]
        return lambda: function(*tensors)

    return make


def _torch(name: str, *args: Any) -> Maker:
    """Calls torch.<name>(*tensors, *args)."""
    def make(inputs: Inputs) -> Call:
        import torch

        function, tensors = getattr(torch, name), [torch.from_numpy(a) for a in inputs.values()]
        return lambda: function(*tensors, *args)

    return make


def _jax(function: Callable[..., Any]) -> Maker:
    """Calls function(jax, *arrays), op by op."""
    def make(inputs: Inputs) -> Call:
        import jax

        arrays = [jax.numpy.asarray(a) for a in inputs.values()]
        return lambda: jax.block_until_ready(function(jax, *arrays))

    return make


def _numbers() -> Inputs:
    return {"x": normal(1, COUNT)}


def _two() -> Inputs:
    return {"x": normal(1, COUNT), "y": normal(2, COUNT)}


def _matrix() -> Inputs:
    return {"x": normal(3, ROWS, COLUMNS)}


def _places(rows: int) -> Inputs:
    places = np.random.default_rng(5).integers(0, TABLE, PICKED)
    return {"x": normal(4, rows, WIDTH), "places": places}


def _torch_gather(inputs: Inputs) -> Call:
    import torch

    x, places = (torch.from_numpy(a) for a in inputs.values())
    return lambda: torch.index_select(x, 0, places)


def _torch_scatter(inputs: Inputs) -> Call:
    import torch

    x, places = (torch.from_numpy(a) for a in inputs.values())
    return lambda: torch.zeros(TABLE, WIDTH).index_add_(0, places, x)


def _fusewire_scatter(x: Any, places: Any) -> Any:
    return fw.index_add(fw.zeros(TABLE, WIDTH), 0, places, x)


def _jax_scatter(jax: Any, x: Any, places: Any) -> Any:
    return jax.numpy.zeros((TABLE, WIDTH)).at[places].add(x)


def _row(name: str, about: str, inputs: Callable[[], Inputs], fusewire: Any, torch: Maker,
         jax: Any, size: float, flops: float = 0.0) -> Workload:
    makers = {"fusewire eager": _fusewire(fusewire), "torch": torch, "jax": _jax(jax)}
    return Workload(name, about, inputs, makers, flops, size)


_ELEMENTWISE = [
    _row(f"{name}_large", f"{name} of {COUNT} numbers, eagerly", _numbers, getattr(fw, name),
         _torch(name), lambda jax, x, name=name: getattr(jax.numpy, name)(x), 8 * COUNT,
         20 * COUNT)
    for name in ("tanh", "exp")
]

WORKLOADS = [
    *_ELEMENTWISE,
    _row("add_large", f"a + b of {COUNT} numbers, eagerly", _two, fw.add, _torch("add"),
         lambda jax, x, y: x + y, 12 * COUNT, COUNT),
    _row("softmax_large", f"softmax over {ROWS} rows of {COLUMNS}, eagerly", _matrix,
         lambda x: fw.softmax(x, -1), _torch("softmax", -1),
         lambda jax, x: jax.nn.softmax(x, -1), 8 * ROWS * COLUMNS, 25 * ROWS * COLUMNS),
    _row("sum_rows_large", f"sums of {ROWS} rows of {COLUMNS}, eagerly", _matrix,
         lambda x: fw.sum(x, -1), _torch("sum", -1), lambda jax, x: x.sum(-1),
         4 * ROWS * COLUMNS, ROWS * COLUMNS),
    _row("max_rows_large", f"largest of each of {ROWS} rows of {COLUMNS}, eagerly", _matrix,
         lambda x: fw.max(x, -1), _torch("amax", -1), lambda jax, x: x.max(-1),
         4 * ROWS * COLUMNS, ROWS * COLUMNS),
    _row("gather_large", f"{PICKED} rows of {WIDTH} out of {TABLE}, eagerly",
         lambda: _places(TABLE), lambda x, places: fw.take(x, places, axis=0), _torch_gather,
         lambda jax, x, places: x[places], 4 * (TABLE + PICKED) * WIDTH + 8 * PICKED),
    _row("scatter_add_large", f"{PICKED} rows of {WIDTH} added to {TABLE}, eagerly",
         lambda: _places(PICKED), _fusewire_scatter, _torch_scatter, _jax_scatter,
         4 * (TABLE + PICKED) * WIDTH + 8 * PICKED, PICKED * WIDTH),
]
