"""The backward of large ops: one native program gives what the ops of the rule give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, tensors
from samples import ROWS, Row
from thresholds import fresh_cache

import fusewire as fw
from fusewire.codegen.eager_jit import op_compiler, vjp
from fusewire.eager.autograd import engine
from fusewire.eager.core import dispatch
from fusewire.eager.settings import settings
from fusewire.eager.upper_layer import UPPER


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The way back of every op is a program where it can be; gives the names of those that were."""
    done: list[str] = []

    def run(entry: Any, needs: Any, g: Any) -> Any:
        found = vjp.run(entry, needs, g)
        if found is not None:
            done.append(entry.op.name)
        return found

    monkeypatch.setattr(dispatch, "LARGE", 1)
    monkeypatch.setattr(engine, "MIN_NATIVE_ELEMENTS", 1)
    monkeypatch.setattr(UPPER, "large_op", None)
    monkeypatch.setattr(UPPER, "large_vjp", run)
    monkeypatch.setattr(vjp, "_PLANS", fresh_cache("eager vjps"))
    monkeypatch.setattr(vjp, "_ELEMENTS", fresh_cache("elementwise vjp programs"))
    monkeypatch.setattr(vjp, "_SHAPED", fresh_cache("vjp programs by shape"))
    monkeypatch.setattr(op_compiler, "_BLOCK_ELEMENTS", 8)
    yield done


def gradients(call: Any, inputs: Any, spread: bool) -> list[Any]:
    """Of a call's inputs; `spread`: of the sum of its result, else of a sum with weights."""
    xs = [x.requires_grad_(x.dtype.kind in "fc") for x in tensors(inputs)]
    out = call(*xs)
    if not out.requires_grad:
        return []
    whole = fw.real(out) if out.dtype.kind == "c" else out
    weights = fw.linspace(0.5, 1.5, max(whole.size, 1), dtype=whole.dtype)[:whole.size]
    loss = whole.sum() if spread else (whole * weights.reshape(whole.shape)).sum()
    return list(fw.grad(loss, [x for x in xs if x.requires_grad], allow_unused=True))


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad], ids=str)
def test_one_program_gives_what_the_ops_of_the_rule_give(
    row: Row, everything_is_large: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, inputs in enumerate(row.inputs(np.random.default_rng(0))):
        with np.errstate(all="ignore"):
            found = gradients(row.call, inputs, number % 2 == 1)
            with monkeypatch.context() as patch:
                patch.setattr(UPPER, "large_vjp", None)
                expected = gradients(row.call, inputs, number % 2 == 1)
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert_same(a, b, row.tolerance / 2e-6, row.op)


def differentiated(call: Any, *shapes: tuple[int, ...]) -> None:
    xs = [fw.rand(*s).requires_grad_() for s in shapes]
    call(*xs).sum().backward()


@pytest.mark.parametrize("name", ["gelu", "tanh", "abs", "softmax", "max", "log_softmax"])
def test_the_way_back_of_many_ops_is_one_program(name: str, everything_is_large: list[str]) -> None:
    differentiated(lambda x: getattr(x, name)(axis=1) if name in ("softmax", "max", "log_softmax")
                   else fw.nn.functional.gelu(x) if name == "gelu" else getattr(x, name)(), (4, 5))
    assert everything_is_large == [name]


def test_what_only_hands_on_gradients_is_left_alone(everything_is_large: list[str]) -> None:
    differentiated(lambda x, y: (x + y).reshape(20).sum(), (4, 5), (4, 5))
    assert everything_is_large == []


def test_code_for_elements_does_for_any_number_of_them(everything_is_large: list[str]) -> None:
    for size in (8, 30, 100):
        differentiated(fw.tanh, (size,))
    assert len(vjp._ELEMENTS) == 1 and len(everything_is_large) == 3


def test_a_gradient_that_is_differentiated_goes_op_by_op(everything_is_large: list[str]) -> None:
    x = fw.tensor([1.0, 2.0], requires_grad=True)
    g, = fw.grad((x ** 3).sum(), x, create_graph=True)
    assert everything_is_large == []
    g.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6.0, 12.0]


def test_nothing_is_compiled_where_that_is_switched_off(everything_is_large: list[str],
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "compile", False)
    differentiated(fw.tanh, (8,))
    assert everything_is_large == []
