"""Products by the matrix unit: its statements interpreted on every machine, its instructions where
the processor has them.

Plans for it are taken whatever they cost, so that small products reach all partial tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from loop_kernels import X86
from oracle import interpreted, recorded

import fusewire as fw
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.cpu.gemm import lower
from fusewire.codegen.ir.loop_ir import TileDot, walk
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.program.native_program import Argument, ProgramStep, program_ir, slot_of
from fusewire.codegen.runtime import target as targets
from fusewire.codegen.runtime.jit import assembly
from fusewire.codegen.runtime.target import Target, host, named, without_amx
from fusewire.eager.arrays.dtypes import bfloat16
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.ops.products.contract import parts
from fusewire.eager.settings import settings

MACHINE = Machine(dot=True, dot16=True, dot8=True, matrix_unit=True)
SAPPHIRE = Target(named("").triple, "sapphirerapids", "", 64, True, True, True, True, True, True)
SPECS = {"nn": "ik,kj->ij", "nt": "ik,jk->ij", "tn": "ki,kj->ij", "tt": "ki,jk->ij",
         "batch": "bik,bkj->bij", "shared": "bik,kj->bij", "two summed": "ikl,klj->ij"}
SIZES = [{"b": 2, "l": 3, "i": i, "j": j, "k": k} for i, j, k in (
    (2, 3, 4), (5, 40, 12), (33, 35, 36), (64, 64, 64), (29, 130, 68), (16, 17, 132),
    (70, 15, 2056))]
needs_amx = pytest.mark.skipif(not host().amx, reason="this processor has no AMX")


@pytest.fixture(autouse=True)
def wherever_it_can(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    best = lower._best_plan
    monkeypatch.setattr(lower, "_best_plan", lambda plans: best(
        [plan for plan in plans if plan.matrix_unit] or plans))
    monkeypatch.setattr(settings, "bf16_dot", True)
    yield


def operands(spec: str, size: dict[str, int], dtypes: tuple[str, str]) -> list[Any]:
    """Arrays of random numbers, for integers of the whole range."""
    rng = np.random.default_rng(sum(size.values()))
    shapes = [tuple(size[label] for label in part) for part in parts(spec)[:2]]
    if dtypes[0] == "bfloat16":
        return [rng.standard_normal(s).astype(np.float32).astype(bfloat16) for s in shapes]
    return [rng.integers(np.iinfo(t).min, np.iinfo(t).max, s, dtype=t, endpoint=True)
            for s, t in zip(shapes, dtypes)]


def product(spec: str, arrays: list[Any]) -> Graph:
    """The product in bfloat16, or of integers as int32."""
    nodes = Nodes()
    inputs = [nodes.input(f"x{i}", TensorType(a.shape, a.dtype)) for i, a in enumerate(arrays)]
    wide = inputs if arrays[0].dtype == bfloat16 else [
        nodes.apply("cast", (x,), {"dtype": np.dtype("int32")}) for x in inputs]
    return Graph(tuple(inputs), (nodes.apply("contract", wide, {"spec": spec}),))


def check(got: Any, spec: str, arrays: list[Any]) -> None:
    """Integers are exact. Sums of K products of bfloat16 have errors of K * 2**-23."""
    if got.dtype != bfloat16:
        exact = np.einsum(spec, *(a.astype(np.int64) for a in arrays))
        np.testing.assert_array_equal(got, exact.astype(np.int32))
        return
    wide = [a.astype(np.float64) for a in arrays]
    exact, size = np.einsum(spec, *wide), np.einsum(spec, *map(np.abs, wide))
    count = wide[0].size
    assert (np.abs(got.astype(np.float64) - exact)
            <= 2.0**-8 * np.abs(exact) + 1.01 * count * 2.0**-23 * size).all()


def uses_tiles(graph: Graph, machine: Machine) -> bool:
    return any(isinstance(s, TileDot)
               for x in lower_graph(graph, machine)[1] for s in walk(x.kernel.body))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("dtypes", [("bfloat16", "bfloat16"), ("int8", "uint8"), ("int8", "int8")],
                         ids=str)
def test_the_loops_multiply_any_layout(spec: str, dtypes: tuple[str, str]) -> None:
    arrays = operands(spec, SIZES[2], dtypes)
    graph = product(spec, arrays)
    assert uses_tiles(graph, MACHINE)
    check(interpreted(graph, arrays, MACHINE)[0], spec, arrays)


@needs_amx
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_instructions_multiply_any_layout_and_size(spec: str) -> None:
    pairs = [("bfloat16", "bfloat16"), ("int8", "uint8"), ("uint8", "int8"), ("int8", "int8"),
             ("uint8", "uint8")]
    for n, size in enumerate(SIZES):
        for dtypes in (pairs[0], pairs[1 + n % 4]):
            arrays = operands(spec, size, dtypes)
            run = compile_graph(product(spec, arrays), host())
            assert size["i"] < 5 or "tdpb" in run.assembly
            check(run(list(arrays))[0], spec, arrays)


@pytest.mark.skipif(not X86, reason="the instructions are those of x86")
def test_a_task_sets_the_shapes_of_its_tiles_and_frees_them() -> None:
    graph = product(SPECS["nn"], operands(SPECS["nn"], SIZES[2], ("bfloat16", "bfloat16")))
    plan, launches = lower_graph(graph, MACHINE)
    slots = {b: Argument(i) for i, b in enumerate(
        dict.fromkeys((*plan.arguments, *(p.buffer for x in launches for p in x.views))))}
    steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.views]) for x in launches]
    text = assembly(program_ir(steps, "product", SAPPHIRE)[0], SAPPHIRE)
    places = [text.index(name) for name in ("ldtilecfg", "tdpbf16ps", "tilerelease")]
    assert places == sorted(places) and text.count("tilerelease") == 1


def test_the_setting_and_the_system_can_leave_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = SAPPHIRE.__class__(**{**SAPPHIRE.__dict__, "features": "+avx512f,+amx-tile,+fma"})
    assert without_amx(with_it).features == "+avx512f,-amx-tile,+fma"
    assert not without_amx(with_it).amx and "amx-tile" not in without_amx(with_it).needs
    monkeypatch.setattr(settings, "amx", False)
    assert not host().amx
    monkeypatch.setattr(targets, "may_use_tiles", lambda: False)
    assert not [name for name in targets.features_here() if name.startswith("amx")]


@needs_amx
def test_infinity_and_nan_stay_where_they_are() -> None:
    """The zeros at the end of packed lines, and the rows after the last one, reach no result."""
    a, b = operands("ik,kj->ij", {"i": 20, "k": 38, "j": 20}, ("bfloat16", "bfloat16"))
    a[3, 5], a[4, 7], a[19, 37], b[37, 19] = np.inf, np.nan, -np.inf, np.inf
    got = compile_graph(product("ik,kj->ij", [a, b]), host())([a, b])[0].astype(np.float64)
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    for what in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(what(got), what(expected))


@needs_amx
def test_layers_with_all_that_is_fused_to_them() -> None:
    """Prepacked weights, convolutions and their gradients, and a batch of any size."""
    def layers(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor, filters: fw.Tensor) -> fw.Tensor:
        image = fw.tanh(x @ w.T + b).reshape(-1, 4, 6, 10)
        return fw.nn.functional.conv2d(image, filters, padding=1).relu()

    def gradients(x: fw.Tensor, *weights: fw.Tensor) -> tuple[fw.Tensor, ...]:
        leaves = [t.detach().requires_grad_() for t in (x, *weights)]
        loss = layers(*leaves).to(fw.float32).square().mean()
        return tuple(fw.grad(loss, leaves))

    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(s).astype(np.float32) / 8
               for s in ((240, 66), (240,), (18, 4, 3, 3))]
    for function in (lambda *t: (layers(*t),), gradients):
        compiled = fw.compile(function, fullgraph=True)
        for rows in (34, 34, 34, 7, 50, 51):
            given = [rng.standard_normal((rows, 66)).astype(np.float32), *weights]
            tensors = [fw.from_numpy(t).to(fw.bfloat16) for t in given]
            wanted = function(*(t.to(fw.float64) for t in tensors))
            for got, exact in zip(compiled(*tensors), wanted, strict=True):
                error = np.abs(got.to(fw.float64).numpy() - exact.numpy()).max()
                assert error <= 3e-2 * np.abs(exact.numpy()).max()


@needs_amx
def test_quantized_layers_are_exact() -> None:
    def layer(x: fw.Tensor, w: fw.Tensor, zero: fw.Tensor) -> fw.Tensor:
        return (x.astype(fw.int32) - zero.astype(fw.int32)) @ w.astype(fw.int32).T

    x, w = operands("ik,jk->ij", {"i": 40, "j": 50, "k": 64}, ("uint8", "int8"))
    compiled = fw.compile(layer, fullgraph=True)
    for zero in (0, 131, 255, 255):
        got = compiled(*map(fw.from_numpy, (x, w, np.array(zero, np.uint8)))).numpy()
        np.testing.assert_array_equal(got, (x.astype(np.int64) - zero) @ w.astype(np.int64).T)
    graph, _ = recorded(layer, *map(fw.from_numpy, (x, w, np.array(3, np.uint8))))
    assert uses_tiles(graph, MACHINE)
