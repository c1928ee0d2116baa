"""Small kernels that are independent of each other become one launch with equal results."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled_for_cuda import compile_on, program_of
from cuda_kernels import Taken
from emulated import EmulatedDevice
from fake_device import FakeDevice
from oracle import assert_same, recorded
from repeating import repeated, training_of

import fusewire as fw
from emulator.emulator import AVAILABLE, KernelFault
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.cuda import horizontal_fusion
from fusewire.codegen.cuda.module import CudaFunction
from fusewire.codegen.cuda.program import CudaProgram
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.codegen.fusion.kernel_key import BufferView
from fusewire.codegen.fusion.launch import Launch
from fusewire.codegen.ir.loop_ir import For, Kernel, KernelBuffer, Var, const

runs = pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")

F32 = np.dtype("float32")
SHAPES = [(3, 4), (4,), (16, 33), (33,), (5000,), (1,)]
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda given: fw.optim.SGD(given, lr=0.1, momentum=0.9),
    "Adam": lambda given: fw.optim.Adam(given, lr=0.1),
    "AdamW": lambda given: fw.optim.AdamW(given, lr=0.1),
}
every_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def numbers(shapes: list[tuple[int, ...]], seed: int = 0) -> list[fw.Tensor]:
    rng = np.random.default_rng(seed)
    return [fw.from_numpy(rng.standard_normal(shape).astype(F32)) for shape in shapes]


def updates(name: str, shapes: list[tuple[int, ...]]) -> tuple[Any, list[Any]]:
    """An optimizer's step over parameters of these shapes as a graph, and its inputs."""
    parameters = [fw.nn.Parameter(x) for x in numbers(shapes)]
    optimizer = OPTIMIZERS[name](parameters)

    def step(*gradients: fw.Tensor) -> None:
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        optimizer.step()

    return recorded(step, *numbers(shapes, 1))


def launched(program: CudaProgram) -> list[CudaFunction]:
    return [program.module.functions[s.function] for s in program.steps]


# ---- what is launched


@every_optimizer
def test_an_optimizer_updates_all_parameters_in_one_launch(name: str) -> None:
    graph, _ = updates(name, SHAPES * 3)
    (only,) = launched(program_of(graph))
    assert len(only.kernels) >= len(SHAPES) * 3


def test_kernels_that_are_the_same_stand_in_the_source_once() -> None:
    few, many = (program_of(updates("Adam", SHAPES * n)[0]) for n in (1, 6))
    assert len(launched(many)[0].kernels) >= 6 * len(SHAPES)
    assert many.module.source.count("const int task") == few.module.source.count("const int task")


@pytest.mark.parametrize("count", [100, 300])
def test_a_launch_takes_no_more_arguments_than_every_gpu_does(count: int) -> None:
    functions = launched(program_of(updates("Adam", [(50,)] * count)[0]))
    assert sum(len(f.kernels) for f in functions) >= count
    assert all(8 * len(f.arguments) <= 4096 for f in functions)
    assert len(functions) <= 5 * count // 400 + 1


def test_different_kernels_of_a_launch_are_few() -> None:
    functions = launched(program_of(updates("Adam", [(n,) for n in range(2, 42)])[0]))
    assert [len(f.kernels) for f in functions[:-1]] == [16, 16]


def test_large_kernels_are_launched_alone() -> None:
    sizes = {"small": 1 << 10, "large": 1 << 22}

    def count(*names: str) -> int:
        given = [fw.ones(sizes[name]) for name in names]
        graph, _ = recorded(lambda *xs: tuple([x * 2 for x in xs]), *given)
        return len(program_of(graph).steps)

    assert (count("small", "small"), count("small", "large"), count("large", "large")) == (1, 2, 2)


# ---- what has to come after what


def launch(reads: list[KernelBuffer], writes: list[KernelBuffer], tasks: int = 1,
           lanes: int = 0) -> Launch:
    """A launch of a kernel of its own, whose teams have so many threads."""
    own = {b: KernelBuffer(b.name, F32, b.size) for b in [*reads, *writes]}
    body = (For(Var("i"), const(0), const(8), (), lanes),) if lanes else ()
    made = Kernel("k_any", tuple([own[b] for b in reads]), tuple([own[b] for b in writes]), (),
                  Var("task"), tasks, body)
    place = {mine: BufferView(b) for b, mine in own.items()}
    return Launch(made, tuple([place[b] for b in made.arguments]))


HUGE = 10_000_000  # tasks
A, B, C, D = (KernelBuffer(name, F32, 8) for name in "abcd")


