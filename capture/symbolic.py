"""Recording one run for all sizes: axes that were declared to vary get symbolic sizes.

The function runs on the values it is given, as eager does; beside each value its type is carried,
found by the op's own rule from types that hold `Dim`s. Unlike a recording to be replayed, this one
is a function of its declared inputs alone: any other tensor it reads is a constant of the graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..eager import interpreter
from ..eager.errors import CaptureError
from ..eager.nn.module import Module
from ..eager.shapes import TensorType
from ..eager.tape import no_grad
from ..eager.tensor import Tensor
from .dims import Dim, Sizes
from .graph import Node, topological
from .names import Names
from .paths import Path
from .recorder import Recorder
from .state import State

_CURE = {
    "item()": "the number would be frozen: keep it a tensor",
    "bool()": "a model takes one path for all values: choose with fw.where(condition, x, y)",
    "NumPy": "what NumPy computes is not recorded: use the functions of fusewire",
    "a result of unknown size": "choose by a mask: fw.where(mask, values, x)",
}


class Given(NamedTuple):
    """An input of the function: its name, the tensor that is passed, and its shape with `Dim`s."""

    name: str
    tensor: Tensor
    shape: tuple[Any, ...]


class Outside(NamedTuple):
    """A tensor that the function reads but is not given: its values, and where it was found."""

    array: Any
    path: Path | None


@dataclass(frozen=True)
class SymbolicRun:
    """What came of a run: the value returned, and the nodes of the tensors in it."""

    result: Any
    inputs: tuple[Node, ...]
    outside: Mapping[Node, Outside]
    node_of: Callable[[Tensor], Node]
    changed: Sequence[str] = field(default=())  # attributes and lists that the run left changed


class SymbolicRecorder(Recorder):
    """Notes what runs, with types whose sizes may vary."""

    answers = False

    def __init__(self, state: State, sizes: Sizes) -> None:
        super().__init__(state, 0, (), Names(), sizes)
        self.given: set[Node] = set()
        self.outside: dict[Node, Outside] = {}

    def give(self, given: Given) -> Node:
        """The node of an input."""
        node = self.nodes.input(given.name, TensorType(given.shape, given.tensor.dtype))
        self.learn(given.tensor._data, node)
        self.given.add(node)
        return node

    def node_of(self, tensor: Tensor) -> Node:
        found = self._known.get(id(tensor._data))
        if found is not None:
            return found[1]
        array = tensor._data
        kind = TensorType(array.shape, array.dtype)
        node = self.nodes.input(f"outside {len(self.outside)}", kind)
        self.outside[node] = Outside(array, self._path_of(array))
        self.learn(array, node)
        return node

    def source(self, tensor: Tensor) -> None:
        with self.sizes.listening(False):
            self.node_of(tensor)

    def leaves(self, tensor: Tensor, how: str) -> None:
        needed = topological([self.node_of(tensor)])
        if not any(n in self.given or n.op == "uniform" for n in needed):
            return  # the same number on every run
        raise CaptureError(f"{how} hands a tensor's values to Python, which a model cannot do",
                           _CURE.get(how, _CURE["item()"]))

    def number(self, tensor: Tensor, value: Any) -> Any:
        return value

    def measure(self, op: Any, x: Tensor) -> Tensor | None:
        self.leaves(x, "a result of unknown size")
        return None

    def reads_grad(self, tensor: Tensor) -> None:
        raise CaptureError("a gradient is read: training steps cannot be exported yet",
                           "export the function that computes the prediction")

    sets_grad = reads_grad


def record_symbolic(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
                    given: Sequence[Given], sizes: Sizes) -> SymbolicRun:
    """Runs fn(*args, **kwargs) without gradients, noting it for all sizes; state is left as it was.

    CaptureError where the run changes a tensor that outlives it, or cannot be noted.
    """
    state = walk(fn)
    recorder = SymbolicRecorder(state, sizes)
    inputs = tuple(map(recorder.give, given))
    before = interpreter.STATE.active
    try:
        interpreter.STATE.active = recorder
        with no_grad(), sizes.listening():
            result = fn(*args, **kwargs)
    finally:
        interpreter.STATE.active = before
        changes = list(state.changes())
        for path, held, _ in changes:
            _put_back(state.values[path], held)
    return SymbolicRun(result, inputs, recorder.outside, recorder.node_of,
                       [text for change in changes for text in _described(state, *change)])


@contextlib.contextmanager
def unchanged(fn: Callable[..., Any]) -> Iterator[None]:
    """A context that leaves everything reachable from `fn` as it was."""
    state = walk(fn)
    try:
        yield
    finally:
        for path, held, _ in list(state.changes()):
            _put_back(state.values[path], held)


def walk(fn: Callable[..., Any]) -> State:
    """Everything reachable from `fn`: its object, closure, and the globals that it names."""
    state = State()
    state.walk(Path("function"), fn)
    code = getattr(getattr(fn, "__func__", fn), "__code__", None)
    names = getattr(fn, "__globals__", {})
    for name in code.co_names if code is not None else ():
        if isinstance(names.get(name), (Module, Tensor, list, dict, tuple)):
            state.walk(Path("globals", id(names)).item(name), names[name])
    return state


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


def modules_of(state: State) -> list[Module]:
    """Every module that was walked over."""
    return list({id(v): v for v in state.values.values() if isinstance(v, Module)}.values())


def _described(state: State, path: Path, before: Any, now: Any) -> Iterator[str]:
    """What changed, in words. CaptureError for state that a model would have to hold."""
    value, name = state.values[path], dotted(path)
    if isinstance(value, Tensor):
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
