"""Results as templates: how to put together what a call returns from the program's outputs."""

from __future__ import annotations

import functools
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from ..eager.tensor import Tensor
from .dims import Dim
from .formulas import Formula
from .graph import Node
from .members import attributes
from .numbers import Number
from .opaque import is_hidden
from .paths import Path
from .reading import Reader
from .recorder import Recorder
from .state import FIXED, is_plain

Read = Reader
Make = Callable[[list[Any], Read], Any]  # (the tensors of this call, reader of paths) -> the object


class Outputs:
    """The values that templates refer to: distinct nodes, and tensors made over them."""

    def __init__(self, recorder: Recorder) -> None:
        self.nodes: list[Node] = []
        self._with_gradient: set[int] = set()  # tensors made here that have a `.grad`
        self.formulas: list[Formula] = []  # of Python numbers that are computed in each call
        self.tensors: list[tuple[int, Tensor]] = []  # (which node, the tensor of the recorded run)
        self.ends: list[Any] = []  # where gradients of the tensors go, if that is the same always
        self._of_node: dict[Node, int] = {}
        self._of_tensor: dict[int, int] = {}
        self._made: dict[int, Made | None] = {}  # by id; None: its parts are being looked at
        self._kept: list[Any] = []  # their ids stay taken
        self._recorder = recorder

    def node(self, tensor: Tensor) -> int:
        """The number of the node that holds a tensor's value."""
        node = self._recorder.node_of(tensor)
        if node not in self._of_node:
            self._of_node[node] = len(self.nodes)
            self.nodes.append(node)
        return self._of_node[node]

    def tensor(self, tensor: Tensor) -> int:
        """The number of a tensor that leaves the run; the same tensor twice is one."""
        if id(tensor) not in self._of_tensor:
            self._of_tensor[id(tensor)] = len(self.tensors)
            self.tensors.append((self.node(tensor), tensor))
            if type(tensor) is not Tensor:
                self._recorder.refuse(f"a {type(tensor).__name__} is made that outlives the call")
        return self._of_tensor[id(tensor)]

    def template(self, value: Any) -> Make:
        """How to make `value` again. A value that cannot be made again refuses the recording."""
        if type(value) is Dim:
            return self._number(Formula("size", (value.expr,)))
        if type(value) is Number:
            self._recorder.loops.check(value)
            return self._number(value.formula)
        if (is_plain(value) and type(value) is not slice) or isinstance(value, FIXED):
            if isinstance(value, type):
                self._check_class(value)
            return lambda tensors, read: value
        path = self._recorder.state.paths.get(id(value))
        if path is not None:
            return lambda tensors, read: read(path)
        if isinstance(value, Tensor):
            return self._tensor(value)
        return self._shared(value)

    def _tensor(self, value: Tensor) -> Make:
        i = self.tensor(value)
        if value._grad is None or i in self._with_gradient:
            return lambda tensors, read: tensors[i]
        self._with_gradient.add(i)
        gradient = self.template(value._grad)

        def make(tensors: list[Any], read: Read) -> Any:
            tensors[i]._grad = gradient(tensors, read)
            return tensors[i]

        return make

    def _number(self, formula: Formula) -> Make:
        self.formulas.append(formula)
        return lambda tensors, read: read.number(formula)

    def _shared(self, value: Any) -> Make:
        """An object that the run made: made once by each call, wherever it stands."""
        if id(value) in self._made:
            made = self._made[id(value)]
            if made is None:
                return self._refuse(f"an object of class {type(value).__name__} holds itself")
            made.shared = True
            return made
        self._made[id(value)] = None
        self._kept.append(value)
        made = self._made[id(value)] = Made(self._of_kind(value), len(self._made))
        return made

    def _of_kind(self, value: Any) -> Make:
        kind = type(value)
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, value)
        if isinstance(value, tuple) and hasattr(value, "_fields") and not attributes(value):
            return self._filled(lambda parts: tuple.__new__(kind, parts), value)
        if kind is types.FunctionType and _is_constant(value):
            return lambda tensors, read: value
        if _is_plain_object(value):
            return self._object(value)
        return self._refuse(f"an object of class {kind.__name__} is made that outlives the call")

    def _refuse(self, why: str) -> Make:
        self._recorder.refuse(why)
        return lambda tensors, read: None

    def _filled(self, build: Callable[[list[Any]], Any], values: Any) -> Make:
        """`build` of the values, each made again."""
        parts = [self.template(v) for v in values]
        return lambda tensors, read: build([part(tensors, read) for part in parts])

    def _items(self, build: Callable[[Any], Any], value: Any) -> Make:
        pairs = [(self.template(k), self.template(v)) for k, v in value.items()]
        return lambda tensors, read: build(
            [(key(tensors, read), make(tensors, read)) for key, make in pairs])

    def _defaultdict(self, value: Any) -> Make:
        fill, factory = self._items(dict, value), self.template(value.default_factory)
        return lambda tensors, read: defaultdict(factory(tensors, read), fill(tensors, read))

    def _counter(self, value: Any) -> Make:
        return self._items(lambda pairs: Counter(dict(pairs)), value)

    def _deque(self, value: Any) -> Make:
        limit = value.maxlen
        return self._filled(lambda parts: deque(parts, limit), value)

    def _partial(self, value: Any) -> Make:
        fn, args = self.template(value.func), self.template(value.args)
        named = self.template(dict(value.keywords))
        return lambda tensors, read: functools.partial(
            fn(tensors, read), *args(tensors, read), **named(tensors, read))

    def _object(self, value: Any) -> Make:
        """An object of a user's class: its attributes, set without running code of the class."""
        cls = type(value)
        self._check_class(cls)
        fields = {name: self.template(v) for name, v in attributes(value).items()}
        own = frozenset(getattr(value, "__dict__", ()))

        def make(tensors: list[Any], read: Read) -> Any:
            made = object.__new__(cls)
            for name, part in fields.items():
                if name in own:
                    made.__dict__[name] = part(tensors, read)
                else:
                    object.__setattr__(made, name, part(tensors, read))
            return made

        return make

    def _check_class(self, cls: type) -> None:
        """A class that the run made is another one in each call, and so are its methods."""
        state = self._recorder.state
        if "<locals>" in cls.__qualname__ and id(cls) not in state.paths and \
                Path("class", cls) not in state.values:
            self._recorder.refuse(f"the class {cls.__name__} is made that outlives the call")


