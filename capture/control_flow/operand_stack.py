"""What bytecode tells of the operands in it.

What lies on the stack of a running frame beside its local variables: `[x * 2, y if p else z]` has
computed its first element when `p` is asked. No one can look at it, so whether something may lie
there that changes from turn to turn of a loop is read from the bytecode.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

from ..heap.bytecode import instructions, is_jump, number_at

# Questions, and how many operands they take up; what they leave is the answer. What is not here
# is no place where a loop may begin: `max(a, b)` goes on with its operands.
_QUESTIONS = {"TO_BOOL": 1, "UNARY_NOT": 1, "COMPARE_OP": 2, "CONTAINS_OP": 2}
LEAVES = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
ALWAYS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")
_LAST = {"less", "less_equal", "greater", "greater_equal", "lt", "le", "gt", "ge"}
_TYPES = {"type", "__class__", "pow"}  # names in code that can tell a number from a symbol


def tells_symbols(code: types.CodeType) -> bool:
    """Whether code can tell a plain number from what stands for it: by its type, or by `n is 5`."""
    return not _TYPES.isdisjoint(code.co_names) or (
        dis.opmap["IS_OP"] in code.co_code[::2] and any(map(_is_number, code.co_consts))
        and any(step.opname == "IS_OP" and any(map(_loads_number, instructions(code)[n - 2:n]))
                for n, step in enumerate(instructions(code))))


def _loads_number(step: dis.Instruction) -> bool:
    return step.opname.startswith("LOAD") and _is_number(step.argval)


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


@functools.lru_cache(maxsize=4096)
def only_locals_change(code: types.CodeType, at: int, known: frozenset[int] = frozenset()
                       ) -> bool:
    """Whether all that can differ between two visits of the question at this offset is in local
    variables: below its operands lies nothing but what was there before the loops around it, and
    iterators whose state is known, by the instructions that take from them."""
    depths = depths_of(code)
    operands = operands_of(code, at)
    heads = [target for start, target in _jumps(code) if target <= at <= start]
    if depths is None or operands is None or not heads or _in_for(code, at, known):
        return False
    if any(where not in depths for where in (at, *heads)):
        return False  # code that handles exceptions
    return depths[at] - operands <= min(depths[head] for head in heads)


def operands_of(code: types.CodeType, at: int) -> int | None:
    """How many operands the question at this offset takes up; None where it is none."""
    name = instructions(code)[number_at(code, at)].opname
    return 1 if name.startswith("POP_JUMP") else _QUESTIONS.get(name)


def is_single_question(frame: Any, asks: str) -> bool:
    """Whether a frame stands at a question that asks one thing only: `a == b` of lists, and
    `a in b`, ask of one element after the other, and nobody can look at how far they are. `asks`:
    the op that is asked about; lists ask which is larger last, and once."""
    steps = instructions(frame.f_code)
    n = number_at(frame.f_code, frame.f_lasti)
    if steps[n].opname != "COMPARE_OP" or asks in _LAST:
        return steps[n].opname != "CONTAINS_OP"
    given = steps[n - 1]
    if given.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
        return _is_number(given.argval)
    names = given.argval if isinstance(given.argval, tuple) else (given.argval,)
    return given.opname.startswith("LOAD_FAST") and isinstance(
        frame.f_locals.get(names[-1]), (int, float))


def _in_for(code: types.CodeType, at: int, known: frozenset[int]) -> bool:
    """Whether it stands in a `for` that is not known: it keeps its iterator on the stack."""
    return any(i.offset <= at < i.argval and i.offset not in known
               for i in instructions(code) if i.opname == "FOR_ITER")


def _jumps(code: types.CodeType) -> Iterator[tuple[int, int]]:
    return ((i.offset, i.argval) for i in instructions(code) if is_jump(i))


@functools.lru_cache(maxsize=1024)
def depths_of(code: types.CodeType) -> dict[int, int] | None:
    """How many values lie on the stack before each instruction that can be reached without an
    exception; None where that is not one number."""
    found: dict[int, int] = {}
    steps = instructions(code)
    places = {step.offset: n for n, step in enumerate(steps)}
    todo = [(0, 0)]
    while todo:
        n, depth = todo.pop()
        step = steps[n]
        if step.offset in found:
            if found[step.offset] != depth:
                return None
            continue
        found[step.offset] = depth
        if is_jump(step):
            todo.append((places[step.argval], depth + _effect(step, jump=True)))
        if step.opname not in LEAVES and step.opname not in ALWAYS:
            todo.append((n + 1, depth + _effect(step, jump=False)))
    return found


def _effect(step: dis.Instruction, jump: bool) -> int:
    argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(step.opcode, argument, jump=jump)
