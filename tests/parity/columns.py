"""The columns of the table: what is compared of an entry, each a function of it.

A column gives the largest difference, as a share of the largest element of the result it is in,
and raises Difference where that is more than the tolerance, or shape, dtype, nan or inf differ.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from inputs import Input, cast, dtype_named
from parity.entry import KINDS, Entry
from parity.sides import OURS, THEIRS, Ours, flat, is_inexact

TOLERANCE = {"float64": 1e-12, "complex128": 1e-12, "float32": 5e-6, "complex64": 5e-6,
             "float16": 2e-3, "bfloat16": 1.6e-2}
DERIVED = 20.0  # derivatives may differ by so many times more
SMALLEST = 1e-3  # what differences are a share of, at least: sums that cancel leave a rest
BATCH = 2


class Difference(AssertionError):
    """Ours is not theirs."""


def drawn(entry: Entry, inputs: tuple[Input, ...], dtype: str, example: int = 0) -> list[Any]:
    """The arrays of one call, the same on every run; each `example` has its own."""
    rng = np.random.default_rng([zlib.crc32(str(entry).encode()), example])
    return [made.make(rng, dtype_named(dtype)) for made in inputs]


def difference(got: Any, wanted: Any, each: bool = False) -> float:
    """The largest difference, as a share of the largest finite element or of `each` element; inf
    where nan or inf stand in other places."""
    if got.shape != wanted.shape:
        return np.inf
    if not is_inexact(wanted):
        return float((got != wanted).any())
    if wanted.dtype.kind == "c":
        return max(difference(got.real, wanted.real), difference(got.imag, wanted.imag)) \
            if not np.isfinite(wanted).all() else _share(got, wanted, each)
    return _share(got, wanted, each)


def _share(got: Any, wanted: Any, each: bool) -> float:
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return np.inf
    wanted = wanted[finite]
    scale = np.abs(wanted) if each else np.abs(wanted).max(initial=0.0)
    apart = np.abs(got[finite] - wanted) / np.maximum(scale, SMALLEST)
    worst = float(apart.max(initial=0.0))
    return worst if worst == worst else np.inf


def compare(entry: Entry, what: str, arrays: Sequence[Any], ours: Sequence[Any],
            theirs: Sequence[Any], dtype: str, factor: float = DERIVED) -> float:
    """The largest difference of results, as arrays; Difference where it is more than is allowed:
    the tolerance of `dtype`, or of the result's where that is coarser, times `factor`."""
    worst = 0.0 if len(ours) == len(theirs) else np.inf
    allowed = 0.0
    for got, wanted in zip(ours, theirs):
        coarse = max(TOLERANCE.get(dtype, 0.0), TOLERANCE.get(wanted.dtype.name, 0.0))
        loose = min(entry.loose, 3.0) if dtype in KINDS["h"] else entry.loose
        allowed, found = coarse * factor * loose, difference(got, wanted, entry.each)
        worst = max(worst, found)
        if found > allowed:
            break
    else:
        if len(ours) == len(theirs):
            return worst
    raise Difference(f"{entry}: {what} differs by {worst:.1e}, {allowed:.1e} is allowed\n"
                     + "\n".join(f"input {n}: {a.dtype} {a.tolist()}" for n, a in enumerate(arrays))
                     + f"\nours:   {told(ours)}\ntheirs: {told(theirs)}")


def told(results: Sequence[Any]) -> str:
    return "; ".join(f"{a.dtype} {a.shape} {np.round(a, 6).tolist()}" for a in results)


def dtypes_of(entry: Entry, kinds: str) -> list[str]:
    """The dtypes of those `kinds` that the entry is run in."""
    return [dtype for kind in entry.kinds if kind in kinds for dtype in KINDS[kind]]


# ---- values
def values(entry: Entry) -> float:
    """Results in every dtype of the entry, also of nan, inf and other corners."""
    worst = 0.0
    for dtype in dtypes_of(entry, "fhciub"):
        for inputs in entry.inputs:
            worst = max(worst, values_once(entry, drawn(entry, inputs, dtype), dtype))
    return worst


