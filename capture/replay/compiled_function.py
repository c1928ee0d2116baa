"""The compiled function: it traces its calls and replays the traces."""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ...eager import interpreter
from ...eager.errors import CaptureError, CodegenError
from ...eager.fork_safety import held_while_forking, in_child
from ...eager.ordered_calls import one_call, start_again
from ...eager.settings import settings
from ...eager.tracebacks import without_inner_frames
from ...eager.uninterrupted import Uninterrupted
from ...eager.upper_layer import UPPER
from ..cfg.trace_exit import TraceExit
from ..control_flow.merge_table import MergeTable
from ..graph.bind_sizes import has_symbols
from ..graph.graph import Graph
from ..graph_breaks.runner import GraphBreakRunner
from ..heap.path_reader import PathReader
from ..runtime import debug, profiling_spans
from ..runtime.compile_queue import Jobs, Meanwhile
from ..runtime.gc_pause import not_collecting
from ..runtime.metrics import Costs, making
from ..runtime.warnings import CaptureWarning as CaptureWarning
from ..runtime.warnings import warn
from ..segments.segment import Backend, Executable
from ..trace.dynamic_inputs import DynamicInputs, SpecializationHistory
from ..trace.dynamic_spec import Dynamic, requested_axes
from ..trace.value_table import ValueTable
from .inspection_api import Inspection
from .replay import NOT_TRACED
from .retrace_check import is_due, rerun
from .trace_call import Trace, defined_at, recorded
from .trace_tree import TraceTree, crowded

ATTEMPTS = 4  # failed traces before further calls run with graph breaks
MISSES = 32  # calls that fit no program before it is asked whether programs pay
LIMIT = 64  # programs per function; the least used one is evicted


@dataclass
class Stats:
    """Counts of a compiled function's calls, and its compile time and memory."""

    recordings: int = 0
    replays: int = 0
    fallbacks: int = 0
    subgraphs: int = 0  # compiled, between the graph breaks
    compiled_ops: int = 0  # ops that compiled subgraphs have run, over all calls with graph breaks
    eager_ops: int = 0  # and ops that ran one by one in these calls
    compile_seconds: float = 0.0
    peak_bytes: int = 0  # of one call, by the largest program
    costs: Costs = field(default_factory=Costs)


MERGES_DIFFER = "the paths of a branch differ in more values, where they merge, than the traces " \
    "before showed"
_ALL: weakref.WeakSet[Compiled] = weakref.WeakSet()
_COUNTING = held_while_forking(threading.RLock())


@runtime_checkable
class Grows(Protocol):
    """An executable that compiles more code during calls, for sizes that repeat."""

    spent: Callable[[float, Costs, int], None]  # receives the time and the costs
    jobs: Jobs | None  # run the compilation; None: calls wait for it


@in_child
def _unlock() -> None:
    """Replaces the locks in a forked process, since their owners are gone."""
    for function in _ALL:
        function._lock = threading.RLock()


