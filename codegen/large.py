"""Eager ops on large arrays as native code: on all threads, in one pass, into recycled memory.

An op qualifies if rows of its inputs make rows of its result, each by itself: elements for
pointwise ops, what stands beside the reduced axes for reductions. It is compiled for one block of
rows and run over as many as there are, so that another number of rows needs no other code.
"""

from __future__ import annotations

import array
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..capture.builder import literal
from ..capture.graph import Graph, Node, Nodes, param_key
from ..capture.hook import unobserved
from ..eager import dispatch, kernels, memory
from ..eager.dtypes import is_small
from ..eager.errors import CodegenError
from ..eager.forking import held_while_forking
from ..eager.op import Op
from ..eager.ops.check import in_range
from ..eager.ops.declare import dtype_of_operands
from ..eager.settings import settings
from ..eager.shapes import TensorType, product
from .address import address
from .again import program_of
from .compile import compile_native, lower_graph, machine_of, slot_of
from .executable import Executable
from .llvm.blocks import Rows
from .llvm.program import Argument, NativeProgram, Step, Written, write
from .llvm.target import host
from .scatter import add_at

_BLOCK = 1 << 14  # elements of a block, which stay in the innermost caches
_ROW = 1 << 17  # a row of more is left to NumPy
_PIECE = 1 << 11  # elements that a reduction of everything takes as a row
_DRAWN = 1 << 9  # random numbers: fewer are left to NumPy,
_CALL = 1 << 16  # and so are the first `_AMOUNT`, which take as long as compiling, where each call
_AMOUNT = 1 << 22  # takes as long as at least `_CALL` of them
_DRAWS = 1 << 10  # random numbers that a program draws for a row
_VARIANTS = 32  # programs of one op; beyond, its shapes change too often to compile for

Shape = tuple[int, ...]

BY_HAND: dict[str, Callable[..., Any]] = {"add_at": add_at}
"""Kernels of ops that have no meaning by element."""


class Split(NamedTuple):
    """How many leading axes are rows; for each input whether it has them, and the axes after."""

    axes: int
    rows: int
    full: tuple[bool, ...]
    parts: tuple[Shape, ...]


