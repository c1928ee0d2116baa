"""Judges programs: compares, counts what was replayed, and stops what does not end."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import fusewire as fw

from .running import Comparison, Wrap, compare, differs, numpy_backed, outcomes
from .shrinking import shrink
from .writing import Program, write

PATIENCE = 30.0  # seconds of processor time for one program, whatever else the machine runs
WAITING = 10  # times as long on the clock, for a program that waits for something
BRIEFLY = 5.0  # and for a smaller one, while a program is made small
ENDLESS = "does not end"
COUNTED = ("calls", "replays", "recordings", "fallbacks")


class Endless(BaseException):
    """A program took longer than anybody waits."""


class Tally:
    """What compiled functions did, over all programs and by their features."""

    def __init__(self) -> None:
        self.programs: collections.Counter[str] = collections.Counter()
        self.counts: dict[str, collections.Counter[str]] = collections.defaultdict(
            collections.Counter)

    def add(self, program: Program, found: Comparison) -> None:
        for name in ("all", *program.features):
            self.programs[name] += 1
            self.counts[name]["calls"] += found.calls
            for what in COUNTED[1:]:
                self.counts[name][what] += getattr(found.stats, what, 0)

    def text(self) -> str:
        """A table: a row per feature, the share of calls in per cent."""
        lines = [f"{'programs with':14}{'programs':>9}{'calls':>8}  replayed recorded  eagerly"]
        for name in sorted(self.programs, key=lambda n: (n != "all", n)):
            counts = self.counts[name]
            shares = [f"{100 * counts[what] / max(counts['calls'], 1):8.1f}%"
                      for what in COUNTED[1:]]
            lines.append(f"{name:14}{self.programs[name]:9}{counts['calls']:8} {''.join(shares)}")
        return "\n".join(lines)


TALLY = Tally()


def judge(seed: int, wrap: Wrap = numpy_backed, tally: Tally = TALLY,
          effects: bool = False) -> str:
    """How program `seed` differs, compiled, from eager; an empty text where it does not. With
    `effects` it prints, logs and warns, and is not counted."""
    program = write(seed, effects=effects)
    found = _compared(program, wrap)
    if not effects:
        tally.add(program, found)
    return found.difference if _counts(program, found.difference, PATIENCE) else ""


def _counts(program: Program, difference: str, patience: float) -> bool:
    """Whether a difference is none of rounding."""
    if difference in ("", ENDLESS):  # what does not end is not run once more
        return difference == ENDLESS
    try:
        with watched(program, patience):
            return is_steady(program)
    except Endless:
        return True


def smallest(seed: int, wrap: Wrap = numpy_backed, seconds: float = 60.0,
             effects: bool = False) -> str:
    """The smallest program that so many seconds find in `seed` which differs, and how it does."""
    def fails(program: Program) -> bool:
        found = _compared(program, wrap, BRIEFLY).difference
        return found != ENDLESS and _counts(program, found, BRIEFLY)

    least = shrink(write(seed, effects=effects), fails, seconds=seconds)
    return f"{_compared(least, wrap).difference}\n\n{least}"


def _compared(program: Program, wrap: Wrap, patience: float | None = None) -> Comparison:
    try:
        with watched(program, patience or PATIENCE):
            return compare(program, wrap)
    except Endless:
        return Comparison(ENDLESS)


def is_steady(program: Program) -> bool:
    """Whether inputs that differ by some roundings give the same but for roundings."""
    def moved(number: re.Match[str]) -> str:
        return repr(float(number[0]) * (1 + 3e-6))

    calls = [re.sub(r"-?\d+\.\d+(?=[,\]])", moved, call) for call in program.calls]
    other, _ = outcomes(dataclasses.replace(program, calls=tuple(calls)), lambda fn: fn)
    same, _ = outcomes(program, lambda fn: fn)
    return all(a.error == b.error and not differs(a.seen, b.seen) for a, b in zip(other, same))


# ---- programs that do not end
@contextlib.contextmanager
def watched(program: Program, patience: float) -> Iterator[None]:
    """Raises Endless in this thread after a while; ends the process where that does not help."""
    done = threading.Event()
    me = ctypes.c_ulong(threading.get_ident())

    def watch() -> None:
        began, used = time.monotonic(), time.process_time()
        while time.process_time() - used < patience \
                and time.monotonic() - began < WAITING * patience:
            if done.wait(0.5):
                return
        for _ in range(20):  # what is raised while an object is finalized goes unseen
            ctypes.pythonapi.PyThreadState_SetAsyncExc(me, ctypes.py_object(Endless))
            if done.wait(1.0):
                return
        if not done.wait(PATIENCE):
            file = Path(tempfile.gettempdir(), f"endless_{program.seed}.py")
            file.write_text(str(program), encoding="utf-8")
            os._exit(70)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    tape = fw.is_grad_enabled()
    try:
        yield
    finally:
        done.set()
        thread.join()
        fw.set_grad_enabled(tape)  # the program may have been stopped as it left `no_grad`
