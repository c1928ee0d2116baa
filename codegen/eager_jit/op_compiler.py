"""Compiles eager ops on large arrays: all threads, one pass over memory, recycled memory.

An op qualifies if each row of its result depends on one row of each input. The rows are single
elements for pointwise ops, and the unreduced axes for reductions. The op is compiled for one block
of rows and run over any number of rows.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.call_key import call_key
from ...capture.graph.graph import Graph, Node, Nodes, param_key
from ...capture.graph.graph_builder import literal
from ...capture.heap.code_tracker import unobserved
from ...capture.runtime.specialization_cache import Specializations
from ...eager.arrays import cpu_kernels
from ...eager.arrays.dtypes import is_small
from ...eager.arrays.shapes import TensorType, product
from ...eager.core import dispatch
from ...eager.core.op import Op
from ...eager.errors import CodegenError
from ...eager.fork_safety import held_while_forking
from ...eager.ops.declare import dtype_of_operands
from ...eager.ops.range_checks import in_range
from ...eager.settings import settings
from ..cache.program_cache import cached_program
from ..compile import lower_graph
from ..cpu_backend import machine_of
from ..llvm.row_blocks import RowBlocks
from ..program.native_call import ProgramCall
from ..program.native_program import (
    Argument,
    NativeProgram,
    ProgramStep,
    WrittenProgram,
    slot_of,
    write,
)
from ..runtime.target import host
from .exact import call_for_shapes, is_long
from .max_pool_grad import max_pool_back
from .op_call import Call, OpCall, is_broadcast, numpy_nanoseconds, program_for
from .scatter_add import add_at

_BLOCK_ELEMENTS = 1 << 14  # of a block of rows, which fits into the innermost caches
_MAX_ROW_ELEMENTS = 1 << 17  # longer rows are left to NumPy
_REDUCTION_ROW_ELEMENTS = 1 << 11  # of a row, where a reduction of everything is cut into rows
_MIN_REDUCTION_ROWS = 1 << 5  # of such a reduction; smaller ones are left to NumPy
# An op draws so many numbers with NumPy before its program is compiled: that takes as long as
# compiling. A call counts as at least so many numbers, since it has a fixed cost.
_NUMBERS_BEFORE_COMPILING = 1 << 22
_MIN_NUMBERS_COUNTED_PER_CALL = 1 << 12
_RANDOM_ROW, _SHORT_RANDOM_ROW = 1 << 10, 1 << 6  # numbers; the short one serves small calls
_REDUCE_ROWS_PARAMS = {"axis": (1,), "keepdims": False}

Shape = tuple[int, ...]

KERNELS: dict[str, Callable[..., Any]] = {"add_at": add_at, "max_pool_back": max_pool_back}
"""Hand-written kernels of scatter-add ops, by op."""


class RowSplit(NamedTuple):
    """The rows of a call. `axes`: the number of leading axes of the result that are rows.
    `has_rows`: for each input, True if it has a row for each row of the result; otherwise all rows
    read all of it. `row_parts`: each input's other axes. `row`: those of the result."""

    axes: int
    rows: int
    has_rows: tuple[bool, ...]
    row_parts: tuple[Shape, ...]
    row: Shape

    @property
    def longest(self) -> int:
        """The elements of the longest row that is read or written."""
        moving = [part for has_rows, part in zip(self.has_rows, self.row_parts) if has_rows]
        return max([int(product(axes)) for axes in (self.row, *moving)])


class CachedCall(NamedTuple):
    """The plan of a call, and the (input, bound) pairs of its index inputs."""

    bounds: tuple[tuple[int, int], ...]
    call: Call


_CALLS: Specializations[CachedCall] = Specializations("eager calls")
_LEFT_TO_NUMPY = CachedCall((), lambda inputs: None)  # of calls that are left to NumPy


