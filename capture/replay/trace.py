"""Recording one call: the function runs as eager does, and what it did becomes a leaf."""

from __future__ import annotations

import os
import sys
import types
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ...eager import interpreter
from ...eager.ops.random.generator import default_generator
from ...eager.uninterrupted import Uninterrupted
from ..autodiff.backward import find_backward
from ..control_flow.operand_stack import tells_symbols_apart
from ..guards.guards import find_guards, find_read_values
from ..guards.missing_attributes import find_missing_attributes
from ..heap.access_path import Path
from ..heap.code_tracker import PAUSES, CodeTracker
from ..heap.grad_hook_guards import computes_gradients
from ..heap.introspection import is_users
from ..heap.path_reader import PathReader
from ..heap.snapshot import HeapSnapshot
from ..program.cfg import Element
from ..program.error_checks import find_checks
from ..program.trace_exit import TraceExit
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
    """What came of recording one call: its result, and the way it took or why there is none."""

    def __init__(self, result: Any, path: Sequence[Element], leaf: TraceExit | None, refusal: str,
                 varying: DynamicInputs, again: bool = False,
                 late: DeferredOutputs | None = None) -> None:
        self.late = late  # what it has not computed
        self.result, self.path, self.leaf, self.refusal = result, path, leaf, refusal
        self.varying = varying
        self.again = again  # whether a further call can be recorded all the same

    def end(self) -> None:
        """Computes what was not computed so far."""
        if self.late is not None:
            self.late.end()


def record(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
           names: ValueTable | None = None, varying: DynamicInputs | None = None) -> Trace:
    """Runs fn(*args, **kwargs) as eager does and notes it, with symbols for what is varying.

    An interrupted run has changed nothing, but for what it has told the world outside.
    """
    with Uninterrupted() as section:
        return recorded(fn, args, kwargs, names, varying, section)


def recorded(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
             names: ValueTable | None, varying: DynamicInputs | None, section: Uninterrupted,
             waits: bool = False) -> Trace:
    """The same in an uninterrupted `section`, which is open while the function runs.

    With `waits`, large arrays are not computed that nobody asks for: `Run.late` is to do so.
    """
    state, names, varying = HeapSnapshot(), names or ValueTable(), varying or DynamicInputs()
    read = PathReader(args, kwargs, fn, names.held)
    sizes = names.sizes
    sizes.begin(varying.sizes(read))
    recorder = Tracer(state, len(args), tuple(kwargs), names, sizes, varying)
    late = DeferredOutputs(recorder) if waits else None

    def entered(code: types.CodeType, scope: dict[str, Any]) -> None:
        names.held[id(scope)] = scope
        state.walk_code(code, scope)
        if is_users(scope.get("__name__")) and tells_symbols_apart(code):
            recorder.disable_symbolic_scalars()

    for i, arg in enumerate(args):
        state.walk(Path("args").item(i), arg)
    for key, arg in kwargs.items():
        state.walk(Path("kwargs").item(key), arg)
    state.walk(Path("function"), fn)
    names.held[id(default_generator)] = default_generator
    state.walk(Path("object", id(default_generator)).attr("state"), default_generator.state)
    hook, before = CodeTracker(entered, recorder.refuse), interpreter.STATE.active
    recorder.unwatched = hook if PAUSES else recorder.unwatched
    widening = Symbolizer(varying.numbers, args, kwargs, recorder, read)

    def stop() -> None:
        interpreter.STATE.active, recorder.listening, sizes.live = before, False, False

    try:
        recorder.symbolized, recorder.loops.base = widening.install(), sys._getframe()
        interpreter.STATE.active, sizes.live = recorder, True
        hook.start()
        section.open = True
        result = fn(*widening.args, **widening.kwargs)
        section.open = False
        for finish in (hook.stop, stop, widening.uninstall):
            finish()
        for path in widening.written:
            state.mark_written(path)
        leaf, recorder.computed_gradients = None, computes_gradients(hook.seen)
        if not recorder.refusal:
            leaf = _finish(fn, recorder, None if hook.any_attribute else hook.names, result)
        _leave(recorder, late)
        result = concretize(state, result)
    except BaseException as error:
        section.open = False
        undoes = not isinstance(error, Exception) and not recorder.refusal
        _surely(hook.stop, stop, widening.uninstall, lambda: concretize(state, None),
                lambda: _leave(recorder, late), late.end if late is not None else stop,
                lambda: restore(state) if undoes else None)
        raise
    return Trace(result, recorder.path, leaf, recorder.refusal, varying, recorder.can_retry, late)


def _leave(recorder: Tracer, late: DeferredOutputs | None) -> None:
    """The run has ended."""
    if late is not None:
        late.leave()
    recorder.end()


def _surely(*steps: Callable[[], Any]) -> None:
    """Runs all of these; one in which Ctrl-C comes is begun again, so each must allow for that."""
    for step in steps:
        try:
            step()
        except KeyboardInterrupt:
            step()


def _finish(fn: Callable[..., Any], recorder: Tracer, names: set[str] | None,
            result: Any) -> TraceExit | None:
    recorder.location = defined_at(fn)
    find_append_only(recorder)
    outputs = OutputSpecBuilder(recorder)
    template = outputs.recipe(result)
    effects = find_effects(recorder, outputs) + find_tape_effects(recorder, outputs)
    way = find_backward(recorder, outputs)
    checks = find_checks(recorder, [*outputs.nodes, *(way.saved if way else ())])
    wanted = find_read_values(recorder, names)
    guards = [*find_guards(recorder, wanted, names),
              *find_missing_attributes(recorder.state, wanted)]
    if recorder.refusal:
        return None
    recorder.results = [tensor for _, tensor in outputs.tensors]
    holders = Counter(e.node for e in effects)  # what several tensors hold, none may overwrite
    donated = {e.node: recorder.sources[e.target] for e in effects
               if e.node is not None and holders[e.node] == 1 and e.target in recorder.sources
               and _same_type(recorder, outputs, e)}
    return TraceExit(guards, effects, template, outputs.finish(donated),
                     recorder.sources.values(), way,
                     checks)


def defined_at(fn: Any) -> str:
    """`file.py:line` where a function is defined, or an empty text."""
    code = getattr(fn, "__code__", None) or getattr(type(fn).__call__, "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else ""


def _same_type(recorder: Tracer, outputs: OutputSpecBuilder, effect: SideEffect) -> bool:
    assert effect.node is not None
    return recorder.sources[effect.target].type == outputs.nodes[effect.node].type
