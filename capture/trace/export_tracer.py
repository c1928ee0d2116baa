"""Traces one run for export: declared dynamic axes get symbolic sizes.

The function runs on example values, as in eager. Each value has a type with symbolic sizes, which
the op's own rule infers. Unlike a trace for replay, the result is a function of its declared inputs
alone: every other tensor that the function reads is captured. The outcomes of decisions can be
forced, so that `replay.path_enumeration` reaches every path.
"""

from __future__ import annotations

import contextlib
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...eager import interpreter
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS
from ...eager.core.tape import set_grad_enabled
from ...eager.core.tensor import Tensor
from ...eager.errors import CaptureError, is_ours
from ...eager.nn.base.module import Module
from ...eager.ops.random.generator import Generator, default_generator
from ..control_flow.branch_merging import BranchMerger, MergeFailed
from ..control_flow.frame_state import user_frames
from ..control_flow.loop_detection import RestartTrace
from ..control_flow.loop_elements import LoopRepeat
from ..control_flow.merge_table import MergeHints
from ..control_flow.symbolic_range import SymbolicIterator
from ..graph.bind_sizes import sizes_of
from ..graph.graph import Node, topological
from ..heap.access_path import Path
from ..heap.operand_stack import tells_symbols_apart
from ..heap.snapshot import HeapSnapshot
from ..heap.source_location import user_site
from ..heap.value_kinds import FIXED
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import SymbolicScalar
from ..sizes.symbolic_dim import Dim, ShapeEnv
from .deferred_layouts import DeferredLayouts
from .shared_values import CapturedTensor, SharedValues
from .tracer import Tracer

_MAX_FORCED_DECISIONS = 1000  # a forced run may loop for ever
_HELP = {
    "item()": "the number would be a constant of the model: keep it a tensor, or use x.item(), "
              "which stays symbolic",
    "NumPy": "operations of NumPy are not traced: use the functions of fusewire",
    "a result of unknown size": "choose by a mask: fw.where(mask, values, x)",
}


class ExportInput(NamedTuple):
    """An input of the function: its name, the tensor that is passed, and its shape with `Dim`s."""

    name: str
    tensor: Tensor
    shape: tuple[Any, ...]


@dataclass(frozen=True)
class ExportTrace:
    """The result of a run, and the nodes of its tensors."""

    result: Any
    inputs: tuple[Node, ...]
    outside: Mapping[Node, CapturedTensor]
    node_of: Callable[[Tensor], Node]
    path: Sequence[Any]  # decisions, loops and merge points, in order
    states: Mapping[Node, list[Tensor]]  # changed tensors, by the node of the old value
    after: Mapping[Node, Node]  # the new value by the old value
    changed: Sequence[str] = field(default=())  # attributes and lists that the run left changed
    raising: Sequence[Node] = field(default=())  # ops that raise errors for some values


class PathKnown(BaseException):
    """A forced run has reached a loop header or merge point behind which everything is traced."""


