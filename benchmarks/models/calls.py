"""Makes the calls of a model in torch, in fusewire, and from the file that torch exports."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fusewire as fw

from ..comparison.row import Array, Call
from ..peers import arrays_of
from .catalogue import Inputs, Model

_HIDDEN = 1e-3  # parameters that are smaller hide the layers that they scale


class Named(torch.nn.Module):
    """A module whose arguments come in order, and whose results are the tensors to compare."""

    def __init__(self, model: Model, module: Any, names: list[str]) -> None:
        super().__init__()
        self.module, self.names, self.outputs = module, names, model.outputs

    def forward(self, *xs: Any) -> Any:
        if self.names == ["x"]:  # the argument of images has many names
            return self.outputs(self.module(*xs))
        return self.outputs(self.module(**dict(zip(self.names, xs))))


def torch_module(model: Model) -> Any:
    """The module, with random weights in the place of those that hide layers at first."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = model.make().eval()
    with torch.no_grad():
        for p in module.parameters():
            if p.ndim > 1 and p.numel() and float(p.abs().max()) < _HIDDEN:
                p.normal_(std=0.02)
    return module


def tensors(inputs: Inputs, wide: bool = False) -> list[Any]:
    """The inputs as tensors of torch; `wide`: floats are float64."""
    return [torch.from_numpy(a.astype(np.float64) if wide and a.dtype.kind == "f" else a)
            for a in inputs.values()]


def reference(net: Named, inputs: Inputs) -> list[Array]:
    """The results in float64."""
    with torch.inference_mode():
        return arrays_of(copy.deepcopy(net).double()(*tensors(inputs, True)))


def torch_call(net: Named, inputs: Inputs, compiled: bool = False) -> Call:
    """A call of the module, or of what torch.compile makes of it."""
    given, function = tensors(inputs), torch.compile(net) if compiled else net

    def call() -> Any:
        with torch.no_grad() if compiled else torch.inference_mode():
            return function(*given)

    return call


def exported(net: Named, inputs: Inputs, path: Path) -> Path:
    """The file of the exported model; one that is there already is kept."""
    if path.exists():
        return path
    logging.disable(logging.WARNING)
    given = {"input_names": [*inputs], "opset_version": 18}
    with warnings.catch_warnings(), torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(net, tuple(tensors(inputs)), path, dynamo=True, verbose=False,
                              external_data=False, **given)
        except Exception:  # some models are exported by the older exporter only
            torch.onnx.export(net, tuple(tensors(inputs)), path, dynamo=False, **given)
    return path


def loaded_call(path: Path, inputs: Inputs) -> functools.partial[Any]:
    """A call of the file in fusewire; `func` is the compiled function."""
    model = fw.onnx.load(path)
    model.requires_grad_(False)
    return _compiled(model.eval().forward, [a for n, a in inputs.items() if n in _names(path)])


def _names(path: Path) -> set[str]:
    """The inputs of a file; torch leaves out those that the model does not read."""
    import onnx

    return {i.name for i in onnx.load(path, load_external_data=False).graph.input}


def own_call(model: Model, module: Any, inputs: Inputs) -> functools.partial[Any]:
    """A call of fusewire's own model with the weights of the module."""
    assert model.ours is not None
    ours = model.ours(module).requires_grad_(False).eval()
    return _compiled(own_function(ours, [*inputs]), [*inputs.values()])


def own_function(ours: Any, names: list[str]) -> Callable[..., Any]:
    """The model as a function of tensors, with the first of its results."""
    by_name = isinstance(ours, fw.models.PretrainedModel)

    def function(*xs: Any) -> Any:
        out = ours(**dict(zip(names, xs))) if by_name else ours(*xs)
        return out[0] if isinstance(out, tuple) else out

    return function


def _compiled(function: Callable[..., Any], arrays: list[Array]) -> functools.partial[Any]:
    return functools.partial(fw.compile(function), *map(fw.from_numpy, arrays))
