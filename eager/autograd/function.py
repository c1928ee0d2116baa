"""Implements functions with a backward that the user writes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..arrays.shapes import TensorType
from ..core.dispatch import apply
from ..core.op import Op
from ..core.tape import MODE, Entry, Leaf, is_grad_enabled, no_grad
from ..core.tensor import Tensor
from ..core.transform_value import TransformValue
from ..errors import DTypeError, FusewireError, GradientError, ShapeError, running_layers
from ..ops import create
from ..ops.elementwise import pointwise
from .engine import freed_tape_error, sum_to

__all__ = ["Function", "once_differentiable"]


class Context:
    """Carries tensors and attributes from `forward` to `backward`.

    Attributes:
        needs_input_grad: a bool for each argument of forward.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True
        self._to_save: tuple[Any, ...] = ()
        self._saved: list[tuple[Any, Any]] | None = []  # array, and its edge or number as a result
        self._dirty: tuple[Any, ...] = ()
        self._constant: tuple[Any, ...] = ()
        self._joint: Any = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves tensors for `saved_tensors`; inputs and results stay on the tape.

        Raises:
            DTypeError: a value that is neither a tensor nor None.
        """
        for x in tensors:
            if x is not None and not isinstance(x, Tensor):
                raise DTypeError("save_for_backward: takes tensors or None, not "
                                 f"{type(x).__name__}", "set other values as attributes: ctx.n = n")
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The saved tensors, in their order."""
        if self._to_save:
            return self._to_save
        if self._saved is None:
            raise freed_tape_error(self._joint)
        return tuple(None if array is None else Tensor(array, self._edge(array, origin))
                     for array, origin in self._saved)

    def _edge(self, array: Any, origin: Any) -> Any:
        return ResultEntry(self._joint, origin, array) if isinstance(origin, int) else origin

    def _keep(self, inputs: tuple[Any, ...], edges: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
        """Replaces the saved tensors by arrays and edges, which breaks the reference cycle."""
        def origin(x: Tensor) -> Any:
            for i, out in enumerate(outs):
                if x is out and not any(x is y for y in self._constant):
                    return i
            return next((e for y, e in zip(inputs, edges) if x is y), x.edge)

        self._saved = [(None, None) if x is None else (x._data, origin(x)) for x in self._to_save]
        self._to_save = ()

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Marks inputs that `forward` changes in place and returns."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Marks results without gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Chooses zeros (True, the default) or None as the gradients of unused results."""
        self.materialize_grads = value


class Joint(Entry):
    """One call of a Function: collects the gradients of its results, then calls `backward` once."""

    __slots__ = ("argument_types", "ctx", "function", "layers", "result_types")
    ctx: Context
    layers: list[Any]  # the modules around the call, innermost first
    function: Any  # the class
    argument_types: tuple[TensorType | None, ...]
    result_types: tuple[TensorType | None, ...]

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        try:
            self._back(g, sums, useful, keep)
        except FusewireError as error:
            error.layers = error.layers or self.layers
            raise

    def _back(self, g: Any, sums: Any, useful: Any, keep: bool) -> None:
        if self.arrays is None:
            raise freed_tape_error(self)
        gradients = [g.get(i) for i in range(len(self.result_types))]
        if self.ctx.materialize_grads:
            gradients = [_zeros(t) if x is None and t is not None else x
                         for x, t in zip(gradients, self.result_types)]
        results = self.function.backward(self.ctx, *gradients)
        for i, gx in enumerate(self._listed(results)):
            edge = self.edges[i]
            if edge is not None and gx is not None and (useful is None or edge in useful):
                gx = self._fitted(i, gx)
                before = sums.get(edge)
                sums[edge] = gx if before is None else pointwise.add(before, gx)
        if not keep:
            self.arrays = self.ctx._saved = None  # type: ignore[assignment]

    def _listed(self, results: Any) -> tuple[Any, ...]:
        """The gradients that `backward` returned, one for each argument of `forward`."""
        gradients = tuple(results) if isinstance(results, (tuple, list)) else (results,)
        n = len(self.edges)
        if len(gradients) < n or any(x is not None for x in gradients[n:]):
            raise GradientError(f"{self.op.name}.backward returned {len(gradients)} gradients for "
                                f"the {n} arguments of forward",
                                "return one for each argument, None where there is none")
        return gradients[:n]

    def _fitted(self, i: int, g: Any) -> Tensor:
        expected: Any = self.argument_types[i]
        name = f"{self.op.name}.backward"
        if not isinstance(g, Tensor):
            raise DTypeError(f"{name} returned {type(g).__name__} as gradient of argument {i}",
                             "return a tensor, or None where there is no gradient")
        shape = g._data.shape
        extra = len(shape) - len(expected.shape)
        if extra < 0 or any(n not in (1, m) for n, m in zip(expected.shape, shape[extra:])):
            raise ShapeError(f"{name} returned a gradient of shape {g.shape} for argument {i} of "
                             f"shape {expected.shape}", "a gradient has the shape of its argument")
        return pointwise.explicit_cast(sum_to(g, expected.shape), expected.dtype)


class ResultEntry(Entry):
    """A result of a Function: passes its gradient to the joint that all results share."""

    __slots__ = ("number",)

    def __init__(self, joint: Entry, number: int, data: Any) -> None:
        super().__init__(joint.op, {}, (), (joint,), data)
        self.number = number

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        if self.arrays is None:
            raise freed_tape_error(self)
        collected = sums.setdefault(self.edges[0], {})
        before = collected.get(self.number)
        collected[self.number] = pointwise.alias(g) if before is None else pointwise.add(before, g)
        if not keep:
            self.arrays = self.out = None  # type: ignore[assignment]


class Function:
    """A function with its own backward: define `forward` and `backward`, call `apply`.

    forward(ctx, *args) returns a tensor or several, and runs off the tape; or define forward(*args)
    and setup_context(ctx, inputs, output). backward(ctx, *gradients of the results) returns a
    gradient, or None, for each argument. It consists of ops, so it can be differentiated again.

    Raises:
        GradientError: the class is instantiated; `backward` returns a wrong number of gradients.
        DTypeError: `forward` or `backward` returns something else than tensors.
        ShapeError: a gradient does not fit the shape of its argument.

    Example:
        >>> import fusewire as fw
        >>> class Cube(fw.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x ** 3
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         x, = ctx.saved_tensors
        ...         return g * 3 * x ** 2
        >>> x = fw.tensor(2.0, requires_grad=True)
        >>> Cube.apply(x).backward()
        >>> x.grad
        tensor(12.)
    """

    _op: Op
    generate_vmap_rule = True  # it consists of ops, which run over batches by themselves

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._op = Op(cls.__name__, "opaque", lambda *types: types[0], lambda xp, *arrays: arrays[0],
                     why={"vjp": "the user wrote one"})

    def __init__(self) -> None:
        raise GradientError(f"{type(self).__name__} cannot be instantiated: it is a Function",
                            f"call {type(self).__name__}.apply(...)")

    @staticmethod
    def forward(*args: Any) -> Any:
        """The result, from the context and the arguments."""
        raise NotImplementedError("a Function defines forward(ctx, *args)")

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves values for `backward`, if `forward` takes no context."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        """A gradient for each argument, from those of the results."""
        raise NotImplementedError("a Function defines backward(ctx, *gradients)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The result of `forward`, on the tape if an argument is."""
        edges = tuple([x.edge if isinstance(x, Tensor) and MODE.enabled else None for x in args])
        argument_types = tuple([_type_of(x) if isinstance(x, Tensor) else None for x in args])
        ctx = Context(tuple([e is not None for e in edges]))
        traced = next((x._data for x in args if isinstance(x, Tensor) and
                       isinstance(x._data, TransformValue)), None)
        if traced is None:
            with no_grad():
                result = cls._forward(ctx, args)
        else:
            result = traced.custom(cls, ctx, args)
        many = isinstance(result, (tuple, list))
        outs = tuple(result) if many else (result,)
        if not all(x is None or isinstance(x, Tensor) for x in outs):
            bad = next(x for x in outs if x is not None and not isinstance(x, Tensor))
            raise DTypeError(f"{cls.__name__}.forward returned {type(bad).__name__}",
                             "it returns a tensor, or a tuple of tensors")
        joint = ctx._joint = None
        if any(ctx.needs_input_grad):
            joint = ctx._joint = _joint(cls, ctx, edges, argument_types, outs)
        ctx._keep(args, edges, outs)
        tensors = tuple(_result(i, x, ctx, args, joint) for i, x in enumerate(outs))
        return tensors if many else tensors[0]

    @classmethod
    def _forward(cls, ctx: Context, args: tuple[Any, ...]) -> Any:
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args)
        result = cls.forward(*args)
        cls.setup_context(ctx, args, result)
        return result


