"""Convolutions and functions of images."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from inputs import x
from parity.entry import Table
from parity.functional import functions

TABLE = Table("convolution")
IMAGES = Table("images")
layer, image = functions(TABLE), functions(IMAGES)

# ---- convolution
SPACE: dict[int, Any] = {1: (9,), 2: (6, 5), 3: (4, 5, 3)}
WAYS: tuple[dict[str, Any], ...] = (
    {}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"padding": "same"},
    {"padding": "same", "dilation": 2}, {"stride": 3, "padding": "valid"}, {"stride": (2,)})
GROUPED: tuple[dict[str, Any], ...] = (
    {}, {"stride": 2, "padding": 1}, {"padding": "same"}, {"dilation": 2, "padding": 1})
for d, space in SPACE.items():
    k, name = (2 if d == 3 else 3,) * d, f"conv{d}d"
    for more in WAYS:
        layer(name, x(2, 3, *space), x(4, 3, *k), x(4), more=more, loose=20)
    for more in GROUPED:
        layer(name, x(2, 4, *space), x(6, 2, *k), x(6), more={"groups": 2, **more}, loose=20)
        layer(name, x(2, 4, *space), x(8, 1, *k), x(8), more={"groups": 4, **more}, loose=20)
    layer(name, x(2, 3, *space), x(3, 1, *k), more={"groups": 3}, label="each channel", loose=20)
    layer(name, x(2, 3, *space), x(4, 3, *[2] * d), more={"padding": "same"}, label="uneven",
          loose=20)
    layer(name, x(3, *space), x(4, 3, *k), x(4), label="without samples", loose=20)
    layer(name, x(4, *space), x(4, 2, *k), more={"groups": 2}, label="groups without samples",
          loose=20)
    layer(name, x(2, 3, *space), x(4, 3, *[1] * d), x(4), label="points", loose=20)
    layer(name, x(2, 3, *space), x(4, 3, *[1] * d), more={"stride": 2, "padding": 1},
          label="every second point", loose=20)
    layer(name, x(2, 4, *space), x(4, 2, *k), x(4), kinds="c", more={"groups": 2}, loose=20,
          label="complex")
    layer(name, x(2, 3, *space), x(4, 3, *k), kinds="i", label="integers")
    layer(name, x(0, 3, *space), x(4, 3, *k), x(4), label="no samples")
layer("conv2d", x(2, 3, 6, 7), x(4, 3, 3, 2), args=(None, (2, 1), (1, 0), (1, 2)),
      label="unequal", loose=20)
layer("conv_tbc", x(5, 2, 3), x(3, 3, 4), x(4), args=(1,), loose=20)

# ---- transposed convolution
TRANSPOSED: tuple[dict[str, Any], ...] = (
    {}, {"stride": 2, "padding": 1}, {"stride": 2, "output_padding": 1}, {"dilation": 2},
    {"dilation": 2, "output_padding": 1}, {"stride": 3, "padding": 1, "output_padding": 2},
    {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2})
for d, space in SPACE.items():
    k, name = (2 if d == 3 else 3,) * d, f"conv_transpose{d}d"
    for more in TRANSPOSED:
        filters = 4 // more.get("groups", 1)
        layer(name, x(2, 4, *space), x(4, filters, *k), x(4), more=more, loose=20)
    layer(name, x(2, 4, *space), x(4, 2, *k), x(8), more={"groups": 4, "stride": 2},
          label="each channel", loose=20)
    layer(name, x(3, *space), x(3, 4, *k), x(4), label="without samples", loose=20)
    layer(name, x(2, 3, *space), x(3, 4, *[1] * d), x(4), label="points", loose=20)
    layer(name, x(2, 4, *space), x(4, 2, *k), x(4), kinds="c", more={"groups": 2}, loose=20,
          label="complex")
    layer(name, x(0, 3, *space), x(3, 4, *k), x(4), label="no samples")
layer("conv_transpose2d", x(2, 3, 4, 5), x(3, 4, 3, 2),
      args=(None, (2, 1), (1, 0), (1, 0), 1, (1, 2)), label="unequal", loose=20)

# ---- padding
image("pad", x(2, 3, 5), args=((1, 2),), more={"value": 0.5})
image("pad", x(1, 2, 4, 5), args=((1, -1, 0, 2),))
image("pad", x(4, 5), args=((0, 0, 1, 2),), kinds="fhciub")
for mode in ("reflect", "replicate", "circular"):
    image("pad", x(2, 3, 5), args=((1, 2),), more={"mode": mode})
    image("pad", x(3, 5), args=((1, 2),), more={"mode": mode}, label=f"{mode} without samples")
    image("pad", x(1, 2, 4, 5), args=((1, 2, 2, 1),), more={"mode": mode})
    image("pad", x(1, 2, 3, 4, 5), args=((1, 2, 2, 1, 1, 0),), more={"mode": mode})
    image("pad", x(2, 3, 6), args=((-1, 2),), more={"mode": mode}, label=f"{mode} and cut")
    image("pad", x(2, 3, 6), args=((2, -2),), more={"mode": mode}, label=f"{mode} and cut, end")

# ---- other sizes
for more in ({"size": 7, "mode": "nearest"}, {"scale_factor": 2, "mode": "linear"},
             {"size": 4, "mode": "linear", "align_corners": True}, {"size": 3, "mode": "area"},
             {"scale_factor": 0.6, "mode": "linear"}, {"scale_factor": [1.7]}):
    image("interpolate", x(2, 3, 5), more=more, loose=8)
for more in ({"scale_factor": 2, "mode": "nearest"}, {"size": (3, 9), "mode": "nearest-exact"},
             {"size": (6, 3), "mode": "bilinear"}, {"size": (3, 2), "mode": "area"},
             {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
             {"size": (7, 6), "mode": "bicubic"}, {"scale_factor": 1.5, "mode": "bicubic"},
             {"size": (7, 6), "mode": "bicubic", "align_corners": True},
             {"scale_factor": (0.5, 1.4), "mode": "bilinear"},
             {"scale_factor": 1.4, "mode": "bilinear", "recompute_scale_factor": True}):
    image("interpolate", x(1, 2, 4, 5), more=more, loose=8)
for mode in ("bilinear", "bicubic"):
    for more in ({"size": (3, 4)}, {"size": (9, 2)}, {"scale_factor": 0.4}, {"size": (13, 14)},
                 {"size": (3, 4), "align_corners": True}, {"scale_factor": (1.3, 0.7)}):
        image("interpolate", x(1, 2, 9, 11), loose=20, kinds="f",
              more={"mode": mode, "antialias": True, **more})
image("interpolate", x(1, 2, 3, 4, 2), more={"scale_factor": 2, "mode": "trilinear"}, loose=8)
image("interpolate", x(1, 2, 3, 4, 2), more={"size": (2, 5, 3), "mode": "nearest"})

# ---- sampling at places
for padding in ("zeros", "border", "reflection"):
    for align in (False, True):
        how = {"padding_mode": padding, "align_corners": align}
        for mode in ("bilinear", "nearest", "bicubic"):
            image("grid_sample", x(2, 2, 4, 5), x(2, 3, 3, 2, low=-1.4, high=1.4), loose=40,
                  more={"mode": mode, **how}, kinds="f")
        for mode in ("bilinear", "nearest"):
            image("grid_sample", x(2, 2, 3, 4, 5), x(2, 2, 3, 2, 3, low=-1.4, high=1.4), loose=40,
                  more={"mode": mode, **how}, kinds="f", label=f"{mode} {padding} {align}, 3 axes")
for align in (False, True):
    image("affine_grid", x(2, 2, 3), args=((2, 1, 3, 4),), more={"align_corners": align})
    image("affine_grid", x(2, 3, 4), args=((2, 1, 3, 4, 2),), more={"align_corners": align})

# ---- windows as columns, channels and pixels
image("unfold", x(2, 3, 5, 6), args=(3,), more={"padding": 1, "stride": 2})
image("unfold", x(2, 3, 5, 6), args=((2, 3), (1, 2), (1, 2), (2, 1)))
image("unfold", x(3, 5, 6), args=(2,), label="without samples")
image("fold", x(2, 12, 12), args=((4, 5), 2))
image("fold", x(2, 12, 18), args=((5, 6), (2, 3), (1, 2), (1, 2), (2, 1)))
image("fold", x(12, 12), args=((4, 5), 2), label="without samples")
image("pixel_shuffle", x(2, 8, 2, 3), args=(2,))
image("pixel_shuffle", x(9, 2, 3), args=(3,))
image("pixel_unshuffle", x(2, 2, 4, 6), args=(2,))
for name in ("channel_shuffle", "native_channel_shuffle"):
    image(name, x(2, 6, 3, 4), args=(3,), kinds="fi",
          theirs=lambda a: F.channel_shuffle(a, 3))
image("channel_shuffle", x(2, 6, 3), args=(2,))