class ExportTracer(Tracer):
    """Traces a run with symbolic sizes. The first decisions get the outcomes `forced`."""

    can_read_values = False
    keeps_layers = True

    def __init__(self, state: HeapSnapshot, sizes: ShapeEnv, common: SharedValues,
                 forced: Sequence[bool], training: bool, hints: MergeHints | None = None) -> None:
        super().__init__(state, 0, (), common, sizes)
        self.common, self.forced, self.training = common, forced, training
        self.random_states: set[int] = set()  # ids of the states of generators that may be drawn
        common.rolls_gradients = not training
        self.loops.unrolled = common.unrolled
        common.unrolled.begin()
        self.states: dict[Node, list[Tensor]] = {}
        self.decision_count = 0
        self._outcomes: dict[Any, Any] = {}
        self.loops.live_only = self.counts = not training
        if hints is not None:
            common.merges.hints = hints
            self.merger = BranchMerger(self, common.merges, all_merge=True)
        self._stale_arrays: dict[int, Any] = {}  # by id: of earlier iterations
        self.layouts = DeferredLayouts()

    def add_input(self, export_input: ExportInput) -> Node:
        """The node of an input."""
        node = self.nodes.input(export_input.name,
                                TensorType(export_input.shape, export_input.tensor.dtype))
        self.bind(export_input.tensor._data, node)
        return node

    def node_of(self, tensor: Tensor) -> Node:
        bound = self._nodes_by_id.get(id(tensor._data))
        if bound is not None:
            return bound[1]
        array = tensor._data
        if id(array) in self._stale_arrays:
            raise CaptureError("a tensor of an earlier iteration of a loop is used",
                               "assign it to a variable before the loop, so that the loop "
                               "carries it")
        node = self.common.captured_input(array, self._path_of(array))
        self.bind(array, node)
        return node

    def forget(self, is_gone: Callable[[Any], bool], decided: frozenset[tuple[Any, str]]) -> None:
        before = dict(self._nodes_by_id)
        super().forget(is_gone, decided)
        for key in before.keys() - self._nodes_by_id.keys():
            held = before[key][0]
            array = held() if isinstance(held, weakref.ref) else held
            if array is not None:
                self._stale_arrays[key] = array

    def is_outside(self, node: Node) -> bool:
        return node in self.common.outside

    def forget_branch_values(self, branch: Any, is_gone: Callable[[Node], bool]) -> None:
        """Makes the arrays of merged paths stale: code behind the merge point must not use them."""
        for key, (held, node) in list(self._nodes_by_id.items()):
            if is_gone(node):
                del self._nodes_by_id[key]
                array = held() if isinstance(held, weakref.ref) else held
                if array is not None:
                    self._stale_arrays[key] = array

    def on_merge(self, plan: Any) -> None:
        """Ends a forced run at a merge point behind which everything is traced already."""
        if self.forced and self.decision_count >= len(self.forced) and plan.followed:
            raise PathKnown

    def bind(self, array: Any, node: Node) -> None:
        self._stale_arrays.pop(id(array), None)
        self.common.unrolled.check_size(array, bool(self.forced))
        super().bind(array, node)

    def note_constant(self, tensor: Tensor) -> None:
        with self.sizes.recording(False):
            self.node_of(tensor)

    def reads_values(self, tensor: Tensor, how: str) -> Any:
        node = self.node_of(tensor)
        if not self._depends_on_inputs(node) or how == "item()":
            return None
        if how == "bool()":
            value = bool(tensor._data.item())
            return None if self.decide(node, "bool", value) is value else np.array(not value)
        raise CaptureError(f"{how} hands a tensor's values to Python, which a model cannot do",
                           _HELP.get(how, _HELP["item()"]))

    def _depends_on_inputs(self, node: Node) -> bool:
        """True if a node can have another value in another run."""
        return any((n.op in OPS and OPS[n.op].draws) or n in self.states or sizes_of(n) or
                   (n.op == "input" and n not in self.common.outside) for n in topological([node]))

    def may_draw(self) -> None:
        """Lets the run draw random numbers: states of generators become states of the run."""
        default = default_generator.state
        self.state.walk(Path("object", id(default_generator)).attr("state"), default)
        own = [v.state for v in self.state.values.values() if isinstance(v, Generator)]
        self.random_states = set(map(id, [default, *own]))

    def item(self, tensor: Tensor, value: Any) -> Any:
        node = self.node_of(tensor)
        if not self._depends_on_inputs(node):
            return value
        if type(value) is bool:
            return self.decide(node, "bool", value)
        frames = user_frames(self.loops.base)
        if type(value) not in (int, float) or (frames and tells_symbols_apart(frames[0].f_code)):
            raise CaptureError("item() hands a tensor's value to code that checks its type",
                               _HELP["item()"])
        self.made_symbolic_scalars = True
        return SymbolicScalar(ScalarExpr("element", (node,)), value, self)

    def fixes(self) -> None:
        """Restarts the trace with builtins replaced if a number is about to be specialized in code
        that may have passed it to the builtin `range`."""
        frames = user_frames(self.loops.base) if self.counts else []
        if frames and self.common.modules.add_module_of(frames[0]):
            raise RestartTrace

    def decide(self, subject: Any, kind: str, outcome: Any) -> Any:
        if kind != "bool" and self.listening and getattr(subject, "op", "") != "constant":
            self.fixes()
            raise CaptureError("a number that is known only when the model runs is used here as a "
                               "plain number, which a model cannot do", "compute with tensors here")
        return super().decide(subject, kind, outcome)

    def _record_decision(self, subject: Any, kind: str, outcome: Any) -> Any:
        key = subject, kind
        if key in self._decided:
            return self._outcomes[key]
        if self.forced and self.decision_count >= len(self.forced) and self.path \
                and type(self.path[-1]) is LoopRepeat:
            raise PathKnown
        if self.decision_count < len(self.forced):
            outcome = self.forced[self.decision_count]
        self.decision_count += 1
        if self.forced and self.decision_count > _MAX_FORCED_DECISIONS:
            raise CaptureError(f"one path makes more than {_MAX_FORCED_DECISIONS} decisions",
                               "give an example that takes this path: examples=[...]")
        self._outcomes[key] = outcome
        super()._record_decision(subject, kind, outcome)
        return outcome

    def _on_merge_failure(self, error: MergeFailed) -> None:
        raise error

    def refuse(self, why: str) -> None:
        raise CaptureError(f"cannot trace for export: {why}",
                           "use tensor operations, such as fw.where, here")

    def _visit_for(self, iterator: SymbolicIterator) -> Any:
        return self.loops.count(iterator, user_site())

    def apply_data_dependent(self, op: Any, x: Tensor) -> Tensor | None:
        if self._depends_on_inputs(self.node_of(x)):
            self.reads_values(x, "a result of unknown size")
        return None

    def size_of(self, number: Any) -> Any:
        return number

    def changed(self, tensor: Tensor) -> None:
        """Notes a change of a tensor from outside, as a training step makes it."""
        self.layouts.before_change(tensor)
        bound = self._nodes_by_id.get(id(tensor._data))
        path = self._path_of(tensor._data)
        if bound is not None and (path is None or bound[1] not in self.common.outside):
            return  # computed in this run, or changed before
        if path is None and self.training:
            raise CaptureError("a tensor is changed that cannot be reached from the function",
                               "use the model and the optimizer by name, or pass them as arguments")
        if path is not None:
            self.states.setdefault(self.node_of(tensor), []).append(tensor)

    def reads_grad(self, tensor: Tensor) -> None:
        self._require_training()
        super().reads_grad(tensor)

    def sets_grad(self, tensor: Tensor) -> None:
        self._require_training()
        super().sets_grad(tensor)

    def _require_training(self) -> None:
        if not self.training:
            raise CaptureError("a gradient is computed or read, as in a training step",
                               "to export the step: export(step, args, path, training=True)")

    def after(self) -> dict[Node, Node]:
        """The current value of each changed tensor, by its old value."""
        new_values: dict[Node, Node] = {}
        for node, tensors in self.states.items():
            now = {self.node_of(t) for t in tensors}
            if len(now) > 1:
                raise CaptureError("two tensors that share memory are changed in different ways",
                                   "give each its own memory: x.detach().clone()")
            new_values[node] = now.pop()
        return new_values

    def check_gradients_reset(self) -> None:
        """Raises CaptureError if the call depends on gradients that an earlier call left."""
        for path, before, now in self.state.changes():
            tensor = self.state.values[path]
            if isinstance(tensor, Tensor) and id(tensor) in self.grads_read \
                    and (before[1] is not None or now[1] is not None):
                raise CaptureError(
                    f"the gradient of `{dotted(path) or path}` is added to that of the call before",
                    "call optimizer.zero_grad() in the step, before backward() or at the end")


