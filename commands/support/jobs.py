"""Defines the jobs of `fusewire bench`, each written for every library."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw

from ...eager.nn import functional as F

OURS = "fusewire"
LIBRARIES = (OURS, "numpy", "torch", "onnxruntime")

Arrays = tuple[np.ndarray[Any, Any], ...]
Call = Callable[[], Any]  # returns an array that NumPy can read


@dataclass(frozen=True)
class BenchJob:
    """A job: its arguments, and for each library a function that prepares a call with them."""

    about: str
    arrays: Callable[[np.random.Generator], Arrays]
    calls: Mapping[str, Callable[..., Call]]


def _compiled(function: Callable[..., Any]) -> Callable[..., Call]:
    def prepare(*arrays: np.ndarray[Any, Any]) -> Call:
        call, tensors = fw.compile(function), [fw.from_numpy(a) for a in arrays]
        for _ in range(2):  # trace and compile it
            call(*tensors)
        return lambda: call(*tensors)

    return prepare


def _plain(function: Callable[..., Any]) -> Callable[..., Call]:
    return lambda *arrays: lambda: function(*arrays)


def _torch(function: Callable[..., Any]) -> Callable[..., Call]:
    def prepare(*arrays: np.ndarray[Any, Any]) -> Call:
        import torch

        tensors = [torch.from_numpy(a) for a in arrays]
        return lambda: function(torch, *tensors)

    return prepare


def _session(function: Callable[..., Any]) -> Callable[..., Call]:
    def prepare(*arrays: np.ndarray[Any, Any]) -> Call:
        import onnxruntime

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "job.onnx"
            names = [f"x{i}" for i in range(len(arrays))]
            fw.onnx.export(function, tuple(map(fw.from_numpy, arrays)), file, input_names=names)
            session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        feed = dict(zip(names, arrays))
        return lambda: session.run(None, feed)[0]

    return prepare


def _normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Arrays]:
    def arrays(numbers: np.random.Generator) -> Arrays:
        return tuple(numbers.standard_normal(s, dtype=np.float32) / np.float32(np.sqrt(s[-1]))
                     for s in shapes)

    return arrays


def _job(about: str, arrays: Callable[[np.random.Generator], Arrays],
         ours: Callable[..., Any], numpys: Callable[..., Any],
         torchs: Callable[..., Any]) -> BenchJob:
    return BenchJob(about, arrays, {OURS: _compiled(ours), "numpy": _plain(numpys),
                                    "torch": _torch(torchs), "onnxruntime": _session(ours)})


# ---- the jobs

def _numpys_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _numpys_gelu(x: Any, bias: Any, residual: Any) -> Any:
    x = x + bias
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x))) + residual


def _gelu(x: Any, bias: Any, residual: Any) -> Any:
    return F.gelu(x + bias, approximate="tanh") + residual


def _torchs_gelu(torch: Any, x: Any, bias: Any, residual: Any) -> Any:
    return torch.nn.functional.gelu(x + bias, approximate="tanh") + residual


def _gradient(x: Any, first: Any, second: Any) -> Any:
    first = first.detach().requires_grad_()
    scores = fw.relu(x @ first) @ second
    return fw.grad((F.log_softmax(scores, -1) ** 2).sum(), first)[0]


def _torchs_gradient(torch: Any, x: Any, first: Any, second: Any) -> Any:
    first = first.detach().requires_grad_()
    scores = torch.relu(x @ first) @ second
    loss = (torch.nn.functional.log_softmax(scores, -1) ** 2).sum()
    return torch.autograd.grad(loss, first)[0]


JOBS = {
    "product": _job(
        "product of 512 by 512", _normal((512, 512), (512, 512)),
        lambda x, y: x @ y, lambda x, y: x @ y, lambda torch, x, y: x @ y),
    "softmax": _job(
        "softmax of 4096 rows of 512", _normal((4096, 512)),
        lambda x: F.softmax(x, -1), _numpys_softmax, lambda torch, x: torch.softmax(x, -1)),
    "gelu": _job(
        "bias, GELU and residual, 4096 by 512", _normal((4096, 512), (512,), (4096, 512)),
        _gelu, _numpys_gelu, _torchs_gelu),
    "network": _job(
        "a network 784-256-10 on 64 images", _normal((64, 784), (784, 256), (256, 10)),
        lambda x, first, second: fw.relu(x @ first) @ second,
        lambda x, first, second: np.maximum(x @ first, 0) @ second,
        lambda torch, x, first, second: torch.relu(x @ first) @ second),
    "gradient": BenchJob(
        "a gradient by that network's weights", _normal((64, 784), (784, 256), (256, 10)),
        {OURS: _compiled(_gradient), "torch": _torch(_torchs_gradient)}),
}
