"""Implements L-BFGS: Nocedal and Wright, "Numerical Optimization" (2006), algorithm 7.4 and 3.5."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from ..arguments import check_choice
from ..arrays.shapes import product
from ..core.in_place import replace
from ..core.tape import enable_grad, no_grad
from ..core.tensor import Tensor, tensor, value_of
from ..errors import ArgumentError
from ..nn.base.state import as_tensor
from ..ops.create import zeros_like
from ..ops.elementwise.pointwise import abs
from ..ops.products.contract import vecdot
from ..ops.reduction.reduce import max, sum
from ..ops.shape.join import concat
from ..ops.shape.view import reshape
from ..uninterrupted import Uninterrupted
from .base.foreach import gradient, narrowed, widened
from .base.formulas import axpy
from .base.optimizer import Optimizer, constructor_settings
from .base.state_dicts import ParameterState, State
from .line_search import Point, search


class LBFGS(Optimizer):
    """L-BFGS: steps along -H g, with H an approximate inverse Hessian from the last gradients.

    `step(closure)` makes up to `max_iter` steps. It stops early if no element of the gradient
    exceeds `tolerance_grad`, or if the loss or the parameters change by less than
    `tolerance_change`. It decides by values, so it runs eagerly inside of a compiled function.
    Source: Nocedal and Wright, "Numerical Optimization" (2006), algorithm 7.4 and section 3.5.

    Args:
        params: tensors or pairs (name, tensor), or one group; see `Optimizer`.
        lr: length of a step, or of the first trial of a line search; at least 0. Default 1.
        max_iter: most steps in one call of `step`. Default 20.
        max_eval: most calls of the closure in one call of `step`. Default None: max_iter * 5 // 4.
        tolerance_grad: the largest element of a gradient that ends the search. Default 1e-7.
        tolerance_change: the change of loss or parameters that ends it. Default 1e-9.
        history_size: number of past gradients that H is built from. Default 100.
        line_search_fn: "strong_wolfe" searches the length of each step. Default None: takes lr.

    Raises:
        ArgumentError: a negative lr, an unknown line_search_fn, a second group, or a step without
            closure.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.tensor([3.0, -4.0]))
        >>> optimizer = fw.optim.LBFGS([p], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (p * p).sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure).item()
        25.0
        >>> closure().item() < 1e-6
        True
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1, max_iter: int = 20,
        max_eval: int | None = None, tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9,
        history_size: int = 100, line_search_fn: str | None = None,
    ) -> None:
        check_choice("LBFGS", "line_search_fn", line_search_fn, (None, "strong_wolfe"))
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, constructor_settings(locals()))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds the only group; an ArgumentError if there is one already."""
        if self.param_groups:
            raise ArgumentError("LBFGS: works on one group of parameters",
                                "pass all parameters as one list")
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes steps until a limit is reached; returns the loss of the first call of `closure`.

        Args:
            closure: clears gradients, computes the loss, calls backward and returns the loss;
                required.

        Raises:
            ArgumentError: no closure.
        """
        if closure is None:
            raise ArgumentError("LBFGS: step needs a closure", "a function that clears gradients, "
                                "computes the loss, calls backward and returns the loss")
        before = self._snapshot()
        with Uninterrupted() as section:
            try:
                section.open = True
                with no_grad():
                    result = self._minimize(enable_grad(closure))
                section.open = False
                return result
            except BaseException:  # parameters may be at a trial point of the line search
                section.open = False
                self._restore(before)
                raise

    def _snapshot(self) -> tuple[list[Tensor], State]:
        """The values of the parameters and the state, which a step changes."""
        state = self.state[self._all[0]]
        return [value_of(p) for p in self._all], {
            name: list(x) if isinstance(x, list) else x for name, x in state.items()}

    def _restore(self, before: tuple[list[Tensor], State]) -> None:
        values, state = before
        with no_grad():
            for p, value in zip(self._all, values):
                replace(p, value)
        self.state[self._all[0]].clear()
        self.state[self._all[0]].update(state)

    def _minimize(self, closure: Callable[[], Any]) -> Any:
        group, state = self._settings(self.param_groups[0], False), self.state[self._all[0]]
        result = closure()
        loss, g, used = float(result), self._gradient(), 1
        state.setdefault("n_iter", 0)
        for left in reversed(range(group["max_iter"] if _largest(g) > group["tolerance_grad"]
                                   else 0)):
            d = _direction(state, g, group["history_size"])
            t = group["lr"] * (min(1.0, 1.0 / float(sum(abs(g)))) if state["n_iter"] == 1 else 1.0)
            now = Point(0.0, loss, g, _dot(g, d))
            state.update(d=d, t=t, prev_flat_grad=g, prev_loss=loss)
            if now.slope > -group["tolerance_change"]:
                break
            now, count = self._next(closure, now, t, d, group, used, left)
            used += count
            state["t"] = now.t
            changed, loss, g = math.fabs(now.loss - loss), now.loss, now.gradient
            if used >= group["max_eval"] or _largest(g) <= group["tolerance_grad"] \
                    or _largest(d * now.t) <= group["tolerance_change"] \
                    or changed < group["tolerance_change"]:
                break
        state["func_evals"] = state.get("func_evals", 0) + used
        return result

    def _next(self, closure: Any, now: Point, t: float, d: Tensor, group: Any, used: int, left: int
              ) -> tuple[Point, int]:
        """Moves the parameters along `d`; the new point and the number of calls of the closure."""
        if group["line_search_fn"] is None:
            self._move(t, d)
            if left:
                return Point(t, float(closure()), self._gradient(), 0.0), 1
            return now._replace(t=t), 0  # the last step needs no gradient after it
        x = [value_of(p) for p in self._all]

        def evaluate(t: float) -> Point:
            self._move(t, d)
            loss, g = float(closure()), self._gradient()
            for p, value in zip(self._all, x):
                replace(p, value)
            return Point(t, loss, g, _dot(g, d))

        chosen, count = search(evaluate, now, t, _largest(d), group["tolerance_change"],
                               group["max_eval"] - used)
        self._move(chosen.t, d)
        return chosen, count

    # ---- all parameters as one vector
    @property
    def _all(self) -> list[Tensor]:
        return self.param_groups[0]["params"]  # type: ignore[no-any-return]

    def _gradient(self) -> Tensor:
        """All gradients in one vector; zeros for parameters without gradient."""
        parts = [zeros_like(p) if p.grad is None else gradient(p) for p in self._all]
        return concat([reshape(widened(part), (-1,)) for part in parts])

    def _move(self, t: float, d: Tensor) -> None:
        """Adds t * d to the parameters."""
        start = 0
        for p in self._all:
            wide = widened(p.detach())
            size = product(wide.shape)
            part = reshape(d[start:start + size], wide.shape)
            replace(p, narrowed(axpy(wide, t, part), p.dtype))
            start += size

    # ---- loading
    def _load_state(self, one: ParameterState, shared: dict[Any, Any]) -> None:
        """Loads the state; PyTorch saves its numbers as tensors of one element."""
        state = self.state[one.p]
        state.clear()
        state.update({name: convert(one.saved[name]) for name, convert in _KINDS.items()
                      if name in one.saved})


