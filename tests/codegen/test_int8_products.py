"""Products of small integers, summed in int32, two or four to a word: exact, for every layout and
processor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from loop_kernels import TARGETS, X86, check_all, kernel, loop
from oracle import interpreted, recorded

import fusewire as fw
from fusewire.capture.graph.graph import Nodes
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.passes.decompose import decompose_composites
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.cpu.gemm.value_ranges import range_of
from fusewire.codegen.cpu.gemm.zero_points import split_zero_points
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
from fusewire.codegen.runtime.target import named
from fusewire.eager.arrays.shapes import TensorType

WORD, INT32 = np.dtype("uint32"), np.dtype("int32")
SHAPES = [(1, 2, 1), (5, 10, 7), (33, 34, 35), (64, 64, 64), (29, 66, 130), (1, 128, 100),
          (31, 33, 3), (47, 1030, 49)]
SOURCES = ["int8", "uint8", "int16", "bool"]


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers of the whole range, the ends among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    info = np.iinfo(dtype)
    found = rng.integers(info.min, info.max, shape, endpoint=True)
    found.flat[0], found.flat[-1] = info.min, info.max
    return found.astype(dtype)


def wide(x: fw.Tensor) -> fw.Tensor:
    return x.astype(fw.int32)


LAYOUTS: dict[str, Any] = {
    "nn": (lambda a, b: wide(a) @ wide(b), lambda m, k, n: ((m, k), (k, n))),
    "nt": (lambda a, b: wide(a) @ wide(b).T, lambda m, k, n: ((m, k), (n, k))),
    "tn": (lambda a, b: wide(a).T @ wide(b), lambda m, k, n: ((k, m), (k, n))),
    "batch": (lambda a, b: wide(a) @ wide(b), lambda m, k, n: ((3, m, k), (3, k, n))),
    "a part": (lambda a, b: wide(a[1:]) @ wide(b[:, 1:]), lambda m, k, n: ((m + 1, k), (k, n + 1))),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_and_size(layout: str, target: str) -> None:
    function, shapes = LAYOUTS[layout]
    for i, shape in enumerate(SHAPES):
        left, right = SOURCES[i % 3], SOURCES[i // 2 % 4]
        a, b = (drawn(s, t) for s, t in zip(shapes(*shape), (left, right)))
        graph, arrays = recorded(function, fw.from_numpy(a), fw.from_numpy(b))
        wanted = np.matmul(*as_matrices(layout, a, b)).astype(np.int32)  # sums of int32 wrap
        np.testing.assert_array_equal(compile_graph(graph, named(target))(list(arrays))[0], wanted)


def as_matrices(layout: str, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = a.astype(np.int64), b.astype(np.int64)
    if layout == "a part":
        return a[1:], b[:, 1:]
    return (a.T if layout == "tn" else a), (b.T if layout == "nt" else b)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_loops_say_the_same_for_any_processor(layout: str) -> None:
    function, shapes = LAYOUTS[layout]
    a, b = (drawn(s, t) for s, t in zip(shapes(33, 36, 35), ("int8", "uint8")))
    graph, arrays = recorded(function, fw.from_numpy(a), fw.from_numpy(b))
    wanted = np.matmul(*as_matrices(layout, a, b))
    for machine in (Machine(32, dot16=True), Machine(dot16=True, dot8=True)):
        np.testing.assert_array_equal(interpreted(graph, arrays, machine)[0], wanted)


def test_scales_for_each_channel_and_zero_points() -> None:
    """A quantised layer: what is added and scaled joins the product's kernel."""
    def layer(x: fw.Tensor, w: fw.Tensor, zero: fw.Tensor, scale: fw.Tensor, bias: fw.Tensor
              ) -> fw.Tensor:
        centred = wide(x) - wide(zero)
        return (centred @ wide(w).T).astype(fw.float32) * scale + bias

    given = [drawn((40, 64), "uint8"), drawn((48, 64), "int8"), np.array(131, np.uint8),
             np.linspace(1e-3, 2e-3, 48, dtype=np.float32), np.arange(48, dtype=np.float32)]
    compiled = fw.compile(layer, fullgraph=True)
    for _ in range(3):
        got = compiled(*map(fw.from_numpy, given)).numpy()
    x, w, zero, scale, bias = given
    sums = (x.astype(np.int64) - int(zero)) @ w.astype(np.int64).T
    np.testing.assert_allclose(got, sums.astype(np.float32) * scale + bias, rtol=3e-7, atol=1e-5)


