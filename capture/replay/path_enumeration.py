"""Enumerates the control-flow paths of a function for export: those of examples, and forced ones.

If no example takes an outcome of a branch on a tensor's value, the function runs with that outcome
forced on the values of an example. The numbers of such a run are discarded, its path is kept.
"""

from __future__ import annotations

import dis
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...eager.core.tensor import Tensor
from ...eager.errors import CaptureError, is_ours
from ..control_flow.branch_merging import Merge, MergeFailed, MergeHints
from ..control_flow.builtin_patching import PatchedModules
from ..control_flow.loop_detection import RestartTrace
from ..graph.graph import Node
from ..heap.object_recipes import SameObject
from ..program.cfg import BackEdge, Block, Branch, Exit, IfMerge, Yield, add_path
from ..program.stage_planner import walk as places
from ..program.trace_exit import TraceExit
from ..sizes.symbolic_dim import FixedSize, ShapeEnv, SizeCondition
from ..trace.export_tracer import (
    ExportInput,
    ExportTrace,
    PathKnown,
    SharedValues,
    trace_for_export,
)
from ..trace.output_spec import TraceOutputs
from ..trace.value_table import ValueTable

WAYS = 64  # of one function
DECISIONS = 512
_AGAIN = 4  # times that all begins anew, as more was found to change in the turns of a loop
_UNMET = 24  # times that it does as more was found to differ where ways meet


