"""Reverse mode: walks the tape back and adds up gradients, in our own ops.

Because every vjp is written in ops, the way back is recorded and compiled like anything else, and
can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .dispatch import apply
from .errors import DTypeError, GradientError, ShapeError
from .ops import composite, create, pointwise, reduce, view
from .tape import MODE, Entry, Leaf, is_grad_enabled
from .tensor import Tensor, as_tensor

__all__ = ["backward", "grad"]

Edge = Any  # Entry | Leaf


def backward(
    tensor: Tensor, gradient: Tensor | None = None, retain_graph: bool = False,
    create_graph: bool = False,
) -> None:
    """Adds d tensor / d leaf to `.grad` of every leaf that `tensor` was computed from.

    A tensor with more than one element needs `gradient`, of its shape. The tape is given up unless
    `retain_graph` or `create_graph` is set; the latter makes the gradients differentiable again.

    >>> import fusewire as fw
    >>> x = fw.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    found = _run([tensor], [gradient], None, retain_graph or create_graph, create_graph)
    for leaf, g in found.items():
        owner = leaf.tensor()
        if owner is None:
            continue
        before = owner.grad
        if before is not None:
            owner.grad = pointwise.add(before, g)
        else:  # a tensor of its own: g may be the gradient of other leaves too
            owner.grad = pointwise.alias(g) if create_graph else g.detach()


def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of the sum of `outputs` with respect to each of `inputs`; `.grad` stays as it is.

    GradientError for an input that the outputs do not depend on, unless `allow_unused`: then None.

    >>> import fusewire as fw
    >>> x = fw.tensor(3.0, requires_grad=True)
    >>> fw.grad(x * x, x)
    (tensor(6.),)
    """
    outs, ins = _listed(outputs), _listed(inputs)
    given = [None] * len(outs) if grad_outputs is None else _listed(grad_outputs)
    if len(given) != len(outs):
        raise GradientError(f"grad: {len(outs)} outputs and {len(given)} grad_outputs",
                            "give one for each output, or None")
    for i, x in enumerate(ins):
        if x.edge is None:
            raise GradientError(f"grad: input {i} does not require a gradient",
                                "call x.requires_grad_() before computing the outputs")
    keep = create_graph if retain_graph is None else retain_graph
    found = _run(outs, given, {x.edge for x in ins}, keep, create_graph)
    result = tuple(found.get(x.edge) for x in ins)
    unused = [i for i, g in enumerate(result) if g is None]
    if unused and not allow_unused:
        raise GradientError(f"grad: the outputs do not depend on input {unused[0]}",
                            "pass allow_unused=True to get None for it")
    return result


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _run(
    outputs: list[Tensor], gradients: list[Any], wanted: set[Edge] | None,
    keep: bool, create_graph: bool, stop: bool = False,
) -> dict[Edge, Tensor]:
    """Gradients by edge: of all leaves, or of the edges `wanted`; with `stop` not past those."""
    before, MODE.enabled = MODE.enabled, create_graph
    try:
        sums: dict[Edge, Tensor] = {}
        for out, g in zip(outputs, gradients):
            _add(sums, out.edge or _no_edge(), _seed(out, g), out)
        order = _topological(list(sums), wanted if stop else None)
        useful = None if wanted is None else _leading_to(wanted, order)
        found: dict[Edge, Tensor] = {}
        for edge in order:
            g = sums.pop(edge, None)
            if g is None:
                continue
            if type(edge) is Leaf if wanted is None else edge in wanted:
                found[edge] = g
            if type(edge) is Entry and not (stop and edge in found):
                _step(edge, g, sums, useful)
    finally:
        MODE.enabled = before
    if not keep:
        for edge in order:
            if type(edge) is Entry:
                edge.arrays = edge.out = None  # type: ignore[assignment]
    return found


def _gradients_of(
    output: Tensor, inputs: list[Tensor], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """For a composite's way back: gradients at `inputs`, on the tape themselves where it is on."""
    if output.edge is None:
        return (None,) * len(inputs)
    wanted = {x.edge for x in inputs}
    found = _run([output], [gradient], wanted, True, is_grad_enabled(), stop=True)
    return tuple(found.get(x.edge) for x in inputs)


composite.gradients.of = _gradients_of


