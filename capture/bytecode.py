"""Bytecode, taken apart once for each code object: that is slow, and every recording asks."""

from __future__ import annotations

import dis
import functools
import types


@functools.lru_cache(maxsize=512)
def instructions(code: types.CodeType) -> tuple[dis.Instruction, ...]:
    """The instructions of a code object, as `dis` gives them."""
    return tuple(dis.get_instructions(code))


@functools.lru_cache(maxsize=4096)
def globals_of(code: types.CodeType) -> frozenset[str]:
    """The names that a code object reads as globals."""
    return frozenset(i.argval for i in instructions(code) if i.opname in _GLOBALS)


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> frozenset[str]:
    """The names in a code object, and its texts, which may be names of attributes as well."""
    texts = frozenset(c for c in code.co_consts if type(c) is str and c.isidentifier())
    return texts.union(code.co_names, code.co_freevars, (code.co_name,))


_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
