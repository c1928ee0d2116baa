"""Disassembles code objects and caches the results, since every trace needs them."""

from __future__ import annotations

import dis
import functools
import types
from typing import Any


@functools.lru_cache(maxsize=512)
def instructions(code: types.CodeType) -> tuple[dis.Instruction, ...]:
    """The instructions of a code object, as `dis` gives them."""
    return tuple(dis.get_instructions(code))


@functools.lru_cache(maxsize=4096)
def instruction_index_at(code: types.CodeType, at: int) -> int:
    """The index of the instruction that a frame executes. `at` may lie behind a call, or at an
    EXTENDED_ARG before the instruction."""
    steps = instructions(code)
    n = max(n for n, step in enumerate(steps) if step.offset <= at)
    while steps[n].opname == "EXTENDED_ARG":
        n += 1
    return n


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> frozenset[str]:
    """The names in a code object, and its string constants, which may be attribute names."""
    texts = frozenset(c for c in code.co_consts if type(c) is str and c.isidentifier())
    return texts.union(code.co_names, code.co_freevars, (code.co_name,))


@functools.lru_cache(maxsize=4096)
def reads_by_name(code: types.CodeType) -> bool:
    """True if code may read attributes whose names do not stand in it."""
    if not _READS_ANY_NAME.isdisjoint(code.co_names):
        return True
    return not _ATTRIBUTE_LOOKUPS.isdisjoint(code.co_names) and any(
        step.argval in _ATTRIBUTE_LOOKUPS and not (step.opname in _GLOBAL_LOADS
                                                   and _names_constant(code, n))
        for n, step in enumerate(instructions(code)) if step.opname != "LOAD_CONST")


def _names_constant(code: types.CodeType, function: int) -> bool:
    """True if the function that instruction number `function` loads is called with a constant
    attribute name as its second argument."""
    depth, producers = 0, dict[int, dis.Instruction]()  # of operands above the function
    for step in instructions(code)[function + 1:]:
        if step.opname in _CALLS and step.arg == depth:
            return depth > 1 and producers[2].opname == "LOAD_CONST" \
                and _is_name(producers[2].argval)
        argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        before, depth = depth, depth + dis.stack_effect(step.opcode, argument)
        if depth < 1 or is_jump(step):
            return False
        producers.update(dict.fromkeys(range(min(before, depth - 1) + 1, depth + 1), step))
    return False


def is_callee(code: types.CodeType, load: int) -> bool:
    """True if instruction number `load` loads a function that CALL_FUNCTION calls (Python 3.10).

    False if a jump stands among the arguments.
    """
    depth = 0  # operands above the function
    for step in instructions(code)[load + 1:]:
        argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        if step.opname in _CALLS_310 and argument == depth - _CALLS_310[step.opname]:
            return True
        depth += dis.stack_effect(step.opcode, argument)
        if depth < 1 or is_jump(step):
            return False
    return False


def _is_name(value: Any) -> bool:
    """True if a constant is a name that `names_of` finds and that reads one attribute only."""
    return type(value) is str and value.isidentifier() \
        and value not in _ATTRIBUTE_LOOKUPS | _READS_ANY_NAME


def is_jump(step: dis.Instruction) -> bool:
    """True if an instruction may jump."""
    return step.opcode in dis.hasjrel or step.opcode in dis.hasjabs


_GLOBAL_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")
_CALLS = ("PRECALL" if "PRECALL" in dis.opmap else "CALL", "CALL_FUNCTION")
_CALLS_310 = {"CALL_FUNCTION": 0, "CALL_FUNCTION_KW": 1}  # operands besides the arguments
_ATTRIBUTE_LOOKUPS = {"getattr", "hasattr"}
_READS_ANY_NAME = {"vars", "dir", "attrgetter", "__dict__"}
