"""Eager ops on large arrays: native code for blocks of rows gives what NumPy gives."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, tensors
from samples import ROWS, Row
from sampling import sample_of_each
from thresholds import fresh_cache

import fusewire as fw
from fusewire.codegen.eager_jit import exact, op_compiler
from fusewire.eager.arrays import memory
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.core import dispatch
from fusewire.eager.core.op import OPS
from fusewire.eager.ops.random import generator
from fusewire.eager.settings import settings
from fusewire.eager.upper_layer import UPPER


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every op goes to native code where it can; gives the names of those that did."""
    done: list[str] = []

    def run(op: Any, inputs: Any, params: Any) -> Any:
        out = op_compiler.run(op, inputs, params)
        if out is not None:
            done.append(op.name)
        return out

    monkeypatch.setattr(dispatch, "LARGE", 1)
    monkeypatch.setattr(UPPER, "large_op", run)
    monkeypatch.setattr(op_compiler, "_PROGRAMS", fresh_cache("eager programs"))
    monkeypatch.setattr(op_compiler, "_CALLS", fresh_cache("eager calls"))
    monkeypatch.setattr(exact, "MIN_NUMPY_NANOSECONDS", 0)
    monkeypatch.setattr(op_compiler, "_BLOCK_ELEMENTS", 8)
    monkeypatch.setattr(op_compiler, "_REDUCTION_ROW_ELEMENTS", 3)
    monkeypatch.setattr(op_compiler, "_MIN_REDUCTION_ROWS", 3)
    yield done


