"""Measures the overhead of a call of compiled code, and the first call.

"fusewire native" runs only the native program, on prepared arrays: the difference to "fusewire" is
Python. The first call is in the columns of cold times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import fusewire as fw
from fusewire.capture.replay.compiled_function import Compiled
from fusewire.codegen.compile import compile_graph

from ..peers import pure
from ..workload import Call, Inputs, Maker, Workload
from . import calls
from .weights import normal

LAYERS = 75  # of one weight and one bias, 150 parameters in all
BATCH = 4


class _Seen:
    """An executable that stores the arguments of its last call."""

    def __init__(self, graph: Any) -> None:
        self.executable = compile_graph(graph)
        self.arrays: list[Any] = []

    def __call__(self, arrays: list[Any]) -> list[Any]:
        self.arrays = list(arrays)
        return self.executable(arrays)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)


def native_call(function: Callable[..., Any], tensors: Sequence[fw.Tensor]) -> Call:
    """A call of only the native program of the compiled `function`."""
    made: list[_Seen] = []

    def backend(graph: Any) -> _Seen:
        made.append(_Seen(graph))
        return made[-1]

    compiled = Compiled(function, backend)
    for _ in range(2):
        compiled(*tensors)
    executable, arrays = made[-1].executable, made[-1].arrays
    arena, results = executable._take_arena(), executable(list(arrays))
    if executable._launch(arrays, results, arena):
        return functools.partial(executable._launch, arrays, results, arena)
    return functools.partial(executable.run, arrays, results, arena, executable.program.run)


class _Alone:
    """A call of the program; it returns the function's results, which are compared."""

    def __init__(self, function: Callable[..., Any], tensors: Sequence[fw.Tensor]) -> None:
        self._shown: Any = function(*tensors)
        self._call = native_call(function, tensors)

    def __call__(self) -> Any:
        self._call()
        return self._shown


def native(function_of: Callable[[Inputs], Callable[..., Any]], *names: str) -> Maker:
    def make(inputs: Inputs) -> Call:
        with fw.no_grad():
            return _Alone(function_of(inputs), [fw.from_numpy(inputs[name]) for name in names])

    return make


# ---- a model of many small parameters
def inputs() -> Inputs:
    weights = {f"{i}.{kind}": normal(2 * i + number, *shape, scale=0.9)
               for i in range(LAYERS)
               for number, (kind, shape) in enumerate({"weight": (1, 1), "bias": (1,)}.items())}
    return {"x": normal(500, BATCH, 1), "weights": weights}


def fusewire_model(inputs: Inputs) -> fw.nn.Module:
    model = fw.nn.Sequential(*(fw.nn.Linear(1, 1) for _ in range(LAYERS)))
    model.load_state_dict(inputs["weights"])
    return model.requires_grad_(False)


def fusewire_call(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> functools.partial[Any]:
        model = fusewire_model(inputs)
        run = fw.compile(model.forward) if compiled else model
        return functools.partial(run, fw.from_numpy(inputs["x"]))

    return make


def torch_call(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        model = torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(LAYERS)))
        model.load_state_dict({k: torch.tensor(v) for k, v in inputs["weights"].items()})
        model.requires_grad_(False)
        run, x = torch.compile(model) if compiled else model, torch.from_numpy(inputs["x"])
        return lambda: run(x)

    return make


def jax_call(inputs: Inputs) -> Call:
    import jax

    def model(weights: Any, x: Any) -> Any:
        for i in range(LAYERS):
            x = x @ weights[f"{i}.weight"].T + weights[f"{i}.bias"]
        return x

    run = jax.jit(model)
    weights, x = jax.tree.map(jax.numpy.asarray, (inputs["weights"], inputs["x"]))
    return lambda: jax.block_until_ready(run(weights, x))


WORKLOADS = [
    Workload(
        name="call_three",
        about="compiled a * b + c of 8 numbers: what a call costs beside its native program",
        inputs=calls.inputs,
        makers={**pure(calls.function, calls.factory, calls.factory),
                "fusewire native": native(lambda inputs: calls.function, *"abc")},
    ),
    Workload(
        name="call_150_parameters",
        about=f"{LAYERS} linear layers of one weight and one bias, batch {BATCH}",
        inputs=inputs,
        makers={"fusewire": fusewire_call(True), "fusewire eager": fusewire_call(False),
                "fusewire native": native(lambda inputs: fusewire_model(inputs).forward, "x"),
                "torch": torch_call(False), "torch.compile": torch_call(True),
                "jax.jit": jax_call},
    ),
]
