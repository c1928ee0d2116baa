"""Implements vmap, which runs a function of one example over a batch at once.

The data of a batched value is a `Batched`, with the examples along the first axis. If Python
decides by a batched value, the run continues with the examples that decide like the first one. The
function runs again, from its start, for the others. So each path through the function runs once,
for all its examples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import interpreter
from ..arguments import check_whole
from ..arrays.shapes import TensorType, axis_of
from ..core.dispatch import apply, type_of
from ..core.op import Op
from ..core.tape import enable_grad
from ..core.tensor import Tensor
from ..errors import DTypeError, FusewireError, GradientError, ShapeError
from ..ops import batching
from ..ops.create import full_op
from ..ops.elementwise.pointwise import alias
from ..ops.products.contract import LETTERS
from ..ops.shape.join import concat
from ..ops.shape.take import take_op
from ..ops.shape.view import permute_dims, reshape, slice_axes
from . import tree
from .custom import BatchedCall, Mapped, as_list, run_forward
from .transform import Level, OfLevel, check_inner, is_of, running, untaped

__all__ = ["vmap"]

Rows = Any  # an array of the numbers of examples, in ascending order


class Batched(OfLevel):
    """Holds a value for each example of a level, along the first axis of `value`."""

    __slots__ = ("rows", "value")
    transform = "vmap"
    level: BatchLevel

    def __init__(self, level: BatchLevel, value: Tensor) -> None:
        self.level, self.value, self.rows = level, value, level.rows

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.value._data.shape[1:]  # type: ignore[no-any-return]

    def seen(self, tensor: Any) -> tuple[Any, ...]:
        return self.value.shape[1:]

    def first(self) -> Tensor:
        return self.value

    def current(self) -> Tensor:
        """The value for the examples for which the level is running."""
        self.check()
        if self.rows is not self.level.rows:
            with enable_grad():  # the part has a gradient if the value has one
                self.value = _taken(self.value, np.searchsorted(self.rows, self.level.rows))
            self.rows = self.level.rows
        return self.value

    def values(self, how: str, key: Any = None) -> Any:
        array = self.current()._decide(how, any_size=True)
        if not len(array):
            raise ShapeError(f"vmap: {how} decides by a value, but the batch has no examples",
                             "call the function for one example or more")
        self.level.go_on_with_first([row.tobytes() if key is None else key(row.item())
                                     for row in array])
        return array[:1].reshape(array.shape[1:])

    def text(self) -> str:
        inner = repr(self.current()) if self.level.running else "of a vmap that has ended"
        return f"batched({inner})"

    def detached(self) -> Batched:
        return Batched(self.level, self.current().detach())

    def untaped(self) -> Batched:
        return Batched(self.level, untaped(self.current()))

    def parts(self) -> tuple[Any, ...]:
        return (self.value,)


class ExampleGroup(NamedTuple):
    """The examples of a run: their chunk, and the states of the random numbers they start with."""

    rows: Rows
    chunk: Rows
    states: list[Tensor]


class Batch(NamedTuple):
    """The number of examples, also as a size that may be symbolic, and the options of vmap."""

    examples: int
    size: Any
    chunk_size: int | None
    randomness: str


class BatchLevel(Level):
    """Runs the function for some examples."""

    def __init__(self, group: ExampleGroup, batch: Batch) -> None:
        self.rows, self.chunk, self.states = group
        self.batch, self.randomness, self.drawn = batch, batch.randomness, 0
        self.others: list[ExampleGroup] = []  # examples that decided otherwise

    @property
    def size(self) -> Any:
        """The number of examples in this run."""
        return self.batch.size if len(self.rows) == self.batch.examples else len(self.rows)

    def go_on_with_first(self, outcomes: list[Any]) -> None:
        """Limits the run to the examples whose outcome is that of the first one."""
        members: dict[Any, list[int]] = {}
        for position, outcome in enumerate(outcomes):
            members.setdefault(outcome, []).append(position)
        followers, *others = members.values()
        if others:
            states = self.states[:self.drawn]
            self.others += [ExampleGroup(self.rows[go], self.chunk, [*states]) for go in others]
            self.rows = self.rows[followers]

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        if op.kind == "composite" and op.batch is None:
            return self._apply_composite(op, inputs, params)
        batched = tuple(is_of(x, self) for x in inputs)
        xs = tuple(x._data.current() if b else x for x, b in zip(inputs, batched))
        rule = op.batch or _RULES.get(op.kind, _one_by_one)
        try:
            value = rule(op, xs, batched, params)
        except FusewireError:
            op.result(*map(type_of, inputs), **params)  # its error, if any, is more specific
            raise
        return Tensor(Batched(self, value))

    def _apply_composite(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        """The result of a composite, by the ops that define it; the tape notes one op."""
        bare = [Tensor(x._data) if is_of(x, self) else x for x in inputs]
        out = op.meaning(*bare, **params)
        if is_of(out, self):
            return Tensor(out._data)
        return Tensor(Batched(self, batching.repeated(out, self.size)))

    def call(self, function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
        inner = [x._data.current() if is_of(x, self) else x for x in args]
        result, saved_ctx = run_forward(function, ctx, args, inner)
        outs = as_list(result)

        def beneath(xs: Any) -> tuple[list[Any], list[Any]]:
            axes = [0 if is_of(x, self) else None for x in xs]
            return [x if axis is None else x._data.current() for x, axis in zip(xs, axes)], axes

        values = Mapped.apply(BatchedCall(function, saved_ctx, outs, beneath, vmap), *inner)
        for x, value in zip(outs, values):
            if x is not None:
                mapped = is_of(x, self)
                x._data = Batched(self, value) if mapped else value._data
                x.edge = None if mapped else value.edge
        return result

    def draws(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any], below: Any) -> Tensor:
        if self.randomness == "error":
            raise GradientError(
                f"vmap: {op.name} draws random numbers", 'pass randomness="different" for numbers '
                'of its own for each example, or "same" for the same in all')
        inputs = (self._state(inputs[0]), *inputs[1:])
        batched = tuple(is_of(x, self) for x in inputs)
        xs = tuple(x._data.current() if b else x for x, b in zip(inputs, batched))
        if self.randomness == "same":
            return Tensor(Batched(self, _one_by_one(op, xs, batched, params, below))) \
                if any(batched) else below(xs, params)
        return Tensor(Batched(self, self._each_its_own(xs, batched, params, below)))

    def _state(self, state: Tensor) -> Tensor:
        """The state to draw from: that of the run which this one repeats up to a decision."""
        if self.drawn == len(self.states):
            self.states.append(state)
        self.drawn += 1
        return self.states[self.drawn - 1]

    def _each_its_own(self, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any],
                      below: Any) -> Tensor:
        """Random numbers for this run, taken from those of the whole chunk, so every run agrees."""
        count = len(self.chunk)
        own: Any = np.searchsorted(self.chunk, self.rows)
        sources = np.zeros(count, np.int64)
        sources[own] = np.arange(len(own))
        operands = [_taken(x, sources) if b else batching.repeated(x, count)
                    for x, b in zip(xs[1:], batched[1:])]
        shape = {"shape": (count, *params["shape"])} if "shape" in params else {}
        return _taken(below((xs[0], *operands), {**params, **shape}), own)


# ---- rules by kind of op, for ops without a rule
def _pointwise(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
               ) -> Tensor:
    ndim = max(x.ndim + (not b) for x, b in zip(xs, batched) if isinstance(x, Tensor))
    return apply(op, tuple(_with_axes(x, ndim) if b else x for x, b in zip(xs, batched)), params)


def _with_axes(x: Tensor, ndim: int) -> Tensor:
    """`x` with `ndim` axes: axes of size 1 are inserted after the first."""
    return x if x.ndim == ndim else reshape(
        x, (x.shape[0], *(1,) * (ndim - x.ndim), *x.shape[1:]))


def _contract(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
              ) -> Tensor:
    left, right, out = params["spec"].replace("->", ",").split(",")
    letter = next(c for c in LETTERS if c not in params["spec"])
    left, right = (letter * b + letters for letters, b in zip((left, right), batched))
    return apply(op, xs, {"spec": f"{left},{right}->{letter}{out}"})


def _one_by_one(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any],
                run: Any = None) -> Tensor:
    """The result of the op, or of run(inputs, params), computed for each example by itself."""
    run = run or functools.partial(apply, op)
    count = batching.batch_size(xs, batched)
    outs = [run(tuple(_example(x, i) if b else x for x, b in zip(xs, batched)), params)
            for i in range(count)]
    if outs:
        return concat([reshape(out, (1, *out.shape)) for out in outs])
    one = [TensorType(x.shape[1:], x.dtype) if b else type_of(x) for x, b in zip(xs, batched)]
    result_type = op.result(*one, **params)
    return apply(full_op, (),
                 {"shape": (0, *result_type.shape), "value": 0, "dtype": result_type.dtype})


def _example(x: Tensor, i: int) -> Tensor:
    start, size = (i, *(0,) * (x.ndim - 1)), (1, *x.shape[1:])
    return reshape(slice_axes(x, start, (1,) * x.ndim, size), size[1:])


_RULES: dict[str, batching.Rule] = {
    "pointwise": _pointwise, "contract": _contract, "reduce": batching.shifted("axis"),
    "scan": batching.shifted("axis")}


def _taken(x: Tensor, rows: Any) -> Tensor:
    """The examples of `x` with the numbers `rows`."""
    count = len(rows)
    if count and np.array_equal(rows, np.arange(rows[0], rows[0] + count)):
        start = (int(rows[0]), *(0,) * (x.ndim - 1))
        return slice_axes(x, start, (1,) * x.ndim, (count, *x.shape[1:]))
    index = interpreter.note_constant(Tensor(np.asarray(rows, np.int64)))
    return apply(take_op, (x, index), {"axis": 0})


# ---- the transform
def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that runs `f`, a function of one example, over a batch.

    If `f` decides by a value (`if`, `while`, `int(x)`), it runs again from its start for the
    examples that decide otherwise: once for each path that some example takes.

    Args:
        f: takes and returns tensors, or trees (tuples, lists, dicts) of tensors.
        in_axes: axis of the examples in each positional argument: an int for all, or a tuple,
            nested like the arguments; None for arguments that all examples share. Keyword arguments
            are shared. Default 0.
        out_axes: axis of the examples in each result; None if it is equal for all. Default 0.
        randomness: "different" draws numbers for each example, "same" draws them once, "error"
            forbids drawing. Default "error".
        chunk_size: number of examples that run at once. Default None: all.

    Raises:
        DTypeError: randomness is unknown, or an argument with an axis that is not a tensor.
        ShapeError: no argument has an axis, different numbers of examples, a chunk_size below 1, or
            results of examples that differ in structure, shape or dtype.
        GradientError: `f` draws random numbers under "error".

    Example:
        >>> import fusewire as fw
        >>> fw.func.vmap(fw.matmul, in_axes=(0, None))(fw.ones(2, 3), fw.tensor([1.0, 2.0, 3.0]))
        tensor([6., 6.])
        >>> fw.func.vmap(lambda x: x if x > 0 else -2 * x)(fw.tensor([1.0, -1.0]))
        tensor([1., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise DTypeError(f"vmap: randomness={randomness!r} is not known",
                         'it is "error", "different" or "same"')
    if chunk_size is not None and check_whole("vmap", "chunk_size", chunk_size) < 1:
        raise ShapeError(f"vmap: chunk_size is 1 or more, not {chunk_size}",
                         "None runs all at once")

    @functools.wraps(f, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        axes = tree.spread("vmap: in_axes", in_axes, structure)
        fronts = [x if axis is None else _front(x, axis, f"argument {label}")
                  for x, axis, label in zip(leaves, axes, tree.argument_paths(structure))]
        count, size = _batch_size(fronts, axes, structure)
        batch = Batch(count, size, chunk_size, randomness)

        def run(level: BatchLevel) -> Any:
            own = [x if axis is None else _of_rows(x, level) for x, axis in zip(fronts, axes)]
            return f(*tree.unflatten(structure, own), **kwargs)

        return _together(list(_paths(run, batch)), out_axes)

    return mapped


def _front(x: Any, axis: Any, what: str) -> Tensor:
    """`x` with its axis of examples first."""
    if not isinstance(x, Tensor):
        raise DTypeError(f"vmap: {what} is {type(x).__name__}, which has no axis of examples",
                         "pass None for it in in_axes, so that all examples share it")
    if x.ndim == 0:
        raise ShapeError(f"vmap: {what} is a 0-d tensor, which has no axis of examples",
                         "pass None for it in in_axes, so that all examples share it")
    at = axis_of(f"vmap: {what}", axis, x.ndim)
    return permute_dims(x, (at, *(i for i in range(x.ndim) if i != at)))


def _of_rows(x: Tensor, level: BatchLevel) -> Tensor:
    """The examples of a run as a tensor of its level."""
    part = x if len(level.rows) == x._data.shape[0] else _taken(x, level.rows)
    return Tensor(Batched(level, part))


def _batch_size(fronts: Sequence[Any], axes: Sequence[Any], structure: Any
                ) -> tuple[int, Any]:
    """The number of examples, as an int and as the size that user code sees."""
    sizes = {label: x._data.shape[0] for x, axis, label in
             zip(fronts, axes, tree.argument_paths(structure)) if axis is not None}
    if not sizes:
        raise ShapeError("vmap: no argument has an axis of examples",
                         "in_axes names one for at least one positional argument")
    (first_label, count), *rest = sizes.items()
    for label, n in rest:
        if n != count:
            raise ShapeError(
                f"vmap: argument {first_label} has {count} examples, argument {label} {n}",
                "all must have as many; pass None in in_axes for arguments that all examples share")
    return count, next(x.shape[0] for x, axis in zip(fronts, axes) if axis is not None)


class PathResult(NamedTuple):
    """The result of a run: its examples, and the leaves that the function returned."""

    rows: Rows
    size: Any  # the number of examples
    leaves: list[Tensor]  # with the examples along the first axis, if batched
    batched: list[bool]
    structure: Any


def _paths(run: Callable[[BatchLevel], Any], batch: Batch) -> Iterator[PathResult]:
    """Runs the function until every example has a result; yields a result per run."""
    every, count = np.arange(batch.examples), max(batch.examples, 1)
    step = batch.chunk_size or count
    chunks = [every[i:i + step] for i in range(0, count, step)]
    shared: list[Tensor] = []  # states of generators, if all examples draw equal numbers
    waiting = [ExampleGroup(rows, rows, []) for rows in chunks]
    while waiting:
        group = waiting.pop(0)
        level = BatchLevel(group, batch)
        if batch.randomness == "same":
            level.states = shared
        with running(level):
            leaves, structure = tree.flatten(run(level))
            outs = [check_inner(x, "vmap") for x in
                    tree.tensors("vmap", leaves, structure, "the result")]
            batched = [is_of(x, level) for x in outs]
            values = [x._data.current() if b else x for x, b in zip(outs, batched)]
        yield PathResult(level.rows, level.size, values, batched, structure)
        waiting = level.others + waiting


def _together(paths: list[PathResult], out_axes: Any) -> Any:
    """The results of all paths joined, with the examples sorted and along `out_axes`."""
    first = paths[0]
    for path in paths[1:]:
        _check_alike(first, path)
    axes = tree.spread("vmap: out_axes", out_axes, first.structure)
    rows = np.concatenate([path.rows for path in paths])
    outs = []
    for n, axis in enumerate(axes):
        if axis is None:
            outs.append(_shared(paths, n))
            continue
        values = [p.leaves[n] if p.batched[n] else batching.repeated(p.leaves[n], p.size)
                  for p in paths]
        value = values[0] if len(values) == 1 else _sort_by_row(concat(values), rows)
        outs.append(_back(value, axis))
    return tree.unflatten(first.structure, outs)


def _sort_by_row(x: Tensor, rows: Any) -> Tensor:
    if np.array_equal(rows, np.arange(len(rows))):
        return x
    index = interpreter.note_constant(Tensor(np.argsort(rows)))
    return apply(take_op, (x, index), {"axis": 0})


def _shared(paths: list[PathResult], n: int) -> Tensor:
    if len(paths) > 1 or paths[0].batched[n]:
        raise ShapeError("vmap: a result with out_axes=None differs between the examples",
                         "give the axis that the examples shall have in it")
    return alias(paths[0].leaves[n])


def _back(x: Tensor, axis: Any) -> Tensor:
    """`x` with its first axis moved to `axis`."""
    target = axis_of("vmap: out_axes", axis, x.ndim)
    if target == 0:
        return x
    return permute_dims(x, (*range(1, target + 1), 0, *range(target + 1, x.ndim)))


def _check_alike(a: PathResult, b: PathResult) -> None:
    """Raises a ShapeError unless the results of two paths can be joined."""
    of = f"vmap: examples {_listed(a.rows)} and {_listed(b.rows)} decide differently and give"
    if a.structure != b.structure:
        raise ShapeError(f"{of} {a.structure} and {b.structure}",
                         "every path through the function must return as many tensors")
    for label, s, t in zip(tree.leaf_paths(a.structure), _types(a), _types(b)):
        if s != t:
            raise ShapeError(f"{of} {s[1].name} of shape {s[0]} and {t[1].name} of {t[0]}"
                             + (f" at {label}" if label else ""),
                             "every path must return tensors of one shape and dtype")


def _types(path: PathResult) -> list[Any]:
    return [(x._data.shape[1:] if b else x._data.shape, x._data.dtype)
            for x, b in zip(path.leaves, path.batched)]


def _listed(rows: Any) -> str:
    shown = ", ".join(map(str, rows[:3]))
    return f"[{shown}{', ...' if len(rows) > 3 else ''}]"
