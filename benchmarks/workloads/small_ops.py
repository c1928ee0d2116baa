"""Ops on eight numbers, for a library's overhead per op, and per compiled gradient."""

from __future__ import annotations

import functools
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


def dot(a: Any, b: Any) -> Any:
    return (a * b).sum()


def backward(product: Any, a: Any, b: Any) -> Any:
    """The gradient of a tensor of torch or fusewire, from its `grad`, after a backward."""
    a.grad = None
    product(a, b).backward()
    return a.grad


def fusewire_backward(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        a, b = fw.tensor(inputs["a"], requires_grad=True), fw.from_numpy(inputs["b"])
        return functools.partial(fw.compile(backward) if compiled else backward, dot, a, b)

    return make


def torch_backward(compiled: bool) -> Maker:
    """The gradient in torch. `compiled`: compiles the forward, which compiles the backward, too."""
    def make(inputs: Inputs) -> Call:
        import torch

        a, b = torch.tensor(inputs["a"], requires_grad=True), torch.from_numpy(inputs["b"])
        return functools.partial(backward, torch.compile(dot) if compiled else dot, a, b)

    return make


def jax_backward(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import jax

        a, b = (jax.numpy.asarray(inputs[name]) for name in "ab")
        gradient = jax.jit(jax.grad(dot)) if compiled else jax.grad(dot)
        return lambda: jax.block_until_ready(gradient(a, b))

    return make


WORKLOADS = [
    Workload("add_small", f"a + b of {COUNT} numbers, eagerly", inputs,
             {"fusewire eager": fusewire_add(False), "torch": torch_add(False), "jax": jax_add}),
    Workload("add_small_grad", "the same with a gradient to be taken later", inputs,
             {"fusewire eager": fusewire_add(True), "torch": torch_add(True)}),
    Workload("backward_small", f"(a * b).sum().backward() of {COUNT} numbers", inputs,
             {"fusewire": fusewire_backward(True), "fusewire eager": fusewire_backward(False),
              "torch": torch_backward(False), "torch.compile": torch_backward(True),
              "jax": jax_backward(False), "jax.jit": jax_backward(True)}),
]
