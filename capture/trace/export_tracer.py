"""Recording one run for all sizes: axes that were declared to vary get symbolic sizes.

The function runs on the values it is given, as eager does; beside each value its type is carried,
found by the op's own rule from types that hold `Dim`s. Unlike a recording to be replayed, this one
is a function of its declared inputs alone: any other tensor it reads is a constant of the graph.
Decisions are noted, and may be answered otherwise than the values do (`exploring.py`).
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
from ...eager.core.tape import set_grad_enabled
from ...eager.core.tensor import Tensor
from ...eager.errors import CaptureError, is_ours
from ...eager.nn.base.module import Module
from ..control_flow.branch_merging import BranchMerger, MergeHints, Plan
from ..control_flow.builtin_patching import Modules
from ..control_flow.frame_state import user_frames
from ..control_flow.loop_detection import LoopRepeat, RestartTrace
from ..control_flow.operand_stack import tells_symbols
from ..control_flow.symbolic_range import Counted
from ..graph.bind_sizes import sizes_of
from ..graph.graph import Node, topological
from ..heap.access_path import Path
from ..heap.snapshot import FIXED, HeapSnapshot
from ..heap.source_location import user_site
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import Number
from ..sizes.symbolic_dim import Dim, Sizes
from .tracer import Tracer
from .value_table import ValueTable

_LONG = 1000  # decisions of a forced run, which no values may end
_CURE = {
    "item()": "the number would be frozen: keep it a tensor, or use x.item(), which is traced",
    "NumPy": "NumPy's operations are not recorded: use the functions of fusewire",
    "a result of unknown size": "choose by a mask: fw.where(mask, values, x)",
}


class ExportInput(NamedTuple):
    """An input of the function: its name, the tensor that is passed, and its shape with `Dim`s."""

    name: str
    tensor: Tensor
    shape: tuple[Any, ...]


class CapturedTensor(NamedTuple):
    """A tensor that the function reads but is not given: its values, and where it was found."""

    array: Any
    path: Path | None


class SharedValues(ValueTable):
    """What all runs of one function share: the nodes, and the tensors that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: dict[Node, CapturedTensor] = {}
        self.plans: dict[Any, Plan | None] = {}  # where ways meet, if they do
        self.modules = Modules()
        self._of: dict[Any, Node] = {}

    def number(self, formula: ScalarExpr, type: TensorType) -> Node:
        node = self.nodes.input(f"number {self._number(formula)}", type)
        self.numbers[node] = formula
        return node

    def phi(self, key: Any, like: Node) -> Node:
        return self.nodes.input(f"phi {self._number(key)}", like.type)

    def reads(self, array: Any, path: Path | None) -> Node:
        """The node of a tensor from outside: of a path, or else of these values."""
        key = path or (array.dtype.str, array.shape, array.tobytes())
        if key not in self._of:
            kind = TensorType(array.shape, array.dtype)
            node = self._of[key] = self.nodes.input(f"outside {len(self.outside)}", kind)
            self.outside[node] = CapturedTensor(array, path)
        return self._of[key]


@dataclass(frozen=True)
class ExportTrace:
    """What came of a run: the value returned, and the nodes of the tensors in it."""

    result: Any
    inputs: tuple[Node, ...]
    outside: Mapping[Node, CapturedTensor]
    node_of: Callable[[Tensor], Node]
    path: Sequence[Any]  # its decisions, and the loops that it went through
    states: Mapping[Node, list[Tensor]]  # what it changed outside, by what that held before
    after: Mapping[Node, Node]  # what these hold afterwards
    changed: Sequence[str] = field(default=())  # attributes and lists that the run left changed


class PathKnown(BaseException):
    """A forced run has come to a place from which on everything is known: the head of a loop."""


