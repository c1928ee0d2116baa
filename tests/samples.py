"""One row per op and way of calling it: all tests of an op are driven from here.

A row says how the op is called, with which inputs, what NumPy says the result is, and how it fails.
`tests/eager/test_ops.py` holds each op to its row: result rule, values, meaning, gradients, errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.eager.ops import activation, contract, conv, create, pointwise, reduce, view, window
from fusewire.eager.ops import random as random_ops
from fusewire.eager.ops import softmax as softmax_ops

Array = Any
Inputs = tuple[Array, ...]
Make = Callable[[np.random.Generator], Inputs]


@dataclass(frozen=True)
class Bad:
    """A call that fails, and words its error holds."""

    call: Callable[[], Any]
    words: str


@dataclass(frozen=True, eq=False)
class Row:
    """A way of calling the op named `op`."""

    op: str
    call: Callable[..., Any]  # of one tensor for each input
    makers: tuple[Make, ...]  # each makes one tuple of inputs
    reference: Callable[..., Array]  # NumPy; floats come in as float64
    label: str = ""
    tolerance: float = 2e-6  # relative, for float32; float64 must be 1e5 times better
    grad: bool = True  # the gradient is compared with finite differences
    smooth: bool = True  # and so is the gradient of the gradient
    errors: tuple[Bad, ...] = ()

    def inputs(self, rng: np.random.Generator) -> list[Inputs]:
        """Concrete inputs: usual, empty, 0-d, broadcast, not contiguous, nan and inf."""
        return [make(rng) for make in self.makers]

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op


ROWS: list[Row] = []


def row(op: str, call: Callable[..., Any], makers: Any, reference: Any, **more: Any) -> None:
    """Enters a row."""
    ROWS.append(Row(op, call, tuple(makers), reference, **more))


def rows_of(op: str) -> list[Row]:
    return [r for r in ROWS if r.op == op]


# ---- makers of inputs
f2, f4, f8, i4, i8, u1, b1, c8 = (np.dtype(t) for t in ("f2 f4 f8 i4 i8 u1 ? c8").split())
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e30, -1e-30]


def numbers(rng: Any, shape: Any, dtype: Any = f4, low: float = -3, high: float = 3) -> Array:
    """Random numbers from low to high."""
    if dtype.kind in "biu":
        low = max(low, 0) if dtype.kind == "u" else low
        whole = rng.integers(math.ceil(low), math.floor(high) + 1, shape)
        return np.asarray(whole % 2 if dtype.kind == "b" else whole).astype(dtype)
    drawn = rng.uniform(low, high, shape)
    return np.asarray(drawn + 1j * rng.uniform(low, high, shape) if dtype.kind == "c" else drawn,
                      dtype=dtype)


def arrays(*shapes: Any, dtypes: Any = f4, low: float = -3, high: float = 3) -> Make:
    """Inputs of `shapes`; `dtypes` is one for all or one for each."""
    each = dtypes if isinstance(dtypes, tuple) else (dtypes,) * len(shapes)
    return lambda rng: tuple(numbers(rng, s, d, low, high) for s, d in zip(shapes, each))


def strided(count: int, dtype: Any = f8, low: float = -3, high: float = 3) -> Make:
    """`count` inputs (4, 3) that are not contiguous: transposed, turned round, every second."""
    views = [lambda a: a[:3, :4].T, lambda a: a[3::-1, 2::-1], lambda a: a[::2, ::2]]
    return lambda rng: tuple(views[i](numbers(rng, (8, 6), dtype, low, high)) for i in range(count))


def special(count: int, dtype: Any = f4) -> Make:
    """All combinations of nan, inf, zeros and large numbers."""
    grid = np.meshgrid(*[np.array(SPECIAL, dtype)] * count, indexing="ij")
    return lambda rng: tuple(g.copy() for g in grid)


DTYPES = {"float": (f4, f8, i8, b1), "real": (f4, f8, i4, u1, b1), "numeric": (f4, f8, i8, u1),
          "any": (f4, f8, i8, u1, b1), "bits": (i8, u1, b1), "whole": (i4, i8, u1), "bool": (b1, f4)}


def unary_inputs(takes: str, low: float, high: float, specials: bool) -> Iterator[Make]:
    for shape in ((3, 5), (), (0, 4), (2, 1, 7)):
        yield arrays(shape, dtypes=DTYPES[takes][0], low=low, high=high)
    for dtype in DTYPES[takes]:
        yield arrays((2, 3), dtypes=dtype, low=low, high=high)
    yield strided(1, DTYPES[takes][min(1, len(DTYPES[takes]) - 1)], low, high)
    if specials:
        yield special(1)
        yield special(1, f8)


def binary_inputs(takes: str, low: float, high: float, specials: bool) -> Iterator[Make]:
    for shapes in (((3, 5), (3, 5)), ((3, 1), (5,)), ((), (2, 3)), ((0, 4), (1, 4)), ((), ())):
        yield arrays(*shapes, dtypes=DTYPES[takes][0], low=low, high=high)
    for dtype in DTYPES[takes]:
        yield arrays((2, 3), (2, 3), dtypes=dtype, low=low, high=high)
        yield arrays((3,), (3,), dtypes=(dtype, DTYPES[takes][0]), low=low, high=high)
    yield strided(2, DTYPES[takes][min(1, len(DTYPES[takes]) - 1)], low, high)
    if specials:
        yield special(2)


def unary(op: str, reference: Any, low: float = -3, high: float = 3, takes: str = "float",
          specials: bool = True, module: Any = pointwise, **more: Any) -> None:
    """A row for a pointwise function of one tensor."""
    call = getattr(module, op)
    bad = Bad(lambda: call("x"), f"{op}: takes tensors, not str")
    row(op, call, unary_inputs(takes, low, high, specials and takes not in ("bits", "bool")),
        reference, **{"errors": (bad,), **more})


def binary(op: str, reference: Any, low: float = -3, high: float = 3, takes: str = "any",
           specials: bool = True, **more: Any) -> None:
    """A row for a pointwise function of two tensors."""
    call = getattr(pointwise, op)
    kept = specials and takes not in ("bits", "whole", "bool")
    dtype = "int64" if takes in ("bits", "whole") else "float32"
    bad = Bad(lambda: call(fw.zeros(2, 3, dtype=dtype), fw.zeros(4, dtype=dtype)),
              f"{op}: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 on one side and 4")
    row(op, call, binary_inputs(takes, low, high, kept), reference, **{"errors": (bad,), **more})


# ---- pointwise: arithmetic
binary("add", np.add)
binary("subtract", np.subtract, takes="numeric")
binary("multiply", np.multiply)
binary("divide", np.true_divide, low=0.5, takes="float", specials=False)
row("divide", pointwise.divide, [special(2)], np.true_divide, label="specials")
unary("negative", np.negative, takes="numeric")
unary("abs", np.abs, takes="numeric")
row("abs", pointwise.abs, [arrays((4,), dtypes=c8)], np.abs, label="complex", grad=False)
unary("sign", np.sign, takes="numeric", smooth=False)
row("alias", pointwise.alias, [arrays((2, 3)), arrays(()), arrays((0,))], lambda x: x)
for name, fn in (("floor_divide", np.floor_divide), ("remainder", np.remainder)):
    binary(name, fn, low=1, high=9, takes="numeric", specials=False, smooth=False)
    row(name, getattr(pointwise, name), [arrays((9,), (9,)), arrays((9,), (9,), dtypes=i8)],
        fn, label="signs", grad=False, errors=(
            Bad(lambda f=name: getattr(pointwise, f)(fw.zeros(2).astype(bool), True),
                f"{name}: takes real numbers, not bool"),))
binary("pow", np.power, low=0.5, takes="float", specials=False, tolerance=1e-5)
row("pow", lambda x: pointwise.pow(x, 3), [arrays((2, 3)), arrays((4,), dtypes=i8)],
    lambda x: x ** 3, label="cubed")
row("pow", lambda x: pointwise.pow(2.0, x), [arrays((2, 3)), arrays((3,), dtypes=i8)],
    lambda x: np.power(2.0, x), label="of 2")
row("pow", lambda x: pointwise.pow(x, -2), [lambda rng: (np.array([1, -1, 2, 0, -3]),)],
    lambda x: np.array([1, 1, 0, 0, 0]), label="whole and negative", grad=False)
unary("square", np.square, takes="numeric")
unary("reciprocal", np.reciprocal, low=0.5, takes="float", specials=False)
binary("maximum", np.maximum, takes="real", smooth=False)
binary("minimum", np.minimum, takes="real", smooth=False)
row("cast", lambda x: pointwise.astype(x, fw.int32),
    [arrays((3, 5), high=9), arrays((), dtypes=f8), arrays((0,)), arrays((3,), dtypes=b1)],
    lambda x: np.trunc(x), label="to int", errors=(
        Bad(lambda: fw.zeros(2).astype("str"), "'str' is not a dtype of fusewire"),))
row("cast", lambda x: pointwise.astype(x, fw.float32), [arrays((3, 5), dtypes=f8)], lambda x: x,
    label="to float", tolerance=1e-6, grad=False)
row("cast", lambda x: pointwise.astype(x, bool), [arrays((9,)), special(1)],
    lambda x: x != 0, label="to bool", grad=False)

# ---- pointwise: roots, exponentials, logarithms, trigonometry
unary("sqrt", np.sqrt, low=0.2)
unary("rsqrt", lambda x: 1 / np.sqrt(x), low=0.2, specials=False)
for name in "exp exp2 expm1 sin cos atan sinh cosh tanh asinh".split():
    unary(name, getattr(np, name), specials=name not in ("exp", "exp2", "expm1", "cosh", "sinh"))
unary("tan", np.tan, low=-1.2, high=1.2)
for name in "log log1p log2 log10".split():
    unary(name, getattr(np, name), low=0.2)
for name in "asin acos atanh".split():
    unary(name, getattr(np, name), low=-0.8, high=0.8)
unary("acosh", np.acosh, low=1.3)
unary("erf", np.vectorize(math.erf, otypes=[f8]))
binary("hypot", np.hypot, takes="float")
binary("atan2", np.atan2, takes="float")

# ---- pointwise: rounding, comparisons, logic
for name, fn in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("round", np.rint)):
    unary(name, fn, smooth=False)
binary("copysign", np.copysign, takes="float", smooth=False)
for name in "equal not_equal less less_equal greater greater_equal".split():
    binary(name, getattr(np, name), takes="real", grad=False, errors=(
        Bad(lambda f=name: getattr(pointwise, f)(fw.zeros(2), "x"), f"{name}: takes tensors"),))
for name in "isnan isinf isfinite signbit".split():
    unary(name, getattr(np, name), grad=False)
for name in "logical_and logical_or logical_xor".split():
    binary(name, getattr(np, name), takes="bool", grad=False)
unary("logical_not", np.logical_not, takes="bool", grad=False)
for name in "bitwise_and bitwise_or bitwise_xor".split():
    binary(name, getattr(np, name), takes="bits", grad=False, high=90, errors=(
        Bad(lambda f=name: getattr(pointwise, f)(fw.zeros(2), 1),
            f"{name}: takes integers and bool, not float32"),))
unary("bitwise_invert", np.invert, takes="bits", grad=False, high=90)
for name in "bitwise_left_shift bitwise_right_shift".split():
    binary(name, getattr(np, name), takes="whole", grad=False, low=0, high=6)
row("where", lambda c, x, y: pointwise.where(c, x, y),
    [arrays((3, 5), (3, 5), (3, 5), dtypes=(b1, f4, f4)), arrays((3, 1), (5,), (), dtypes=(b1, f8, f8)),
     arrays((0, 2), (1, 2), (2,), dtypes=(b1, f4, f4)), arrays((4,), (4,), (4,), dtypes=(b1, i8, f4))],
    np.where, errors=(
        Bad(lambda: pointwise.where(fw.ones(2), fw.ones(3), 0),
            "where: shapes (2,) and (3,) do not broadcast"),))

# ---- activations
unary("relu", lambda x: np.maximum(x, 0), takes="numeric", smooth=False)
unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)))
for approximate, reference in (
        ("none", lambda x: x * 0.5 * (1 + np.vectorize(math.erf, otypes=[f8])(x / math.sqrt(2)))),
        ("tanh", lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))))):
    row("gelu", lambda x, a=approximate: activation.gelu(x, a),
        unary_inputs("float", -3, 3, False), reference, label=approximate, tolerance=5e-6)
unary("silu", lambda x: x / (1 + np.exp(-x)), module=activation, specials=False)
unary("softplus", lambda x: np.logaddexp(x, 0), module=activation, specials=False)
unary("leaky_relu", lambda x: np.where(x > 0, x, x * 0.01), module=activation, smooth=False)
unary("elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), module=activation,
      specials=False)

# ---- create
row("full", lambda: create.full((2, 3), 1.5), [lambda rng: ()], lambda: np.full((2, 3), 1.5), errors=(
    Bad(lambda: create.full((2, -1), 0.0), "full: sizes are not negative"),
    Bad(lambda: create.full((2,), 300, fw.int8), "full: int8 does not hold 300"),
    Bad(lambda: create.full((2,), "x"), "'x' is not a number")))
for shape, axis in (((3, 4), 0), ((3, 4), -1), ((0, 2), 1), ((5,), 0)):
    row("iota", lambda s=shape, a=axis: create.iota(s, a), [lambda rng: ()],
        lambda s=shape, a=axis: np.indices(s)[a], label=f"{shape}, {axis}", errors=(
            Bad(lambda: create.iota((), 0), "iota: axis 0 is out of range"),))


def uniform(state: Any, shape: Any, dtype: Any) -> Any:
    generator = random_ops.Generator()
    generator.set_state(state)
    return random_ops.rand(*shape, dtype=dtype, generator=generator)


def uniform_reference(state: Array, shape: Any, dtype: Any) -> Array:
    """Philox as in the paper, one number after the other, in Python's integers."""
    seed, counter = (int(v) % 2 ** 64 for v in state)
    out = np.empty(math.prod(shape), dtype)
    for i in range(out.size):
        block, word = i // 64 * 16 + i % 16, i % 64 // 16
        first = philox(block, counter, seed)[word]
        if dtype == f8:
            second = philox(block + 2 ** 62, counter, seed)[word]
            out[i] = ((first >> 5) * 2 ** 26 + (second >> 6)) * 2.0 ** -53
        else:
            bits = 24 if dtype == f4 else 11
            out[i] = (first >> (32 - bits)) * 2.0 ** -bits
    return out.reshape(shape)


