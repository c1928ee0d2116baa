"""Rows of convolutions: every number of axes, and every way to say stride, padding and groups."""

from __future__ import annotations

from typing import Any

from inputs import x
from layers.row import layer

SPACE: dict[int, Any] = {1: (9,), 2: (6, 5), 3: (4, 5, 3)}
WAYS: tuple[dict[str, Any], ...] = (
    {}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2, "bias": False},
    {"groups": 2, "padding": 1}, {"padding": "same"}, {"padding": "valid"},
    {"padding": "same", "dilation": 2, "groups": 2})
for d, space in SPACE.items():
    for more in WAYS:
        layer(f"Conv{d}d", 4, 6, 2 if d == 3 else 3, **more, inputs=[x(2, 4, *space)], loose=8)
    layer(f"Conv{d}d", 4, 6, 2, padding="same", inputs=[x(2, 4, *space)], label="uneven", loose=8)
    layer(f"Conv{d}d", 4, 8, 2, groups=4, inputs=[x(2, 4, *space)], label="each channel", loose=8)
    layer(f"Conv{d}d", 4, 6, 2, inputs=[x(4, *space)], label="without samples", loose=8)
    for mode in ("reflect", "replicate", "circular"):
        for padding in (1, "same", "valid"):
            layer(f"Conv{d}d", 2, 3, 2, padding=padding, padding_mode=mode,
                  inputs=[x(2, 2, *space)], loose=8)
layer("Conv2d", 2, 3, (3, 2), stride=(2, 1), padding=(0, 1), dilation=(1, 2),
      inputs=[x(2, 2, 6, 5)], label="unequal", loose=8)
layer("Conv2d", 2, 3, 1, inputs=[x(2, 2, 6, 5)], label="points", loose=8)
layer("Conv2d", 2, 3, 1, stride=2, inputs=[x(2, 2, 6, 5)], label="every second point", loose=8)
layer("Conv2d", 4, 2, (3, 2), padding=(2, 1), padding_mode="circular", stride=2,
      inputs=[x(2, 4, 6, 5)], loose=8)

TRANSPOSED: tuple[dict[str, Any], ...] = (
    {}, {"stride": 2, "padding": 1}, {"stride": 2, "output_padding": 1, "bias": False},
    {"dilation": 2, "output_padding": 1}, {"groups": 2, "stride": 2, "padding": 1},
    {"stride": 3, "padding": 2, "output_padding": 2})
for d, space in SPACE.items():
    for more in TRANSPOSED:
        layer(f"ConvTranspose{d}d", 4, 6, 2 if d == 3 else 3, **more, inputs=[x(2, 4, *space)],
              loose=8)
    layer(f"ConvTranspose{d}d", 4, 8, 2, groups=4, inputs=[x(2, 4, *space)], label="each channel",
          loose=8)
    layer(f"ConvTranspose{d}d", 4, 6, 2, inputs=[x(4, *space)], label="without samples", loose=8)
    twice = [2 * n + 1 for n in space]
    for size in (twice, [2, 6, *twice]):
        layer(f"ConvTranspose{d}d", 4, 6, 2, stride=2, inputs=[x(2, 4, *space)],
              call=lambda lib, module, x, size=size: module(x, output_size=size),
              label=f"output_size={size}", loose=8)
layer("ConvTranspose2d", 2, 3, (3, 2), stride=(2, 1), padding=(0, 1), dilation=(1, 2),
      output_padding=(1, 0), inputs=[x(2, 2, 4, 5)], label="unequal", loose=8)