@pytest.mark.skipif(not X86, reason="the instruction is one of x86")
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_the_instruction_is_used_where_numbers_fit(cpu: str) -> None:
    def code(dtype: str) -> str:
        a, b = (fw.from_numpy(drawn((64, 64), dtype, seed)) for seed in (0, 1))
        graph, _ = recorded(lambda a, b: wide(a) @ wide(b), a, b)
        return compile_graph(graph, named(cpu)).assembly

    assert "pmaddwd" in code("int8") and "pmaddwd" in code("int16")
    assert "pmaddwd" not in code("uint16") and "pmaddwd" not in code("int32")


# ---- factors without signs
FACTORS: dict[str, Any] = {
    "with signs": (lambda a, b, z: wide(a) @ wide(b).T, ("int8", "int8")),
    "less a number": (lambda a, b, z: (wide(a) - z) @ wide(b).T, ("uint8", "int8")),
    "with signs, less a number": (lambda a, b, z: (wide(a) - z) @ wide(b).T, ("int8", "int8")),
    "the second": (lambda a, b, z: wide(a) @ (wide(b) - z).T, ("int8", "uint8")),
    "turned": (lambda a, b, z: (wide(b) @ wide(a).T).T, ("int8", "int8")),
}


@pytest.mark.parametrize("name", FACTORS)
def test_one_factor_is_made_one_without_signs(name: str) -> None:
    """Exactly, and where sums wrap: the largest numbers, and a number far outside of 8 bits."""
    function, dtypes = FACTORS[name]
    a, b = (drawn((n, 64), t, n) for n, t in zip((9, 33), dtypes))
    for zero in (0, 131, -2_000_000_000):
        z = np.array(zero, np.int32)
        graph, arrays = recorded(function, *map(fw.from_numpy, (a, b, z)))
        after = split_zero_points(graph)
        left, right = ({range_of(n) for n in g.nodes() if n.op == "contract" for n in n.inputs}
                       for g in (graph, after))
        assert left != right and any(low >= 0 and high <= 255 for low, high in right)
        np.testing.assert_array_equal(evaluate(after, arrays)[0], evaluate(graph, arrays)[0])
        for target in (*TARGETS, ""):
            got = compile_graph(after, named(target))([x.copy() for x in arrays])[0]
            np.testing.assert_array_equal(got, evaluate(graph, arrays)[0])


