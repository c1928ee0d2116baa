"""Arrays that are filled slice by slice: graphs before and after the pass, and equal values."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import recorded

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.graph.text import parse, to_text
from fusewire.capture.graph.verify import verify
from fusewire.capture.passes.slice_updates import merge_slice_updates


def lines(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def becomes(before: str, after: str) -> None:
    graph = verify(merge_slice_updates(verify(parse(before), "the test")), "join_puts")
    assert to_text(graph) == lines(after)


def test_a_slice_reads_what_was_put_there_and_else_what_was_there_before() -> None:
    becomes("""
        x = input()  # float32[4, 3]
        v = input()  # float32[2, 3]
        v2 = put_slice(x, v, start=(1, 0), step=(1, 1))  # float32[4, 3]
        v3 = slice(v2, start=(2, 1), step=(1, 1), size=(1, 2))  # float32[1, 2]
        v4 = slice(v2, start=(3, 0), step=(1, 1), size=(1, 3))  # float32[1, 3]
        return v3, v4""", """
        x = input()  # float32[4, 3]
        v = input()  # float32[2, 3]
        v2 = slice(v, start=(1, 1), step=(1, 1), size=(1, 2))  # float32[1, 2]
        v3 = slice(x, start=(3, 0), step=(1, 1), size=(1, 3))  # float32[1, 3]
        return v2, v3""")


def test_a_slice_of_some_of_both_stays() -> None:
    text = lines("""
        x = input()  # float32[4]
        v = input()  # float32[2]
        v2 = put_slice(x, v, start=(1,), step=(1,))  # float32[4]
        v3 = slice(v2, start=(0,), step=(1,), size=(2,))  # float32[2]
        return v3""")
    becomes(text, text)


def test_ops_with_a_size_of_their_own_are_no_slices() -> None:
    def run(x: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
        y = x * 1.0
        for t in range(3):
            y[t] = x[t] * t
        return fw.nn.functional.cross_entropy(y, i)

    graph, arrays = recorded(run, fw.ones(6, 3), fw.arange(6) % 3)
    for got, want in zip(evaluate(merge_slice_updates(graph), arrays), evaluate(graph, arrays),
                         strict=True):
        np.testing.assert_array_equal(got, want)


def test_disjoint_parts_are_a_concat_with_what_was_there_between_them() -> None:
    def run(x: fw.Tensor, v: fw.Tensor) -> fw.Tensor:
        x = x * 2
        for t in (3, 0, 9, 5, 4, 7):
            x[t] = v * t
        return x

    graph, arrays = recorded(run, fw.ones(11, 2), fw.ones(2))
    joined = merge_slice_updates(graph)
    ops = [n.op for n in joined.nodes()]
    assert ops.count("concat") == 1 and "put_slice" not in ops
    for got, want in zip(evaluate(joined, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def test_parts_that_lie_on_each_other_stay_in_order() -> None:
    def run(x: fw.Tensor, v: fw.Tensor) -> fw.Tensor:
        x = x * 2
        for t in (3, 0, 9, 5, 4, 3):
            x[t:t + 1] = v * (t + 1)
        return x

    graph, arrays = recorded(run, fw.ones(11, 2), fw.ones(1, 2))
    joined = merge_slice_updates(graph)
    assert "concat" not in [n.op for n in joined.nodes()]
    np.testing.assert_array_equal(evaluate(joined, arrays)[0], evaluate(graph, arrays)[0])


PLACE = st.one_of(
    st.integers(0, 7),
    st.tuples(st.integers(0, 7), st.integers(0, 4)).map(lambda p: slice(p[0], p[0] + p[1])),
    st.just(slice(None, None, 2)), st.just(slice(6, 1, -1)))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(PLACE, PLACE, st.booleans()), min_size=1, max_size=12))
def test_whatever_is_put_and_read_no_value_differs(steps: list[Any]) -> None:
    def run(x: fw.Tensor, v: fw.Tensor) -> Any:
        x, found = x * 1.5, []
        for number, (place, read, reads) in enumerate(steps):
            old = x[place]
            x[place] = v[:old.shape[0]] * (number + 1.0) if old.ndim == 2 else v[0] - number
            found += [x[read] * 2.0] if reads else []
        return x, *found

    graph, arrays = recorded(run, fw.ones(8, 3), fw.arange(1.0, 25.0).reshape(8, 3))
    joined = verify(merge_slice_updates(graph), "join_puts")
    for got, want in zip(evaluate(joined, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


@settings(max_examples=60, deadline=None)
@given(st.lists(PLACE, min_size=1, max_size=8))
def test_gradients_of_what_is_filled(places: list[Any]) -> None:
    def run(x: fw.Tensor, v: fw.Tensor) -> Any:
        leaves = [x.detach().requires_grad_(), v.detach().requires_grad_()]
        out, given = leaves[0] * 1.0, leaves[1]
        for number, place in enumerate(places):
            old = out[place]
            out[place] = given[:old.shape[0]] * (number + 1.0) if old.ndim == 2 \
                else out[(number + 1) % 8] * given[number % 8]
        (out * out).sum().backward()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    graph, arrays = recorded(run, fw.ones(8, 3), fw.arange(1.0, 25.0).reshape(8, 3))
    joined = verify(merge_slice_updates(graph), "join_puts")
    for got, want in zip(evaluate(joined, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(got, want, 1e-6)
