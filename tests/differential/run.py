"""Runs random programs by NumPy, eagerly and compiled:

    python tests/differential/run.py --programs 20000 --start 0

It prints each program that differs, made small, and a count at the end; the exit status is 1 if
there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from differential.judging import judge


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    options = parser.parse_args()
    begin, differing = time.monotonic(), 0
    for seed in range(options.start, options.start + options.programs):
        try:
            said = judge(seed)
        except Exception as error:
            said = f"program {seed}: {type(error).__name__}: {error}"
        if said:
            differing += 1
            print(said, flush=True)
    seconds = time.monotonic() - begin
    print(f"{options.programs} programs from {options.start}: {differing} differ ({seconds:.0f} s)")
    return differing > 0


if __name__ == "__main__":
    sys.exit(main())
