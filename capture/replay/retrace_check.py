"""Compares a replay with a new trace of the same call in Python.

The replay computes without side effects. Then Python runs the function with them and traces it
again. Equal calls give the same nodes, so the two traces are compared without tolerance.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from ...eager.core.tensor import Tensor
from ...eager.errors import CheckError
from ..cfg.trace_exit import TraceExit
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
from .differential_check import interval
from .trace_call import Trace, record
from .trace_tree import TraceTree

_HELP = ("this is a bug in fusewire: please report it with the function; until then, remove "
         "@fw.compile out of it")
# For numbers that follow from computed tensors.
_RELATIVE_TOLERANCE, _ABSOLUTE_TOLERANCE = 1e-3, 1e-6


def is_due(check: str | float | None, program: TraceTree) -> bool:
    """True if `check` asks to compare this replay."""
    if check is None or sys.getprofile() is not None:  # tracing needs the profiler hook
        return False
    every = interval(check)
    return program.uses % every == 0 if every else any(x.uses == 0 for x in program.exits())


def rerun(program: TraceTree, args: Any, kwargs: Any, name: str) -> Any:
    """The result of `program.run`, with Python's side effects. CheckError if the two differ."""
    held = 2 * program.arrays(args, kwargs)  # arrays with another reference are not overwritten
    replays: list[tuple[TraceExit, Any]] = []
    result = program.run(args, kwargs,
                         lambda trace_exit, result: replays.append((trace_exit, result)))
    del held
    if not replays:
        return result
    trace = record(program.fn, args, kwargs, program.names, program.varying,
                   program.merges.copy())
    why = _disagreement(program, *replays[0], trace)
    if why:
        raise CheckError(f"{name}: the recording differs from what Python does: {why}", _HELP)
    return trace.result


def _disagreement(program: TraceTree, trace_exit: TraceExit, result: Any, trace: Trace) -> str:
    """A message that says where a replay and a trace of the same call differ, or ""."""
    if trace.exit is None:
        return f"it could not be retraced: {trace.refusal}"
    if trace.merge_failed:
        return ""  # its paths merge in fewer places than those of the program
    if program.rules != program.names.rules:  # learnt later, as that a loop has to be unrolled
        return _result_difference(result, trace.result)
    block, rest = program.part(trace.path)
    if block is None:
        return f"Python takes different branches ({_branch_sites(trace)})"
    if rest or trace_exit not in block.exits:
        return ""  # rounding near a threshold chose another path
    return _node_difference(trace_exit, trace.exit) \
        or _effect_difference(trace_exit, trace.exit) \
        or ("" if _same_recipe(trace_exit.result, trace.exit.result) else
            _result_difference(result, trace.result))


def _branch_sites(trace: Trace) -> str:
    sites = [d.site for d in trace.path if isinstance(d, Decision)]
    return ", ".join(sites) or "none"


def _node_difference(traced: TraceExit, now: TraceExit) -> str:
    if traced.formulas != now.formulas:
        return "it computes different numbers"
    if all(a is b for a, b in zip(traced.outputs, now.outputs)) and \
            len(traced.outputs) == len(now.outputs):
        return ""
    traced_nodes = set(topological(traced.outputs))
    new = [n for n in topological(now.outputs) if n not in traced_nodes and n.op not in SPECIAL]
    return f"{new[0].op} at {new[0].site or 'a line of fusewire'} is not in the recording" \
        if new else "it returns or stores different values"


def _effect_difference(traced: TraceExit, now: TraceExit) -> str:
    before, after = ([e.target for e in trace_exit.effects] for trace_exit in (traced, now))
    if before == after:
        return ""
    changed = [str(p) for p in {*before} ^ {*after}] or ["objects in a different order"]
    return f"it changes {', '.join(sorted(changed))}"


def _same_recipe(traced: Recipe, now: Recipe) -> bool:
    """True if two recipes build equal results from equal values.

    Numbers must have the same formulas, and constants must be equal. Rounding may change the values
    of numbers.
    """
    before, after = list(_parts(traced)), list(_parts(now))
    return len(before) == len(after) and all(map(_same_part, before, after))


def _parts(make: Recipe) -> Iterator[Recipe]:
    """The innermost recipes of a recipe, in order."""
    if isinstance(make, RebuiltObject):
        yield from _parts(make.make)
    elif isinstance(make, (BuiltContainer, UserObject)):
        yield SameObject(make.kind if isinstance(make, BuiltContainer) else make.cls)
        for part in make.parts if isinstance(make, BuiltContainer) else make.fields.values():
            yield from _parts(part)
    else:
        yield make


def _same_part(traced: Recipe, now: Recipe) -> bool:
    if isinstance(traced, NumberOf) and isinstance(now, NumberOf):
        return traced.formula == now.formula
    if isinstance(traced, SameObject) and isinstance(now, SameObject):
        a, b = traced.value, now.value
        return a is b or (type(a) is type(b) and isinstance(a, (str, int, float)) and a == b)
    if isinstance(traced, PassedTensor) and isinstance(now, PassedTensor):
        return traced.number == now.number
    return False


def _result_difference(replayed: Any, now: Any) -> str:
    """A message that says where two results differ, or "".

    It skips the values of tensors, since their nodes have been compared.
    """
    if type(replayed) is not type(now):
        return f"it returns {now!r:.60} instead of {replayed!r:.60}"
    if isinstance(now, Tensor):
        return ""
    if isinstance(now, (list, tuple)) and len(now) == len(replayed):
        return next(filter(None, map(_result_difference, replayed, now)), "")
    if isinstance(now, dict) and now.keys() == replayed.keys():
        return next(filter(None, (_result_difference(replayed[k], now[k]) for k in now)), "")
    if isinstance(now, float):
        same = math.isclose(
            replayed, now, rel_tol=_RELATIVE_TOLERANCE, abs_tol=_ABSOLUTE_TOLERANCE) or \
            (math.isnan(now) and math.isnan(replayed))
    else:
        same = replayed is now or bool(replayed == now)
    return "" if same else f"it returns {now!r:.60} instead of {replayed!r:.60}"
