"""What an op is: one entry that holds everything the four folders need to know about it.

An entry is declared once, in `eager/ops/`. It holds meaning as data and pure functions and imports
nothing above `eager`: backends are passed in (`xp`, `k`), upper folders keep tables by *kind*.

kind        meaning
pointwise   formula(k, *scalars, **params) -> scalar, over a builder k (NumPy, or the loop IR's)
reduce      Reduction(combine, identity): over params axis (tuple of ints) and keepdims
scan        Reduction(combine, identity): of the elements up to each, along params axis (int)
view        read(k, index, types, at, **params) -> one Source per piece: where an element comes from
sort        none: the order of the elements along params axis (int), as `sorting` says
contract    an einsum over two inputs, spelled in params["spec"]
create      value(k, index, *scalars, **params) -> scalar: an element computed from its own index
put         none: its first input, in which one row of the second after the other is written to the
            place that the third has for it
composite   decompose(*tensors, **params) -> tensor, in terms of other ops
opaque      none: runs as a call of a library; or instead(**params) -> decompose, as of a composite,
            or None: by which other ops a back end without the library does it, for these params
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..arrays.shapes import TensorType

KINDS = ("pointwise", "reduce", "scan", "view", "sort", "contract", "create", "put", "composite",
         "opaque")


@dataclass(frozen=True, eq=False)
class Op:
    """One entry. `onnx` is an operator's name where the mapping is 1:1; `why` gives, by the name of
    a fact (vjp, onnx, meaning), the reason for its absence; as "small floats" the reason why its
    meaning does not hold for float16 and bfloat16, as "cupy" why CuPy does not compute it, and as
    "fast cupy" why it takes long there."""

    name: str
    kind: str
    result: Callable[..., TensorType]  # result(*types, **params), raises ShapeError or DTypeError
    impl: Callable[..., Any]  # impl(xp, *arrays, **params)
    meaning: Any = None
    vjp: Callable[..., Any] | None = None  # vjp(needs, g, out, *inputs, **params) -> one per input
    onnx: str = ""
    why: Mapping[str, str] = field(default_factory=dict)
    bounds: Callable[..., Any] | None = None  # bounds(*types, **params): ((input, size), ...): the
    # elements of these inputs are used as indices and must be one of 0 ... size - 1
    batch: Callable[..., Any] | None = None  # over a batch at once, see ops/batching.py; None: by
    # kind, or example by example
    rows: Callable[..., tuple[int, ...]] | None = None  # rows(*types, **params): for each input how
    # many of its leading axes are rows, independent of each other and in front of the result too
    precision: str = ""  # under autocast: "low", in its dtype; "full", in float32; else as it comes
    work: Callable[..., float] | None = None  # work(*types, **params): about how many nanoseconds
    # NumPy takes, of an op that gets native code for exactly its sizes where these are many
    passes: int = 1  # over memory, about, in NumPy: an op of many is soon worth native code
    raises: bool = False  # an error for some values that code cannot look at beforehand
    whole: bool = False  # a composite that graphs keep as it is until code is chosen
    draws: bool = False  # random numbers, from the state of a generator as the first input: each by
    # its place in the result, whose shape is params["shape"] or that of the other inputs
    tests_equality: bool = False  # the result says which elements have equal bits, so no program
    # that may round its operands in another way recomputes it

    def __repr__(self) -> str:
        return f"<op {self.name}>"


class Reduction(NamedTuple):
    """A reduction: the scalar op that combines two values, and the value that changes nothing."""

    combine: str
    identity: Callable[[Any], Any]  # identity(dtype) -> Python scalar


@dataclass(frozen=True)
class Source:
    """A place a view reads: element `index` of input number `input`, where `mask` holds.

    A mask of None always holds. A view's sources are tried in order; where no mask holds the
    element is the view's `fill`.
    """

    input: int
    index: tuple[Any, ...]
    mask: Any = None


OPS: dict[str, Op] = {}


def define(op: Op) -> Op:
    """Enters `op` in the table, once."""
    if op.name in OPS:
        raise KeyError(f"op {op.name!r} is declared twice")
    if op.kind not in KINDS:
        raise KeyError(f"op {op.name!r} has unknown kind {op.kind!r}")
    OPS[op.name] = op
    return op


def each(*rules: Callable[..., Any] | None) -> Callable[..., Any]:
    """A vjp of one rule per input, rule(g, out, *inputs, **params); None: no gradient flows."""

    def vjp(needs: tuple[bool, ...], g: Any, out: Any, /, *inputs: Any, **params: Any) -> list[Any]:
        found = []
        for rule, need in zip(rules, needs):
            found.append(rule(g, out, *inputs, **params) if need and rule is not None else None)
        return found

    vjp.rules = rules  # type: ignore[attr-defined]
    return vjp
