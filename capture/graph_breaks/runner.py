"""Runs a function that cannot be traced whole: Python runs each call, subgraphs compute its ops."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ...eager import interpreter
from ...eager.fork_safety import held_while_forking
from ...eager.uninterrupted import Uninterrupted
from ..graph.graph import Graph
from ..lazy.lazy_array import LazyOp
from ..lazy.lazy_interpreter import LazyInterpreter
from ..lazy.op_signature import OpSignatures
from ..runtime.specialization_cache import Specializations
from .mode_choice import ModeChoices
from .subgraph import TOO_DEEP, Subgraph, SubgraphCode, SubgraphTrace

_MOST_TAKEN = 32  # calls at a time that run eagerly without any measurement
_COMPILING = held_while_forking(threading.RLock())


class GraphBreakRunner:
    """The subgraphs of one function. Several threads may call it at once."""

    PROGRAMS = 64  # the limit of compilations: a function with more changes too often

    def __init__(self, backend: Callable[[Graph], Any]) -> None:
        self._backend = backend
        self._results = OpSignatures()
        self._subgraphs: Specializations[Subgraph] = Specializations("subgraphs")
        self._max_ops = 512  # ops per subgraph: larger ones take too long to compile
        self._settled = False  # True if the last call met no new subgraph
        self._choices = ModeChoices()
        self.eager_calls = 0  # calls without subgraphs, since these take longer
        self.compiled = 0  # compiled subgraphs
        self.replays = 0  # subgraphs run by compiled code
        self.evaluations = 0  # subgraphs run op by op
        self.compiled_ops = self.eager_ops = 0  # ops that compiled code and eager have run
        self.compile_seconds = 0.0
        self.boundaries: Counter[str] = Counter()  # counts by the reason that ended a subgraph
        self.uncompiled: Counter[str] = Counter()  # counts by the reason that prevented compilation

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns fn(*args, **kwargs), with its ops run as subgraphs if that is faster."""
        if interpreter.STATE.active is not None:
            return fn(*args, **kwargs)
        choice = self._choices.of(args, kwargs)
        is_eager, start = choice.next_mode(), time.perf_counter()
        if is_eager:
            self.eager_calls += 1
            result = fn(*args, **kwargs)
        else:
            result = self._run_as_subgraphs(fn, args, kwargs)
        choice.note(time.perf_counter() - start, is_eager or self._settled)
        return result

    def take_eager_calls(self) -> int:
        """The number of calls that need not ask this object, since they run eagerly anyway."""
        taken = self._choices.take_eager_calls(_MOST_TAKEN)
        self.eager_calls += taken
        return taken

    def _run_as_subgraphs(self, fn: Callable[..., Any], args: tuple[Any, ...],
                          kwargs: dict[str, Any]) -> Any:
        evaluations_before = self.evaluations
        lazy_interpreter = LazyInterpreter(self._results, self._arrays, self._boundary,
                                           self._max_ops, not self._settled)
        with Uninterrupted() as section:
            try:
                interpreter.STATE.active = lazy_interpreter
                section.open = True
                return fn(*args, **kwargs)
            finally:
                section.open = False
                interpreter.STATE.active = None
                lazy_interpreter.end()
                self.eager_ops += lazy_interpreter.eager_ops
                self._settled = evaluations_before == self.evaluations

    def codes(self) -> list[SubgraphCode]:
        """The code of each subgraph that has been compiled."""
        return [subgraph.code for subgraph in self._subgraphs.values()
                if subgraph.code is not None]

    def _boundary(self, why: str) -> None:
        self.boundaries[why] += 1

    def _arrays(self, steps: list[LazyOp], outputs: list[LazyOp]) -> list[Any]:
        """The arrays of `outputs`, computed by the subgraph's code or, without code, op by op."""
        trace = SubgraphTrace(steps, outputs)
        code = self._code(trace)
        if code is None:
            self.evaluations += 1
            self.eager_ops += len(steps)
            return trace.values()
        self.replays += 1
        self.compiled_ops += len(steps)
        return code.run(trace)

    def _code(self, trace: SubgraphTrace) -> SubgraphCode | None:
        """The code for a traced subgraph, or None. A subgraph is compiled when it occurs again."""
        numbers = trace.exact_numbers()
        with _COMPILING:
            subgraph: Subgraph | None = self._subgraphs.find(trace.key)
            if subgraph is None:
                self._subgraphs.add(trace.key, Subgraph(numbers))
                return None
            subgraph.look()
            code = subgraph.code_for(numbers)
            if code is None and not subgraph.why_not:
                self._compile(subgraph, trace)
            if subgraph.why_not:
                self.uncompiled[subgraph.why_not] += 1
            return subgraph.code

    def _compile(self, subgraph: Subgraph, trace: SubgraphTrace) -> None:
        if self.compiled >= self.PROGRAMS:
            subgraph.why_not = f"{self.PROGRAMS} subgraphs have been compiled, which is the limit"
            return
        start = time.perf_counter()
        subgraph.compile(trace, self._backend)
        self.compile_seconds += time.perf_counter() - start
        self.compiled += subgraph.code is not None
        if subgraph.why_not == TOO_DEEP:
            self._max_ops = max(16, self._max_ops // 2)
