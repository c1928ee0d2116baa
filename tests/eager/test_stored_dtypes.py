"""Tensors of dtypes that are only stored: float8, and numbers of 4 and 2 bits."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rows.codes import every_code, near_ties
from samples import ROWS, Row

import fusewire as fw
from fusewire.eager import interpreter
from fusewire.eager.arrays import dtypes
from fusewire.eager.core.dispatch import evaluate
from fusewire.eager.core.op import Op
from fusewire.eager.core.tensor import Tensor

STORED = list(dtypes.STORED)
FLOATS = [d for d in STORED if dtypes.kind(d) == "f"]
EVERY = pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.name)
EVERY_FLOAT = pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)


def every_number(dtype: Any) -> Tensor:
    """A tensor of all numbers of a dtype."""
    return fw.from_numpy(every_code(dtype).view(dtype))


def assert_stored(x: Any, expected: Any) -> None:
    """Asserts equal shapes, dtypes and bits."""
    got = x.numpy()
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(*(np.ascontiguousarray(a).view(np.uint8)
                                    for a in (got, expected)))


# ---- dtypes
@EVERY
def test_a_dtype_is_public_and_has_a_name(dtype: Any) -> None:
    assert getattr(fw, dtype.name) == dtype
    assert fw.zeros(2, dtype=dtype.name).dtype == dtype
    point = "." if dtypes.kind(dtype) == "f" else ""
    assert repr(fw.ones(2, dtype=dtype)) == f"tensor([1{point}, 1{point}], dtype={dtype.name})"


@EVERY
def test_limits_are_those_of_all_numbers(dtype: Any) -> None:
    numbers = every_number(dtype).astype(fw.float64).numpy()
    finite = numbers[np.isfinite(numbers)]
    limits = fw.finfo(dtype) if dtypes.kind(dtype) == "f" else fw.iinfo(dtype)
    assert (limits.min, limits.max) == (finite.min(), finite.max())
    assert len(numbers) == 2 ** limits.bits
    with pytest.raises(fw.DTypeError, match="use fw"):
        (fw.iinfo if dtypes.kind(dtype) == "f" else fw.finfo)(dtype)


@EVERY
def test_nothing_promotes(dtype: Any) -> None:
    assert fw.result_type(dtype, dtype) == dtype
    for other in (*dtypes.COMPUTED, *STORED):
        if other != dtype:
            assert not fw.can_cast(dtype, other) and not fw.can_cast(other, dtype)
            with pytest.raises(fw.DTypeError, match=r"is only stored\n.*|cast it first"):
                fw.result_type(dtype, other)
    kind = {"f": "real floating", "i": "signed integer", "u": "unsigned integer"}
    assert fw.isdtype(dtype, kind[dtypes.kind(dtype)]) and not fw.isdtype(dtype, "bool")


# ---- casts
@EVERY_FLOAT
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16"])
def test_a_cast_rounds_as_ml_dtypes_does(dtype: Any, source: str) -> None:
    with np.errstate(all="ignore"):
        x = near_ties(dtype).astype(dtypes.as_dtype(source))
        assert_stored(fw.from_numpy(x).astype(dtype), x.astype(dtype))


@EVERY
def test_all_numbers_come_back(dtype: Any) -> None:
    x = every_number(dtype)
    for wide in (fw.float16, fw.bfloat16, fw.float32, fw.float64):
        if dtype != fw.float8_e8m0fnu or wide not in (fw.float16,):  # whose range is smaller
            expected = x.numpy().astype(np.float32).astype(wide)
            np.testing.assert_array_equal(x.astype(wide).numpy().astype(np.float64),
                                          expected.astype(np.float64))
            if dtype != fw.float4_e2m1fn:
                assert_stored(x.astype(wide).astype(dtype), x.numpy().astype(np.float32)
                              .astype(dtype))


@EVERY
@pytest.mark.parametrize("to", STORED, ids=lambda d: d.name)
def test_a_cast_between_stored_dtypes_is_that_of_its_numbers(dtype: Any, to: Any) -> None:
    x = every_number(dtype)
    assert_stored(x.astype(to), x.numpy() if to == dtype else
                  x.astype(fw.float32).astype(to).numpy())


def test_overflow_follows_the_format() -> None:
    """Nothing saturates but float4, which has neither inf nor nan."""
    big = fw.tensor([1e9, -1e9, fw.inf, fw.nan])
    assert str(big.astype(fw.float8_e4m3fn).tolist()) == "[nan, nan, nan, nan]"
    assert str(big.astype(fw.float8_e5m2).tolist()) == "[inf, -inf, inf, nan]"
    assert str(big.astype(fw.float8_e5m2fnuz).tolist()) == "[nan, nan, nan, nan]"
    assert str(big.astype(fw.float4_e2m1fn).tolist()) == "[6.0, -6.0, 6.0, -0.0]"
    assert fw.tensor([464.0, 465.0]).astype(fw.float8_e4m3fn).tolist()[0] == 448
    assert fw.tensor([8, -9, 15, 255]).astype(fw.int4).tolist() == [-8, 7, -1, -1]  # as int8 wraps


def test_numbers_of_python_that_do_not_fit_are_refused() -> None:
    for dtype, number in ((fw.int4, 8), (fw.uint4, -1), (fw.int2, 2), (fw.uint2, 4)):
        for make in (lambda d, n: fw.full((2,), n, dtype=d), lambda d, n: fw.tensor([0, n], d),
                     lambda d, n: fw.zeros(2, dtype=d).fill_(n)):
            with pytest.raises(fw.DTypeError, match=f"out of bounds for {dtype.name}"):
                make(dtype, number)


# ---- gradients
@EVERY_FLOAT
def test_the_gradient_of_a_cast_is_not_rounded(dtype: Any) -> None:
    x = fw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    low = x.astype(dtype)
    weights = fw.tensor([1.06, 1000.0, 1e-9])
    (low.astype(fw.float32) * weights + low.astype(fw.float32)).sum().backward()
    assert x.grad is not None and low.requires_grad
    np.testing.assert_array_equal(x.grad.numpy(), (weights + 1).numpy())


@EVERY_FLOAT
def test_gradients_of_products_by_scales(dtype: Any) -> None:
    a, b = (fw.from_numpy(np.random.default_rng(s).random((4, 4), np.float32) + 0.5)
            for s in (0, 1))
    scales = [fw.tensor([[0.5], [2.0], [1.0], [3.0]]), fw.tensor(0.3)]
    lows = [x.astype(dtype) for x in (a, b)]
    given = [x.requires_grad_() for x in (*lows, *scales)]
    wide = [fw.tensor(x.detach().astype(fw.float32), requires_grad=True) for x in given]
    fw.scaled_matmul(*given).square().sum().backward()
    ((wide[0] * wide[2]) @ (wide[1] * wide[3])).square().sum().backward()
    for x, expected in zip(given, wide):
        assert x.grad is not None and expected.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), expected.grad.numpy(), 1e-5)


MOVES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(3, 4).T, "slice": lambda x: x[1:9:2],
    "flip": lambda x: x.flip(0),
    "take": lambda x: x[fw.tensor([3, 3, 0])], "concat": lambda x: fw.concat([x, x[:2]]),
    "stack": lambda x: fw.stack([x, x]), "broadcast": lambda x: fw.broadcast_to(x, (2, 12)),
    "pad": lambda x: fw.pad(x, ((1, 2),)), "where": lambda x: fw.where(x == x[3], x, x.flip(0)),
    "along": lambda x: fw.take_along_axis(x, fw.tensor([1, 1, 5])),
    "put": lambda x: fw.index_put(x, (fw.tensor([1, 0]),), x[4:6]),
    "scatter": lambda x: fw.scatter(x, 0, fw.tensor([2, 7]), x[:2]),
    "repeat": lambda x: fw.repeat(x, 2), "roll": lambda x: fw.roll(x, 5),
    "tril": lambda x: fw.tril(x.reshape(3, 4)), "mask": lambda x: x[fw.arange(12) % 3 == 0],
    "split": lambda x: x.split(5)[2], "diagonal": lambda x: fw.linalg.diagonal(x.reshape(3, 4)),
    "expand": lambda x: x[None, :, None],
    "put_slice": lambda x: fw.slice_scatter(x, x[:3], 0, 4, 7),
}
EVERY_MOVE = pytest.mark.parametrize("name", MOVES)


def many_numbers(dtype: Any) -> Tensor:
    """Twelve numbers of a dtype."""
    codes = every_code(dtype)
    return fw.from_numpy(np.resize(codes[::max(1, len(codes) // 12)], 12).view(dtype))


@EVERY_MOVE
@EVERY
def test_a_move_keeps_all_bits(dtype: Any, name: str) -> None:
    x = many_numbers(dtype)
    moved = MOVES[name](x)
    if dtype == fw.float8_e8m0fnu and name in ("pad", "tril"):  # which has no zero: nan
        assert bool(fw.isnan(moved).any())
    elif name != "where":  # in which nan is unequal to itself
        assert_stored(moved, MOVES[name](x.astype(fw.float32)).astype(dtype).numpy()
                      if dtype != fw.float4_e2m1fn else moved.numpy())
    assert moved.dtype == dtype


@EVERY_MOVE
def test_gradients_flow_through_moves(name: str) -> None:
    x = fw.arange(12, dtype=fw.float32).requires_grad_()
    weights = fw.arange(MOVES[name](x).size, dtype=fw.float32) + 0.3
    grads = []
    for low in (x.astype(fw.float8_e4m3fn), x * 1):
        x.grad = None
        (MOVES[name](low).astype(fw.float32).reshape(-1) * weights).sum().backward()
        assert x.grad is not None
        grads.append(x.grad.numpy())
    np.testing.assert_array_equal(*grads)


# ---- what is refused
class CastSpy:
    """An interpreter that runs every op and notes the casts from stored dtypes."""

    can_read_values = True
    keeps_layers = False

    def __init__(self) -> None:
        self.casts: list[Any] = []

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        if op.name == "cast" and dtypes.is_stored(inputs[0].dtype) \
                and params["dtype"] != dtypes.bool:  # which is a comparison with 0
            self.casts.append(params["dtype"])
        return evaluate(op, inputs, params)

    def shape(self, tensor: Tensor) -> Any:
        return tensor._data.shape

    def note_constant(self, tensor: Tensor) -> None: ...
    def changed(self, tensor: Tensor) -> None: ...
    def reads_values(self, tensor: Tensor, how: str) -> None: ...
    def reads_grad(self, tensor: Tensor) -> None: ...
    def sets_grad(self, tensor: Tensor) -> None: ...
    def apply_data_dependent(self, op: Op, x: Tensor) -> None: ...


CASTS = ("cast",)  # ops whose rows cast


@pytest.mark.parametrize("dtype", [fw.float8_e5m2, fw.float8_e4m3fn, fw.int4],
                         ids=lambda d: d.name)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_no_function_computes_with_them(row: Row, dtype: Any) -> None:
    """A function moves or compares elements, or raises an error: none casts silently."""
    for arrays in row.inputs(np.random.default_rng(0))[:3]:
        if not any(a.dtype.kind == "f" for a in arrays):
            continue
        with np.errstate(all="ignore"):
            given = [fw.from_numpy(a.astype(dtype) if a.dtype.kind == "f" else a) for a in arrays]
        spy: Any = CastSpy()
        interpreter.STATE.active = spy
        try:
            row.call(*given)
        except fw.DTypeError:
            continue
        finally:
            interpreter.STATE.active = None
        assert row.op in CASTS or row.call is fw.scaled_matmul or not spy.casts


@EVERY
def test_arithmetic_says_to_cast(dtype: Any) -> None:
    x = fw.ones(2, dtype=dtype)
    for compute in (lambda: x + x, lambda: x * 2, lambda: 1 - x, lambda: -x, lambda: x @ x,
                    lambda: x < x, lambda: x.sum(), lambda: fw.exp(x), lambda: np.add(x, x),
                    lambda: x.__iadd__(1), lambda: fw.compile(lambda y: y + y)(x)):
        with pytest.raises(fw.DTypeError, match=f"{dtype.name} is only stored, not computed with"
                                                r"[\s\S]*cast first: x.astype\(fw."):
            compute()
    with pytest.raises(fw.DTypeError, match=r"no common dtype[\s\S]*cast it first"):
        x + fw.ones(2)


@EVERY
def test_comparisons_for_equality(dtype: Any) -> None:
    x = every_number(dtype)
    wide = x.numpy().astype(np.float32)
    np.testing.assert_array_equal((x == x.flip(0)).numpy(), wide == wide[::-1])
    np.testing.assert_array_equal((x != 1).numpy(), wide != 1)
    if dtypes.kind(dtype) == "f":
        np.testing.assert_array_equal(fw.isnan(x).numpy(), np.isnan(wide))


# ---- writes, and other libraries
@EVERY
def test_writes(dtype: Any) -> None:
    x = fw.zeros((2, 3), dtype=dtype)
    view = x[0]
    x[1] = 1
    x[0, 1:] = fw.ones(2, dtype=dtype)
    view[0] = 1
    assert x.astype(fw.float32).tolist() == [[1, 1, 1], [1, 1, 1]]
    x.copy_(fw.zeros((2, 3)) + 1)
    x.fill_(1)
    assert bool((x == 1).all()) and x.dtype == dtype


@EVERY
def test_copies_and_pickles(dtype: Any) -> None:
    x = every_number(dtype)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), fw.tensor(x),
                  fw.asarray(x.numpy()), fw.from_numpy(np.asarray(x))):
        assert_stored(other, x.numpy())


IN_FILES = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")


@EVERY
def test_checkpoints(dtype: Any, tmp_path: Path) -> None:
    x, path = every_number(dtype).reshape(2, -1), str(tmp_path / "x.safetensors")
    if dtype.name in IN_FILES:
        fw.save({"other": fw.ones(3), "x": x, "empty": x[:0]}, path)
        loaded = fw.load(path)
        assert_stored(loaded["x"], x.numpy())
        assert_stored(loaded["empty"], x[:0].numpy())
        return
    with pytest.raises(fw.DTypeError, match=r"does not have[\s\S]*holds the same numbers"):
        fw.save({"x": x}, path)


@EVERY
def test_dlpack(dtype: Any) -> None:
    x = every_number(dtype)
    if dtype.name in IN_FILES:
        assert_stored(fw.from_dlpack(x), x.numpy())
        return
    with pytest.raises(BufferError, match=f"{dtype.name} has a byte for each number here"):
        fw.from_dlpack(x)


def test_a_module_in_float8() -> None:
    module = fw.nn.Linear(3, 2)
    weight = module.weight.numpy()
    module.to(fw.float8_e4m3fn)
    assert_stored(module.weight, weight.astype(dtypes.float8_e4m3fn))
    other = fw.nn.Linear(3, 2).to(fw.float8_e4m3fn)
    other.load_state_dict(module.state_dict())
    assert_stored(other.weight, module.weight.numpy())
