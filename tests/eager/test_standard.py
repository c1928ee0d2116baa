"""The Array API standard 2025.12: names, signatures and special cases, as tables from its text."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

import fusewire as fw

# ---- names and signatures
ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign
signbit sin sinh sqrt square tan tanh trunc matrix_transpose nonzero unique_all unique_counts
unique_inverse unique_values""".split()
TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
matmul""".split()
SIGNATURES = """
__array_namespace_info__()
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
clip(x, /, min=None, max=None)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
where(condition, x1, x2, /)
broadcast_arrays(*arrays)
broadcast_shapes(*shapes)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, axis)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
searchsorted(x1, x2, /, *, side='left', sorter=None)
isin(x1, x2, /, *, invert=False)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
""".split("\n")[1:-1]
OTHERS = """e inf nan newaxis pi bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32
float64 complex64 complex128 __array_api_version__""".split()
METHODS = """abs add and bool complex eq float floordiv ge getitem gt index int invert le lshift lt
matmul mod mul ne neg or pos pow rshift setitem sub truediv xor radd rand rfloordiv rlshift rmatmul
rmod rmul ror rpow rrshift rsub rtruediv rxor iadd iand ifloordiv ilshift imatmul imod imul ior ipow
irshift isub itruediv ixor array_namespace""".split()

Parameter = inspect.Parameter
NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def parameters(signature: str) -> list[inspect.Parameter]:
    name, rest = signature.split("(", 1)
    space: dict[str, Any] = {}
    exec(f"def {name}({rest}: ...", space)
    return list(inspect.signature(space[name]).parameters.values())


@pytest.mark.parametrize("signature", [*[f"{n}(x, /)" for n in ONE],
                                       *[f"{n}(x1, x2, /)" for n in TWO], *SIGNATURES])
def test_signature(signature: str) -> None:
    """Ours may take more, and by name what is only by position in the standard."""
    own = list(inspect.signature(getattr(fw, signature.split("(")[0])).parameters.values())
    by_name = {p.name: p for p in own}
    for place, wanted in enumerate(parameters(signature)):
        if wanted.kind == Parameter.KEYWORD_ONLY:
            given = by_name[wanted.name]
            assert given.kind in NAMED
        else:
            given = own[place]
            assert wanted.kind == Parameter.POSITIONAL_ONLY or given.name == wanted.name
        if wanted.kind == Parameter.VAR_POSITIONAL:
            assert given.kind == wanted.kind
        elif wanted.default is not Parameter.empty:
            assert given.default == wanted.default


def test_names() -> None:
    assert [n for n in OTHERS if not hasattr(fw, n)] == []
    assert [n for n in METHODS if not hasattr(fw.Tensor, f"__{n}__")] == []
    assert [n for n in "T mT device dtype ndim shape size to_device".split()
            if not hasattr(fw.Tensor, n)] == []
    assert fw.__array_api_version__ == "2025.12" and fw.newaxis is None
    assert (fw.pi, fw.e, fw.inf) == (math.pi, math.e, math.inf) and math.isnan(fw.nan)


def test_inspection() -> None:
    info = fw.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True,
                                   "max dimensions": 64}
    assert info.default_device() == "cpu" and info.devices() == ("cpu",)
    assert info.default_dtypes() == {"real floating": fw.float32, "complex floating": fw.complex64,
                                     "integral": fw.int64, "indexing": fw.int64}
    assert len(info.dtypes()) == 13 and "bfloat16" not in info.dtypes()
    assert info.dtypes(kind="real floating") == {"float32": fw.float32, "float64": fw.float64}
    assert set(info.dtypes(kind=("bool", "signed integer"), device="cpu")) == {
        "bool", "int8", "int16", "int32", "int64"}
    with pytest.raises(fw.DTypeError, match="'float' is not a kind"):
        info.dtypes(kind="float")


# ---- special cases: "function: arguments -> result; ...", of real numbers
REAL = """
abs: nan -> nan; -0 -> 0; -inf -> inf
acos: nan -> nan; 1.5 -> nan; -1.5 -> nan; 1 -> 0
acosh: nan -> nan; 0.5 -> nan; 1 -> 0; inf -> inf
add: inf -inf -> nan; nan 1 -> nan; inf 1 -> inf; 1 -inf -> -inf; -0 -0 -> -0; -0 0 -> 0; 5 -5 -> 0
asin: nan -> nan; 1.5 -> nan; -1.5 -> nan; 0 -> 0; -0 -> -0
asinh: nan -> nan; 0 -> 0; -0 -> -0; inf -> inf; -inf -> -inf
atan: nan -> nan; 0 -> 0; -0 -> -0; inf -> pi/2; -inf -> -pi/2
atan2: nan 1 -> nan; 1 nan -> nan; 1 0 -> pi/2; 1 -0 -> pi/2; 0 1 -> 0; 0 0 -> 0; 0 -0 -> pi
atan2: 0 -1 -> pi; -0 1 -> -0; -0 0 -> -0; -0 -0 -> -pi; -0 -1 -> -pi; -1 0 -> -pi/2
atan2: 1 inf -> 0; 1 -inf -> pi; -1 inf -> -0; -1 -inf -> -pi; inf 1 -> pi/2; -inf 1 -> -pi/2
atan2: inf inf -> pi/4; inf -inf -> 3*pi/4; -inf inf -> -pi/4; -inf -inf -> -3*pi/4
atanh: nan -> nan; 2 -> nan; -2 -> nan; -1 -> -inf; 1 -> inf; 0 -> 0; -0 -> -0
ceil: 3 -> 3; inf -> inf; -inf -> -inf; 0 -> 0; -0 -> -0; nan -> nan; -0.5 -> -0
copysign: nan 1 -> nan; 2 -0 -> -2; -2 0 -> 2; 2 -inf -> -2; 0 -1 -> -0
cos: nan -> nan; 0 -> 1; -0 -> 1; inf -> nan; -inf -> nan
cosh: nan -> nan; 0 -> 1; -0 -> 1; inf -> inf; -inf -> inf
divide: nan 1 -> nan; inf inf -> nan; 0 -0 -> nan; 0 1 -> 0; -0 1 -> -0; 1 0 -> inf; 1 -0 -> -inf
divide: -1 0 -> -inf; -1 -0 -> inf; inf -1 -> -inf; 1 -inf -> -0; -1 inf -> -0; -1 -inf -> 0
exp: nan -> nan; 0 -> 1; -0 -> 1; inf -> inf; -inf -> 0
expm1: nan -> nan; 0 -> 0; -0 -> -0; inf -> inf; -inf -> -1
floor: 3 -> 3; inf -> inf; -inf -> -inf; 0 -> 0; -0 -> -0; nan -> nan; -0.5 -> -1
floor_divide: nan 1 -> nan; inf -inf -> nan; 0 0 -> nan; 0 1 -> 0; -0 1 -> -0; 1 0 -> inf
floor_divide: 1 -0 -> -inf; -1 0 -> -inf; inf 2 -> inf; inf -2 -> -inf; -inf 2 -> -inf
floor_divide: 1 inf -> 0; 1 -inf -> -0; -1 inf -> -0; -1 -inf -> 0; -7 2 -> -4; 7 -2 -> -4
hypot: inf nan -> inf; nan -inf -> inf; nan 1 -> nan; 3 -4 -> 5
log: nan -> nan; -1 -> nan; 0 -> -inf; -0 -> -inf; 1 -> 0; inf -> inf
log1p: nan -> nan; -2 -> nan; -1 -> -inf; -0 -> -0; 0 -> 0; inf -> inf
log2: nan -> nan; -1 -> nan; 0 -> -inf; -0 -> -inf; 1 -> 0; inf -> inf
log10: nan -> nan; -1 -> nan; 0 -> -inf; -0 -> -inf; 1 -> 0; inf -> inf
logaddexp: nan 1 -> nan; inf 1 -> inf; 1 inf -> inf; -inf 1 -> 1; -inf -inf -> -inf; inf inf -> inf
maximum: nan 1 -> nan; 1 nan -> nan; -inf 1 -> 1
minimum: nan 1 -> nan; 1 nan -> nan; inf 1 -> 1
multiply: nan 1 -> nan; inf 0 -> nan; -0 inf -> nan; inf -2 -> -inf; -inf -inf -> inf; -1 0 -> -0
negative: 0 -> -0; -0 -> 0; inf -> -inf; nan -> nan
nextafter: nan 1 -> nan; 1 nan -> nan; 2 2 -> 2; 0 -0 -> -0; -0 0 -> 0
pow: 1 nan -> 1; 1 inf -> 1; nan 0 -> 1; inf 0 -> 1; 2 -0 -> 1; nan 1 -> nan; 2 inf -> inf
pow: 2 -inf -> 0; -1 inf -> 1; 0.5 inf -> 0; 0.5 -inf -> inf; inf 2 -> inf; inf -2 -> 0
pow: -inf 3 -> -inf; -inf 2 -> inf; -inf -3 -> -0; -inf -2 -> 0; 0 2 -> 0; 0 -2 -> inf; -0 3 -> -0
pow: -0 2 -> 0; -0 -3 -> -inf; -0 -2 -> inf; -2 0.5 -> nan; -2 3 -> -8
reciprocal: 0 -> inf; -0 -> -inf; inf -> 0; -inf -> -0
remainder: nan 1 -> nan; inf 1 -> nan; 1 0 -> nan; 0 2 -> 0; -0 2 -> 0; 0 -2 -> -0; -0 -2 -> -0
remainder: 1 inf -> 1; 1 -inf -> -inf; -1 inf -> inf; -1 -inf -> -1; -7 2 -> 1; 7 -2 -> -1
round: 3 -> 3; 2.5 -> 2; 3.5 -> 4; -2.5 -> -2; inf -> inf; -inf -> -inf; 0 -> 0; -0.5 -> -0
sign: -2 -> -1; -0 -> 0; 0 -> 0; 2 -> 1; nan -> nan; inf -> 1
signbit: 0 -> 0; -0 -> 1; inf -> 0; -inf -> 1; -2 -> 1
sin: nan -> nan; 0 -> 0; -0 -> -0; inf -> nan; -inf -> nan
sinh: nan -> nan; 0 -> 0; -0 -> -0; inf -> inf; -inf -> -inf
sqrt: nan -> nan; -1 -> nan; 0 -> 0; -0 -> -0; inf -> inf
subtract: inf inf -> nan; 0 0 -> 0; -0 0 -> -0; 1 inf -> -inf
tan: nan -> nan; 0 -> 0; -0 -> -0; inf -> nan; -inf -> nan
tanh: nan -> nan; 0 -> 0; -0 -> -0; inf -> 1; -inf -> -1
trunc: 3 -> 3; inf -> inf; -inf -> -inf; 0 -> 0; -0 -> -0; nan -> nan; -0.5 -> -0; 2.7 -> 2
isfinite: nan -> 0; inf -> 0; -inf -> 0; 1 -> 1
isinf: nan -> 0; inf -> 1; -inf -> 1; 1 -> 0
isnan: nan -> 1; inf -> 0; 0 -> 0
equal: nan nan -> 0; inf inf -> 1; -0 0 -> 1; -inf inf -> 0
not_equal: nan nan -> 1; inf inf -> 0; -0 0 -> 0
less: nan 1 -> 0; 1 nan -> 0; -0 0 -> 0; -inf inf -> 1
greater_equal: nan 1 -> 0; 1 nan -> 0; -0 0 -> 1
"""
# of complex numbers, "real,imag"; ? where the standard leaves the sign or the value open
COMPLEX = """
abs: inf,nan -> inf,0; nan,-inf -> inf,0; 1,nan -> nan,0; -0,0 -> 0,0
acos: 0,0 -> pi/2,-0; 0,nan -> pi/2,nan; 2,inf -> pi/2,-inf; -inf,1 -> pi,-inf; inf,1 -> 0,-inf
acosh: 0,0 -> 0,pi/2; 1,inf -> inf,pi/2; -inf,1 -> inf,pi; inf,nan -> inf,nan; nan,nan -> nan,nan
asinh: 0,0 -> 0,0; 1,inf -> inf,pi/2; inf,1 -> inf,0; inf,inf -> inf,pi/4; nan,0 -> nan,0
atanh: 0,0 -> 0,0; 0,nan -> 0,nan; 1,0 -> inf,0; 1,inf -> 0,pi/2; inf,1 -> 0,pi/2; nan,1 -> nan,nan
cosh: 0,0 -> 1,0; inf,0 -> inf,0; inf,nan -> inf,nan; nan,nan -> nan,nan
exp: 0,0 -> 1,0; -0,0 -> 1,0; inf,0 -> inf,0; -inf,nan -> ?,?; 1,inf -> nan,nan; nan,0 -> nan,0
expm1: 0,0 -> 0,0; -0,0 -> 0,0; inf,0 -> inf,0; -inf,inf -> -1,?; -inf,nan -> -1,?; nan,0 -> nan,0
expm1: 1,inf -> nan,nan; nan,nan -> nan,nan; -inf,0 -> -1,0
log: -0,0 -> -inf,pi; 0,0 -> -inf,0; 1,inf -> inf,pi/2; -inf,1 -> inf,pi; inf,nan -> inf,nan
log1p: -1,0 -> -inf,0; 1,inf -> inf,pi/2; -inf,1 -> inf,pi; nan,inf -> inf,nan; nan,1 -> nan,nan
sign: 0,0 -> 0,0; nan,1 -> nan,nan
sinh: 0,0 -> 0,0; 0,inf -> ?,nan; inf,0 -> inf,0; nan,0 -> nan,0; 1,nan -> nan,nan
sqrt: 0,0 -> 0,0; -0,0 -> 0,0; 1,inf -> inf,inf; nan,inf -> inf,inf; -inf,1 -> 0,inf; inf,1 -> inf,0
tanh: 0,0 -> 0,0; inf,1 -> 1,0; inf,inf -> 1,?; nan,0 -> nan,0; 1,nan -> nan,nan
"""
NUMBERS = {"nan": math.nan, "inf": math.inf, "pi": math.pi}


def number(text: str) -> float:
    """-0 is the negative zero."""
    return -0.0 if text == "-0" else float(eval(text, NUMBERS))


def cases(table: str) -> list[tuple[str, str, str]]:
    found = []
    for line in table.strip().split("\n"):
        name, rest = line.split(": ")
        found += [(name, *case.split(" -> ")) for case in rest.split("; ")]
    return [(name, given.strip(), expected.strip()) for name, given, expected in found]


def assert_same(got: float, expected: float, tolerance: float) -> None:
    """Equal, with the same sign where it is zero."""
    if math.isnan(expected):
        assert math.isnan(got)
    else:
        assert got == pytest.approx(expected, rel=tolerance)
        assert math.copysign(1, got) == math.copysign(1, expected)


@pytest.mark.parametrize("dtype", [fw.float32, fw.float64], ids=str)
@pytest.mark.parametrize(("name", "given", "expected"), cases(REAL), ids=str)
def test_special_case(name: str, given: str, expected: str, dtype: Any) -> None:
    tensors = [fw.asarray([number(n)] * 9, dtype=dtype) for n in given.split()]  # as vectors too
    for xs in (tensors, [x[0] for x in tensors]):
        out = getattr(fw, name)(*xs)
        for value in out.numpy().reshape(-1):
            assert_same(float(value), number(expected), 1e-6 if dtype == fw.float32 else 1e-14)


OPERATORS = {"add": lambda x, y: x + y, "subtract": lambda x, y: x - y,
             "multiply": lambda x, y: x * y, "divide": lambda x, y: x / y,
             "floor_divide": lambda x, y: x // y, "remainder": lambda x, y: x % y,
             "pow": lambda x, y: x ** y}


@pytest.mark.parametrize(("name", "given", "expected"),
                         [c for c in cases(REAL) if c[0] in OPERATORS], ids=str)
def test_operators_and_numbers_have_the_same_special_cases(
        name: str, given: str, expected: str) -> None:
    x, y = map(number, given.split())
    use, a, b = OPERATORS[name], fw.asarray(x, dtype=fw.float64), fw.asarray(y, dtype=fw.float64)
    for out in (use(a, b), use(a, y), use(x, b)):
        assert_same(out.item(), number(expected), 1e-14)


@pytest.mark.parametrize("dtype", [fw.complex64, fw.complex128], ids=str)
@pytest.mark.parametrize(("name", "given", "expected"), cases(COMPLEX), ids=str)
def test_special_case_of_complex_numbers(
        name: str, given: str, expected: str, dtype: Any) -> None:
    z = np.empty((), dtype)
    z.real, z.imag = map(number, given.split(","))
    out = complex(getattr(fw, name)(fw.asarray(z)))
    for got, wanted in zip((out.real, out.imag), expected.split(",")):
        if wanted != "?":
            assert_same(got, number(wanted), 1e-6)


@pytest.mark.parametrize("imaginary", [0.5, 2.0, -0.5, -2.0])
def test_tanh_where_the_real_part_is_infinite(imaginary: float) -> None:
    """1 + 0j for a positive imaginary part, and what follows by tanh(conj(x)) and tanh(-x)."""
    for real in (float("inf"), -float("inf")):
        found = fw.tanh(fw.tensor(complex(real, imaginary), dtype=fw.complex128)).item()
        assert str(found) == str(complex(math.copysign(1, real), math.copysign(0, imaginary)))
