"""Functions that a module calls around its forward, and around its way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.function import Function
from ...autograd.hooks import RemovableHandle
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError


class Hooks:
    """The hooks of one module, by kind, in the order they are called in."""

    FILE = __file__

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.after: dict[int, Any] = {}
        self.backward: dict[int, Any] = {}
        self.backward_before: dict[int, Any] = {}

    def add(self, kind: str, hook: Any, prepend: bool, *options: bool) -> RemovableHandle:
        """The handle of `hook`, entered with its options."""
        if not callable(hook):
            raise DTypeError(f"a hook is a function, not {type(hook).__name__}",
                             "as in module.register_forward_hook(lambda module, args, out: None)")
        return RemovableHandle(getattr(self, kind), (hook, *options), prepend)

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What module.forward gives, with everything that is to be called around it."""
        called: set[int] = set()
        try:
            return self._call(module, args, kwargs, called)
        except Exception:
            for number, (hook, with_kwargs, always) in list(self.after.items()):
                if always and number not in called:
                    hook(module, args, kwargs, None) if with_kwargs else hook(module, args, None)
            raise

    def _call(self, module: Any, args: Any, kwargs: Any, called: set[int]) -> Any:
        for hook, with_kwargs in list(self.before.values()):
            args, kwargs = _prepared(hook, with_kwargs, module, args, kwargs)
        way_back = _WayBack(self, module) if self.backward or self.backward_before else None
        if way_back is not None:
            args = way_back.arguments(args)
        out = module.forward(*args, **kwargs)
        for number, (hook, with_kwargs, _) in list(self.after.items()):
            called.add(number)
            given = hook(module, args, kwargs, out) if with_kwargs else hook(module, args, out)
            out = out if given is None else given
        return out if way_back is None else way_back.results(out)


def _prepared(hook: Any, with_kwargs: bool, module: Any, args: Any, kwargs: Any) -> Any:
    if not with_kwargs:
        given = hook(module, args)
        return (args if given is None else given if isinstance(given, tuple) else (given,)), kwargs
    given = hook(module, args, kwargs)
    if given is None:
        return args, kwargs
    if not isinstance(given, tuple) or len(given) != 2:
        raise DTypeError("a forward pre-hook with kwargs returns None or a pair (args, kwargs), "
                         f"not {type(given).__name__}", "return args, kwargs")
    return given


class _Through(Function):
    """Tensors as they are; `seen` gets their gradients on the way back, and may replace them."""

    @staticmethod
    def forward(ctx: Any, seen: Callable[..., Any], *tensors: Tensor) -> Any:
        ctx.seen = seen
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, *ctx.seen(gradients)


class _WayBack:
    """One call of a module with backward hooks: knows the gradients of its results and arguments.

    `seen` at the results runs before `seen` at the arguments, since the way back begins there.
    """

    def __init__(self, hooks: Hooks, module: Any) -> None:
        self._hooks, self._module = hooks, module
        self._grad_output: tuple[Any, ...] = ()
        self._count, self._places, self._waits = 0, [0], False

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self._count = len(args)
        passed, self._places = _through(self._at_arguments, args)
        self._waits = any(isinstance(x, Tensor) and x.requires_grad for x in passed)
        return passed

    def results(self, out: Any) -> Any:
        """`out`, a tensor or a tuple, with the gradients of its tensors seen."""
        listed = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        self._outputs = len(listed)
        passed, self._out_places = _through(self._at_results, listed)
        if isinstance(out, tuple) and hasattr(out, "_fields"):
            return type(out)(*passed)
        return type(out)(passed) if isinstance(out, (tuple, list)) else passed[0]

    def _at_results(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        grads = _spread(gradients, self._out_places, self._outputs)
        for (hook,) in list(self._hooks.backward_before.values()):
            grads = _chosen(self._module, hook(self._module, grads), grads)
        self._grad_output = grads
        if not self._waits:  # no gradient goes further, so this is the moment
            for (hook,) in list(self._hooks.backward.values()):
                hook(self._module, (None,) * self._count, grads)
        return tuple(grads[i] for i in self._out_places)

    def _at_arguments(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        grads = _spread(gradients, self._places, self._count)
        for (hook,) in list(self._hooks.backward.values()):
            grads = _chosen(self._module, hook(self._module, grads, self._grad_output), grads)
        return tuple(grads[i] for i in self._places)


def _through(seen: Callable[..., Any], values: tuple[Any, ...]) -> tuple[Any, list[int]]:
    """`values` with their tensors passed through `seen`, and where those stand."""
    places = [i for i, x in enumerate(values) if isinstance(x, Tensor)]
    passed = list(values)
    if any(values[i].requires_grad for i in places):
        for i, x in zip(places, _Through.apply(seen, *[values[i] for i in places])):
            passed[i] = x
    return tuple(passed), places


def _spread(gradients: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
    found: list[Any] = [None] * count
    for i, g in zip(places, gradients):
        found[i] = g
    return tuple(found)


def _chosen(module: Any, given: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a hook returned in the place of `grads`, or those."""
    if given is None:
        return grads
    chosen = given if isinstance(given, tuple) else (given,)
    name = type(module).__name__
    if len(chosen) != len(grads):
        raise DTypeError(f"a backward hook of {name} returned {len(chosen)} gradients in the place "
                         f"of {len(grads)}", "return a tuple with one for each, or None")
    for i, (new, g) in enumerate(zip(chosen, grads)):
        if new is not None and g is not None and new.shape != g.shape:
            raise ShapeError(f"a backward hook of {name} returned a gradient of shape {new.shape} "
                             f"in the place of gradient {i}, of shape {g.shape}",
                             "a gradient has the shape of the tensor it belongs to")
    return chosen