def trace_for_export(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
                     export_inputs: Sequence[ExportInput], sizes: ShapeEnv,
                     common: SharedValues | None = None,
                     forced: Sequence[bool] = (), training: bool = False,
                     hints: MergeHints | None = None, draws: bool = False) -> ExportTrace:
    """Traces fn(*args, **kwargs) for all sizes and restores every object that the run changed.

    Raises CaptureError if the run changes a tensor that outlives it, or cannot be traced. With
    `training` it computes gradients and notes the changed tensors. With `draws` it notes changed
    states of random generators. With `hints` it merges paths behind branches, and raises
    MergeFailed if it learns more about the merges.
    """
    state, common = walk(fn), common or SharedValues()
    tracer = ExportTracer(state, sizes, common, forced, training, hints)
    if draws:
        tracer.may_draw()
    inputs = tuple(map(tracer.add_input, export_inputs))
    before = interpreter.STATE.active
    result: Any = None
    after: dict[Node, Node] = {}
    nodes: dict[int, Node] = {}
    try:
        interpreter.STATE.active, tracer.loops.base = tracer, sys._getframe()
        sizes.on_fix, sizes.on_reshape = tracer.fixes, tracer.layouts.add
        with common.modules.patched(), set_grad_enabled(training), sizes.recording():
            result = fn(*args, **kwargs)
            nodes = {id(t): tracer.node_of(t) for t in _tensors_in(result)}
            tracer.check_gradients_reset()
            after = tracer.after()
            if tracer.merger is not None:
                tracer.merger.end(whole=True)
    except PathKnown:
        result = PathKnown
        if tracer.merger is not None:
            tracer.merger.end(whole=False)
    finally:
        interpreter.STATE.active, tracer.loops.base, sizes.on_fix = before, None, None
        sizes.on_reshape = None
        tracer.settle_tape()
        changes = list(state.changes())
        for path, held, _ in changes:
            _restore(state.values[path], held)
    texts = [text for change in changes if id(state.values[change[0]]) not in tracer.random_states
             for text in _describe_change(state, *change, training)]
    return ExportTrace(result, inputs, common.outside, lambda t: nodes[id(t)], tracer.path,
                       tracer.states, after, texts, [node for _, node in tracer.raising])


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors of a result, to be read before changed objects are restored."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(part)


