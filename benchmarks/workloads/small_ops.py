"""Ops on eight numbers, run one by one: what a library adds to each."""

from __future__ import annotations

from typing import Any

import fusewire as fw

from ..workload import Call, Inputs, Maker, Workload
from .weights import normal

COUNT = 8


def inputs() -> Inputs:
    return {"a": normal(1, COUNT), "b": normal(2, COUNT)}


def fusewire_add(gradient: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        a, b = fw.tensor(inputs["a"]).requires_grad_(gradient), fw.from_numpy(inputs["b"])
        return lambda: a + b

    return make


def torch_add(gradient: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        a, b = torch.tensor(inputs["a"], requires_grad=gradient), torch.from_numpy(inputs["b"])
        return lambda: a + b

    return make


def jax_add(inputs: Inputs) -> Call:
    import jax

    a, b = (jax.numpy.asarray(inputs[name]) for name in "ab")
    return lambda: jax.block_until_ready(a + b)


def backward(a: Any, b: Any) -> Call:
    """The call for tensors of torch or of fusewire."""
    def call() -> Any:
        a.grad = None
        (a * b).sum().backward()
        return a.grad

    return call


def fusewire_backward(inputs: Inputs) -> Call:
    return backward(fw.tensor(inputs["a"], requires_grad=True), fw.from_numpy(inputs["b"]))


def torch_backward(inputs: Inputs) -> Call:
    import torch

    return backward(torch.tensor(inputs["a"], requires_grad=True), torch.from_numpy(inputs["b"]))


def jax_backward(inputs: Inputs) -> Call:
    import jax

    a, b = (jax.numpy.asarray(inputs[name]) for name in "ab")
    gradient = jax.grad(lambda a, b: (a * b).sum())
    return lambda: jax.block_until_ready(gradient(a, b))


WORKLOADS = [
    Workload("add_small", f"a + b of {COUNT} numbers, eagerly", inputs,
             {"fusewire eager": fusewire_add(False), "torch": torch_add(False), "jax": jax_add}),
    Workload("add_small_grad", "the same with a gradient to be taken later", inputs,
             {"fusewire eager": fusewire_add(True), "torch": torch_add(True)}),
    Workload("backward_small", "(a * b).sum().backward(), eagerly", inputs,
             {"fusewire eager": fusewire_backward, "torch": torch_backward, "jax": jax_backward}),
]
