"""Every op against its rows: result rule, values, meaning, gradients, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from samples import ROWS, Bad, Row

import fusewire as fw
from fusewire.eager import interpreter
from fusewire.eager.arrays import cpu_kernels
from fusewire.eager.core.dispatch import evaluate, type_of
from fusewire.eager.core.op import Op
from fusewire.eager.core.tensor import Tensor
from fusewire.eager.errors import FusewireError

Call = tuple[Op, tuple[Any, ...], dict[str, Any], Tensor]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def tensors(inputs: tuple[Any, ...], requires_grad: bool = False) -> list[Tensor]:
    return [fw.from_numpy(a).requires_grad_(requires_grad and a.dtype.kind in "fc")
            for a in inputs]


class Spy:
    """An interpreter that runs every op and notes it."""

    can_read_values = False
    keeps_layers = False

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        out = evaluate(op, inputs, params)
        self.calls.append((op, inputs, params, out))
        return out

    def shape(self, tensor: Tensor) -> Any:
        return tensor._data.shape

    def note_constant(self, tensor: Tensor) -> None: ...
    def changed(self, tensor: Tensor) -> None: ...
    def reads_values(self, tensor: Tensor, how: str) -> None: ...
    def reads_grad(self, tensor: Tensor) -> None: ...
    def sets_grad(self, tensor: Tensor) -> None: ...

    def apply_data_dependent(self, op: Op, x: Tensor) -> Tensor:
        out = evaluate(op, (x,), {"size": None})
        self.calls.append((op, (x,), {"size": len(out._data)}, out))
        return out


def calls_of(row: Row, inputs: tuple[Any, ...]) -> tuple[Tensor, list[Call]]:
    """The result of a row's call, and what it made of the ops: of any, and of the row's own."""
    spy = interpreter.STATE.active = Spy()
    try:
        out = row.call(*tensors(inputs))
    finally:
        interpreter.STATE.active = None
    own = [call for call in spy.calls if call[0].name == row.op]
    assert own, f"{row} does not call {row.op}"
    return out, own


def wide(a: Any) -> Any:
    """Floats as float64, in which the reference is computed, and complex numbers of them."""
    if a.dtype.kind == "c":
        return a.astype(np.complex128)
    return a.astype(np.float64) if a.dtype.kind == "f" else a


def assert_close(got: Any, expected: Any, tolerance: float) -> None:
    single = got.dtype.itemsize <= (8 if got.dtype.kind == "c" else 4)
    tolerance = tolerance if single else tolerance * 1e-5
    np.testing.assert_allclose(got, np.asarray(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_values_are_numpys(row: Row, rng: np.random.Generator) -> None:
    for inputs in row.inputs(rng):
        out = row.call(*tensors(inputs))
        with np.errstate(all="ignore"):
            expected = row.reference(*map(wide, inputs))
            if out._data.dtype.kind in "fc":
                expected = np.asarray(expected).astype(out._data.dtype)  # overflows alike
        assert out.shape == np.shape(expected)
        assert_close(out.numpy(), expected, row.tolerance)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_result_rule_foretells_shape_and_dtype(row: Row, rng: np.random.Generator) -> None:
    for inputs in row.inputs(rng):
        for op, operands, params, out in calls_of(row, inputs)[1]:
            told = op.result(*map(type_of, operands), **params)
            assert (tuple(told.shape), told.dtype) == (out._data.shape, out._data.dtype)
            assert hash(tuple(params.values())) is not None  # graphs compare nodes by params


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_each_result_is_an_array_of_its_own(row: Row, rng: np.random.Generator) -> None:
    """Recordings tell values apart by their arrays; and x.reshape(x.shape) must not be x."""
    for inputs in row.inputs(rng):
        given = tensors(inputs)
        for op, operands, params, _ in calls_of(row, inputs)[1]:
            arrays = [x._data for x in operands if isinstance(x, Tensor)]
            assert not any(evaluate(op, operands, params)._data is a for a in arrays)
        assert not any(row.call(*given) is x for x in given)


# ---- the meaning of an op, element by element, is what its implementation computes
class Scalars:
    """The builder `k` over single numbers: NumPy's functions, and what only kernels need."""

    def __getattr__(self, name: str) -> Any:
        return getattr(cpu_kernels, name)

    def cast(self, x: Any, dtype: Any) -> Any:
        return cpu_kernels.cast(np.asarray(x), dtype)

    def const(self, value: Any, dtype: Any) -> Any:
        return dtype.type(value)

    def mulhi(self, x: Any, y: int) -> Any:
        return np.uint32((int(x) * y) >> 32)


