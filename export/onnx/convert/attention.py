"""Matches attention, from the product with the values back to query and key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import size_expr_of
from ....eager.arrays.shapes import product
from ....eager.ops.products.contract import parts
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue

SINCE = 23  # the first opset with the operator
Users = Mapping[Node, Sequence[Node]]


class Operand(NamedTuple):
    """A node, with its axes in the order examples, heads, positions, features."""

    node: Node
    perm: tuple[int, ...]


class MatrixProduct(NamedTuple):
    """A matrix product for each example and head, which sums the last axis but one of `right`.

    Several heads of `left` may share one head of `right`.
    """

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

    def write(self, c: WriterContext, xs: list[OnnxValue]) -> OnnxValue:
        key, value = (c.writer.permuted(x, y.perm) for x, y in zip(xs[1:], (self.key, self.value)))
        masks = [] if self.mask is None else [self._full_mask(c, xs[3])]
        return c.writer.op("Attention", [xs[0], key, value, *masks], xs[0].dtype,
                           scale=self.scale, is_causal=int(self.causal))

    def _full_mask(self, c: WriterContext, mask: OnnxValue) -> OnnxValue:
        """The mask with all its rows and columns, which runtimes require."""
        assert self.mask is not None
        own = self.mask.type.shape
        rows = self.query.type.shape[2], self.key.node.type.shape[self.key.perm[2]]
        return c.expand(mask, own, (*own[:-2], *rows))


def attention(node: Node, users: Users) -> Attention | None:
    """The attention whose result is `node`, or None.

    No other node may read an intermediate value. No row of the mask may exclude all keys, as
    runtimes differ in the result of such rows.
    """
    last = _product(node, users)
    if last is None or node.type.dtype.name != "float32":
        return None
    weights = last.left
    if weights.op != "softmax" or weights.params["axis"] != 3 or not _has_one_user(weights, users):
        return None
    scores, mask = _unmasked(weights.inputs[0], users)
    causal = mask is not None and _is_causal(mask, scores.type.shape)
    if mask is not None and not causal and not _keeps_a_key(mask):
        return None
    scores, scale = _unscaled(scores, users)
    first = _product(scores, users) if _has_one_user(scores, users) else None
    if first is None:
        return None
    key = Operand(first.right.node, tuple(first.right.perm[i] for i in (0, 1, 3, 2)))
    query, more = _unscaled(first.left, users)
    scale *= more
    if not (math.isfinite(scale) and scale > 0):
        return None
    return Attention(query, key, last.right, None if causal else mask, scale, causal)


def _has_one_user(node: Node, users: Users) -> bool:
    """True if one node reads it."""
    return len(users[node]) == 1


def _product(node: Node, users: Users) -> MatrixProduct | None:
    """The matrix product that a node of four axes computes, or None."""
    if node.op == "contract":
        return _matrices(node)
    if node.op != "reshape" or node.inputs[0].op != "contract" \
            or not _has_one_user(node.inputs[0], users):
        return None
    inner = _matrices(node.inputs[0])
    if inner is None or inner.left.op != "reshape" or not _has_one_user(inner.left, users):
        return None
    left = inner.left.inputs[0]
    return MatrixProduct(left, inner.right) if _are_grouped(left, inner.left) \
        and _are_grouped(node, node.inputs[0]) else None


def _matrices(node: Node) -> MatrixProduct | None:
    left, right, out = parts(node.params["spec"])
    if len(out) != 4 or left[:3] != out[:3] or len(left) != 4 or len(right) != 4 \
            or left[3] in out or set(right) != {out[0], out[1], left[3], out[3]}:
        return None
    x, y = node.inputs
    perm = tuple(right.index(a) for a in (out[0], out[1], left[3], out[3]))
    if y.op == "permute_dims":
        y, perm = y.inputs[0], tuple(y.params["axes"][i] for i in perm)
    return MatrixProduct(x, Operand(y, perm))


def _are_grouped(several: Node, grouped: Node) -> bool:
    """True if a reshape of (n, heads, l, e) stacks the rows of several heads."""
    own, other = several.type.shape, grouped.type.shape
    return len(own) == len(other) == 4 and _alike(own[0], other[0]) and _alike(own[3], other[3]) \
        and type(own[1]) is type(other[1]) is int and other[1] > 0 and own[1] % other[1] == 0 \
        and _alike(own[1] // other[1] * own[2], other[2])


def _alike(one: object, other: object) -> bool:
    return bool(size_expr_of(one) == size_expr_of(other))


def _unscaled(node: Node, users: Users) -> tuple[Node, float]:
    """A node without the number that multiplies it, and that number; 1 if there is none."""
    if node.op in ("multiply", "divide") and _has_one_user(node, users):
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
    """Scores without their mask, and the mask: booleans that select, or numbers that are added."""
    if node.op == "where" and _has_one_user(node, users):
        mask, scores, never = node.inputs
        if _is_number(never) and never.params["value"] == -math.inf and scores.type == node.type \
                and mask.type.shape:
            return scores, mask
    if node.op == "add" and _has_one_user(node, users):
        for scores, mask in (node.inputs, node.inputs[::-1]):
            if mask.op == "where" and mask.type.shape and scores.type == node.type \
                    and mask.type.dtype == scores.type.dtype:
                return scores, mask
    return node, None


def _is_causal(mask: Node, shape: Sequence[object]) -> bool:
    """True if query i may read keys 0 to i."""
    if mask.op != "greater_equal" or any(i.op != "iota" for i in mask.inputs):
        return False
    rows, columns = mask.inputs
    return rows.params["axis"] == rows.type.ndim - 2 and \
        columns.params["axis"] == columns.type.ndim - 1 and product(rows.type.shape[:-2]) == 1 and \
        _alike(product(rows.type.shape), shape[2]) and _alike(product(columns.type.shape), shape[3])


def _keeps_a_key(mask: Node) -> bool:
    """True if the construction of the mask ensures a key in each row.

    A mask passes if rows without any key are replaced by rows with all keys.
    """
    if mask.op == "logical_or":
        own, other = mask.inputs
        return other.op == "logical_not" and _is_row_any(other.inputs[0], own)
    if mask.op != "where":
        return False
    nonempty, numbers, otherwise = mask.inputs
    numbers = numbers.inputs[0] if numbers.op == "cast" else numbers
    if not _is_number(otherwise) or otherwise.params["value"] != 0 or nonempty.op != "any":
        return False
    finite = nonempty.inputs[0]
    return finite.op == "not_equal" and finite.inputs[0] is numbers and \
        finite.inputs[1].params.get("value") == -math.inf and _is_row_any(nonempty, finite)


def _is_row_any(reduced: Node, operand: Node) -> bool:
    """True if `reduced` tells for each row of `operand` whether any element is true."""
    return reduced.op == "any" and reduced.inputs[0] is operand and reduced.params["keepdims"] and \
        reduced.params["axis"] == (operand.type.ndim - 1,)
