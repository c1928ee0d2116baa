"""Computes einsum by splitting it into diagonals, sums and products of two operands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ...arrays import dtypes
from ...arrays.shapes import is_one
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError, ShapeError
from ..elementwise.pointwise import alias, cast
from ..reduction import reduce
from ..shape.view import permute_dims, reshape
from .contract import LETTERS, contract
from .matrix import diagonal

__all__ = ["einsum"]

_MAX_OPERANDS_WITHOUT_ORDER = 2  # operands with one possible order of products


def einsum(spec: str, *operands: Any) -> Tensor:
    """The sum of products that `spec` spells.

    Each axis has a letter. Letters that the result lacks are summed over. "ij,jk->ik" is the matrix
    product, "ii->i" a diagonal, "...ij->...ji" exchanges the last two axes. Without "->" the result
    has the letters that occur once, in alphabetical order. More than two operands are multiplied in
    pairs, in an order that keeps the work small.

    Args:
        spec: letters of each operand, separated by commas, then "->" and those of the result.
        operands: as many tensors, or one list of them. Axes of one letter have one size, or size 1.

    Raises:
        ShapeError: `spec` is malformed or does not fit the operands.
        DTypeError: all operands are bool.

    Example:
        >>> import fusewire as fw
        >>> fw.einsum("ij,jk->ik", fw.ones(2, 3), fw.ones(3, 2))
        tensor([[3., 3.],
                [3., 3.]])
    """
    arrays = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) \
        else operands
    tensors = _same_dtype([as_tensor("einsum", x) for x in arrays])
    if len(tensors) == 2:
        product = _product(spec, (tensors[0].ndim, tensors[1].ndim))
        if product and _fit(product, tensors[0].shape, tensors[1].shape):
            return contract(tensors[0], tensors[1], product)
    names, out = _parse(spec, tuple(x.ndim for x in tensors))
    sizes = _sizes(spec, names, [x.shape for x in tensors])
    terms = [_term(x, letters, sizes) for x, letters in zip(tensors, names)]
    if len(terms) > _MAX_OPERANDS_WITHOUT_ORDER:
        for pair in _path(tuple(t[1] for t in terms), out, sizes):
            picked = [terms.pop(i) for i in sorted(pair, reverse=True)][::-1]
            terms.append(_multiply(picked, [t[1] for t in terms], out))
    return _finish(_multiply(terms, [], out), out, tensors)


Term = tuple[Tensor, str]  # a tensor, and a letter for each of its axes


def _same_dtype(tensors: list[Tensor]) -> list[Tensor]:
    if not tensors:
        raise ShapeError("einsum: takes at least one tensor", 'as in einsum("ij->ji", x)')
    dtype = tensors[0].dtype
    for x in tensors[1:]:
        dtype = dtypes.promote(dtype, x.dtype)
    if dtype.kind == "b":
        raise DTypeError("einsum: takes numbers, not bool", "cast first: x.astype(fw.int64)")
    return [cast(x, dtype) for x in tensors]


@cache
def _product(spec: str, ndims: tuple[int, int]) -> str:
    """`spec` with its result written out if it is one contraction as it stands, else an empty text.

    No letter may occur twice in an operand, or in one operand alone and not in the result.
    """
    (a, b), out = _parse(spec, ndims)
    simple = len({*a}) == len(a) and len({*b}) == len(b) and {*out} >= {*a} ^ {*b}
    return f"{a},{b}->{out}" if simple else ""


def _fit(product: str, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """True if axes of one letter are equally long, so that none is repeated."""
    sizes = dict(zip(product, left))
    pairs = [(sizes.get(c, n), n) for c, n in zip(product[len(left) + 1:], right)]
    return all(m is n or (not is_one(m) and not is_one(n) and m == n) for m, n in pairs)


# ---- parsing

@cache
def _parse(spec: str, ndims: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """The letters of each operand and of the result, with ellipses replaced by unused letters."""
    if not isinstance(spec, str):
        raise DTypeError(f"einsum: the spec is a string, not {spec!r:.80}", 'as in "ij,jk->ik"')
    inputs, arrow, out = spec.replace(" ", "").partition("->")
    names = inputs.split(",")
    for part in (*names, out):
        if any(c not in LETTERS for c in part.replace("...", "", 1)):
            raise ShapeError(f"einsum: {part!r} in {spec!r} is not made of letters and one '...'",
                             'each axis has a letter, as in "bij,bjk->bik"')
    if len(names) != len(ndims):
        raise ShapeError(f"einsum: {spec!r} names {len(names)} operands, but got {len(ndims)}",
                         "write one group of letters for each, between commas")
    free = [c for c in reversed(LETTERS) if c not in spec]
    rest = [_unnamed(spec, part, ndim) for part, ndim in zip(names, ndims)]
    ellipsis = "".join(free[:max(rest)])
    full = tuple(part.replace("...", ellipsis[len(ellipsis) - n:]) for part, n in zip(names, rest))
    if not arrow:
        every = "".join(names).replace("...", "")
        out = "..." + "".join(sorted(c for c in set(every) if every.count(c) == 1))
    out = out.replace("...", ellipsis)
    unknown = [c for c in out if c not in "".join(full) or out.count(c) > 1]
    if unknown:
        raise ShapeError(f"einsum: {unknown[0]!r} in the result of {spec!r} stands in no operand "
                         "or twice", "the result names each of its axes once")
    return full, out


def _unnamed(spec: str, part: str, ndim: int) -> int:
    """The number of axes that the ellipsis of `part` stands for."""
    named = len(part.replace("...", ""))
    if named > ndim or (named < ndim and "..." not in part):
        raise ShapeError(f"einsum: {part!r} in {spec!r} names {named} axes, the operand has {ndim}",
                         "give every axis a letter; '...' stands for all those left")
    return ndim - named


def _sizes(spec: str, names: Sequence[str], shapes: list[Any]) -> dict[str, Any]:
    """The size of each letter; axes of size 1 are repeated to the size of their letter."""
    sizes: dict[str, Any] = {}
    for letters, shape in zip(names, shapes):
        for c, n in zip(letters, shape):
            size = sizes.setdefault(c, n)
            if type(size) is int and size == 1:
                sizes[c] = n
            elif size is not n and not (type(n) is int and n == 1) and size != n:
                raise ShapeError(f"einsum {spec!r}: axis {c!r} is {size} in one place and {n} in "
                                 f"another, for shapes {', '.join(map(str, shapes))}",
                                 "axes of one letter must be equally long, or of size 1")
    return sizes


# ---- one operand, and two

def _term(x: Tensor, letters: str, sizes: dict[str, Any]) -> Term:
    """`x` with each letter once.

    A diagonal replaces axes of one letter. Axes of size 1 that would be repeated are removed.
    """
    for c in letters:
        while letters.count(c) > 1:
            i, j = letters.index(c), letters.rindex(c)
            rest = [a for a in range(x.ndim) if a not in (i, j)]
            x = diagonal(permute_dims(x, (*rest, i, j)))
            letters = "".join(letters[a] for a in rest) + c
    axes = [a for a, c in enumerate(letters) if x.shape[a] is sizes[c] or x.shape[a] == sizes[c]]
    if len(axes) < len(letters):
        x = reshape(x, tuple(x.shape[a] for a in axes))
    return x, "".join(letters[a] for a in axes)


def _path(terms: tuple[str, ...], out: str, sizes: dict[str, Any]) -> list[tuple[int, ...]]:
    """The operands to multiply in each step; the product is appended to the list of operands."""
    if not all(type(n) is int for n in sizes.values()):  # symbolic sizes: from left to right
        return [(0, 1), *[(0, len(terms) - 2 - i) for i in range(len(terms) - 2)]]
    return _cheapest(terms, out, tuple(sizes.items()))


@cache
def _cheapest(terms: tuple[str, ...], out: str, sizes: tuple[tuple[str, int], ...]
              ) -> list[tuple[int, ...]]:
    size = dict(sizes)
    one = np.empty(())
    stand_ins = [np.broadcast_to(one, tuple(size[c] for c in term)) for term in terms]
    kind = "optimal" if len(terms) <= 5 else "greedy"
    letters = "".join(dict.fromkeys("".join(terms)))
    return list(np.einsum_path(f"{','.join(terms)}->{''.join(c for c in out if c in letters)}",
                               *stand_ins, optimize=kind)[0][1:])


def _multiply(terms: list[Term], others: list[str], out: str) -> Term:
    """The product of `terms`, summed over letters that neither `others` nor the result have."""
    product = terms[0]
    for i, following in enumerate(terms[1:], 2):
        needed = {*out, *"".join(others), *"".join(t[1] for t in terms[i:])}
        product = _pair(product, following, needed)
    return _summed(product, {*out, *"".join(others)})


def _pair(a: Term, b: Term, needed: set[str]) -> Term:
    (x, left), (y, right) = _summed(a, needed | {*b[1]}), _summed(b, needed | {*a[1]})
    letters = "".join(c for c in dict.fromkeys(left + right) if c in needed)
    both = [c for c in letters if c in left and c in right]
    letters = "".join((*both, *[c for c in letters if c not in both]))
    return contract(x, y, f"{left},{right}->{letters}"), letters


def _summed(term: Term, needed: set[str]) -> Term:
    """`term` summed over the letters that are not needed."""
    x, letters = term
    axes = tuple(a for a, c in enumerate(letters) if c not in needed)
    if not axes:
        return term
    return (reduce.sum(x, axes, dtype=x.dtype), "".join(c for c in letters if c in needed))


def _finish(term: Term, out: str, tensors: list[Tensor]) -> Tensor:
    """The term with its axes in the order of `out`; a copy if it is one of the operands itself."""
    x, letters = term
    x = permute_dims(x, tuple(letters.index(c) for c in out))
    return alias(x) if any(x is t for t in tensors) else x
