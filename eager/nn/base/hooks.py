"""Calls the hooks of modules around their forward and their backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.function import Function
from ...autograd.hooks import RemovableHandle
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError


class Hooks:
    """The hooks of one module: a dict for each kind, in the order of their calls."""

    FILE = __file__

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.after: dict[int, Any] = {}
        self.backward: dict[int, Any] = {}
        self.backward_before: dict[int, Any] = {}

    def add(self, kind: str, hook: Any, prepend: bool, *options: bool) -> RemovableHandle:
        """The handle of `hook`, registered with its options."""
        if not callable(hook):
            raise DTypeError(f"a hook is a function, not {type(hook).__name__}",
                             "as in module.register_forward_hook(lambda module, args, out: None)")
        return RemovableHandle(getattr(self, kind), (hook, *options), prepend)

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of module.forward, with all hooks called around it."""
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
            args, kwargs = _apply_pre_hook(hook, with_kwargs, module, args, kwargs)
        has_backward = self.backward or self.backward_before
        backward_call = _BackwardCall(self, module) if has_backward else None
        if backward_call is not None:
            args = backward_call.arguments(args)
        out = module.forward(*args, **kwargs)
        for number, (hook, with_kwargs, _) in list(self.after.items()):
            called.add(number)
            returned = hook(module, args, kwargs, out) if with_kwargs else hook(module, args, out)
            out = out if returned is None else returned
        return out if backward_call is None else backward_call.results(out)


def _apply_pre_hook(hook: Any, with_kwargs: bool, module: Any, args: Any, kwargs: Any) -> Any:
    if not with_kwargs:
        returned = hook(module, args)
        if returned is None:
            return args, kwargs
        return (returned if isinstance(returned, tuple) else (returned,)), kwargs
    returned = hook(module, args, kwargs)
    if returned is None:
        return args, kwargs
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise DTypeError("a forward pre-hook with kwargs returns None or a pair (args, kwargs), "
                         f"not {type(returned).__name__}", "return args, kwargs")
    return returned


class _Through(Function):
    """The identity; in the backward `on_gradients` gets the gradients and may replace them."""

    @staticmethod
    def forward(ctx: Any, on_gradients: Callable[..., Any], *tensors: Tensor) -> Any:
        ctx.on_gradients = on_gradients
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, *ctx.on_gradients(gradients)


class _BackwardCall:
    """One call of a module with backward hooks: receives the gradients of results and arguments.

    The backward reaches the results before the arguments, so `_at_results` runs first.
    """

    def __init__(self, hooks: Hooks, module: Any) -> None:
        self._hooks, self._module = hooks, module
        self._grad_output: tuple[Any, ...] = ()
        self._count, self._positions, self._awaits_gradients = 0, [0], False

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """`args`, whose gradients go through `_at_arguments`."""
        self._count = len(args)
        passed, self._positions = _through(self._at_arguments, args)
        self._awaits_gradients = any(isinstance(x, Tensor) and x.requires_grad for x in passed)
        return passed

    def results(self, out: Any) -> Any:
        """`out`, a tensor or a tuple, whose gradients go through `_at_results`."""
        outputs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        self._outputs = len(outputs)
        passed, self._out_positions = _through(self._at_results, outputs)
        if isinstance(out, tuple) and hasattr(out, "_fields"):
            return type(out)(*passed)
        return type(out)(passed) if isinstance(out, (tuple, list)) else passed[0]

    def _at_results(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        grads = _spread(gradients, self._out_positions, self._outputs)
        for (hook,) in list(self._hooks.backward_before.values()):
            grads = _replaced(self._module, hook(self._module, grads), grads)
        self._grad_output = grads
        if not self._awaits_gradients:  # no argument requires a gradient: this is the last step
            for (hook,) in list(self._hooks.backward.values()):
                hook(self._module, (None,) * self._count, grads)
        return tuple(grads[i] for i in self._out_positions)

    def _at_arguments(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        grads = _spread(gradients, self._positions, self._count)
        for (hook,) in list(self._hooks.backward.values()):
            grads = _replaced(self._module, hook(self._module, grads, self._grad_output), grads)
        return tuple(grads[i] for i in self._positions)


def _through(on_gradients: Callable[..., Any], values: tuple[Any, ...]) -> tuple[Any, list[int]]:
    """`values` with their tensors passed through `on_gradients`, and the tensors' positions."""
    positions = [i for i, x in enumerate(values) if isinstance(x, Tensor)]
    passed = list(values)
    if any(values[i].requires_grad for i in positions):
        for i, x in zip(positions, _Through.apply(on_gradients, *[values[i] for i in positions])):
            passed[i] = x
    return tuple(passed), positions


def _spread(gradients: tuple[Any, ...], positions: list[int], count: int) -> tuple[Any, ...]:
    spread: list[Any] = [None] * count
    for i, g in zip(positions, gradients):
        spread[i] = g
    return tuple(spread)


def _replaced(module: Any, returned: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients that a hook returned, checked, or `grads` if it returned None."""
    if returned is None:
        return grads
    chosen = returned if isinstance(returned, tuple) else (returned,)
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