def _step(entry: Entry, g: Tensor, sums: dict[Edge, Tensor], useful: set[Edge] | None) -> None:
    """Takes a gradient through one entry: adds to the sums of its inputs' edges."""
    if entry.arrays is None:
        raise GradientError("the tape of this result was given up by an earlier backward",
                            "pass retain_graph=True to the first one")
    edges = entry.edges
    inputs: list[Any] = []
    for array, edge in zip(entry.arrays, edges):
        is_number = edge is None and not hasattr(array, "shape")
        inputs.append(array if is_number else Tensor(array, edge))
    out, params = Tensor(entry.out, entry), entry.params
    rules: Any = entry.op.vjp
    if hasattr(rules, "rules"):  # made by `each`: called here one by one, which is faster
        for edge, x, rule in zip(edges, inputs, rules.rules):
            if edge is not None and rule is not None and (useful is None or edge in useful):
                _add(sums, edge, rule(g, out, *inputs, **params), x)
        return
    needs = tuple([edge is not None and (useful is None or edge in useful) for edge in edges])
    for edge, need, x, gx in zip(edges, needs, inputs, rules(needs, g, out, *inputs, **params)):
        if need:
            _add(sums, edge, gx, x)


def _add(sums: dict[Edge, Tensor], edge: Edge, g: Tensor | None, x: Tensor) -> None:
    """Adds the gradient of `x` to the sum of its edge."""
    if g is None:
        return
    if g.data.shape != x.data.shape:
        g = unbroadcast(g, x)
    before = sums.get(edge)
    sums[edge] = g if before is None else pointwise.add(before, g)


def _no_edge() -> Edge:
    raise GradientError(
        "backward: this tensor does not depend on anything that requires a gradient",
        "parameters require one; for a tensor of your own call x.requires_grad_() first, "
        "and compute outside of fw.no_grad()",
    )


def _seed(out: Tensor, gradient: Any) -> Tensor:
    if gradient is not None:
        given = as_tensor("backward", gradient)
        if given.data.shape != out.data.shape:
            raise ShapeError(f"backward: gradient has shape {given.shape}, the tensor {out.shape}",
                             "pass a gradient of the tensor's shape")
        if given.dtype != out.dtype:
            raise DTypeError(f"backward: gradient is {given.dtype.name}, the tensor "
                             f"{out.dtype.name}", "cast it: gradient.astype(x.dtype)")
        return given
    shape, dtype = out.data.shape, out.data.dtype
    if shape and out.data.size != 1:
        raise GradientError(
            f"backward: a tensor of shape {out.shape} has no single gradient",
            "reduce it to one number (loss.mean()), or pass gradient= of its shape",
        )
    return apply(create.full_op, (), {"shape": shape, "value": 1.0, "dtype": dtype})


def unbroadcast(g: Tensor, x: Tensor) -> Tensor:
    """`g` summed over the axes along which `x` was broadcast, so that it has the shape of `x`."""
    from_shape, to_shape = g.data.shape, x.data.shape
    if from_shape == to_shape:
        return g
    extra = len(from_shape) - len(to_shape)
    lead = tuple(range(extra))
    ones = tuple(i + extra for i, n in enumerate(to_shape) if n == 1 and from_shape[i + extra] != 1)
    if not ones:
        return reduce.sum(g, axis=lead)
    summed = reduce.sum(g, axis=lead + ones, keepdims=True)
    return view.reshape(summed, x.shape) if lead else summed


def _topological(roots: list[Edge], stop: set[Edge] | None) -> list[Edge]:
    """Every edge reachable from `roots` without going past `stop`, users before what they use."""
    seen: set[Edge] = set()
    order: list[Edge] = []
    stack: list[Edge] = list(roots)
    while stack:  # in place of recursion, which long chains would exhaust
        edge = stack.pop()
        if edge is None:  # all that the edge below uses is in `order` now
            order.append(stack.pop())
        elif edge not in seen:
            seen.add(edge)
            if type(edge) is Leaf or (stop and edge in stop):
                order.append(edge)
                continue
            stack += (edge, None)
            for used in edge.edges:
                if used is not None and used not in seen:
                    stack.append(used)
    order.reverse()
    return order


def _leading_to(wanted: set[Edge], order: list[Edge]) -> set[Edge]:
    """The edges of `order` from which the way back comes to one of `wanted`, those included."""
    leading: set[Edge] = set(wanted)
    for edge in reversed(order):
        if type(edge) is Entry and any(e in leading for e in edge.edges):
            leading.add(edge)
    return leading
