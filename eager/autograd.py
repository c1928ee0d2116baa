"""Reverse mode: walks the tape back and adds up gradients, in our own ops.

Because every vjp is written in ops, the way back is recorded and compiled like anything else, and can
be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


from .errors import GradientError, ShapeError
from .ops import composite, create, pointwise, reduce, view
from .tape import Entry, Leaf, is_grad_enabled, set_grad_enabled
from .tensor import Tensor

Edge = Any  # Entry | Leaf


def backward(
    tensor: Tensor, gradient: Tensor | None = None, retain_graph: bool = False,
    create_graph: bool = False,
) -> None:
    """Adds d tensor / d leaf to `.grad` of every leaf that `tensor` was computed from.

    A tensor with more than one element needs `gradient`, of its shape. The tape is given up unless
    `retain_graph` or `create_graph` is set; the latter makes the gradients differentiable again.
    """
    found = _run([tensor], [gradient], None, retain_graph or create_graph, create_graph)
    for leaf, g in found.items():
        owner = leaf.tensor()
        if owner is not None:
            owner.grad = g if owner.grad is None else pointwise.add(owner.grad, g)


def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of the sum of `outputs` with respect to each of `inputs`; `.grad` stays as it is.

    GradientError for an input that the outputs do not depend on, unless `allow_unused`: then None.
    """
    outs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    ins = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or [None] * len(outs))
    for i, x in enumerate(ins):
        if x.edge is None:
            raise GradientError(f"grad: input {i} does not require a gradient",
                                "call x.requires_grad_() before computing the outputs")
    keep = create_graph if retain_graph is None else retain_graph
    found = _run(outs, given, {x.edge for x in ins}, keep, create_graph)
    result = tuple(found.get(x.edge) for x in ins)
    if None in [r if r is None else 0 for r in result] and not allow_unused:
        missing = next(i for i, r in enumerate(result) if r is None)
        raise GradientError(f"grad: the outputs do not depend on input {missing}",
                            "pass allow_unused=True to get None for it")
    return result


def _run(
    outputs: list[Tensor], gradients: list[Tensor | None], wanted: set[Edge] | None,
    keep: bool, create_graph: bool, stop: bool = False,
) -> dict[Edge, Tensor]:
    """Gradients by edge: of all leaves, or of the edges in `wanted`, past which `stop` does not go."""
    with set_grad_enabled(create_graph):
        sums: dict[Edge, Tensor] = {}
        for out, g in zip(outputs, gradients):
            _add(sums, _edge_of(out), _seed(out, g))
        order = _topological([out.edge for out in outputs], wanted if stop else None)
        found: dict[Edge, Tensor] = {}
        for edge in order:
            g = sums.pop(edge, None)
            if g is None:
                continue
            if (edge in wanted) if wanted is not None else isinstance(edge, Leaf):
                found[edge] = g
            if isinstance(edge, Entry) and not (stop and wanted and edge in wanted):
                _step(edge, g, sums)
    if not keep:
        for edge in order:
            if isinstance(edge, Entry):
                edge.arrays = edge.out = None  # type: ignore[assignment]
    return found


def _gradients_of(
    output: Tensor, inputs: list[Tensor], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """For a composite's way back: gradients at `inputs`, with a tape of their own where it is on."""
    wanted = {x.edge for x in inputs}
    found = _run([output], [gradient], wanted, True, is_grad_enabled(), stop=True)
    return tuple(found.get(x.edge) for x in inputs)


composite.gradients.of = _gradients_of


def _step(entry: Entry, g: Tensor, sums: dict[Edge, Tensor]) -> None:
    """Takes a gradient through one entry: adds to the sums of its inputs' edges."""
    if entry.arrays is None:
        raise GradientError("the tape of this result was given up by an earlier backward",
                            "pass retain_graph=True to the first one")
    inputs = [
        Tensor(a, e) if hasattr(a, "shape") else a for a, e in zip(entry.arrays, entry.edges)
    ]
    needs = tuple(e is not None for e in entry.edges)
    assert entry.op.vjp is not None
    gradients = entry.op.vjp(needs, g, Tensor(entry.out, entry), *inputs, **entry.params)
    for edge, x, gx in zip(entry.edges, inputs, gradients):
        if edge is not None and gx is not None:
            _add(sums, edge, unbroadcast(gx, x))


def _add(sums: dict[Edge, Tensor], edge: Edge, g: Tensor) -> None:
    before = sums.get(edge)
    sums[edge] = g if before is None else pointwise.add(before, g)


def _edge_of(out: Tensor) -> Edge:
    if out.edge is None:
        raise GradientError(
            "backward: this tensor does not depend on anything that requires a gradient",
            "parameters require one; for a tensor of your own call x.requires_grad_() first, "
            "and compute outside of fw.no_grad()",
        )
    return out.edge


def _seed(out: Tensor, gradient: Tensor | None) -> Tensor:
    if gradient is not None:
        if gradient.data.shape != out.data.shape:
            raise ShapeError(f"backward: gradient has shape {gradient.shape}, the tensor {out.shape}")
        return gradient
    if out.data.size != 1:
        raise GradientError(
            f"backward: a tensor of shape {out.shape} has no single gradient",
            "reduce it to one number (loss.mean()), or pass gradient= of its shape",
        )
    return create.full(out.shape, 1.0, dtype=out.dtype)


def unbroadcast(g: Tensor, x: Tensor) -> Tensor:
    """`g` summed over the axes along which `x` was broadcast, so that it has the shape of `x`."""
    if g.data.shape == x.data.shape:
        return g
    extra = g.data.ndim - x.data.ndim
    axes = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(x.data.shape) if n == 1 and g.data.shape[i + extra] != 1
    )
    return view.reshape(reduce.sum(g, axis=axes), x.shape)


def _topological(roots: list[Edge], stop: set[Edge] | None) -> list[Edge]:
    """Every edge reachable from `roots` without going past `stop`, users before what they use."""
    seen: set[Edge] = set()
    order: list[Edge] = []
    stack: list[tuple[Edge, bool]] = [(r, False) for r in roots]
    while stack:
        edge, ready = stack.pop()
        if ready:
            order.append(edge)
        elif edge not in seen:
            seen.add(edge)
            stack.append((edge, True))
            if isinstance(edge, Entry) and not (stop and edge in stop):
                stack.extend((e, False) for e in edge.edges if e is not None)
    order.reverse()
    return order


