"""Implements reverse mode: walks the tape backwards and sums gradients.

A vjp consists of ops, so a backward can be traced, compiled and differentiated like any code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from .. import interpreter
from ..arrays import devices
from ..arrays.dtypes import float32
from ..arrays.shapes import same
from ..core.tape import MODE, Entry, Leaf, is_grad_enabled, set_grad_enabled, with_tape
from ..core.tensor import Tensor, as_tensor
from ..errors import DTypeError, GradientError, ShapeError
from ..ops import create
from ..ops.elementwise import pointwise
from ..ops.reduction import reduce
from ..ops.shape import view
from ..upper_layer import UPPER
from .anomaly import WATCHING, watched
from .hooks import run_accumulate_hooks, run_tensor_hooks
from .visits import leading_to, leaves_when_due, topological

__all__ = ["backward", "grad"]

Edge = Any  # Entry | Leaf
MIN_NATIVE_ELEMENTS = 1 << 13  # from this size on an upper layer may run the vjp of an entry
_ONE = np.ones((), float32)  # the gradient of a loss by itself; arrays never change


def backward(
    tensor: Tensor | Sequence[Tensor], gradient: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds the gradient of `tensor` to `.grad` of every leaf that it depends on.

    Args:
        tensor: a tensor, or several.
        gradient: gradient of `tensor`, of its shape and dtype; one for each of several. Default
            None: 1, for a tensor with one element.
        retain_graph: retains the tape for another backward. Default: create_graph.
        create_graph: makes the gradients differentiable. Default False.
        inputs: only these tensors, leaves or not, get a gradient. Default None: all leaves.

    Raises:
        GradientError: nothing requires a gradient, the tape was freed, or a tensor with several
            elements or a complex one has no `gradient`.
        ShapeError, DTypeError: `gradient` does not fit `tensor`.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """
    keep = create_graph if retain_graph is None else retain_graph
    if isinstance(tensor, Tensor):
        outs, seeds = [tensor], [gradient]
    else:
        outs = list(tensor)
        seeds = _one_for_each("backward", outs, gradient)
    if inputs is None:
        outer, _CALLBACKS.waiting = _CALLBACKS.waiting, None
        try:
            _run(outs, seeds, None, keep, create_graph)
            _run_callbacks()
        finally:  # after an error the functions of this backward are dropped
            _CALLBACKS.waiting = outer
        return
    targets = _with_edges("backward", _listed(inputs))
    gradients = _run(outs, seeds, {x.edge for x in targets}, keep, create_graph)
    for x in {id(x): x for x in targets}.values():
        if x.edge in gradients:
            _accumulate(x, gradients[x.edge], create_graph)


@overload
def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    allow_unused: Literal[False] | None = None, materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    allow_unused: bool | None = None, materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...


