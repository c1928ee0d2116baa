"""Traces one call: the function runs eagerly, and its ops and effects form a path."""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ...eager import interpreter
from ...eager.ops.random.generator import default_generator
from ...eager.ordered_calls import start_again
from ...eager.uninterrupted import Uninterrupted
from ..autodiff.backward_plan import find_backward
from ..cfg.error_checks import find_checks
from ..cfg.ir import Element
from ..cfg.trace_exit import TraceExit
from ..control_flow.branch_merging import BranchMerger
from ..control_flow.growing_list import ListChanged
from ..control_flow.merge_table import MAX_FAILURES, MergeTable
from ..control_flow.possible_aliases import compares_identities
from ..control_flow.symbolic_builtins import with_symbolic_builtins
from ..guards.guards import find_guards, find_read_values
from ..guards.layouts import find_base_guards, find_layout_guards
from ..guards.missing_attributes import find_missing_attributes
from ..heap.access_path import Path
from ..heap.code_tracker import PAUSES, CodeTracker
from ..heap.grad_hook_guards import computes_gradients
from ..heap.introspection import is_users
from ..heap.operand_stack import tells_symbols_apart
from ..heap.path_reader import PathReader
from ..heap.snapshot import HeapSnapshot
from ..reads.read_follower import ReadFollower
from ..trace.append_only import find_append_only
from ..trace.concretize import concretize
from ..trace.dynamic_inputs import DynamicInputs
from ..trace.output_spec import OutputSpecBuilder
from ..trace.side_effects import SideEffect, find_effects, find_tape_effects
from ..trace.state_restore import restore
from ..trace.symbolize import Symbolizer
from ..trace.tracer import Tracer
from ..trace.value_table import ValueTable
from .deferred_outputs import DeferredOutputs


class Trace:
    """The trace of one call: its result, and its path or the reason that prevents a replay."""

    def __init__(self, result: Any, path: Sequence[Element], trace_exit: TraceExit | None,
                 refusal: str, varying: DynamicInputs, again: bool = False,
                 late: DeferredOutputs | None = None, merges: MergeTable | None = None,
                 merge_failed: bool = False) -> None:
        self.late = late  # the outputs that are not computed yet
        self.merges = MergeTable() if merges is None else merges
        self.merge_failed = merge_failed  # the paths of its program merge otherwise than assumed
        self.result, self.path, self.exit, self.refusal = result, path, trace_exit, refusal
        self.varying = varying
        self.again = again  # True if a further call can be traced despite the refusal

    def end(self) -> None:
        """Computes the remaining deferred outputs."""
        if self.late is not None:
            self.late.end()


class _SymbolRejected(Exception):
    """A run with symbols has raised a TypeError, and its changes are undone. C code accepts no
    symbol where it tests for exact ints and floats, as `json.dumps` does."""


def record(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
           names: ValueTable | None = None, varying: DynamicInputs | None = None,
           merges: MergeTable | None = None) -> Trace:
    """Runs fn(*args, **kwargs) eagerly and returns its trace, with symbols for dynamic inputs.

    An interrupted run leaves no changes, except for external effects such as printed text.
    """
    with Uninterrupted() as section:
        return recorded(fn, args, kwargs, names, varying, section, merges=merges)


def recorded(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
             names: ValueTable | None, varying: DynamicInputs | None, section: Uninterrupted,
             waits: bool = False, merges: MergeTable | None = None) -> Trace:
    """Traces a call within an uninterrupted `section`, which is open while the function runs.

    With `waits`, large arrays stay uncomputed until Python reads them. `Trace.late` computes them.
    `merges` are those of the program that the trace may be added to.
    """
    names, merges = names or ValueTable(), MergeTable() if merges is None else merges
    with contextlib.suppress(ListChanged):
        return _without_rejected_symbols(fn, args, kwargs, names, varying, section, waits, merges)
    return _without_rejected_symbols(fn, args, kwargs, names, varying, section, waits, merges)


def _without_rejected_symbols(fn: Callable[..., Any], args: tuple[Any, ...],
                              kwargs: dict[str, Any], names: ValueTable,
                              varying: DynamicInputs | None, section: Uninterrupted, waits: bool,
                              merges: MergeTable) -> Trace:
    """A trace of a call. If code rejects a symbol, the call is traced with plain numbers."""
    with contextlib.suppress(_SymbolRejected):
        return _trace_once(fn, args, kwargs, names, varying or DynamicInputs(), section, waits,
                           merges)
    names.symbolic_scalars = False
    return _trace_once(fn, args, kwargs, names, DynamicInputs(), section, waits, merges)