def values_once(entry: Entry, arrays: list[Any], dtype: str) -> float:
    small = dtype in KINDS["h"]  # torch computes these in float32 itself, where it takes them
    wide = [a.astype(np.float32) if small and is_inexact(a) else a for a in arrays]
    ours = flat(entry.ours(*map(OURS.tensor, arrays)))
    theirs = flat(THEIRS.call(entry.theirs, *map(THEIRS.tensor, wide)))
    for got, wanted in zip(ours, theirs):
        expected = THEIRS.dtype(wanted)
        expected = dtype if small and expected == "float32" else expected
        if OURS.dtype(got) != expected and "dtype" not in entry.differs:
            raise Difference(f"{entry}: of {dtype} ours is {OURS.dtype(got)}, theirs {expected}")
    got, wanted = [OURS.array(r) for r in ours], [THEIRS.array(r) for r in theirs]
    if small:
        got = [cast(a, np.float32) if is_inexact(a) else a for a in got]
        wanted = [cast(cast(a, dtype_named(dtype)), np.float32) if a.dtype == np.float32 else a
                  for a in wanted]
    return compare(entry, f"the value in {dtype}", arrays, got, wanted, dtype, 1.0)


# ---- derivatives
def cases(entry: Entry, dtypes: str = "fc") -> Iterator[tuple[list[Any], str]]:
    """Arrays that derivatives are taken at."""
    for dtype in dtypes_of(entry, dtypes):
        for inputs in entry.inputs:
            yield drawn(entry, inputs, dtype), dtype


def directions(arrays: Sequence[Any], seed: int) -> list[Any]:
    """A random array beside each of `arrays`, of its shape and dtype."""
    rng = np.random.default_rng(seed)

    def one(a: Any) -> Any:
        v = rng.standard_normal(a.shape)
        v = v + 1j * rng.standard_normal(a.shape) if a.dtype.kind == "c" else v
        return np.asarray(v, a.dtype)

    return [one(a) for a in arrays]


def backwards(side: Ours, fn: Any, arrays: list[Any], order: int, parameters: Any = ()
              ) -> list[Any]:
    """The gradient by inputs and parameters; of order 2 the gradient of that by the same and by
    what it was multiplied with, random numbers both times."""
    inputs = [side.tensor(a, tracked=True) for a in arrays]
    leaves = [t for t in (*inputs, *parameters) if t.requires_grad]
    outs = [o for o in flat(side.call(fn, *inputs)) if side.differentiable(o)]
    for step in range(order):
        like = directions([side.array(o) for o in outs], seed=step)
        given = [side.tensor(u, tracked=step + 1 < order) for u in like]
        found = side.gradients(outs, leaves, given)
        zeros = [side.tensor(np.zeros_like(side.array(t))) for t in leaves]
        outs = [z if g is None else g for g, z in zip(found, zeros)]
        leaves = leaves + given
    for out, leaf in zip(outs, leaves):
        assert side.dtype(out) == side.dtype(leaf), f"{side.name}: the gradient is {out.dtype}"
    return [side.array(o) for o in outs]


def gradient(entry: Entry, order: int = 1) -> float:
    """The gradient by all inputs."""
    worst = 0.0
    for arrays, dtype in cases(entry):
        if order == 1 or dtype in ("float64", "complex128"):
            ours = backwards(OURS, entry.ours, arrays, order)
            theirs = backwards(THEIRS, entry.theirs, arrays, order)
            what = f"{'first second'.split()[order - 1]} gradient in {dtype}"
            worst = max(worst, compare(entry, what, arrays, ours, theirs, dtype))
    return worst


def second_gradient(entry: Entry) -> float:
    """The gradient of the gradient."""
    return gradient(entry, 2)


def along(side: Ours, fn: Any, arrays: list[Any]) -> list[Any]:
    """The values and their derivatives along a random direction of the inputs."""
    moved = [n for n, a in enumerate(arrays) if is_inexact(a)]
    tensors = [side.tensor(a) for a in arrays]

    def of_moved(*given: Any) -> Any:
        inputs = list(tensors)
        for n, t in zip(moved, given):
            inputs[n] = t
        outs = flat(side.call(fn, *inputs))
        return tuple(o for o in outs if side.differentiable(o))

    if not of_moved(*[tensors[n] for n in moved]):
        return []
    steps = [side.tensor(v) for v in directions([arrays[n] for n in moved], seed=5)]
    outs, tangents = side.jvp(of_moved, [tensors[n] for n in moved], steps)
    return [side.array(r) for r in (*flat(outs), *flat(tangents))]


