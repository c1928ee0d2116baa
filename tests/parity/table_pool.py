"""Pooling as functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from inputs import distinct, given, made, x
from parity.entry import Table
from parity.functional import functions

import fusewire as fw

TABLE = Table("pooling")
layer = functions(TABLE)

INF, NAN = float("inf"), float("nan")
SPACES: dict[int, Any] = {1: distinct(2, 3, 9), 2: distinct(2, 2, 7, 6), 3: distinct(1, 2, 5, 4, 6)}
ALONE: dict[int, Any] = {1: distinct(3, 9), 2: distinct(2, 7, 6), 3: distinct(2, 5, 4, 6)}

# ---- the largest
MAX: tuple[dict[str, Any], ...] = (
    {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True}, {"kernel_size": 2, "dilation": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1, "return_indices": True},
    {"kernel_size": 2, "ceil_mode": True, "return_indices": True})
for d, space in SPACES.items():
    for more in MAX:
        layer(f"max_pool{d}d", space, more=more)
    layer(f"max_pool{d}d", ALONE[d], more={"kernel_size": 2, "return_indices": True},
          label="without samples")
    layer(f"max_pool{d}d_with_indices", space, args=(2, 1))
layer("max_pool2d", SPACES[2], args=((3, 2), (1, 2), (1, 0), (2, 1)), label="unequal")
layer("max_pool2d", distinct(1, 2, 7, 6), args=(2, 1), kinds="iu", label="integers")
layer("max_pool2d", given([[[1.0, 1, 0, 0], [1, 1, 0, 0]]]), args=(2,), label="ties")
layer("max_pool1d", given([[1.0, NAN, 2, 0, INF, -INF, NAN, NAN, -INF, -INF, -INF]]), grad=False,
      more={"kernel_size": 3, "stride": 2, "return_indices": True}, label="nan and inf")
layer("max_pool2d", given(np.full((1, 3, 3), -INF).tolist()), label="nothing but -inf", grad=False,
      more={"kernel_size": 3, "stride": 1, "padding": 1, "return_indices": True})


def unpooled(d: int, **more: Any) -> None:
    """An entry that puts distinct elements back, to the places that others were pooled from."""
    reference = np.asarray(SPACES[d].make(np.random.default_rng(0), np.dtype("f8")))

    def places(rng: Any, dtype: Any) -> Any:
        found = getattr(fw.nn.functional, f"max_pool{d}d_with_indices")
        return found(fw.from_numpy(reference), 2)[1].numpy()

    values = distinct(*places(None, None).shape)
    layer(f"max_unpool{d}d", values, made(places), args=(2,), more=more, only=(
        "values", "grad", "grad grad"))


for d, size in ((1, (9,)), (2, (7, 6)), (3, (5, 4, 6))):
    unpooled(d)
    unpooled(d, output_size=size)
unpooled(2, output_size=(2, 2, 7, 6))
layer("max_unpool2d", distinct(2, 2, 2), given([[0, 2], [8, 10]], [[5, 7], [13, 15]], dtype="i8"),
      args=(2,), label="without samples", only=("values", "grad"))

# ---- averages
AVG: tuple[dict[str, Any], ...] = (
    {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False})
LOW: dict[int, Any] = {1: x(2, 3, 8), 2: x(2, 2, 6, 7), 3: x(1, 2, 4, 5, 6)}
for d, space in LOW.items():
    for more in AVG:
        layer(f"avg_pool{d}d", space, more=more)
    layer(f"avg_pool{d}d", ALONE[d], args=(3, 1), label="without samples")
    if d > 1:
        layer(f"avg_pool{d}d", space, more={"kernel_size": 2, "divisor_override": 3})
        layer(f"avg_pool{d}d", space, more={
            "kernel_size": 3, "padding": 1, "ceil_mode": True, "divisor_override": -2})
layer("avg_pool2d", LOW[2], args=((3, 2), (1, 3), (1, 0)), label="unequal")
layer("avg_pool1d", given([[1.0, NAN, 2, 0, INF, -INF, 1, 2]]), args=(2, 1), grad=False,
      label="nan and inf")
POSITIVE: dict[int, Any] = {1: x(2, 3, 8, low=0.2), 2: x(2, 2, 6, 7, low=0.2),
                            3: x(1, 2, 4, 5, 6, low=0.2)}
for d, space in POSITIVE.items():
    for p, more in ((2, {}), (1.5, {"stride": 1}), (3.0, {"ceil_mode": True})):
        layer(f"lp_pool{d}d", space, args=(p, 3), more=more, loose=8)
layer("lp_pool2d", x(2, 6, 5), args=(2, (2, 3)), label="without samples", loose=8)

# ---- windows that follow from the sizes
ADAPTIVE: dict[int, Any] = {1: (3, 4, 8, 11, 1), 2: (3, 1, (2, 5), (None, 3), 9),
                            3: (2, 3, (None, 1, 4))}
for d, sizes in ADAPTIVE.items():
    for size in sizes:
        layer(f"adaptive_avg_pool{d}d", LOW[d], args=(size,))
        layer(f"adaptive_max_pool{d}d", SPACES[d], args=(size,))
        layer(f"adaptive_max_pool{d}d", SPACES[d], args=(size, True))
    layer(f"adaptive_max_pool{d}d_with_indices", SPACES[d], args=(2,))
    layer(f"adaptive_avg_pool{d}d", ALONE[d], args=(2,), label="without samples")
    layer(f"adaptive_max_pool{d}d", ALONE[d], args=(2, True), label="without samples")
layer("adaptive_max_pool1d", given([[1.0, NAN, 2, 0, INF, -INF, NAN, NAN, -INF, -INF, -INF]]),
      args=(4, True), grad=False, label="nan and inf")
layer("adaptive_avg_pool1d", given([[1.0, NAN, 2, 0, INF, -INF, 1.0, 2.0, 3.0, 4.0, 5.0]]),
      args=(4,), grad=False, label="nan and inf")


# ---- windows at random places, which are given
def fractional(d: int, samples: Any, *args: Any, label: str = "", alone: bool = False,
               **more: Any) -> None:
    """An entry with `_random_samples` that are no input to be differentiated by."""
    name, drawn = f"fractional_max_pool{d}d", np.random.default_rng(d).random(samples)

    def of(lib: Any, tensor: Any) -> Any:
        def call(a: Any) -> Any:
            u = tensor(drawn)
            u = u.astype(a.dtype) if tensor is fw.from_numpy else u.to(a.dtype)
            return getattr(lib, name)(a, *args, **more, _random_samples=u)

        return call

    layer(name, (ALONE if alone else SPACES)[d], ours=of(fw.nn.functional, fw.from_numpy),
          theirs=of(F, torch.from_numpy), kinds="f", label=label or f"{args} {more}")


fractional(2, (2, 2, 2), 2, 3)
fractional(2, (2, 2, 2), (2, 3), output_ratio=(0.6, 0.5), return_indices=True)
fractional(2, (2, 2, 2), 3, (5, 1))
fractional(2, (1, 2, 2), 2, 4, alone=True, label="without samples")
fractional(3, (1, 2, 3), 2, (3, 2, 4))
fractional(3, (1, 2, 3), (1, 2, 3), output_ratio=0.5, return_indices=True)
for d in (2, 3):
    name = f"fractional_max_pool{d}d_with_indices"
    layer(name, SPACES[d], grad=False, kinds="f", label="the sizes",
          ours=lambda a, n=name: fw.tensor(getattr(fw.nn.functional, n)(a, 2, 2)[1].shape),
          theirs=lambda a, n=name: torch.tensor(getattr(F, n)(a, 2, 2)[1].shape),
          only=("values",))
