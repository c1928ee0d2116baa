"""What bytecode tells of where two ways through a function come together again.

Which local variables are read from a place on, and whether something beside them, the iterator of a
`for`, say, can lie on the stack there that one way has changed and the other has not.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..heap.bytecode import instructions, is_jump, number_at
from .frame_state import GENERATORS
from .operand_stack import ALWAYS, LEAVES, depths_of, operands_of

_BY_NAME = {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"}
_CONSTANT = ("LOAD_CONST", "LOAD_SMALL_INT", "PRECALL", "CALL", "CALL_FUNCTION")


class Loop(NamedTuple):
    """A `for`: the offset of what takes its next element, and of what comes after it."""

    start: int
    end: int


@functools.lru_cache(maxsize=1024)
def _after(code: types.CodeType) -> Mapping[int, tuple[int, ...]]:
    """The instructions that may follow on each, by offset; where an exception leads, too."""
    steps = instructions(code)
    found: dict[int, tuple[int, ...]] = {}
    for n, step in enumerate(steps):
        ends = step.opname in LEAVES or step.opname in ALWAYS
        next_one = () if ends or n + 1 == len(steps) else (steps[n + 1].offset,)
        jump = (step.argval,) if is_jump(step) else ()
        handlers = (h.target for h in _handlers(code) if h.start <= step.offset < h.end)
        found[step.offset] = (*next_one, *jump, *handlers)
    return found


def _step(code: types.CodeType, at: int) -> int:
    """The offset of the instruction that a frame stands at."""
    return instructions(code)[number_at(code, at)].offset


def _handlers(code: types.CodeType) -> list[Any]:
    """The code that handles exceptions, and what of; before 3.11 instructions tell that."""
    return list(getattr(dis.Bytecode(code), "exception_entries", ()))


def _has_blocks(code: types.CodeType) -> bool:
    return any(step.opname.startswith("SETUP_") for step in instructions(code))


# ---- local variables
def live(code: types.CodeType, at: int) -> frozenset[str] | None:
    """The local variables that may be read after the instruction at this offset; None for all."""
    if code.co_flags & GENERATORS or not _BY_NAME.isdisjoint(code.co_names) or _has_blocks(code):
        return None
    found, step = _live(code), _step(code, at)
    return frozenset().union(*(found[n] for n in _after(code)[step]), code.co_cellvars,
                             code.co_freevars)


@functools.lru_cache(maxsize=1024)
def _live(code: types.CodeType) -> Mapping[int, frozenset[str]]:
    """The names that may be read from each instruction on."""
    after, steps = _after(code), instructions(code)
    found: dict[int, frozenset[str]] = {step.offset: frozenset() for step in steps}
    changed = True
    while changed:
        changed = False
        for step in reversed(steps):
            now = frozenset().union(*(found[n] for n in after[step.offset]))
            for name, is_read in reversed(list(_uses(step))):
                now = now | {name} if is_read else now - {name}
            changed = changed or now != found[step.offset]
            found[step.offset] = now
    return found


def _uses(step: dis.Instruction) -> Iterator[tuple[str, bool]]:
    """The local variables of an instruction, and whether each is read, in order."""
    if "_FAST" not in step.opname:
        return
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    kinds = step.opname.split("_FAST")[0], step.opname.rpartition("_FAST")[0].rpartition("_")[2]
    for name, kind in zip(names, kinds):
        yield name, kind != "STORE"


def _stores(code: types.CodeType, name: str) -> int:
    """How many instructions may give a local variable another value."""
    return sum(used == name and (not is_read or step.opname == "DELETE_FAST")
               for step in instructions(code) for used, is_read in _uses(step))


# ---- the stack
class MergePoint(NamedTuple):
    """Two ways from one place to another: what has to be the same on both beside the local
    variables that are live, names of loops' counters, and which variables either may change."""

    counters: frozenset[str]
    changed: frozenset[str]


