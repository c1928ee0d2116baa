"""Runs every function of one argument on every float32, and reports the largest error.

    python tests/exhaustive_math.py                        # all functions and numbers: hours
    python tests/exhaustive_math.py --every 97             # a number in 97: minutes
    python tests/exhaustive_math.py exp tanh --cpu x86-64-v3

It compares with NumPy in float64. It exits with 1 if an error exceeds the bound, or if a nan, an
infinity or the sign of a zero is wrong. `test_llvm_math.py` tests selected numbers in every run.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from vector_math import F32, UNARY, UNITS, Functions, errors, wrong

BLOCK = 1 << 20


class Found(NamedTuple):
    """The largest error of some numbers, in units, with its argument, and the number of wrong
    results."""

    units: float
    at: float
    wrong: int = 0
    wrong_at: float = 0.0

    def __str__(self) -> str:
        bad = f"; {self.wrong} wrong, one at {float(self.wrong_at)!r}" if self.wrong else ""
        return f"{self.units:8.3f} units at {float(self.at)!r}{bad}"

    def joined(self, other: Found) -> Found:
        """The worse of two, with the wrong results of both."""
        worse = max(self, other, key=lambda f: f.units)
        wrong_at = self.wrong_at if self.wrong else other.wrong_at
        return Found(worse.units, worse.at, self.wrong + other.wrong, wrong_at)


def judged(name: str, x: np.ndarray, got: np.ndarray) -> Found:
    """The largest error of these results of a function."""
    with np.errstate(all="ignore"):
        exact = UNARY[name](x.astype(np.float64))
    off, bad = errors(got, exact), np.flatnonzero(wrong(got, exact))
    worst = int(off.argmax())
    return Found(float(off[worst]), x[worst], len(bad), x[bad[0]] if len(bad) else 0.0)


def numbers(start: int, every: int) -> np.ndarray:
    """BLOCK numbers, `every` bit patterns apart, from `start` on, modulo 2**32."""
    return (np.arange(start, start + BLOCK * every, every) % (1 << 32)).astype(np.uint32).view(F32)


def search(name: str, cpu: str, every: int, workers: int) -> Found:
    """The largest error over all numbers."""
    run = Functions([name], F32, BLOCK, cpu)
    starts = range(0, 1 << 32, BLOCK * every)

    def block(start: int) -> Found:
        x = numbers(start, every)
        return judged(name, x, run(x)[name])

    worst = Found(0.0, 0.0)
    with ThreadPoolExecutor(workers) as pool:
        for found in pool.map(block, starts):
            worst = worst.joined(found)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("functions", nargs="*", default=list(UNARY), metavar="function")
    parser.add_argument("--cpu", default="", help="LLVM's name, such as x86-64-v3")
    parser.add_argument("--every", type=int, default=1, help="test one number in so many")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    bad = 0
    for name in options.functions:
        found = search(name, options.cpu, options.every, options.workers)
        fails = found.units > UNITS or found.wrong > 0
        bad += fails
        print(f"{name:6} {found}{'  <-- too much' if fails else ''}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