def _joint(cls: Any, ctx: Context, edges: Any, argument_types: Any, outs: tuple[Any, ...]) -> Joint:
    joint = Joint(cls._op, {}, (), edges, None)
    joint.function, joint.ctx, joint.layers = cls, ctx, running_layers()
    joint.argument_types = argument_types
    joint.result_types = tuple([None if x is None else _type_of(x) for x in outs])
    return joint


def _type_of(x: Tensor) -> TensorType:
    return TensorType(x._data.shape, x._data.dtype)


def _result(i: int, x: Any, ctx: Context, args: tuple[Any, ...], joint: Any) -> Any:
    """Result number `i` as a new tensor, or the input that was changed in place."""
    if x is None:
        return None
    constant = joint is None or x.dtype.kind in "iub" or any(x is y for y in ctx._constant)
    if any(x is y for y in ctx._dirty):
        if not constant and isinstance(x.edge, Leaf):
            raise GradientError(
                f"{joint.op.name}: a leaf that requires a gradient was changed in place",
                "give it a copy: x.clone()")
        x.edge = x.edge if constant else ResultEntry(joint, i, x._data)
        return x
    with no_grad():
        fresh = pointwise.alias(x) if any(x is y for y in args) else x
    return Tensor(fresh._data, None if constant else ResultEntry(joint, i, fresh._data))


def _zeros(t: TensorType) -> Tensor:
    return apply(create.full_op, (), {"shape": t.shape, "value": 0.0, "dtype": t.dtype})


class _Once(Entry):
    """The end of a backward that cannot be differentiated again."""

    __slots__ = ()

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        raise GradientError(f"{self.op.name} is marked @once_differentiable: its gradient cannot "
                            "be differentiated again",
                            "write backward in ops and remove the decorator")


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`backward` run off the tape; differentiating its results is an error."""

    @functools.wraps(fn)
    def backward(ctx: Context, *gradients: Any) -> Any:
        with no_grad():
            results = fn(ctx, *gradients)
        edges = tuple([g.edge for g in gradients if isinstance(g, Tensor) and g.edge is not None])
        edges += tuple([e for e in ctx._joint.edges if e is not None])
        if not is_grad_enabled():
            return results
        end = _Once(ctx._joint.op, {}, (), edges, None)
        listed = results if isinstance(results, (tuple, list)) else (results,)
        return tuple(None if x is None else Tensor(x._data, end) for x in listed)

    return backward
