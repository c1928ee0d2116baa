"""Rows of the ops that read and write at indices along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, c8, f4, f8, i8, numbers, row, u1

import fusewire as fw
from fusewire.eager.ops.indexing import scatter

UFUNC: dict[str | None, Any] = {"add": np.add, "prod": np.multiply, "amax": np.maximum,
                                "amin": np.minimum}


def places(x: Any, i: Any, axis: int, dtypes: Any = (f4, i8), distinct: bool = False,
           low: float = -3) -> Any:
    """Makes a tensor of shape `x`, indices of shape `i` along `axis`, and a value for each."""
    def make(rng: np.random.Generator) -> tuple[Array, Array, Array]:
        n = x[axis]
        drawn = rng.integers(0, n, i)
        if distinct:
            orders = np.argsort(rng.random((*i[:axis], *i[axis + 1:], n)), -1)
            drawn = np.moveaxis(orders[..., :i[axis]], -1, axis)
        values = [numbers(rng, s, dtypes[0], low) for s in (x, i)]
        return values[0], np.asarray(drawn, dtypes[1]), values[1]

    return make


def pick(axis: int) -> list[Any]:
    """Tensors and indices for `take_along_axis`."""
    cases = (((3, 4, 5), (f4, i8)), ((2, 3, 1), (f8, i8)), ((3, 4, 5), (c8, i8)),
             ((0, 4, 2), (f4, i8)), ((1, 2, 4), (i8, u1)))
    makers = [places((3, 4, 5), shape, axis, dtypes) for shape, dtypes in cases]
    return [lambda rng, m=make: m(rng)[:2] for make in makers]


def read(x: Array, i: Array, axis: int) -> Array:
    part = x[tuple(slice(None) if a == axis % x.ndim else slice(m) for a, m in enumerate(i.shape))]
    return np.take_along_axis(part, i.astype(np.int64), axis)


for axis in (0, 1, 2):
    row("take_along_axis", lambda x, i, a=axis: scatter.along(x, i, a), pick(axis),
        lambda x, i, a=axis: read(x, i, a), label=f"axis={axis}", errors=(
            Bad(lambda: scatter.along(fw.zeros(2, 3), fw.tensor([[0], [1], [2]]), 1),
                "take_along_axis: indices (3, 1) are larger than the tensor (2, 3)"),
            Bad(lambda: fw.take_along_axis(fw.zeros(2), fw.tensor([2])), "index 2 is out of range"),
            Bad(lambda: fw.take_along_axis(fw.zeros(2), fw.tensor([-3])), "index -3 is out of"),
            Bad(lambda: fw.take_along_axis(fw.zeros(2), fw.tensor([[0]])),
                "take_along_axis: a tensor with 1 axes"),
            Bad(lambda: fw.take_along_axis(fw.zeros(2), fw.tensor([0.0])), "must be integers")))
row("take_along_axis", lambda x, i: fw.take_along_axis(x, i, axis=0),
    [arrays((3, 1, 4), (2, 5, 1), dtypes=(f8, i8), low=-2, high=2)],
    lambda x, i: np.take_along_axis(np.broadcast_to(x, (3, 5, 4)),
                                    np.broadcast_to(i, (2, 5, 4)), 0), label="broadcast")


def written(x: Array, i: Array, src: Array, axis: int, reduce: str | None) -> Array:
    """One value after the other."""
    out = x.copy()
    for p in np.ndindex(i.shape):
        to = (*p[:axis], int(i[p]), *p[axis + 1:])
        out[to] = src[p] if reduce is None else UFUNC[reduce](out[to], src[p])
    return out


for reduce in (None, "add", "prod", "amax", "amin"):
    for axis, shape in ((0, (5, 3)), (1, (3, 5))):
        once = reduce is None  # onnx leaves open which of several values stays
        makers = [places(shape, shape, axis, distinct=once),
                  places(shape, (2, 2), axis, (f8, i8), distinct=once),
                  places(shape, (3, 0), axis, (f8, i8)),
                  places(shape, (2, 2), axis, (i8, i8), once)]
        if reduce in (None, "add", "prod"):
            makers.append(places(shape, (2, 2), axis, (c8, i8), once))
        row("scatter", lambda x, i, src, a=axis, r=reduce: fw.scatter(x, a, i, src, r), makers,
            lambda x, i, src, a=axis, r=reduce: written(x, i, src, a, r),
            label=f"{reduce}, axis={axis}", tolerance=1e-5, smooth=reduce not in ("amax", "amin"),
            errors=(
                Bad(lambda: fw.scatter(fw.zeros(2), 0, fw.tensor([2]), 1.0), "index 2 is out of"),
                Bad(lambda: fw.scatter(fw.zeros(2), 0, fw.tensor([0]), fw.zeros(2)),
                    "scatter: values (2,) and indices (1,) differ in shape"),
                Bad(lambda: fw.scatter(fw.zeros(2), 0, fw.tensor([0]), 1.0, "mul"), "reduce='mul'"),
                Bad(lambda: fw.scatter(fw.zeros(2), 0, fw.tensor([0]), 1j), "values of complex do"),
                Bad(lambda: fw.scatter(fw.zeros(2, dtype=fw.int64), 0, fw.tensor([0]), fw.zeros(1)),
                    "scatter: values of float32 do not fit into int64")))
row("scatter", lambda x, i, src: fw.scatter(x, 0, i, src, "prod"),
    [lambda rng: (np.array([2.0, 3.0, 0.0]), np.array([0, 0, 1, 1, 2, 0]),
                  np.array([0.0, 2.0, 0.0, 0.0, 5.0, 3.0]))],
    lambda x, i, src: written(x, i, src, 0, "prod"), label="prod, with zeros")


# ---- slices and elements at indices
def slices(axis: int, dtype: Any = f4, distinct: bool = False) -> Any:
    """Makes a tensor, indices of some of its slices along `axis`, and a slice for each."""
    def make(rng: np.random.Generator) -> tuple[Array, Array, Array]:
        x = numbers(rng, (4, 5), dtype, 1)
        index = rng.permutation(x.shape[axis])[:3] if distinct else rng.integers(-2, 3, 6)
        return x, index, numbers(rng, np.take(x, index, axis).shape, dtype, 1)

    return make


def reduced(x: Array, index: Array, src: Array, axis: int, how: str, with_x: bool) -> Array:
    """The slices of each index, and of `x`, combined by NumPy."""
    out, index = np.moveaxis(x, axis, 0).copy(), index % x.shape[axis]
    parts = np.moveaxis(src, axis, 0)
    combine = {"mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min}[how]
    for i in sorted({*index.tolist()}):
        some = [*([out[i]] if with_x else []), *parts[index == i]]
        combined = combine(np.stack(some), 0)
        out[i] = combined if x.dtype.kind == "f" else np.floor(combined)
    return np.moveaxis(out, 0, axis)


for axis in (0, 1):
    row("index_put", lambda x, i, v, a=axis: fw.index_copy(x, a, i, v),
        [slices(axis), slices(axis, f8), slices(axis, i8), slices(axis, distinct=True)],
        lambda x, i, v, a=axis: np.moveaxis(put(np.moveaxis(x, a, 0), (i,), np.moveaxis(v, a, 0)),
                                            0, a), label=f"index_copy, axis={axis}", errors=(
            Bad(lambda: fw.index_copy(fw.zeros(2), 0, fw.tensor([2]), 1.0), "index 2 is out of"),
            Bad(lambda: fw.index_copy(fw.zeros(2), 0, fw.tensor([0]), fw.ones(2)), "values (2,)"),
            Bad(lambda: fw.index_copy(fw.zeros(2), 0, fw.tensor([0]), 1j), "values of complex")))
    for how in ("prod", "mean", "amax", "amin"):
        for with_x in (True, False):
            row("scatter",
                lambda x, i, v, a=axis, h=how, w=with_x: fw.index_reduce(x, a, i, v, h, w),
                [slices(axis, f8), slices(axis), slices(axis, i8)],
                lambda x, i, v, a=axis, h=how, w=with_x: reduced(x, i, v, a, h, w),
                label=f"{how} by index_reduce, axis={axis}, include_self={with_x}", tolerance=1e-5,
                smooth=how in ("prod", "mean"), errors=(
                    Bad(lambda: fw.index_reduce(fw.zeros(2), 0, fw.tensor([0]), 1.0, "sum"),
                        "index_reduce: reduce='sum' is not known"),
                    Bad(lambda: fw.index_reduce(fw.zeros(2), 0, fw.tensor([[0]]), 1.0, "mean"),
                        "index_reduce: the index has 2 axes")))


def put(x: Array, at: tuple[Array, ...], v: Array, add: bool = False) -> Array:
    """One value after the other."""
    out = np.array(x)
    at = np.broadcast_arrays(*at)
    v = np.broadcast_to(v, (*at[0].shape, *x.shape[len(at):]))
    for p in np.ndindex(at[0].shape):
        to = tuple(int(i[p]) for i in at)
        out[to] = out[to] + v[p] if add else v[p]
    return out


def elements(rng: np.random.Generator) -> tuple[Array, ...]:
    return (numbers(rng, (3, 4, 2), f8), rng.integers(-3, 3, (5, 1)), rng.integers(0, 4, 3),
            numbers(rng, (3, 2), f8))


for add in (False, True):
    row("add_at" if add else "index_put",
        lambda x, i, j, v, a=add: fw.index_put(x, (i, j), v, accumulate=a), [elements],
        lambda x, i, j, v, a=add: put(x, (i, j), v, a), label=f"by two indices, accumulate={add}",
        errors=(
            Bad(lambda: fw.index_put(fw.zeros(2), [], 1.0), "index_put: no indices for the 1 axes"),
            Bad(lambda: fw.index_put(fw.zeros(2), [fw.tensor([0.0])], 1.0), "indices are integers"),
            Bad(lambda: fw.index_put(fw.zeros(2), [fw.tensor([2])], 1.0), "index 2 is out of"),
            Bad(lambda: fw.index_put(fw.zeros(2), [fw.tensor([0])], fw.ones(3)), "(3,)")))