def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    allow_unused: bool | None = None, materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs` by each of `inputs`; `.grad` stays unchanged.

    Args:
        outputs: a tensor, or several.
        inputs: tensors to differentiate by, one or several.
        grad_outputs: gradients of the outputs. Default None: 1, for an output with one element.
        retain_graph: retains the tape for another backward. Default: create_graph.
        create_graph: makes the gradients differentiable. Default False.
        allow_unused: gives None for inputs that the outputs do not depend on. Default False.
        materialize_grads: gives zeros for such inputs. Default False.

    Raises:
        GradientError: an unused input, or one that requires no gradient; see `backward` for others.
        ShapeError, DTypeError: a gradient in grad_outputs does not fit its output.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor(3.0, requires_grad=True)
        >>> fw.grad(x * x, x)
        (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise GradientError("grad: materialize_grads=True and allow_unused=False contradict",
                            "zeros are for the inputs that are not used: leave allow_unused out")
    outs, ins = _listed(outputs), _with_edges("grad", _listed(inputs))
    seeds = _one_for_each("grad", outs, grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    gradients = _run(outs, seeds, {x.edge for x in ins}, keep, create_graph)
    detached = pointwise.alias if create_graph else _value_of  # inputs may share a gradient
    result = tuple(detached(gradients[x.edge]) if x.edge in gradients else None for x in ins)
    if materialize_grads:
        return tuple(create.zeros_like(x) if g is None else g for g, x in zip(result, ins))
    unused = [i for i, g in enumerate(result) if g is None]
    if unused and not allow_unused:
        raise GradientError(
            f"grad: the outputs do not depend on input {unused[0]}, {_described(ins[unused[0]])}",
            "was a copy of it used, or its .detach()? Pass allow_unused=True to get None "
            "for it, materialize_grads=True to get zeros")
    return result


def detach_(tensor: Tensor) -> Tensor:
    """`tensor` itself, cut off from the tape: it becomes a leaf without gradient.

    Example:
        >>> import fusewire as fw
        >>> y = fw.tensor(2.0, requires_grad=True) * 3
        >>> y.detach_().requires_grad
        False
    """
    tensor.edge = None
    return tensor


def _value_of(g: Tensor) -> Tensor:
    """The gradient in a new tensor, off the tape."""
    return Tensor(g._data)


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _one_for_each(name: str, outs: list[Tensor], gradients: Any) -> list[Any]:
    """A gradient, or None, for each of `outs`."""
    seeds = [None] * len(outs) if gradients is None else _listed(gradients)
    if len(seeds) != len(outs):
        raise GradientError(f"{name}: {len(outs)} outputs and {len(seeds)} grad_outputs",
                            "give one for each output, or None")
    return seeds


def _with_edges(name: str, inputs: list[Any]) -> list[Any]:
    if not inputs:
        raise GradientError(f"{name}: no inputs are given", "name the tensors to differentiate by")
    for i, x in enumerate(inputs):
        if as_tensor(name, x).edge is None:
            raise GradientError(f"{name}: input {i} does not require a gradient: {_described(x)}",
                                "call x.requires_grad_() before computing the outputs")
    return inputs


def _described(x: Tensor) -> str:
    return f"{x.dtype.name} of shape {x.shape}"


def _run(
    outputs: list[Tensor], gradients: list[Any], targets: set[Edge] | None,
    keep: bool, create_graph: bool, stop: bool = False,
) -> dict[Edge, Tensor]:
    """Gradients of the edges `targets`, with `stop` not beyond them; None: adds to all leaves."""
    casting = interpreter.set_casting(None)  # the backward runs in the dtypes of the forward
    try:
        return with_tape(create_graph, _walk, outputs, gradients, targets, keep, create_graph, stop)
    finally:
        interpreter.set_casting(casting)


def _walk(
    outputs: list[Tensor], gradients: list[Any], targets: set[Edge] | None,
    keep: bool, create_graph: bool, stop: bool,
) -> dict[Edge, Tensor]:
    sums: dict[Edge, Any] = {}
    collected: dict[Edge, Tensor] = {}
    for out, g in zip(outputs, gradients):
        _add(sums, out.edge or _no_edge(out), _seed(out, g), out._data)
    visits = topological(list(sums), targets if stop else None)
    if targets is None:
        _check_not_freed(visits)
        visits = leaves_when_due(visits)
    useful = None if targets is None else leading_to(targets, visits)
    step, back = (watched(_step), watched(_back)) if WATCHING.on else (_step, _back)
    for edge in visits:
        g = sums.pop(edge, None)
        if g is None:
            continue
        kind = type(edge)
        if kind is not Entry and kind is not Leaf:
            g = run_tensor_hooks(edge, g)
        if targets is not None:
            if edge in targets:
                collected[edge] = g
                if stop:
                    continue
            if edge not in useful:  # type: ignore[operator]
                continue
        if kind is Entry:
            step(edge, g, sums, useful, keep)
        elif isinstance(edge, Entry):
            back(edge, g, sums, useful, keep)
        elif targets is None:
            _reached(edge, g, create_graph)
    return collected


def _check_not_freed(visits: list[Edge]) -> None:
    """Raises GradientError for a tape that was freed in part, before any `.grad` changes."""
    for edge in visits:
        if type(edge) is Entry:
            if edge.arrays is None:
                raise freed_tape_error(edge)
        elif isinstance(edge, Entry) and edge.is_freed:
            raise freed_tape_error(edge)


class _Callbacks(threading.local):
    """The functions that wait for the end of the backward of each thread."""

    waiting: dict[Callable[[], None], None] | None = None


_CALLBACKS = _Callbacks()


def queue_callback(function: Callable[[], None]) -> bool:
    """Calls `function` once at the end of the backward that runs now, after all gradients are set.
    For hooks, which may queue it any number of times; True at the first time."""
    if _CALLBACKS.waiting is None:
        _CALLBACKS.waiting = {}
    is_first = function not in _CALLBACKS.waiting
    _CALLBACKS.waiting[function] = None
    return is_first


def _run_callbacks() -> None:
    for function in _CALLBACKS.waiting or ():
        function()


def _reached(leaf: Leaf, g: Tensor, create_graph: bool) -> None:
    """Adds the gradient that reached a leaf, if its tensor still exists."""
    owner = leaf.tensor()
    if owner is None:
        return
    if create_graph or owner.grad is not None:
        _accumulate(owner, g, create_graph)
    else:  # a new tensor, since g may be the gradient of other leaves too
        owner.grad = _value_of(g)
    if type(leaf) is not Leaf:
        run_accumulate_hooks(leaf, owner)


def _accumulate(owner: Tensor, g: Tensor, create_graph: bool) -> None:
    before = owner.grad
    if before is None:
        owner.grad = pointwise.alias(g) if create_graph else _value_of(g)
    elif before.edge is None:
        owner.grad = pointwise.add(before, g)
    else:
        with set_grad_enabled(True):
            owner.grad = pointwise.add(before, g)


def gradients_between(
    outputs: Sequence[Tensor], gradients: Sequence[Any], edges: Sequence[Edge], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Gradients at `edges`, not beyond them; None at those that no output leads to."""
    on_tape = [(x, g) for x, g in zip(outputs, gradients) if x.edge is not None]
    collected = _run([x for x, _ in on_tape], [g for _, g in on_tape], set(edges), True,
                     create_graph, stop=True)
    return tuple(collected.get(edge) for edge in edges)


def leads_outside(edges: Sequence[Edge], inner: set[Edge], through: set[Edge]) -> bool:
    """True if the backward from `edges` reaches a leaf, or an edge of `inner` that is in `through`.

    It stops at each of `inner`, the tensors that a function was called with.
    """
    visits = topological(list(edges), inner)
    return any(e in through or (isinstance(e, Leaf) and e not in inner) for e in visits)


def gradients_of(
    output: Tensor, inputs: list[Tensor], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients at `inputs`, for the vjp of a composite; on the tape if the tape is on."""
    return gradients_between([output], [gradient], [x.edge for x in inputs], is_grad_enabled())


def _step(
    entry: Entry, g: Tensor, sums: dict[Edge, Any], useful: set[Edge] | None, keep: bool
) -> None:
    """Takes a gradient through one entry: adds to the sums of its inputs' edges."""
    arrays, edges, params = entry.arrays, entry.edges, entry.params
    if arrays is None:
        raise freed_tape_error(entry)
    if interpreter.in_use and devices.AMBIENT.device != (device := devices.of(g._data)):
        with devices.making_on(device):  # the vjp creates tensors on the device of its operands
            return _step(entry, g, sums, useful, keep)
    if (not interpreter.in_use or interpreter.STATE.active is None) \
            and (entry.out.size >= MIN_NATIVE_ELEMENTS
                 or getattr(arrays[0], "size", 0) >= MIN_NATIVE_ELEMENTS) \
            and _step_at_once(entry, g, sums, useful):
        if not keep:
            entry.arrays = entry.out = None  # type: ignore[assignment]
        return
    out = Tensor(entry.out, entry)
    if len(edges) == 1:
        inputs: Any = (Tensor(arrays[0], edges[0]),)
    else:
        inputs = [array if edge is None and not hasattr(array, "shape") else Tensor(array, edge)
                  for array, edge in zip(arrays, edges)]
    vjp: Any = entry.op.vjp
    rules = getattr(vjp, "rules", None)
    if rules is not None:  # a vjp made by `each`: calling its rules one by one is faster
        for edge, array, rule in zip(edges, arrays, rules):
            if edge is not None and rule is not None and (useful is None or edge in useful):
                gx = rule(g, out, *inputs, **params)
                if edge in sums or gx is None or not same(gx._data.shape, array.shape):
                    _add(sums, edge, gx, array)
                else:
                    sums[edge] = gx
    else:
        needs = _needs(edges, useful)
        for edge, need, x, gx in zip(edges, needs, arrays, vjp(needs, g, out, *inputs, **params)):
            if need:
                _add(sums, edge, gx, x)
    if not keep:
        entry.arrays = entry.out = None  # type: ignore[assignment]


def _needs(edges: Sequence[Edge], useful: set[Edge] | None) -> tuple[bool, ...]:
    """True for each of these edges that needs a gradient."""
    return tuple([edge is not None and (useful is None or edge in useful) for edge in edges])


def _step_at_once(
    entry: Entry, g: Tensor, sums: dict[Edge, Any], useful: set[Edge] | None
) -> bool:
    """True if an upper layer ran the vjp natively: of a large entry, without create_graph."""
    if UPPER.large_vjp is None or MODE.enabled:
        return False
    edges = entry.edges
    if devices.in_use and devices.is_elsewhere(entry.out):
        return False
    input_gradients = UPPER.large_vjp(entry, _needs(edges, useful), g._data)
    if input_gradients is None:
        return False
    for edge, array, gx in zip(edges, entry.arrays, input_gradients):
        if gx is not None:
            _add(sums, edge, Tensor(gx), array)
    return True


def _back(
    edge: Any, g: Any, sums: dict[Edge, Any], useful: set[Edge] | None, keep: bool
) -> None:
    """`_step` for an entry of a subclass."""
    edge.back(g, sums, useful, keep, _step)


def freed_tape_error(entry: Entry) -> GradientError:
    """The error for an entry whose arrays were freed."""
    return GradientError(
        f"backward: the tape of this result was freed by an earlier backward, at its op "
        f"{entry.op.name}",
        "pass retain_graph=True to the first one, or compute the result again; in a training loop, "
        "a tensor from the step before needs .detach()")


def _add(sums: dict[Edge, Any], edge: Edge, g: Tensor | None, array: Any) -> None:
    """Adds the gradient of the tensor over `array` to the sum of its edge."""
    if g is None:
        return
    if not same(g._data.shape, array.shape):
        g = sum_to(g, array.shape)
    before = sums.get(edge)
    sums[edge] = g if before is None else pointwise.add(before, g)


def _no_edge(out: Tensor) -> Edge:
    raise GradientError(
        f"backward: this tensor, {_described(out)}, does not depend on anything that requires a "
        "gradient",
        "parameters require one; for a tensor of your own call x.requires_grad_() first, "
        "and compute outside of fw.no_grad()",
    )


def _seed(out: Tensor, gradient: Any) -> Tensor:
    if gradient is not None:
        seed = as_tensor("backward", gradient)
        if not same(seed._data.shape, out._data.shape):
            raise ShapeError(f"backward: gradient has shape {seed.shape}, the tensor {out.shape}",
                             "pass a gradient of the tensor's shape")
        if seed.dtype != out.dtype:
            raise DTypeError(f"backward: gradient is {seed.dtype.name}, the tensor "
                             f"{out.dtype.name}",
                             "cast it: gradient.astype(x.dtype); NumPy's floats are float64")
        return seed
    shape, dtype = out._data.shape, out._data.dtype
    if dtype.kind == "c":
        raise GradientError("backward: grad can be created only for real scalar outputs, this one "
                            f"is {dtype.name}", "take abs() or real of it, or pass gradient=")
    if shape and out._data.size != 1:
        raise GradientError(
            f"backward: a tensor of shape {out.shape} has no single gradient",
            "reduce it to one number (loss.mean()), or pass gradient= of its shape",
        )
    if interpreter.in_use or shape or dtype is not float32:
        return create.full(shape, 1.0, dtype, out.device)
    return Tensor(_ONE)


def unbroadcast(g: Tensor, x: Tensor) -> Tensor:
    """`g` summed over the axes along which `x` was broadcast; of the shape of `x`."""
    return sum_to(g, x._data.shape)


def sum_to(g: Tensor, to_shape: tuple[Any, ...]) -> Tensor:
    """`g` summed over the axes along which `to_shape` would broadcast; of that shape."""
    from_shape = g._data.shape
    if same(from_shape, to_shape):
        return g
    extra = len(from_shape) - len(to_shape)
    lead = tuple(range(extra))
    ones = tuple(i + extra for i, n in enumerate(to_shape) if n == 1 and from_shape[i + extra] != 1)
    if not ones:
        return reduce.sum(g, axis=lead)
    summed = reduce.sum(g, axis=lead + ones, keepdims=True)
    return view.reshape(summed, to_shape) if lead else summed
