"""Takes away from a failing program whatever it fails without."""

from __future__ import annotations

import ast
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from .writing import Program


def shrink(program: Program, fails: Callable[[Program], bool], attempts: int = 1500,
           seconds: float = math.inf) -> Program:
    """A smallest program, as far as so many attempts and seconds find one, that still fails."""
    passed = 0  # smaller programs that were tried since the last one that failed
    end = time.monotonic() + seconds
    while attempts > 0 and time.monotonic() < end:
        for number, smaller in enumerate(_smaller(program)):
            if number < passed:
                continue
            attempts -= 1
            if _still(fails, smaller):
                program, passed = smaller, number
                break
            if attempts <= 0 or time.monotonic() > end:
                return program
        else:
            if passed == 0:
                return program
            passed = 0  # what was needed before may not be needed any more
    return program


def _still(fails: Callable[[Program], bool], program: Program) -> bool:
    try:
        return fails(program)
    except Exception:  # it is no program any more
        return False


def _smaller(program: Program) -> Iterator[Program]:
    for n in reversed(range(len(program.calls))):
        yield dataclasses.replace(program, calls=program.calls[:n] + program.calls[n + 1:])
    for source in _without(program.source):
        yield dataclasses.replace(program, source=source)
    for n, call in enumerate(program.calls):
        lines = call.split("\n")
        for i in range(len(lines) - 1):
            text = "\n".join(lines[:i] + lines[i + 1:])
            yield dataclasses.replace(
                program, calls=(*program.calls[:n], text, *program.calls[n + 1:]))


def _without(source: str) -> Iterator[str]:
    """The source without one of its statements or levels, then with a part for an expression."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    for node in nodes:
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield from _fewer_statements(tree, value)
    for node in nodes:
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                yield from _parts_for(tree, value, lambda new, n=node, f=name: setattr(n, f, new))
            elif isinstance(value, list):
                for i, each in enumerate(value):
                    if isinstance(each, ast.expr):
                        yield from _parts_for(
                            tree, each, lambda new, v=value, i=i: v.__setitem__(i, new))


def _fewer_statements(tree: ast.Module, body: list[Any]) -> Iterator[str]:
    original = list(body)
    for i, statement in reversed(list(enumerate(original))):  # users before what they use
        inner = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        inner += [handler.body for handler in getattr(statement, "handlers", [])]
        inner += [case.body for case in getattr(statement, "cases", [])]
        levels = [] if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else inner
        for instead in ([], *filter(None, levels)):
            body[:] = [*original[:i], *instead, *original[i + 1:]] or [ast.Pass()]
            yield ast.unparse(tree)
            body[:] = original


def _parts_for(tree: ast.Module, value: ast.expr, put: Callable[[Any], None]) -> Iterator[str]:
    for part in ast.iter_child_nodes(value):
        if isinstance(part, ast.expr):
            put(part)
            yield ast.unparse(tree)
            put(value)
