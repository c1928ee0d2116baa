"""Bytecode, taken apart once for each code object: that is slow, and every recording asks."""

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
def number_at(code: types.CodeType, at: int) -> int:
    """Which of the instructions a frame stands at: in a call that may be behind it, and at the
    upper bits of its argument before it."""
    steps = instructions(code)
    n = max(n for n, step in enumerate(steps) if step.offset <= at)
    while steps[n].opname == "EXTENDED_ARG":
        n += 1
    return n


@functools.lru_cache(maxsize=4096)
def globals_of(code: types.CodeType) -> frozenset[str]:
    """The names that a code object reads as globals."""
    return frozenset(i.argval for i in instructions(code) if i.opname in _GLOBALS)


@functools.lru_cache(maxsize=4096)
def imports_of(code: types.CodeType) -> frozenset[str]:
    """The modules that a code object imports itself, and the packages that these lie in."""
    named = {i.argval for i in instructions(code) if i.opname == "IMPORT_NAME"}
    return frozenset(named.union(name.partition(".")[0] for name in named))


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> frozenset[str]:
    """The names in a code object, and its texts, which may be names of attributes as well."""
    texts = frozenset(c for c in code.co_consts if type(c) is str and c.isidentifier())
    return texts.union(code.co_names, code.co_freevars, (code.co_name,))


@functools.lru_cache(maxsize=4096)
def reads_by_name(code: types.CodeType) -> bool:
    """Whether code may read attributes whose names do not stand in it."""
    if not _ALL_NAMES.isdisjoint(code.co_names):
        return True
    return not _BY_NAME.isdisjoint(code.co_names) and any(
        step.argval in _BY_NAME and not (step.opname in _GLOBALS and _names_constant(code, n))
        for n, step in enumerate(instructions(code)) if step.opname != "LOAD_CONST")


def _names_constant(code: types.CodeType, function: int) -> bool:
    """Whether the function that instruction number `function` loads is called, and its second
    argument is a text in the code."""
    depth, made = 0, dict[int, dis.Instruction]()  # above the function: what made each operand
    for step in instructions(code)[function + 1:]:
        if step.opname in _CALLS and step.arg == depth:
            return depth > 1 and made[2].opname == "LOAD_CONST" and _is_name(made[2].argval)
        argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        before, depth = depth, depth + dis.stack_effect(step.opcode, argument)
        if depth < 1 or is_jump(step):
            return False
        made.update(dict.fromkeys(range(min(before, depth - 1) + 1, depth + 1), step))
    return False


def _is_name(value: Any) -> bool:
    """Whether a constant is a text that `names_of` finds, and reads nothing but what it names."""
    return type(value) is str and value.isidentifier() and value not in _BY_NAME | _ALL_NAMES


def is_jump(step: dis.Instruction) -> bool:
    """Whether code may go on elsewhere after an instruction."""
    return step.opcode in dis.hasjrel or step.opcode in dis.hasjabs


_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
_CALLS = ("PRECALL" if "PRECALL" in dis.opmap else "CALL", "CALL_FUNCTION")
_BY_NAME = {"getattr", "hasattr"}
_ALL_NAMES = {"vars", "dir", "attrgetter", "__dict__"}