class Made:
    """How to make an object; a call that needs it at several places makes it once."""

    def __init__(self, make: Make, number: int) -> None:
        self.make, self.number, self.shared = make, number, False

    def __call__(self, tensors: list[Any], read: Read) -> Any:
        if not self.shared:
            return self.make(tensors, read)
        if self.number not in read.made:
            read.made[self.number] = self.make(tensors, read)
        return read.made[self.number]


_RULES: dict[type, Callable[[Outputs, Any], Make]] = {
    list: lambda outputs, value: outputs._filled(list, value),
    tuple: lambda outputs, value: outputs._filled(tuple, value),
    set: lambda outputs, value: outputs._filled(set, value),
    frozenset: lambda outputs, value: outputs._filled(frozenset, value),
    dict: lambda outputs, value: outputs._items(dict, value),
    OrderedDict: lambda outputs, value: outputs._items(OrderedDict, value),
    Counter: Outputs._counter,
    defaultdict: Outputs._defaultdict,
    deque: Outputs._deque,
    functools.partial: Outputs._partial,
    slice: lambda outputs, value: outputs._filled(
        lambda parts: slice(*parts), (value.start, value.stop, value.step)),
    types.MethodType: lambda outputs, value: outputs._filled(
        lambda parts: types.MethodType(*parts), (value.__func__, value.__self__)),
}


def _is_constant(function: types.FunctionType) -> bool:
    """Whether a function made inside depends on nothing of the call."""
    return not (function.__closure__ or function.__defaults__ or function.__kwdefaults__
                or function.__dict__)


def _is_plain_object(value: Any) -> bool:
    """Whether an object is its attributes and nothing more."""
    cls = type(value)
    made_by: Any = cls.__new__
    return made_by is object.__new__ and not hasattr(cls, "__del__") and \
        not hasattr(cls, "__captured__") and not is_hidden(cls) and \
        (hasattr(value, "__dict__") or hasattr(cls, "__slots__")) and \
        weakref.getweakrefcount(value) == 0
