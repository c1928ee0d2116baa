"""A graph as native programs and calls of a library between them.

A call runs an op as eager does, so that for what has no code the values are those of eager.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ...capture.graph.graph import SPECIAL, Graph, Node
from ...capture.graph.reference_interpreter import evaluate_node
from ...capture.passes.bounds_checks import BoundsCheck, extract_checks
from ...capture.passes.decompose import decompose_composites
from ...capture.runtime import spans
from ...capture.runtime.metrics import Memory, phase
from ...eager.core.dispatch import evaluate
from ...eager.core.op import OPS
from ...eager.core.tensor import Tensor
from ...eager.errors import CodegenError, FusewireError, MemoryShortage
from ..ir.target_info import Machine
from ..program.kernel_stats import bytes_of, kernel_table
from ..select.lowering_table import CPU, LoweringTable
from .partition import GraphPart, LibraryCall, Step, only_shows, partition
from .support import why_no_code

Run = Callable[[list[Any]], Sequence[Any]]
Made = TypeVar("Made")


class NativePart(Protocol):
    """What a part is compiled to."""

    def __call__(self, arrays: list[Any]) -> list[Any]: ...
    def rows(self, repeats: int = 7) -> list[dict[str, Any]]: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def code(self) -> str: ...
    @property
    def assembly(self) -> str: ...


def compile_hybrid(graph: Graph, native: Callable[[GraphPart], NativePart],
                   kinds: LoweringTable = CPU
                  ) -> HybridExecutable:
    """The graph with everything compiled by `native`, as `kinds`, that it can compile."""
    ready, steps, programs, checks = made_in_parts(graph, native, kinds)
    return HybridExecutable(ready, steps, programs, checks, len(graph.outputs))


def made_in_parts(graph: Graph, native: Callable[[GraphPart], Made], kinds: LoweringTable
                  ) -> tuple[Graph, list[Step], list[Made | None], list[BoundsCheck]]:
    """The graph as it is cut, its steps with what `native` makes of those that are parts, and the
    checks of its values. A part that `native` refuses by a CodegenError is cut again."""
    with phase("passes"):
        opened = decompose_composites(graph, lambda node: not (
            why_no_code(node) or kinds.has_kernel(node, Machine())))
        ready, checks = extract_checks(opened)
    checked = {n for c in checks if (n := ready.outputs[c.output]).op != "input"}
    refused: dict[Node, str] = {}
    while True:
        steps = list(partition(ready, refused, checked, kinds.runs))
        programs: list[Made | None] = []
        for step in steps:
            try:
                programs.append(native(step) if isinstance(step, GraphPart) else None)
            except MemoryShortage:
                raise
            except CodegenError as error:
                assert isinstance(step, GraphPart)
                refused |= dict.fromkeys(_without_code(step) or step.members, error.message)
                break
        else:
            return ready, steps, programs, checks


def _without_code(part: GraphPart) -> list[Node]:
    """The nodes of a part that some back ends have kernels for: others refuse it for these."""
    return [n for n in part.members if why_no_code(n)]


def call_by_call(graph: Graph) -> HybridExecutable:
    """The graph without any code: op by op, in the time that eager takes."""
    steps = [LibraryCall(n, "it runs for the first time") for n in graph.nodes()
             if n.op not in SPECIAL]
    return HybridExecutable(graph, steps, [None] * len(steps), [], len(graph.outputs))


class Action(NamedTuple):
    """A step on numbered values: which it reads and makes, which nobody reads after it, and which
    have to be looked at when it is done."""

    run: Run
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    dead: tuple[int, ...]
    checks: tuple[tuple[int, BoundsCheck], ...]


class HybridExecutable:
    """Steps in order: native programs and calls. Calls may come from several threads at once."""

    def __init__(self, graph: Graph, steps: Sequence[Step], programs: Sequence[NativePart | None],
                 checks: Sequence[BoundsCheck], wanted: int) -> None:
        self.graph, self.steps, self.programs = graph, list(steps), list(programs)
        self.checks, self.wanted = list(checks), wanted
        constants = [n for n in _read(graph, steps) if n.op == "const"]
        made = [n for step in steps for n in step.makes]
        place = {n: i for i, n in enumerate([*graph.inputs, *constants, *made])}
        self._rest = [evaluate_node(n, []) for n in constants] + [None] * len(made)
        self._outputs = [place[n] for n in graph.outputs[:wanted]]
        self._values = list(place)
        looked = [(place[graph.outputs[c.output]], c) for c in _distinct(checks)]
        self._before = [(i, c) for i, c in looked if i < len(graph.inputs)]
        self._taken = _taken(steps, place)
        self._actions = _actions(steps, programs, place, looked, set(self._outputs))

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs for these inputs; IndexError for indices out of range."""
        for i, check in self._before:
            check.require(arrays[i])
        values = [*arrays, *self._rest]
        for i in self._taken:
            arrays[i] = None  # only who holds an array alone may write over it
        for action in self._actions:
            given = [values[i] for i in action.reads]
            for i in action.dead:
                values[i] = None
            for i, array in zip(action.makes, action.run(given)):
                values[i] = array
            for i, check in action.checks:
                check.require(values[i])
        return [values[i] for i in self._outputs]

    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per kernel and per call, with median times on made-up inputs. The row of a call
        has a `why`: the reason why it is no native code."""
        found: list[dict[str, Any]] = []
        for step, program in zip(self.steps, self.programs):
            if program is not None:
                found += program.rows(repeats)
            elif isinstance(step, LibraryCall):
                found.append({**_facts(step), "seconds": _seconds(step, repeats)})
        return found

    @property
    def memory(self) -> Memory:
        """What a call takes; its arena is what lies between inputs and results at the worst, with
        the arena of the program that runs then."""
        sizes = [bytes_of([n.type]) for n in self._values]
        given = set(range(len(sizes) - sum(len(a.makes) for a in self._actions)))
        outputs, results, between, worst = set(self._outputs), 0, 0, 0
        for step, program, action in zip(self.steps, self.programs, self._actions):
            inner = sum(sizes[i] for i in action.makes if i not in outputs)
            made = _made(step) if program is None else program.memory.results
            between += min(inner, made)
            results += max(made - inner, 0)
            worst = max(worst, between + (0 if program is None else program.memory.arena))
            between -= sum(sizes[i] for i in action.dead if i not in given)
        return Memory(sum(sizes[i] for i in given), results, worst)

    def explain(self) -> str:
        """Kernels and calls as a table."""
        return kernel_table([{**row, "line": f"{row['line']}  {row['why']}".strip()}
                             if "why" in row else row for row in self.rows()])

    @property
    def code(self) -> str:
        """The LLVM IR of the programs, with a comment for each call."""
        return self._text(lambda program: program.code)

    @property
    def assembly(self) -> str:
        """The machine code of the programs as text, with a comment for each call."""
        return self._text(lambda program: program.assembly)

    def _text(self, of: Callable[[NativePart], str]) -> str:
        return "\n".join(of(p) if p is not None else f"; {comment(s)}"
                         for s, p in zip(self.steps, self.programs))


def _distinct(checks: Sequence[BoundsCheck]) -> list[BoundsCheck]:
    """The first check of each value against each size."""
    return list({(c.output, c.low, c.size): c for c in reversed(checks)}.values())[::-1]


def _read(graph: Graph, steps: Sequence[Step]) -> list[Node]:
    """Everything that steps read or that is an output, once."""
    return list(dict.fromkeys([n for step in steps for n in step.reads] + list(graph.outputs)))


def _taken(steps: Sequence[Step], place: Mapping[Node, int]) -> list[int]:
    """The inputs that a part may write over."""
    return [place[step.reads[i]] for step in steps if isinstance(step, GraphPart)
            for i in step.graph.donated.values()]


def _actions(
    steps: Sequence[Step], programs: Sequence[NativePart | None], place: Mapping[Node, int],
    looked: Sequence[tuple[int, BoundsCheck]], outputs: set[int],
) -> list[Action]:
    """The steps with the places of their values, and what they let go."""
    found: list[Action] = []
    kept = set(outputs)
    for step, program in zip(reversed(steps), reversed(programs)):
        reads, makes = ([place[n] for n in nodes] for nodes in (step.reads, step.makes))
        checks = tuple((i, c) for i, c in looked if i in makes)
        dead = tuple(i for i in dict.fromkeys(reads) if i not in kept)
        run: Run = program if program is not None else _caller(step)
        found.append(Action(run, tuple(reads), tuple(makes), dead, checks))
        kept |= set(reads)
    return found[::-1]


def _caller(step: Step) -> Run:
    """One op on arrays, as eager runs it."""
    assert isinstance(step, LibraryCall)
    op, params, facts = OPS[step.node.op], dict(step.node.params), _facts(step)

    def run(arrays: list[Any]) -> Sequence[Any]:
        return (evaluate(op, tuple([Tensor(a) for a in arrays]), params)._data,)

    def watched(arrays: list[Any]) -> Sequence[Any]:
        with spans.Span("kernel", facts["name"], facts["line"], facts):
            return run(arrays)

    return lambda arrays: (watched if spans.on else run)(arrays)


# ---- insight
def _name(call: LibraryCall) -> str:
    return f"call of {call.node.op}"


def comment(step: Step) -> str:
    """What a call does in the place of code, by line, and why."""
    assert isinstance(step, LibraryCall)
    return f"{_name(step)} {step.node.site}: {step.why}"


def _facts(call: LibraryCall) -> dict[str, Any]:
    """The row of a call without its time; how fast it could be is not known."""
    node = call.node
    moved = bytes_of([n.type for n in (node, *node.inputs)])
    return {"name": _name(call), "line": node.site, "bytes": moved, "flops": 0,
            "tasks": 1, "limit": 0.0, "why": call.why}


def _made(step: Step) -> int:
    """Bytes that are new after a call."""
    return bytes_of(n.type for n in step.makes if not only_shows(n))


def _seconds(call: LibraryCall, repeats: int) -> float:
    """The median time of a call on made-up inputs; 0 where it refuses them."""
    arrays = [evaluate_node(n, []) if n.op == "const" else
              (np.zeros if n.type.dtype.kind in "iu" else np.ones)(n.type.shape, n.type.dtype)
              for n in call.reads]
    run, times = _caller(call), []
    for _ in range(repeats):
        start = time.perf_counter()
        try:
            run(list(arrays))
        except FusewireError:
            return 0.0
        times.append(time.perf_counter() - start)
    return statistics.median(times)