def philox(block: int, counter: int, seed: int) -> list[int]:
    """The four words of Philox4x32-10 at (block, counter) under the key `seed`."""
    c = [block % 2 ** 32, block >> 32, counter % 2 ** 32, counter >> 32]
    k = [seed % 2 ** 32, seed >> 32]
    for _ in range(10):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(q >> 32) ^ c[1] ^ k[0], q % 2 ** 32, (p >> 32) ^ c[3] ^ k[1], p % 2 ** 32]
        k = [(k[0] + 0x9E3779B9) % 2 ** 32, (k[1] + 0xBB67AE85) % 2 ** 32]
    return c


for shape, dtype in (((5, 27), f4), ((), f4), ((0, 3), f4), ((70,), f8), ((9,), f2)):
    row("uniform", lambda s, a=shape, d=dtype: uniform(s, a, d),
        [lambda rng: (np.array([7, 3]),), lambda rng: (np.array([-2 ** 63, 2 ** 40 + 1]),)],
        lambda s, a=shape, d=dtype: uniform_reference(s, a, d), label=f"{shape} {dtype}", grad=False,
        errors=(Bad(lambda: fw.rand(2, dtype=fw.int32), "rand: numbers from 0 to 1"),
                Bad(lambda: fw.rand(-2), "rand: sizes are not negative")))
