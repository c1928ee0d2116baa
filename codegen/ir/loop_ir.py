"""Defines the loop IR. LLVM and CUDA code is emitted from it; `loop_ir_interpreter.py` runs it.

    Kernel = name, buffers, tasks, body           body runs once per task, in any order, in parallel
    Stmt   = For(var, start, stop, body, lanes)   lanes = 0: one after the other; else in lockstep
           | Assign(register, expr)               declare or set
           | Update(register, op, expr)           register = op(register, expr), in any order
           | Store(buffer, index, expr)
           | Transpose(target, source, ...)       a block of one buffer transposed into another
           | Prefetch(buffer, index, ahead, ...)  a hint: the element ahead is used soon
           | Mma(sums, rows, columns, fragments)  products of tiles added to sums of threads
           | TileDot(sums, rows, columns, ...)    a tile of sums of dot products of words
           | TileShape(rows, depth)             the shape of the `TileDot`s that follow
           | If(condition, body)
    Expr   = Const | SizeValue(size) | Var | Read(register) | Load(buffer, index, mask, other)
           | Call(op, args)

Meaning, as `interpreter` defines it: plain nested loops over scalars. Emitters add:

* A `For` with `lanes` is run as vectors (CPU) or threads (GPU); its iterations must be independent
  except for `Update`s of registers assigned outside of it, which become one reduction at its end. A
  register first assigned inside such a loop is private to each lane. Lane loops are not nested.
* A register ends with the block that first assigns it.
* `Update` may be reordered and its multiply-adds contracted, all other arithmetic is as written.
* Buffers are flat and contiguous; an index is an int64 expression counting elements. Arithmetic
  in an index never overflows; `idiv` and `imod` mean floor division by a positive divisor of a
  numerator that is not negative wherever the result is used.
* A `Load` with a mask reads nothing where the mask is false and yields `other` there.
* Expressions are interned: equal ones are one object, so `==` and `hash` are by identity.
"""

from __future__ import annotations

import struct
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from ...eager.fork_safety import held_while_forking
from .sizes import Size, is_dynamic, upper_bound

if TYPE_CHECKING:
    from .mma_layout import Fragments

DType = np.dtype[Any]
INT = np.dtype("int64")
BOOL = np.dtype("bool")


@dataclass(frozen=True, eq=False)
class KernelBuffer:
    """A flat array of `size` elements: an argument of the kernel, or scratch private to a task.

    An argument may begin inside a larger array; it then extends to the end of that array. A buffer
    of a dynamic size has room for the largest.
    """

    name: str
    dtype: DType
    size: int
    scratch: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", upper_bound(self.size))


@dataclass(frozen=True, eq=False)
class Register:
    """One scalar variable (one per lane when first assigned inside a lane loop).

    `bounds`: the least and the greatest of its values, where they are known"""

    name: str
    dtype: DType
    bounds: tuple[int, int] | None = None


class Expr:
    """Base of expressions; every expression has a dtype."""

    __slots__ = ("__weakref__",)
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Const(Expr):
    """A literal; `value` is a Python bool, int, float or complex that `dtype` holds exactly."""

    value: Any
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class SizeValue(Expr):
    """A size that is known at run time only. Emitters never see it: `codegen/dynamic` replaces it
    by arithmetic with the sizes that are passed to the kernel."""

    size: Size
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Var(Expr):
    """A loop variable, the task number, or a size given at run time."""

    name: str
    dtype: DType = INT


@dataclass(frozen=True, eq=False, slots=True)
class Read(Expr):
    """The present value of a register."""

    register: Register
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Load(Expr):
    """buffer[index], or `other` where `mask` is given and false."""

    buffer: KernelBuffer
    index: Expr
    mask: Expr | None
    other: Expr | None
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Call(Expr):
    """A scalar operation by name (`codegen.ir.scalar_ops` lists them all with their meaning)."""

    op: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class For:
    """Runs body for var = start, start + 1, ... stop - 1.

    `unroll` is a hint: how many copies of the body an emitter should keep in flight.
    """

    var: Var
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]
    lanes: int = 0
    unroll: int = 1


