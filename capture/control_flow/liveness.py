"""Computes liveness and possible merge points of paths from bytecode.

It tells which local variables may be read after an instruction, and whether the operand stack can
differ between two paths that merge there, by the iterator of a `for`, for example.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..heap.bytecode import instruction_index_at, instructions, is_jump
from ..heap.operand_stack import EXIT_OPS, UNCONDITIONAL_JUMPS, depth_below, depths_of, popped
from .frame_state import GENERATORS

_BY_NAME = {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"}
_CONSTANT = ("LOAD_CONST", "LOAD_SMALL_INT", "PRECALL", "CALL", "CALL_FUNCTION", "NOP", "PUSH_NULL")

_NAMED = (*_CONSTANT, "LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_ATTR")


class ForLoop(NamedTuple):
    """A `for` loop: the offset of its FOR_ITER, and of the instruction behind the loop."""

    start: int
    end: int


@functools.lru_cache(maxsize=1024)
def _successors(code: types.CodeType) -> Mapping[int, tuple[int, ...]]:
    """The successors of each instruction by offset, exception handlers included."""
    steps = instructions(code)
    successors: dict[int, tuple[int, ...]] = {}
    for n, step in enumerate(steps):
        ends = step.opname in EXIT_OPS or step.opname in UNCONDITIONAL_JUMPS
        fall_through = () if ends or n + 1 == len(steps) else (steps[n + 1].offset,)
        jump = (step.argval,) if is_jump(step) else ()
        handlers = (h.target for h in _handlers(code) if h.start <= step.offset < h.end)
        successors[step.offset] = (*fall_through, *jump, *handlers)
    return successors


def _instruction_offset(code: types.CodeType, at: int) -> int:
    """The offset of the instruction that a frame executes."""
    return instructions(code)[instruction_index_at(code, at)].offset


def _handlers(code: types.CodeType) -> list[Any]:
    """The exception table of a code object; empty before Python 3.11, which uses instructions."""
    return list(getattr(dis.Bytecode(code), "exception_entries", ()))


def _has_exception_blocks(code: types.CodeType) -> bool:
    return any(step.opname.startswith("SETUP_") for step in instructions(code))


# ---- local variables
def live(code: types.CodeType, at: int) -> frozenset[str] | None:
    """The local variables that are live after the instruction at this offset; None for all."""
    if code.co_flags & GENERATORS or not _BY_NAME.isdisjoint(code.co_names) \
            or _has_exception_blocks(code):
        return None
    names, offset = _live_names(code), _instruction_offset(code, at)
    return frozenset().union(*(names[n] for n in _successors(code)[offset]), code.co_cellvars,
                             code.co_freevars)


@functools.lru_cache(maxsize=1024)
def _live_names(code: types.CodeType) -> Mapping[int, frozenset[str]]:
    """The names that are live before each instruction, by offset."""
    successors, steps = _successors(code), instructions(code)
    names: dict[int, frozenset[str]] = {step.offset: frozenset() for step in steps}
    changed = True
    while changed:
        changed = False
        for step in reversed(steps):
            live_in = frozenset().union(*(names[n] for n in successors[step.offset]))
            for name, is_read in reversed(list(_uses(step))):
                live_in = live_in | {name} if is_read else live_in - {name}
            changed = changed or live_in != names[step.offset]
            names[step.offset] = live_in
    return names


def _uses(step: dis.Instruction) -> Iterator[tuple[str, bool]]:
    """The local variables of an instruction, and whether each is read, in order."""
    if "_FAST" not in step.opname:
        return
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    kinds = step.opname.split("_FAST")[0], step.opname.rpartition("_FAST")[0].rpartition("_")[2]
    for name, kind in zip(names, kinds):
        yield name, kind != "STORE"


def _stores(code: types.CodeType, name: str) -> int:
    """The number of instructions that may assign a local variable."""
    return sum(used == name and (not is_read or step.opname == "DELETE_FAST")
               for step in instructions(code) for used, is_read in _uses(step))


# ---- the stack
class MergePoint(NamedTuple):
    """Two paths between two instructions: the loop counters that must be equal on both, beside the
    live local variables, and the variables that either path may change."""

    counters: frozenset[str]
    changed: frozenset[str]
    frame: int = 0  # the number of the frame with these instructions
    called: bool = False  # functions were called or have ended between the two


@functools.lru_cache(maxsize=4096)
def merge_point(code: types.CodeType, start: int, end: int, tracked: frozenset[int] = frozenset(),
                in_call: bool = False) -> MergePoint | None:
    """The `MergePoint` of paths from `start` to the decision at `end`; None if they cannot merge,
    because only one of them may change the stack. `tracked`: instructions that read iterators whose
    state is compared. `in_call`: the decision at `start` was made in a function called there."""
    start, end = _instruction_offset(code, start), _instruction_offset(code, end)
    depths, base = depths_of(code), depth_below(code, end)
    if depths is None or base is None or not (
            in_call or _merges_both_outcomes(code, start, end)):
        return None
    region = _instructions_between(code, start, end)
    changed = frozenset(name for step in instructions(code) if step.offset in region
                        for name, is_read in _uses(step) if not is_read)
    if base == 0:
        return MergePoint(frozenset(), changed)
    if _has_exception_blocks(code) or not region | {start} <= depths.keys() or any(
            h.start <= n < h.end for h in _handlers(code) for n in region):
        return None
    loops = _loops_around(code, end)
    untouched = base <= min(depths[step.offset] - popped(step) for step in instructions(code)
                            if step.offset in region or step.offset == start)
    if not untouched and base != len(loops):
        return None
    unknown_loops = [loop for loop in loops if (not untouched or loop.start in region)
                     and loop.start not in tracked]
    counters = [_counter_of(code, loop, whole=not untouched) for loop in unknown_loops]
    return None if None in counters else MergePoint(frozenset(c for c in counters if c), changed)


def _merges_both_outcomes(code: types.CodeType, start: int, end: int) -> bool:
    """True if both outcomes of a decision lead to `end` without passing the decision again."""
    successors, at, seen = _successors(code), start, {start}
    while len(successors[at]) == 1 and successors[at][0] not in seen:
        at = successors[at][0]
        seen.add(at)
        if at == end:
            return True
    return bool(successors[at]) and all(end in _reachable(code, n, at) for n in successors[at])


def _reachable(code: types.CodeType, start: int, without: int) -> set[int]:
    """The instructions reachable from `start` on paths that end at `without`."""
    successors, reached, stack = _successors(code), set[int](), [start]
    while stack:
        at = stack.pop()
        if at not in reached:
            reached.add(at)
            stack += successors[at] if at != without else ()
    return reached


def _instructions_between(code: types.CodeType, start: int, end: int) -> set[int]:
    """All instructions on paths from `start` to `end`."""
    successors = _successors(code)
    ahead = set().union(*(_reachable(code, n, -1) for n in successors[start]))
    return ahead & _leading_to(code, end)


@functools.lru_cache(maxsize=1024)
def _leading_to(code: types.CodeType, end: int) -> frozenset[int]:
    """The instructions from which a path leads to `end`, and `end` itself."""
    predecessors: dict[int, list[int]] = {}
    for n, following in _successors(code).items():
        for m in following:
            predecessors.setdefault(m, []).append(n)
    found, todo = {end}, [end]
    while todo:
        new = [n for n in predecessors.get(todo.pop(), ()) if n not in found]
        found.update(new)
        todo += new
    return frozenset(found)


def _loops_around(code: types.CodeType, at: int) -> list[ForLoop]:
    """The `for` loops around an instruction."""
    return [ForLoop(step.offset, step.argval) for step in instructions(code)
            if step.opname == "FOR_ITER" and step.offset <= at < step.argval]


def _counter_of(code: types.CodeType, loop: ForLoop, whole: bool) -> str | None:
    """The variable that counts a `for` over a range, or over an `enumerate` of a variable or
    attribute: a generator would have a state of its own. With `whole`, over a range of constants.
    None for other loops."""
    steps = instructions(code)
    n = next(i for i, step in enumerate(steps) if step.offset == loop.start)
    pairs = steps[n + 1].opname == "UNPACK_SEQUENCE" and steps[n + 1].argval == 2
    uses = list(_uses(steps[n + 1 + pairs]))
    if steps[n - 1].opname != "GET_ITER" or not uses or uses[0][1] or \
            _stores(code, uses[0][0]) != 1 or uses[0][0] in code.co_cellvars:
        return None
    depths = depths_of(code) or {}
    base, first = depths[steps[n - 1].offset] - 1, n - 2
    while first > 0 and depths.get(steps[first].offset, base) != base:
        first -= 1
    call = steps[first:n - 1]
    load = next((i for i, step in enumerate(call) if step.opname.startswith("LOAD")), 0)
    if not _loads(call[load], "enumerate" if pairs else "range") or any(map(is_jump, call)):
        return None
    only = _CONSTANT if whole else _NAMED if pairs else None
    if (whole and pairs) or (only and any(step.opname not in only for step in call[load + 1:])):
        return None
    return uses[0][0]


def _loads(step: dis.Instruction, name: str) -> bool:
    """True if an instruction loads a builtin, or its replacement in a traced copy of code."""
    if step.opname == "LOAD_CONST":
        return getattr(step.argval, "plain", None) is getattr(builtins, name)
    return step.opname == "LOAD_GLOBAL" and step.argval == name


def has_plain_counters(frame: Any) -> bool:
    """True if `range` and `enumerate` are the builtins in the code of a frame."""
    return all(frame.f_globals.get(name, plain) is plain and frame.f_builtins.get(name) is plain
               for name, plain in (("range", range), ("enumerate", enumerate)))
