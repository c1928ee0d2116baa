"""Runs a graph as native programs and library calls between them.

A library call evaluates an op as eager does, with the same values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ...capture.graph.device_placement import Placement, place
from ...capture.graph.graph import SPECIAL, Graph, Node
from ...capture.graph.reference_interpreter import evaluate_node
from ...capture.passes.attention import recognize_attention
from ...capture.passes.bounds_checks import BoundsCheck, extract_checks, may_raise
from ...capture.passes.decompose import decompose_composites
from ...capture.runtime import profiling_spans
from ...capture.runtime.metrics import Memory, phase
from ...eager.arrays.devices import CPU
from ...eager.core.dispatch import evaluate
from ...eager.core.op import OPS
from ...eager.core.tensor import Tensor
from ...eager.errors import CodegenError, FusewireError, MemoryShortage
from ..ir.target_info import Machine
from ..lowering.lowering_table import LoweringTable
from ..program.kernel_stats import bytes_of, kernel_table
from ..program.listing import plain_listing
from .partition import (
    GraphPart,
    LibraryCall,
    PartitionStep,
    indices_first,
    is_begun,
    is_free_view,
    partition,
)
from .support import why_no_code

Run = Callable[[list[Any]], Sequence[Any]]
CompiledPart = TypeVar("CompiledPart")
_REPEATS = 7  # runs of a library call, of which the median counts


class NativePart(Protocol):
    """The compiled form of a part."""

    def __call__(self, arrays: list[Any]) -> list[Any]: ...
    def rows(self, repeats: int = 7) -> list[dict[str, Any]]: ...
    def listings(self) -> list[dict[str, Any]]: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def code(self) -> str: ...
    @property
    def assembly(self) -> str: ...


# A composite stays whole here if any processor has a kernel for it: a part is compiled for one.
_WITH_ALL_INSTRUCTIONS = Machine(dot=True, dot16=True, dot8=True, matrix_unit=True)


def compile_hybrid(graph: Graph, native: Callable[[GraphPart], NativePart],
                   lowering_on: Callable[[str], LoweringTable]) -> HybridExecutable:
    """Compiles all parts of a graph that `native` can compile; lowering_on(device) tells which ops
    have kernels there."""
    ready, steps, programs, checks = compile_parts(graph, native, lowering_on)
    return HybridExecutable(ready, steps, programs, checks, len(graph.outputs))


def compile_parts(graph: Graph, native: Callable[[GraphPart], CompiledPart],
                  lowering_on: Callable[[str], LoweringTable]
                  ) -> tuple[Graph, list[PartitionStep], list[CompiledPart | None],
                             list[BoundsCheck]]:
    """The partitioned graph, its steps with the programs of its parts, and its checks. A part for
    which `native` raises CodegenError is partitioned again."""
    table_of = _tables(lowering_on)
    with phase("passes"):
        ready, checks, checked = _without_checks(graph, table_of)
    refused: dict[Node, str] = {}
    while True:
        steps = list(partition(ready, refused, checked,
                               lambda call: table_of(call).has_lowering(call)))
        programs: list[CompiledPart | None] = []
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


def checks_come_first(graph: Graph, lowering_on: Callable[[str], LoweringTable]) -> bool:
    """True if a graph overwrites inputs, such as a cache, and has to check computed indices before.
    """
    if not graph.donated or not any(n.op in OPS and may_raise(OPS[n.op]) for n in graph.nodes()):
        return False
    ready, _, checked = _without_checks(graph, _tables(lowering_on))
    return bool(indices_first(ready, checked))


def _without_checks(graph: Graph, table_of: Callable[[Node], LoweringTable]
                    ) -> tuple[Graph, list[BoundsCheck], set[Node]]:
    """The graph without composites and checks, the checks, and the computed values among those that
    are checked."""
    def has_kernel(node: Node) -> bool:
        return table_of(node).has_kernel(node, _WITH_ALL_INSTRUCTIONS)

    decomposed = decompose_composites(recognize_attention(graph, has_kernel), lambda node: not (
        why_no_code(node) or has_kernel(node)))
    ready, checks = extract_checks(decomposed)
    return ready, checks, {n for c in checks if (n := ready.outputs[c.output]).op != "input"}


def _tables(lowering_on: Callable[[str], LoweringTable]) -> Callable[[Node], LoweringTable]:
    """A function from a node to the lowering table of its device."""
    placements: dict[Node, Placement] = {}
    return lambda node: lowering_on(place(node, placements) or CPU)


def _without_code(part: GraphPart) -> list[Node]:
    """The nodes of a part that only some back ends have kernels for."""
    return [n for n in part.members if why_no_code(n)]


def op_by_op(graph: Graph) -> HybridExecutable:
    """The graph without compiled code: op by op, in the time that eager takes."""
    steps = [LibraryCall(n, "it runs for the first time") for n in graph.nodes()
             if n.op not in SPECIAL]
    return HybridExecutable(graph, steps, [None] * len(steps), [], len(graph.outputs))


class Action(NamedTuple):
    """A step on numbered values: those it reads and makes, those that are dead after it, those that
    are checked after it, and those it waits for."""

    run: Run
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    dead: tuple[int, ...]
    checks: tuple[tuple[int, BoundsCheck], ...]
    awaits: tuple[int, ...]


class HybridExecutable:
    """Steps in order: native programs and library calls. Several threads may call it at once."""

    def __init__(self, graph: Graph, steps: Sequence[PartitionStep],
                 programs: Sequence[NativePart | None],
                 checks: Sequence[BoundsCheck], wanted: int) -> None:
        self.graph, self.steps, self.programs = graph, list(steps), list(programs)
        self.checks, self.output_count = list(checks), wanted
        constants = [n for n in _values_read(graph, steps) if n.op == "const"]
        computed = [n for step in steps for n in step.makes]
        value_numbers = {n: i for i, n in enumerate([*graph.inputs, *constants, *computed])}
        self._initial_values = [evaluate_node(n, []) for n in constants] + [None] * len(computed)
        self._outputs = [value_numbers[n] for n in graph.outputs[:wanted]]
        self._values = list(value_numbers)
        numbered_checks = [(value_numbers[graph.outputs[c.output]], c) for c in _distinct(checks)]
        self._input_checks = [(i, c) for i, c in numbered_checks if i < len(graph.inputs)]
        self._donated = _donated_inputs(steps, value_numbers)
        self._actions, self._awaited = _actions(steps, programs, value_numbers, numbered_checks,
                                                set(self._outputs))

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs for these inputs. Raises IndexError for indices out of range."""
        for i, check in self._input_checks:
            check.require(arrays[i])
        values = [*arrays, *self._initial_values]
        for i in self._donated:
            arrays[i] = None  # only who holds an array alone may write over it
        for action in self._actions:
            for i in action.awaits:
                values[i] = values[i].result()
            operands = [values[i] for i in action.reads]
            for i in action.dead:
                values[i] = None
            for i, array in zip(action.makes, action.run(operands)):
                values[i] = array
            for i, check in action.checks:
                check.require(values[i])
        for i in self._awaited:
            if values[i] is not None:  # else nobody reads it
                values[i] = values[i].result()
        return [values[i] for i in self._outputs]

    def rows(self, repeats: int = _REPEATS) -> list[dict[str, Any]]:
        """A row per kernel and per library call, with median times on made-up inputs. The row of a
        call has a `why`: the reason why it has no native code."""
        rows: list[dict[str, Any]] = []
        for step, program in zip(self.steps, self.programs):
            if program is not None:
                rows += program.rows(repeats)
            elif isinstance(step, LibraryCall):
                rows.append({**_call_row(step), "seconds": _seconds(step, repeats)})
        return rows

    def listings(self) -> list[dict[str, Any]]:
        """The programs and library calls as plain data, in the order in which they run."""
        listings: list[dict[str, Any]] = []
        for step, program in zip(self.steps, self.programs):
            if program is not None:
                listings += program.listings()
            elif isinstance(step, LibraryCall):
                row = {**_call_row(step), "seconds": _seconds(step, _REPEATS)}
                listings.append(plain_listing([row], title=f"library call of {step.node.op}"))
        return listings

    @property
    def memory(self) -> Memory:
        """The memory of a call; its arena is the peak of intermediate values together with the
        arena of the running program."""
        sizes = [bytes_of([n.type]) for n in self._values]
        inputs = set(range(len(sizes) - sum(len(a.makes) for a in self._actions)))
        outputs, results, between, worst = set(self._outputs), 0, 0, 0
        for step, program, action in zip(self.steps, self.programs, self._actions):
            inner = sum(sizes[i] for i in action.makes if i not in outputs)
            allocated = _allocated_bytes(step) if program is None else program.memory.results
            between += min(inner, allocated)
            results += max(allocated - inner, 0)
            worst = max(worst, between + (0 if program is None else program.memory.arena))
            between -= sum(sizes[i] for i in action.dead if i not in inputs)
        return Memory(sum(sizes[i] for i in inputs), results, worst)

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


