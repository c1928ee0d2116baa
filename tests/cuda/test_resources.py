"""NVRTC compiles the kernels of every op, forward and backward, for the GPUs that we name, and none
takes more than a processor has for it; those that differ in numbers alone are compiled once. The
first row of each op and a sample of the others are compiled, each for one of two architectures;
`FUSEWIRE_TEST_WHOLE=1` compiles all for both."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sampling
from compiled_for_cuda import compile_on
from cuda_kernels import Kernels
from oracle import recorded
from row_programs import TREES, backward, cases, forward, weighted
from samples import ROWS

from fusewire.codegen.cuda.program import CUDA_LOWERING
from fusewire.codegen.partition.hybrid_executable import compile_hybrid

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")

CHOSEN = sampling.sample_of_each([row for row in ROWS if row not in TREES],
                                operator.attrgetter("op"), 50, seed=6)
AT_ONCE = 50  # rows of a module
ARCHS = ("sm_80", "sm_90")


def add(kernels: Kernels, label: str, fn: Callable[..., Any], *given: Any) -> None:
    kernels.label = label
    graph, _ = recorded(fn, *given)
    compile_hybrid(graph, lambda part: compile_on(part.graph, kernels, checks=False),
                   lambda device: CUDA_LOWERING)


@pytest.mark.parametrize("start", range(0, len(CHOSEN), AT_ONCE))
def test_kernels_of_all_ops(start: int) -> None:
    kernels = Kernels()
    with np.errstate(all="ignore"):
        for row in CHOSEN[start:start + AT_ONCE]:
            add(kernels, str(row), forward(row), cases(row))
            given, us = weighted(row, cases(row, requires_grad=True)) if row.grad else ([], [])
            if given:
                add(kernels, f"gradient of {row}", backward(row), given, us)
    for arch in ARCHS if sampling.WHOLE else (ARCHS[start // AT_ONCE % 2],):
        taken = kernels.compiled(arch)
        assert taken or len(CHOSEN) - start < AT_ONCE  # the last few may have no kernel
        assert not {label: t for label, t in taken.items() if t.too_much}, arch
