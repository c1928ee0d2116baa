"""Makes the call of each library for a program. A library is imported when it is called."""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw

from ..comparison.onnx_peers import onnxruntime_call, openvino_call
from ..peers import arrays_of
from .namespaces import Fusewire, Jax, Torch
from .program import Array, Program

Call = Callable[[], Any]


def fusewire_call(program: Program) -> functools.partial[Any]:
    """The compiled function on tensors; `func` is the compiled function."""
    xp, function = Fusewire(), program.function
    weights = [fw.from_numpy(a) for a in program.weights]
    inputs = [fw.from_numpy(a) for a in program.inputs]
    if program.trained:
        step = fw.func.value_and_grad(lambda ws, *xs: function(xp, ws, *xs))
        return functools.partial(fw.compile(step), weights, *inputs)
    return functools.partial(fw.compile(lambda *xs: function(xp, weights, *xs)), *inputs)


def torch_call(program: Program, compiled: bool = False, wide: bool = False) -> Call:
    """The function of torch. `wide`: floats are float64."""
    import torch

    def tensor(a: Array) -> Any:
        return torch.from_numpy(a.astype(np.float64) if wide and a.dtype.kind == "f" else a.copy())

    xp, weights = Torch(), [tensor(a) for a in program.weights]
    inputs = [tensor(a) for a in program.inputs]
    if program.trained:
        function = _compiled(lambda: program.function(xp, weights, *inputs), compiled)
        for w in weights:
            w.requires_grad_()

        def step() -> Any:
            loss = function()
            return loss.detach(), torch.autograd.grad(loss, weights)

        return step
    function = _compiled(lambda *xs: program.function(xp, weights, *xs), compiled)

    def call() -> Any:
        with torch.no_grad() if compiled else torch.inference_mode():
            return function(*inputs)

    return call


def _compiled(function: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    import torch

    return torch.compile(function) if compiled else function


def jax_call(program: Program) -> Call:
    """The function of jax, which waits for its results."""
    import jax

    jax.config.update("jax_enable_x64", True)  # else float64 and int64 are converted
    xp, weights = Jax(), [jax.numpy.asarray(a) for a in program.weights]
    inputs = [jax.numpy.asarray(a) for a in program.inputs]

    def function(ws: Any, *xs: Any) -> Any:
        return program.function(xp, ws, *xs)

    jitted = jax.jit(jax.value_and_grad(function) if program.trained else function)
    return lambda: jax.block_until_ready(jitted(weights, *inputs))


@functools.lru_cache(maxsize=1)
def _onnx_of(program: Program) -> bytes:
    """The program as an ONNX model that torch exports, with the weights as constants."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = [torch.from_numpy(a.copy()) for a in program.weights]

        def forward(self, *xs: Any) -> Any:
            return program.function(Torch(), self.weights, *xs)

    if program.trained:
        raise NotImplementedError("an exported model has no gradients")
    inputs, out = tuple(torch.from_numpy(a.copy()) for a in program.inputs), io.BytesIO()
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        torch.onnx.export(Model().eval(), inputs, out, dynamo=False, opset_version=18,
                          input_names=[f"x{i}" for i in range(len(inputs))])
    return out.getvalue()


def _on_onnx(run: Callable[..., Call], program: Program) -> Call:
    """The exported model in a library that runs such models."""
    return run(_onnx_of(program), {f"x{i}": x for i, x in enumerate(program.inputs)})


PEERS: dict[str, Callable[[Program], Call]] = {
    "torch": torch_call, "torch.compile": functools.partial(torch_call, compiled=True),
    "jax": jax_call, "onnxruntime": functools.partial(_on_onnx, onnxruntime_call),
    "openvino": functools.partial(_on_onnx, openvino_call),
}


def reference(program: Program) -> list[Array]:
    """The results of torch in float64."""
    return arrays_of(torch_call(program, wide=True)())