def run(op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """op(*inputs) for arrays and numbers; None if NumPy is as good."""
    if not settings.compile:
        return None
    how = op if op.work is None else (op, settings.winograd, settings.winograd_training)
    key = call_key(how, inputs, params, _input_key)
    cached = _CALLS.find(key)
    if cached is None:
        return _on_miss(op, inputs, params, key)
    if cached is _LEFT_TO_NUMPY:
        return None
    if cached.bounds and not all([in_range(inputs[i], n) for i, n in cached.bounds]):
        return None
    results = cached.call(inputs)
    return None if results is None else results[0]


def _on_miss(op: Op, inputs: Sequence[Any], params: dict[str, Any], key: Any) -> Any:
    """Plans, caches and runs a call that is not in the cache; None if NumPy is as good."""
    types = [TensorType(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in inputs]
    out = op.result(*types, **params)
    if is_small(out.dtype):  # where NumPy rounds, eager does
        return None
    if not _may_compile(op, types, params):
        _CALLS.add(key, _LEFT_TO_NUMPY)
        return None
    bounds = () if op.bounds is None else tuple(op.bounds(*types, **params))
    if not all([in_range(inputs[i], n) for i, n in bounds]):
        return None  # the op's own implementation has the error
    with unobserved():  # files that the compiler reads are no effects of a traced function
        call = _creation_call(op, inputs, types, out, params) if op.kind == "create" else \
            _make_call(op, inputs, types, out, params)
    if call is None and op.kind == "reduce" and len(params["axis"]) == len(types[0].shape):
        call = functools.partial(_reduce_in_two_steps, op, params)
    if call is None:
        return None
    results = _CALLS.add(key, CachedCall(bounds, call)).call(inputs)
    return None if results is None else results[0]


def _may_compile(op: Op, types: Sequence[Any], params: dict[str, Any]) -> bool:
    """True if there may ever be code for a call."""
    if op.work is not None:
        return is_long(op, types, params)
    return op.rows is not None or op.name in KERNELS or op.kind in ("pointwise", "reduce", "create")


def _make_call(op: Op, inputs: Sequence[Any], types: list[Any], out: TensorType,
               params: dict[str, Any]) -> Call | None:
    """The function for calls with inputs of these types; None if they have no code."""
    if op.name in KERNELS:
        run = KERNELS[op.name](types, out, params, _PROGRAMS)
        return None if run is None else OpCall(run).run
    if op.work is not None:
        return call_for_shapes(op, types, params, _PROGRAMS)
    broadcast = broadcast_inputs(inputs) if op.kind == "pointwise" else ()
    if op.kind == "reduce" and is_broadcast(inputs[0]):
        return None
    types = [TensorType((1,) * t.ndim, t.dtype) if i in broadcast else t
             for i, t in enumerate(types)]
    split = split_rows(op, types, out, params)
    program = None if split is None else _program(op, types, out, params, split)
    if split is None or program is None:
        has_shape_kernel = op.kind in ("composite", "sort") and op.rows is not None
        return call_for_shapes(op, types, params, _PROGRAMS) if has_shape_kernel else None
    reads = [i for i, x in enumerate(inputs) if not _is_constant(x)]
    is_plain = len(reads) == len(inputs) and not broadcast \
        and all([isinstance(x, np.ndarray) for x in inputs])
    return OpCall(ProgramCall(program, len(reads), [out], rows=split.rows),
                  None if is_plain else reads, broadcast, dtype_of_operands(tuple(types)),
                  out.size >> 3).run


def _input_key(x: Any) -> tuple[Any, ...]:
    """The key of all that the code and the plan of a call depend on in an input."""
    if isinstance(x, np.ndarray):
        return x.shape, x.dtype, not x.flags.c_contiguous and is_broadcast(x)
    return param_key(x) if _is_constant(x) else (float,)


def broadcast_inputs(inputs: Sequence[Any]) -> tuple[int, ...]:
    """The numbers of the inputs that are broadcast."""
    return tuple([i for i, x in enumerate(inputs) if isinstance(x, np.ndarray) and is_broadcast(x)])


def _creation_call(op: Op, inputs: Sequence[Any], types: Sequence[Any], out: TensorType,
                   params: dict[str, Any]) -> Call | None:
    """The function for an op that creates elements from their indices."""
    if not op.draws or len(inputs) > 1:
        return call_for_shapes(op, types, params, _PROGRAMS) if out.size >= dispatch.LARGE else None
    if not out.size or not (op.same_bits or out.size >= dispatch.LARGE):
        return None
    row = _SHORT_RANDOM_ROW if out.size <= _SHORT_RANDOM_ROW else _RANDOM_ROW
    _NUMBERS_DRAWN[op.name, out.dtype, row] += max(out.size, _MIN_NUMBERS_COUNTED_PER_CALL)
    if op.same_bits and _NUMBERS_DRAWN[op.name, out.dtype, row] < _NUMBERS_BEFORE_COMPILING:
        return None
    return _random_call(op, out, params, row)


def _random_call(op: Op, out: TensorType, params: dict[str, Any], row: int) -> Call | None:
    """Draws random numbers as rows of `row` numbers: a number depends on its index, not on the
    total."""
    key = (op.name, row, *[(k, param_key(v)) for k, v in params.items() if k != "shape"])
    program = program_for(_PROGRAMS, key, op.name,
                          lambda: _random_program(op, params, out.dtype, row), float(out.size))
    if program is None:
        return None
    rows, size, shape = -(-out.size // row), out.size, out.shape
    call = OpCall(ProgramCall(program, 2, [TensorType((rows * row,), out.dtype)], rows=rows)).run
    before = np.arange(rows) * (row // 64)

    def draw(inputs: Sequence[Any]) -> list[Any] | None:
        results = call([inputs[0], before])
        return None if results is None else [results[0][:size].reshape(shape)]

    return draw


def _random_program(op: Op, params: dict[str, Any], dtype: Any, row: int) -> NativeProgram:
    """The program for a row of `row` random numbers."""
    nodes = Nodes()
    inputs = tuple([nodes.input(name, TensorType((size,), np.dtype(np.int64)))
                    for name, size in (("state", 2), ("before", 1))])
    numbers = nodes.apply(op.name, inputs, {**params, "shape": (row,)})
    return compile_block(Graph(inputs, (numbers,)), 1, [0, 8, row * dtype.itemsize], op.name)


def _is_constant(x: Any) -> bool:
    """True if a number is compiled into the code: the 2 of x ** 2 and the 0.5 of x ** 0.5, but not
    the 0.1 of x * 0.1."""
    return not isinstance(x, (np.ndarray, TensorType)) and (
        not isinstance(x, float) or (2 * x).is_integer())


# ---- which axes are rows
def split_rows(op: Op, types: Sequence[Any], out: TensorType, params: dict[str, Any]
               ) -> RowSplit | None:
    """The row split of an op; None if it has no rows, one row, or very long ones."""
    shapes = [t.shape if isinstance(t, TensorType) else () for t in types]
    if op.kind == "pointwise":
        shapes = [(1,) * (len(out.shape) - len(s)) + s for s in shapes]
        axes = min([_common_axes(s, out.shape) for s in shapes])
    elif op.kind == "reduce":
        axes = min(params["axis"], default=0)
    else:
        counts = op.rows(*types, **params) if op.rows is not None else (0,)
        axes, shapes = max(counts), [(1,) * (max(counts) - n) + s for n, s in zip(counts, shapes)]
    return _split(shapes, out.shape, axes)


def _split(shapes: Sequence[Shape], out: Shape, axes: int) -> RowSplit | None:
    """The split at so many leading axes, where each input has the rows of the result, or ones."""
    lead, ones = out[:axes], (1,) * axes
    full = tuple([s[:axes] == lead for s in shapes])
    if not all([has_rows or s[:axes] == ones for has_rows, s in zip(full, shapes)]):
        return None
    split = RowSplit(axes, product(lead), full, tuple([s[axes:] for s in shapes]), out[axes:])
    return split if split.rows > 1 and 0 < split.longest <= _MAX_ROW_ELEMENTS else None


def _common_axes(shape: Shape, out: Shape) -> int:
    """The number of leading axes in which `shape` equals `out`, or is all ones."""
    pairs = list(zip(shape, out))
    equal = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    ones = next((i for i, (a, _) in enumerate(pairs) if a != 1), len(pairs))
    return max(equal, ones)


def _reduce_in_two_steps(op: Op, params: dict[str, Any], inputs: Sequence[Any]
                         ) -> list[Any] | None:
    """Reduces everything to one number: short rows first, then their results."""
    x = inputs[0]
    if not x.flags.c_contiguous or x.size < _MIN_REDUCTION_ROWS * _REDUCTION_ROW_ELEMENTS:
        return None
    flat = x.reshape(-1)
    count = x.size // _REDUCTION_ROW_ELEMENTS * _REDUCTION_ROW_ELEMENTS
    partial = run(op, (flat[:count].reshape(-1, _REDUCTION_ROW_ELEMENTS),), _REDUCE_ROWS_PARAMS)
    if partial is None:
        return None
    if count < x.size:
        partial = np.concatenate([partial, flat[count:]])
    shape = (1,) * x.ndim if params["keepdims"] else ()
    return [op.impl(cpu_kernels, partial, axis=(0,), keepdims=False).reshape(shape)]


# ---- programs
_PROGRAMS: Specializations[Any] = Specializations("eager programs",
                                                  held_while_forking(threading.RLock()))
_NUMBERS_DRAWN: Counter[Any] = Counter()  # by ops that draw


def _program(op: Op, types: Sequence[Any], out: TensorType, params: dict[str, Any], split: RowSplit
             ) -> NativeProgram | None:
    """The program for these types; None if there is none."""
    values = [t.dtype if isinstance(t, TensorType) else param_key(t) if _is_constant(t) else float
              for t in types]
    param_items = [(k, param_key(v)) for k, v in params.items()]
    key = (op.name, *param_items, split.row, *split.row_parts, *split.has_rows, *values, split.axes,
           _block(split))
    program: NativeProgram | None = program_for(
        _PROGRAMS, key, op.name, lambda: _compiled(op, types, out, params, split),
        numpy_nanoseconds(op, types, params))
    return program


def _block(split: RowSplit) -> int:
    """The number of rows of a task."""
    return block_of(split.rows, split.longest)


def block_of(rows: int, row: int) -> int:
    """The number of rows of a task, a power of two, so that few programs are needed."""
    return 1 << min(rows, max(1, _BLOCK_ELEMENTS // row)).bit_length() - 1


def _compiled(op: Op, types: Sequence[Any], out: TensorType, params: dict[str, Any], split: RowSplit
              ) -> NativeProgram | None:
    """The program for a block of rows; None if `op` on a block does not give its rows."""
    nodes, dtype, block = Nodes(), dtype_of_operands(tuple(types)), _block(split)
    lead = (1,) * (split.axes - 1) + (block,)
    operands: list[Node] = []
    for number, (t, full, part) in enumerate(zip(types, split.has_rows, split.row_parts)):
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
    has_rows = [full for t, full in zip(types, split.has_rows) if not _is_constant(t)]
    strides = [full * _bytes(n.type) // block for n, full in zip(inputs, has_rows)]
    rows = TensorType(lead + split.row, out.dtype)
    result = nodes.apply(op.name, _broadcast_operands(nodes, op, operands, rows.shape), params)
    if result.type != rows:
        return None
    return compile_block(Graph(inputs, (result,)), block, [*strides, _bytes(rows) // block],
                         op.name)


def _bytes(t: TensorType) -> int:
    return int(t.size * t.dtype.itemsize)


def _broadcast_operands(nodes: Nodes, op: Op, operands: list[Node], shape: Shape) -> list[Node]:
    """The operands of an elementwise op. The first one is broadcast if otherwise the result would
    not have this shape, since broadcast inputs come without their axes."""
    if op.kind != "pointwise" or np.broadcast_shapes(*[n.type.shape for n in operands]) == shape:
        return operands
    return [nodes.apply("broadcast_to", operands[:1], {"shape": shape}), *operands[1:]]


def compile_block(graph: Graph, block: int, strides: list[int], name: str) -> NativeProgram:
    """The program for a block of rows. Raises CodegenError if it takes more than one kernel."""
    target = host()
    machine = replace(machine_of(target), threads=1)

    def written() -> tuple[WrittenProgram, None]:
        plan, launches = lower_graph(graph, machine)
        slots = {b: Argument(i) for b, i in plan.arguments.items()}
        if len(slots) != len(strides) or len(launches) != 1 \
                or any(p.buffer not in slots for p in launches[0].views):
            raise CodegenError("there are constants, or values beside the kernel's own, or none")
        kernel, views = launches[0].kernel, launches[0].views
        step = ProgramStep(kernel, [slot_of(p, slots) for p in views])
        return write([step], name, target, RowBlocks(block, strides, kernel.cost)), None

    return cached_program(graph, target, (machine, block, strides, name), written)[0]