def _values_read(graph: Graph, steps: Sequence[PartitionStep]) -> list[Node]:
    """All nodes that are read by a step or are outputs, once each."""
    return list(dict.fromkeys([n for step in steps for n in step.reads] + list(graph.outputs)))


def _donated_inputs(steps: Sequence[PartitionStep], value_numbers: Mapping[Node, int]) -> list[int]:
    """The numbers of the inputs that a part may overwrite."""
    return [value_numbers[step.reads[i]] for step in steps if isinstance(step, GraphPart)
            for i in step.graph.donated.values()]


def _actions(
    steps: Sequence[PartitionStep], programs: Sequence[NativePart | None],
    value_numbers: Mapping[Node, int],
    numbered_checks: Sequence[tuple[int, BoundsCheck]], outputs: set[int],
) -> tuple[list[Action], list[int]]:
    """The steps with the numbers of their values and of those that die, and the results of begun
    calls that no step waits for."""
    actions: list[Action] = []
    live, begun = set(outputs), _begun_values(steps, value_numbers)
    for step, program in zip(steps, programs):
        reads, makes = ([value_numbers[n] for n in nodes] for nodes in (step.reads, step.makes))
        checks = tuple((i, c) for i, c in numbered_checks if i in makes)
        awaits = tuple(n for n in dict.fromkeys(_values_needed(step, reads)) if n in begun)
        begun.difference_update(awaits)
        actions.append(Action(program if program is not None else _library_runner(step),
                              tuple(reads), tuple(makes), (), checks, awaits))
    for i, action in reversed(list(enumerate(actions))):
        dead = tuple(n for n in dict.fromkeys(action.reads) if n not in live)
        actions[i] = action._replace(dead=dead)
        live |= set(action.reads)
    return actions, sorted(begun)


