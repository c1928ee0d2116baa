"""Newton's iteration for square roots: a loop whose end depends on values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..peers import pure
from ..workload import Call, Inputs, Workload
from .weights import uniform

COUNT, TOLERANCE = 1000, 1e-6


def inputs() -> Inputs:
    return {"a": uniform(15, 0.05, 1, COUNT)}


def root(a: Any) -> Any:
    x = a
    while abs(x * x - a).max() > TOLERANCE:
        x = (x + a / x) / 2
    return x


def numpy(inputs: Inputs) -> Call:
    return functools.partial(root, inputs["a"])


def torch_loop(inputs: Inputs) -> Call:
    """The function with the loop as an op, so that it is one graph."""
    import torch
    from torch._higher_order_ops.while_loop import while_loop

    def loop(a: Any) -> Any:
        return while_loop(lambda x: abs(x * x - a).max() > TOLERANCE,
                          lambda x: ((x + a / x) / 2,), (a.clone(),))[0]

    run, a = torch.compile(loop), torch.from_numpy(inputs["a"])

    def call() -> Any:
        with torch.no_grad():
            return run(a)

    return call


def jax() -> Callable[..., Any]:
    import jax

    def loop(a: Any) -> Any:
        return jax.lax.while_loop(lambda x: abs(x * x - a).max() > TOLERANCE,
                                  lambda x: (x + a / x) / 2, a)

    return loop


WORKLOADS = [Workload(
    name="data_dependent",
    about=f"roots of {COUNT} numbers by Newton's iteration, in a while loop that looks at them",
    inputs=inputs,
    makers={**pure(root, lambda: root, jax), "torch.compile loop": torch_loop, "numpy": numpy},
)]
