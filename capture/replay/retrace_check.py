"""Compares a replay with a new trace of the same call in Python.

The replay only computes, then Python runs the function for real, noting it once more. Equal calls
give the same nodes, so what was recorded and what happens now can be compared without tolerance.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from ...eager.core.tensor import Tensor
from ...eager.errors import CheckError
from ..control_flow.decision import Decision
from ..graph.graph import SPECIAL, topological
from ..heap.object_recipes import (
    BuiltContainer,
    NumberOf,
    PassedTensor,
    RebuiltObject,
    Recipe,
    SameObject,
    UserObject,
)
from ..program.cfg import Exit
from ..program.trace_exit import TraceExit
from .differential_check import interval
from .trace import Trace, record
from .trace_tree import TraceTree

_CURE = ("this is a bug in fusewire: please report it with the function; until then, remove "
         "@fw.compile out of it")
_REL, _ABS = 1e-3, 1e-6  # how far numbers may be apart that follow from computed tensors


def is_due(check: str | float | None, program: TraceTree) -> bool:
    """True if `check` asks to compare this replay."""
    if check is None or sys.getprofile() is not None:  # recording needs the profiler's place
        return False
    every = interval(check)
    return program.uses % every == 0 if every else any(x.uses == 0 for x in program.leaves())


def rerun(program: TraceTree, args: Any, kwargs: Any, name: str) -> Any:
    """The result of `program.run`, with Python's side effects. CheckError if the two differ."""
    held = 2 * program.arrays(args, kwargs)  # what is held is not written over
    found: list[tuple[TraceExit, Any]] = []
    result = program.run(args, kwargs, lambda leaf, result: found.append((leaf, result)))
    del held
    if not found:
        return result
    run = record(program.fn, args, kwargs, program.names, program.varying)
    why = _disagreement(program, *found[0], run)
    if why:
        raise CheckError(f"{name}: the recording differs from what Python does: {why}", _CURE)
    return run.result


def _disagreement(program: TraceTree, leaf: TraceExit, result: Any, run: Trace) -> str:
    """A message that says where a replay and a trace of the same call differ, or ""."""
    if run.leaf is None:
        return f"it could not be retraced: {run.refusal}"
    place, left = program.part(run.path)
    if place is None:
        return f"Python takes different branches ({_questions(run)})"
    if left or not isinstance(place, Exit) or leaf not in place.exits:
        return ""  # it took another way: a value on the edge, as `check` has seen to
    return _other_nodes(leaf, run.leaf) or _other_changes(leaf, run.leaf) or \
        ("" if _same_made(leaf.result, run.leaf.result) else _other_result(result, run.result))


def _questions(run: Trace) -> str:
    sites = [d.site for d in run.path if isinstance(d, Decision)]
    return ", ".join(sites) or "none"


def _other_nodes(recorded: TraceExit, now: TraceExit) -> str:
    if recorded.formulas != now.formulas:
        return "it computes different numbers"
    if all(a is b for a, b in zip(recorded.outputs, now.outputs)) and \
            len(recorded.outputs) == len(now.outputs):
        return ""
    known = set(topological(recorded.outputs))
    new = [n for n in topological(now.outputs) if n not in known and n.op not in SPECIAL]
    return f"{new[0].op} at {new[0].site or 'a line of fusewire'} is not in the recording" \
        if new else "it returns or stores different values"


def _other_changes(recorded: TraceExit, now: TraceExit) -> str:
    before, after = ([e.target for e in leaf.effects] for leaf in (recorded, now))
    if before == after:
        return ""
    changed = [str(p) for p in {*before} ^ {*after}] or ["objects in a different order"]
    return f"it changes {', '.join(sorted(changed))}"


def _same_made(recorded: Recipe, now: Recipe) -> bool:
    """Whether two templates make equal results of equal values: numbers by the same formulas, which
    rounding may give other values, and the same constants."""
    before, after = list(_parts(recorded)), list(_parts(now))
    return len(before) == len(after) and all(map(_same_part, before, after))


def _parts(make: Recipe) -> Iterator[Recipe]:
    """The templates in a template that hold no others, in their order."""
    if isinstance(make, RebuiltObject):
        yield from _parts(make.make)
    elif isinstance(make, (BuiltContainer, UserObject)):
        yield SameObject(make.kind if isinstance(make, BuiltContainer) else make.cls)
        for part in make.parts if isinstance(make, BuiltContainer) else make.fields.values():
            yield from _parts(part)
    else:
        yield make


def _same_part(recorded: Recipe, now: Recipe) -> bool:
    if isinstance(recorded, NumberOf) and isinstance(now, NumberOf):
        return recorded.formula == now.formula
    if isinstance(recorded, SameObject) and isinstance(now, SameObject):
        a, b = recorded.value, now.value
        return a is b or (type(a) is type(b) and isinstance(a, (str, int, float)) and a == b)
    if isinstance(recorded, PassedTensor) and isinstance(now, PassedTensor):
        return recorded.number == now.number
    return False


def _other_result(replayed: Any, now: Any) -> str:
    """Compares everything but the values of tensors, whose nodes were compared."""
    if type(replayed) is not type(now):
        return f"it returns {now!r:.60} instead of {replayed!r:.60}"
    if isinstance(now, Tensor):
        return ""
    if isinstance(now, (list, tuple)) and len(now) == len(replayed):
        return next(filter(None, map(_other_result, replayed, now)), "")
    if isinstance(now, dict) and now.keys() == replayed.keys():
        return next(filter(None, (_other_result(replayed[k], now[k]) for k in now)), "")
    if isinstance(now, float):
        same = math.isclose(replayed, now, rel_tol=_REL, abs_tol=_ABS) or \
            (math.isnan(now) and math.isnan(replayed))
    else:
        same = replayed is now or bool(replayed == now)
    return "" if same else f"it returns {now!r:.60} instead of {replayed!r:.60}"