class Compiled(Inspection):
    """A function that is traced on its first call and replayed while its guards hold."""

    __name__: str
    __qualname__: str
    stats: Stats

    __captured__ = ("original",)  # the attributes that a trace of a caller depends on

    def __init__(self, fn: Callable[..., Any], backend: Backend, fullgraph: bool = False,
                 check: str | float | None = None, dynamic: Dynamic = None,
                 meanwhile: Backend | None = None) -> None:
        """With `meanwhile`, calls do not wait for `backend`.

        The background thread compiles the graph. Until then calls run the executable of
        `meanwhile`, which is ready at once.
        """
        functools.update_wrapper(self, fn)
        if not hasattr(fn, "__name__"):  # a functools.partial, an object with `__call__`
            self.__name__ = self.__qualname__ = _name_of(fn)
        self.original, self.backend, self.meanwhile = fn, backend, meanwhile
        self.fullgraph, self.check, self.dynamic = fullgraph, check, dynamic
        self.programs: list[TraceTree] = []
        self.names, self.history = ValueTable(), SpecializationHistory(dynamic)
        self.graph_breaks, self.jobs = GraphBreakRunner(self._compile), Jobs()
        self.merges = MergeTable()  # what earlier programs have learnt about merges
        self.refusals: dict[str, int] = {}
        self._gave_up = False  # True after ATTEMPTS refusals: further calls are not traced
        self._eager_ahead = 0  # calls that run eagerly, as trials have decided
        self._missed = self._replays_before = 0  # calls without a program, and replays before them
        self.misses: list[str] = []
        self.stats = Stats()
        self._is_ordered = False  # True once a program had ordered ops
        self._line = defined_at(fn)
        self._lock = threading.RLock()
        _ALL.add(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return Compiled(copy.deepcopy(self.original, memo), self.backend, self.fullgraph,
                        self.check, self.dynamic, self.meanwhile)

    def __reduce__(self) -> Any:
        module = sys.modules.get(self.__module__)
        if getattr(module, self.__qualname__, None) is self:
            return self.__qualname__  # a decorated function is pickled by its name
        return Compiled, (self.original, self.backend, self.fullgraph, self.check,
                          self.dynamic, self.meanwhile)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._eager_ahead > 0:
            self._eager_ahead -= 1
            self.stats.fallbacks += 1
            return self.original(*args, **kwargs)
        if (interpreter.in_use and interpreter.STATE.active is not None) or not settings.compile:
            return self.original(*args, **kwargs)
        try:
            if self.check is None and not profiling_spans.on:
                if self._is_ordered:
                    return self._call_ordered(args, kwargs)
                for program in self.programs:
                    result = program.direct(args, kwargs)
                    if result is not NOT_TRACED:
                        self.stats.replays += 1
                        return result
            return self._slow_call(args, kwargs)
        except Exception as error:
            raise without_inner_frames(error)  # noqa: B904 it is the same

    def _call_ordered(self, args: Any, kwargs: Any) -> Any:
        """The result of a call with ordered ops. They happen once, also where a fast path issues
        some and gives up."""
        with one_call():
            for program in self.programs:
                result = program.direct(args, kwargs)
                if result is not NOT_TRACED:
                    self.stats.replays += 1
                    return result
            start_again()
            return self._slow_call(args, kwargs)

    def _slow_call(self, args: Any, kwargs: Any) -> Any:
        """The result of a call for which no fast path was found."""
        if self._gave_up and self.check is None and not profiling_spans.on:
            with one_call():
                result = self._replay(args, kwargs)
                return self._run_with_graph_breaks(args, kwargs) if result is NOT_TRACED \
                    else result
        with profiling_spans.span("call", self.__name__, self._line), one_call():
            result = self._replay(args, kwargs)
            if result is not NOT_TRACED:
                return result
            with self._lock:  # another thread may have traced this call by now
                result = self._replay(args, kwargs)
                return self._record(args, kwargs) if result is NOT_TRACED else result

    def _replay(self, args: Any, kwargs: Any) -> Any:
        for program in self.programs:
            version = program.version
            if program.fits(args, kwargs):
                result = self._run(program, version, args, kwargs)
                if result is not NOT_TRACED:
                    self.stats.replays += 1
                    return result
        return NOT_TRACED

    def _run(self, program: TraceTree, version: int, args: Any, kwargs: Any) -> Any:
        """The result of a program whose guards hold in this version of its tree. NOT_TRACED after a
        warning if no code can be generated for it."""
        try:
            if is_due(self.check, program):
                with self._lock:  # it traces
                    return NOT_TRACED if program.has_changed(version) else \
                        rerun(program, args, kwargs, self.__name__)
            return program.run(args, kwargs, version=version)
        except CodegenError as error:
            if program in self.programs:  # else another thread has reported the error
                self.programs = [p for p in self.programs if p is not program]
                self._refuse(error.message)
            return NOT_TRACED

    def _compile(self, graph: Graph) -> Executable:
        if self.meanwhile is None or has_symbols(graph):
            with self._lock, not_collecting():
                return self._make(graph)
        return Meanwhile(self.meanwhile(graph), self.jobs.begin(lambda: self._make(graph)))

    def _make(self, graph: Graph) -> Executable:
        """Compiles a graph in this thread and returns its code."""
        start, costs = time.perf_counter(), Costs()
        try:
            with making(self.__name__, costs):
                executable = self.backend(graph)
        finally:
            self._count_costs(time.perf_counter() - start, costs)
        self._count_costs(0.0, Costs(), executable.memory.peak)
        if isinstance(executable, Grows):  # it compiles more code during later calls
            executable.spent = self._count_costs
            executable.jobs = None if self.meanwhile is None else self.jobs
        debug.show_code(self.__name__, executable)
        return executable

    def _count_costs(self, seconds: float, costs: Costs, peak: int = 0) -> None:
        """Adds compile time and costs to the statistics, and updates the peak memory of a call."""
        with _COUNTING:
            self.stats.compile_seconds += seconds
            self.stats.costs.add(costs)
            self.stats.peak_bytes = max(self.stats.peak_bytes, peak)

    def _record(self, args: Any, kwargs: Any) -> Any:
        if self._gave_up:
            return self._run_with_graph_breaks(args, kwargs)
        if sys.getprofile() is not None:
            why = "a profiler is active, and recording needs the profiler hook"
            if self.fullgraph:
                raise self._graph_break_error(why)
            self._warn(why)
            return self._run_with_graph_breaks(args, kwargs)
        fitting = [p for p in self.programs if p.fits(args, kwargs)]
        varying = self._dynamic_inputs(args, kwargs)
        unmet = fitting[0].unmet(args, kwargs) if fitting else {}
        if not fitting and self.programs:
            self._note_recompilation(f"guard failed: {self.programs[0].cause(args, kwargs)}")
        if self._traces_too_often():
            self.programs = []
            self._refuse(f"it recompiles on most calls (first: {self.misses[0]})", for_good=True)
            return self._run_with_graph_breaks(args, kwargs)
        began = time.perf_counter()
        with Uninterrupted() as section:
            with profiling_spans.span("recording", self.__name__), not_collecting():
                trace = recorded(self.original, args, kwargs, self.names, varying, section,
                                 waits=self.meanwhile is None and self.check is None,
                                 merges=fitting[0].merges if fitting else self.merges.learnt())
            self.stats.costs.recording += time.perf_counter() - began
            try:
                section.open = True
                return self._add_trace(trace, fitting, unmet)
            finally:
                section.open = False
                trace.end()

    def _add_trace(self, trace: Trace, fitting: list[TraceTree], unmet: dict[TraceExit, str]
                   ) -> Any:
        """Returns the result of a traced call. Adds a trace that can be replayed."""
        why = trace.refusal if trace.again else MERGES_DIFFER
        if trace.merge_failed:
            self._drop_merged_programs(trace)
            fitting = []
        if trace.merge_failed or trace.again:
            self._note_recompilation(why)
        if trace.again:
            self.stats.fallbacks += 1
            return trace.result
        refusal = trace.refusal or crowded(trace, fitting)
        if trace.exit is None or refusal:
            self.stats.fallbacks += 1
            self._refuse(refusal)
            return trace.result
        self.stats.recordings += 1
        if fitting:
            self._note_recompilation(fitting[0].news(trace, unmet))
        self._add_to_programs(trace, fitting)
        debug.show(debug.RECORDINGS, f"{self.__name__} is recorded, {self.stats.recordings} so far")
        return trace.result

    def _traces_too_often(self) -> bool:
        """True if most calls needed a new trace."""
        return self.stats.recordings >= LIMIT > self.stats.replays

    def _add_to_programs(self, trace: Trace, fitting: list[TraceTree]) -> None:
        """Adds a trace to a program that has its entry guards, or makes a new program of it."""
        program = self._grafted(trace, fitting)
        if program is None and not any(p.contradicted for p in fitting):
            program = self._new_program(trace)
        if program is None or program.contradicted:
            self._stop_merging(trace)
            return
        self._is_ordered = self._is_ordered or program.is_ordered
        if self.meanwhile is not None:
            with contextlib.suppress(CodegenError):  # the next call raises it again
                for segment in program.segments():
                    segment.compile()
        elif trace.late is not None and trace.exit is not None:
            trace.late.compute_by(trace.exit)

    def _stop_merging(self, trace: Trace) -> None:
        """Drops the programs that share the merges of a trace, since paths differ behind them."""
        plans = trace.merges.plans
        trace.merges.hints.unmergeable.update(key for key in plans if plans[key] is not None)
        self._drop_merged_programs(trace)
        self._note_recompilation(MERGES_DIFFER)

    def _drop_merged_programs(self, trace: Trace) -> None:
        """Drops the programs that share the merges of a trace, whose hints hold for later ones."""
        self.merges = trace.merges
        self.merges.hints.failures += 1
        self.programs = [p for p in self.programs if p.merges is not trace.merges]

    def _grafted(self, trace: Trace, fitting: list[TraceTree]) -> TraceTree | None:
        """The program that has added a trace to its tree, or None."""
        for program in fitting:
            try:
                if program.varying == trace.varying and program.graft(trace):
                    return program
            except BaseException:  # Ctrl-C may leave it half changed
                self.programs = [p for p in self.programs if p is not program]
                raise
        return None

    def _new_program(self, trace: Trace) -> TraceTree:
        if len(self.programs) >= LIMIT:
            self.programs.remove(min(self.programs, key=lambda p: p.uses))
        if any(p.merges is trace.merges for p in self.programs):
            trace.merges = trace.merges.copy()  # merges of one program do not hold in another
        with not_collecting():
            program = TraceTree(self.original, self.names, trace, self._compile)
        self.programs = [program, *self.programs]
        return program

    def _dynamic_inputs(self, args: Any, kwargs: Any) -> DynamicInputs:
        """The numbers and sizes that have differed between calls."""
        if self.dynamic and not self.programs:
            self.history.begin(requested_axes(self.dynamic, self.original, args, kwargs))
        for program in self.programs:
            if program.differs_only(args, kwargs, self.history):
                break
        return self.history.inputs_of_call(PathReader(args, kwargs, self.original, self.names.held),
                                           self.names.symbolic_scalars)

    def _run_with_graph_breaks(self, args: Any, kwargs: Any) -> Any:
        if self.fullgraph:
            raise self._graph_break_error(next(iter(self.refusals)))
        stats, breaks = self.stats, self.graph_breaks
        stats.fallbacks += 1
        start_again()
        try:
            return breaks.run(self.original, args, kwargs)
        finally:
            stats.subgraphs, stats.compiled_ops, stats.eager_ops = \
                breaks.compiled, breaks.compiled_ops, breaks.eager_ops
            if self._gave_up:
                self._note_miss()

    def _note_miss(self) -> None:
        """Drops the programs of a function that has given up if most calls fit none of them: each
        call would evaluate their guards."""
        self._missed += 1
        if self.programs and self._missed >= MISSES:
            if self._missed > self.stats.replays - self._replays_before:
                self.programs = []
            self._missed, self._replays_before = 0, self.stats.replays
        if not self.programs and not profiling_spans.on:
            self._eager_ahead = self.graph_breaks.take_eager_calls()

    def _note_recompilation(self, why: str) -> None:
        """Stores and shows the reason of a recompilation."""
        self.misses.append(why)
        debug.show(debug.RECORDINGS, f"{self.__name__} recompiles, {why}")

    def _refuse(self, why: str, for_good: bool = False) -> None:
        self.refusals[why] = self.refusals.get(why, 0) + 1
        self._gave_up = for_good or sum(self.refusals.values()) >= ATTEMPTS
        debug.show(debug.RECORDINGS, self._graph_break(why))
        if self.fullgraph:
            raise self._graph_break_error(why)
        if self.refusals[why] == 1:
            self._warn(why)

    def _graph_break_error(self, why: str) -> CaptureError:
        return CaptureError(f"{self.__name__} cannot be compiled without a graph break: {why}")

    def _warn(self, why: str) -> None:
        warn(self._graph_break(why))

    def _graph_break(self, why: str) -> str:
        return f"{self.__name__}: graph break, its operations run as separate compiled " \
            f"subgraphs: {why}"

    def save(self, path: Any) -> None:
        """Writes all traces to a file that `fw.load_compiled` runs without the source.

        The file holds the code, the guards, and the state that the function reads beside its
        arguments. See docs/how_to/deploy/saved_programs.md.

        Args:
            path: path of the file. An existing file is replaced.

        Raises:
            ExportError: the function has no traces, has a graph break, reads an object that cannot
                be rebuilt without its source, or was compiled with `check`.

        Example:
            >>> import fusewire as fw, os, tempfile
            >>> double = fw.compile(lambda x: 2 * x)
            >>> double(fw.ones(2))
            tensor([2., 2.])
            >>> path = os.path.join(tempfile.mkdtemp(), "double.fw")
            >>> double.save(path)
            >>> fw.load_compiled(path)(fw.ones(2))
            tensor([2., 2.])
        """
        assert UPPER.save is not None
        UPPER.save(self, path)

    def wait(self) -> None:
        """Waits until the background thread has compiled all code (`background=True`)."""
        self.jobs.wait()

    def clear(self) -> None:
        """Deletes all traces, refusals and counts."""
        self.programs, self.names, self.merges = [], ValueTable(), MergeTable()
        self.history = SpecializationHistory(self.dynamic)
        self.graph_breaks, self.jobs = GraphBreakRunner(self._compile), Jobs()
        self.refusals.clear()
        self._gave_up, self._eager_ahead, self._missed, self._replays_before = False, 0, 0, 0
        self.misses.clear()
        self.stats = Stats()


def _name_of(fn: Any) -> str:
    """The name of a callable; of a partial, that of its function."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__name__", type(fn).__name__))
