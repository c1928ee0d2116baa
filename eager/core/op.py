"""Defines the entry of an op, which holds the facts that all layers use.

An entry is declared once, in `eager/ops/`. It holds its meaning as data and pure functions. It
imports nothing above `eager`: backends are arguments (`xp`, `k`), upper folders key tables by kind.

kind        meaning
pointwise   formula(k, *scalars, **params) -> scalar, over a builder k (NumPy, or the loop IR's)
reduce      Reduction(combine, identity): over params axis (tuple of ints) and keepdims
scan        Reduction(combine, identity): of the elements up to each, along params axis (int)
view        read(k, index, types, at, **params) -> the Sources of an element, tried in sequence
sort        none: the order of the elements along params axis (int), as `sorting` says
contract    an einsum over two inputs, spelled in params["spec"]
create      value(k, index, *scalars, **params) -> scalar: an element computed from its own index
scatter_rows
            none: its first input, with the rows of the second written one after the other at the
            indices in the third
composite   decompose(*tensors, **params) -> tensor, in terms of other ops
opaque      none: runs as a call of a library; or instead(**params) -> decompose of a composite, or
            None: the ops that a back end without the library runs for these params
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..arrays.shapes import TensorType

KINDS = ("pointwise", "reduce", "scan", "view", "sort", "contract", "create", "scatter_rows",
         "composite", "opaque")


@dataclass(frozen=True, eq=False)
class Op:
    """One op.

    `onnx`: the ONNX operator, if the mapping is 1:1.
    `why`: the reason for each absent fact (vjp, onnx, meaning). Further reasons: "small floats" why
        the meaning does not hold for float16 and bfloat16.
    `bounds`: bounds(*types, **params) returns ((input, size), ...): the elements of these inputs
        are indices, which must be in 0 ... size - 1.
    `batch`: runs a whole batch, see ops/batching.py. None: by kind, or example by example.
    `rows`: rows(*types, **params) returns for each input the number of leading axes that are
        independent rows. The result has them too.
    `precision`: the dtype under autocast: "low" is autocast's, "full" float32, "" the operands'.
    `work`: work(*types, **params) returns about the nanoseconds that NumPy takes. An op that takes
        long gets native code for its exact sizes.
    `passes`: about the passes over memory in NumPy. With more passes, native code pays for fewer
        elements.
    `raises`: True if some values cause an error that code cannot check beforehand.
    `whole`: True for a composite that stays one node until code is chosen.
    `draws`: True for random numbers from the state of a generator, which is the first input. Each
        number is computed from its index in the result, whose shape is params["shape"] or that of
        the other inputs.
    `same_bits`: True if NumPy and native code draw the same bits. Then the number of calls may
        decide which one draws, not only their sizes.
    `stored`: True if the op takes dtypes that are only stored, see `arrays/dtypes.py`: it moves,
        casts or compares elements.
    `tests_equality`: True if the result says which elements have equal bits. Then no program that
        may round its operands in another way recomputes it.
    `ordered`: True if other processes take part: each call of the op happens once, in the order of
        the program. `impl` then goes through `eager/ordered_calls.py` and takes two facts of a
        trace: `turn`, the number of the ordered op in the call, and as a last array the result of
        the ordered op before it.
    `begin`: begin(array, **params) starts an ordered op whose params have `later`, and returns a
        Future of its result: a program may compute before it waits. None: no such start.
    """

    name: str
    kind: str
    result: Callable[..., TensorType]  # result(*types, **params), raises ShapeError or DTypeError
    impl: Callable[..., Any]  # impl(xp, *arrays, **params)
    meaning: Any = None
    vjp: Callable[..., Any] | None = None  # vjp(needs, g, out, *inputs, **params) -> one per input
    onnx: str = ""
    why: Mapping[str, str] = field(default_factory=dict)
    bounds: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None
    rows: Callable[..., tuple[int, ...]] | None = None
    precision: str = ""
    work: Callable[..., float] | None = None
    passes: int = 1
    raises: bool = False
    whole: bool = False
    draws: bool = False
    same_bits: bool = False
    stored: bool = False
    tests_equality: bool = False
    ordered: bool = False
    begin: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<op {self.name}>"


class Reduction(NamedTuple):
    """A reduction: the scalar op that combines two values, and its neutral element."""

    combine: str
    identity: Callable[[Any], Any]  # identity(dtype) -> Python scalar


@dataclass(frozen=True)
class Source:
    """An element that a view reads: `index` of input number `input`, if `mask` is True.

    A mask of None is always True. The sources of an element are tried in sequence; without any the
    element is the view's `fill`.
    """

    input: int
    index: tuple[Any, ...]
    mask: Any = None


OPS: dict[str, Op] = {}


def define(op: Op) -> Op:
    """`op`, which is now in the table; KeyError if its name is taken or its kind unknown."""
    if op.name in OPS:
        raise KeyError(f"op {op.name!r} is declared twice")
    if op.kind not in KINDS:
        raise KeyError(f"op {op.name!r} has unknown kind {op.kind!r}")
    OPS[op.name] = op
    return op


def each(*rules: Callable[..., Any] | None) -> Callable[..., Any]:
    """A vjp of one rule per input, rule(g, out, *inputs, **params); None for no gradient."""

    def vjp(needs: tuple[bool, ...], g: Any, out: Any, /, *inputs: Any, **params: Any) -> list[Any]:
        gradients = []
        for rule, need in zip(rules, needs):
            gradients.append(rule(g, out, *inputs, **params) if need and rule else None)
        return gradients

    vjp.rules = rules  # type: ignore[attr-defined]
    return vjp
