"""Makes the call of each library for a program. A library is imported when it is called."""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw

from ..peers import arrays_of, installed, onnx_bytes_session
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


def onnxruntime_call(program: Program) -> Call:
    """The exported model in onnxruntime."""
    import onnxruntime

    session = onnx_bytes_session(_onnx_of(program))
    feed = {i.name: onnxruntime.OrtValue.ortvalue_from_numpy(program.inputs[int(i.name[1:])])
            for i in session.get_inputs()}
    return functools.partial(session.run_with_ort_values,
                             [o.name for o in session.get_outputs()], feed)


def openvino_call(program: Program) -> Call:
    """The exported model in OpenVINO, in float32."""
    import openvino

    core = openvino.Core()
    model = core.read_model(io.BytesIO(_onnx_of(program)))
    request = core.compile_model(model, "CPU", {
        "INFERENCE_NUM_THREADS": str(fw.get_num_threads()), "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY"}).create_infer_request()
    feed = {next(iter(i.names)): program.inputs[int(next(iter(i.names))[1:])]
            for i in model.inputs}

    def call() -> list[Array]:
        found = request.infer(feed, share_inputs=True, share_outputs=True)
        return [found[i] for i in range(len(model.outputs))]

    return call


PEERS: dict[str, Callable[[Program], Call]] = {
    "torch": torch_call, "torch.compile": functools.partial(torch_call, compiled=True),
    "jax": jax_call, "onnxruntime": onnxruntime_call, "openvino": openvino_call,
}


def reference(program: Program) -> list[Array]:
    """The results of torch in float64."""
    return arrays_of(torch_call(program, wide=True)())


def present(peers: list[str]) -> list[str]:
    """The peers whose library is installed."""
    return [p for p in peers if installed(p.split(".")[0])]