def forward(entry: Entry) -> float:
    """The derivative along a direction, by forward mode."""
    worst = 0.0
    for arrays, dtype in cases(entry):
        if dtype in ("float64", "complex128"):
            ours, theirs = along(OURS, entry.ours, arrays), along(THEIRS, entry.theirs, arrays)
            worst = max(worst, compare(entry, f"forward mode in {dtype}", arrays, ours, theirs,
                                       dtype))
    return worst


# ---- batches
def vmap(entry: Entry) -> float:
    """Over a batch of all inputs, along the first and the last axis, and of each input alone."""
    dtype = next(wide for wide in ("float64", "complex128", "int64", "uint8", "bool")
                 if wide in dtypes_of(entry, "fciub"))
    worst = 0.0
    for inputs in entry.inputs:
        examples = [drawn(entry, inputs, dtype, n) for n in range(BATCH)]
        for axes in batched_axes(len(inputs)):
            worst = max(worst, vmap_once(entry, examples, axes, dtype))
    return worst


def batched_axes(count: int) -> list[tuple[Any, ...]]:
    alone = [tuple(0 if n == m else None for n in range(count)) for m in range(count)]
    return [(0,) * count, (-1,) * count, *(alone if count > 1 else [])]


def vmap_once(entry: Entry, examples: list[list[Any]], axes: tuple[Any, ...], dtype: str
              ) -> float:
    """One call over the batch beside a call of torch for each example."""
    each = [[mine if axis is not None else first for mine, first, axis in
             zip(example, examples[0], axes)] for example in examples]
    given = [example[0] if axis is None else np.stack(example, axis)
             for example, axis in zip(zip(*each), axes)]
    ours = flat(OURS.vmap(entry.ours, axes, [OURS.tensor(a) for a in given]))
    theirs = [flat(THEIRS.call(entry.theirs, *map(THEIRS.tensor, arrays))) for arrays in each]
    return compare(entry, f"vmap with in_axes={axes}", given, [OURS.array(r) for r in ours],
                   [np.stack([THEIRS.array(r) for r in result]) for result in zip(*theirs)],
                   dtype)


def vmap_of_gradient(entry: Entry) -> float:
    """The gradient of each example of a batch, in one call."""
    dtype = "float64" if "f" in entry.kinds else "complex128"
    worst = 0.0
    for inputs in entry.inputs:
        examples = [drawn(entry, inputs, dtype, n) for n in range(BATCH)]
        batch = [OURS.tensor(np.stack(arrays)) for arrays in zip(*examples)]
        moved = [n for n, a in enumerate(examples[0]) if is_inexact(a)]
        outs = flat(entry.ours(*map(OURS.tensor, examples[0])))
        like = [OURS.array(o) for o in outs if OURS.differentiable(o)]
        given = [OURS.tensor(u) for u in directions(like, seed=0)]
        ours = OURS.gradients_of_each(entry.ours, batch, moved, given) if like else []
        theirs = [backwards(THEIRS, entry.theirs, arrays, 1) for arrays in examples]
        worst = max(worst, compare(entry, "the gradient under vmap", examples[0] + examples[1],
                                   [OURS.array(g) for g in ours],
                                   [np.stack(g) for g in zip(*theirs)] if like else [], dtype))
    return worst


COLUMNS = {"values": values, "grad": gradient, "grad grad": second_gradient, "forward": forward,
           "vmap": vmap, "vmap of grad": vmap_of_gradient}
DERIVATIVES = ("grad", "grad grad", "forward", "vmap of grad")


def applies(entry: Entry, column: str) -> bool:
    """Whether there is anything to compare."""
    if any(part in entry.differs for part in column.split(" of ")):
        return False
    if entry.only and column not in entry.only:
        return False
    return column not in DERIVATIVES or (entry.grad and bool(dtypes_of(entry, "fc")))
