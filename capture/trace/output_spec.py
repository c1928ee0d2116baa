"""Builds recipes that reconstruct the result of a call from the outputs of its graph."""

from __future__ import annotations

import functools
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...eager.core.tensor import Tensor, is_bare
from ...eager.core.views import base_of, bases_of, is_fixed, joined_access, overlap, root_of
from ...eager.interpreter import Rows
from ..graph.graph import Node
from ..heap.access_path import Path
from ..heap.introspection import attributes
from ..heap.object_recipes import (
    BuiltContainer,
    InputOr,
    NumberOf,
    ObjectAtPath,
    PassedTensor,
    RebuiltObject,
    Recipe,
    SameObject,
    UserObject,
    View,
    WithGradient,
)
from ..heap.unguardable import is_hidden
from ..heap.value_kinds import FIXED, is_plain
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.stand_in import StandIn
from ..scalars.symbolic_scalar import SymbolicScalar
from ..sizes.symbolic_dim import Dim
from .tracer import Tracer


class OutputTensor(NamedTuple):
    """A tensor that a trace makes: the index of its value, its tape edge, its class."""

    value: int
    edge: Any
    cls: type[Tensor]


class TraceOutputs(NamedTuple):
    """The outputs of a trace: its values and scalar expressions; its tensors; the values that may
    reuse the memory of donated inputs."""

    nodes: list[Node]
    formulas: list[ScalarExpr]
    tensors: list[OutputTensor]
    donated: dict[int, Node]


class OutputSpecBuilder:
    """Collects the outputs that recipes refer to: distinct nodes, and the tensors over them."""

    def __init__(self, tracer: Tracer) -> None:
        self.nodes: list[Node] = []
        self._tensors_with_gradient: set[int] = set()  # indices of tensors with a `.grad`
        self.formulas: list[ScalarExpr] = []  # Python numbers that each call computes
        self.tensors: list[tuple[int, Tensor]] = []  # (index of the node, tensor of the run)
        self.grad_edges: list[Any] = []  # tape edges of the tensors, if every call has the same
        self._views: list[tuple[View, Tensor]] = []  # outputs that are views of others
        self._of_node: dict[Node, int] = {}
        self._of_tensor: dict[int, int] = {}
        self._recipes: dict[int,
                            RebuiltObject | None] = {}  # by id; None while its parts are visited
        self._referenced: list[Any] = []  # alive, so that no id is used twice
        self._tracer = tracer

    def finish(self, donated: dict[int, Node]) -> TraceOutputs:
        """The outputs of the trace, with the values that may reuse the memory of inputs."""
        edges = self.grad_edges or [None] * len(self.tensors)
        tensors = [OutputTensor(i, end, type(x))
                   for (i, x), end in zip(self.tensors, edges, strict=True)]
        return TraceOutputs(list(self.nodes), list(self.formulas), tensors, donated)

    def node(self, tensor: Tensor) -> int:
        """The index of the node of a tensor's value."""
        node = self._tracer.node_of(tensor)
        if node not in self._of_node:
            self._of_node[node] = len(self.nodes)
            self.nodes.append(node)
        return self._of_node[node]

    def tensor(self, tensor: Tensor) -> int:
        """The index of a tensor that outlives the run; each tensor has one."""
        if id(tensor) not in self._of_tensor:
            self._of_tensor[id(tensor)] = len(self.tensors)
            self.tensors.append((self.node(tensor), tensor))
            if not is_bare(tensor):
                self._tracer.refuse(f"a {type(tensor).__name__} is created in the call "
                                    "and outlives it")
        return self._of_tensor[id(tensor)]

    def recipe(self, value: Any) -> Recipe:
        """The recipe that reconstructs `value`. Refuses the trace if there is none."""
        if type(value) is Dim:
            return self._number(ScalarExpr("size", (value.expr,)))
        if isinstance(value, Rows):
            value.give_up()  # its length may differ in other calls
        if issubclass(type(value), StandIn):
            value = value.value
        if type(value) is SymbolicScalar:
            self._tracer.loops.refuse_stale(value)
            return self._number(value.formula)
        if (is_plain(value) and type(value) is not slice) or isinstance(value, FIXED):
            if isinstance(value, type):
                self._check_class(value)
            return SameObject(value)
        path = self._tracer.state.paths.get(id(value))
        if path is not None:
            return ObjectAtPath(path)
        if isinstance(value, Tensor):
            return self._tensor(value)
        return self._shared(value)

    def _tensor(self, value: Tensor) -> Recipe:
        i = self.tensor(value)
        identity = self._tracer.identity_of(value)
        if identity is not None:
            return self._input_or(PassedTensor(i), identity)
        if value._grad is None or i in self._tensors_with_gradient:
            return self._as_view(PassedTensor(i), value)
        self._tensors_with_gradient.add(i)
        return self._as_view(WithGradient(i, self.recipe(value._grad)), value)

    def _input_or(self, recipe: Recipe, identity: SymbolicScalar) -> InputOr:
        self._tracer.loops.refuse_stale(identity)
        self.formulas.append(identity.formula)
        return InputOr(recipe, identity.formula, self._tracer.aliases.inputs)

    def _as_view(self, recipe: Recipe, value: Tensor) -> Recipe:
        """A recipe that makes the tensor a view again, if it is one."""
        if base_of(value) is None:
            return recipe
        view = View(recipe)
        self._views.append((view, value))
        return view

    def resolve_views(self) -> None:
        """Sets the bases of outputs that are views: an input, or another output. If several outputs
        are views of a tensor that is none, and overlap, it becomes an output."""
        self._check_bases()
        for _, value in self._views:
            root = root_of(value)
            if self._base_that_outlives(value) is None and overlap(self._outputs_of(root)):
                self.tensor(root)
        for view, value in self._views:
            base = self._base_that_outlives(value)
            if base is not None:
                view.base = self.recipe(base)
                view.access, params = joined_access(value, base)
                view.params = SameObject(params) if is_fixed(params) else self.recipe(params)

    def _check_bases(self) -> None:
        """Refuses the trace if it makes an outside tensor a view of another that outlives it."""
        state = self._tracer.state
        for path, base in state.bases.items():
            now = base_of(state.values[path])
            if now is not base and now is not None and self._outlives(now):
                self._tracer.refuse(f"{path}.data becomes a view of another tensor that outlives "
                                    "the call")

    def _base_that_outlives(self, view: Tensor) -> Tensor | None:
        """The nearest base of a view that outlives the call. The root may lie beyond it, where the
        run cannot reach it: an argument may be a view itself."""
        return next((base for base in bases_of(view) if self._outlives(base)), None)

    def _outlives(self, tensor: Tensor) -> bool:
        """True if a tensor that the run read or made outlives the call."""
        return id(tensor) in self._of_tensor or id(tensor) in self._tracer.state.paths \
            or self._tracer.identity_of(tensor) is not None

    def _outputs_of(self, root: Tensor) -> list[Tensor]:
        """The outputs that are views of a tensor."""
        return [value for _, value in self._views if root_of(value) is root]

    def _number(self, formula: ScalarExpr) -> Recipe:
        self.formulas.append(formula)
        return NumberOf(formula)

    def _shared(self, value: Any) -> Recipe:
        """The recipe of an object that the run made: each call makes it once, however often it
        occurs in the result."""
        if id(value) in self._recipes:
            rebuilt = self._recipes[id(value)]
            if rebuilt is None:
                return self._refuse(f"an object of class {type(value).__name__} contains itself")
            rebuilt.shared = True
            return rebuilt
        self._recipes[id(value)] = None
        self._referenced.append(value)
        rebuilt = self._recipes[id(value)] = RebuiltObject(self._recipe_of(value),
                                                           len(self._recipes))
        return rebuilt

    def _recipe_of(self, value: Any) -> Recipe:
        kind = type(value)
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, value)
        if isinstance(value, tuple) and not kind.__dictoffset__ and not attributes(value):
            return self._filled("named tuple", value, SameObject(kind))
        if kind is types.FunctionType and _is_constant(value):
            return SameObject(value)
        if _is_plain_object(value):
            return self._object(value)
        return self._refuse(f"an object of class {kind.__name__} is created in the call and "
                            "outlives it")

    def _refuse(self, why: str) -> Recipe:
        self._tracer.refuse(why)
        return SameObject(None)

    def _filled(self, kind: str, values: Iterable[Any], *first: Recipe) -> Recipe:
        """The recipe of a container with the parts `first`, then the recipes of `values`."""
        return BuiltContainer(kind, (*first, *map(self.recipe, values)))

    def _items(self, kind: str, value: Any) -> Recipe:
        return BuiltContainer(kind,
                              tuple([BuiltContainer("tuple", (self.recipe(k), self.recipe(v)))
                                     for k, v in value.items()]))

    def _defaultdict(self, value: Any) -> Recipe:
        items = self._items("dict", value)
        return BuiltContainer("defaultdict", (self.recipe(value.default_factory), items))

    def _partial(self, value: Any) -> Recipe:
        return self._filled("partial", (value.func, value.args, dict(value.keywords)))

    def _object(self, value: Any) -> Recipe:
        """The recipe of an object of a user's class."""
        cls = type(value)
        self._check_class(cls)
        fields = {name: self.recipe(v) for name, v in attributes(value).items()}
        return UserObject(cls, fields, frozenset(getattr(value, "__dict__", ())))

    def _check_class(self, cls: type) -> None:
        """Refuses the trace if the run made the class, since each call makes another one."""
        state = self._tracer.state
        if "<locals>" in cls.__qualname__ and id(cls) not in state.paths and \
                Path("class", cls) not in state.values:
            self._tracer.refuse(f"the class {cls.__name__} is created in the call and "
                                "outlives it")


