"""Compiled programs touch nothing beyond the ends of their buffers: not an input, a result, what
lies between kernels, or what a task packs for itself. `FUSEWIRE_TEST_WHOLE=1` tries all programs.
"""

from __future__ import annotations

import pytest
from guarded import POSSIBLE, in_a_process
from loop_kernels import TARGETS, X86
from sampling import WHOLE

CASES = [(cpu, where) for where in ("end", "start") for cpu in TARGETS]
pytestmark = pytest.mark.skipif(not POSSIBLE, reason="pages are protected by mprotect, of POSIX")


@pytest.mark.parametrize("cpu, where", CASES if WHOLE else CASES[::2])
def test_programs_stay_within_their_buffers(cpu: str, where: str) -> None:
    if cpu and not X86:
        pytest.skip("this processor runs no code for x86")
    done = in_a_process("guarded_run.py", cpu, where, str(CASES.index((cpu, where))))
    last = done.stdout.split("\n")[-2:]
    assert done.returncode == 0, f"{last[0]}: {done.returncode}\n{done.stderr[-2000:]}"
    assert int(last[0]) > (1000 if WHOLE else 15)


@pytest.mark.parametrize("at_end, place", [(True, 20), (False, -4)])
def test_the_guards_are_there(at_end: bool, place: int) -> None:
    lines = ["import ctypes, guarded", f"a = guarded.guarded(5, 'f4', {at_end})", "a[:] = 1",
             "print(a.sum(), flush=True)",
             f"ctypes.c_float.from_address(a.ctypes.data + {place}).value"]
    done = in_a_process("-c", "\n".join(lines))
    assert done.stdout == "5.0\n" and done.returncode != 0