class Example(NamedTuple):
    """A call: its arguments with the tensors of `given`, and the sizes of these."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    given: Sequence[ExportInput]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Explored:
    """The control-flow tree of a function, and the runs that reached each exit."""

    root: Block
    runs: Mapping[Exit, Sequence[ExportTrace]]
    names: SharedValues
    forced: Sequence[str]  # the answers that no example gave

    @property
    def states(self) -> dict[Node, list[Tensor]]:
        """Captured tensors that any path changes, by the nodes of their initial values."""
        return {n: t for runs in self.runs.values() for run in runs for n, t in run.states.items()}


class _Grown(Exception):
    """Restarts the enumeration."""


def explore(fn: Callable[..., Any], examples: Sequence[Example], sizes: ShapeEnv,
            training: bool = False, meeting: bool = True) -> Explored:
    """All ways of fn, with what was asked of sizes on any of them in `sizes`.

    With `training`, ways may compute gradients and change tensors from outside, and never meet
    again; nor do they if they are not to be `meeting`. CaptureError for a way that cannot be found.
    """
    for learnt in (MergeHints(), MergeHints(numbers=False)) if meeting and not training else ():
        try:
            return _explored(fn, examples, sizes, training, learnt)
        except Exception:
            if not learnt.keys:
                raise  # no ways have met: what differed there cannot be why
    return _explored(fn, examples, sizes, training, None)


def _explored(fn: Callable[..., Any], examples: Sequence[Example], sizes: ShapeEnv, training: bool,
              learnt: MergeHints | None) -> Explored:
    known: dict[Any, set[Any]] = {}
    apart: set[Any] = set()
    modules = PatchedModules()
    grown = unmet = 0
    while grown < _AGAIN and unmet < _UNMET:
        made = _Exploration(fn, examples, sizes, known, training, learnt)
        made.common.peeled_loops, made.common.modules = apart, modules
        try:
            return made.explored()
        except (MergeFailed, RestartTrace):
            unmet += 1
        except _Grown:
            known, grown = made.common.carried, grown + 1
    raise CaptureError("the loops of the function change different variables on each path",
                       "give each loop variable the same dtype and shape from the start")


class _Exploration:
    """One enumeration: the paths found so far."""

    def __init__(self, fn: Callable[..., Any], examples: Sequence[Example], sizes: ShapeEnv,
                 carried: dict[Any, set[Any]], training: bool, learnt: MergeHints | None) -> None:
        self.learnt = learnt
        self.fn, self.examples, self.sizes, self.training = fn, examples, sizes, training
        self.common = SharedValues()
        self.common.carried = carried
        self.root: Block | None = None
        self.runs: dict[Exit, list[ExportTrace]] = {}
        self.forced: dict[str, None] = {}
        self._conditions: dict[Any, SizeCondition] = {}
        self._fixed: list[FixedSize] = []

    def explored(self) -> Explored:
        for example in self.examples:
            self._take(example, ())
        while gap := self._gap():
            self._force(*gap)
        self._check_met()
        self.sizes.begin(self.examples[0].sizes)
        self.sizes.conditions, self.sizes.fixed = self._conditions, self._fixed
        assert self.root is not None
        return Explored(self.root, self.runs, self.common, list(self.forced))

    def _check_met(self) -> None:
        """Unmet for a question with a way that does not lead to where the others meet."""
        assert self.root is not None
        for fork in [p for p in places(self.root) if isinstance(p, IfMerge)]:
            assert fork.body is not None and self.learnt is not None
            inside = set(places(fork.body)) | {fork}
            if any(isinstance(p, Exit) or (isinstance(p, BackEdge) and p.loop not in inside)
                   or (isinstance(p, Yield) and p.if_merge not in inside) for p in inside):
                self.learnt.unmergeable.add(fork.key)
                raise MergeFailed

    def _take(self, example: Example, forced: Sequence[bool]) -> None:
        """Runs the function and takes in the way that it goes."""
        self.sizes.begin(example.sizes)
        try:
            run = trace_for_export(self.fn, example.args, example.kwargs, example.given, self.sizes,
                                   self.common, forced, self.training, self.learnt)
        finally:
            self._ask(self.sizes)
        leaf = None if run.result is PathKnown else _leaf(self.common)
        self.root, grown = add_path(self.root, run.path, leaf)
        if not grown:
            raise _Grown
        for element in run.path[:-1]:
            plan = self.common.merge_plans.get(element.key) if isinstance(element, Merge) else None
            if plan is not None:
                plan.followed = True
        if leaf is not None:
            end = next(p for p in places(self.root) if isinstance(p, Exit) and leaf in p.exits)
            self.runs.setdefault(end, []).append(run)

    def _ask(self, sizes: ShapeEnv) -> None:
        """Collects the conditions on sizes of a run."""
        for key, condition in sizes.conditions.items():
            before = self._conditions.setdefault(key, condition)
            if before.outcome != condition.outcome:
                error = CaptureError(f"the examples differ in whether {condition}",
                                     "give examples that agree on this condition")
                error.line = condition.line
                raise error
        self._fixed += sizes.fixed

    def _gap(self) -> tuple[Branch, list[bool]] | None:
        """A branch with an outcome never taken, and the outcomes that lead there."""
        assert self.root is not None
        for at, answers in _with_answers(self.root):
            if isinstance(at, Branch) and len(at.outcomes) < 2:
                if len(self.runs) >= WAYS:
                    raise _at(at, f"the branches of the function form more than {WAYS} paths",
                              "choose with fw.where(condition, x, y)")
                if len(self.forced) >= DECISIONS:
                    raise _at(at, f"the function has more than {DECISIONS} branches",
                              "choose with fw.where(condition, x, y)")
                return at, [*answers, not next(iter(at.outcomes))]
        return None

    def _force(self, at: Branch, answers: list[bool]) -> None:
        failed: Exception | None = None
        for example in self.examples:
            try:
                with np.errstate(all="ignore"):
                    self._take(example, answers)
            except _Grown:
                raise
            except Exception as error:
                failed = failed or error
                continue
            if len(at.outcomes) < 2:
                break  # the run went another way
            self.forced[f"{at.site}: no example takes the path where this is {answers[-1]}"] = None
            return
        raise _unexplored(at, answers[-1], failed)


def _leaf(names: ValueTable) -> TraceExit:
    """A placeholder for the exit of a path; the run has its contents."""
    return TraceExit([], [], SameObject(None), TraceOutputs([], [], [], {}))


def _with_answers(root: Block) -> Iterator[tuple[Block, list[bool]]]:
    """Every block, with the outcomes of the branches that lead there."""
    stack: list[tuple[Block, list[bool]]] = [(root, [])]
    while stack:
        at, answers = stack.pop()
        yield at, answers
        if isinstance(at, Branch):
            stack += [(below, [*answers, answer]) for answer, below in at.outcomes.items()]
        elif isinstance(at, IfMerge):
            stack += [(at.body, answers)] if at.body is not None else []
            stack += [(at.continuation.body,
                       _to_meet(at, answers))] if at.continuation.body is not None else []
        elif not isinstance(at, BackEdge):
            stack += [(below, answers) for below in at.children()]


def _to_meet(fork: IfMerge, answers: list[bool]) -> list[bool]:
    """The outcomes of a path to the merge of a branch."""
    assert fork.body is not None
    return next([*answers, *more] for at, more in _with_answers(fork.body)
                if isinstance(at, Yield) and at.if_merge is fork)


def _unexplored(at: Branch, answer: bool, error: Exception | None) -> CaptureError:
    if error is not None and _is_raised(error):
        return _at(at, f"where this is {answer}, the function raises {type(error).__name__}, and a "
                       "model cannot", "make this check before the call, outside the function")
    why = f" ({type(error).__name__}: {error})" if error is not None else ""
    return _at(at, f"no example takes the path where this is {answer}, and tracing it without "
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