@dataclass(frozen=True, eq=False, slots=True)
class Assign:
    register: Register
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Update:
    """register = op(register, value) for an associative op: add, mul, maximum, minimum, or, and."""

    register: Register
    op: str
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    buffer: KernelBuffer
    index: Expr
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Transpose:
    """target[index + c * pitch + r] = source[source_index + r * source_pitch + c], r < rows <= size
    and c < size.

    The two buffers are different ones and of one dtype; it never stands inside a lane loop.
    """

    buffer: KernelBuffer
    index: Expr
    pitch: int
    source: KernelBuffer
    source_index: Expr
    source_pitch: int
    size: int
    rows: int


@dataclass(frozen=True, eq=False, slots=True)
class Prefetch:
    """A hint that the element `ahead` of this one is read, or written, soon.

    The element may lie past the end of the buffer."""

    buffer: KernelBuffer
    index: Expr
    ahead: int
    writes: bool


@dataclass(frozen=True, eq=False, slots=True)
class Mma:
    """For each thread t: sums[t * count + n] += the sum over k of rows[i * pitch + k] * columns[j *
    pitch + k].

    `fragments` gives the `count` of products of a thread, and the row i and the column j of its
    n-th product. Rows and columns are 16-bit floats, sums are float32, which may be added up in any
    order. It never stands inside a lane loop, and only GPUs have code for it."""

    sums: KernelBuffer
    rows: KernelBuffer
    columns: KernelBuffer
    fragments: Fragments


TILE_SIDE = 16  # rows of a register of the matrix unit, and words of a row


@dataclass(frozen=True, slots=True)
class TileShape:
    """Prepares for `TileDot`s of at most `rows` rows, whose depth is a multiple of `depth` words.

    It holds until the next one of the task, and changes no value."""

    rows: int
    depth: int


@dataclass(frozen=True, eq=False, slots=True)
class WordMatrix:
    """A matrix of 32-bit words in a buffer of such words, or of the elements that they consist of.

    `index` and `pitch`: where it starts, and the distance of two lines, in elements of the buffer
    `elements`: the dtype of the elements of a word"""

    buffer: KernelBuffer
    index: Expr
    pitch: int
    elements: DType


@dataclass(frozen=True, eq=False, slots=True)
class TileDot:
    """buffer[index + i * pitch + j] = the sum over k < depth of the dot product of word k of line i
    of `rows` and word j of line k of `columns`, for i < shape.rows and j < width. With `adds`, the
    sum is added.

    Products of bfloat16 are summed in any order, and subnormal numbers may count as 0; products of
    8-bit integers are exact. Elements of scratch that are not set make sums that are not set. It
    never stands inside a lane loop."""

    buffer: KernelBuffer
    index: Expr
    pitch: int
    rows: WordMatrix
    columns: WordMatrix
    shape: TileShape
    width: int
    depth: Expr
    adds: bool


@dataclass(frozen=True, eq=False, slots=True)
class If:
    condition: Expr
    body: tuple[Stmt, ...]


Stmt: TypeAlias = (
    "For | Assign | Update | Store | Transpose | Prefetch | Mma | TileShape | TileDot | If"
)


@dataclass(frozen=True)
class Matrix:
    """Elements of a buffer: row i and column j of batch element b lie at `first` + b * `batch` + i
    * `row` + j * `column`."""

    buffer: KernelBuffer
    first: int
    batch: int
    row: int
    column: int


@dataclass(frozen=True)
class Product:
    """result = left @ right, for each element of a batch: `rows` by `depth` times `depth` by
    `columns`."""

    left: Matrix
    right: Matrix
    result: Matrix
    batch: int
    rows: int
    columns: int
    depth: int


@dataclass(frozen=True, eq=False)
class Kernel:
    """`tasks` independent runs of `body`, with the task number in `task`.

    `inputs` are read, `outputs` written; a buffer in both is updated in place, element by element.
    `scratch` is private memory of a task, with undefined contents at its start. `streamed` are
    outputs that begin on a cache line and are not read soon. `cost` is the estimated work of the
    whole kernel in nanoseconds on one core, for the choice of threads. `product` describes the
    kernel as a matrix product that a library can compute instead, or is None."""

    name: str
    inputs: tuple[KernelBuffer, ...]
    outputs: tuple[KernelBuffer, ...]
    scratch: tuple[KernelBuffer, ...]
    task: Var
    tasks: int
    body: tuple[Stmt, ...]
    cost: float = 0.0
    sites: tuple[str, ...] = field(default=())
    streamed: frozenset[KernelBuffer] = frozenset()
    product: Product | None = None

    @property
    def arguments(self) -> tuple[KernelBuffer, ...]:
        """The buffers that the kernel is called with, each once, in calling order."""
        return tuple(dict.fromkeys(self.inputs + self.outputs))


