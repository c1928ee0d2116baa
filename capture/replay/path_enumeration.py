"""Enumerates the control-flow paths of a function for export: those of examples, and forced ones.

If no example takes an outcome of a branch on a tensor's value, the function runs with that outcome
forced on the values of an example. The enumeration uses the path of such a run, not its numbers.
"""

from __future__ import annotations

import dis
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...eager.core.tensor import Tensor
from ...eager.errors import CaptureError, is_ours
from ..cfg.ir import Block, Branch, Exit, IfMerge, ends_of
from ..cfg.ir import walk as walk_blocks
from ..cfg.path_insertion import add_path
from ..cfg.trace_exit import TraceExit
from ..cfg.verify import verify
from ..cfg.visitor import Visitor
from ..control_flow.branch_merging import MergeFailed
from ..control_flow.builtin_patching import PatchedModules
from ..control_flow.loop_detection import RestartTrace
from ..control_flow.merge_table import MergeHints
from ..control_flow.merges import Merge
from ..control_flow.unrolled_loops import UnboundedLoop, UnrolledLoops
from ..graph.graph import Node
from ..heap.object_recipes import SameObject
from ..sizes.size_condition import FixedSize, SizeCondition
from ..sizes.symbolic_dim import ShapeEnv
from ..trace.export_tracer import (
    ExportInput,
    ExportTrace,
    PathKnown,
    trace_for_export,
)
from ..trace.output_spec import TraceOutputs
from ..trace.shared_values import SharedValues
from ..trace.value_table import ValueTable

MAX_PATHS = 64  # paths of one function
MAX_BRANCHES = 512
_MAX_LOOP_RESTARTS = 4  # restarts after new loop-carried variables
_MAX_MERGE_RESTARTS = 24  # restarts after new differences at merges


