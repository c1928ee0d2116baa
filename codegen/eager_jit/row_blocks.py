"""Eager ops on large arrays as native code: on all threads, in one pass, into recycled memory.

An op qualifies if rows of its inputs make rows of its result, each by itself: elements for
pointwise ops, what stands beside the reduced axes for reductions. It is compiled for one block of
rows and run over as many as there are, so that another number of rows needs no other code.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Graph, Node, Nodes, param_key
from ...capture.graph.graph_builder import literal
from ...eager.arrays import cpu_kernels
from ...eager.arrays.dtypes import is_small
from ...eager.arrays.shapes import TensorType, product
from ...eager.core import dispatch
from ...eager.core.op import Op
from ...eager.errors import CodegenError
from ...eager.ops.declare import dtype_of_operands
from ...eager.ops.range_checks import in_range
from ...eager.settings import settings
from ..cache.program_cache import program_of
from ..compile import lower_graph, machine_of, slot_of
from ..llvm.row_blocks import RowBlocks
from ..program.native_call import ProgramCall, contiguous
from ..program.native_program import Argument, NativeProgram, ProgramStep, WrittenProgram, write
from ..runtime.target import host
from .cache import SpecializationCache
from .exact import call_at_once, is_long
from .max_pool_grad import max_pool_back
from .scatter_add import add_at

_BLOCK = 1 << 14  # elements of a block, which stay in the innermost caches
_ROW = 1 << 17  # a row of more is left to NumPy
_PIECE = 1 << 11  # elements that a reduction of everything takes as a row,
_FEW = 1 << 5  # of which there are so many at least
_DRAWN = 1 << 9  # random numbers: fewer are left to NumPy,
_CALL = 1 << 16  # and so are the first `_AMOUNT`, which take as long as compiling, where each call
_AMOUNT = 1 << 22  # takes as long as at least `_CALL` of them
_DRAWS = 1 << 10  # random numbers that a program draws for a row
_OF_ROWS = {"axis": (1,), "keepdims": False}
_CALLS_KNOWN = 1 << 12  # kinds of calls of which is remembered how they are made

Shape = tuple[int, ...]

BY_HAND: dict[str, Callable[..., Any]] = {"add_at": add_at, "max_pool_back": max_pool_back}
"""Kernels of ops that add to places which values tell."""


class Split(NamedTuple):
    """How a call falls into rows. `axes`: how many leading axes of the result are rows. `full`: for
    each input, whether it has a row for each row of the result; else all rows read all of it.
    `parts`: each input's axes behind those. `row`: those of the result."""

    axes: int
    rows: int
    full: tuple[bool, ...]
    parts: tuple[Shape, ...]
    row: Shape

    @property
    def longest(self) -> int:
        """The elements of the longest row that is read or written."""
        moving = [part for has_rows, part in zip(self.full, self.parts) if has_rows]
        return max([int(product(axes)) for axes in (self.row, *moving)])


class RowBlockCall(NamedTuple):
    """How an op's call is made: what runs its program on arrays, and which of these are not the
    inputs as they come."""

    run: ProgramCall
    spread: tuple[int, ...]  # inputs of which one element stands everywhere
    numbers: tuple[int, ...]  # inputs that are Python's numbers but no part of the code
    dtype: Any  # of these
    arrays: tuple[int, ...]  # inputs that the program reads
    few: int  # inputs of so many elements are copied where these do not lie side by side


class CachedCall(NamedTuple):
    """How a call is made, and which inputs are indices below which numbers."""

    bounds: tuple[tuple[int, int], ...]
    call: Callable[[Sequence[Any]], Any]


_KNOWN: dict[Any, CachedCall] = {}
_LEFT = CachedCall((), lambda inputs: None)  # of calls that are left to NumPy