_LIVE: weakref.WeakValueDictionary[tuple[Any, ...], Expr] = weakref.WeakValueDictionary()
_LOCK = held_while_forking(threading.RLock())


_E = TypeVar("_E", bound=Expr)


def _intern(key: tuple[Any, ...], kind: type[_E], *fields: Any) -> _E:
    """The unique expression of this key, created from `fields` if there is none."""
    expression = _LIVE.get(key)
    if expression is None:
        with _LOCK:  # setdefault of a WeakValueDictionary is not atomic
            expression = _LIVE.setdefault(key, kind(*fields))
    return expression  # type: ignore[return-value]


def const(value: Any, dtype: Any = INT) -> Expr:
    """The number `value` as `dtype`; 0.0 and -0.0, and 1 and True, are told apart."""
    if dtype is INT and type(value) is int:  # the common case
        return _intern(("const", INT, int, value), Const, INT.type(value).item(), INT)
    if is_dynamic(value):
        size = _intern(("size", value.expr), SizeValue, value, INT)
        return size if dtype == INT else call("cast", (size,), dtype)
    dtype = np.dtype(dtype)
    value = dtype.type(value).item()
    bits = struct.pack("<d", value) if type(value) is float else value
    key = ("const", dtype, type(value), bits)
    return _intern(key, Const, value, dtype)


def read(register: Register) -> Read:
    return _intern(("read", register), Read, register, register.dtype)


def load(
    buffer: KernelBuffer, index: Expr, mask: Expr | None = None, other: Expr | None = None
) -> Load:
    key = ("load", buffer, index, mask, other)
    return _intern(key, Load, buffer, index, mask, other, buffer.dtype)


def call(op: str, args: tuple[Expr, ...], dtype: Any) -> Call:
    dtype = np.dtype(dtype)
    return _intern(("call", op, args, dtype), Call, op, args, dtype)


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions of `e`."""
    if isinstance(e, Call):
        return e.args
    if isinstance(e, Load):
        return tuple(x for x in (e.index, e.mask, e.other) if x is not None)
    return ()


_PACK_OPS = {"pair": ("fV", 2), "pair16": ("biu", 2), "quad8": ("biu", 1)}
"""Operations that pack a word -> (kinds of its elements in memory, their largest size in bytes)."""


def packed_element_loads(e: Expr) -> list[Load] | None:
    """The loads of a word's elements as they lie in memory, or None for any other expression."""
    if not isinstance(e, Call) or e.op not in _PACK_OPS:
        return None
    kinds, max_bytes = _PACK_OPS[e.op]
    is_integer = kinds == "biu"
    operands = [x.args[0] if is_integer and isinstance(x, Call) and x.op == "cast" else x
                for x in e.args]
    loads = [x for x in operands if isinstance(x, Load) and not x.mask]
    first = loads[0] if len(loads) == len(operands) else None
    if first is None or any(x.buffer is not first.buffer for x in loads):
        return None
    kind = first.dtype.kind in "biu"
    return loads if first.dtype.itemsize <= max_bytes and kind is is_integer else None


def subexpressions(expressions: Iterable[Expr]) -> dict[Expr, None]:
    """Every expression in these expressions, each once."""
    seen: dict[Expr, None] = {}
    stack = list(expressions)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen[e] = None
            stack.extend(children(e))
    return seen


def walk(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement of `body`, outer before inner, in order."""
    for s in body:
        yield s
        if isinstance(s, (For, If)):
            yield from walk(s.body)


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions directly in a statement, without those of nested statements."""
    if isinstance(s, For):
        return (s.start, s.stop)
    if isinstance(s, If):
        return (s.condition,)
    if isinstance(s, Store):
        return (s.index, s.value)
    if isinstance(s, Transpose):
        return (s.index, s.source_index)
    if isinstance(s, Prefetch):
        return (s.index,)
    if isinstance(s, TileDot):
        return (s.index, s.rows.index, s.columns.index, s.depth)
    if isinstance(s, (Mma, TileShape)):
        return ()
    return (s.value,)
