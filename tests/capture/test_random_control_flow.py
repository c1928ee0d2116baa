"""Random Python programs with decisions, loops and state give the same compiled as eagerly.

A program that differs is made smaller and printed with its number. More programs, for a night:
`FUSEWIRE_TEST_PROGRAMS=20000 pytest tests/capture/test_random_control_flow.py`.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from programs import judging
from programs.judging import ENDLESS, TALLY, Tally, judge, smallest
from programs.running import compare
from programs.shrinking import shrink
from programs.writing import Program, write

import fusewire as fw
from fusewire.capture.replay import deferred_outputs, hot_paths, trace_tree

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "100"))
NATIVE = PROGRAMS // 10
CHUNK = 50
FAILED: list[dict[int, str]] = []  # what was wrong in each test so far
MOST = 4  # tests that fail before the others are left out: each takes its time to say how


def check(seeds: range, **options: Any) -> None:
    assert len(FAILED) < MOST, "not run, since so many programs before these were wrong"
    wrong: dict[int, str] = {}
    for seed in seeds:
        difference = judge(seed, **options)
        if difference:
            wrong[seed] = difference
        if difference == ENDLESS:
            break  # another one would take as long
    if wrong:
        FAILED.append(wrong)
        pytest.fail(f"{wrong}\nthe first one, made small: {shown(wrong, **options)}")


def shown(wrong: dict[int, str], **options: Any) -> str:
    """A program that differs; one that does not end is no help in finding a smaller one."""
    differs = [seed for seed, difference in wrong.items() if difference != ENDLESS]
    return smallest(differs[0], **options) if differs else str(write(min(wrong)))


@pytest.mark.parametrize("first", range(NATIVE, PROGRAMS, CHUNK))
def test_programs(first: int) -> None:
    check(range(first, min(first + CHUNK, PROGRAMS)))


@pytest.mark.parametrize("first", range(0, NATIVE, CHUNK))
def test_programs_in_native_code(first: int) -> None:
    check(range(first, min(first + CHUNK, NATIVE)), wrap=fw.compile)


@pytest.mark.parametrize("first", range(0, NATIVE, CHUNK))
def test_programs_that_print_log_and_warn(first: int) -> None:
    """What they say is part of what is compared."""
    wrap = {"wrap": fw.compile} if first < NATIVE // 4 else {}
    check(range(first, min(first + CHUNK, NATIVE)), effects=True, **wrap)


@pytest.mark.parametrize("first", range(0, 2 * NATIVE, CHUNK))
def test_programs_whose_first_results_wait_for_code(
        first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_outputs, "LARGE", 0)
    wrap = {"wrap": fw.compile} if first < NATIVE // 2 else {}
    check(range(first, min(first + CHUNK, PROGRAMS)), **wrap)


@pytest.mark.parametrize("first", range(0, NATIVE, CHUNK))
def test_programs_whose_paths_through_merges_are_compiled_as_a_whole(
        first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hot_paths, trace_tree):
        monkeypatch.setattr(module, "SMALLEST_BYTES", 1)
    check(range(first, min(first + CHUNK, PROGRAMS)))


def test_a_good_part_of_the_calls_is_replayed() -> None:
    tally = TALLY
    if tally.programs["all"] < 100:  # this test runs alone
        tally = Tally()
        for seed in range(NATIVE, NATIVE + 100):
            judge(seed, tally=tally)
    counts = tally.counts["all"]
    assert counts["replays"] > 0.25 * counts["calls"], tally.text()
    loops = tally.counts["while"]
    assert loops["replays"] > 0.2 * loops["calls"], tally.text()


# ---- the judges themselves
SOURCE = """
import fusewire as fw

kept = []

def f(x, v):
    y = fw.tanh(x)
    if y.sum() > 0.5:
        v = v * 2
    else:
        kept.append(y)
    return v + x.sum() - x.mean()
"""


def wrong_on_the_third_call(fn: Any) -> Any:
    calls: list[int] = []

    def run(x: Any, v: Any) -> Any:
        calls.append(1)
        return fn(x, v) if len(calls) != 3 else fn(x, v * 2)

    return run


def test_a_wrong_answer_is_found_and_made_small() -> None:
    call = "x = fw.ones(3)\nv = fw.ones(3)\nresult = run(x, v)"
    program = Program(0, (), SOURCE, (call,) * 8)
    fails = lambda p: bool(compare(p, wrong_on_the_third_call).difference)  # noqa: E731
    assert "call 2" in compare(program, wrong_on_the_third_call).difference
    assert not compare(program).difference
    small = shrink(program, fails)
    assert fails(small) and len(small.calls) == 3
    assert small.source.split("\n") == ["import fusewire as fw", "", "def f(x, v):", "    return v"]
    assert shrink(program, fails, seconds=0.0) is program


# What stops it may be raised within a callback of a weak reference, and is raised again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_program_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def waits(fn: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            while True:
                fn(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(judging, "PATIENCE", 0.2)
        assert judge(3, waits, Tally()) == ENDLESS
    assert judge(3, tally=Tally()) == ""


def test_a_change_of_state_is_seen() -> None:
    program = Program(0, (), SOURCE, ("x = -fw.ones(3)\nresult = run(x, x)",) * 2)
    twice = compare(program, lambda fn: lambda x, v: (fn(x, v), fn(x, v))[1])
    assert "list" in twice.difference


def test_a_number_writes_one_program() -> None:
    assert str(write(7)) == str(write(7)) != str(write(8))