_RULES: dict[type, Callable[[OutputSpecBuilder, Any], Recipe]] = {
    list: lambda outputs, value: outputs._filled("list", value),
    tuple: lambda outputs, value: outputs._filled("tuple", value),
    set: lambda outputs, value: outputs._filled("set", value),
    frozenset: lambda outputs, value: outputs._filled("frozenset", value),
    dict: lambda outputs, value: outputs._items("dict", value),
    OrderedDict: lambda outputs, value: outputs._items("OrderedDict", value),
    Counter: lambda outputs, value: outputs._items("Counter", value),
    defaultdict: OutputSpecBuilder._defaultdict,
    deque: lambda outputs, value: outputs._filled("deque", value, SameObject(value.maxlen)),
    functools.partial: OutputSpecBuilder._partial,
    slice: lambda outputs, value: outputs._filled("slice", (value.start, value.stop, value.step)),
    types.MethodType: lambda outputs, value: outputs._filled(
        "method", (value.__func__, value.__self__)),
}


def _is_constant(function: types.FunctionType) -> bool:
    """True if an inner function does not depend on the call."""
    return not (function.__closure__ or function.__defaults__ or function.__kwdefaults__
                or function.__dict__)


def _is_plain_object(value: Any) -> bool:
    """True if an object consists of its attributes only."""
    cls = type(value)
    constructor: Any = cls.__new__
    return constructor is object.__new__ and not hasattr(cls, "__del__") and \
        not hasattr(cls, "__captured__") and not is_hidden(cls) and \
        (hasattr(value, "__dict__") or hasattr(cls, "__slots__")) and \
        weakref.getweakrefcount(value) == 0
