"""Attention written as products and a softmax becomes one op, with the results of the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph.graph import Graph
from fusewire.codegen.compile import with_attention
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.partition.partition import GraphPart

SHAPES = [((2, 3), 17, 40, 16), ((), 33, 20, 32), ((1, 2), 4, 70, 64)]
NEVER = -float("inf")


def formula(q: Any, k: Any, v: Any, *mask: Any, scale: float = 0.3, zeros: bool = False,
            divides: bool = False) -> Any:
    scores = q @ k.transpose(-1, -2)
    scores = scores / (1 / scale) if divides else scores * scale
    weights = F.softmax(scores + mask[0] if mask else scores, -1)
    return (fw.where(fw.isnan(weights), 0.0, weights) if zeros else weights) @ v


def drawn(seed: int, lead: tuple[int, ...], queries: int, keys: int, width: int
          ) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((*lead, n, width)).astype(np.float32)
            for n in (queries, keys, keys)]


def ops(function: Any, *arrays: Any) -> list[str]:
    """The ops of the compiled graph before sections are cut."""
    compiled = fw.compile(function)
    tensors = [fw.from_numpy(a) for a in arrays]
    compiled(*tensors), compiled(*tensors)
    (program,) = compiled.programs
    (segment,) = program.segments()
    graph: Graph = segment.graph
    return [n.op for n in with_attention(graph, Machine()).nodes()]


def assert_equal(compiled: Any, function: Any, *arrays: Any) -> None:
    """Compiled results are those of NumPy, nan where these are."""
    tensors = [fw.from_numpy(a) for a in arrays]
    with np.errstate(all="ignore"):
        expected = function(*tensors).numpy()
        for _ in range(2):
            np.testing.assert_allclose(compiled(*tensors).numpy(), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("lead, queries, keys, width", SHAPES)
def test_results(lead: Any, queries: int, keys: int, width: int, zeros: bool) -> None:
    arrays = drawn(1, lead, queries, keys, width)
    mask = np.random.default_rng(2).standard_normal((queries, keys)).astype(np.float32)
    mask[mask > 1] = NEVER
    for masks, divides in (([], True), ([mask], False), ([mask[:1]], True)):
        def function(*xs: Any, divides: bool = divides) -> Any:
            return formula(*xs, zeros=zeros, divides=divides)

        assert "attention" in ops(function, *arrays, *masks)
        assert_equal(fw.compile(function), function, *arrays, *masks)


def in_windows(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> Any:
    """Attention within windows: one bias for each head, one mask for each window of an image."""
    windows = len(mask)
    scores = q @ k.transpose(-1, -2) * 0.3 + bias
    count, heads, queries, keys = scores.shape
    scores = scores.reshape(count // windows, windows, heads, queries, keys) + mask[:, None]
    return F.softmax(scores.reshape(-1, heads, queries, keys), -1) @ v


def by_a_choice(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.softmax((q @ k.transpose(-1, -2)).masked_fill(mask == 0, NEVER), -1) @ v


def by_two_choices(q: Any, k: Any, v: Any, mask: Any) -> Any:
    past = fw.tril(fw.ones(q.shape[-2], k.shape[-2], dtype=fw.bool))
    scores = fw.where(past, q @ k.transpose(-1, -2), NEVER)
    return F.softmax(scores.masked_fill(mask == 0, NEVER), -1) @ v


@pytest.mark.parametrize("images", [1, 2])
def test_windows(images: int) -> None:
    rng = np.random.default_rng(6)
    arrays = [*drawn(6, (images * 4, 3), 9, 9, 8),
              rng.standard_normal((3, 9, 9)).astype(np.float32),
              np.where(rng.random((4, 9, 9)) < 0.3, NEVER, 0).astype(np.float32)]
    arrays[4][1, 2] = NEVER  # a query that attends to no key
    assert "attention" in ops(in_windows, *arrays)
    assert_equal(fw.compile(in_windows), in_windows, *arrays)


@pytest.mark.parametrize("function", [by_a_choice, by_two_choices])
@pytest.mark.parametrize("lead, queries, keys, width", SHAPES)
def test_masks_that_choose(function: Any, lead: Any, queries: int, keys: int, width: int) -> None:
    arrays = drawn(7, lead, queries, keys, width)
    mask = (np.random.default_rng(8).random((queries, keys)) < 0.7).astype(np.float32)
    mask[:, 0], mask[3], arrays[1][..., 1, 0] = 1, 0, np.nan  # row 3 attends to no key
    for given in (mask, mask[:1], mask[:, 1:2]):
        assert "attention" in ops(function, *arrays, given)
        assert_equal(fw.compile(function), function, *arrays, given)


def test_a_program_with_a_call_of_a_library_has_attention_too() -> None:
    """The formula is recognized before the program is partitioned."""
    def function(q: Any, k: Any, v: Any) -> Any:
        return fw.tanh(formula(fw.sort(q), k, v)) * 2 + q

    arrays = drawn(11, (), 8, 8, 8)
    compiled = fw.compile(function)
    assert_equal(compiled, function, *arrays)
    (program,) = compiled.programs
    (segment,) = program.segments()
    parts = [step.graph for step in segment.program.steps if isinstance(step, GraphPart)]
    assert any(n.op == "attention" for part in parts for n in part.nodes())


def test_masks_that_cannot_be_joined_are_left_alone() -> None:
    def both(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = (q @ k.transpose(-1, -2) + mask).masked_fill(mask > 0, NEVER)
        return F.softmax(scores, -1) @ v

    def across_windows(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = (q @ k.transpose(-1, -2)).reshape(3, 2, 8, 8) + mask.reshape(2, 1, 8, 8)[:, 0]
        return F.softmax(scores.reshape(2, 3, 8, 8), -1) @ v

    for function, masks in ((both, (8, 8)), (across_windows, (2, 8, 8))):
        arrays = [*drawn(9, (2, 3), 8, 8, 8), drawn(10, (), *masks[-2:], 8)[0]]
        arrays[3] = np.broadcast_to(arrays[3], masks).copy()
        assert "attention" not in ops(function, *arrays)
        assert_equal(fw.compile(function), function, *arrays)


PLACES = {"query": (0, (0, 4, 1)), "key": (1, (1, 3, 2)), "value": (2, (0, 7, 3)),
          "all of a value": (2, (1, 6)), "mask": (3, (5, 6))}


@pytest.mark.parametrize("zeros", [False, True])
def test_what_is_not_finite_spreads_as_in_the_formula(zeros: bool) -> None:
    mask = np.zeros((9, 12), np.float32)
    mask[2], mask[3, :5] = NEVER, NEVER

    def function(*xs: Any) -> Any:
        return formula(*xs, zeros=zeros)

    compiled = fw.compile(function)
    for operand, index in PLACES.values():
        for number in (np.nan, np.inf, NEVER):
            arrays = [*drawn(3, (2,), 9, 12, 8), mask.copy()]
            arrays[operand][index] = number
            assert_equal(compiled, function, *arrays)


def test_what_is_read_elsewhere_is_left_alone() -> None:
    arrays = drawn(4, (2,), 8, 8, 8)

    def weights_too(q: Any, k: Any, v: Any) -> Any:
        weights = F.softmax(q @ k.transpose(-1, -2), -1)
        return weights @ v, weights.sum()

    def other_axis(q: Any, k: Any, v: Any) -> Any:
        return F.softmax(q @ k.transpose(-1, -2), -2) @ v

    for function in (weights_too, other_axis, lambda q, k, v: formula(q, k, v, scale=-1.0)):
        assert "attention" not in ops(function, *arrays)


def test_gradients_pass_through_the_formula() -> None:
    arrays = [fw.from_numpy(a) for a in drawn(5, (2,), 8, 8, 8)]
    loss = fw.func.value_and_grad(lambda x: formula(x, *arrays[1:]).square().sum())
    expected, compiled = loss(arrays[0]), fw.compile(loss)
    for _ in range(2):
        for a, b in zip(compiled(arrays[0]), expected):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)