@contextlib.contextmanager
def unchanged(fn: Callable[..., Any]) -> Iterator[None]:
    """A context that leaves everything reachable from `fn` as it was."""
    state = walk(fn)
    try:
        yield
    finally:
        for path, held, _ in list(state.changes()):
            _restore(state.values[path], held)


def walk(fn: Callable[..., Any]) -> HeapSnapshot:
    """A snapshot of everything reachable from `fn`: its object, its closure, the globals that it
    names, and the same for functions that it names."""
    state = HeapSnapshot()
    state.any_name = True
    state.walk(Path("function"), fn)
    seen: set[int] = set()
    todo = _unseen_function(fn, seen)
    while todo:
        function = todo.pop()
        names = getattr(function, "__globals__", {})
        code = getattr(function, "__code__", None)
        for name in code.co_names if code is not None and not is_ours(code) else ():
            value = names.get(name)
            if _is_function(value):
                todo += _unseen_function(value, seen)
            elif value is not None and not isinstance(value, FIXED):
                state.walk(Path("globals", id(names)).item(name), value)
        for cell in getattr(function, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # empty
                todo += _unseen_function(cell.cell_contents, seen)
    return state


def _is_function(value: Any) -> bool:
    return isinstance(value, types.FunctionType) or hasattr(value, "__captured__")


def _unseen_function(value: Any, seen: set[int]) -> list[Any]:
    """The function of a method, compiled function or function, if it was not seen before."""
    if hasattr(value, "__captured__"):
        value = value.original
    value = getattr(value, "__func__", value)
    if id(value) in seen or not isinstance(value, types.FunctionType):
        return []
    seen.add(id(value))
    return [value]


def dotted(path: Path | None) -> str:
    """The attributes and keys along a path as in a state dict; empty if there are none."""
    names: list[str] = []
    while path is not None:
        name = str(getattr(path.key, "value", path.key))
        if path.kind in ("attr", "item") and not name.startswith("__") and \
                name not in ("_parameters", "_buffers", "_modules"):
            names.append(name)
        path = path.parent
    return ".".join(reversed(names))


def called(path: Path) -> str:
    """The name of the object at a path in the function: its variable, or else its dotted name."""
    return path.name or dotted(path)


def modules_of(state: HeapSnapshot) -> list[Module]:
    """Every module in a snapshot."""
    return list({id(v): v for v in state.values.values() if isinstance(v, Module)}.values())


def _describe_change(state: HeapSnapshot, path: Path, before: Any, now: Any,
                     training: bool) -> Iterator[str]:
    """The names of changed attributes and elements. Raises CaptureError for changed tensors, since
    a model holds no state."""
    value, name = state.values[path], dotted(path)
    if isinstance(value, Tensor):
        if training:
            return  # it is among the states
        raise CaptureError(f"the tensor `{name or path}` is changed in place, and a model holds no "
                           "state", "return the new value, and take the old one as an argument")
    old, new = dict(before), dict(now)
    for key in new:
        if old.get(key) is new[key]:
            continue
        inner = f"{name}.{key}" if name else str(key)
        if isinstance(new[key], Tensor) and isinstance(old.get(key), Tensor):
            raise CaptureError(f"`{inner}` holds another tensor after the call, and a model "
                               "holds no state",
                               "return the new value, and take the old one as an argument")
        yield inner


def _restore(value: Any, held: Any) -> None:
    """Restores an object to its state before the run."""
    if isinstance(value, Tensor):
        value._data, value._grad = held
    elif isinstance(value, list):
        value[:] = [element for _, element in held]
    elif isinstance(value, dict):
        value.clear()
        value.update(held)
    else:
        _restore_attributes(value, held)


def _restore_attributes(value: Any, held: Mapping[str, Any]) -> None:
    fields = getattr(value, "__dict__", {})
    for name in [n for n in fields if n not in held]:
        del fields[name]
    for name, old in held.items():
        if name in fields:
            fields[name] = old
        elif getattr(value, name, None) is not old:
            object.__setattr__(value, name, old)


def is_symbolic(shape: Sequence[Any]) -> bool:
    """True if a size in `shape` is dynamic."""
    return any(type(n) is Dim for n in shape)
