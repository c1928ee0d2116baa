"""Attention as one operator: found from the product with the values, back to query and key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import size_expr_of
from ....eager.arrays.shapes import product
from ....eager.ops.products.contract import parts
from ..writer.context import Context
from ..writer.graph_writer import Value

SINCE = 23  # the first opset that has it
Users = Mapping[Node, Sequence[Node]]


class Operand(NamedTuple):
    """A node whose axes are taken in this order: of examples, heads, positions, features."""

    node: Node
    order: tuple[int, ...]


class MatrixProduct(NamedTuple):
    """A product of matrices, for each example and head: of rows, and of an operand whose last axis
    but one is summed. Several heads of the rows may go with one of the operand."""

    left: Node
    right: Operand


class Attention(NamedTuple):
    """softmax(query @ key.mT * scale, masked) @ value."""

    query: Node
    key: Operand
    value: Operand
    mask: Node | None
    scale: float
    causal: bool

    @property
    def inputs(self) -> tuple[Node, ...]:
        mask = () if self.mask is None else (self.mask,)
        return (self.query, self.key.node, self.value.node, *mask)

    def write(self, c: Context, xs: list[Value]) -> Value:
        key, value = (c.writer.permuted(x, y.order) for x, y in zip(xs[1:], (self.key, self.value)))
        masks = [] if self.mask is None else [self._whole_mask(c, xs[3])]
        return c.writer.op("Attention", [xs[0], key, value, *masks], xs[0].dtype,
                           scale=self.scale, is_causal=int(self.causal))

    def _whole_mask(self, c: Context, mask: Value) -> Value:
        """The mask with all its rows and columns, which runtimes ask for."""
        assert self.mask is not None
        own = self.mask.type.shape
        rows = self.query.type.shape[2], self.key.node.type.shape[self.key.order[2]]
        return c.expand(mask, own, (*own[:-2], *rows))


def attention(node: Node, users: Users) -> Attention | None:
    """What `node` is the result of, or None. Nothing else may read what lies between, and no row of
    the mask may be without a key: runtimes differ in what that gives."""
    last = _product(node, users)
    if last is None or node.type.dtype.name != "float32":
        return None
    weights = last.left
    if weights.op != "softmax" or weights.params["axis"] != 3 or not _only(weights, users):
        return None
    scores, mask = _unmasked(weights.inputs[0], users)
    causal = mask is not None and _is_causal(mask, scores.type.shape)
    if mask is not None and not causal and not _leaves_some(mask):
        return None
    scores, scale = _unscaled(scores, users)
    first = _product(scores, users) if _only(scores, users) else None
    if first is None:
        return None
    key = Operand(first.right.node, tuple(first.right.order[i] for i in (0, 1, 3, 2)))
    query, more = _unscaled(first.left, users)
    scale *= more
    if not (math.isfinite(scale) and scale > 0):
        return None
    return Attention(query, key, last.right, None if causal else mask, scale, causal)


def _only(node: Node, users: Users) -> bool:
    """Whether one other reads it."""
    return len(users[node]) == 1


def _product(node: Node, users: Users) -> MatrixProduct | None:
    """What a node of four axes is the product of."""
    if node.op == "contract":
        return _matrices(node)
    if node.op != "reshape" or node.inputs[0].op != "contract" or not _only(node.inputs[0], users):
        return None
    found = _matrices(node.inputs[0])
    if found is None or found.left.op != "reshape" or not _only(found.left, users):
        return None
    left = found.left.inputs[0]
    return MatrixProduct(left, found.right) if _are_grouped(left, found.left) \
        and _are_grouped(node, node.inputs[0]) else None


def _matrices(node: Node) -> MatrixProduct | None:
    left, right, out = parts(node.params["spec"])
    if len(out) != 4 or left[:3] != out[:3] or len(left) != 4 or len(right) != 4 \
            or left[3] in out or set(right) != {out[0], out[1], left[3], out[3]}:
        return None
    x, y = node.inputs
    order = tuple(right.index(a) for a in (out[0], out[1], left[3], out[3]))
    if y.op == "permute_dims":
        y, order = y.inputs[0], tuple(y.params["axes"][i] for i in order)
    return MatrixProduct(x, Operand(y, order))


def _are_grouped(several: Node, grouped: Node) -> bool:
    """Whether of (n, heads, l, e) the matrices of several heads are put below each other."""
    own, other = several.type.shape, grouped.type.shape
    return len(own) == len(other) == 4 and _alike(own[0], other[0]) and _alike(own[3], other[3]) \
        and type(own[1]) is type(other[1]) is int and other[1] > 0 and own[1] % other[1] == 0 \
        and _alike(own[1] // other[1] * own[2], other[2])


def _alike(one: object, other: object) -> bool:
    return bool(size_expr_of(one) == size_expr_of(other))


def _unscaled(node: Node, users: Users) -> tuple[Node, float]:
    """What is multiplied by a number, and the number; 1 where there is none."""
    if node.op in ("multiply", "divide") and _only(node, users):
        x, number = node.inputs
        if _is_number(x) and node.op == "multiply":
            x, number = number, x
        value = number.params.get("value")
        if _is_number(number) and isinstance(value, float) and x.type == node.type and value != 0:
            return x, value if node.op == "multiply" else 1 / value
    return node, 1.0


def _is_number(node: Node) -> bool:
    return node.op == "const" and not node.type.shape


# ---- masks
def _unmasked(node: Node, users: Users) -> tuple[Node, Node | None]:
    """Scores without their mask: truth values that choose, or numbers that are added."""
    if node.op == "where" and _only(node, users):
        mask, scores, never = node.inputs
        if _is_number(never) and never.params["value"] == -math.inf and scores.type == node.type \
                and mask.type.shape:
            return scores, mask
    if node.op == "add" and _only(node, users):
        for scores, mask in (node.inputs, node.inputs[::-1]):
            if mask.op == "where" and mask.type.shape and scores.type == node.type \
                    and mask.type.dtype == scores.type.dtype:
                return scores, mask
    return node, None


def _is_causal(mask: Node, shape: Sequence[object]) -> bool:
    """Whether query i may look at keys 0 to i."""
    if mask.op != "greater_equal" or any(i.op != "iota" for i in mask.inputs):
        return False
    rows, columns = mask.inputs
    return rows.params["axis"] == rows.type.ndim - 2 and \
        columns.params["axis"] == columns.type.ndim - 1 and product(rows.type.shape[:-2]) == 1 and \
        _alike(product(rows.type.shape), shape[2]) and _alike(product(columns.type.shape), shape[3])


def _leaves_some(mask: Node) -> bool:
    """Whether each row has a key that it may look at, by how the mask was made: rows that had none
    have all."""
    if mask.op == "logical_or":
        own, other = mask.inputs
        return other.op == "logical_not" and _asks_any(other.inputs[0], own)
    if mask.op != "where":
        return False
    some, numbers, otherwise = mask.inputs
    numbers = numbers.inputs[0] if numbers.op == "cast" else numbers
    if not _is_number(otherwise) or otherwise.params["value"] != 0 or some.op != "any":
        return False
    asked = some.inputs[0]
    return asked.op == "not_equal" and asked.inputs[0] is numbers and \
        asked.inputs[1].params.get("value") == -math.inf and _asks_any(some, asked)


def _asks_any(some: Node, of: Node) -> bool:
    """Whether it asks of each row if there is anything in it."""
    return some.op == "any" and some.inputs[0] is of and some.params["keepdims"] and \
        some.params["axis"] == (of.type.ndim - 1,)
