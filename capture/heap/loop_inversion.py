"""Finds the two copies of a `while` condition that Python's compiler makes.

CPython tests the condition once before the loop and again at the end of each iteration. Both tests
are one loop header: their code is equal, and so are their destinations.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Mapping
from typing import Any

from .bytecode import instruction_index_at, instructions, is_jump
from .operand_stack import UNCONDITIONAL_JUMPS, depths_of

_Outcomes = dict[bool, int]  # the destination of a test, by its outcome


def header_offset(code: types.CodeType, at: int) -> int:
    """The offset of the loop header for an instruction of a condition before the loop; `at` itself
    for other instructions."""
    step = instructions(code)[instruction_index_at(code, at)]
    return _header_offsets(code).get(step.offset, at)


@functools.lru_cache(maxsize=4096)
def is_in_while(code: types.CodeType, at: int) -> bool:
    """True if an instruction lies in the body or in the condition of a `while`."""
    steps, offset = instructions(code), instructions(code)[instruction_index_at(code, at)].offset
    return offset in _header_offsets(code) or any(
        step.argval <= offset <= step.offset
        and steps[instruction_index_at(code, step.argval)].opname != "FOR_ITER"
        for step in steps if is_jump(step))


@functools.lru_cache(maxsize=4096)
def is_in_loop(code: types.CodeType, at: int) -> bool:
    """True if an instruction lies between a jump back and its destination."""
    offset = instructions(code)[instruction_index_at(code, at)].offset
    return any(step.argval <= offset <= step.offset
               for step in instructions(code) if is_jump(step))


@functools.lru_cache(maxsize=1024)
def _header_offsets(code: types.CodeType) -> Mapping[int, int]:
    """The offset in the second copy of a condition, by the offset in the first."""
    tests = {n: outcomes for n in range(len(instructions(code)))
             if (outcomes := _outcomes(code, n)) is not None}
    offsets: dict[int, int] = {}
    for first, outcomes in tests.items():
        for second, others in tests.items():
            if first < second and outcomes == others and _is_behind(code, first, outcomes):
                offsets.update(_equal_code(code, first, second))
    return offsets


def _is_behind(code: types.CodeType, test: int, outcomes: _Outcomes) -> bool:
    """True if the body of the loop begins right behind its first test."""
    return instructions(code)[test + 1].offset in outcomes.values()


def _outcomes(code: types.CodeType, n: int) -> _Outcomes | None:
    """The destinations of a conditional jump; None for other instructions."""
    steps = instructions(code)
    name = steps[n].opname
    if not name.startswith("POP_JUMP") or not name.endswith(("_IF_TRUE", "_IF_FALSE")):
        return None
    jumps_if = name.endswith("_IF_TRUE")
    return {jumps_if: _destination(code, steps[n].argval),
            not jumps_if: _destination(code, steps[n + 1].offset)}


def _destination(code: types.CodeType, offset: int) -> int:
    """Where a path goes on from an offset, behind unconditional jumps."""
    steps, seen = instructions(code), {offset}
    while True:
        step = steps[instruction_index_at(code, offset)]
        if step.opname not in UNCONDITIONAL_JUMPS or step.argval in seen:
            return step.offset
        offset = step.argval
        seen.add(offset)


def _equal_code(code: types.CodeType, first: int, second: int) -> dict[int, int]:
    """The offsets of the second test's instructions, by those of the first; empty if they
    differ."""
    steps, depths = instructions(code), depths_of(code)
    if depths is None or steps[second].offset not in depths:
        return {}
    base = depths[steps[second].offset] - 1
    offsets = {steps[first].offset: steps[second].offset}
    n, m = first - 1, second - 1
    while n >= 0 and _same(steps[n], steps[m]):
        offsets[steps[n].offset] = steps[m].offset
        if depths.get(steps[m].offset) == base:
            return offsets
        n, m = n - 1, m - 1
    return offsets if n >= 0 and _stores_before(steps[m], steps[n]) \
        and depths.get(steps[m].offset) == base + 1 else {}


def _stores_before(step: dis.Instruction, load: dis.Instruction) -> bool:
    """True if an instruction is a load and, before it, a store, which Python 3.13 joins."""
    return step.opname == "STORE_FAST_LOAD_FAST" and load.opname == "LOAD_FAST" \
        and step.argval[1] == load.argval


def _same(one: dis.Instruction, two: dis.Instruction) -> bool:
    return one.opcode == two.opcode and _argument(one) == _argument(two)


def _argument(step: dis.Instruction) -> Any:
    return type(step.argval), step.argval