class ExportTracer(Tracer):
    """Notes what runs, with types whose sizes may vary. The first decisions get the answers
    `forced`."""

    answers = False
    keeps_layers = True

    def __init__(self, state: HeapSnapshot, sizes: Sizes, common: SharedValues,
                 forced: Sequence[bool],
                 training: bool, learnt: MergeHints | None = None) -> None:
        super().__init__(state, 0, (), common, sizes)
        self.common, self.forced, self.training = common, forced, training
        common.rolls_gradients = not training
        self.states: dict[Node, list[Tensor]] = {}
        self.asked = 0  # decisions so far
        self._taken: dict[Any, Any] = {}
        self.loops.live_only = self.counts = not training
        self.meetings = None if learnt is None else BranchMerger(self, learnt, common.plans)
        self._forgotten: dict[int, Any] = {}  # arrays of earlier turns of loops

    def give(self, given: ExportInput) -> Node:
        """The node of an input."""
        node = self.nodes.input(given.name, TensorType(given.shape, given.tensor.dtype))
        self.learn(given.tensor._data, node)
        return node

    def node_of(self, tensor: Tensor) -> Node:
        found = self._known.get(id(tensor._data))
        if found is not None:
            return found[1]
        array = tensor._data
        if id(array) in self._forgotten:
            raise CaptureError("a tensor of an earlier iteration of a loop is used",
                               "let the loop carry it in a variable of its own from the start")
        node = self.common.reads(array, self._path_of(array))
        self.learn(array, node)
        return node

    def forget(self, is_gone: Callable[[Any], bool]) -> None:
        before = dict(self._known)
        super().forget(is_gone)
        for key in before.keys() - self._known.keys():
            held = before[key][0]
            array = held() if isinstance(held, weakref.ref) else held
            if array is not None:
                self._forgotten[key] = array

    def forget_made(self, is_gone: Callable[[Node], bool]) -> None:
        """Arrays that ways have made on which others go elsewhere are no part of what follows."""
        for key, (held, node) in list(self._known.items()):
            if is_gone(node):
                del self._known[key]
                array = held() if isinstance(held, weakref.ref) else held
                if array is not None:
                    self._forgotten[key] = array

    def met(self, plan: Plan) -> None:
        """Ways meet: a forced run has nothing to find from there on."""
        if self.forced and self.asked >= len(self.forced) and plan.followed:
            raise PathKnown

    def learn(self, array: Any, node: Node) -> None:
        self._forgotten.pop(id(array), None)
        super().learn(array, node)

    def source(self, tensor: Tensor) -> None:
        with self.sizes.listening(False):
            self.node_of(tensor)

    def leaves(self, tensor: Tensor, how: str) -> Any:
        node = self.node_of(tensor)
        if not self._varies(node) or how == "item()":
            return None
        if how == "bool()":
            value = bool(tensor._data.item())
            return None if self.decide(node, "bool", value) is value else np.array(not value)
        raise CaptureError(f"{how} hands a tensor's values to Python, which a model cannot do",
                           _CURE.get(how, _CURE["item()"]))

    def _varies(self, node: Node) -> bool:
        """Whether it can have another value in another run."""
        return any(n.op == "uniform" or (n.op == "input" and n not in self.common.outside)
                   or sizes_of(n)
                   for n in topological([node]))

    def number(self, tensor: Tensor, value: Any) -> Any:
        node = self.node_of(tensor)
        if not self._varies(node):
            return value
        if type(value) is bool:
            return self.decide(node, "bool", value)
        frames = user_frames(self.loops.base)
        if type(value) not in (int, float) or (frames and tells_symbols(frames[0].f_code)):
            raise CaptureError("item() hands a tensor's value to code that looks at its type",
                               _CURE["item()"])
        self.made_numbers = True
        return Number(ScalarExpr("element", (node,)), value, self)

    def fixes(self) -> None:
        """A number that varies becomes a plain one: perhaps as Python's own `range` was asked."""
        frames = user_frames(self.loops.base) if self.counts else []
        if frames and self.common.modules.takes_in(frames[0]):
            raise RestartTrace

    def decide(self, subject: Any, kind: str, outcome: Any) -> Any:
        if kind != "bool" and self.listening and getattr(subject, "op", "") != "constant":
            self.fixes()
            raise CaptureError("a number that is known only when the model runs is used here as a "
                               "plain number, which a model cannot do", "compute with tensors here")
        if self.meetings is not None and self.listening and kind == "bool" \
                and getattr(subject, "op", "") not in ("const", "constant"):
            with self.sizes.listening(False):
                subject = self.meetings.visit(subject)
        return super().decide(subject, kind, outcome)

    def _answered(self, subject: Any, kind: str, outcome: Any) -> Any:
        key = subject, kind
        if key in self._decided:
            return self._taken[key]
        if self.forced and self.asked >= len(self.forced) and self.path \
                and type(self.path[-1]) is LoopRepeat:
            raise PathKnown
        if self.asked < len(self.forced):
            outcome = self.forced[self.asked]
        self.asked += 1
        if self.forced and self.asked > _LONG:
            raise CaptureError(f"a forced path takes more than {_LONG} branches",
                               "give an example that takes this path: examples=[...]")
        self._taken[key] = outcome
        super()._answered(subject, kind, outcome)
        if self.meetings is not None and kind == "bool":
            self.meetings.asked()
        return outcome

    def refuse(self, why: str) -> None:
        raise CaptureError(f"this cannot be traced: {why}", "write it with tensors")

    def index_of(self, number: Number) -> Any:
        return self.tensor_of(number, np.dtype(np.int64)) if type(number.value) is int else number

    def symbol(self, number: Any) -> Any:
        """A size as a number that loops may carry."""
        return self._size(number) if type(number) is Dim else number

    def goes_on(self, counted: Counted) -> bool:
        """Whether a `for` takes another turn."""
        with self.sizes.listening(False):
            answer = counted.question()[1]
            subject = self.loops.count(counted, user_site())
        return subject is None or bool(self._answered(subject, "bool", answer))

    def measure(self, op: Any, x: Tensor) -> Tensor | None:
        if self._varies(self.node_of(x)):
            self.leaves(x, "a result of unknown size")
        return None

    def changed(self, tensor: Tensor) -> None:
        """Notes what was outside before, and what it held: a training step changes it."""
        found = self._known.get(id(tensor._data))
        path = self._path_of(tensor._data)
        if found is not None and (path is None or found[1] not in self.common.outside):
            return  # made here, or changed before
        if path is None and self.training:
            raise CaptureError("a tensor is changed that cannot be reached from the function",
                               "use the model and the optimizer by name, or pass them as arguments")
        if path is not None:
            self.states.setdefault(self.node_of(tensor), []).append(tensor)

    def reads_grad(self, tensor: Tensor) -> None:
        self._steps()
        super().reads_grad(tensor)

    def sets_grad(self, tensor: Tensor) -> None:
        self._steps()
        super().sets_grad(tensor)

    def _steps(self) -> None:
        if not self.training:
            raise CaptureError("a gradient is computed or read, as in a training step",
                               "to export the step: export(step, args, path, training=True)")

    def after(self) -> dict[Node, Node]:
        """What the states hold now, by what they held before."""
        found: dict[Node, Node] = {}
        for node, tensors in self.states.items():
            now = {self.node_of(t) for t in tensors}
            if len(now) > 1:
                raise CaptureError("two tensors that share memory are changed in different ways",
                                   "give each its own memory: x.detach().clone()")
            found[node] = now.pop()
        return found

    def gradients_stay(self) -> None:
        """CaptureError where a call depends on gradients that an earlier one has left."""
        for path, before, now in self.state.changes():
            tensor = self.state.values[path]
            if isinstance(tensor, Tensor) and id(tensor) in self.grads_read \
                    and (before[1] is not None or now[1] is not None):
                raise CaptureError(
                    f"the gradient of `{dotted(path) or path}` is added to that of the call before",
                    "call optimizer.zero_grad() in the step, before backward() or at the end")