def _begun_values(steps: Sequence[PartitionStep], value_numbers: Mapping[Node, int]) -> set[int]:
    """The numbers of values that are not there when their step has run."""
    return {value_numbers[step.node] for step in steps
            if isinstance(step, LibraryCall) and is_begun(step.node)}


def _values_needed(step: PartitionStep, reads: Sequence[int]) -> Sequence[int]:
    """The values that must be there when a step runs: of the other ordered op that an ordered one
    comes after, it does not read the result."""
    return reads[:1] if isinstance(step, LibraryCall) and _is_ordered(step.node) else reads


def _is_ordered(node: Node) -> bool:
    return node.op in OPS and OPS[node.op].ordered


def _library_runner(step: PartitionStep) -> Run:
    """A function that evaluates one op on arrays, as eager does."""
    assert isinstance(step, LibraryCall)
    op, params, facts = OPS[step.node.op], dict(step.node.params), _call_row(step)

    def run(arrays: list[Any]) -> Sequence[Any]:
        if is_begun(step.node):
            assert op.begin is not None
            return (op.begin(arrays[0], **params),)
        read = arrays[:1] if op.ordered else arrays
        return (evaluate(op, tuple([Tensor(a) for a in read]), params)._data,)

    def watched(arrays: list[Any]) -> Sequence[Any]:
        with profiling_spans.Span("kernel", facts["name"], facts["line"], facts):
            return run(arrays)

    return lambda arrays: (watched if profiling_spans.on else run)(arrays)


# ---- insight
def _name(call: LibraryCall) -> str:
    return f"call of {call.node.op}"


def comment(step: PartitionStep) -> str:
    """The text that stands for a library call in a listing: op, line and reason."""
    assert isinstance(step, LibraryCall)
    return f"{_name(step)} {step.node.site}: {step.why}"


def _call_row(call: LibraryCall) -> dict[str, Any]:
    """The row of a library call without its time; its limit is unknown."""
    node = call.node
    moved = bytes_of([n.type for n in (node, *node.inputs)])
    return {"name": _name(call), "line": node.site, "bytes": moved, "flops": 0,
            "tasks": 1, "limit": 0.0, "why": call.why}


def _allocated_bytes(step: PartitionStep) -> int:
    """The bytes that a library call allocates."""
    return bytes_of(n.type for n in step.makes if not is_free_view(n))


def _seconds(call: LibraryCall, repeats: int) -> float:
    """The median time of a library call on made-up inputs; 0 if it refuses them, or if other
    processes would have to take part."""
    if OPS[call.node.op].ordered:
        return 0.0
    arrays = [evaluate_node(n, []) if n.op == "const" else
              (np.zeros if n.type.dtype.kind in "iu" else np.ones)(n.type.shape, n.type.dtype)
              for n in call.reads]
    run, times = _library_runner(call), []
    for _ in range(repeats):
        start = time.perf_counter()
        try:
            run(list(arrays))
        except FusewireError:
            return 0.0
        times.append(time.perf_counter() - start)
    return float(np.median(times))
