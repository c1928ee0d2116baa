"""Results as templates: how to put together what a call returns from the program's outputs."""

from __future__ import annotations

import functools
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...eager.core.tensor import Tensor
from ...eager.core.views import bases_of
from ..graph.graph import Node
from ..heap.access_path import Path
from ..heap.introspection import attributes
from ..heap.object_recipes import (
    At,
    Attributes,
    Filled,
    Make,
    NumberOf,
    PassedTensor,
    RebuiltObject,
    Same,
    SeenAs,
    SeenBeside,
    WithGradient,
)
from ..heap.snapshot import FIXED, is_plain
from ..heap.unguardable import is_hidden
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import Number
from ..sizes.symbolic_dim import Dim
from .tracer import Tracer


class Leaving(NamedTuple):
    """What leaves a way: values, and the formulas of numbers; of each tensor which value it is, and
    the end of its tape; which values may take the memory of inputs."""

    nodes: list[Node]
    formulas: list[ScalarExpr]
    tensors: list[tuple[int, Any]]
    donated: dict[int, Node]


class Outputs:
    """The values that templates refer to: distinct nodes, and tensors made over them."""

    def __init__(self, recorder: Tracer) -> None:
        self.nodes: list[Node] = []
        self._with_gradient: set[int] = set()  # tensors made here that have a `.grad`
        self.formulas: list[ScalarExpr] = []  # of Python numbers that are computed in each call
        self.tensors: list[tuple[int, Tensor]] = []  # (which node, the tensor of the recorded run)
        self.ends: list[Any] = []  # where gradients of the tensors go, if that is the same always
        self._of_node: dict[Node, int] = {}
        self._of_tensor: dict[int, int] = {}
        self._made: dict[int,
                         RebuiltObject | None] = {}  # by id; None: its parts are being looked at
        self._kept: list[Any] = []  # their ids stay taken
        self._recorder = recorder

    def leaving(self, donated: dict[int, Node]) -> Leaving:
        """What leaves, with the values that may take the memory of inputs."""
        ends = self.ends or [None] * len(self.tensors)
        tensors = [(i, end) for (i, _), end in zip(self.tensors, ends, strict=True)]
        return Leaving(list(self.nodes), list(self.formulas), tensors, donated)

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
                self._recorder.refuse(f"a {type(tensor).__name__} is created in the call "
                                      "and outlives it")
        return self._of_tensor[id(tensor)]

    def template(self, value: Any) -> Make:
        """How to make `value` again. A value that cannot be made again refuses the recording."""
        if type(value) is Dim:
            return self._number(ScalarExpr("size", (value.expr,)))
        if type(value) is Number:
            self._recorder.loops.check(value)
            return self._number(value.formula)
        if (is_plain(value) and type(value) is not slice) or isinstance(value, FIXED):
            if isinstance(value, type):
                self._check_class(value)
            return Same(value)
        path = self._recorder.state.paths.get(id(value))
        if path is not None:
            return At(path)
        if isinstance(value, Tensor):
            return self._tensor(value)
        return self._shared(value)

    def _tensor(self, value: Tensor) -> Make:
        i = self.tensor(value)
        if value._grad is None or i in self._with_gradient:
            return self._seen(PassedTensor(i), value)
        self._with_gradient.add(i)
        return self._seen(WithGradient(i, self.template(value._grad)), value)

    def _seen(self, made: Make, value: Tensor) -> Make:
        """The tensor, as the view that it is: a write to it is checked as in eager."""
        bases = list(bases_of(value))
        self._kept += bases
        for base in bases:
            path = self._recorder.state.paths.get(id(base))
            if path is not None:
                return SeenAs(made, At(path))
        return SeenBeside(made, tuple(map(id, bases)), self._of_tensor) if bases else made

    def _number(self, formula: ScalarExpr) -> Make:
        self.formulas.append(formula)
        return NumberOf(formula)

    def _shared(self, value: Any) -> Make:
        """An object that the run made: made once by each call, wherever it stands."""
        if id(value) in self._made:
            made = self._made[id(value)]
            if made is None:
                return self._refuse(f"an object of class {type(value).__name__} contains itself")
            made.shared = True
            return made
        self._made[id(value)] = None
        self._kept.append(value)
        made = self._made[id(value)] = RebuiltObject(self._of_kind(value), len(self._made))
        return made

    def _of_kind(self, value: Any) -> Make:
        kind = type(value)
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, value)
        if isinstance(value, tuple) and hasattr(value, "_fields") and not attributes(value):
            return self._filled("named tuple", value, Same(kind))
        if kind is types.FunctionType and _is_constant(value):
            return Same(value)
        if _is_plain_object(value):
            return self._object(value)
        return self._refuse(f"an object of class {kind.__name__} is created in the call and "
                            "outlives it")

    def _refuse(self, why: str) -> Make:
        self._recorder.refuse(why)
        return Same(None)

    def _filled(self, kind: str, values: Iterable[Any], *first: Make) -> Make:
        """An object of a kind with these values, each made again, behind what comes first."""
        return Filled(kind, (*first, *map(self.template, values)))

    def _items(self, kind: str, value: Any) -> Make:
        return Filled(kind, tuple([Filled("tuple", (self.template(k), self.template(v)))
                                   for k, v in value.items()]))

    def _defaultdict(self, value: Any) -> Make:
        items = self._items("dict", value)
        return Filled("defaultdict", (self.template(value.default_factory), items))

    def _partial(self, value: Any) -> Make:
        return self._filled("partial", (value.func, value.args, dict(value.keywords)))

    def _object(self, value: Any) -> Make:
        """An object of a user's class."""
        cls = type(value)
        self._check_class(cls)
        fields = {name: self.template(v) for name, v in attributes(value).items()}
        return Attributes(cls, fields, frozenset(getattr(value, "__dict__", ())))

    def _check_class(self, cls: type) -> None:
        """A class that the run made is another one in each call, and so are its methods."""
        state = self._recorder.state
        if "<locals>" in cls.__qualname__ and id(cls) not in state.paths and \
                Path("class", cls) not in state.values:
            self._recorder.refuse(f"the class {cls.__name__} is created in the call and "
                                  "outlives it")


_RULES: dict[type, Callable[[Outputs, Any], Make]] = {
    list: lambda outputs, value: outputs._filled("list", value),
    tuple: lambda outputs, value: outputs._filled("tuple", value),
    set: lambda outputs, value: outputs._filled("set", value),
    frozenset: lambda outputs, value: outputs._filled("frozenset", value),
    dict: lambda outputs, value: outputs._items("dict", value),
    OrderedDict: lambda outputs, value: outputs._items("OrderedDict", value),
    Counter: lambda outputs, value: outputs._items("Counter", value),
    defaultdict: Outputs._defaultdict,
    deque: lambda outputs, value: outputs._filled("deque", value, Same(value.maxlen)),
    functools.partial: Outputs._partial,
    slice: lambda outputs, value: outputs._filled("slice", (value.start, value.stop, value.step)),
    types.MethodType: lambda outputs, value: outputs._filled(
        "method", (value.__func__, value.__self__)),
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
