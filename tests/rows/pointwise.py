"""Rows of the pointwise ops and the activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rows.row import Bad, arrays, b1, binary_inputs, f4, f8, i4, i8, row, special, unary_inputs

import fusewire as fw
from fusewire.eager.ops import range_checks
from fusewire.eager.ops.elementwise import activation, pointwise
from fusewire.eager.optim.base import formulas


def of_floats(reference: Any) -> Any:
    """`reference` for an op that casts integers and bool to floats."""
    return lambda *xs: reference(*[x.astype(f8) for x in xs])


def unary(op: str, reference: Any, low: float = -3, high: float = 3, takes: str = "float",
          specials: bool = True, module: Any = pointwise, **more: Any) -> None:
    """A row for a pointwise function of one tensor."""
    call = getattr(module, op)
    reference = of_floats(reference) if takes in ("float", "floats") else reference
    bad = Bad(lambda: call("x"), f"{op}: takes tensors, not str")
    row(op, call, unary_inputs(takes, low, high, specials and takes not in ("bits", "bool")),
        reference, **{"errors": (bad,), **more})


def binary(op: str, reference: Any, low: float = -3, high: float = 3, takes: str = "any",
           specials: bool = True, **more: Any) -> None:
    """A row for a pointwise function of two tensors."""
    call = getattr(pointwise, op)
    reference = of_floats(reference) if takes == "float" else reference
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
unary("sign", np.sign, takes="numeric", smooth=False)
row("alias", pointwise.alias, [arrays((2, 3)), arrays(()), arrays((0,))], lambda x: x)
for name, fn in (("floor_divide", np.floor_divide), ("remainder", np.remainder)):
    binary(name, fn, low=1, high=9, takes="numeric", specials=False, smooth=False)
    row(name, getattr(pointwise, name), [arrays((9,), (9,)), arrays((9,), (9,), dtypes=i8)],
        fn, label="signs", grad=False, errors=(
            Bad(lambda f=name: getattr(pointwise, f)(fw.zeros(2).astype(bool), True),
                f"{name}: takes real numbers, not bool"),))
row("floor_divide", pointwise.floor_divide, [special(2), special(2, f8)],
    lambda x, y: np.where(np.isinf(x) | np.isinf(y), x / y, np.floor_divide(x, y)),
    label="endless", grad=False)
row("floor_divide", lambda x: pointwise.floor_divide(x, 2.0), [special(1)],
    lambda x: np.where(np.isinf(x), x, np.floor_divide(x, 2)), label="by 2", grad=False)
row("floor_divide", lambda x: pointwise.floor_divide(x, -float("inf")),
    [lambda rng: (np.array([1.0, -1, 0, 2.5], f4),)], lambda x: x / -np.inf, label="by infinity",
    grad=False)
binary("pow", np.power, low=0.5, takes="numeric", specials=False, tolerance=1e-5)
row("pow", lambda x: pointwise.pow(x, 3), [arrays((2, 3)), arrays((4,), dtypes=i8)],
    lambda x: x ** 3, label="cubed")
row("pow", lambda x: pointwise.pow(2.0, x), [arrays((2, 3)), arrays((3,), dtypes=i8)],
    lambda x: np.power(2.0, x), label="of 2")
for base in (2, 1, -1, 0, -3):
    row("pow", lambda x, b=base: pointwise.pow(b, x),
        [arrays((9,), dtypes=i4), arrays((9,), dtypes=i8)],
        lambda x, b=base: np.array([b ** int(n) if n >= 0 or b in (1, -1) else 0 for n in x]),
        label=f"{base} to whole numbers", grad=False)
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
    unary(name, fn, smooth=False, takes="floats")
binary("copysign", np.copysign, takes="float", smooth=False)
binary("nextafter", np.nextafter, takes="float", smooth=False, specials=False)
binary("logaddexp", np.logaddexp, takes="float", tolerance=1e-5)
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
    [arrays((3, 5), (3, 5), (3, 5), dtypes=(b1, f4, f4)),
     arrays((3, 1), (5,), (), dtypes=(b1, f8, f8)),
     arrays((0, 2), (1, 2), (2,), dtypes=(b1, f4, f4)),
     arrays((4,), (4,), (4,), dtypes=(b1, i8, f4))],
    np.where, errors=(
        Bad(lambda: pointwise.where(fw.ones(2), fw.ones(3), 0),
            "where: shapes (2,) and (3,) do not broadcast"),))

# ---- activations
unary("relu", lambda x: np.maximum(x, 0), takes="numeric", smooth=False)
unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)))
for approximate, reference in (
        ("none", lambda x: x * 0.5 * (1 + np.vectorize(math.erf, otypes=[f8])(x / math.sqrt(2)))),
        ("tanh", lambda x: 0.5 * x * (
            1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))))):
    row("gelu", lambda x, a=approximate: activation.gelu(x, a),
        unary_inputs("float", -3, 3, False), reference, label=approximate, tolerance=5e-6)
unary("silu", lambda x: x / (1 + np.exp(-x)), module=activation, specials=False)
unary("softplus", lambda x: np.logaddexp(x, 0), module=activation, specials=False)
unary("leaky_relu", lambda x: np.where(x > 0, x, x * 0.01), module=activation, smooth=False)
unary("elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), module=activation,
      specials=False)
unary("mish", lambda x: x * np.tanh(np.logaddexp(x, 0)), module=activation, specials=False)
unary("hardsigmoid", lambda x: np.clip((x + 3) / 6, 0, 1), module=activation, smooth=False)
unary("hardswish", lambda x: x * np.clip((x + 3) / 6, 0, 1), module=activation, smooth=False)
row("hardtanh", lambda x: activation.hardtanh(x, -1.0, 0.5), unary_inputs("float", -3, 3, True),
    lambda x: np.clip(x, -1, 0.5), smooth=False)


# ---- what optimizers are made of
def formula(name: str, kinds: str, reference: Any, **more: Any) -> None:
    """Rows for a formula of tensors (t) and of settings (s), which are 0-d in a recording."""
    shapes = [(4,) if kind == "t" else () for kind in kinds]
    row(name, getattr(formulas, name),
        [arrays(*[(3, 5)] * len(kinds), low=0.1), arrays(*shapes, low=0.1),
         arrays(*shapes, dtypes=f8, low=0.1)], reference, grad=False, **more)


formula("scale", "ts", lambda x, a: x * a)
formula("axpy", "tst", lambda x, a, y: x + a * y)
formula("axpby", "tsst", lambda x, a, b, y: a * x + b * y)
formula("interpolate", "tts", lambda x, y, w: (1 - w) * x + w * y)
formula("ema_square", "ttss", lambda x, y, keep, weight: keep * x + weight * y ** 2)
formula("ratio_step", "tstt", lambda x, rate, y, z: x + rate * y / z)
formula("root_step", "tssttss", lambda x, keep, rate, mean, square, scale, eps:
        x * keep + rate * mean / (np.sqrt(square) / scale + eps))
formula("adamax_norm", "tsts", lambda norm, keep, g, eps: np.maximum(norm * keep, np.abs(g) + eps))
formula("adadelta_step", "ttts", lambda steps, squares, g, eps:
        np.sqrt((steps + eps) / (squares + eps)) * g)
formula("rprop_size", "tttssss", lambda size, g, before, less, more, least, most:
        np.minimum(np.maximum(size * np.where(g * before < 0, less, more), least), most))
row("rprop_size", lambda size, g: formulas.rprop_size(size, g, fw.ones_like(g), 0.5, 1.2, 0.1, 0.9),
    [lambda rng: (np.array([0.8, 0.1, 0.3], f4), np.array([-1.0, -1, 0], f4)),
     lambda rng: (np.array([0.8, 0.1, 0.3], f4), np.array([1.0, math.nan, 2], f4))],
    lambda size, g: np.clip(size * np.select([g < 0, g > 0, g == 0], [0.5, 1.2, 1], math.nan),
                            0.1, 0.9), grad=False, label="signs")
formula("rprop_kept", "tt", lambda g, before: np.where(g * before < 0, 0, g))
row("rprop_kept", formulas.rprop_kept, [arrays((4, 3), (4, 3)), special(2)],
    lambda g, before: np.where(g * before < 0, 0, g), grad=False, label="signs")
row("check_index", lambda x: range_checks.check_index(x, 3, "class"),
    [arrays((4, 2), dtypes=i8, low=0, high=2), arrays((0,), dtypes=i8)], lambda x: x, grad=False,
    errors=(Bad(lambda: range_checks.check_index(fw.tensor([0, 3]), 3, "class"),
                "class 3 is out of"),
            Bad(lambda: range_checks.check_index(fw.tensor([-1]), 3, "class"),
                "class -1 is out of")))
