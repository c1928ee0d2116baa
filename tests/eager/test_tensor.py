"""Tensors: making them, dtypes, operators, NumPy beside them, and their way into Python."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.arrays.shapes import axes_of
from fusewire.eager.errors import DeviceError, DTypeError, ShapeError

NAMES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


# ---- making
@pytest.mark.parametrize(("data", "dtype", "shape"), [
    (1.5, "float32", ()), (3, "int64", ()), (True, "bool", ()), (1j, "complex64", ()),
    ([1, 2], "int64", (2,)), ([[1, 2.5]], "float32", (1, 2)), ([], "float32", (0,)),
    ([[], []], "float32", (2, 0)), (range(3), "int64", (3,)), (np.float64(2), "float64", ()),
    (np.zeros((2, 0), np.int8), "int8", (2, 0)), ((True, 2), "int64", (2,)),
])
def test_tensor_takes_numbers_lists_and_arrays(data: Any, dtype: str, shape: Any) -> None:
    x = fw.tensor(data)
    assert (x.dtype.name, x.shape, x.ndim, x.size) == (dtype, shape, len(shape), np.size(data))


def test_tensor_copies_and_from_numpy_does_not() -> None:
    a = np.zeros(2)
    copied, shared = fw.tensor(a), fw.from_numpy(a)
    a[0] = 1
    assert copied.tolist() == [0.0, 0.0] and shared.tolist() == [1.0, 0.0]


def test_tensors_in_lists() -> None:
    assert fw.tensor([fw.tensor(1.0), [2.0][0]]).tolist() == [1.0, 2.0]


def test_requires_grad_at_birth() -> None:
    assert fw.tensor(1.0, requires_grad=True).requires_grad
    x = fw.ones(1)
    x.requires_grad = True
    assert x.is_leaf and not fw.tensor(x).requires_grad


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: fw.tensor("a"), DTypeError, "tensor: cannot make a tensor of str: 'a'"),
    (lambda: fw.tensor(None), DTypeError, "tensor: cannot make a tensor of NoneType"),
    (lambda: fw.tensor([[1], [1, 2]]), ShapeError, "tensor: cannot make a tensor of [[1], [1, 2]]"),
    (lambda: fw.tensor([300], dtype=fw.uint8), DTypeError, "tensor: cannot make a tensor of [300]"),
    (lambda: fw.tensor(2 ** 63), DTypeError, "tensor: cannot make a tensor of int: 92233"),
    (lambda: fw.tensor([1j], dtype=fw.float32), DTypeError, "tensor: cannot make a tensor of [1j]"),
    (lambda: fw.tensor(1, dtype="f3"), DTypeError, "'f3' is not a dtype of fusewire"),
    (lambda: fw.tensor(1, device="cuda"), DeviceError, 'device "cuda" is not available'),
    (lambda: fw.ones(1).to("cuda:0"), DeviceError, 'device "cuda" is not available'),
    (lambda: fw.from_numpy([1]), DTypeError, "from_numpy: takes a NumPy array, not list"),
    (lambda: fw.from_numpy(np.array(["a"])), DTypeError, "is not a dtype of fusewire"),
])
def test_what_cannot_be_made(make: Any, error: type, words: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert words in caught.value.message and caught.value.help and "/tests/" in caught.value.line


@pytest.mark.parametrize(("args", "expected"), [
    ((5,), range(5)), ((2, 5), range(2, 5)), ((5, 0, -2), range(5, 0, -2)), ((3, 3), []),
    ((5, 2), []), ((0,), []), ((0, 1, 0.25), [0, 0.25, 0.5, 0.75]), ((1.0, 0.0, -0.5), [1.0, 0.5]),
    ((np.int64(3),), range(3)),
])
def test_arange(args: Any, expected: Any) -> None:
    x = fw.arange(*args)
    assert x.tolist() == list(expected)
    assert x.dtype == (fw.float32 if any(isinstance(a, float) for a in args) else fw.int64)


def test_arange_with_a_dtype() -> None:
    assert fw.arange(0, 2, 0.5, dtype=fw.int64).tolist() == [0, 0, 1, 1]
    assert fw.arange(3, dtype=fw.float64).dtype == fw.float64
    with pytest.raises(ShapeError, match="arange: step is 0"):
        fw.arange(0, 3, 0)


def test_zeros_ones_full_and_their_likes() -> None:
    assert fw.zeros(2, 0).shape == fw.zeros((2, 0)).shape == (2, 0)
    assert fw.ones().shape == () and fw.zeros(3).dtype == fw.float32
    x = fw.full((2,), 3)
    assert x.dtype == fw.int64 and fw.full_like(x, 1.5).tolist() == [1, 1]
    assert fw.ones_like(x, dtype=fw.float16).dtype == fw.float16
    assert fw.zeros_like(x).tolist() == [0, 0] and fw.full((1,), np.nan, fw.float16).isnan().item()


# ---- dtypes that meet
RANKS = {"b": 0, "i": 1, "u": 1, "f": 2}


@pytest.mark.parametrize("a", NAMES)
@pytest.mark.parametrize("b", NAMES)
def test_promotion(a: str, b: str) -> None:
    """Inside a kind as in NumPy; between kinds the dtype of the higher kind."""
    x, y = fw.ones(2, dtype=a), fw.ones(2, dtype=b)
    ranks = [RANKS[t.dtype.kind] for t in (x, y)]
    if ranks[0] != ranks[1]:
        expected = a if ranks[0] > ranks[1] else b
    elif np.promote_types(a, b).kind == "f" and ranks[0] == 1:
        with pytest.raises(DTypeError, match="have no common integer dtype"):
            x + y
        return
    else:
        expected = np.promote_types(a, b).name
    assert (x + y).dtype == fw.where(x > 0, x, y).dtype == expected


@pytest.mark.parametrize(("dtype", "scalar", "expected"), [
    ("float16", 2, "float16"), ("float16", 2.5, "float16"), ("float64", 1.5, "float64"),
    ("int8", 2, "int8"), ("int32", 2.5, "float32"), ("uint8", True, "uint8"),
    ("bool", True, "bool"),
    ("bool", 2, "int64"), ("bool", 2.5, "float32"), ("float64", 1j, "complex128"),
    ("float32", 1j, "complex64"), ("float32", np.float64(0.5), "float32"),
    ("float32", np.int64(2), "float32"), ("int32", np.float64(2), "float32"),
])
def test_scalars_adapt_in_either_place(dtype: str, scalar: Any, expected: str) -> None:
    x = fw.ones(2, dtype=dtype)
    for out in (x + scalar, scalar + x, x * scalar, scalar * x):
        assert isinstance(out, fw.Tensor) and out.dtype.name == expected
    left, right = x + scalar, scalar + x
    assert left.tolist() == right.tolist() == [1 + scalar] * 2 or dtype == "bool"


def test_a_scalar_must_fit() -> None:
    with pytest.raises(DTypeError, match="add"):
        fw.ones(2, dtype=fw.uint8) + 300


@pytest.mark.parametrize("operator", "+ - * / // % ** < <= > >= == !=".split())
def test_operators_with_scalars_and_arrays_on_either_side(operator: str) -> None:
    a, b = np.array([1.0, 2.0, 4.0]), np.array([2.0, 3.0, 0.5])
    x, y = fw.tensor(a), fw.tensor(b)
    for left, right in ((x, y), (x, b), (a, y), (x, 3), (3, y), (x, 0.5), (0.5, y),
                        (np.float64(3), y), (x, np.float32(3)), (np.int32(3), y),
                        (np.array(3.0), y)):
        out = eval(f"left {operator} right")
        plain = eval(f"L {operator} R", {"L": a if left is x else left,
                                         "R": b if right is y else right})
        assert isinstance(out, fw.Tensor)
        np.testing.assert_allclose(out.numpy(), plain, rtol=1e-12)


@pytest.mark.parametrize("operator", ["&", "|", "^", "<<", ">>"])
def test_bit_operators(operator: str) -> None:
    a, b = np.array([5, 6, 7]), np.array([1, 2, 3])
    for left, right in ((fw.tensor(a), fw.tensor(b)), (fw.tensor(a), 2), (a, fw.tensor(b))):
        plain = [v.numpy() if isinstance(v, fw.Tensor) else v for v in (left, right)]
        expected = eval(f"L {operator} R", dict(zip("LR", plain)))
        assert eval(f"left {operator} right").tolist() == expected.tolist()
    assert (~fw.tensor([True, False])).tolist() == [False, True]


def test_matmul_operator_with_arrays() -> None:
    a = np.arange(6.0).reshape(2, 3)
    for out in (fw.tensor(a) @ a.T, a @ fw.tensor(a.T)):
        assert isinstance(out, fw.Tensor) and out.tolist() == (a @ a.T).tolist()


def test_truth_values_add_as_in_numpy() -> None:
    t, f = fw.tensor([True]), fw.tensor([False])
    assert ((t + t).item(), (t * f).item(), (t + 1).item(), t.sum().item()) == (True, False, 2, 1)
    with pytest.raises(DTypeError, match="subtract: takes numbers, not bool"):
        t - f


def test_integers_behave_as_in_numpy() -> None:
    x = fw.tensor([-7, 7])
    assert (x // 2).tolist() == [-4, 3] and (x % 3).tolist() == [2, 1]
    assert (x / 2).dtype == fw.float32 and (x ** 2).dtype == fw.int64
    assert (x // 0).tolist() == [0, 0] and (fw.full((1,), 127, fw.int8) + 1).tolist() == [-128]


def test_division_by_zero_is_silent() -> None:
    x = fw.tensor([1.0, -1.0, 0.0])
    np.testing.assert_array_equal((x / 0).numpy(), [np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(fw.tensor([0.0, -1.0]).log().numpy(), [-np.inf, np.nan])
    assert fw.full((2,), 6e4, fw.float16).sum().item() == np.inf


def test_unknown_operands_get_their_turn() -> None:
    class Other:
        def __radd__(self, other: Any) -> str:
            return "theirs"

    assert fw.ones(1) + Other() == "theirs"
    assert (fw.ones(1) == None) is False and (fw.ones(1) != "a") is True  # noqa: E711
    with pytest.raises(TypeError):
        fw.ones(1) + "a"


# ---- in place
def test_in_place_operators_change_this_tensor_alone() -> None:
    x = fw.tensor([1.0, 2.0])
    y, array = x, x.numpy()
    other = x * 1
    x += 1
    x *= fw.tensor([2.0, 3.0])
    x -= np.array([1.0, 1.0])
    x /= 2
    assert x is y and x.tolist() == [1.5, 4.0]
    assert array.tolist() == [1.0, 2.0] and other.tolist() == [1.0, 2.0]


def test_in_place_keeps_shape_and_dtype() -> None:
    x = fw.ones(2, dtype=fw.float32)
    x += fw.ones(2, dtype=fw.float64)
    assert x.dtype == fw.float32
    with pytest.raises(ShapeError, match=r"add=: the result has shape \(3, 2\)"):
        x += fw.ones(3, 2)
    n = fw.tensor([1, 2])
    with pytest.raises(DTypeError, match="truediv=: the result is float32, which does not fit"):
        n /= 2
    assert n.tolist() == [1, 2]


def test_fill_zero_and_copy() -> None:
    x = fw.ones(2, 3)
    assert x.fill_(7) is x and x.tolist() == [[7.0] * 3] * 2
    assert x.copy_(fw.arange(3)).tolist() == [[0.0, 1.0, 2.0]] * 2
    assert x.zero_().tolist() == [[0.0] * 3] * 2 and x.dtype == fw.float32
    weight = fw.ones(2).requires_grad_()
    y = fw.zeros(2).copy_(weight)
    assert not y.is_leaf and y.requires_grad


# ---- NumPy and Python
def test_numpy_sees_a_read_only_view() -> None:
    x = fw.ones(2)
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 5
    copied = np.array(x)
    copied[0] = 5
    assert x.tolist() == [1.0, 1.0] and np.asarray(x, dtype=np.int8).dtype == np.int8


def test_numbers_leave() -> None:
    x = fw.tensor([[2.5]])
    assert (x.item(), float(x), int(x), bool(x), complex(x)) == (2.5, 2.5, 2, True, 2.5)
    assert f"{x:.2f}" == "2.50" and [10, 20, 30][fw.tensor(1)] == 20
    for convert in (float, int, bool, fw.Tensor.item):
        with pytest.raises(DTypeError, match="needs a tensor with one element"):
            convert(fw.ones(2))
    with pytest.raises(DTypeError, match="cannot be used as an index"):
        [1, 2][fw.tensor(1.0)]


def test_iteration_and_containment() -> None:
    assert [row.tolist() for row in fw.arange(4).reshape(2, 2)] == [[0, 1], [2, 3]]
    assert 3 in fw.arange(4) and 4 not in fw.arange(4)
    a, b = fw.arange(2)
    assert (a.item(), b.item(), len(fw.zeros(5, 0))) == (0, 1, 5)
    for use in (len, iter, list):
        with pytest.raises(DTypeError, match="0-d tensor has no length"):
            use(fw.tensor(1.0))


def test_repr_reads_as_what_made_it() -> None:
    assert repr(fw.tensor([[1.0, 2.0]])) == "tensor([[1., 2.]])"
    assert repr(fw.ones(1, dtype=fw.float16).requires_grad_()) == \
        "tensor([1.], dtype=float16, requires_grad=True)"
    assert len(repr(fw.zeros(10_000))) < 100


def test_pickle_and_deepcopy() -> None:
    x = fw.tensor([1.0, 2.0], requires_grad=True)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.tolist() == x.tolist() and y.requires_grad and y.is_leaf and y is not x
        with fw.no_grad():
            y += 1
        assert x.tolist() == [1.0, 2.0]


def test_tensors_are_keys_by_identity() -> None:
    x, y = fw.ones(1), fw.ones(1)
    assert len({x: 1, y: 2}) == 2


def test_device_and_bytes() -> None:
    x = fw.zeros(3, dtype=fw.float64)
    assert (x.device, x.nbytes, x.to("cpu").tolist(), x.to(fw.int8).dtype) == \
        ("cpu", 24, [0.0] * 3, fw.int8)


def test_functions_take_numpy_arrays_too() -> None:
    a = np.array([[1.0, 4.0]])
    for out in (fw.sqrt(a), fw.add(a, a), fw.where(a > 2, a, 0)):
        assert isinstance(out, fw.Tensor)


# ---- statistics
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_mean_var_std(axis: Any, keepdims: bool) -> None:
    a = np.random.default_rng(0).standard_normal((2, 3, 4))
    x = fw.tensor(a)
    for name, more, numpys in (("mean", {}, {}), ("var", {}, {}),
                               ("std", {"correction": 1}, {"ddof": 1})):
        out = getattr(x, name)(axis=axis, keepdims=keepdims, **more)
        expected = getattr(a, name)(axis=axis, keepdims=keepdims, **numpys)
        np.testing.assert_allclose(out.numpy(), expected)


def test_statistics_of_too_little() -> None:
    assert fw.zeros(0).mean().isnan().item() and fw.zeros(1).var(correction=1).isnan().item()
    assert fw.zeros(1).var(correction=2).isnan().item()
    for name in ("mean", "var", "std"):
        with pytest.raises(DTypeError, match=r"takes (real )?floating point tensors, not int64"):
            getattr(fw.arange(3), name)()


def test_logsumexp() -> None:
    x = fw.tensor([[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 0.0]])
    expected = [1000 + np.log(2), -np.inf, np.inf]
    np.testing.assert_allclose(x.logsumexp().numpy(), expected, rtol=1e-6)
    assert x.logsumexp(0, keepdims=True).shape == (1, 2)
    assert fw.zeros(2, 0).softmax().shape == (2, 0)


def test_clip() -> None:
    x = fw.tensor([-1.0, 0.5, np.nan, 2.0])
    np.testing.assert_array_equal(x.clip(0, 1).numpy(), [0, 0.5, np.nan, 1])
    np.testing.assert_array_equal(x.clip(max=1).numpy(), [-1, 0.5, np.nan, 1])


def test_axes_may_be_any_integer() -> None:
    assert axes_of("sum", np.int64(-1), 3) == (2,)
    assert fw.ones(2, 3).sum(np.int64(0)).tolist() == [2.0] * 3
    assert fw.zeros(np.int64(2), 3).reshape(np.int64(6)).shape == (6,)


# ---- several in one
def test_concat_and_stack() -> None:
    x, y = fw.tensor([[1, 2], [3, 4]]), fw.tensor([[5.0, 6.0]])
    joined = fw.concat([x, y])
    assert (joined.dtype, joined.tolist()) == (fw.float32, [[1, 2], [3, 4], [5, 6]])
    assert fw.concat([x, x], axis=-1).shape == (2, 4)
    assert fw.concat([x, y], axis=None).tolist() == [1, 2, 3, 4, 5, 6]
    assert fw.stack([x, x, x], axis=1).shape == (2, 3, 2)
    assert fw.stack([fw.tensor(1), np.float32(2.5)]).tolist() == [1, 2.5]


def test_the_gradient_of_a_join_comes_apart() -> None:
    x, y = fw.ones(2).requires_grad_(), fw.ones(3).requires_grad_()
    (fw.concat([x, y]) * fw.arange(5)).sum().backward()
    assert x.grad.tolist() == [0, 1] and y.grad.tolist() == [2, 3, 4]


@pytest.mark.parametrize("join, says", [
    (lambda: fw.concat([]), "at least one tensor"),
    (lambda: fw.concat(fw.ones(2)), "list or tuple"),
    (lambda: fw.concat([fw.ones(2, 3), fw.ones(2, 4)]), "differ in more than"),
    (lambda: fw.concat([fw.tensor(1.0)]), "no axis"),
    (lambda: fw.stack([fw.ones(2), fw.ones(3)]), "differ"),
])
def test_what_cannot_be_joined(join: Any, says: str) -> None:
    with pytest.raises(fw.ShapeError, match=says):
        join()


def test_to_takes_a_device_a_dtype_or_both() -> None:
    x = fw.ones(2)
    assert x.to("cpu").dtype == x.to(device="cpu").dtype == x.to().dtype == fw.float32
    for moved in (x.to(fw.float64), x.to("cpu", fw.float64), x.to(dtype=fw.float64),
                  x.to(device="cpu", dtype=fw.float64), x.to("cpu", fw.float64, non_blocking=True)):
        assert moved.dtype == fw.float64
    with pytest.raises(fw.DeviceError, match="cuda"):
        x.to(device="cuda", dtype=fw.float64)
