"""Runs a sample of programs between guard pages, in a process of its own.

It prints a line before each program, so that the last line names the program that crashed.

    python tests/guarded_run.py <processor> <end|start> [seed]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from guarded import Run
from kinds import KINDS, SIZES, cases
from oracle import assert_same, recorded, tensors
from samples import ROWS, Row
from sampling import sample

from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.partition.support import is_supported, why_no_code
from fusewire.eager.errors import CodegenError

TREES = [row for row in ROWS if row.op in ("true_indices", "repeats")
         or row.label == "quantile, by q"]
Program = Callable[[], tuple[Graph, list[Any]]]


def programs(seed: int) -> Iterator[tuple[str, Program, float]]:
    """Names, makers of a graph with its inputs, and factors of the tolerance."""
    every = [(name, dtype, size) for name, dtype in cases() for size in SIZES]
    for name, dtype, size in sample(every, 16, seed):
        yield f"{name} {dtype} {size}", lambda n=name, s=size, d=dtype: KINDS[n].graph(s, d), 10.0
    for row in sample([row for row in ROWS if row not in TREES], 12, seed):
        yield str(row), lambda r=row: calls(r), row.tolerance / 2e-6


def calls(row: Row) -> tuple[Graph, list[Any]]:
    """A graph that calls the row with each of its inputs, and the arrays of its inputs."""
    inputs = [xs for xs in row.inputs(np.random.default_rng(0))
              if all(is_supported(x.dtype) for x in xs)]
    call = row.call
    return recorded(lambda given: [call(*xs) for xs in given], [tensors(xs) for xs in inputs])


def check(program: Program, cpu: str, at_end: bool, loose: float) -> bool:
    """True if a program has native code. Runs it and compares it with NumPy."""
    with np.errstate(all="ignore"):
        graph, arrays = program()
        if any(map(why_no_code, graph.nodes())):
            return False
        try:
            run = Run(graph, cpu, at_end)
        except CodegenError:  # an op is made of ops that have no code
            return False
        for got, wanted in zip(run(arrays), evaluate(graph, arrays)):
            assert_same(got, wanted, loose)
    return True


def main(cpu: str, where: str, seed: str = "0") -> None:
    ran = 0
    for name, program, loose in programs(int(seed)):
        print(name, flush=True)
        ran += check(program, cpu, where == "end", loose)
    print(ran)


if __name__ == "__main__":
    main(*sys.argv[1:])
