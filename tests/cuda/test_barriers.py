"""Where the threads of a team wait for each other: before they touch what another one may have
touched, and only there. Each such place is needed: without it the emulator finds a race."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled_for_cuda import compile_on, program_of
from emulated import EmulatedDevice, run_kernels
from loop_kernels import F32, add, compare_all, kernel, loop, times
from oracle import recorded
from random_kernels import Maker

import fusewire as fw
from emulator.emulator import AVAILABLE, KernelFault
from fusewire.capture.graph.graph import Graph
from fusewire.codegen.gpu.barriers import barrier_points
from fusewire.codegen.ir.loop_ir import (
    INT,
    Assign,
    KernelBuffer,
    Register,
    Store,
    Var,
    call,
    const,
    load,
    read,
)

runs = pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")

x, y = KernelBuffer("x", F32, 64), KernelBuffer("y", F32, 64)
s = KernelBuffer("s", F32, 64, scratch=True)
i, j, k = Var("i"), Var("j"), Var("k")
ONE = const(1, F32)


def lanes(*body: Any, var: Var = i, start: int = 0) -> Any:
    return loop(var, 64, *body, lanes=64, start=start)


def reversed_(var: Var) -> Any:
    return call("sub", (const(63), var), INT)


def neighbour(var: Var) -> Any:
    return call("imod", (add(var, const(1)), const(64)), INT)


REGISTER = Register("r", F32)
BODIES: dict[str, tuple[list[Any], set[tuple[int, ...]]]] = {
    "each reads what it has written": (
        [lanes(Store(s, i, load(x, i))), lanes(Store(y, j, load(s, j)), var=j)], set()),
    "each reads what another one has written": (
        [lanes(Store(s, i, load(x, i))), lanes(Store(y, j, load(s, reversed_(j))), var=j)],
        {(1,)}),
    "each writes what another one has read": (
        [lanes(Store(y, i, load(x, neighbour(i)))), lanes(Store(x, j, ONE), var=j)], {(1,)}),
    "two loops write other elements of one buffer": (
        [lanes(Store(s, i, ONE)), lanes(Store(s, reversed_(j), load(x, j)), var=j)], {(1,)}),
    "loops whose lanes begin elsewhere": (
        [lanes(Store(s, i, load(x, i))), lanes(Store(y, j, load(s, j)), var=j, start=1)], {(1,)}),
    "loops that touch nothing in common": (
        [lanes(Store(s, i, load(x, i))), lanes(Store(y, j, load(x, reversed_(j))), var=j)], set()),
    "all read what one has written": (
        [Store(s, const(0), load(x, const(3))), lanes(Store(y, j, load(s, const(0))), var=j)],
        {(1,)}),
    "one reads what all have written": (
        [lanes(Store(s, i, load(x, i))), Assign(REGISTER, load(s, const(5))),
         Store(y, const(0), read(REGISTER))], {(1,)}),
    "a turn writes what another one has read in the turn before": (
        [loop(k, 3, lanes(Store(s, i, load(x, i))), lanes(Store(y, j, load(s, reversed_(j))),
                                                           var=j))], {(0, 0), (0, 1)}),
    "turns in which each has elements of its own": (
        [loop(k, 3, lanes(Store(s, i, load(x, i))), lanes(Store(y, j, load(s, j)), var=j))], set()),
    "a turn reads what the turn before has written elsewhere": (
        [lanes(Store(s, i, load(x, i))),
         loop(k, 3, lanes(Store(s, times(j, 1), call("add", (load(s, j), ONE), F32)), var=j)),
         lanes(Store(y, i, load(s, neighbour(i))))], {(2,)}),
}


@pytest.mark.parametrize("what", BODIES)
def test_where_threads_meet(what: str) -> None:
    body, places = BODIES[what]
    assert barrier_points(kernel([x], [y], body, scratch=[s]), private=set()) == places


def test_nobody_waits_for_what_is_private() -> None:
    body, _ = BODIES["each reads what another one has written"]
    assert barrier_points(kernel([x], [y], body, scratch=[s]), private={s}) == set()


# ---- each of them is needed

RNG = np.random.default_rng(0)


def normal(*shape: int) -> fw.Tensor:
    return fw.from_numpy(RNG.standard_normal(shape).astype(np.float32))


REAL: dict[str, tuple[Callable[..., Any], list[fw.Tensor]]] = {
    "softmax with rows in shared memory": (lambda x: fw.softmax(x, -1), [normal(2, 3001)]),
    "layer_norm": (lambda x: fw.nn.functional.layer_norm(x, (700,)), [normal(3, 700)]),
    "a product": (lambda a, b: a @ b, [normal(20, 40), normal(40, 24)]),
    "a product by tensor cores": (
        lambda a, b: a @ b, [x.astype(fw.bfloat16) for x in (normal(20, 40), normal(40, 24))]),
    "columns, cut": (lambda x: x.sum(0), [normal(600, 40)]),
    "a sum, cut": (lambda x: x.sum(), [normal(40_000)]),
    "an array that is turned": (lambda x: x.T + 1, [normal(40, 50)]),
    "a scan": (lambda x: fw.cumsum(x, -1), [normal(2, 900)]),
}
_BARRIER = re.compile(r"__sync(?:threads|warp)\(\);")


class Mutating(EmulatedDevice):
    """Leaves out one barrier of each source that it loads, by its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def load(self, source: str) -> Any:
        place = _barriers(source)[self.number]
        return super().load(source[:place.start()] + source[place.end():])


def _barriers(source: str) -> list[re.Match[str]]:
    return list(_BARRIER.finditer(source))


@runs
@pytest.mark.parametrize("what", REAL)
def test_every_barrier_of_a_kernel_is_needed(what: str) -> None:
    """But one: the first sum of a kernel waits for readers of a sum before it."""
    fn, given = REAL[what]
    graph, arrays = recorded(fn, *given)
    source = program_of(graph, checks=False).module.source
    missed = [number for number in range(len(_barriers(source)))
              if not _caught(number, graph, arrays)]
    lines = [source[_barriers(source)[n].start():].partition("\n")[0] for n in missed]
    assert lines in ([], ["__syncthreads();  // for threads that still read the earlier values"])


def _caught(number: int, graph: Graph, arrays: list[Any]) -> bool:
    """Whether the emulator finds the kernel at fault that lacks a barrier."""
    program = compile_on(graph, Mutating(number), checks=False)
    try:
        program([np.copy(a) for a in arrays])
    except KernelFault as fault:
        assert "race" in fault.what or "uninitialised" in fault.what
        return True
    return False


# ---- random kernels


@runs
@pytest.mark.parametrize("order", [0, 1, 9])
def test_random_kernels(order: int) -> None:
    rng = np.random.default_rng(11)
    compare_all([Maker(rng).kernel() for _ in range(25)],
                functools.partial(run_kernels, order=order), seed=order)
