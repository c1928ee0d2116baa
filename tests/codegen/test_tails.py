"""The last vector of a loop, of which only some lanes are in use, reads and stores these lanes and
nothing else: for every pair of dtypes, number of lanes, number of lanes in use, place and step of
the elements, and form of the mask. The same of products of small matrices, whose rows end anywhere.
`FUSEWIRE_TEST_WHOLE=1` tries all loops and more products; a run takes a sample.
"""

from __future__ import annotations

import pytest
from guarded import POSSIBLE, in_a_process
from loop_kernels import X86
from sampling import WHOLE

from fusewire.codegen.runtime.target import named

CPUS = ["", "x86-64-v4", "x86-64-v3", "x86-64"]
CASES = [(cpu, where) for cpu in CPUS for where in ("end", "start")]


def runs_here(cpu: str) -> bool:
    """Whether this processor runs code for `cpu`."""
    return not cpu or (X86 and (cpu != "x86-64-v4" or named("").vector_bytes == 64))


@pytest.mark.skipif(not POSSIBLE, reason="pages are protected by mprotect, of POSIX")
@pytest.mark.parametrize("cpu, where", CASES[::2] + CASES[1:2])
def test_the_last_vector_touches_the_lanes_in_use(cpu: str, where: str) -> None:
    if not runs_here(cpu):
        pytest.skip(f"this processor runs no code for {cpu}")
    done = in_a_process("tails_run.py", cpu, where, str(CASES.index((cpu, where))))
    last = done.stdout.split("\n")[-2:][0]
    assert done.returncode == 0, f"{last}: {done.returncode}\n{done.stderr[-2000:]}"
    assert int(last) >= 200


@pytest.mark.skipif(not POSSIBLE, reason="pages are protected by mprotect, of POSIX")
@pytest.mark.parametrize("cpu, where", [CASES[0], CASES[3], CASES[4]])
def test_products_of_small_matrices_touch_their_arrays(cpu: str, where: str) -> None:
    if not runs_here(cpu):
        pytest.skip(f"this processor runs no code for {cpu}")
    number = str(CASES.index((cpu, where)))
    done = in_a_process("products_run.py", cpu, where, "200" if WHOLE else "10", number)
    last = done.stdout.split("\n")[-2:][0]
    assert done.returncode == 0, f"{last}: {done.returncode}\n{done.stderr[-2000:]}"
    assert int(last) >= 70
