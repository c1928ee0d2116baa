"""Implements jvp, which carries derivatives forward beside the values.

The tangent of a result follows from the kind of its op, or else from the vjp, whose transpose it
is. So no op has a jvp rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arrays.dtypes import is_float, kind
from ..autograd.engine import gradients_between, unbroadcast
from ..core.dispatch import apply
from ..core.op import Op
from ..core.tape import Leaf, enable_grad, is_grad_enabled
from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError
from ..ops.create import zeros_like
from ..ops.elementwise.pointwise import alias, cast
from ..ops.shape.view import expand_to
from . import tree
from .custom import as_list, run_forward
from .gradient import Tape
from .transform import Level, OfLevel, check_inner, is_of, running, tracked, untaped

__all__ = ["jvp"]

Tangents = Sequence[Tensor | None]


class Dual(OfLevel):
    """A value, `primal`, with its derivative along the direction of a jvp, `tangent`."""

    __slots__ = ("primal", "tangent")
    transform = "jvp"

    def __init__(self, level: Level, primal: Tensor, tangent: Tensor) -> None:
        self.level, self.primal, self.tangent = level, primal, tangent

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.primal._data.shape  # type: ignore[no-any-return]

    def seen(self, tensor: Any) -> tuple[Any, ...]:
        return self.primal.shape

    def first(self) -> Tensor:
        return self.primal

    def values(self, how: str, key: Any = None) -> Any:
        self.check()
        return self.primal._decide(how, any_size=True, key=key)

    def text(self) -> str:
        return f"dual({self.primal!r}, tangent={self.tangent!r})"

    def detached(self) -> Any:
        return self.primal.detach()._data

    def untaped(self) -> Dual:
        return Dual(self.level, untaped(self.primal), untaped(self.tangent))

    def parts(self) -> tuple[Any, ...]:
        return self.primal, self.tangent


class ForwardLevel(Level):
    """Runs the function for one direction."""

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        own = [is_of(x, self) for x in inputs]
        primals = tuple(x._data.primal if o else x for x, o in zip(inputs, own))
        out = apply(op, primals, params)
        if op.vjp is None or not is_float(out.dtype):
            return out
        tangents = [x._data.tangent if o else None for x, o in zip(inputs, own)]
        tangent = _rule(op, out, primals)(op, out, primals, tangents, params)
        return self._still(out) if tangent is None else Tensor(Dual(self, out, tangent))

    def call(self, function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
        """The result of a Function; tangents are the transpose of the user's backward."""
        moving = [i for i, x in enumerate(args) if is_of(x, self)]
        primals = [x._data.primal if is_of(x, self) else x for x in args]
        result, _ = run_forward(function, ctx, args, primals)
        tape = Tape("jvp", [primals[i] for i in moving])
        inner = list(primals)
        for i, x in zip(moving, tape.fresh):
            inner[i] = x
        outputs, _ = tape.run(lambda: as_list(function.apply(*inner)))
        for n, x in enumerate(as_list(result)):
            if x is not None:
                slope = _transposed_back(tape, outputs[n], [args[i]._data.tangent for i in moving])
                value = tape.shown(outputs[n])
                x._data = value._data if slope is None else Dual(self, value, slope)
        return result

    def _still(self, x: Tensor) -> Tensor:
        """`x` with a tangent of zeros."""
        return Tensor(Dual(self, x, zeros_like(x))) if is_float(x.dtype) else x


# ---- the tangent of a result
def _rule(op: Op, out: Tensor, primals: Sequence[Any]) -> Callable[..., Tensor | None]:
    if op.kind in ("reduce", "scan"):
        return _linear if op.meaning.combine == "add" else _transposed
    if op.kind == "pointwise" and any(kind(x.dtype) == "c" for x in (out, *primals)
                                      if isinstance(x, Tensor)):
        return _transposed  # a complex function may have no complex derivative
    return _RULES.get(op.kind, _transposed)


def _pointwise(op: Op, out: Tensor, primals: tuple[Any, ...], tangents: Tangents,
               params: dict[str, Any]) -> Tensor | None:
    """The tangent by the vjp: for single elements it is a factor, the same in both directions."""
    total: Tensor | None = None
    for i, t in enumerate(tangents):
        if t is None:
            continue
        g = cast(expand_to(t, out.shape), out.dtype)
        needs = tuple(i == n for n in range(len(primals)))
        part = op.vjp(needs, g, out, *primals, **params)[i]  # type: ignore[misc]
        if part is not None:
            total = part if total is None else total + part
    return None if total is None else expand_to(cast(total, out.dtype), out.shape)


def _linear(op: Op, out: Tensor, primals: tuple[Any, ...], tangents: Tangents,
            params: dict[str, Any]) -> Tensor:
    """The tangent of an op that moves or adds elements: the op of the tangents."""
    xs = []
    for x, t in zip(primals, tangents):
        is_data = isinstance(x, Tensor) and is_float(x.dtype)
        xs.append(t if t is not None else zeros_like(x) if is_data else x)
    return apply(op, tuple(xs), {**params, "fill": 0} if "fill" in params else params)