COMBINE = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
           "or": np.logical_or, "and": np.logical_and, "logaddexp": np.logaddexp}


def places(shape: Any) -> Iterator[tuple[int, ...]]:
    """Up to 60 indices of a shape, spread over it."""
    every = list(np.ndindex(*shape))
    yield from every[::max(1, len(every) // 60)]


def meant_pointwise(op: Op, operands: Any, params: Any, out: Any, index: Any) -> Any:
    def scalar(x: Any) -> Any:
        return np.broadcast_to(x._data, out.shape)[index] if isinstance(x, Tensor) else x

    return op.meaning(Scalars(), *map(scalar, operands), **params)


def meant_reduce(op: Op, operands: Any, params: Any, out: Any, index: Any) -> Any:
    x, axis = operands[0]._data, params["axis"]
    left = np.moveaxis(x, axis, range(-len(axis), 0)) if axis else x
    kept = tuple(i for n, i in enumerate(index) if n not in axis) if params["keepdims"] else index
    return combined(op, left[kept].reshape(-1))


def combined(op: Op, values: Any) -> Any:
    kind = np.float32 if values.dtype == np.float16 else values.dtype.type  # sums are made wider
    total = kind(op.meaning.identity(values.dtype))
    for value in values:
        total = COMBINE[op.meaning.combine](total, value)
    return total


def meant_scan(op: Op, operands: Any, params: Any, out: Any, index: Any) -> Any:
    axis = params["axis"]
    before = (*index[:axis], slice(index[axis] + 1), *index[axis + 1:])
    return combined(op, operands[0]._data[before])


def meant_view(op: Op, operands: Any, params: Any, out: Any, index: Any) -> Any:
    types = [type_of(x) for x in operands]

    def at(n: int, place: Any) -> int:
        return int(operands[n]._data[tuple(place)])

    for source in op.meaning(None, index, types, at, **params):
        if source.mask is None or source.mask:
            assert all(0 <= i < n for i, n in zip(source.index, types[source.input].shape))
            return operands[source.input]._data[tuple(source.index)]
    return params.get("fill", 0)


def meant_create(op: Op, operands: Any, params: Any, out: Any, index: Any) -> Any:
    readers = [lambda i, a=x._data: a[i] for x in operands]
    return op.meaning(Scalars(), index, *readers, **params)


def meant_contract(op: Op, operands: Any, params: Any, out: Any, index: Any) -> Any:
    return np.einsum(params["spec"], *[x._data for x in operands])[index]


def meant_composite(op: Op, operands: Any, params: Any, out: Any, index: Any) -> Any:
    return op.meaning(*operands, **params)._data[index]


def meant_opaque(op: Op, operands: Any, params: Any, out: Any, index: Any) -> Any:
    instead = op.meaning(**params)
    return out[index] if instead is None else instead(*operands, **params)._data[index]


MEANT = {"pointwise": meant_pointwise, "reduce": meant_reduce, "scan": meant_scan,
         "view": meant_view, "create": meant_create, "contract": meant_contract,
         "composite": meant_composite, "opaque": meant_opaque}


@pytest.mark.parametrize("row", [r for r in ROWS if fw.eager.core.op.OPS[r.op].meaning], ids=str)
def test_meaning_is_what_the_implementation_computes(row: Row, rng: np.random.Generator) -> None:
    for inputs in row.inputs(rng):
        for op, operands, params, out in calls_of(row, inputs)[1]:
            for index in places(out._data.shape):
                with np.errstate(all="ignore"):
                    value = MEANT[op.kind](op, operands, params, out._data, index)
                assert_close(out._data[index], value, max(row.tolerance, 1e-5))


# ---- gradients against finite differences, by one random projection
def projected(row: Row, xs: list[Tensor], u: Any, order: int) -> Any:
    """A real number made of the result (order 1) or of its gradients (order 2)."""
    value = fw.real(row.call(*xs) * u).sum()
    if order == 1:
        return value
    gradients = fw.grad(value, [x for x in xs if x.requires_grad], create_graph=True)
    return sum((fw.real(g * fw.conj(g)).sum() for g in gradients),
               start=fw.tensor(0.0, dtype=fw.float64))


def normal(rng: Any, shape: Any, dtype: Any = np.float64) -> Any:
    drawn = rng.standard_normal(shape)
    return np.asarray(drawn + 1j * rng.standard_normal(shape) if dtype.kind == "c" else drawn)


def check_gradient(row: Row, inputs: tuple[Any, ...], rng: Any, order: int) -> None:
    arrays = [wide(a) for a in inputs]
    xs = tensors(tuple(arrays), requires_grad=True)
    out = row.call(*xs)
    u = fw.from_numpy(normal(rng, out.shape, out.dtype))
    leaves = [x for x in xs if x.requires_grad]
    value = projected(row, xs, u, order)
    if order == 2 and not value.requires_grad:
        gradients = [fw.zeros_like(x) for x in leaves]  # the op is linear
    else:
        gradients = [g if g is not None else fw.zeros_like(x) for g, x in
                     zip(fw.grad(value, leaves, allow_unused=True), leaves)]
    steps = [normal(rng, a.shape, a.dtype) if a.dtype.kind in "fc" else None for a in arrays]
    slope = sum((g.numpy().conj() * v).real.sum() for g, v in
                zip(gradients, (v for v in steps if v is not None)))
    moved = [[a if v is None else np.asarray(a + sign * 1e-6 * v) for a, v in zip(arrays, steps)]
             for sign in (1, -1)]
    high, low = (projected(row, tensors(tuple(m), order == 2), u, order).item() for m in moved)
    for g, x in zip(gradients, leaves):
        assert (g.shape, g.dtype) == (x.shape, x.dtype)
    np.testing.assert_allclose(slope, (high - low) / 2e-6, rtol=1e-5, atol=1e-6)


def differentiable(row: Row, rng: Any) -> list[tuple[Any, ...]]:
    """Inputs with finite floats or complex numbers."""
    return [inputs for inputs in row.inputs(rng) if any(a.dtype.kind in "fc" for a in inputs)
            and all(np.isfinite(a).all() for a in inputs)]


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad], ids=str)
def test_gradient(row: Row, rng: np.random.Generator) -> None:
    for inputs in differentiable(row, rng):
        if row.call(*tensors(inputs, requires_grad=True)).requires_grad:
            check_gradient(row, inputs, rng, 1)


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad and r.smooth], ids=str)
def test_second_gradient(row: Row, rng: np.random.Generator) -> None:
    for inputs in differentiable(row, rng):
        if row.call(*tensors(inputs, requires_grad=True)).requires_grad:
            check_gradient(row, inputs, rng, 2)


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad], ids=str)
def test_gradient_keeps_small_dtypes(row: Row, rng: np.random.Generator) -> None:
    for inputs in differentiable(row, rng):
        small = tuple(a.astype(np.float16) if a.dtype.kind == "f" else a for a in inputs)
        xs = tensors(small, requires_grad=True)
        out = row.call(*xs)
        if out.requires_grad and out.dtype == fw.float16:
            leaves = [x for x in xs if x.requires_grad]
            for g, x in zip(fw.grad(out, leaves, fw.ones_like(out)), leaves):
                assert g.dtype == x.dtype


# ---- errors
@pytest.mark.parametrize(("row", "bad"), [(r, b) for r in ROWS for b in r.errors],
                         ids=lambda v: v.words if isinstance(v, Bad) else str(v))
def test_errors_say_what_is_wrong_where_and_what_to_do(row: Row, bad: Bad) -> None:
    with pytest.raises(FusewireError) as caught:
        bad.call()
    assert bad.words in caught.value.message
    assert "/tests/" in caught.value.line and caught.value.help
