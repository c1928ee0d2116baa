"""Rows of the functions made of other ops: statistics, and elements in other places."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from rows.row import Array, Bad, Make, arrays, c8, f2, f4, f8, i8, numbers, row

import fusewire as fw


# ---- statistics
def with_nans(*shape: int, dtype: Any = f8) -> Make:
    """Numbers, some of them nan, but not all along any axis."""
    def make(rng: np.random.Generator) -> tuple[Array]:
        x = numbers(rng, shape, dtype)
        x.reshape(-1)[::4] = np.nan
        return (x,)

    return make


FULL = [arrays((2, 3, 4)), arrays((2, 3, 4), dtypes=f8)]
for axis, keepdims in ((None, False), (0, False), ((0, 2), True)):
    label = f"axis={axis}{', keepdims' * keepdims}"
    for name in ("mean", "var", "std"):
        row("sum", lambda x, f=name, a=axis, k=keepdims: getattr(fw, f)(x, axis=a, keepdims=k),
            FULL, lambda x, f=name, a=axis, k=keepdims: getattr(np, f)(x, axis=a, keepdims=k),
            label=f"{name}, {label}")
    for name in ("nansum", "nanmean", "nanvar", "nanstd"):
        row("sum", lambda x, f=name, a=axis, k=keepdims: getattr(fw, f)(x, axis=a, keepdims=k),
            [with_nans(3, 3, 3), with_nans(3, 3, 3, dtype=f4), *FULL],
            lambda x, f=name, a=axis, k=keepdims: getattr(np, f)(x, axis=a, keepdims=k),
            label=f"{name}, {label}")
    for name, op in (("nanmax", "max"), ("nanmin", "min")):
        row(op, lambda x, f=name, a=axis, k=keepdims: getattr(fw, f)(x, axis=a, keepdims=k),
            [with_nans(3, 3, 3), *FULL, arrays((2, 3, 4), dtypes=i8)],
            lambda x, f=name, a=axis, k=keepdims: getattr(np, f)(x, axis=a, keepdims=k),
            label=f"{name}, {label}", smooth=False)
    for name in ("median", "nanmedian"):
        row("take_along_axis",
            lambda x, f=name, a=axis, k=keepdims: getattr(fw, f)(x, axis=a, keepdims=k),
            [*FULL, *[with_nans(3, 3, 3)] * (name == "nanmedian")],
            lambda x, f=name, a=axis, k=keepdims: getattr(np, f)(x, axis=a, keepdims=k),
            label=f"{name}, {label}")
row("sum", fw.mean, [arrays((5000,), dtypes=f2, low=50, high=60)], np.mean, label="mean, float16",
    tolerance=1e-3, grad=False)

Q = [0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0]
METHODS = (  # all but closest_observation, in which NumPy's versions differ
    "inverted_cdf", "averaged_inverted_cdf", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest")
for method in METHODS:
    row("take_along_axis", lambda x, m=method: fw.quantile(x, Q, axis=1, method=m),
        [arrays((3, 7), dtypes=f8), arrays((2, 10))],
        lambda x, m=method: np.quantile(x, Q, axis=1, method=m), label=f"quantile, {method}",
        errors=(
            Bad(lambda: fw.quantile(fw.zeros(3), 1.5), "quantile: q=1.5 is no fraction"),
            Bad(lambda: fw.quantile(fw.zeros(3), 0.5, method="top"), "quantile: method='top' is"),
            Bad(lambda: fw.quantile(fw.zeros(0), 0.5), "quantile: no elements along axis None"),
            Bad(lambda: fw.quantile(fw.tensor([1]), 0.5), "quantile: takes real floating point")))
row("take_along_axis", lambda x: fw.nanquantile(x, Q, axis=0), [with_nans(9, 3)],
    lambda x: np.nanquantile(x, Q, axis=0), label="nanquantile")
row("take_along_axis", lambda x, q: fw.quantile(x, q, axis=0),
    [arrays((9, 3), (2,), dtypes=f8, low=0.3, high=0.36)], lambda x, q: np.quantile(x, q, axis=0),
    label="quantile, by q", smooth=False)

row("contract", fw.cov, [arrays((3, 6), dtypes=f8), arrays((3, 6), dtypes=c8)], np.cov, label="cov",
    tolerance=1e-5)
row("contract", lambda x, w: fw.cov(x, 0, None, w), [arrays((3, 6), (6,), dtypes=f8, low=1)],
    lambda x, w: np.cov(x, aweights=w, ddof=0), label="cov, weights", errors=(
        Bad(lambda: fw.cov(fw.zeros(2, 3, 4)), "cov: takes (variables, observations)"),
        Bad(lambda: fw.cov(fw.zeros(2, 3), aweights=fw.ones(2)), "cov: weights (2,) for 3")))
row("contract", fw.corrcoef, [arrays((3, 6), dtypes=f8)], np.corrcoef, label="corrcoef")

EDGES = (-2.0, -0.5, 0.5, 1.0, 3.0)
row("add_at", lambda x, w: fw.histogram(x, EDGES, weights=w).hist,
    [arrays((30,), (30,), dtypes=(i8, f8))],
    lambda x, w: np.histogram(x, EDGES, weights=w)[0], label="histogram", errors=(
        Bad(lambda: fw.histogram(fw.zeros(3), 0), "histogram: 0 bins"),
        Bad(lambda: fw.histogram(fw.zeros(3), fw.tensor([1.0, 0.0])), "histogram: edges are two"),
        Bad(lambda: fw.histogram(fw.zeros(3), range=(1, 0)), "histogram: no bins can be made"),
        Bad(lambda: fw.histogram(fw.zeros(3), weights=fw.ones(2)), "histogram: 2 weights for 3"),
        Bad(lambda: fw.bincount(fw.tensor([-1])), "bincount: negative integers"),
        Bad(lambda: fw.bincount(fw.tensor([0.5])), "bincount: counts integers in one axis"),
        Bad(lambda: fw.bincount(fw.tensor([1]), fw.ones(2)), "bincount: weights (2,)")))

# ---- differences
for n in (1, 2, 9):
    row("slice", lambda x, n=n: fw.diff(x, axis=1, n=n),
        [arrays((3, 5)), arrays((3, 5), dtypes=i8)], lambda x, n=n: np.diff(x, axis=1, n=n),
        label=f"diff, n={n}", errors=(
            Bad(lambda: fw.diff(fw.zeros(3), n=-1), "diff: n=-1 times"),
            Bad(lambda: fw.diff(fw.zeros(3), axis=1), "diff: axis 1 is out of range")))
row("concat", lambda x, before, after: fw.diff(x, prepend=before, append=after),
    [arrays((2, 3), (2, 1), (2, 2))], lambda x, before, after: np.diff(x, 1, -1, before, after),
    label="diff, prepend, append")

# ---- elements in other places
X = [arrays((2, 3, 4)), arrays((2, 3, 4), dtypes=i8)]
for shift, axis in ((2, None), (-1, 0), ((1, -2), (0, 2)), (13, -1)):
    row("concat", lambda x, s=shift, a=axis: fw.roll(x, s, axis=a), X,
        lambda x, s=shift, a=axis: np.roll(x, s, a), label=f"roll {shift}, axis={axis}", errors=(
            Bad(lambda: fw.roll(fw.zeros(2, 3), (1, 2, 3), axis=(0, 1)), "roll: shifts (1, 2, 3)"),
            Bad(lambda: fw.roll(fw.zeros(2, 3), 0.5), "roll: shifts 0.5")))
for times in ((2,), (2, 1, 3), (2, 1, 1, 2), (1, 0, 2)):
    row("broadcast_to", lambda x, t=times: fw.tile(x, t), X, lambda x, t=times: np.tile(x, t),
        label=f"tile {times}", errors=(
            Bad(lambda: fw.tile(fw.zeros(2), (-1,)), "tile: repetitions (-1,)"),))
for times, axis in ((2, None), (3, 1), (2, -1)):
    row("broadcast_to", lambda x, t=times, a=axis: fw.repeat(x, t, axis=a), X,
        lambda x, t=times, a=axis: np.repeat(x, t, a), label=f"repeat {times}, axis={axis}",
        errors=(Bad(lambda: fw.repeat(fw.zeros(2), -1), "repeat: -1 repeats"),
                Bad(lambda: fw.repeat(fw.zeros(2), fw.tensor([1, 2, 3])), "repeat: repeats of"),
                Bad(lambda: fw.repeat(fw.zeros(2), fw.tensor([1, -2])), "repeat: -2 repeats"),
                Bad(lambda: fw.repeat(fw.zeros(2), fw.tensor([1.0])), "repeat: repeats are integ")))
for source, target in ((0, 2), ((0, 1), (-1, 0)), (-1, -2)):
    row("permute_dims", lambda x, s=source, t=target: fw.moveaxis(x, s, t), X,
        lambda x, s=source, t=target: np.moveaxis(x, s, t), label=f"moveaxis {source} to {target}",
        errors=(Bad(lambda: fw.moveaxis(fw.zeros(2, 3), (0, 1), 0), "moveaxis: the axes (0, 1)"),
                Bad(lambda: fw.moveaxis(fw.zeros(2, 3), 0, 2), "moveaxis: axis 2 is out of range")))
for parts in (2, 3, [1, 2], [2, 9], [3, 1]):
    row("slice", lambda x, p=parts: fw.tensor_split(x, p, axis=2)[1], X,
        lambda x, p=parts: np.array_split(x, p, axis=2)[1], label=f"tensor_split {parts}", errors=(
            Bad(lambda: fw.tensor_split(fw.zeros(2), 0), "tensor_split: 0 parts"),
            Bad(lambda: fw.split(fw.zeros(2), 0), "split: a size of 0"),
            Bad(lambda: fw.split(fw.zeros(2), [1, 2]), "split: sizes [1, 2] do not make up axis 0"),
            Bad(lambda: fw.chunk(fw.zeros(2), 0), "chunk: 0 parts")))
row("concat", lambda x, y: fw.hstack([x, y]), [arrays((2, 3), (2, 1)), arrays((3,), (2,))],
    lambda x, y: np.hstack([x, y]), label="hstack")
row("concat", lambda x, y: fw.vstack([x, y]), [arrays((2, 3), (1, 3)), arrays((3,), (3,))],
    lambda x, y: np.vstack([x, y]), label="vstack")
row("concat", lambda *xs: fw.dstack(xs), [arrays((2, 3), (2, 3)), arrays((3,), (3,)),
                                          arrays((), (), dtypes=i8), arrays((2, 1, 3), (2, 1, 2))],
    lambda *xs: np.dstack(xs), label="dstack")
row("concat", lambda *xs: fw.column_stack(xs), [arrays((2, 3), (2,)), arrays((3,), (3,)),
                                                arrays((3, 0), (3,), dtypes=(i8, f4))],
    lambda *xs: np.column_stack(xs), label="column_stack", errors=(
        Bad(lambda: fw.column_stack([]), "column_stack: takes a list"),
        Bad(lambda: fw.dstack(fw.ones(2)), "dstack: takes a list or tuple")))
for name, shapes in (("hsplit", ((4,), (3, 4), (2, 4, 3))), ("dsplit", ((2, 3, 4), (1, 2, 4, 2)))):
    for parts in (2, [1, 3]):
        row("slice", lambda x, f=name, p=parts: getattr(fw, f)(x, p)[1],
            [arrays(shape) for shape in shapes],
            lambda x, f=name, p=parts: getattr(np, f)(x, p)[1], label=f"{name} {parts}", errors=(
                Bad(lambda f=name: getattr(fw, f)(fw.zeros(()), 1), f"{name}: needs"),
                Bad(lambda f=name: getattr(fw, f)(fw.zeros(2, 3, 3), 2),
                    f"{name}: 2 equal parts of axis")))

# ---- rows of several vectors
row("concat", fw.cartesian_prod,
    [arrays((2,), (3,), (2,)), arrays((2,), (0,), dtypes=(i8, f4))],
    lambda *xs: np.stack([x.ravel() for x in np.meshgrid(*xs, indexing="ij")], 1),
    label="cartesian_prod", errors=(
        Bad(lambda: fw.cartesian_prod(fw.ones(2, 2)), "cartesian_prod: takes vectors"),
        Bad(lambda: fw.cartesian_prod(), "cartesian_prod: takes a list")))
for r, again in ((2, False), (3, True), (1, False), (5, False), (0, False)):
    choose = itertools.combinations_with_replacement if again else itertools.combinations
    row("take", lambda x, r=r, a=again: fw.combinations(x, r, a), [arrays((4,)), arrays((3,))],
        lambda x, r=r, c=choose: np.array(rows := list(c(x, r)), x.dtype).reshape(len(rows), r),
        label=f"combinations of {r}, with_replacement={again}", errors=(
            Bad(lambda: fw.combinations(fw.ones(2, 2)), "combinations: takes a vector"),
            Bad(lambda: fw.combinations(fw.ones(2), -1), "combinations: r must be at least 0")))

# ---- derivatives and integrals
for order in (1, 2):
    for axis in (0, 1):
        row("slice", lambda x, a=axis, o=order: fw.gradient(x, 0.5, a, o)[0],
            [arrays((3, 5), dtypes=f8), arrays((4, 3)), arrays((3, 3), dtypes=i8)],
            lambda x, a=axis, o=order: np.gradient(x, 0.5, axis=a, edge_order=o),
            label=f"gradient along {axis}, edge_order={order}", errors=(
                Bad(lambda: fw.gradient(fw.ones(1)), "gradient: axis 0 of shape (1,) has fewer"),
                Bad(lambda: fw.gradient(fw.ones(3), edge_order=3), "gradient: edge_order=3"),
                Bad(lambda: fw.gradient(fw.ones(3), [1, 2]), "gradient: 2 spacings for 1 axes"),
                Bad(lambda: fw.gradient(fw.ones(3), fw.ones(2)), "gradient: coordinates (2,)")))
    row("slice", lambda x, t, o=order: fw.gradient(x, [2.0, t], edge_order=o)[1],
        [lambda rng: (numbers(rng, (3, 5), f8), np.array([0.0, 1, 1.5, 4, 4.25]))],
        lambda x, t, o=order: np.gradient(x, 2.0, t, edge_order=o)[1],
        label=f"gradient by coordinates, edge_order={order}")
row("slice", lambda x: fw.gradient(x)[0], [arrays((2, 3), dtypes=f8)],
    lambda x: np.gradient(x)[0], label="gradient of two")


def integrals(y: Array, x: Array | None, axis: int, dx: float = 1.0) -> Array:
    means = (np.moveaxis(y, axis, -1)[..., 1:] + np.moveaxis(y, axis, -1)[..., :-1]) / 2
    gaps = dx if x is None else np.diff(x)
    return np.moveaxis(np.cumsum(means * gaps, -1), -1, axis)


for axis in (0, 1):
    row("cumulative_sum", lambda y, a=axis: fw.cumulative_trapezoid(y, dx=0.5, axis=a),
        [arrays((3, 5), dtypes=f8), arrays((2, 2), dtypes=i8), arrays((1, 1))],
        lambda y, a=axis: integrals(y, None, a, 0.5), label=f"cumulative_trapezoid, {axis}",
        errors=(
            Bad(lambda: fw.cumulative_trapezoid(fw.ones(0)), "axis 0 of shape (0,) is empty"),
            Bad(lambda: fw.cumulative_trapezoid(fw.ones(3), fw.ones(2)), "coordinates (2,)")))
    row("cumulative_sum", lambda y, x, a=axis: fw.cumulative_trapezoid(y, x, axis=a),
        [arrays((3, 3), (3,), dtypes=f8)], lambda y, x, a=axis: integrals(y, x, a),
        label=f"cumulative_trapezoid by coordinates, {axis}")

# ---- counts of points
row("add_at", lambda x, w: fw.histogramdd(x, (EDGES, 3), [None, (-2, 2)], w).hist,
    [arrays((30, 2), (30,), dtypes=(i8, f8))],
    lambda x, w: np.histogramdd(x, (EDGES, 3), [None, (-2, 2)], weights=w)[0], label="histogramdd",
    errors=(
        Bad(lambda: fw.histogramdd(fw.zeros(3)), "histogramdd: takes points (n, d)"),
        Bad(lambda: fw.histogramdd(fw.zeros(3, 2), [1]), "histogramdd: 1 bins and 2 ranges for 2"),
        Bad(lambda: fw.histogramdd(fw.zeros(3, 2), weights=fw.ones(2)), "weights (2,) for 3")))
row("add_at", lambda x: fw.histogramdd(x, [EDGES] * 3, density=True).hist,
    [arrays((30, 3), dtypes=f8)],
    lambda x: np.histogramdd(x, [EDGES] * 3, density=True)[0], label="histogramdd, density",
    grad=False)
for shape in ((6,), (1, 6)):
    row("contract", fw.cov, [arrays(shape, dtypes=f8)], np.cov, label=f"cov of {shape}",
        tolerance=1e-5)
    row("contract", fw.corrcoef, [arrays(shape, dtypes=f8)], np.corrcoef,
        label=f"corrcoef of {shape}", grad=False)