@functools.lru_cache(maxsize=4096)
def merge_point(code: types.CodeType, start: int, end: int, known: frozenset[int] = frozenset()
            ) -> MergePoint | None:
    """Whether ways from the instruction at `start` can meet at the question at `end`, with nothing
    on the stack that only one of them changed; None where they cannot. `known`: instructions that
    take from iterators whose state is compared."""
    start, end = _step(code, start), _step(code, end)
    depths, operands = depths_of(code), operands_of(code, end)
    if depths is None or operands is None or end not in depths or not _is_after_both(
            code, start, end):
        return None
    between = _between(code, start, end)
    base = depths[end] - operands
    changed = frozenset(name for step in instructions(code) if step.offset in between
                        for name, is_read in _uses(step) if not is_read)
    if base == 0:
        return MergePoint(frozenset(), changed)
    if _has_blocks(code) or not between <= depths.keys() or any(
            h.start <= n < h.end for h in _handlers(code) for n in between):
        return None
    loops = _around(code, end)
    untouched = base <= min(depths[n] for n in between)
    if not untouched and base != len(loops):
        return None
    turned = [loop for loop in loops if (not untouched or loop.start in between)
              and loop.start not in known]
    counters = [_counter(code, loop, whole=not untouched) for loop in turned]
    return None if None in counters else MergePoint(frozenset(c for c in counters if c), changed)


def _is_after_both(code: types.CodeType, start: int, end: int) -> bool:
    """Whether both answers to a question lead to `end`, none by way of the question again."""
    after, at, seen = _after(code), start, {start}
    while len(after[at]) == 1 and after[at][0] not in seen:
        at = after[at][0]
        seen.add(at)
        if at == end:
            return True
    return all(end in _reach(code, n, at) for n in after[at])


def _reach(code: types.CodeType, start: int, without: int) -> set[int]:
    """What can be reached, not going on from `without`."""
    after, found, stack = _after(code), set[int](), [start]
    while stack:
        at = stack.pop()
        if at not in found:
            found.add(at)
            stack += after[at] if at != without else ()
    return found


def _between(code: types.CodeType, start: int, end: int) -> set[int]:
    """All instructions on ways from one to another."""
    after = _after(code)
    ahead = set().union(*(_reach(code, n, -1) for n in after[start]))
    return {n for n in ahead if end in _reach(code, n, -1)}


def _around(code: types.CodeType, at: int) -> list[Loop]:
    """The `for` loops around an instruction."""
    return [Loop(step.offset, step.argval) for step in instructions(code)
            if step.opname == "FOR_ITER" and step.offset <= at < step.argval]


def _counter(code: types.CodeType, loop: Loop, whole: bool) -> str | None:
    """The variable that tells how far a `for` over a range is; with `whole` a range of plain
    constants, so that nothing else has to be known. None for other loops."""
    steps = instructions(code)
    n = next(i for i, step in enumerate(steps) if step.offset == loop.start)
    uses = list(_uses(steps[n + 1]))
    if steps[n - 1].opname != "GET_ITER" or not uses or uses[0][1] or \
            _stores(code, uses[0][0]) != 1 or uses[0][0] in code.co_cellvars:
        return None
    depths = depths_of(code) or {}
    base, given = depths[steps[n - 1].offset] - 1, n - 2
    while given > 0 and depths.get(steps[given].offset, base) != base:
        given -= 1
    made = steps[given:n - 1]
    if made[0].opname != "LOAD_GLOBAL" or made[0].argval != "range" or any(map(is_jump, made)):
        return None
    if whole and any(step.opname not in _CONSTANT for step in made[1:]):
        return None
    return uses[0][0]


def is_plain_range(frame: Any) -> bool:
    """Whether `range` means Python's in the code of a frame."""
    return frame.f_globals.get("range", builtins.range) is builtins.range \
        and frame.f_builtins.get("range") is builtins.range