def trace_for_export(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
                     given: Sequence[ExportInput], sizes: Sizes, common: SharedValues | None = None,
                     forced: Sequence[bool] = (), training: bool = False,
                     learnt: MergeHints | None = None) -> ExportTrace:
    """Runs fn(*args, **kwargs), noting it for all sizes; state is left as it was.

    CaptureError where the run changes a tensor that outlives it, or cannot be noted. With
    `training` gradients are computed, and what is changed is noted. With `learnt` ways meet again
    after decisions; Unmet where more was learnt of that.
    """
    state, common = walk(fn), common or SharedValues()
    recorder = ExportTracer(state, sizes, common, forced, training, learnt)
    inputs = tuple(map(recorder.give, given))
    before = interpreter.STATE.active
    result: Any = None
    after: dict[Node, Node] = {}
    nodes: dict[int, Node] = {}
    try:
        interpreter.STATE.active, recorder.loops.base = recorder, sys._getframe()
        sizes.fixes = recorder.fixes
        with common.modules.counting(), set_grad_enabled(training), sizes.listening():
            result = fn(*args, **kwargs)
            nodes = {id(t): recorder.node_of(t) for t in _tensors_in(result)}
            recorder.gradients_stay()
            after = recorder.after()
            if recorder.meetings is not None:
                recorder.meetings.ended(whole=True)
    except PathKnown:
        result = PathKnown
        if recorder.meetings is not None:
            recorder.meetings.ended(whole=False)
    finally:
        interpreter.STATE.active, recorder.loops.base, sizes.fixes = before, None, None
        recorder.settle_tape()
        changes = list(state.changes())
        for path, held, _ in changes:
            _put_back(state.values[path], held)
    texts = [text for change in changes for text in _described(state, *change, training)]
    return ExportTrace(result, inputs, common.outside, lambda t: nodes[id(t)], recorder.path,
                       recorder.states, after, texts)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors of a result. What they are has to be asked before they are put back."""
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
            _put_back(state.values[path], held)


def walk(fn: Callable[..., Any]) -> HeapSnapshot:
    """Everything reachable from `fn`: its object, closure, and the globals that it names, as
    do functions that it names."""
    state = HeapSnapshot()
    state.walk(Path("function"), fn)
    seen: set[int] = set()
    todo = _new(fn, seen)
    while todo:
        function = todo.pop()
        names = getattr(function, "__globals__", {})
        code = getattr(function, "__code__", None)
        for name in code.co_names if code is not None and not is_ours(code) else ():
            found = names.get(name)
            if _is_function(found):
                todo += _new(found, seen)
            elif found is not None and not isinstance(found, FIXED):
                state.walk(Path("globals", id(names)).item(name), found)
        for cell in getattr(function, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # empty
                todo += _new(cell.cell_contents, seen)
    return state


def _is_function(value: Any) -> bool:
    return isinstance(value, types.FunctionType) or hasattr(value, "__captured__")


def _new(value: Any, seen: set[int]) -> list[Any]:
    """The function of a value that was not seen before: of a method, of one that is compiled."""
    if hasattr(value, "__captured__"):
        value = value.original
    value = getattr(value, "__func__", value)
    if id(value) in seen or not isinstance(value, types.FunctionType):
        return []
    seen.add(id(value))
    return [value]


def dotted(path: Path | None) -> str:
    """The names of attributes and keys along a path, as a state dict has them; empty for none."""
    words: list[str] = []
    while path is not None:
        word = str(getattr(path.key, "value", path.key))
        if path.kind in ("attr", "item") and not word.startswith("__") and \
                word not in ("_parameters", "_buffers", "_modules"):
            words.append(word)
        path = path.parent
    return ".".join(reversed(words))


def called(path: Path) -> str:
    """What a function calls the object at a path: the variable, or else the names on the way."""
    return path.name or dotted(path)


def modules_of(state: HeapSnapshot) -> list[Module]:
    """Every module that was walked over."""
    return list({id(v): v for v in state.values.values() if isinstance(v, Module)}.values())


def _described(state: HeapSnapshot, path: Path, before: Any, now: Any,
               training: bool) -> Iterator[str]:
    """What changed, in words. CaptureError for state that a model would have to hold."""
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


def _put_back(value: Any, held: Any) -> None:
    """An object as it was before the run."""
    if isinstance(value, Tensor):
        value._data, value._grad = held
    elif isinstance(value, list):
        value[:] = [element for _, element in held]
    elif isinstance(value, dict):
        value.clear()
        value.update(held)
    else:
        _put_attributes_back(value, held)


def _put_attributes_back(value: Any, held: Mapping[str, Any]) -> None:
    fields = getattr(value, "__dict__", {})
    for name in [n for n in fields if n not in held]:
        del fields[name]
    for name, old in held.items():
        if name in fields:
            fields[name] = old
        elif getattr(value, name, None) is not old:
            object.__setattr__(value, name, old)


def is_symbolic(shape: Sequence[Any]) -> bool:
    """Whether a size in `shape` may vary."""
    return any(type(n) is Dim for n in shape)