def _bilinear(op: Op, out: Tensor, primals: tuple[Any, ...], tangents: Tangents,
              params: dict[str, Any]) -> Tensor:
    (x, y), (dx, dy) = primals, tangents
    if dx is None or dy is None:
        return apply(op, (x if dx is None else dx, y if dy is None else dy), params)
    return apply(op, (dx, y), params) + apply(op, (x, dy), params)


def _transposed(op: Op, out: Tensor, primals: tuple[Any, ...], tangents: Tangents,
                params: dict[str, Any]) -> Tensor | None:
    """The tangent as the gradient of the vjp, which is linear in its incoming gradient."""
    keep = is_grad_enabled() and tracked(out, *primals, *tangents)
    needs = tuple(t is not None for t in tangents)
    with enable_grad():
        u = zeros_like(out)
        u.edge = Leaf(u)
        gradients = op.vjp(needs, u, out, *primals, **params)  # type: ignore[misc]
        pairs = [(unbroadcast(g, x), t) for g, x, t in zip(gradients, primals, tangents)
                 if t is not None and g is not None]
    (tangent,) = gradients_between([g for g, _ in pairs], [t for _, t in pairs], [u.edge], keep)
    return tangent


def _transposed_back(tape: Tape, out: Tensor, tangents: Tangents) -> Tensor | None:
    """The tangent of a result of a `Function`."""
    if out.edge is None:
        return None
    keep = is_grad_enabled() and (tape.reaches_out or tracked(*tangents))
    with enable_grad():
        u = zeros_like(out)
        u.edge = Leaf(u)
        back = tape.back([out], [u])
    (tangent,) = gradients_between(back, tangents, [u.edge], keep)
    return tangent


_RULES: dict[str, Callable[..., Tensor | None]] = {
    "pointwise": _pointwise, "view": _linear, "contract": _bilinear}


# ---- the transform
def jvp(
    f: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...],
    has_aux: bool = False,
) -> Any:
    """f(*primals) and its derivative along `tangents`: (result, tangent), of equal structure.

    Args:
        f: takes and returns tensors, or trees of tensors.
        primals: a tuple of arguments, in a floating point dtype.
        tangents: a tuple of the structure, shapes and dtypes of primals.
        has_aux: `f` returns (result, aux); aux becomes a third element. Default False.

    Raises:
        DTypeError: primals or tangents are not a tuple, not floating point, or differ in dtype.
        ShapeError: primals and tangents differ in structure or shape.

    Example:
        >>> import fusewire as fw
        >>> fw.func.jvp(fw.sin, (fw.tensor(0.0),), (fw.tensor(2.0),))
        (tensor(0.), tensor(2.))
    """
    xs, structure = _directions(primals, tangents)
    level = ForwardLevel()
    with running(level):
        own = [Tensor(Dual(level, alias(x), alias(t))) for x, t in xs]
        result = f(*tree.unflatten(structure, own))
        result, aux = tree.with_aux("jvp", result, has_aux)
        leaves, result_structure = tree.flatten(result)
        results = tree.tensors("jvp", leaves, result_structure, "the result")
        outs = [check_inner(x, "jvp") for x in results]
        extra = tree.tree_map(lambda x: x._data.primal if is_of(x, level) else x, aux)
        values = [x._data.primal if is_of(x, level) else x for x in outs]
        slopes = [x._data.tangent if is_of(x, level) else zeros_like(x) for x in outs]
    both = tree.unflatten(result_structure, values), tree.unflatten(result_structure, slopes)
    return (*both, extra) if has_aux else both


def _directions(primals: Any, tangents: Any) -> tuple[list[tuple[Tensor, Tensor]], Any]:
    """Pairs of a primal and its tangent, checked, and their structure."""
    for what, argument in (("primals", primals), ("tangents", tangents)):
        if not isinstance(argument, (tuple, list)):
            raise DTypeError(f"jvp: {what} is {type(argument).__name__}, not a tuple",
                             "one entry for each argument of the function: (x,) for one")
    leaves, structure = tree.flatten(tuple(primals))
    steps, other = tree.flatten(tuple(tangents))
    if structure != other:
        raise ShapeError(f"jvp: primals {structure} and tangents {other} differ in structure",
                         "give one tangent for each primal")
    xs = tree.tensors("jvp", leaves, structure, "primal ", tree.argument_paths)
    ts = tree.tensors("jvp", steps, other, "tangent ", tree.argument_paths)
    for label, x, t in zip(tree.argument_paths(structure), xs, ts):
        if not is_float(x.dtype) or t.dtype != x.dtype:
            raise DTypeError(f"jvp: primal {label} is {x.dtype.name}, its tangent {t.dtype.name}",
                             "both are of one floating point dtype")
        if t._data.shape != x._data.shape:
            raise ShapeError(f"jvp: primal {label} has shape {x.shape}, its tangent {t.shape}",
                             "a tangent has the shape of its primal")
    return list(zip(xs, ts)), structure