class Example(NamedTuple):
    """An example call: its arguments, its input tensors, and their sizes."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    inputs: Sequence[ExportInput]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Explored:
    """The control-flow tree of a function, and the runs that reached each exit."""

    root: Block
    runs: Mapping[Exit, Sequence[ExportTrace]]
    names: SharedValues
    forced: Sequence[str]  # the outcomes that no example takes
    raising: Sequence[Node]  # ops of all runs that raise errors for some values
    inputs: Collection[Node]

    @property
    def states(self) -> dict[Node, list[Tensor]]:
        """Captured tensors that any path changes, by the nodes of their initial values."""
        return {n: t for runs in self.runs.values() for run in runs for n, t in run.states.items()}


class _LoopGrown(Exception):
    """Restarts the enumeration."""


def explore(fn: Callable[..., Any], examples: Sequence[Example], sizes: ShapeEnv,
            training: bool = False, draws: bool = False) -> Explored:
    """Returns all paths of fn. `sizes` collects the conditions on sizes of every path.

    With `training`, paths may compute gradients and change captured tensors, and never merge. With
    `draws`, they may change the states of random generators. Raises CaptureError for a path that
    cannot be traced.
    """
    def explored(hints: MergeHints | None) -> Explored:
        return _explored(
            lambda: _Exploration(fn, examples, sizes, training, draws, hints))

    for hints in () if training else (MergeHints(), MergeHints(numbers=False)):
        try:
            return explored(hints)
        except Exception:
            if not hints.keys:
                raise  # no paths have merged, so a merge cannot be the cause
    return explored(None)


def _explored(begin: Callable[[], _Exploration]) -> Explored:
    """The paths that an exploration finds; restarts it with the loops and merges that it learns.
    """
    carried: dict[Any, set[Any]] = {}
    peeled_loops: set[Any] = set()
    modules = PatchedModules()
    loop_restarts = merge_restarts = 0
    while loop_restarts < _MAX_LOOP_RESTARTS and merge_restarts < _MAX_MERGE_RESTARTS:
        enumeration = begin()
        common = enumeration.common
        common.carried, common.peeled_loops, common.modules = carried, peeled_loops, modules
        try:
            return enumeration.explored()
        except (MergeFailed, RestartTrace):
            merge_restarts += 1
        except _LoopGrown:
            carried, loop_restarts = common.carried, loop_restarts + 1
    raise CaptureError("the loops of the function change different variables on each path",
                       "give each loop variable the same dtype and shape from the start")


class _Exploration:
    """One enumeration: the paths found so far."""

    def __init__(self, fn: Callable[..., Any], examples: Sequence[Example], sizes: ShapeEnv,
                 training: bool, draws: bool, learnt: MergeHints | None) -> None:
        self.learnt, self.draws = learnt, draws
        self.fn, self.examples, self.sizes, self.training = fn, examples, sizes, training
        self.common = SharedValues()
        self.root: Block | None = None
        self.runs: dict[Exit, list[ExportTrace]] = {}
        self.forced: dict[str, None] = {}
        self.raising: dict[Node, None] = {}
        self.inputs: tuple[Node, ...] = ()
        self._conditions: dict[Any, SizeCondition] = {}
        self._fixed: list[FixedSize] = []

    def explored(self) -> Explored:
        for example in self.examples:
            self._add_run(example, ())
        while gap := self._missing_outcome():
            self._force(*gap)
        self._check_merges()
        self.sizes.begin(self.examples[0].sizes)
        self.sizes.conditions, self.sizes.fixed = self._conditions, self._fixed
        assert self.root is not None
        return Explored(self.root, self.runs, self.common, list(self.forced), list(self.raising),
                        self.inputs)

    def _check_merges(self) -> None:
        """Raises MergeFailed for a branch with a path that does not reach the merge."""
        assert self.root is not None
        for branch in [block for block in walk_blocks(self.root) if isinstance(block, IfMerge)]:
            assert branch.body is not None and self.learnt is not None
            if any(end.target is not branch for end in ends_of(branch.body)):
                self.learnt.unmergeable.add(branch.element.key)
                raise MergeFailed

    def _add_run(self, example: Example, forced: Sequence[bool]) -> None:
        """Runs the function and adds its path to the tree."""
        self.sizes.begin(example.sizes)
        try:
            run = trace_for_export(self.fn, example.args, example.kwargs, example.inputs,
                                   self.sizes, self.common, forced, self.training, self.learnt,
                                   self.draws)
        finally:
            self._collect_conditions(self.sizes)
        self.inputs = run.inputs
        self.raising.update(dict.fromkeys(run.raising))
        trace_exit = None if run.result is PathKnown else _trace_exit(self.common)
        self.root, grown = add_path(self.root, run.path, trace_exit)
        if not grown:
            raise _LoopGrown
        verify(self.root, self.common, "adding a path", planned=False,
               inputs={*run.inputs, *self.common.outside})
        for element in run.path[:-1]:
            plan = self.common.merges.plans.get(element.key) if isinstance(element, Merge) else None
            if plan is not None:
                plan.followed = True
        if trace_exit is not None:
            exit_block = next(b for b in walk_blocks(self.root)
                              if isinstance(b, Exit) and trace_exit in b.exits)
            self.runs.setdefault(exit_block, []).append(run)

    def _collect_conditions(self, sizes: ShapeEnv) -> None:
        """Collects the conditions on sizes of a run."""
        for key, condition in sizes.conditions.items():
            first = self._conditions.setdefault(key, condition)
            if first.outcome != condition.outcome:
                error = CaptureError(f"the examples differ in whether {condition}",
                                     "give examples that agree on this condition")
                error.line = condition.line
                raise error
        self._fixed += sizes.fixed

    def _missing_outcome(self) -> tuple[Branch, list[bool]] | None:
        """A branch with an outcome never taken, and the outcomes that lead there."""
        assert self.root is not None
        for at, outcomes in _with_outcomes(self.root):
            if isinstance(at, Branch) and len(at.outcomes) < 2:
                if len(self.runs) >= MAX_PATHS:
                    raise self._too_many(at, f"the branches of the function form more than "
                                             f"{MAX_PATHS} paths")
                if len(self.forced) >= MAX_BRANCHES:
                    raise self._too_many(at, "the function has more than "
                                             f"{MAX_BRANCHES} branches")
                return at, [*outcomes, not next(iter(at.outcomes))]
        return None

    def _too_many(self, at: Branch, message: str) -> CaptureError:
        loop = self.common.unrolled.at(at.site)
        if loop is None:
            return _at(at, message, "choose with fw.where(condition, x, y)")
        return _at(at, f"{loop}, and {message}", UnrolledLoops.HELP)

    def _force(self, at: Branch, outcomes: list[bool]) -> None:
        failed: Exception | None = None
        for example in self.examples:
            try:
                with np.errstate(all="ignore"):
                    self._add_run(example, outcomes)
            except (_LoopGrown, UnboundedLoop):
                raise
            except Exception as error:
                failed = failed or error
                continue
            if len(at.outcomes) < 2:
                break  # the run took another path
            self.forced[f"{at.site}: no example takes the path where this is {outcomes[-1]}"] = None
            return
        raise _unexplored(at, outcomes[-1], failed)


def _trace_exit(names: ValueTable) -> TraceExit:
    """A placeholder for the exit of a path; the run has its contents."""
    return TraceExit([], [], SameObject(None), TraceOutputs([], [], [], {}))


def _with_outcomes(root: Block) -> Iterator[tuple[Block, list[bool]]]:
    """Every block, with the outcomes of the branches that lead there."""
    stack: list[tuple[Block, list[bool]]] = [(root, [])]
    while stack:
        at, outcomes = stack.pop()
        yield at, outcomes
        stack += _OUTCOMES.visit(at, outcomes)


class _Outcomes(Visitor[list[tuple[Block, list[bool]]]]):
    """Lists the children of a block with the outcomes that lead to each of them."""

    def other(self, block: Block, outcomes: list[bool]) -> list[tuple[Block, list[bool]]]:
        return [(child, outcomes) for child in block.children()]

    def branch(self, block: Branch, outcomes: list[bool]) -> list[tuple[Block, list[bool]]]:
        return [(below, [*outcomes, outcome]) for outcome, below in block.outcomes.items()]

    def if_merge(self, block: IfMerge, outcomes: list[bool]) -> list[tuple[Block, list[bool]]]:
        body, *continuation = block.children()
        return [(body, outcomes), *((child, self._to_merge(block, outcomes))
                                    for child in continuation)]

    def _to_merge(self, block: IfMerge, outcomes: list[bool]) -> list[bool]:
        """The outcomes of a path to the merge of a branch."""
        assert block.body is not None
        return next([*outcomes, *more] for at, more in _with_outcomes(block.body)
                    if at.target is block)


_OUTCOMES = _Outcomes()


def _unexplored(at: Branch, outcome: bool, error: Exception | None) -> CaptureError:
    if error is not None and _is_raised(error):
        return _at(at, f"where this is {outcome}, the function raises {type(error).__name__}, "
                       "and a model cannot",
                   "make this check before the call, outside the function")
    why = f" ({type(error).__name__}: {error})" if error is not None else ""
    return _at(at, f"no example takes the path where this is {outcome}, and tracing it without "
                   f"one failed{why}", "give an example that takes it: examples=[(x,), ...]")


def _is_raised(error: Exception) -> bool:
    """True if an error comes from a `raise` or `assert` in user code."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or is_ours(frames[-1][0].f_code):
        return False
    code, trace = frames[-1][0].f_code, error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    return code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _at(at: Branch, message: str, help: str) -> CaptureError:
    error = CaptureError(message, help)
    error.line = at.site
    return error