def run(op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """op(*inputs) for arrays and numbers; None where it is better left to NumPy."""
    if not settings.compile:
        return None
    key = key_of(op, inputs, params)
    known = _KNOWN.get(key)
    if known is None:
        return _otherwise(op, inputs, params, key)
    if known is _LEFT:
        return None
    if known.bounds and not all([in_range(inputs[i], n) for i, n in known.bounds]):
        return None
    return known.call(inputs)


def _otherwise(op: Op, inputs: Sequence[Any], params: dict[str, Any], key: Any) -> Any:
    """The same for a call that is not known, which it is afterwards if there is code for it."""
    types = [TensorType(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in inputs]
    out = op.result(*types, **params)
    if is_small(out.dtype):  # where NumPy rounds, eager does
        return None
    if not _may_pay(op, types, params):
        _remember(key, _LEFT)
        return None
    bounds = () if op.bounds is None else tuple(op.bounds(*types, **params))
    if not all([in_range(inputs[i], n) for i, n in bounds]):
        return None  # the op's own implementation has the error
    if op.kind == "create":
        call = _creating(op, inputs, types, out, params)
    else:
        call = _way(op, inputs, types, out, params)
    if call is None and op.kind == "reduce" and len(params["axis"]) == len(types[0].shape):
        call = functools.partial(_in_two, op, params)
    if call is None:
        return None
    _remember(key, CachedCall(bounds, call))
    return call(inputs)


def _may_pay(op: Op, types: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether there may ever be code for a call."""
    if op.work is not None:
        return is_long(op, types, params)
    return op.rows is not None or op.name in BY_HAND or op.kind in ("pointwise", "reduce", "create")


def _remember(key: Any, known: CachedCall) -> None:
    if len(_KNOWN) >= _CALLS_KNOWN:
        _KNOWN.clear()
    _KNOWN[key] = known


def _way(op: Op, inputs: Sequence[Any], types: list[Any], out: TensorType, params: dict[str, Any]
         ) -> Callable[[Sequence[Any]], Any] | None:
    """How calls with inputs of these types are made; None where there is no code for them."""
    if op.name in BY_HAND:
        return BY_HAND[op.name](types, out, params)  # type: ignore[no-any-return]
    if op.work is not None:
        return call_at_once(op, types, params, _PROGRAMS)
    spread = spread_of(inputs) if op.kind == "pointwise" else ()
    if op.kind == "reduce" and is_spread(inputs[0]):
        return None
    types = [TensorType((1,) * t.ndim, t.dtype) if i in spread else t for i, t in enumerate(types)]
    split = split_rows(op, types, out, params)
    program = None if split is None else _program(op, types, out, params, split)
    if split is None or program is None:
        whole = op.kind in ("composite", "sort") and op.rows is not None
        return call_at_once(op, types, params, _PROGRAMS) if whole else None
    read = tuple([i for i, x in enumerate(inputs) if not _is_constant(x)])
    numbers = tuple([i for i in read if not isinstance(inputs[i], np.ndarray)])
    run = ProgramCall(program, len(read), [out], rows=split.rows)
    call = RowBlockCall(run, spread, numbers, dtype_of_operands(tuple(types)), read, out.size >> 3)
    plain = len(read) == len(inputs) and not spread and not numbers
    return functools.partial(_called if plain else _called_with, call)


def _called(call: RowBlockCall, inputs: Sequence[Any]) -> Any:
    """The result of a known call; None where an input's elements do not lie side by side."""
    found = call.run(inputs if type(inputs) is list else [*inputs])
    return _copied(call, inputs) if found is None else found[0]


def _called_with(call: RowBlockCall, inputs: Sequence[Any]) -> Any:
    """The same where what the program reads are not just the inputs."""
    arrays = list(inputs)
    for i in call.numbers:
        arrays[i] = np.asarray(arrays[i], call.dtype)
    for i in call.spread:
        arrays[i] = arrays[i][(0,) * arrays[i].ndim + (None,)]
    return _called(call, [arrays[i] for i in call.arrays])


def _copied(call: RowBlockCall, inputs: Sequence[Any]) -> Any:
    """The same with copies of what is little, or one element everywhere."""
    arrays = list(inputs)
    for i, a in enumerate(arrays):
        if not (a.flags.c_contiguous and a.flags.aligned):
            if a.size > call.few and any(a.strides):
                return None
            arrays[i] = np.array(a, order="C")
    found = call.run(arrays)
    return None if found is None else found[0]


def key_of(op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
    """All that the code for a call and its way of being called depend on."""
    parts: list[Any] = [op] if op.work is None else \
        [op, settings.winograd, settings.winograd_training]
    for x in inputs:
        if isinstance(x, np.ndarray):
            parts += x.shape, x.dtype, is_spread(x)
        else:
            parts.append(param_key(x) if _is_constant(x) else float)
    for name, value in params.items():
        parts += name, param_key(value)
    return tuple(parts)


def is_spread(x: Any) -> bool:
    """Whether one element of `x` stands everywhere, as in the gradient of a sum."""
    return x.size > 1 and not any(x.strides)


def spread_of(inputs: Sequence[Any]) -> tuple[int, ...]:
    """Which of the inputs are such."""
    return tuple([i for i, x in enumerate(inputs) if isinstance(x, np.ndarray) and is_spread(x)])


def _creating(op: Op, inputs: Sequence[Any], types: Sequence[Any], out: TensorType,
              params: dict[str, Any]) -> Callable[[Sequence[Any]], Any] | None:
    """The call of an op that makes elements out of their indices."""
    if not op.draws or len(inputs) > 1:
        return call_at_once(op, types, params, _PROGRAMS) if out.size >= dispatch.LARGE else None
    if out.size < _DRAWN:
        return None
    _DREW[op.name, out.dtype] += max(out.size, _CALL)
    if _DREW[op.name, out.dtype] < _AMOUNT:
        return None
    return _drawn(op, out, params)


def _drawn(op: Op, out: TensorType, params: dict[str, Any]
           ) -> Callable[[Sequence[Any]], Any] | None:
    """Random numbers as rows of so many: a number's place decides, not how many there are."""
    key = (op.name, *[(k, param_key(v)) for k, v in params.items() if k != "shape"])
    program = _PROGRAMS.get(key, op.name, lambda: _drawing(op, params, out.dtype))
    if program is None:
        return None
    rows, size, shape = -(-out.size // _DRAWS), out.size, out.shape
    run = contiguous(ProgramCall(program, 2, [TensorType((rows * _DRAWS,), out.dtype)], rows=rows))
    before = np.arange(rows) * (_DRAWS // 64)
    return lambda inputs: run([inputs[0], before])[:size].reshape(shape)


def _drawing(op: Op, params: dict[str, Any], dtype: Any) -> NativeProgram | None:
    """The program for a row of random numbers."""
    nodes = Nodes()
    inputs = tuple([nodes.input(name, TensorType((size,), np.dtype(np.int64)))
                    for name, size in (("state", 2), ("before", 1))])
    numbers = nodes.apply(op.name, inputs, {**params, "shape": (_DRAWS,)})
    return built(Graph(inputs, (numbers,)), 1, [0, 8, _DRAWS * dtype.itemsize], op.name)


def _is_constant(x: Any) -> bool:
    """Whether a number becomes part of the code: the 2 of x ** 2, but not the 0.1 of x * 0.1."""
    return not isinstance(x, (np.ndarray, TensorType)) and (
        not isinstance(x, float) or x.is_integer())


# ---- which axes are rows
def split_rows(op: Op, types: Sequence[Any], out: TensorType, params: dict[str, Any]
               ) -> Split | None:
    """How the op falls into rows; None where it does not, or into one, or into very long ones."""
    shapes = [t.shape if isinstance(t, TensorType) else () for t in types]
    if op.kind == "pointwise":
        shapes = [(1,) * (len(out.shape) - len(s)) + s for s in shapes]
        axes = min([_common(s, out.shape) for s in shapes])
    elif op.kind == "reduce":
        axes = min(params["axis"], default=0)
    else:
        counts = op.rows(*types, **params) if op.rows is not None else (0,)
        axes, shapes = max(counts), [(1,) * (max(counts) - n) + s for n, s in zip(counts, shapes)]
    return _split(shapes, out.shape, axes)


def _split(shapes: Sequence[Shape], out: Shape, axes: int) -> Split | None:
    """The split at so many leading axes, where each input has the rows of the result, or ones."""
    lead, ones = out[:axes], (1,) * axes
    full = tuple([s[:axes] == lead for s in shapes])
    if not all([has_rows or s[:axes] == ones for has_rows, s in zip(full, shapes)]):
        return None
    split = Split(axes, product(lead), full, tuple([s[axes:] for s in shapes]), out[axes:])
    return split if split.rows > 1 and 0 < split.longest <= _ROW else None


def _common(shape: Shape, out: Shape) -> int:
    """How many leading axes `shape` has as `out` has them, or else has none of."""
    pairs = list(zip(shape, out))
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    ones = next((i for i, (a, _) in enumerate(pairs) if a != 1), len(pairs))
    return max(same, ones)


def _in_two(op: Op, params: dict[str, Any], inputs: Sequence[Any]) -> Any:
    """A reduction to one number as one of short rows, and of what these give."""
    x = inputs[0]
    if not x.flags.c_contiguous or x.size < _FEW * _PIECE:
        return None
    flat = x.reshape(-1)
    count = x.size // _PIECE * _PIECE
    both = run(op, (flat[:count].reshape(-1, _PIECE),), _OF_ROWS)
    if both is None:
        return None
    if count < x.size:
        both = np.concatenate([both, flat[count:]])
    shape = (1,) * x.ndim if params["keepdims"] else ()
    return op.impl(cpu_kernels, both, axis=(0,), keepdims=False).reshape(shape)


# ---- programs
_PROGRAMS = SpecializationCache()
_DREW: Counter[Any] = Counter()  # by ops that draw


def _program(op: Op, types: Sequence[Any], out: TensorType, params: dict[str, Any], split: Split
             ) -> NativeProgram | None:
    """The program for these types; None where there can be none."""
    values = [t.dtype if isinstance(t, TensorType) else param_key(t) if _is_constant(t) else float
              for t in types]
    given = [(k, param_key(v)) for k, v in params.items()]
    key = (op.name, *given, split.row, *split.parts, *split.full, *values, split.axes,
           _block(split))
    found = _PROGRAMS.get(key, op.name, lambda: _compiled(op, types, out, params, split))
    return found  # type: ignore[no-any-return]


def _block(split: Split) -> int:
    """How many rows make a task."""
    return block_of(split.rows, split.longest)


def block_of(rows: int, row: int) -> int:
    """The same of rows of so many elements: a power of two, so that few programs are needed."""
    return 1 << min(rows, max(1, _BLOCK // row)).bit_length() - 1


def _compiled(op: Op, types: Sequence[Any], out: TensorType, params: dict[str, Any], split: Split
              ) -> NativeProgram | None:
    """The program for a block of rows; None where `op` on a block does not give its rows."""
    nodes, dtype, block = Nodes(), dtype_of_operands(tuple(types)), _block(split)
    lead = (1,) * (split.axes - 1) + (block,)
    operands: list[Node] = []
    for number, (t, full, part) in enumerate(zip(types, split.full, split.parts)):
        if _is_constant(t):
            try:
                operands.append(nodes.const(*literal(t, dtype)))
            except OverflowError:  # a number beyond the dtype, which only comparisons can do with
                return None
        else:
            kind = t.dtype if isinstance(t, TensorType) else dtype
            shape = lead + part if full else part
            operands.append(nodes.input(f"x{number}", TensorType(shape, kind)))
    inputs = tuple([n for n in operands if n.op == "input"])
    has_rows = [full for t, full in zip(types, split.full) if not _is_constant(t)]
    strides = [full * _bytes(n.type) // block for n, full in zip(inputs, has_rows)]
    rows = TensorType(lead + split.row, out.dtype)
    found = nodes.apply(op.name, _as_wide(nodes, op, operands, rows.shape), params)
    if found.type != rows:
        return None
    return built(Graph(inputs, (found,)), block, [*strides, _bytes(rows) // block], op.name)


def _bytes(t: TensorType) -> int:
    return int(t.size * t.dtype.itemsize)


def _as_wide(nodes: Nodes, op: Op, operands: list[Node], shape: Shape) -> list[Node]:
    """The operands of an elementwise op, the first one broadcast where nothing else would give a
    result of this shape: elements that stand everywhere come without their axes."""
    if op.kind != "pointwise" or np.broadcast_shapes(*[n.type.shape for n in operands]) == shape:
        return operands
    return [nodes.apply("broadcast_to", operands[:1], {"shape": shape}), *operands[1:]]


def built(graph: Graph, block: int, strides: list[int], name: str) -> NativeProgram | None:
    """The program for a block of rows; None where it would take more than one kernel."""
    target = host()
    machine = replace(machine_of(target), threads=1)

    def written() -> tuple[WrittenProgram, None]:
        plan, launches = lower_graph(graph, machine)
        slots = {b: Argument(i) for b, i in plan.arguments.items()}
        if len(slots) != len(strides) or len(launches) != 1 \
                or any(p.buffer not in slots for p in launches[0].views):
            raise CodegenError("there are constants, or values beside the kernel's own, or none")
        kernel, places = launches[0].kernel, launches[0].views
        step = ProgramStep(kernel, [slot_of(p, slots) for p in places])
        return write([step], name, target, RowBlocks(block, strides, kernel.cost)), None

    try:
        return program_of(graph, target, (machine, block, strides, name), written)[0]
    except CodegenError:
        return None


dispatch.large = run
