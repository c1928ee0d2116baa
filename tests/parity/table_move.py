"""Functions that move elements: shapes, axes, joining, indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from inputs import bools, given, ints, x
from parity.entry import Table

import fusewire as fw

TABLE = Table("moving elements")
ALL = "fhciub"


def move(name: str, *inputs: Any, ours: Any, theirs: Any, label: str = "", kinds: str = ALL,
         **how: Any) -> None:
    """An entry in every dtype: only places matter."""
    TABLE(name, *inputs, ours=ours, theirs=theirs, label=label, kinds=kinds, **how)


# ---- shapes and axes
for shape in ((4, 6), (-1,), (2, 1, -1)):
    move("reshape", x(2, 3, 4), label=f"{shape}", ours=lambda a, s=shape: fw.reshape(a, s),
         theirs=lambda a, s=shape: torch.reshape(a, s))
for axes in ((2, 0, 1), (1, 0, 2), (0, 1, 2)):
    move("permute_dims", x(2, 3, 4), label=f"{axes}", ours=lambda a, d=axes: fw.permute_dims(a, d),
         theirs=lambda a, d=axes: torch.permute(a, d))
move("transpose", x(2, 3, 4), ours=lambda a: fw.transpose(a, 0, 2),
     theirs=lambda a: torch.transpose(a, 0, 2))
move("matrix_transpose", x(2, 3, 4), ours=lambda a: fw.matrix_transpose(a), theirs=lambda a: a.mT)
move("moveaxis", x(2, 3, 4), ours=lambda a: fw.moveaxis(a, 0, -1),
     theirs=lambda a: torch.moveaxis(a, 0, -1))
move("moveaxis", x(2, 3, 4), ours=lambda a: fw.moveaxis(a, (0, 1), (2, 0)), label="two",
     theirs=lambda a: torch.moveaxis(a, (0, 1), (2, 0)))
move("expand_dims", x(2, 3), ours=lambda a: fw.expand_dims(a, axis=1),
     theirs=lambda a: torch.unsqueeze(a, 1))
move("squeeze", x(2, 1, 3, 1), ours=lambda a: fw.squeeze(a, axis=(1, 3)),
     theirs=lambda a: torch.squeeze(a, (1, 3)))
move("flatten", x(2, 3, 4), ours=lambda a: fw.flatten(a, 1), theirs=lambda a: torch.flatten(a, 1))
move("broadcast_to", x(3, 1), ours=lambda a: fw.broadcast_to(a, (2, 3, 4)),
     theirs=lambda a: torch.broadcast_to(a, (2, 3, 4)))
move("broadcast_arrays", x(3, 1), x(4), ours=lambda *a: fw.broadcast_arrays(*a),
     theirs=torch.broadcast_tensors)
for axis in (None, 1, (0, 2)):
    axes = [0, 1, 2] if axis is None else np.atleast_1d(axis).tolist()
    move("flip", x(2, 3, 4), label=f"axis={axis}", ours=lambda a, d=axis: fw.flip(a, axis=d),
         theirs=lambda a, d=axes: torch.flip(a, d))
for shift, axis in ((2, None), (-1, 1), ((1, 2), (0, 2))):
    move("roll", x(2, 3, 4), label=f"{shift}, axis={axis}",
         ours=lambda a, s=shift, d=axis: fw.roll(a, s, axis=d),
         theirs=lambda a, s=shift, d=axis: torch.roll(a, s, d))
move("tile", x(2, 3), ours=lambda a: fw.tile(a, (2, 1, 3)),
     theirs=lambda a: torch.tile(a, (2, 1, 3)))
move("repeat", x(2, 3), ours=lambda a: fw.repeat(a, 3, axis=1),
     theirs=lambda a: torch.repeat_interleave(a, 3, 1))
move("repeat", x(2, 3), ours=lambda a: fw.repeat(a, 2), label="flat",
     theirs=lambda a: torch.repeat_interleave(a, 2))
move("repeat", x(2, 3), ours=lambda a: fw.repeat(a, fw.tensor([2, 0, 3]), axis=1),
     label="by tensor", theirs=lambda a: torch.repeat_interleave(a, torch.tensor([2, 0, 3]), 1))

# ---- joining and taking apart
for axis in (0, -1):
    move("concat", x(2, 3), x(2, 3), x(2, 3), label=f"axis={axis}",
         ours=lambda *a, d=axis: fw.concat(a, axis=d),
         theirs=lambda *a, d=axis: torch.concat(a, d))
    move("stack", x(2, 3), x(2, 3), label=f"axis={axis}",
         ours=lambda *a, d=axis: fw.stack(a, axis=d),
         theirs=lambda *a, d=axis: torch.stack(a, d))
    move("unstack", x(2, 3), label=f"axis={axis}", ours=lambda a, d=axis: fw.unstack(a, axis=d),
         theirs=lambda a, d=axis: torch.unbind(a, d))
for other in ("f8", "i8", "u1"):
    move("concat", x(2, 3), x(1, 3, low=0, dtype=np.dtype(other)), label=f"and {other}",
         kinds="fciu", ours=lambda *a: fw.concat(a), theirs=lambda *a: torch.concat(a))
move("concat", x(2, 3), x(4), label="axis=None", ours=lambda *a: fw.concat(a, axis=None),
     theirs=lambda a, b: torch.concat([a.flatten(), b]))
for sizes in (2, [1, 4, 2]):
    move("split", x(7, 2), label=f"{sizes}", ours=lambda a, s=sizes: fw.split(a, s),
         theirs=lambda a, s=sizes: torch.split(a, s))
move("split", x(2, 7), label="axis", ours=lambda a: fw.split(a, 3, 1),
     theirs=lambda a: torch.split(a, 3, 1))
move("chunk", x(2, 7), ours=lambda a: fw.chunk(a, 3, 1), theirs=lambda a: torch.chunk(a, 3, 1))
move("meshgrid", x(2), x(3), ours=lambda *a: fw.meshgrid(*a, indexing="ij"), label="ij",
     theirs=lambda *a: torch.meshgrid(*a, indexing="ij"))
move("meshgrid", x(2), x(3), ours=lambda *a: fw.meshgrid(*a), label="xy",
     theirs=lambda *a: torch.meshgrid(*a, indexing="xy"))
for name in ("hstack", "vstack"):
    move(name, x(2, 3), x(2, 3), ours=lambda *a, n=name: getattr(fw, n)(a),
         theirs=lambda *a, n=name: getattr(torch, n)(a))
    move(name, x(3), x(3), label="vectors", ours=lambda *a, n=name: getattr(fw, n)(a),
         theirs=lambda *a, n=name: getattr(torch, n)(a))
for parts in (3, (1, 4)):
    move("tensor_split", x(2, 7), label=f"{parts}",
         ours=lambda a, p=parts: fw.tensor_split(a, p, 1),
         theirs=lambda a, p=parts: torch.tensor_split(a, p, 1))
move("unflatten", x(2, 6), ours=lambda a: fw.unflatten(a, 1, (2, -1)),
     theirs=lambda a: torch.unflatten(a, 1, (2, -1)))
for n in (1, 2, 3):
    for shape in ((), (3,), (2, 3)):
        move(f"atleast_{n}d", x(*shape), label=f"{shape}",
             ours=lambda a, n=n: getattr(fw, f"atleast_{n}d")(a),
             theirs=lambda a, n=n: getattr(torch, f"atleast_{n}d")(a))


# ---- triangles and diagonals
for k in (0, 1, -2):
    for name in ("tril", "triu"):
        move(name, x(2, 3, 4), label=f"k={k}", ours=lambda a, n=name, k=k: getattr(fw, n)(a, k=k),
             theirs=lambda a, n=name, k=k: getattr(torch, n)(a, k))
    move("diagonal", x(2, 3, 4), label=f"offset={k}",
         ours=lambda a, k=k: fw.diagonal(a, offset=k),
         theirs=lambda a, k=k: torch.diagonal(a, k, -2, -1))
    move("diag", x(3), label=f"of a vector, {k}", ours=lambda a, k=k: fw.diag(a, k),
         theirs=lambda a, k=k: torch.diag(a, k))
move("diag", x(3, 4), label="of a matrix", ours=lambda a: fw.diag(a), theirs=torch.diag)
move("trace", x(3, 4), ours=lambda a: fw.trace(a), theirs=torch.trace, kinds="fci")

# ---- indexing
S = np.s_
INDICES: list[Any] = [
    S[1], S[-1, 2], S[..., 1], S[:, 1:], S[:, None, 0], S[..., None], S[1:1], S[0, ..., 2:],
    S[:, :, 1::2], S[()], S[..., :-1], S[-2:, None, ..., 0]]
for index in INDICES:
    move("Tensor.__getitem__", x(2, 3, 4), label=f"{index}".replace("slice", "").replace(" ", ""),
         ours=lambda a, i=index: a[i], theirs=lambda a, i=index: a[i])
move("Tensor.__getitem__", x(2, 3, 4), label="[::-1]", ours=lambda a: a[::-1, :, ::-2],
     theirs=lambda a: torch.flip(a, [0, 2])[:, :, ::2])
for label, fn in {
        "[i]": lambda a, i, j: a[i], "[i, j]": lambda a, i, j: a[i, j],
        "[:, j]": lambda a, i, j: a[:, j], "[i, :, j]": lambda a, i, j: a[i, :, j],
        "[..., i]": lambda a, i, j: a[..., i], "[i, 1]": lambda a, i, j: a[i, 1],
        "[None, i, 1:]": lambda a, i, j: a[None, i, 1:],
        "[i, None, j]": lambda a, i, j: a[i, None, j],
        "[i[0], :, j]": lambda a, i, j: a[i[0], :, j]}.items():
    move("Tensor.__getitem__", x(3, 3, 4), ints(2, 1, low=-3, below=3), ints(3, below=3),
         label=label, ours=fn, theirs=fn)
move("Tensor.__getitem__", x(3, 3, 4), ints(3, below=3), label="[0, :, j]",
     ours=lambda a, j: a[0, :, j], theirs=lambda a, j: a[0][:, j].T, differs={
         "an integer": "counts as an index array as in NumPy; torch takes it out beforehand"})
move("Tensor.__getitem__", x(3, 4), bools(3, 4), label="[mask]", ours=lambda a, m: a[m],
     theirs=lambda a, m: a[m],
     differs={"vmap": "the number of elements differs between examples"})
move("Tensor.__getitem__", x(3, 4), label="[mask of an axis]", ours=lambda a: a[
    fw.tensor([True, False, True])], theirs=lambda a: a[torch.tensor([True, False, True])])


def assigned(index: Any) -> Any:
    """x[index] = v on a copy."""
    def fn(a: Any, v: Any) -> Any:
        out = a + 0 if isinstance(a, fw.Tensor) and a.dtype != fw.bool else (
            a.clone() if isinstance(a, torch.Tensor) else fw.astype(a, a.dtype))
        out[index] = v
        return out

    return fn


for index, shape in ((S[1], (4,)), (S[:, 1:], (3, 3)), (S[...], ()), (S[0, 1], ()),
                     (S[2:], (1, 4)), (S[[0, 2]], (2, 4)), (S[[0, 2], [1, 3]], (2,))):
    fn = assigned(index)
    move("Tensor.__setitem__", x(3, 4), x(*shape), label=f"{index}".replace("slice", ""),
         ours=fn, theirs=fn)


def masked(a: Any, m: Any) -> Any:
    out = a.clone() if isinstance(a, torch.Tensor) else fw.where(m, a, a)
    out[m] = 7
    return out


move("Tensor.__setitem__", x(3, 4), bools(3, 4), label="[mask] = 7", ours=masked, theirs=masked,
     kinds="fhci")
for axis in (0, 1):
    move("take", x(3, 4), ints(5, below=3), label=f"axis={axis}",
         ours=lambda a, i, d=axis: fw.take(a, i, axis=d),
         theirs=lambda a, i, d=axis: torch.index_select(a, d, i))
    move("take_along_axis", x(3, 4), ints(3, 4, below=3), label=f"axis={axis}",
         ours=lambda a, i, d=axis: fw.take_along_axis(a, i, axis=d),
         theirs=lambda a, i, d=axis: torch.take_along_dim(a, i, d))
    move("gather", x(3, 4), ints(2, 3, below=3), label=f"dim={axis}",
         ours=lambda a, i, d=axis: fw.gather(a, d, i),
         theirs=lambda a, i, d=axis: torch.gather(a, d, i))
    for name in ("scatter", "scatter_add"):
        # scatter: places that are written once, for which of several wins is open
        places = (given([2, 0, 1], [0, 1, 2], dtype="i8") if name == "scatter" else
                  ints(2, 3, below=3))
        move(name, x(3, 4), places, x(2, 3), label=f"dim={axis}", kinds="fhci",
             ours=lambda a, i, v, d=axis, n=name: getattr(fw, n)(a, d, i, v),
             theirs=lambda a, i, v, d=axis, n=name: getattr(torch, n)(a, d, i, v))
    move("index_add", x(3, 4), ints(3, below=3), x(3, 4) if axis == 0 else x(3, 3),
         label=f"dim={axis}", kinds="fci",
         ours=lambda a, i, v, d=axis: fw.index_add(a, d, i, v),
         theirs=lambda a, i, v, d=axis: torch.index_add(a, d, i, v))
    move("index_fill", x(3, 4), ints(2, below=3), label=f"dim={axis}", kinds="fci",
         ours=lambda a, i, d=axis: fw.index_fill(a, d, i, 5),
         theirs=lambda a, i, d=axis: torch.index_fill(a, d, i, 5))
move("masked_fill", x(3, 4), bools(3, 1), ours=lambda a, m: fw.masked_fill(a, m, 7), kinds="fhci",
     theirs=lambda a, m: torch.masked_fill(a, m, 7))
move("masked_select", x(3, 4), bools(3, 4), ours=lambda a, m: fw.masked_select(a, m),
     theirs=torch.masked_select,
     differs={"vmap": "the number of elements differs between examples"})
PAIRS = [(0, 0), (0, 0), (1, 2)]
move("pad", x(2, 3, 5), ours=lambda a: fw.pad(a, PAIRS, constant_values=0),
     theirs=lambda a: torch.nn.functional.pad(a, (1, 2)))
