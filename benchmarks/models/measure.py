"""Measures one row: exports the model, checks the values of all libraries, and times them."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..comparison.onnx_peers import onnxruntime_call, openvino_call
from ..comparison.row import Array, Call, Row, WrongValues, agreeing, checked, timed
from ..peers import arrays_of
from ..run import error_of
from .calls import Named, exported, loaded_call, own_call, reference, torch_call, torch_module
from .catalogue import MODELS, Case, Inputs
from .training_steps import fusewire_step, targets, torch_step

_TOLERANCE = 5e-5    # the largest error beside the largest element of a result,
_TIMES_TORCH = 20.0  # and beside the error of torch
_LOSSES = 3          # of training that are compared
_SECONDS = 8.0       # of timing, for each row

PEERS = ("torch", "torch.compile", "onnxruntime", "openvino")


def measured(case: Case, peers: Sequence[str], rounds: int, folder: Path) -> Row:
    """The row of a case. `folder`: keeps exported files."""
    model = MODELS[case.name]
    module, inputs = torch_module(model), model.inputs(case.batch)
    net = Named(model, module, [*inputs]).eval()
    made = _training if case.mode == "train" else _inference
    return made(case, net, inputs, peers, functools.partial(timed, rounds=rounds,
                                                            budget=_SECONDS), folder)


def _inference(case: Case, net: Named, inputs: Inputs, peers: Sequence[str],
               timing: Callable[..., Row], folder: Path) -> Row:
    wanted = reference(net, inputs)
    limit = max(_TOLERANCE, _TIMES_TORCH * error_of(arrays_of(torch_call(net, inputs)()), wanted))
    path = folder / f"{case.name}_{case.batch}.onnx"
    if case.mode == "onnx" or {"onnxruntime", "openvino"} & {*peers}:
        exported(net, inputs, path)
    call = own_call(MODELS[case.name], net.module, inputs) if case.mode == "own" \
        else loaded_call(path, inputs)
    row = _row(case, checked(call, wanted, limit, str(case)))
    calls, row.notes = agreeing({p: m for p, m in {
        "torch": lambda: torch_call(net, inputs),
        "torch.compile": lambda: torch_call(net, inputs, compiled=True),
        "onnxruntime": lambda: onnxruntime_call(path, inputs),
        "openvino": lambda: openvino_call(path, inputs)}.items() if p in peers}, wanted)
    return timing(row, call, calls) if calls else row


def _row(case: Case, error: float) -> Row:
    kind = MODELS[case.name].kind
    return Row(f"{kind}, {case.mode}", f"{case.name}, batch {case.batch}", math.nan, {}, error)


def _training(case: Case, net: Named, inputs: Inputs, peers: Sequence[str],
              timing: Callable[..., Row], folder: Path) -> Row:
    wanted = targets(reference(net, inputs)[0].shape)
    step = fusewire_step(MODELS[case.name], net.module, inputs, wanted)

    def losses(call: Call) -> Array:
        return np.array([float(call()) for _ in range(_LOSSES)])

    right = losses(torch_step(copy.deepcopy(net), inputs, wanted, wide=True))
    usual = error_of([losses(torch_step(copy.deepcopy(net), inputs, wanted))], [right])
    error, limit = error_of([losses(step)], [right]), max(_TOLERANCE, _TIMES_TORCH * usual)
    if not error <= limit:
        raise WrongValues(f"{case}: losses differ by {error:.1e}, more than {limit:.1e}")
    row = _row(case, error)
    calls = {p: torch_step(copy.deepcopy(net), inputs, wanted, compiled=p != "torch")
             for p in ("torch", "torch.compile") if p in peers}
    return timing(row, step, calls) if calls else row


