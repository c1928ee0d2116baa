"""How a function runs that cannot be recorded: Python on each call, its ops in compiled pieces."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from ...eager import interpreter
from ...eager.fork_safety import held_while_forking
from ...eager.uninterrupted import Uninterrupted
from ..graph.graph import Graph
from ..lazy.array import LazyOp
from ..lazy.interpreter import LazyInterpreter
from ..lazy.op_signature import OpSignatures
from .subgraph import TOO_DEEP, Subgraph, SubgraphCode, SubgraphTrace

_COMPILING = held_while_forking(threading.RLock())


class GraphBreakRunner:
    """The pieces of one function. Calls may come from several threads at once."""

    REMEMBERED = 256  # structures; one not met for longest makes room
    PROGRAMS = 64  # compiled at most; a function with more changes too often to compile for

    def __init__(self, backend: Callable[[Graph], Any]) -> None:
        self._backend = backend
        self._results = OpSignatures()
        self._pieces: OrderedDict[Any, Subgraph] = OrderedDict()
        self._longest = 512  # steps of a piece: beyond, compiling takes more than its share
        self._settled = False  # whether the last call met nothing new
        self.compiled = 0  # programs made
        self.replays = 0  # pieces run by their programs
        self.evaluations = 0  # pieces run op by op
        self.compile_seconds = 0.0
        self.boundaries: Counter[str] = Counter()  # why a piece ended before the function, by line
        self.uncompiled: Counter[str] = Counter()  # why a piece was not compiled

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """fn(*args, **kwargs), its ops in pieces."""
        if interpreter.STATE.active is not None:
            return fn(*args, **kwargs)
        new = self.evaluations
        deferring = LazyInterpreter(self._results, self._arrays, self._boundary, self._longest,
                                    not self._settled)
        with Uninterrupted() as section:
            try:
                interpreter.STATE.active = deferring
                section.open = True
                return fn(*args, **kwargs)
            finally:
                section.open = False
                interpreter.STATE.active = None
                deferring.end()
                self._settled = new == self.evaluations
                self._results.trim(self._pieces)

    def _boundary(self, why: str) -> None:
        self.boundaries[why] += 1

    def _arrays(self, steps: list[LazyOp], wanted: list[LazyOp]) -> list[Any]:
        """The arrays of `wanted`, computed by the subgraph's code or else op by op."""
        trace = SubgraphTrace(steps, wanted)
        code = self._code(trace)
        if code is None:
            self.evaluations += 1
            return trace.values()
        self.replays += 1
        return code.run(trace)

    def _code(self, trace: SubgraphTrace) -> SubgraphCode | None:
        """The code for this structure and these numbers, compiled when they are met again."""
        numbers = trace.exact_numbers()
        with _COMPILING:
            piece = self._pieces.get(trace.key)
            if piece is None:
                self._pieces[trace.key] = Subgraph(numbers)
                if len(self._pieces) > self.REMEMBERED:
                    self._pieces.popitem(last=False)
                return None
            self._pieces.move_to_end(trace.key)
            piece.look()
            code = piece.code_for(numbers)
            if code is None and not piece.why_not:
                self._compile(piece, trace)
            if piece.why_not:
                self.uncompiled[piece.why_not] += 1
            return piece.code

    def _compile(self, piece: Subgraph, trace: SubgraphTrace) -> None:
        if self.compiled >= self.PROGRAMS:
            piece.why_not = f"{self.PROGRAMS} subgraphs have been compiled, which is the limit"
            return
        start = time.perf_counter()
        piece.compile(trace, self._backend)
        self.compile_seconds += time.perf_counter() - start
        self.compiled += piece.code is not None
        if piece.why_not == TOO_DEEP:
            self._longest = max(16, self._longest // 2)