def test_products_that_stay_as_they_are() -> None:
    """Few rows, other numbers, and windows, which would have to be written."""
    def conv(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        return fw.nn.functional.conv2d(wide(x), wide(w))

    few, many, wider = (drawn((n, 64), "int8") for n in (4, 9, 30))
    for run, given in ((lambda a, b: wide(a) @ wide(b).T, (few, wider)),
                       (lambda a, b: (wide(a) * 2) @ (wide(b) * 2).T, (many, wider)),
                       (lambda a, b: wide(a).astype(fw.uint8).astype(fw.int32) @ wide(b).T,
                        (many, wider)),
                       (conv, (drawn((2, 8, 9, 9), "int8"), drawn((16, 8, 3, 3), "int8")))):
        graph, _ = recorded(run, *map(fw.from_numpy, given))
        graph = decompose_composites(graph, lambda node: True)
        assert split_zero_points(graph).outputs == graph.outputs


@pytest.mark.skipif(not X86, reason="the instruction is one of x86")
@pytest.mark.parametrize(("cpu", "features"), [
    ("x86-64-v3", "+avxvnni"), ("x86-64-v4", "+avx512vnni")])
def test_four_at_once_where_the_processor_can(cpu: str, features: str) -> None:
    """One operand has no signs, the other has, and there are whole words."""
    target = replace(named(cpu), features=features, dot8=True)

    def code(left: str, right: str, depth: int = 64) -> str:
        a, b = fw.from_numpy(drawn((64, depth), left)), fw.from_numpy(drawn((depth, 64), right, 1))
        graph, _ = recorded(lambda a, b: wide(a) @ wide(b), a, b)
        return compile_graph(graph, target).assembly

    assert "vpdpbusd" in code("uint8", "int8") and "vpdpbusd" in code("int8", "bool")
    assert "vpdpbusd" in code("int8", "int8")
    for other in (code("uint8", "uint8"), code("uint8", "int8", 66)):
        assert "vpdpbusd" not in other and ("vpdpwssd" in other or "pmaddwd" in other)


@pytest.mark.parametrize("target", TARGETS)
def test_words_of_four_as_the_interpreter_has_them(target: str) -> None:
    j, kernels, given = Var("j"), [], {}
    for lanes in (0, 4, 16, 32):
        for step in (1, 3):
            x = KernelBuffer("x", np.dtype("uint8"), 170)
            y = KernelBuffer("y", np.dtype("int8"), 170)
            given |= {x: drawn((170,), "uint8"), y: drawn((170,), "int8", 1)}
            words = [call("quad8", tuple(
                call("cast", (load(b, call("add", (call("mul", (j, const(4)), j.dtype),
                                                   const(n * step)), j.dtype)),), INT32)
                for n in range(4)), WORD) for b in (x, y)]
            out, total = KernelBuffer("out", INT32, 40), Register("total", INT32)
            body = (Assign(total, const(7, INT32)),
                    Update(total, "add", call("dot8", tuple(words), INT32)),
                    Store(out, j, value_of(total)))
            kernels.append(kernel([x, y], [out], [loop(j, 40, *body, lanes=lanes)]))
    check_all(kernels, target, given=given)


@pytest.mark.parametrize("target", TARGETS)
def test_pairs_and_their_products_as_the_interpreter_has_them(target: str) -> None:
    """Pairs of neighbours, and of others; sums of products in vectors and alone."""
    j, kernels, given = Var("j"), [], {}
    twice = call("mul", (j, const(2)), j.dtype)
    for dtype in ("int8", "uint8", "int16"):
        x, y = KernelBuffer("x", np.dtype(dtype), 91), KernelBuffer("y", np.dtype(dtype), 91)
        given |= {x: drawn((91,), dtype), y: drawn((91,), dtype, 1)}
        for lanes in (0, 4, 16, 32):
            for step in (1, 7):
                words = KernelBuffer("words", WORD, 40)
                second = call("add", (twice, const(step)), j.dtype)
                pairs = [call("pair16", tuple(call("cast", (load(b, at),), INT32)
                                              for at in (twice, second)), WORD) for b in (x, y)]
                kernels.append(kernel([x], [words], [loop(
                    j, 40, Store(words, j, pairs[0]), lanes=lanes)]))
                out, total = KernelBuffer("out", INT32, 40), Register("total", INT32)
                body = (Assign(total, const(7, INT32)),
                        Update(total, "add", call("dot16", tuple(pairs), INT32)),
                        Store(out, j, value_of(total)))
                kernels.append(kernel([x, y], [out], [loop(j, 40, *body, lanes=lanes)]))
    check_all(kernels, target, given=given)


def test_ranges_of_values() -> None:
    nodes = Nodes()
    x = nodes.input("x", TensorType((4,), np.dtype("uint8")))
    y = nodes.apply("cast", (x,), {"dtype": INT32})
    twice = nodes.apply("add", (y, y), {})
    assert range_of(y) == (0, 255) and range_of(twice) == (0, 510)
    assert range_of(nodes.apply("negative", (twice,), {})) == (-510, 0)
    assert range_of(nodes.apply("multiply", (twice, nodes.apply("negative", (y,), {})), {})) == (
        -510 * 255, 0)
    wrapped = nodes.apply("add", (x, x), {})
    assert range_of(wrapped) == (0, 255)
    assert range_of(nodes.input("f", TensorType((4,), np.dtype("float32")))) is None
