"""What is compared of a row of the table of layers, each a function of the row.

As the columns of functions, they give the largest difference, and raise Difference.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
import torch
from layers.row import Layer, tensors_of
from parity.columns import DERIVED, Difference, backwards, compare
from parity.sides import OURS, THEIRS

import fusewire as fw

LIBRARIES = {"fusewire": fw, "torch": torch}
SAMPLES = 2000  # initial values of a parameter, drawn from new layers
CHANCE = 2.6  # in a Kolmogorov-Smirnov test: two equal distributions are this far apart once in 4e5


def equal(row: Layer, what: str, ours: Any, theirs: Any) -> float:
    """0, or Difference."""
    if ours != theirs:
        raise Difference(f"{row}: {what}\nours:   {ours}\ntheirs: {theirs}")
    return 0.0


# ---- what a layer is
def names(row: Layer) -> float:
    """Names, order, shapes and dtypes of parameters and buffers."""
    found = [[(kind, name, tuple(value.shape), side.dtype(value))
              for kind, held in (("state", module.state_dict().items()),
                                 ("parameter", module.named_parameters()),
                                 ("buffer", module.named_buffers())) for name, value in held]
             for side, module in ((OURS, row.make(fw)), (THEIRS, row.make(torch)))]
    return equal(row, "names in the state", *found)


def text(row: Layer) -> float:
    """What is printed of it."""
    return equal(row, "repr", repr(row.make(fw)), repr(row.make(torch)))


def signature(row: Layer) -> float:
    """Names, order and defaults of the arguments of the constructor and of forward."""
    for method in ("__init__", "forward"):
        found = [parameters_of(getattr(getattr(lib.nn, row.name), method)) for lib in (fw, torch)]
        equal(row, method, *found)
    return 0.0


DEPRECATED = ("size_average", "reduce", "_weight", "_freeze", "min_value", "max_value",
              "_stacklevel")


def parameters_of(method: Any) -> list[tuple[str, Any]]:
    """Names and defaults; functions as defaults by name."""
    if method is torch.nn.Module.__init__:  # takes anything, and raises an error for it
        method = fw.nn.Module.__init__
    every = inspect.signature(method).parameters.values()
    return [(p.name, getattr(p.default, "__name__", p.default)) for p in every
            if p.name not in DEPRECATED]


def initial(row: Layer) -> float | None:
    """Distributions of the initial values of each parameter."""
    torch.manual_seed(0)
    fw.manual_seed(0)
    counts = [p.size for p in row.make(fw).parameters()]
    if not counts:
        return None
    times = min(max(1, -(-SAMPLES // max(1, min(counts)))), 100)
    samples = []
    for side, lib in ((OURS, fw), (THEIRS, torch)):
        many = [[side.array(p).ravel() for p in row.make(lib).parameters()] for _ in range(times)]
        samples.append([np.concatenate(values) for values in zip(*many)])
    worst = 0.0
    for ours, theirs, (name, _) in zip(*samples, row.make(fw).named_parameters()):
        apart = distance(ours, theirs)
        worst = max(worst, apart)
        if apart > CHANCE * np.sqrt(2 / max(1, len(ours))):
            raise Difference(f"{row}: initial {name} ours: {told(ours)}, theirs: {told(theirs)}")
    return worst


def distance(a: Any, b: Any) -> float:
    """The largest difference of the distribution functions of two samples."""
    points = np.concatenate([a, b])
    below = [np.searchsorted(np.sort(s), points, "right") / max(1, len(s)) for s in (a, b)]
    return float(np.abs(below[0] - below[1]).max(initial=0.0))


def told(sample: Any) -> str:
    return f"mean {sample.mean():.3g}, deviation {sample.std():.3g}, {sample.min():.3g} to " \
           f"{sample.max():.3g}"


# ---- what it computes
def twins(row: Layer, dtype: str) -> tuple[Any, Any]:
    """The layer of both libraries with one state, ours loaded from theirs."""
    torch.manual_seed(1)
    theirs = row.make(torch).to(getattr(torch, dtype))
    ours = row.make(fw).to(dtype)
    ours.load_state_dict({k: v.numpy(force=True) for k, v in theirs.state_dict().items()})
    return (ours.eval(), theirs.eval()) if row.random else (ours, theirs)


def called(row: Layer, lib: Any) -> Any:
    """A function that runs the row in `lib`."""
    return functools.partial(row.run, lib=lib)


def values(row: Layer) -> float:
    """Results and buffers, in training, and after that in evaluation."""
    worst = 0.0
    for dtype in row.dtypes:
        arrays, pair = row.arrays(dtype), twins(row, dtype)
        for _ in ("training", "evaluation"):
            found = []
            for side, lib, module in zip((OURS, THEIRS), LIBRARIES.values(), pair):
                given = [side.tensor(a.copy()) for a in arrays]
                out = tensors_of(side.call(called(row, lib), module, *given))
                found.append(([side.array(t) for t in (*out, *module.buffers())],
                              [side.dtype(t) for t in out]))
                module.eval()
            (ours, mine), (theirs, other) = found
            equal(row, f"dtypes of results in {dtype}", mine, other)
            worst = max(worst, compare(row, f"the value in {dtype}", arrays, ours, theirs, dtype,
                                       1.0))
    return worst


def gradient(row: Layer, order: int = 1) -> float | None:
    """The gradient by inputs and parameters."""
    if not row.grad or (order == 2 and not row.second):
        return None
    worst = 0.0
    for dtype in row.dtypes if order == 1 else ("float64",):
        arrays, pair = row.arrays(dtype), twins(row, dtype)
        ours, theirs = (
            backwards(side, lambda *a, m=module, lib=lib: tensors_of(called(row, lib)(m, *a)),
                      arrays, order, list(module.parameters()))
            for side, lib, module in zip((OURS, THEIRS), LIBRARIES.values(), pair))
        what = f"{'first second'.split()[order - 1]} gradient in {dtype}"
        worst = max(worst, compare(row, what, arrays, ours, theirs, dtype, DERIVED))
    return worst


def second_gradient(row: Layer) -> float | None:
    """The gradient of the gradient."""
    return gradient(row, 2)


COLUMNS = {"names": names, "signature": signature, "repr": text, "initial": initial,
           "values": values, "grad": gradient, "grad grad": second_gradient}
