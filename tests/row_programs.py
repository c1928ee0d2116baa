"""Turns the rows of `samples.py` into functions, each of which makes all calls of a row."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import tensors
from samples import ROWS, Row

import fusewire as fw

Cases = list[list[fw.Tensor]]

TREES = [row for row in ROWS if row.op in ("true_indices", "repeats")
         or row.label == "quantile, by q"]
"""Rows whose traces have decisions, so that they are no single graph."""

_OWN_DTYPES = {"rprop_size", "rprop_kept"}  # no user calls them with other dtypes
OF_FLOATS = [row for row in ROWS if row.op not in _OWN_DTYPES and row not in TREES
             and any(a.dtype.kind == "f" for a in row.inputs(np.random.default_rng(0))[0])]
"""Rows that can be called with other float dtypes."""


def cases(row: Row, requires_grad: bool = False) -> Cases:
    """The inputs of each call of a row."""
    return [tensors(a, requires_grad) for a in row.inputs(np.random.default_rng(0))]


def cases_in(row: Row, dtype: Any, requires_grad: bool = False) -> Cases:
    """The row's inputs with floats of `dtype`, without calls that eager refuses."""
    cases = []
    for arrays in row.inputs(np.random.default_rng(0)):
        xs = [fw.from_numpy(a.astype(dtype) if a.dtype.kind == "f" else a) for a in arrays]
        if all(x.dtype != dtype for x in xs):
            continue
        with contextlib.suppress(fw.FusewireError):
            row.call(*xs)
            cases.append([x.requires_grad_(requires_grad and x.dtype == dtype) for x in xs])
    return cases


def weighted(row: Row, calls: Cases) -> tuple[Cases, list[fw.Tensor]]:
    """The calls whose results have gradients, and a random weight for each result."""
    rng = np.random.default_rng(1)
    outs = [(xs, row.call(*xs)) for xs in calls]
    us = [fw.from_numpy(np.asarray(rng.standard_normal(out.shape)).astype(out.dtype))
          for _, out in outs if out.requires_grad]
    return [xs for xs, out in outs if out.requires_grad], us


def forward(row: Row) -> Callable[..., Any]:
    """A function that calls the row with each of its inputs."""
    call = row.call  # a trace would not record the arrays of the row

    def every(calls: Cases) -> list[fw.Tensor]:
        return [call(*xs) for xs in calls]

    return every


def backward(row: Row) -> Callable[..., Any]:
    """A function that returns the gradients of each call's result, weighted by `u`."""
    call = row.call

    def every(calls: Cases, us: list[fw.Tensor]) -> list[Any]:
        return [fw.grad(call(*xs), [x for x in xs if x.requires_grad], u, allow_unused=True)
                for xs, u in zip(calls, us)]

    return every