@pytest.fixture
def no_programs_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests compiled, ops here are not refused for being compiled too often."""
    monkeypatch.setattr(op_compiler, "_PROGRAMS", fresh_cache("eager programs", 32))
    monkeypatch.setattr(op_compiler, "_CALLS", fresh_cache("eager calls"))


@pytest.mark.parametrize("row", sample_of_each(ROWS, operator.attrgetter("op"), 150), ids=str)
def test_native_code_gives_what_numpy_gives(row: Row, everything_is_large: list[str],
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    for inputs in row.inputs(np.random.default_rng(0)):
        with np.errstate(all="ignore"):
            got = row.call(*tensors(inputs))
            with monkeypatch.context() as patch:
                patch.setattr(UPPER, "large_op", None)
                expected = row.call(*tensors(inputs))
        assert_same(got, expected, row.tolerance / 2e-6, row.op)


def split(name: str, *shapes: Any, **params: Any) -> Any:
    types = [TensorType(s, np.dtype("float32")) for s in shapes]
    return op_compiler.split_rows(OPS[name], types, OPS[name].result(*types, **params), params)


def test_what_needs_no_kernel_is_left_to_numpy() -> None:
    """A tensor of another one's value, as `update` makes of what is drawn for a large layer."""
    x = fw.ones(dispatch.LARGE + 1)
    np.testing.assert_array_equal(fw.eager.ops.elementwise.pointwise.alias(x), x)
    assert fw.nn.Embedding(dispatch.LARGE // 64 + 1, 64).weight.ndim == 2


def test_elements_are_rows_where_shapes_are_equal() -> None:
    assert split("add", (30, 4), (30, 4)) == (2, 120, (True, True), ((), ()), ())


def test_a_vector_added_to_rows_is_the_same_for_all() -> None:
    assert split("add", (30, 4), (4,)) == (1, 30, (True, False), ((4,), (4,)), (4,))


def test_a_column_added_to_rows_goes_along() -> None:
    assert split("add", (30, 1), (30, 4)) == (1, 30, (True, True), ((1,), (4,)), (4,))


def test_of_two_that_are_both_spread_the_first_has_the_rows() -> None:
    assert split("add", (30, 1), (1, 4)) == (1, 30, (True, False), ((1,), (4,)), (4,))


def test_one_element_everywhere_has_no_rows() -> None:
    assert split("add", (1, 1), (1, 1)) is None
    broadcast = TensorType((30, 4), np.dtype("float32"))
    one = TensorType((1, 1), broadcast.dtype)
    assert op_compiler.split_rows(OPS["exp"], [one], broadcast, {}) == (2, 120, (False,), ((),), ())


def test_a_weight_of_channels_ends_the_rows_before_them() -> None:
    how = {"axes": (2, 3), "eps": 0.0, "centred": True, "shape": (1, 8, 1, 1)}
    assert split("normalize_affine", (3, 8, 5, 5), (8,), **how) == \
        (1, 3, (True, False), ((8, 5, 5), (8,)), (8, 5, 5))


def test_what_stands_before_the_reduced_axes_are_rows() -> None:
    assert split("sum", (5, 6, 7), axis=(1, 2), keepdims=False).axes == 1
    assert split("sum", (5, 6, 7), axis=(0,), keepdims=False) is None


def test_another_number_of_rows_needs_no_new_code(everything_is_large: list[str]) -> None:
    fw.ones(30).tanh()
    before = len(op_compiler._PROGRAMS)
    for count in (31, 8, 100):
        assert fw.zeros(count).tanh().sum().item() == 0
    fresh = set([key for key, _ in op_compiler._PROGRAMS.items()][before:])
    assert not any("tanh" in key for key in fresh)
    assert everything_is_large.count("tanh") == 4


def test_another_number_as_operand_needs_no_new_code(everything_is_large: list[str]) -> None:
    x = fw.ones(30)
    x * 0.3
    before = len(op_compiler._PROGRAMS)
    assert (x * 0.25).tolist() == [0.25] * 30
    assert len(op_compiler._PROGRAMS) == before


def test_shapes_that_always_change_are_left_to_numpy(everything_is_large: list[str],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_compiler, "_PROGRAMS", fresh_cache("eager programs", 2))
    for width in range(40, 45):
        assert fw.ones(3, width).sum(axis=1).tolist() == [width] * 3
    assert everything_is_large.count("sum") == 2


def test_equal_calls_have_equal_bits_after_many_programs(everything_is_large: list[str],
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's exp and native code differ in their last bits: a call keeps the code that it had."""
    monkeypatch.setattr(op_compiler, "_PROGRAMS", fresh_cache("eager programs", 2))
    inputs = [fw.rand(3, width, generator=fw.Generator(width)) for width in range(40, 46)]
    results = [[fw.softmax(x, 1).numpy() for x in inputs] for _ in range(6)]
    assert everything_is_large.count("softmax") == 6 * 2
    for again in results[1:]:
        for first, other in zip(results[0], again, strict=True):
            np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("dtype", [fw.float32, fw.float64])
def test_random_numbers_drawn_often_have_the_same_bits(everything_is_large: list[str], dtype: Any,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LARGE", 1 << 17)
    monkeypatch.setattr(op_compiler, "_NUMBERS_DRAWN", Counter())

    def drawn() -> Any:
        return fw.rand(7, 11, 13, dtype=dtype, generator=fw.Generator(3)).numpy()

    first = drawn()
    assert not everything_is_large
    calls = op_compiler._NUMBERS_BEFORE_COMPILING // op_compiler._MIN_NUMBERS_COUNTED_PER_CALL
    assert all((drawn() == first).all() for _ in range(calls))
    assert set(everything_is_large) == {"uniform"}


@pytest.mark.parametrize("draw", [
    lambda n: fw.rand(n, generator=fw.Generator(5)),
    lambda n: fw.rand(n, dtype=fw.float64, generator=fw.Generator(5)),
    lambda n: fw.randint(-3, 1 << 40, (n,), generator=fw.Generator(5))])
def test_two_programs_draw_any_number_of_random_numbers(everything_is_large: list[str], draw: Any,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_compiler, "_NUMBERS_BEFORE_COMPILING", 0)
    sizes = [1, 63, 1023, 1024, 1025, 5000]
    assert draw(0).shape == (0,)
    draw(1)
    draw(65)
    before = len(op_compiler._PROGRAMS)
    drawn = [draw(n).numpy() for n in sizes]
    native = [op for op in everything_is_large if op in ("uniform", "randint")]
    assert len(op_compiler._PROGRAMS) == before and len(native) == len(sizes) + 2
    monkeypatch.setattr(settings, "compile", False)
    for n, found in zip(sizes, drawn):
        np.testing.assert_array_equal(found, draw(n).numpy())


@pytest.mark.parametrize("dtype", [fw.float32, fw.float64])
def test_normal_numbers_are_native_by_their_count_alone(
        everything_is_large: list[str], dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of their logarithms are not NumPy's: equal calls would differ otherwise."""
    monkeypatch.setattr(dispatch, "LARGE", 1 << 10)
    monkeypatch.setattr(generator, "LARGE", 1 << 10)
    long, short = (fw.randn(n, dtype=dtype, generator=fw.Generator(5)) for n in (1050, 1000))
    assert everything_is_large.count("normal") == 1
    np.testing.assert_allclose(long[:1000].numpy(), short.numpy(), 1e-5, 1e-6)


def test_an_op_that_is_costly_in_numpy_is_soon_native(everything_is_large: list[str],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LARGE", 1 << 10)
    x = fw.linspace(-4, 4, 99)
    np.testing.assert_allclose(fw.special.erf(x).numpy(), np.vectorize(math.erf)(x.numpy()), 1e-6)
    (x + 1).exp()
    assert everything_is_large == ["erf"]


def test_nothing_is_compiled_where_that_is_switched_off(everything_is_large: list[str],
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "compile", False)
    fw.ones(30).tanh()
    assert everything_is_large == []


def test_an_index_out_of_range_is_an_error(everything_is_large: list[str]) -> None:
    with pytest.raises(IndexError, match="index 9 is out of range"):
        fw.ones(4, 2).take(fw.tensor([1, 9]), axis=0)


def test_what_computes_nothing_is_left_to_numpy(everything_is_large: list[str]) -> None:
    x = fw.tensor([1.5, -2.0, 3.0] * 10)
    assert (x * 1).tolist() == x.tolist()
    assert fw.broadcast_to(x, (30,)).tolist() == x.tolist()
    assert everything_is_large == []


def test_gradients_of_large_arrays_are_those_of_small_ones() -> None:
    x = fw.rand(1 << 17).requires_grad_()
    (x.tanh() * 3.0).sum().backward()
    few = x.detach()[:5].requires_grad_()
    (few.tanh() * 3.0).sum().backward()
    assert x.grad is not None and few.grad is not None
    assert_same(x.grad[:5], few.grad)


# ---- memory
def test_memory_of_a_result_that_is_gone_is_used_again(no_programs_yet: None) -> None:
    fw.empty_cache()
    x = fw.ones(1 << 18)
    y = x + x
    address = y._data.ctypes.data
    y = x
    assert memory.held() >= 1 << 20
    y = x * x
    assert y._data.ctypes.data == address
    assert address % 64 == 0


def test_memory_is_not_used_while_a_view_is_alive(no_programs_yet: None) -> None:
    x = fw.ones(1 << 18)
    view = (x + x)[3:5]
    other = x * 5
    assert view.tolist() == [2, 2]
    assert not np.shares_memory(view._data, other._data)


def test_looking_at_what_an_array_lies_in_gives_nothing_back() -> None:
    fw.empty_cache()
    x = memory.empty((1 << 18,), np.dtype("float32"))
    x.base[3:5].sum()
    assert memory.held() == 0
    del x
    assert memory.held() >= 1 << 20


def test_memory_is_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "cache_mb", 3)
    arrays = [memory.empty((1 << 18,), np.dtype("float32")) for _ in range(5)]
    arrays.clear()
    assert 2 << 20 <= memory.held() <= 3 << 20
    fw.empty_cache()
    assert memory.held() == 0


@pytest.mark.parametrize("number", [-3, 300])
def test_comparing_with_a_number_beyond_the_dtype(
    everything_is_large: list[str], number: int
) -> None:
    x = fw.tensor([1, 255], dtype=fw.uint8)
    assert (x == number).tolist() == [False, False]
    assert (x < number).tolist() == [number > 0] * 2


def test_complex_numbers_minus_zero(everything_is_large: list[str]) -> None:
    x = fw.tensor([1 + 2j, complex(np.inf, -0.0)])
    assert_same((x - 0.0).numpy(), x.numpy())


def test_what_no_kernel_computes_is_left_to_numpy(everything_is_large: list[str]) -> None:
    x = fw.tensor(np.arange(96.0).reshape(24, 4))
    for _ in range(3):  # more code is made for calls that come again
        assert fw.broadcast_to(x, (24, 4)).tolist() == x.tolist()
    assert "alias" not in everything_is_large


def test_files_that_the_compiler_reads_are_no_effects_of_a_traced_function(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 and later report calls of C functions in the engine to the trace."""
    def reads_a_file(*args: Any) -> None:
        Path(__file__).read_text(encoding="utf-8")

    monkeypatch.setattr(op_compiler, "_make_call", reads_a_file)
    monkeypatch.setattr(op_compiler, "_CALLS", fresh_cache("eager calls"))

    @fw.compile(fullgraph=True)
    def f(x: fw.Tensor) -> fw.Tensor:
        y = x.exp()
        return y * 2 if y.sum() > 0 else y  # the decision needs the values

    f(fw.ones(1 << 18))
