"""Builds calls of each library. A library is imported when a workload needs it.

A function without arguments imports torch or jax and returns the function to call.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw

from . import place
from .workload import Inputs, Maker

Function = Callable[..., Any]


def installed(name: str) -> bool:
    """True if a library can be imported."""
    return importlib.util.find_spec(name) is not None


def present(peers: Iterable[str]) -> list[str]:
    """The peers whose library is installed."""
    return [p for p in peers if installed(p.split(".")[0])]


def pure(fusewire: Function, torch: Callable[[], Function], jax: Callable[[], Function],
         onnx: str = "", dtype: str = "") -> dict[str, Maker]:
    """Makers for functions of all inputs, in their order. `dtype`: converts the inputs. `onnx`: a
    graph in ONNX's text form."""
    made = {"fusewire": fusewire_maker(fusewire, True, dtype),
            "fusewire eager": fusewire_maker(fusewire, False, dtype),
            "torch": torch_maker(torch, False, dtype),
            "torch.compile": torch_maker(torch, True, dtype), "jax.jit": jax_maker(jax, dtype)}
    return made | (onnx_makers(onnx) if onnx else {})


def fusewire_maker(function: Function, compiled: bool, dtype: str = "") -> Maker:
    def make(inputs: Inputs) -> functools.partial[Any]:
        tensors = [_as(fw, fw.from_numpy(a), dtype) for a in inputs.values()]
        return functools.partial(fw.compile(function) if compiled else function, *tensors)

    return make


def _as(library: Any, x: Any, dtype: str) -> Any:
    """A tensor on the device of the workloads, converted to a dtype if one is named."""
    return place.moved(x.to(getattr(library, dtype)) if dtype else x)


def torch_gradients(factory: Callable[[], Function], names: str, compiled: bool) -> Maker:
    """A call of a function of the inputs with these one-letter names. It returns the result, and
    the gradients of all inputs for `dy`."""
    def make(inputs: Inputs) -> Callable[[], Any]:
        import torch

        given = [place.moved(torch.tensor(inputs[n])).requires_grad_() for n in names]
        dy, function = place.moved(torch.from_numpy(inputs["dy"])), factory()
        function = torch.compile(function) if compiled else function

        def call() -> Any:
            y = function(*given)
            return (y.detach(), *torch.autograd.grad(y, given, dy))

        return call

    return make


def torch_maker(factory: Callable[[], Function], compiled: bool, dtype: str = "") -> Maker:
    def make(inputs: Inputs) -> Callable[[], Any]:
        import torch

        function = factory()
        tensors = [_as(torch, torch.from_numpy(a), dtype) for a in inputs.values()]
        function = torch.compile(function) if compiled else function
        mode = torch.no_grad if compiled else torch.inference_mode

        def call() -> Any:
            with mode():
                return function(*tensors)

        return call

    return make


def jax_maker(factory: Callable[[], Function], dtype: str = "") -> Maker:
    def make(inputs: Inputs) -> Callable[[], Any]:
        import jax

        arrays = [jax.numpy.asarray(a, dtype or None) for a in inputs.values()]
        function, wait = jax.jit(factory()), place.unless_queued(jax.block_until_ready)
        return lambda: wait(function(*arrays))

    return make


def onnx_makers(graph: str, constants: Callable[[Inputs], Inputs] | None = None
                ) -> dict[str, Maker]:
    """Makers that run `graph` on the inputs it names; `constants` become part of the model.

    One passes onnxruntime's values, the other NumPy arrays. The sizes decide which is faster.
    """
    def make(inputs: Inputs, arrays: bool) -> Callable[[], Any]:
        import onnxruntime

        session = onnx_session(graph, constants(inputs) if constants else {})
        value_of = np.asarray if arrays else onnxruntime.OrtValue.ortvalue_from_numpy
        feed = {i.name: value_of(inputs[i.name]) for i in session.get_inputs()}
        run = session.run if arrays else session.run_with_ort_values
        return functools.partial(run, [o.name for o in session.get_outputs()], feed)

    return {"onnxruntime": functools.partial(make, arrays=False),
            "onnxruntime numpy": functools.partial(make, arrays=True)}


def onnx_session(graph: str, constants: Inputs) -> Any:
    """A session that runs `graph`; `constants` are part of the model."""
    return onnx_bytes_session(_onnx_model(graph, constants).SerializeToString())


def onnx_file(path: Path, inputs: Inputs) -> Callable[[], Any]:
    """A call of the model in a file, on the inputs that it names."""
    import onnxruntime

    session = onnx_bytes_session(path)
    feed = {i.name: onnxruntime.OrtValue.ortvalue_from_numpy(inputs[i.name])
            for i in session.get_inputs()}
    return functools.partial(session.run_with_ort_values,
                             [o.name for o in session.get_outputs()], feed)


def onnx_bytes_session(model: Path | bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = fw.get_num_threads()  # by default it takes one per core
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _onnx_model(graph: str, constants: Inputs) -> Any:
    import onnx.parser

    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]>\n{graph}')
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.ascontiguousarray(a), name)
        for name, a in constants.items())
    return model


def arrays_of(result: Any) -> list[np.ndarray]:
    """The results of a call of any library as NumPy arrays."""
    if isinstance(result, (list, tuple)):
        return [array for part in result for array in arrays_of(part)]
    if hasattr(result, "detach"):  # tensors of torch and of fusewire
        result = result.detach().cpu()
    if str(getattr(result, "dtype", "")) == "torch.bfloat16":  # NumPy has none
        result = result.float()
    return [np.asarray(result.numpy() if hasattr(result, "numpy") else result)]


def warm_up(variant: str) -> None:
    """Compiles a trivial function, so that imports do not count as a first call."""
    tiny = {"x": np.ones(4, np.float32)}
    if variant == "fusewire":
        call = fusewire_maker(lambda x: x + 1, True)(tiny)
        call(), call()
    elif variant == "torch.compile":
        torch_maker(lambda: lambda x: x + 1, True)(tiny)()
    elif variant == "jax.jit":
        jax_maker(lambda: lambda x: x + 1)(tiny)()