def run(op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """op(*inputs) for arrays and numbers; None where it is better left to NumPy."""
    if not settings.compile:
        return None
    types = [TensorType(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in inputs]
    out = op.result(*types, **params)
    if is_small(out.dtype):  # where NumPy rounds, eager does
        return None
    if op.bounds is not None and not all(
            [in_range(inputs[i], n) for i, n in op.bounds(*types, **params)]):
        return None  # the op's own implementation has the error
    if op.name in BY_HAND:
        return BY_HAND[op.name](inputs, types, out, params)
    if op.kind == "create":
        return _created(op, inputs, types, out, params)
    split = split_rows(op, types, out, params)
    program = None if split is None else _program(op, types, out, params, split)
    if split is None or program is None:
        whole = op.kind == "composite" and op.rows is not None
        return _at_once(op, inputs, types, params) if whole else _in_two(op, inputs, params)
    dtype = dtype_of_operands(tuple(types))
    held = [x if isinstance(x, np.ndarray) else np.asarray(x, dtype)
            for x in inputs if not _is_constant(x)]
    if not all([a.flags.c_contiguous and a.flags.aligned for a in held]):
        return None
    held.append(memory.empty(out.shape, out.dtype))
    table = array.array("Q", [split.rows, *map(address, held)])
    program.run(table.buffer_info()[0], 0)
    return held[-1]


def _created(op: Op, inputs: Sequence[Any], types: Sequence[Any], out: TensorType,
             params: dict[str, Any]) -> Any:
    """The result of an op that makes elements out of their indices."""
    if not op.draws or len(inputs) > 1:
        return _at_once(op, inputs, types, params) if out.size >= dispatch.LARGE else None
    if out.size < _DRAWN:
        return None
    _DREW[op.name, out.dtype] += max(out.size, _CALL)
    if _DREW[op.name, out.dtype] < _AMOUNT:
        return None
    return _drawn(op, inputs[0], out, params)


def _drawn(op: Op, state: Any, out: TensorType, params: dict[str, Any]) -> Any:
    """Random numbers as rows of so many: a number's place decides, not how many there are."""
    key = (op.name, *[(k, param_key(v)) for k, v in params.items() if k != "shape"])
    program = _remembered(key, op, lambda: _drawing(op, params, out.dtype))
    if program is None:
        return None
    rows = -(-out.size // _DRAWS)
    held = [np.ascontiguousarray(state), np.arange(rows) * (_DRAWS // 64),
            memory.empty((rows * _DRAWS,), out.dtype)]
    table = array.array("Q", [rows, *map(address, held)])
    program.run(table.buffer_info()[0], 0)
    return held[-1][:out.size].reshape(out.shape)


def _drawing(op: Op, params: dict[str, Any], dtype: Any) -> NativeProgram | None:
    """The program for a row of random numbers."""
    nodes = Nodes()
    inputs = tuple([nodes.input(name, TensorType((size,), np.dtype(np.int64)))
                    for name, size in (("state", 2), ("before", 1))])
    numbers = nodes.apply(op.name, inputs, {**params, "shape": (_DRAWS,)})
    return _built(Graph(inputs, (numbers,)), 1, [0, 8, _DRAWS * dtype.itemsize], op.name)


def _at_once(op: Op, inputs: Sequence[Any], types: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result by code for this one size: of what has no rows, or takes several kernels."""
    key = (op.name, *types, *[(k, param_key(v)) for k, v in params.items()])
    program = _remembered(key, op, lambda: _whole(op, types, params))
    return None if program is None else program([np.ascontiguousarray(x) for x in inputs])[0]


def _whole(op: Op, types: Sequence[TensorType], params: dict[str, Any]) -> Executable | None:
    nodes = Nodes()
    inputs = tuple([nodes.input(f"x{i}", t) for i, t in enumerate(types)])
    try:
        return compile_native(Graph(inputs, (nodes.apply(op.name, inputs, params),)))
    except CodegenError:
        return None


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
    lead = out.shape[:axes]
    full = tuple([s[:axes] == lead for s in shapes])
    parts = tuple([s[axes:] for s in shapes])
    rows, row = product(lead), max(map(product, (out.shape[axes:], *_moving(full, parts))))
    return Split(axes, rows, full, parts) if rows > 1 and 0 < row <= _ROW else None


def _moving(full: tuple[bool, ...], parts: tuple[Shape, ...]) -> list[Shape]:
    """What of each input belongs to one row, for those that are not the same for all."""
    return [part for has_rows, part in zip(full, parts) if has_rows]


def _common(shape: Shape, out: Shape) -> int:
    """How many leading axes `shape` has as `out` has them, or else has none of."""
    pairs = list(zip(shape, out))
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    ones = next((i for i, (a, _) in enumerate(pairs) if a != 1), len(pairs))
    return max(same, ones)


def _in_two(op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """A reduction to one number as one of short rows, and of what these give."""
    x = inputs[0]
    if op.kind != "reduce" or len(params["axis"]) != x.ndim or not x.flags.c_contiguous \
            or x.size < _PIECE * _PIECE:
        return None
    flat = x.reshape(-1)
    count = x.size // _PIECE * _PIECE
    rows = run(op, (flat[:count].reshape(-1, _PIECE),), {"axis": (1,), "keepdims": False})
    if rows is None:
        return None
    both = np.concatenate([rows, flat[count:]])
    shape = (1,) * x.ndim if params["keepdims"] else ()
    return op.impl(kernels, both, axis=(0,), keepdims=False).reshape(shape)


# ---- programs
_PROGRAMS: dict[Any, Any] = {}
_COUNTS: Counter[str] = Counter()
_DREW: Counter[Any] = Counter()  # by ops that draw
_LOCK = held_while_forking(threading.RLock())


def _remembered(key: Any, op: Op, compiled: Callable[[], Any]) -> Any:
    """What `compiled()` gives, when first asked for; None when that is asked for too often."""
    with _LOCK:
        if key not in _PROGRAMS:
            _COUNTS[op.name] += 1
            with unobserved():
                _PROGRAMS[key] = compiled() if _COUNTS[op.name] <= _VARIANTS else None
        return _PROGRAMS[key]


def _program(op: Op, types: Sequence[Any], out: TensorType, params: dict[str, Any], split: Split
             ) -> NativeProgram | None:
    """The program for these types; None where there can be none."""
    values = [t.dtype if isinstance(t, TensorType) else param_key(t) if _is_constant(t) else float
              for t in types]
    given = [(k, param_key(v)) for k, v in params.items()]
    key = (op.name, *given, *split.parts, *split.full, *values, split.axes, _block(split))
    found = _remembered(key, op, lambda: _compiled(op, types, out, params, split))
    return found  # type: ignore[no-any-return]


def _block(split: Split) -> int:
    """How many rows make a task."""
    row = max(1, *map(product, _moving(split.full, split.parts)))
    return int(max(1, min(split.rows, _BLOCK // row)))


def _compiled(op: Op, types: Sequence[Any], out: TensorType, params: dict[str, Any], split: Split
              ) -> NativeProgram | None:
    nodes, dtype, block = Nodes(), dtype_of_operands(tuple(types)), _block(split)
    lead = (1,) * (split.axes - 1) + (block,)
    inputs: list[Node] = []
    operands: list[Node] = []
    strides: list[int] = []
    for t, full, part in zip(types, split.full, split.parts):
        if _is_constant(t):
            try:
                operands.append(nodes.const(*literal(t, dtype)))
            except OverflowError:  # a number beyond the dtype, which only comparisons can do with
                return None
            continue
        kind = t.dtype if isinstance(t, TensorType) else dtype
        shape = lead + part if full else part
        inputs.append(nodes.input(f"x{len(inputs)}", TensorType(shape, kind)))
        operands.append(inputs[-1])
        strides.append(full * product(part) * kind.itemsize)
    strides.append(product(out.shape[split.axes:]) * out.dtype.itemsize)
    graph = Graph(tuple(inputs), (nodes.apply(op.name, operands, params),))
    return _built(graph, block, strides, op.name)


def _built(graph: Graph, block: int, strides: list[int], name: str) -> NativeProgram | None:
    target = host()
    machine = replace(machine_of(target), threads=1)

    def written() -> tuple[Written, None]:
        plan, launches = lower_graph(graph, machine)
        slots = {b: Argument(i) for b, i in plan.arguments.items()}
        if len(slots) != len(strides) or len(launches) != 1:
            raise CodegenError("there are constants, or values between kernels")
        kernel = launches[0].kernel
        step = Step(kernel, [slot_of(p, slots) for p in launches[0].places])
        return write([step], name, target, Rows(block, strides, kernel.cost)), None

    try:
        return program_of(graph, target, (machine, block, strides, name), written)[0]
    except CodegenError:
        return None


dispatch.large = run
