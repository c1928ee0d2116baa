"""Where values live: temporaries never overlap in life and place, and updates are in place only if
nobody else holds what they overwrite."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_same

import fusewire as fw
from fusewire import nn
from fusewire.codegen.ir.loop_ir import Kernel, KernelBuffer, Var
from fusewire.codegen.program.arena import plan_arena
from fusewire.codegen.program.native_program import Arena, Argument

F32 = np.dtype("float32")


def kernel(reads: list[KernelBuffer], writes: list[KernelBuffer]) -> Kernel:
    return Kernel("k", tuple(reads), tuple(writes), (), Var("task"), 1, ())


def lifetimes(kernels: list[Kernel]) -> dict[KernelBuffer, range]:
    used: dict[KernelBuffer, list[int]] = {}
    for step, k in enumerate(kernels):
        for b in k.arguments:
            used.setdefault(b, []).append(step)
    return {b: range(steps[0], steps[-1] + 1) for b, steps in used.items()}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_two_live_temporaries_overlap(data: Any) -> None:
    count = data.draw(st.integers(1, 8))
    buffers = [KernelBuffer(f"b{i}", F32, data.draw(st.integers(0, 100))) for i in range(count)]
    choose = st.lists(st.sampled_from(buffers), max_size=3, unique=True)
    steps = data.draw(st.integers(1, 8))
    kernels = [kernel(data.draw(choose), data.draw(choose)) for _ in range(steps)]
    given_buffers = data.draw(choose)
    arguments = {b: i for i, b in enumerate(given_buffers)}
    slots, total = plan_arena([k.arguments for k in kernels], arguments)
    life = lifetimes(kernels)
    assert set(life) <= set(slots)
    places = {b: (s.offset, s.offset + 4 * b.size)
              for b, s in slots.items() if isinstance(s, Arena)}
    for b, (start, end) in places.items():
        assert start % 64 == 0 and 0 <= start <= end <= total and b not in given_buffers
        for other, (first, last) in places.items():
            alive = set(life[b]) & set(life[other])
            assert b is other or not alive or end <= first or last <= start
    assert all(slots[b] == Argument(i) for i, b in enumerate(given_buffers))


def test_a_chain_of_steps_needs_two_places() -> None:
    chain = [KernelBuffer(f"b{i}", F32, 1000) for i in range(10)]
    kernels = [kernel([a], [b]) for a, b in itertools.pairwise(chain)]
    _, total = plan_arena([k.arguments for k in kernels], {chain[0]: 0, chain[-1]: 1})
    assert total == 2 * 4032


def test_a_large_temporary_reuses_the_places_of_small_ones() -> None:
    small = [KernelBuffer(f"s{i}", F32, 16) for i in range(4)]
    large = KernelBuffer("large", F32, 64)
    steps = [kernel([], small[:2]), kernel(small[:2], small[2:]), kernel(small[2:], []),
             kernel([], [large])]
    slots, total = plan_arena([k.arguments for k in steps], {})
    assert slots[large] == Arena(0) and total == 256


# ---- updates in place
def step_of(p: fw.Tensor) -> Any:
    """A compiled update of `p`, which may be done in place, called until it is replayed."""
    @fw.compile(fullgraph=True)
    def step() -> None:
        with fw.no_grad():
            p.mul_(0.5)

    step(), step()
    return step


def address(t: fw.Tensor) -> int:
    return int(t._data.ctypes.data)


def test_an_update_is_in_place_where_nobody_else_holds_the_array() -> None:
    p = nn.Parameter(fw.ones(1000))
    step = step_of(p)
    before = address(p)
    for _ in range(3):
        step()
    assert address(p) == before and p[0].item() == 0.5 ** 5


HOLDERS: dict[str, Any] = {
    "another tensor": lambda p: fw.asarray(p.detach(), copy=True),
    "an array": lambda p: p.numpy(),
    "a view of the array": lambda p: p.numpy()[10:20],
    "a tensor over a view": lambda p: fw.from_numpy(p.numpy()[::2]),
    "numpy's asarray": lambda p: np.asarray(p),
    "a memoryview": lambda p: memoryview(p.numpy()),
    "the tape": lambda p: p * p,
    "rows that are chosen": lambda p: p[[5, 6, 7, 8]].detach(),
}

VIEWS: dict[str, Any] = {
    "the data": lambda p: p.detach(),
    "a state dict": lambda p: {"p": p.detach()}["p"],
    "a reshaped tensor": lambda p: p.reshape(10, 100).detach(),
    "a slice": lambda p: p[5:9].detach(),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_somebody_holds_keeps_its_values(holder: str) -> None:
    p = nn.Parameter(fw.ones(1000))
    step = step_of(p)
    start = p[0].item()
    held = HOLDERS[holder](p)
    step(), step()
    if holder == "the tape":
        held.sum().backward()
        assert_same(p.grad, fw.full(1000, 2 * start))
        held = (held / start).detach()
    values = np.asarray(held._data if isinstance(held, fw.Tensor) else held)
    np.testing.assert_array_equal(values, start)
    assert p[0].item() == start / 4


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_sees_the_update(view: str) -> None:
    p = nn.Parameter(fw.ones(1000))
    step = step_of(p)
    held = VIEWS[view](p)
    start = p[0].item()
    for n in range(1, 4):
        step()
        np.testing.assert_array_equal(np.asarray(held._data), start / 2 ** n)
        assert p[0].item() == start / 2 ** n


def test_an_array_given_from_outside_is_not_overwritten() -> None:
    """from_numpy shares the memory; its owner may still read it."""
    own = np.ones(100, np.float32)
    p = fw.from_numpy(own)
    step_of(p)()
    assert p[0].item() == 0.125 and own[0] == 1.0


def test_two_parameters_over_one_array() -> None:
    p = nn.Parameter(fw.ones(100))
    q = nn.Parameter(p.detach())

    @fw.compile(fullgraph=True)
    def step() -> None:
        with fw.no_grad():
            p.mul_(0.5)
            q.add_(1.0)

    for n in range(1, 5):
        step()
        assert (p[0].item(), q[0].item()) == (0.5 ** n, 1.0 + n)


def test_a_value_read_after_its_update() -> None:
    """The old and the new value of a parameter are both needed."""
    p = nn.Parameter(fw.arange(500).astype(fw.float32))

    @fw.compile(fullgraph=True)
    def step() -> fw.Tensor:
        with fw.no_grad():
            old = p * 1.0
            p.add_(p.flip(0))
            return old - p

    eager = np.arange(500, dtype=np.float32)
    for _ in range(4):
        new = eager + eager[::-1]
        assert_same(step(), eager - new)
        assert_same(p, new)
        eager = new


def test_an_update_that_reads_other_elements_of_itself() -> None:
    x = fw.arange(1000).astype(fw.float32)

    @fw.compile(fullgraph=True)
    def step() -> None:
        x[1:] = x[:-1] * 2

    eager = np.arange(1000, dtype=np.float32)
    for _ in range(4):
        step()
        eager[1:] = eager[:-1] * 2
        assert_same(x, eager)


def test_swapping_two_tensors_in_place() -> None:
    a, b = fw.ones(50), fw.zeros(50)

    @fw.compile(fullgraph=True)
    def swap() -> None:
        old = a * 1.0
        a.copy_(b)
        b.copy_(old)

    for n in range(1, 5):
        swap()
        assert (a[0].item(), b[0].item()) == ((0.0, 1.0) if n % 2 else (1.0, 0.0))


def test_an_update_returned_as_well() -> None:
    p = fw.ones(100)

    @fw.compile(fullgraph=True)
    def step() -> fw.Tensor:
        p.mul_(0.5)
        return fw.asarray(p, copy=True)

    copies = [step() for _ in range(5)]
    assert [k[0].item() for k in copies] == [0.5 ** n for n in range(1, 6)]


def test_a_view_of_an_update_is_returned() -> None:
    p = fw.ones(100)

    @fw.compile(fullgraph=True)
    def step() -> fw.Tensor:
        p.mul_(0.5)
        return p.detach()

    views = [step() for _ in range(5)]
    assert [k[0].item() for k in views] == [0.5 ** 5] * 5 and p[0].item() == 0.5 ** 5