def _direction(state: State, g: Tensor, history_size: int) -> Tensor:
    """-H g; adds the change since the last step to the history in `state`."""
    state["n_iter"] += 1
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
        return -g  # type: ignore[operator,no-any-return]
    gradients, steps, inverse_curvatures = state["old_dirs"], state["old_stps"], state["ro"]
    y, s = g - state["prev_flat_grad"], state["d"] * state["t"]
    curvature = _dot(y, s)
    if curvature > 1e-10:
        if len(gradients) == history_size:
            for history in (gradients, steps, inverse_curvatures):
                del history[0]
        gradients.append(y)
        steps.append(s)
        inverse_curvatures.append(1.0 / curvature)
        state["H_diag"] = curvature / _dot(y, y)
    d, coefficients = -g, []  # type: ignore[operator]
    for y, s, inverse in zip(reversed(gradients), reversed(steps), reversed(inverse_curvatures)):
        coefficients.append(_dot(s, d) * inverse)
        d = axpy(d, -coefficients[-1], y)
    d = d * state["H_diag"]
    for y, s, inverse, coefficient in zip(gradients, steps, inverse_curvatures,
                                          reversed(coefficients)):
        d = axpy(d, coefficient - _dot(y, d) * inverse, s)
    return d


def _dot(x: Tensor, y: Tensor) -> float:
    return float(vecdot(x, y))


def _largest(x: Tensor) -> float:
    return float(max(abs(x))) if x.size else 0.0


def _real(value: Any) -> float:
    return float(as_tensor(value).item())


def _vector(value: Any) -> Tensor:
    return tensor(as_tensor(value))


# The state, which the first parameter holds for all, and how to read each entry of a state dict.
_KINDS: dict[str, Callable[[Any], Any]] = {
    "func_evals": int, "n_iter": int, "d": _vector, "t": _real, "H_diag": _real, "prev_loss": _real,
    "prev_flat_grad": _vector, "old_dirs": lambda x: [*map(_vector, x)],
    "old_stps": lambda x: [*map(_vector, x)], "ro": lambda x: [*map(_real, x)]}
