"""Products of bfloat16 in pairs: with the processor's instruction, without, and interpreted.

Sums of K products are compared with float64: K * 2**-23 of the sum of absolute values, and what
rounding to bfloat16 adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from loop_kernels import F32, TARGETS, X86, check_all, kernel, loop
from oracle import interpreted

import fusewire as fw
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.ir.loop_ir import (
    Assign,
    KernelBuffer,
    Register,
    Store,
    Update,
    Var,
    call,
    const,
    load,
)
from fusewire.codegen.ir.loop_ir import read as value_of
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.program.native_program import Argument, ProgramStep, program_ir, slot_of
from fusewire.codegen.runtime.jit import assembly
from fusewire.codegen.runtime.target import Target, host, named
from fusewire.eager.arrays.dtypes import bfloat16
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.ops.products.contract import parts
from fusewire.eager.settings import settings

WORD = np.dtype("uint32")
SPECS = {"nn": "ik,kj->ij", "nt": "ik,jk->ij", "tn": "ki,kj->ij", "tt": "ki,jk->ij",
         "batch": "bik,bkj->bij", "shared": "bik,kj->bij", "two summed": "ikl,klj->ij",
         "vector": "ik,k->i", "first is summed": "kli,klj->ij"}
SIZES = [{"b": 3, "l": 3, "i": i, "j": j, "k": k} for i, j, k in (
    (1, 1, 2), (5, 7, 10), (33, 35, 34), (64, 64, 64), (29, 130, 66), (1, 100, 128), (31, 3, 33),
    (150, 67, 1), (47, 49, 1030))]
ZEN = Target(named("").triple, "znver4", "", 64, True, True, True)


@pytest.fixture(autouse=True)
def asked_for() -> Iterator[None]:
    settings.bf16_dot = True
    yield
    settings.bf16_dot = False


def normal(*shape: int, seed: int = 0) -> Any:
    numbers = np.random.default_rng(seed + sum(shape)).standard_normal(shape)
    return numbers.astype(np.float32).astype(bfloat16)


def product(spec: str, arrays: list[Any]) -> Graph:
    made = Nodes()
    nodes = [made.input(f"x{i}", TensorType(a.shape, a.dtype)) for i, a in enumerate(arrays)]
    return Graph(tuple(nodes), (made.apply("contract", nodes, {"spec": spec}),))


def operands(spec: str, size: dict[str, int]) -> list[Any]:
    return [normal(*(size[c] for c in part), seed=n) for n, part in enumerate(parts(spec)[:2])]


def check(got: Any, spec: str, arrays: list[Any]) -> None:
    wide = [a.astype(np.float64) for a in arrays]
    exact, size = np.einsum(spec, *wide), np.einsum(spec, *map(np.abs, wide))
    first, _, out = parts(spec)
    count = np.prod([n for n, letter in zip(wide[0].shape, first) if letter not in out])
    bound = 2.0**-8 * np.abs(exact) + 1.01 * count * 2.0**-23 * size
    assert got.dtype == bfloat16
    assert (np.abs(got.astype(np.float64) - exact) <= bound).all(), spec


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_products_of_any_layout_and_size(spec: str, target: str) -> None:
    for size in SIZES:
        arrays = operands(spec, size)
        run = compile_graph(product(spec, arrays), named(target))
        check(run(list(arrays))[0], spec, arrays)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_loops_say_the_same_for_any_processor(spec: str) -> None:
    for width, size in ((64, SIZES[2]), (32, SIZES[1])):
        arrays = operands(spec, size)
        machine = Machine(width, dot=True)
        check(interpreted(product(spec, arrays), arrays, machine)[0], spec, arrays)


@pytest.mark.parametrize("target", TARGETS)
def test_pairs_and_their_products_as_the_interpreter_has_them(target: str) -> None:
    """Pairs of neighbours, and of others; sums of products in vectors and alone."""
    j, kernels = Var("j"), []
    x, y = KernelBuffer("x", bfloat16, 91), KernelBuffer("y", bfloat16, 91)
    given = {x: normal(91), y: normal(91, seed=1)}
    twice = call("mul", (j, const(2)), j.dtype)
    for lanes in (0, 4, 16, 32):
        for step in (1, 7):
            words = KernelBuffer("words", WORD, 40)
            second = call("add", (twice, const(step)), j.dtype)
            pairs = [call("pair", (load(b, twice), load(b, second)), WORD) for b in (x, y)]
            made = loop(j, 40, Store(words, j, pairs[0]), lanes=lanes)
            kernels.append(kernel([x], [words], [made]))
            out, total = KernelBuffer("out", F32, 40), Register("total", F32)
            body = (Assign(total, const(1.5, F32)),
                    Update(total, "add", call("dot2", tuple(pairs), F32)),
                    Store(out, j, value_of(total)))
            kernels.append(kernel([x, y], [out], [loop(j, 40, *body, lanes=lanes)]))
    check_all(kernels, target, rtol=1e-5, given=given)


def written(machine: Machine, target: Target) -> str:
    """The assembly of a product for a processor."""
    arrays = [normal(64, 64), normal(64, 64)]
    plan, launches = lower_graph(product(SPECS["nn"], arrays), machine)
    buffers = dict.fromkeys((*plan.arguments, *(p.buffer for x in launches for p in x.views)))
    slots = {b: Argument(i) for i, b in enumerate(buffers)}
    steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.views]) for x in launches]
    return assembly(program_ir(steps, "product", target)[0], target)


@pytest.mark.skipif(not X86, reason="the instruction is one of x86")
def test_the_instruction_is_used_where_it_is_there_and_asked_for() -> None:
    assert "vdpbf16ps" in written(Machine(dot=True), ZEN)
    assert "vdpbf16ps" not in written(Machine(), ZEN)
    assert "vdpbf16ps" not in written(Machine(32, 16, dot=True), named("x86-64-v3"))


def test_without_the_instruction_the_setting_changes_nothing() -> None:
    def code() -> str:
        arrays = [normal(33, 34), normal(34, 35)]
        return compile_graph(product(SPECS["nn"], arrays), named("x86-64-v3")).assembly

    asked = code()
    settings.bf16_dot = False
    assert code() == asked


@pytest.mark.skipif(not host().dot, reason="this processor has no such instruction")
def test_subnormal_numbers_count_as_0() -> None:
    tiny = np.full((16, 2), 2.0**-130).astype(bfloat16)
    large = np.full((2, 16), 2.0**100).astype(bfloat16)

    def result() -> Any:
        return compile_graph(product(SPECS["nn"], [tiny, large]), host())([tiny, large])[0]

    assert (result() == 0).all()
    settings.bf16_dot = False
    assert (result().astype(np.float64) == 2.0**-29).all()


def test_infinity_and_nan_are_as_usual() -> None:
    a, b = normal(20, 32), normal(32, 20)
    a[3, 5], a[4, 7], a[5, 0], a[5, 1] = np.inf, np.nan, np.inf, -np.inf
    b[0, :], b[1, :] = 1, 1
    got = compile_graph(product(SPECS["nn"], [a, b]), named(""))([a, b])[0].astype(np.float64)
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    for what in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(what(got), what(expected))


def test_a_layer_and_its_gradients_with_all_that_is_fused_to_them() -> None:
    def both_ways(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor) -> tuple[fw.Tensor, ...]:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        out = fw.tanh(x @ w.T + b) * 2.0
        return (out.detach(), *fw.grad(out.to(fw.float32).square().sum(), [x, w]))

    given = [fw.from_numpy(normal(*shape).astype(np.float32)).to(fw.bfloat16)
             for shape in ((34, 66), (40, 66), (40,))]
    compiled = fw.compile(both_ways, fullgraph=True)
    for _ in range(3):
        got = compiled(*given)
    for found, wanted in zip(got, both_ways(*(t.to(fw.float64) for t in given)), strict=True):
        error = np.abs(found.to(fw.float64).numpy() - wanted.numpy()).max()
        assert error <= 2e-2 * np.abs(wanted.numpy()).max()
