"""What a compiled function may be called with, and what makes it record again."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

import numpy as np
import pytest
from oracle import assert_same

import fusewire as fw

X = fw.tensor([1.0, 2.0, 3.0])
Y = fw.tensor([10.0, 20.0, 30.0])


def agree(fn: Any, *calls: Any, recordings: int) -> Any:
    """fn compiled gives what it gives eager, over and over, with so many recordings."""
    compiled = fw.compile(fn, fullgraph=True)
    for _ in range(3):
        for args in calls:
            args, kwargs = args if isinstance(args[-1], dict) and len(args) == 2 and \
                isinstance(args[0], tuple) else (args, {})
            assert_same(compiled(*args, **kwargs), fn(*args, **kwargs), where=str(args))
    assert compiled.stats.recordings == recordings, compiled.misses
    return compiled


class Mode(enum.Enum):
    ADD = 1
    MULTIPLY = 2


@dataclasses.dataclass
class Pair:
    x: fw.Tensor
    scale: float = 1.0


class Point(NamedTuple):
    x: fw.Tensor
    y: fw.Tensor


# ---- kinds of arguments
def test_tensors() -> None:
    agree(lambda x, y: x * y + 1, (X, Y), (Y, X), recordings=1)


def test_a_float_is_part_of_the_recording() -> None:
    agree(lambda x, k: x * k, (X, 2.0), (X, 3.0), recordings=2)


def test_an_int_and_a_float_of_one_value_differ() -> None:
    def f(x: fw.Tensor, k: Any) -> fw.Tensor:
        return fw.arange(3) * k

    agree(f, (X, 2), (X, 2.0), (X, True), recordings=3)


def test_a_string_can_choose_the_path() -> None:
    def f(x: fw.Tensor, mode: str) -> fw.Tensor:
        return x.sum() if mode == "sum" else x.max()

    agree(f, (X, "sum"), (X, "max"), recordings=2)


def test_an_enum_can_choose_the_path() -> None:
    def f(x: fw.Tensor, mode: Mode) -> fw.Tensor:
        return x + x if mode is Mode.ADD else x * x

    agree(f, (X, Mode.ADD), (X, Mode.MULTIPLY), recordings=2)


def test_none_or_a_tensor() -> None:
    def f(x: fw.Tensor, bias: fw.Tensor | None = None) -> fw.Tensor:
        return x * 2 if bias is None else x * 2 + bias

    agree(f, (X,), (X, None), (X, Y), recordings=3)


def test_a_list_of_tensors_of_any_length() -> None:
    agree(lambda xs: sum(xs[1:], start=xs[0]), ([X, Y],), ([X, Y, X],), ([Y, X],), recordings=2)


def test_a_nested_structure() -> None:
    def f(batch: dict[str, Any]) -> fw.Tensor:
        left, (right, factor) = batch["left"], batch["rest"]
        return left * right * factor

    agree(f, ({"left": X, "rest": (Y, 2.0)},), ({"left": Y, "rest": (Y, 2.0)},),
          ({"left": X, "rest": (Y, 5.0)},), recordings=2)


def test_a_dict_with_another_key() -> None:
    agree(lambda d: sum(d.values(), start=fw.tensor(0.0)),
          ({"a": X, "b": Y},), ({"a": X, "c": Y},), recordings=2)


def test_a_dataclass() -> None:
    agree(lambda p: p.x * p.scale, (Pair(X),), (Pair(Y),), (Pair(X, 3.0),), recordings=2)


def test_a_named_tuple() -> None:
    agree(lambda p: p.x - p.y, (Point(X, Y),), (Point(Y, X),), recordings=1)


def test_positional_and_keyword_arguments() -> None:
    def f(*xs: fw.Tensor, **more: fw.Tensor) -> fw.Tensor:
        return sum(xs, start=fw.tensor(0.0)) - more.get("less", fw.tensor(1.0))

    agree(f, (X,), (X, Y), ((X, Y), {"less": X}), ((X,), {"less": Y}), recordings=4)


def test_a_dtype_and_a_slice() -> None:
    agree(lambda x, d: x.astype(d), (X, fw.float64), (X, fw.int32), recordings=2)
    agree(lambda x, s: x[s], (X, slice(0, 2)), (X, slice(1, 3)), recordings=2)


def test_a_function_as_argument() -> None:
    agree(lambda x, fn: fn(x), (X, fw.exp), (X, fw.sqrt), recordings=2)


def test_default_arguments_are_read_again() -> None:
    def f(x: fw.Tensor, k: float = 2.0) -> fw.Tensor:
        return x * k

    compiled = fw.compile(f, fullgraph=True)
    for k in (2.0, 2.0, 5.0, 5.0):
        f.__defaults__ = (k,)
        assert_same(compiled(X), X * k)


def test_nan_is_equal_to_itself_as_an_argument() -> None:
    agree(lambda x, k: x * k, (X, float("nan")), recordings=1)


def test_minus_zero_is_not_zero() -> None:
    agree(lambda x, k: fw.copysign(x, fw.full(3, k)), (X, 0.0), (X, -0.0), recordings=2)


def test_an_object_that_changes_between_calls() -> None:
    p = Pair(X, 2.0)
    compiled = fw.compile(lambda p: p.x * p.scale, fullgraph=True)
    for scale in (2.0, 2.0, 7.0):
        p.scale = scale
        assert_same(compiled(p), X * scale)
    p.x = Y
    assert_same(compiled(p), Y * 7.0)


# ---- the same tensor on several paths
def test_one_tensor_given_twice() -> None:
    agree(lambda x, y: x * 2 + y, (X, X), (X, Y), (Y, Y), recordings=2)


def test_recorded_with_different_tensors_then_called_with_one() -> None:
    agree(lambda x, y: x * 2 + y, (X, Y), (X, X), recordings=1)


def test_a_tensor_reached_by_a_second_path() -> None:
    box = [X, X]
    compiled = fw.compile(lambda x, box: x + box[0] * box[1], fullgraph=True)
    for second in (X, X, Y, Y):
        box[1] = second
        assert_same(compiled(X, box), X + X * second)


def test_changing_one_of_two_tensors_that_are_the_same() -> None:
    def f(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        x += 1
        return y * 2

    compiled = fw.compile(f, fullgraph=True)
    for same in (False, False, True, True, False):
        x = fw.tensor([1.0])
        y = x if same else fw.tensor([1.0])
        assert compiled(x, y).item() == (4.0 if same else 2.0)
        assert x.item() == 2.0


def test_two_tensors_over_one_array() -> None:
    """detach() shares the elements; changing one of the tensors changes the other."""
    def f(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        x += 1
        return x + y

    compiled = fw.compile(f, fullgraph=True)
    for shared in (True, True, False, False, True):
        x = fw.tensor([1.0])
        y = x.detach() if shared else fw.tensor([5.0])
        assert compiled(x, y).item() == (4.0 if shared else 7.0)
        assert (x.item(), y.item()) == (2.0, 2.0 if shared else 5.0)


# ---- what a recording is valid for
def test_another_shape_records_again() -> None:
    compiled = agree(lambda x: x * 2, (X,), (fw.ones(4),), (fw.ones(2, 2),), recordings=3)
    assert "float32[3]" in compiled.misses[0]


def test_another_dtype_records_again() -> None:
    agree(lambda x: x * 2, (X,), (X.astype(fw.float64),), (fw.arange(3),), recordings=3)


def test_an_empty_batch() -> None:
    agree(lambda x: (x * 2).sum(axis=1), (fw.ones(4, 3),), (fw.ones(0, 3),), recordings=2)


def test_requires_grad_is_part_of_the_recording() -> None:
    compiled = fw.compile(lambda x: (x * 2).detach(), fullgraph=True)
    for needs in (False, True, False, True):
        assert_same(compiled(fw.tensor([1.0], requires_grad=needs)), fw.tensor([2.0]))
    assert compiled.stats.recordings == 2


def test_grad_mode_is_part_of_the_recording() -> None:
    @fw.compile
    def loss_gradient(x: fw.Tensor) -> fw.Tensor:
        y = (x * x).sum()
        if y.requires_grad:
            y.backward()
        return y.detach()

    x = fw.tensor([3.0], requires_grad=True)
    for _ in range(3):
        x.grad = None
        loss_gradient(x)
        assert x.grad is not None and x.grad.item() == 6.0
        x.grad = None
        with fw.no_grad():
            loss_gradient(x)
        assert x.grad is None


def test_arrays_that_are_not_contiguous() -> None:
    wide = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    views = [wide[:, ::2], wide[::-1, :3], wide.T[:4, :3], wide[:4, 3:]]
    agree(lambda x: x * 2 + 1, *[(fw.from_numpy(v),) for v in views], recordings=1)


def test_a_numpy_array_as_argument_is_refused_or_seen() -> None:
    compiled = fw.compile(lambda x, a: x * a)
    array = np.ones(3, np.float32)
    with pytest.warns(UserWarning, match="NumPy array"):
        compiled(X, array)
    array[:] = 5
    assert_same(compiled(X, array), X * 5)


# ---- keeping count
def test_stats_and_clear() -> None:
    compiled = fw.compile(lambda x: x + 1)
    compiled(X), compiled(X), compiled(X), compiled(fw.ones(5))
    stats = compiled.stats
    assert (stats.recordings, stats.replays, stats.fallbacks) == (2, 2, 0)
    assert stats.compile_seconds > 0
    compiled.clear()
    assert compiled.stats.recordings == 0 and not compiled.programs
    assert_same(compiled(X), X + 1)


def test_misses_name_what_changed() -> None:
    def f(x: fw.Tensor, rate: float) -> fw.Tensor:
        return x * rate

    compiled = fw.compile(f)
    compiled(X, 2.0), compiled(X, 3.0), compiled(fw.ones(2), 3.0)
    assert compiled.misses == ["guard failed: argument 1 == 2.0",
                               "guard failed: argument 0 is float32[3]"]


def test_the_number_of_recordings_is_bounded() -> None:
    compiled = fw.compile(lambda x, d: x * d["k"])
    with pytest.warns(UserWarning, match="recompiles on most calls"):
        for k in range(70):
            assert_same(compiled(X, {"k": 2.0, str(k): None}), X * 2)
    assert compiled.stats.recordings == 64
    assert compiled.programs == []  # their guards would take time in each further call


def test_it_looks_like_the_function() -> None:
    @fw.compile
    def area(x: fw.Tensor) -> fw.Tensor:
        """x squared."""
        return x * x

    assert (area.__name__, area.__doc__) == ("area", "x squared.")
    assert area.original.__name__ == "area" and area.__wrapped__ is area.original