def _trace_once(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                names: ValueTable, varying: DynamicInputs, section: Uninterrupted, waits: bool,
                merges: MergeTable) -> Trace:
    state = HeapSnapshot()
    read = PathReader(args, kwargs, fn, names.held)
    reads = ReadFollower(state, with_symbolic_builtins)
    sizes = names.sizes
    start_again()
    sizes.begin(varying.sizes(read))
    tracer = Tracer(state, len(args), tuple(kwargs), names, sizes, varying)
    if merges.hints.failures < MAX_FAILURES:
        tracer.merger = BranchMerger(tracer, merges, all_merge=False)
    late = DeferredOutputs(tracer) if waits else None
    tracker = CodeTracker(_code_listener(tracer, reads), tracer.refuse, tracer.note_import)
    previous = interpreter.STATE.active
    tracer.unwatched = tracker if PAUSES else tracer.unwatched
    symbolizer = Symbolizer(varying.numbers, args, kwargs, tracer, read)

    def stop() -> None:
        interpreter.STATE.active, tracer.listening, sizes.live = previous, False, False

    try:
        reads.begin(fn, args, kwargs)
        names.held[id(default_generator)] = default_generator
        state.walk(Path("object", id(default_generator)).attr("state"), default_generator.state)
        tracer.symbolized, tracer.loops.base = symbolizer.install(), sys._getframe()
        interpreter.STATE.active, sizes.live = tracer, True
        tracer.begin_effects()
        tracker.start()
        section.open = True
        result = fn(*symbolizer.args, **symbolizer.kwargs)
        tracer.loops.lists.check()
        section.open = False
        for finish in (tracker.stop, tracer.end_effects, stop, symbolizer.uninstall):
            finish()
        reads.end()
        for path in symbolizer.written:
            state.mark_written(path)
        tracer.end_branches()
        trace_exit, tracer.computed_gradients = None, computes_gradients(tracker.seen)
        if not tracer.refusal:
            trace_exit = _finish(fn, tracer, result)
        actual = tracer.aliases.end()
        _detach(tracer, late)
        result = concretize(state, result, actual)
    except BaseException as error:
        section.open = False
        again = _reason_to_trace_again(error, tracer)
        must_restore = again is not None or (
            not isinstance(error, Exception) and not tracer.refusal)
        _run_all(tracker.stop, tracer.end_effects, stop, reads.end, symbolizer.uninstall,
                 lambda: concretize(state, None, tracer.aliases.end()),
                 lambda: _detach(tracer, late), late.end if late is not None else stop,
                 lambda: restore(state) if must_restore else None)
        if again is not None:
            raise again from error
        raise
    return Trace(result, tracer.path, trace_exit, tracer.refusal, varying, tracer.can_retry, late,
                 merges, tracer.merge_failed)


def _reason_to_trace_again(error: BaseException, tracer: Tracer) -> type[BaseException] | None:
    """The exception after which a call is undone and traced again; None if an error is the
    user's."""
    if tracer.loops.lists.is_changed:
        return ListChanged
    rejected = isinstance(error, TypeError) and tracer.has_symbols and not tracer.refusal
    return _SymbolRejected if rejected else None


def _code_listener(tracer: Tracer, reads: ReadFollower
                   ) -> Callable[[types.CodeType, dict[str, Any]], None]:
    """A function that is called before code runs for the first time, with its globals."""

    def entered(code: types.CodeType, scope: dict[str, Any]) -> None:
        tracer.names.held[id(scope)] = scope
        if not tracer.refusal or tracer.has_symbols:  # without symbols nothing is left to undo
            reads.enter(code, scope)
        tracer.enter_scope(code, scope)
        if not is_users(scope.get("__name__")):
            return
        if tells_symbols_apart(code):
            tracer.disable_symbolic_scalars()
        if compares_identities(code):
            tracer.note_identity_test()

    return entered


def _detach(tracer: Tracer, late: DeferredOutputs | None) -> None:
    """Detaches the tracer from a run that has ended."""
    if late is not None:
        late.leave()
    tracer.end()


def _run_all(*steps: Callable[[], Any]) -> None:
    """Runs all steps. A step that Ctrl-C interrupts runs again, so each must allow a second run."""
    for step in steps:
        try:
            step()
        except KeyboardInterrupt:
            step()


def _finish(fn: Callable[..., Any], tracer: Tracer, result: Any) -> TraceExit | None:
    tracer.location = defined_at(fn)
    tracer.state.note_unchanged_parts()
    find_append_only(tracer)
    outputs = OutputSpecBuilder(tracer)
    recipe = outputs.recipe(result)
    effects = find_effects(tracer, outputs) + find_tape_effects(tracer, outputs)
    tracer.loops.lists.check_results([tensor for _, tensor in outputs.tensors])
    outputs.resolve_views()
    backward = find_backward(tracer, outputs)
    checks = find_checks(tracer, [*outputs.nodes, *(backward.saved if backward else ())])
    read_values = find_read_values(tracer)
    guards = [*find_guards(tracer, read_values), *find_layout_guards(tracer, outputs.nodes),
              *find_base_guards(tracer, effects),
              *find_missing_attributes(tracer.state, read_values)]
    if tracer.refusal:
        return None
    tracer.results = [tensor for _, tensor in outputs.tensors]
    holders = Counter(e.node for e in effects)  # no tensor may overwrite an array that several hold
    donated = {e.node: tracer.sources[e.target] for e in effects
               if e.node is not None and holders[e.node] == 1 and e.target in tracer.sources
               and _same_type(tracer, outputs, e)}
    return TraceExit(guards, effects, recipe, outputs.finish(donated),
                     tracer.sources.values(), backward,
                     checks)


def defined_at(fn: Any) -> str:
    """`file.py:line` where a function is defined, or an empty text."""
    code = getattr(fn, "__code__", None) or getattr(type(fn).__call__, "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else ""


def _same_type(tracer: Tracer, outputs: OutputSpecBuilder, effect: SideEffect) -> bool:
    assert effect.node is not None
    return tracer.sources[effect.target].type == outputs.nodes[effect.node].type
