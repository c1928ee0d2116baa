"""Functions of each element, and where they have corners."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
from inputs import bools, given, ints, made, specials, x
from parity.entry import Table

import fusewire as fw

TABLE = Table("elementwise")
SPECIAL: dict[str, Any] = {"label": "specials", "kinds": "fh", "only": ("values", "grad"),
                           "each": True}


def unary(name: str, low: float = -3, high: float = 3, kinds: str = "fhib", special: bool = True,
          theirs: Any = None, corners: Any = None, **how: Any) -> None:
    """A function of one tensor."""
    TABLE(name, x(3, 4, low=low, high=high), also=[[x(low=low, high=high)]], theirs=theirs,
          kinds=kinds, **how)
    if special:
        TABLE(name, *specials(1), theirs=theirs, **SPECIAL, differs=corners)


def binary(name: str, low: float = -3, high: float = 3, kinds: str = "fhib", special: bool = True,
           theirs: Any = None, corners: Any = None, **how: Any) -> None:
    """A function of two tensors."""
    shapes: list[Any] = [((3, 1), (4,)), ((), (2, 3))]
    TABLE(name, x(3, 4, low=low, high=high), x(3, 4, low=low, high=high), theirs=theirs,
          also=[[x(*a, low=low, high=high), x(*b, low=low, high=high)] for a, b in shapes],
          kinds=kinds, **how)
    if special:
        TABLE(name, *specials(2), theirs=theirs, **SPECIAL, differs=corners)


def signs() -> Any:
    """Divisors of both signs."""
    return made(lambda rng, d: np.array([3, -4] * 10).astype("i8" if d.kind == "u" else d))


# ---- arithmetic
binary("add", kinds="fhciub")
binary("subtract", kinds="fhciu")
binary("multiply", kinds="fhciub")
binary("divide", low=0.5, kinds="fhciu", special=False)
TABLE("divide", *specials(2), **SPECIAL)
unary("negative", kinds="fhciu")
unary("positive", kinds="fhciu")
unary("abs", kinds="fhciu", loose=2, corners={
    "grad": "of nan ours is nan, as the standard's sign of nan is; torch's is 0"})
TABLE("abs", given(0.0, -0.0, 1.0, -1.0), label="at 0", kinds="fhc")
unary("sign", kinds="fhiu", special=False)
TABLE("sign", *specials(1), **{**SPECIAL, "only": ("values",)}, differs={"nan": (
    "the standard's sign of nan is nan, torch's is 0")},
    theirs=lambda a: torch.where(torch.isnan(a), a, torch.sign(a)))
TABLE("sign", x(3, 4), label="complex", kinds="c", theirs="sgn", loose=2)
binary("floor_divide", low=1, high=9, kinds="fiu", special=False, grad=False)
TABLE("floor_divide", x(20, low=-9, high=9), signs(), label="signs", kinds="fh", grad=False)
TABLE("floor_divide", ints(20, low=-9, below=10), signs(), label="whole", kinds="iu", grad=False)
binary("remainder", low=1, high=9, kinds="fiu", special=False)
TABLE("remainder", x(20, low=-9, high=9), signs(), label="signs")
TABLE("remainder", ints(20, low=-9, below=10), signs(), label="whole", kinds="iu")
binary("pow", low=0.5, kinds="fhc", special=False, loose=4)
TABLE("pow", ints(3, 4, low=-3, below=4), ints(3, 4, below=5), label="whole", kinds="iu",
      grad=False)
TABLE("pow", *specials(2), **SPECIAL)
for exponent in (0, 1, 2, 3, -1, 0.5, -2.5):
    TABLE("pow", x(3, 4, low=0.4), ours=lambda a, e=exponent: a ** e,
          theirs=lambda a, e=exponent: a ** e, label=f"x ** {exponent}", kinds="fhc", loose=4)
TABLE("pow", x(3, 4), ours=lambda a: 2.5 ** a, theirs=lambda a: 2.5 ** a, label="2.5 ** x",
      kinds="fhc", loose=4)
TABLE("pow", given(0.0, 0.0, 2.0, -2.0), given(2.0, 3.0, 0.0, 0.0), label="at 0",
      differs={"grad grad": "torch's is nan where 0 is raised to a tensor"})
TABLE("pow", given(0.0, -1.5, 2.0), ours=lambda a: a ** 2, theirs=lambda a: a ** 2,
      label="0 ** 2")
TABLE("pow", given(-1.5, -2.0, 3.0), given(2.0, 3.0, 2.0), label="of negative numbers",
      ours=lambda a, b: fw.pow(a, b.detach()), theirs=lambda a, b: torch.pow(a, b.detach()))
unary("square", kinds="fhciu")
unary("reciprocal", low=0.5, kinds="fciu", special=False, loose=2)
unary("sqrt", low=0.2, kinds="fhciub")
unary("rsqrt", low=0.2, special=False)
binary("maximum")
binary("minimum")
for name in ("maximum", "minimum"):
    TABLE(name, given(1.0, 2.0, 3.0), given(2.0, 2.0, 2.0), label="ties")
for name, keywords in (("both", {"min": -1.0, "max": 1.5}), ("min", {"min": -1.0}),
                       ("max", {"max": 1.5})):
    TABLE("clip", x(3, 4), more=keywords, theirs="clamp", label=name, kinds="fh", also=[
        [given(-1.0, 1.5, 0.0, -2.0, 2.0)]])
    TABLE("clip", *specials(1), more=keywords, theirs="clamp", **{
        **SPECIAL, "label": f"specials, {name}"})
TABLE("clip", x(3, 4), x(4, high=-1), x(3, 1, low=1), theirs="clamp", label="by tensors")
TABLE("clip", x(3, 4), kinds="iu", ours=lambda a: fw.clip(a, 0, 2),
      theirs=lambda a: torch.clamp(a, 0, 2), label="whole")

# ---- of two dtypes, and with Python's numbers
WIDE = {"real": np.dtype("f8"), "whole": np.dtype("i8"), "small": np.dtype("u1"),
        "truth": np.dtype("?")}
for name in "add multiply divide pow maximum hypot".split():
    for other, dtype in WIDE.items():
        kinds = {"maximum": "fiu", "hypot": "f", "pow": "fu"}.get(name, "fciu")
        if name != "hypot" or other == "real":
            TABLE(name, x(3, 4, low=1), x(4, low=1, dtype=dtype), kinds=kinds, label=f"and {other}",
                  loose=8, grad=(name, other) != ("pow", "truth"))  # torch's gradient fails
REAL_PART = {"forward": "torch's leaves the imaginary part out of the derivative by a real number"}
TABLE("pow", x(3, 4, low=1), x(4, low=1, dtype=WIDE["real"]), kinds="c", label="complex and real",
      loose=8, differs=REAL_PART)
for name, fn in {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
                 "**": operator.pow}.items():
    for number in (2, 2.5, 1 + 2j):
        differs = REAL_PART if (name, number) == ("**", 1 + 2j) else {}
        TABLE("Tensor.__" + fn.__name__ + "__", x(3, 4, low=1), label=f"x {name} {number}", loose=8,
              differs=differs, kinds="fciu" if isinstance(number, complex) else "fhciu",
              ours=lambda a, f=fn, n=number: f(a, n), theirs=lambda a, f=fn, n=number: f(a, n))
        TABLE("Tensor.__r" + fn.__name__ + "__", x(3, 4, low=1), label=f"{number} {name} x",
              loose=8, differs=differs, kinds="fciu" if isinstance(number, complex) else "fhciu",
              ours=lambda a, f=fn, n=number: f(n, a), theirs=lambda a, f=fn, n=number: f(n, a))

# ---- exponentials, logarithms, trigonometry
for name in "exp expm1 sin cos sinh cosh tanh asinh".split():
    unary(name, kinds="fhciub", loose=2)
unary("exp2", kinds="fhciub", loose=2)
unary("atan", kinds="fhiub")
TABLE("atan", x(3, 4), kinds="c", label="complex", loose=4)
unary("tan", low=-1.2, high=1.2, kinds="fhciub", loose=2)
for name in "log log2 log10 log1p".split():
    unary(name, low=0.2, kinds="fhciub", loose=4)
for name in "asin acos atanh".split():
    unary(name, low=-0.8, high=0.8, kinds="fhc", loose=4)
unary("acosh", low=1.3, kinds="fhc", loose=4, corners={
    "grad": "ours is nan where the function is; torch's is a number below -1"})
unary("erf")
binary("hypot", kinds="fh")
binary("atan2", kinds="fiu")
binary("logaddexp", kinds="fh", corners={"grad": "of equal inf ours is a half each, torch's nan"})
binary("copysign", kinds="fh", corners={"grad": "ours is 1 or -1 at inf and nan too, torch's nan"})
TABLE("copysign", given(0.0, -0.0, 0.0), given(1.0, 1.0, -1.0), label="of 0",
      differs={"grad grad": "torch's is nan where x is 0"})
TABLE("hypot", given(0.0, 0.0, 3.0), given(0.0, 2.0, 0.0), label="at 0")
TABLE("atan2", given(0.0, 0.0, 3.0), given(-1.0, 2.0, 0.0), label="on the axes")
TABLE("sqrt", given(0.0, 4.0), label="at 0")

# ---- rounding, comparisons, logic, parts of numbers
for name in "floor ceil trunc round".split():
    unary(name, kinds="fhiu")
TABLE("round", given(0.5, 1.5, 2.5, -0.5, -1.5), label="halves", kinds="fh")
for name, theirs in {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le",
                     "greater": "gt", "greater_equal": "ge"}.items():
    binary(name, theirs=theirs, kinds="fhiub")
    TABLE(name, given(1, 2, 3), given(2, 2, 2), label="ties", theirs=theirs, kinds="fiub")
TABLE("equal", given(1 + 2j, 1 - 2j, 3), given(1 + 2j, 1 + 2j, 3), label="complex", kinds="c",
      theirs="eq")
TABLE("not_equal", given(1 + 2j, 1 - 2j, 3), given(1 + 2j, 1 + 2j, 3), label="complex", kinds="c",
      theirs="ne")
for name in "isnan isinf isfinite".split():
    unary(name, kinds="fciu")
unary("signbit", kinds="fiu")
for name in "logical_and logical_or logical_xor".split():
    TABLE(name, bools(3, 1), bools(4), kinds="b", also=[[bools(), bools(2)]])
TABLE("logical_not", bools(3, 4), kinds="b")
for name in "bitwise_and bitwise_or bitwise_xor".split():
    binary(name, low=0, high=90, kinds="iub", special=False)
unary("bitwise_invert", low=0, high=90, kinds="iub", special=False, theirs="bitwise_not")
for name in "bitwise_left_shift bitwise_right_shift".split():
    binary(name, low=0, high=6, kinds="iu", special=False)
TABLE("nextafter", x(3, 4), x(3, 4), grad=False)
TABLE("nextafter", *specials(2), **{**SPECIAL, "kinds": "f"}, grad=False)
for name in ("real", "imag", "conj"):
    TABLE(name, x(3, 4), kinds="c")
TABLE("conj", x(3, 4), label="real")
TABLE("angle", x(3, 4), kinds="fhc")
TABLE("complex", x(3, 1), x(4), kinds="f")
for name, theirs in (("angle", "angle"), ("sign", "sgn"), ("abs", "abs"), ("sqrt", "sqrt")):
    TABLE(name, given(0, 1j, -1, -2j), label="on the axes", kinds="c", theirs=theirs,
          only=("values", "grad"))
TABLE("angle", given(0.0, -1.0, 2.0), label="at 0", only=("values", "grad"))
TABLE("real", x(3, 4), label="real", theirs=lambda a: a.clone())
TABLE("where", bools(3, 1), x(4), x(3, 4), kinds="fhciu")
TABLE("where", bools(3, 4), x(3, 4), ours=lambda c, a: fw.where(c, a, 0.5),
      theirs=lambda c, a: torch.where(c, a, 0.5), label="a number", kinds="fh")
TABLE("astype", x(3, 4), ours=lambda a: fw.astype(a, fw.float32),
      theirs=lambda a: a.to(torch.float32), label="float32", kinds="fiub", loose=1e7)
TABLE("astype", x(3, 4), ours=lambda a: fw.astype(a, fw.complex128),
      theirs=lambda a: a.to(torch.complex128), label="complex128", kinds="fciub")
TABLE("astype", x(3, 4, low=0, high=9), ours=lambda a: fw.astype(a, fw.int32),
      theirs=lambda a: a.to(torch.int32), label="int32", kinds="fhiub")
TABLE("astype", given(0, 1, 2, 0), ours=lambda a: fw.astype(a, fw.bool),
      theirs=lambda a: a.to(torch.bool), label="bool", kinds="fhciub")

# ---- activations
unary("relu", kinds="fhiu")
TABLE("relu", given(0.0, 1.0, -1.0), label="at 0")
unary("sigmoid")

# ---- in place, on a copy
for name in "add sub mul truediv floordiv mod pow".split():
    fn = getattr(operator, f"i{name}")
    TABLE(f"Tensor.__i{name}__", x(3, 4, low=0.5), x(4, low=0.5), ours=lambda a, b, f=fn: f(
        fw.astype(a, a.dtype), b), theirs=lambda a, b, f=fn: f(a.clone(), b), loose=4,
        grad=name != "floordiv")
for name in "and or xor".split():
    fn = getattr(operator, f"i{name}")
    TABLE(f"Tensor.__i{name}__", ints(3, 4, below=90), ints(4, below=90), kinds="i",
          ours=lambda a, b, f=fn: f(fw.astype(a, a.dtype), b),
          theirs=lambda a, b, f=fn: f(a.clone(), b))
