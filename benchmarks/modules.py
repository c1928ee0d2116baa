"""Builds variants of models from one function of a library's modules, for fusewire and torch.

A model's inputs are arrays, and "weights" under the names of both libraries. jax has separate
functions of these weights; onnxruntime runs the export of fusewire.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw

from . import place
from .peers import fusewire_maker, onnx_file, torch_maker
from .training import torch_training, trainings
from .workload import Call, Inputs, Maker
from .workloads.weights import normal

Build = Callable[[Any], Any]            # of fusewire or torch itself, to a module
Scores = Callable[..., Any]             # a jax function of weights and arrays, which imports jax


def weights_of(build: Build, scale: float | None = None) -> Inputs:
    """Random weights and running statistics; matrices of `scale`, or scaled by what they sum."""
    state = build(fw).state_dict()
    return {name: _like(seed, name, tuple(array.shape), scale)
            for seed, (name, array) in enumerate(state.items()) if array.dtype.kind == "f"}


def _like(seed: int, name: str, shape: tuple[int, ...], scale: float | None) -> Any:
    if len(shape) > 1:
        return normal(seed, *shape, scale=scale or 1.0, fan_in=scale is None)
    near_zero = normal(seed, *shape, scale=0.05)
    if name.endswith("running_var"):
        return 1 + np.abs(near_zero)
    return 1 + near_zero if name.endswith("weight") else near_zero


def arguments(inputs: Inputs) -> Inputs:
    """The inputs without the weights."""
    return {name: array for name, array in inputs.items() if name != "weights"}


def loaded(build: Build, library: Any, inputs: Inputs, tensor: Callable[[Any], Any]) -> Any:
    """The model with its weights set."""
    model = build(library)
    given = {name: tensor(array) for name, array in inputs["weights"].items()}
    model.load_state_dict(given, strict=False)  # counts of batches are left out
    return place.moved(model)


def inferences(build: Build, jax: Scores, images: bool = False) -> dict[str, Maker]:
    """Makers of all variants of a model's answer to inputs; `images`: also channels last."""
    found = {"fusewire": functools.partial(_fusewire, build, True),
             "fusewire eager": functools.partial(_fusewire, build, False),
             "torch": functools.partial(_torch, build, False, False),
             "torch.compile": functools.partial(_torch, build, True, False),
             "jax.jit": functools.partial(_jax, jax)}
    if images:
        found["torch channels_last"] = functools.partial(_torch, build, False, True)
    return found | {"onnxruntime": functools.partial(_onnx, build)}


def _still(build: Build, inputs: Inputs) -> Any:
    return loaded(build, fw, inputs, fw.tensor).requires_grad_(False).eval()


def _fusewire(build: Build, compiled: bool, inputs: Inputs) -> Call:
    return fusewire_maker(_still(build, inputs).forward, compiled)(arguments(inputs))


def _torch(build: Build, compiled: bool, channels_last: bool, inputs: Inputs) -> Call:
    import torch

    model = loaded(build, torch, inputs, torch.tensor).requires_grad_(False).eval()
    given = arguments(inputs)
    if channels_last:  # only the first input has channels
        model = model.to(memory_format=torch.channels_last)
        x = place.moved(torch.from_numpy(given["x"]))
        first = x.contiguous(memory_format=torch.channels_last)
        return torch_maker(lambda: lambda *rest: model(first, *rest), False)(
            {name: array for name, array in given.items() if name != "x"})
    return torch_maker(lambda: model, compiled)(given)


def _jax(scores: Scores, inputs: Inputs) -> Call:
    import jax

    run, wait = jax.jit(scores), place.unless_queued(jax.block_until_ready)
    weights, *rest = jax.tree.map(jax.numpy.asarray,
                                  (inputs["weights"], *arguments(inputs).values()))
    return lambda: wait(run(weights, *rest))


def _onnx(build: Build, inputs: Inputs) -> Call:
    given = arguments(inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        fw.onnx.export(_still(build, inputs), tuple(map(fw.from_numpy, given.values())), path,
                       opset=20, input_names=list(given), verify=False)
        return onnx_file(path, given)


def model_trainings(build: Build, jax: Scores, optimizer: str, lr: float, images: bool = False
                    ) -> dict[str, Maker]:
    """Makers of all variants of a training step of a model that gives scores of classes."""
    def torch(inputs: Inputs) -> Any:
        import torch as library

        return build(library)

    def channels_last(inputs: Inputs) -> Any:
        import torch as library

        return build(library).to(memory_format=library.channels_last)

    made = trainings(lambda inputs: build(fw), torch,
                     lambda inputs: lambda w, x, key: jax(w, x), optimizer, lr)
    if images:
        made["torch channels_last"] = torch_training(channels_last, optimizer, lr, True, False)
    return made