@pytest.mark.parametrize(("first", "second", "rows"), [
    (([A], [B]), ([B], [C]), 2),  # read after it was written
    (([A], [B]), ([C], [A]), 2),  # written after it was read
    (([A], [B]), ([C], [B]), 2),  # written after it was written
    (([A], [A]), ([A], [B]), 2),
    (([A], [B]), ([A], [C]), 1),
    (([A], [B]), ([C], [D]), 1),
])
def test_who_needs_another_comes_after_it(first: Any, second: Any, rows: int) -> None:
    given = [launch(*first), launch(*second)]
    found = horizontal_fusion.fuse_launches(given)
    assert [x for row in found for x in row] == given and len(found) == rows


def test_what_is_ready_early_waits_for_others() -> None:
    """As updates do for those of the layers before."""
    large, last = launch([A], [B], HUGE), launch([B], [C], HUGE)
    early, late = launch([A], [D]), launch([C], [A])
    rows = horizontal_fusion.fuse_launches([early, large, last, late])
    assert rows == [(large,), (last,), (early,), (late,)]
    free = launch([C], [KernelBuffer("e", F32, 8)])
    assert horizontal_fusion.fuse_launches([early, large, last, free]) == [(large,), (last,),
                                                                           (early, free)]


def test_who_waits_for_one_that_waits_does_so_behind_it() -> None:
    """As updates do whose gradients are small products."""
    gradients, weights = ([KernelBuffer(f"{name}{n}", F32, 8) for n in range(3)] for name in "gw")
    products = [launch([A], [g]) for g in gradients]
    updates = [launch([g], [w]) for g, w in zip(gradients, weights)]
    in_turn = [x for pair in zip(products, updates) for x in pair]
    assert horizontal_fusion.fuse_launches(in_turn) == [tuple(products), tuple(updates)]


def test_only_what_a_large_kernel_needs_waits_no_longer() -> None:
    early, needed, large, late = (launch([A], [B]), launch([C], [D]), launch([D], [D], HUGE),
                                  launch([A], [KernelBuffer("e", F32, 8)]))
    rows = horizontal_fusion.fuse_launches([early, needed, large, late])
    assert rows == [(early, needed), (large,), (late,)]
    last = launch([D], [KernelBuffer("f", F32, 8)])
    rows = horizontal_fusion.fuse_launches([needed, last, large, late])
    assert rows == [(needed,), (last,), (large,), (late,)]


def test_memory_that_waits_is_bounded() -> None:
    """16 temporaries of 8 MiB: no more than 64 MiB are in use for longer than they would be."""
    buffers = [KernelBuffer(f"b{n}", F32, 1 << 21) for n in range(16)]
    launches = [launch([], [b]) for b in buffers]
    assert [len(row) for row in horizontal_fusion.fuse_launches(launches)] == [8, 8]
    assert [len(row) for row in horizontal_fusion.fuse_launches(launches, buffers)] == [16]


def after(rows: list[tuple[Launch, ...]], buffers: list[KernelBuffer]) -> dict[KernelBuffer, Any]:
    """What lies in memory in the end, as a formula; launches of a row see what was there before."""
    memory: dict[KernelBuffer, Any] = {b: b.name for b in buffers}
    for row in rows:
        new = {}
        for x in row:
            own = dict(zip(x.kernel.arguments, [p.buffer for p in x.views]))
            given = tuple([memory[own[b]] for b in x.kernel.inputs])
            for b in x.kernel.outputs:
                assert own[b] not in new, "written twice at once"
                new[own[b]] = hash((x.kernel, b, given))
        memory |= new
    return memory


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_launches_computes_the_same(seed: int) -> None:
    rng = random.Random(seed)
    buffers = [KernelBuffer(f"b{n}", F32, 8) for n in range(rng.choice([4, 12, 30]))]
    launches = [launch(rng.sample(buffers, rng.randint(0, 3)), rng.sample(buffers, 1),
                       rng.choice([1, 1, 1, HUGE]), rng.choice([0, 64, 128])) for _ in range(60)]
    rows = horizontal_fusion.fuse_launches(launches)
    assert sorted(map(id, launches)) == sorted(id(x) for row in rows for x in row)
    assert len(rows) < 60 or len(buffers) == 4
    assert after(rows, buffers) == after([(x,) for x in launches], buffers)


# ---- what is computed


