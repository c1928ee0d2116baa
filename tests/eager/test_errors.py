"""Errors name the op, what was got and expected, the user's line, and the next step."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager import errors
from fusewire.eager.core.op import OPS, Op, define
from fusewire.eager.errors import FusewireError
from fusewire.eager.ops import create
from fusewire.eager.ops.elementwise.pointwise import apply
from fusewire.eager.ops.shape import view


def message(fn: Any) -> list[str]:
    """The lines of the error that `fn` raises, with its place shortened to the function's name."""
    with pytest.raises(FusewireError) as caught:
        fn()
    text = str(caught.value)
    assert f"{__file__}:" in text
    return [line.split(__file__)[0] if "  at: " in line else line for line in text.splitlines()]


def test_shapes_that_do_not_broadcast() -> None:
    assert message(lambda: fw.zeros(2, 3) + fw.zeros(3, 2)) == [
        "add: shapes (2, 3) and (3, 2) do not broadcast: "
        "axis -2 is 2 on one side and 3 on the other",
        "  at: ",
        "  help: one of them looks transposed: try y.T"]


def test_a_matrix_product_with_a_transposed_side() -> None:
    assert message(lambda: fw.zeros(2, 3) @ fw.zeros(5, 3)) == [
        "matmul: inner sizes differ: left (2, 3) ends in 3, right (5, 3) needs 5",
        "  at: ",
        "  help: the right side looks transposed: pass y.T"]


def test_an_axis_that_is_not_there() -> None:
    assert message(lambda: fw.zeros(2, 3).sum(axis=2)) == [
        "sum: axis 2 is out of range for a tensor with 2 axes",
        "  at: ",
        "  help: axes go from -2 to 1"]


def test_a_dtype_that_an_op_does_not_take() -> None:
    assert message(lambda: fw.zeros(2) & 1) == [
        "bitwise_and: takes integers and bool, not float32",
        "  at: ",
        "  help: cast the operands first, as with x.astype(fw.int64)"]


def test_an_index_outside() -> None:
    assert message(lambda: fw.zeros(2, 3)[0, 3]) == [
        "index 3 is out of range for axis 1 of shape (2, 3)",
        "  at: ",
        "  help: indices go from -3 to 2"]


def test_a_gradient_of_many_numbers() -> None:
    x = fw.zeros(3).requires_grad_()
    assert message(lambda: (x * 2).backward()) == [
        "backward: a tensor of shape (3,) has no single gradient",
        "  at: ",
        "  help: reduce it to one number (loss.mean()), or pass gradient= of its shape"]


def test_the_line_is_the_users() -> None:
    def users_function() -> None:
        fw.zeros(2).reshape(3)

    with pytest.raises(FusewireError) as caught:
        users_function()
    line = inspect.getsourcelines(users_function)[1] + 1
    assert caught.value.line == f"{__file__}:{line}, in users_function"


@pytest.mark.parametrize(("error", "builtin"), [
    ("ShapeError", ValueError), ("DTypeError", TypeError), ("IndexingError", IndexError),
    ("DeviceError", RuntimeError), ("GradientError", RuntimeError), ("StateError", KeyError)])
def test_errors_are_also_pythons_own(error: str, builtin: type) -> None:
    """`except ValueError` around NumPy code goes on working."""
    assert issubclass(getattr(errors, error), builtin)
    assert issubclass(getattr(errors, error), FusewireError)
    assert str(getattr(errors, error)("what", "do this")).startswith("what\n  at: ")


def test_a_failure_inside_of_numpy_is_explained() -> None:
    """An op whose result rule sees nothing wrong, and whose implementation fails all the same."""
    def fail(xp: Any, x: Any) -> Any:
        raise ValueError("something odd")

    op = define(Op("test_odd", "opaque", lambda x: x, fail))
    try:
        with pytest.raises(FusewireError) as caught:
            apply(op, (fw.zeros(2, 3),))
        assert caught.value.message == "test_odd(float32[2, 3]): something odd"
        assert caught.value.__cause__ is None and caught.value.__suppress_context__
    finally:
        OPS.pop("test_odd")


WRONG = [None, "a", [1, 2], {}, object()]


@pytest.mark.parametrize("name", [
    "sum", "prod", "max", "min", "any", "all", "mean", "var", "argmax", "argmin", "softmax",
    "log_softmax", "logsumexp", "squeeze", "expand_dims", "flatten", "flip", "exp", "clip",
    "astype", "reshape", "transpose", "take", "matmul"])
@pytest.mark.parametrize("wrong", WRONG, ids=lambda v: type(v).__name__)
def test_functions_refuse_what_is_no_tensor(name: str, wrong: Any) -> None:
    more = {"astype": (fw.int8,), "reshape": ((2,),), "transpose": (0, 1),
            "take": (fw.tensor([0]),), "matmul": (fw.zeros(2),)}.get(name, ())
    function = getattr(fw.Tensor, name, None) or getattr(fw.eager.ops.products.contract, name)
    inner = {"reshape": view.reshape}.get(name, function)
    with pytest.raises(FusewireError, match=f"{name}: takes tensors, not {type(wrong).__name__}"):
        inner(wrong, *more)


@pytest.mark.parametrize("wrong", [1.5, "a", None, (0,), np.zeros(2)], ids=str)
def test_sizes_and_axes_must_be_whole_numbers(wrong: Any) -> None:
    x = fw.zeros(2, 3)
    for use in (lambda: view.expand_dims(x, (wrong,)), lambda: view.permute_dims(x, (0, wrong)),
                lambda: x.softmax(wrong), lambda: x.argmax((wrong,)),
                lambda: create.iota((2,), wrong), lambda: fw.zeros((2, wrong)),
                lambda: view.broadcast_to(x, (2, wrong)),
                lambda: view.reshape(x, (2, wrong))):
        with pytest.raises(FusewireError) as caught:
            use()
        assert caught.value.help
