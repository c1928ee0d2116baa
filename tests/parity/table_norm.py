"""Normalization as functions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from inputs import given, x
from parity.entry import Table
from parity.functional import functions

import fusewire as fw

TABLE = Table("normalization")
layer = functions(TABLE)

# ---- over the last axes
layer("layer_norm", x(3, 4), args=((4,),), loose=8)
layer("layer_norm", x(3, 4), x(4), x(4), label="weight and bias", loose=8,
      ours=lambda a, w, b: fw.nn.functional.layer_norm(a, (4,), w, b),
      theirs=lambda a, w, b: F.layer_norm(a, (4,), w, b))
layer("layer_norm", x(2, 3, 4), x(3, 4), label="two axes", loose=8,
      ours=lambda a, w: fw.nn.functional.layer_norm(a, (3, 4), w, None, 0.1),
      theirs=lambda a, w: F.layer_norm(a, (3, 4), w, None, 0.1))
layer("layer_norm", x(3, 5, low=100, high=101), args=((5,),), label="far from 0", loose=200,
      kinds="f")
layer("layer_norm", given([2.0, 2, 2], [0, 0, 0]), args=((3,),), label="all the same", loose=8,
      kinds="f")
layer("rms_norm", x(3, 4), args=((4,),), loose=8)
layer("rms_norm", x(2, 3, 4), x(3, 4), label="weight", loose=8,
      ours=lambda a, w: fw.nn.functional.rms_norm(a, [3, 4], w, 1e-3),
      theirs=lambda a, w: F.rms_norm(a, [3, 4], w, 1e-3))
layer("rms_norm", given([0.0, 0, 0]), args=((3,),), label="zeros", kinds="f")

# ---- over groups and samples
for shape in ((2, 6), (2, 6, 3), (2, 6, 2, 3)):
    layer("group_norm", x(*shape), args=(2,), label=str(shape), loose=8)
layer("group_norm", x(2, 6, 4), x(6), x(6), label="weight and bias", loose=8,
      ours=lambda a, w, b: fw.nn.functional.group_norm(a, 3, w, b, 1e-3),
      theirs=lambda a, w, b: F.group_norm(a, 3, w, b, 1e-3))
for shape in ((2, 3, 4), (2, 3, 4, 2), (2, 1, 2, 3, 2)):
    layer("instance_norm", x(*shape), label=str(shape), loose=8)
layer("instance_norm", x(2, 3, 4), x(3), x(3), label="weight and bias", loose=8,
      ours=lambda a, w, b: fw.nn.functional.instance_norm(a, weight=w, bias=b, eps=1e-3),
      theirs=lambda a, w, b: F.instance_norm(a, weight=w, bias=b, eps=1e-3))


# ---- with running statistics, which are results too
def followed(name: str, a: Any, mean: Any, var: Any, *rest: Any, torch_: bool, **more: Any) -> Any:
    lib = F if torch_ else fw.nn.functional
    kept = [t.detach().clone() if torch_ else fw.tensor(t.detach()) for t in (mean, var)]
    out = getattr(lib, name)(a, *kept, *rest, **more)
    return (out, *kept)


def running(name: str, *inputs: Any, label: str, **more: Any) -> None:
    """An entry of `inputs`, then running statistics; not under transforms, which refuse changes."""
    layer(name, *inputs, label=label, loose=8, only=("values", "grad", "grad grad"),
          ours=lambda *a: followed(name, *a, torch_=False, **more),
          theirs=lambda *a: followed(name, *a, torch_=True, **more))


for shape in ((4, 3), (3, 3, 4), (2, 3, 4, 2), (2, 3, 2, 2, 3)):
    running("batch_norm", x(*shape), x(3), x(3, low=0.1), x(3), x(3), label=str(shape),
            training=True)
    running("batch_norm", x(*shape), x(3), x(3, low=0.1), x(3), x(3), label=f"{shape} in use")
running("batch_norm", x(4, 3), x(3), x(3, low=0.1), label="no weight", training=True, momentum=0.7,
        eps=1e-2)
running("batch_norm", x(4, 3), x(3), x(3, low=0.1), label="no weight, in use", eps=1e-2)
layer("batch_norm", x(4, 3, 2), args=(None, None), more={"training": True}, loose=8)
for use in (True, False):
    running("instance_norm", x(2, 3, 5), x(3), x(3, low=0.1), x(3), x(3),
            label=f"running statistics, use_input_stats={use}", use_input_stats=use, momentum=0.3)

# ---- over neighbouring channels, and along an axis
RESPONSES: list[tuple[Any, int, dict[str, Any]]] = [
    ((2, 5, 3), 3, {}), ((2, 6, 3, 2), 4, {"alpha": 0.5, "beta": 1.5, "k": 2}),
    ((1, 3, 2, 2, 2), 5, {"alpha": 1.0}), ((2, 4, 3), 1, {"alpha": 0.3})]
for shape, size, more in RESPONSES:
    layer("local_response_norm", x(*shape), args=(size,), more=more, loose=8)
for more in ({}, {"p": 1, "dim": 0}, {"p": 3.0, "dim": -1, "eps": 0.5}, {"p": float("inf")},
             {"dim": (0, 1)}):
    layer("normalize", x(3, 4), more=more, loose=8)
layer("normalize", x(3, 4), kinds="c", label="complex", loose=8)
layer("normalize", given([0.0, 0, 0], [3, 4, 0]), label="zeros", differs={
    "grad grad": "of the norm of zeros there is none"})
layer("normalize", x(3, 4), x(3, 4), label="out", only=("values",),
      ours=lambda a, b: fw.nn.functional.normalize(a, out=fw.zeros_like(b)),
      theirs=lambda a, b: F.normalize(a, out=torch.zeros_like(b)))