def compare(program: Any, graph: Any, arrays: list[Any]) -> None:
    """What a program computes is what NumPy computes, node by node."""
    got = program([np.copy(a) for a in arrays])
    for mine, wanted in zip(got, evaluate(graph, [np.copy(a) for a in arrays]), strict=True):
        assert_same(mine, wanted, 200)


@runs
@every_optimizer
@pytest.mark.parametrize("order", [0, 1, 5])
def test_updates_are_those_of_numpy(name: str, order: int) -> None:
    graph, arrays = updates(name, SHAPES * 3)
    assert len(graph.outputs) >= len(SHAPES) * 6
    compare(compile_on(graph, EmulatedDevice(order)), graph, arrays)


@runs
def test_layers_and_turns_have_their_small_kernels_together() -> None:
    """Of six equal layers: their products one after the other, and back two at a time, by the
    weights and by what they read; before the last one is the loss, and behind it are the updates.
    """
    graph, arrays = training_of(6)
    program = compile_on(graph, EmulatedDevice(1))
    functions = launched(program.program)
    assert len(functions) <= 15
    assert len(functions[-1].kernels) == 12 and len({f.name for f in functions}) <= 6
    compare(program, graph, arrays)


@runs
@pytest.mark.parametrize("seed", range(12))
def test_random_turns(seed: int) -> None:
    fn, arrays = repeated(np.random.default_rng(seed))
    graph, given = recorded(fn, *[fw.from_numpy(a) for a in arrays])
    compare(compile_on(graph, EmulatedDevice(seed % 4)), graph, given)


@runs
def test_kernels_of_all_kinds_in_one_launch() -> None:
    """Threads, warps and blocks, with reductions and without; each kernel is there twice."""
    def several(x: fw.Tensor, y: fw.Tensor, z: fw.Tensor) -> Any:
        return [f(a) for a in (x, y) for f in (
            lambda a: fw.exp(a).T + 1, lambda a: fw.softmax(a, -1), lambda a: a.sum(0),
            lambda a: a[:, :5].max(1), lambda a: fw.flip(a))] + [fw.softmax(z, -1), z.sum()]

    graph, arrays = recorded(several, *numbers([(33, 50), (33, 50), (3, 900)]))
    program = compile_on(graph, EmulatedDevice(2))
    functions = launched(program.program)
    assert max(len(f.kernels) for f in functions) >= 5 and len(functions) <= 6
    compare(program, graph, arrays)


@runs
def test_the_emulator_sees_kernels_that_are_wrongly_launched_at_once(
        monkeypatch: pytest.MonkeyPatch) -> None:
    graph, arrays = recorded(lambda x: x.sum(1).reshape(60, 10).sum(1), *numbers([(600, 8)]))
    assert len(program_of(graph).steps) == 2
    monkeypatch.setattr(horizontal_fusion._Batch, "conflicts_with", lambda self, x: False)
    program = compile_on(graph, EmulatedDevice())
    assert len(program.program.steps) == 1
    with pytest.raises(KernelFault, match="race between blocks"):
        program(arrays)


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")
@every_optimizer
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_several_kernels_take_no_more_registers_than_the_largest(name: str, arch: str,
                                                                 monkeypatch: Any) -> None:
    graph, _ = updates(name, SHAPES * 3)
    (joined,) = nvrtc.compile(program_of(graph).module.source, arch).resources.values()
    monkeypatch.setattr(horizontal_fusion, "MAX_SMALL_BLOCKS", 0)
    alone = nvrtc.compile(program_of(graph).module.source, arch).resources.values()
    assert (joined.stack, joined.spill_stores, joined.spill_loads) == (0, 0, 0)
    assert joined.registers <= max(r.registers for r in alone) + 8


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_all_that_a_training_step_launches_fits_a_processor(arch: str) -> None:
    for graph in (training_of(6)[0], updates("Adam", [(n, 7) for n in range(1, 80)])[0]):
        program = program_of(graph)
        taken = nvrtc.compile(program.module.source, arch).resources
        for f in program.module.functions:
            assert not Taken(f.block, taken[f.name]).too_much, f.name


# ---- what is told of them


@pytest.mark.parametrize("count", [1, 7])
def test_a_launch_has_one_row(count: int) -> None:
    graph, _ = recorded(lambda *xs: tuple([x * 2 for x in xs]), *numbers([(60,)] * count))
    (row,) = compile_on(graph, FakeDevice()).rows()
    assert (row["bytes"], row["flops"], row["tasks"]) == (480 * count, 60 * count, count)
    assert row["name"] == "k0_multiply" + (" and 6 more" if count > 1 else "")
    assert row["line"].count("test_horizontal_fusion.py") == 1
