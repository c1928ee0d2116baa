"""How native code of eager ops gets its arrays: of any layout, broadcast, empty, aliased."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from oracle import assert_same
from thresholds import LAYOUTS, fresh_cache, lower

import fusewire as fw
from fusewire.codegen.eager_jit import op_compiler
from fusewire.codegen.eager_jit.op_call import OpCall, is_broadcast
from fusewire.codegen.program.native_call import is_contiguous
from fusewire.eager.core.op import OPS

Arrays = list[Any]
DTYPES = (np.float32, np.float64, np.int64)
SHAPES = ((4, 6), (1, 1), (0, 3), (5,), (), (2, 1, 3))


class Code:
    """Code that adds arrays as they lie in memory, in double precision, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, arrays: Arrays) -> Arrays | None:
        assert type(arrays) is list and all(type(a) is np.ndarray for a in arrays)
        if not all(map(is_contiguous, arrays)):
            return None
        self.calls += 1
        return [sum(np.frombuffer(a.tobytes(), a.dtype).astype(float) for a in arrays)]


def inputs_of(shape: tuple[int, ...], dtype: Any) -> Arrays:
    rng = np.random.default_rng(len(shape))
    return [np.asarray(rng.integers(-9, 9, shape), dtype) for _ in range(2)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layouts", [*itertools.product(LAYOUTS, repeat=2)],
                         ids=lambda pair: " and ".join(f.__name__ for f in pair))
def test_code_reads_inputs_of_any_layout(layouts: Any, shape: tuple[int, ...], dtype: Any) -> None:
    arrays = [layout(a) for layout, a in zip(layouts, inputs_of(shape, dtype))]
    before, kept = [a.copy() for a in arrays], list(arrays)
    for given in (arrays, tuple(arrays)):
        found = OpCall(Code()).run(given)
        assert found is not None
        assert_same(found[0], (arrays[0].astype(float) + arrays[1]).reshape(-1))
    assert all(a is b for a, b in zip(arrays, kept)), "the caller's list holds copies"
    for a, b in zip(arrays, before):
        assert_same(a, b)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_element_stands_for_a_broadcast_input(shape: tuple[int, ...]) -> None:
    x = np.broadcast_to(np.float64(3), shape)
    if x.size < 2:
        assert not is_broadcast(x)
        return
    code = Code()
    found = OpCall(code, [0, 1], [0]).run([x, np.ones(1)])
    assert is_broadcast(x) and code.calls == 1 and found is not None and found[0] == [4.0]


def test_numbers_become_arrays_and_constants_are_left_out() -> None:
    seen: list[Any] = []

    def code(arrays: Arrays) -> Arrays:
        seen[:] = arrays
        return arrays

    x = np.ones(3, np.float32)
    OpCall(code, [0, 2], dtype=np.dtype("float32")).run([x, 2, 0.1])
    assert seen[0] is x and seen[1].dtype == np.float32 and seen[1] == np.float32(0.1)
    assert len(seen) == 2


def test_the_same_array_may_be_several_inputs() -> None:
    x = np.arange(6.0).reshape(2, 3).T
    found = OpCall(Code()).run([x, x])
    assert found is not None
    assert_same(found[0], 2 * x.reshape(-1))


@pytest.mark.parametrize("limit", [0, 11, 12])
def test_large_inputs_are_not_copied(limit: int) -> None:
    x, code = np.arange(12.0).reshape(3, 4).T, Code()
    found = OpCall(code, max_copied_elements=limit).run([x])
    assert (found is None) == (limit < 12) and code.calls == (limit >= 12)
    one = np.broadcast_to(np.float64(3), (3, 4))
    assert OpCall(code, max_copied_elements=limit).run([one]) is not None


# ---- the ops that run through it
CALLS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "pointwise": ("add", [(6, 8), (6, 8)], {}),
    "a number": ("multiply", [(6, 8), 0.1], {}),
    "rows": ("sum", [(6, 8)], {"axis": (1,), "keepdims": False}),
    "all": ("sum", [(64, 8)], {"axis": (0, 1), "keepdims": True}),
    "product": ("contract", [(64, 64), (64, 64)], {"spec": "ij,jk->ik"}),
    "added rows": ("add_at", [(6, 8), np.array([1, 0, 3, 3, 1, 2])], {"axis": 0, "size": 4}),
}


def arguments(of: Sequence[Any], layout: Any) -> Arrays:
    rng = np.random.default_rng(3)
    return [layout(rng.uniform(-1, 1, x).astype(np.float32)) if type(x) is tuple else x for x in of]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_ops_read_inputs_of_any_layout(
    name: str, layout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower(monkeypatch)
    op_name, of, params = CALLS[name]
    op, arrays = OPS[op_name], arguments(of, layout)
    whole = [a.copy("C") if isinstance(a, np.ndarray) else a for a in arrays]
    expected = op_compiler.run(op, whole, params)
    assert expected is not None
    for _ in range(2):  # planned, and by its plan
        found = op_compiler.run(op, arrays, params)
        if found is not None:
            assert_same(found, expected, 4)


def test_programs_of_added_rows_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths that change with each call get no code any more; only a very long call does."""
    programs = fresh_cache("eager programs", 4)
    monkeypatch.setattr(op_compiler, "_PROGRAMS", programs)
    monkeypatch.setattr(op_compiler, "_CALLS", fresh_cache("eager calls"))
    indices = np.array([1, 0, 1])

    def run(width: int) -> Any:
        return op_compiler.run(OPS["add_at"], [np.ones((3, width)), indices],
                               {"axis": 0, "size": 2})

    assert [run(width) is not None for width in range(1, 20)] == [True] * 4 + [False] * 15
    assert run(1 << 19) is not None
    assert [run(width) is not None for width in range(1, 20)] == [True] * 4 + [False] * 15


def test_results_are_new_memory() -> None:
    x = fw.ones((512, 512))
    first, second = fw.exp(x), fw.exp(x)
    assert not np.shares_memory(first.numpy(), second.numpy())
    assert not np.shares_memory(first.numpy(), x.numpy())
