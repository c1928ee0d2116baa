"""Rows of pooling layers: every number of axes, and every way to say windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from inputs import distinct, made, x
from layers.row import layer

SPACE: dict[int, Any] = {1: (9,), 2: (7, 6), 3: (5, 4, 6)}
SIZES: dict[int, Any] = {1: (3, 4, 1), 2: (3, (2, 5), (None, 4), 1), 3: (2, (3, None, 1))}
WINDOWS: tuple[dict[str, Any], ...] = (
    {}, {"stride": 1, "padding": 1}, {"stride": 2, "padding": 1, "ceil_mode": True})
for d, space in SPACE.items():
    apart, low, positive = (f(2, 3, *space) for f in (
        distinct, x, lambda *shape: x(*shape, low=0.2)))
    for more in (*WINDOWS, {"dilation": 2}, {"return_indices": True}):
        layer(f"MaxPool{d}d", 3 if "padding" in more else 2, **more, inputs=[apart])
    for more in (*WINDOWS, {"stride": 2, "padding": 1, "count_include_pad": False}):
        layer(f"AvgPool{d}d", 3, **more, inputs=[low])
    if d > 1:
        layer(f"AvgPool{d}d", 2, divisor_override=3, inputs=[low])
    for p, more in ((2, {}), (1.5, {"stride": 2, "ceil_mode": True})):
        layer(f"LPPool{d}d", p, 3, **more, inputs=[positive], loose=8)
    for size in SIZES[d]:
        layer(f"AdaptiveAvgPool{d}d", size, inputs=[low])
        layer(f"AdaptiveMaxPool{d}d", size, inputs=[apart])
        layer(f"AdaptiveMaxPool{d}d", size, return_indices=True, inputs=[apart])
    for name, args in (("MaxPool", (2,)), ("AvgPool", (2,)), ("AdaptiveAvgPool", (2,)),
                       ("AdaptiveMaxPool", (2,))):
        layer(f"{name}{d}d", *args, inputs=[distinct(3, *space)], label="without samples")
layer("MaxPool2d", (3, 2), stride=(2, 1), padding=(1, 0), inputs=[distinct(2, 2, 7, 6)],
      label="unequal")
layer("AvgPool2d", (3, 2), stride=(2, 1), padding=(1, 0), inputs=[x(2, 2, 7, 6)], label="unequal")


def places(*shape: int, below: int) -> Any:
    """Places in space, each once in its plane."""
    def make(rng: Any, dtype: Any) -> Any:
        count = int(np.prod(shape[2:]))
        each = [rng.permutation(below)[:count] for _ in range(shape[0] * shape[1])]
        return np.stack(each).reshape(shape)

    return made(make)


layer("MaxUnpool1d", 2, inputs=[distinct(2, 3, 4), places(2, 3, 4, below=8)])
layer("MaxUnpool2d", 3, stride=2, padding=1, inputs=[distinct(2, 2, 3, 4),
                                                     places(2, 2, 3, 4, below=35)])
layer("MaxUnpool2d", 2, options={"output_size": (7, 9)}, label="output_size",
      inputs=[distinct(2, 2, 3, 4), places(2, 2, 3, 4, below=63)])
layer("MaxUnpool3d", (1, 2, 2), inputs=[distinct(1, 2, 2, 2, 3), places(1, 2, 2, 2, 3, below=48)])

RANDOM = np.random.default_rng(0).random((2, 3, 3))
layer("FractionalMaxPool2d", 2, 3, inputs=[distinct(2, 3, 7, 6)], _random_samples=RANDOM[..., :2])
layer("FractionalMaxPool2d", (2, 3), output_ratio=(0.6, 0.5), return_indices=True,
      inputs=[distinct(2, 3, 7, 6)], _random_samples=RANDOM[..., 1:])
layer("FractionalMaxPool3d", 2, (3, 2, 4), inputs=[distinct(2, 3, 5, 4, 6)],
      _random_samples=RANDOM)
