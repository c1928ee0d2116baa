"""vmap: a function of one example run over a batch at once.

The batch is the first axis of what a `Batched` holds. Where Python decides by a batched value, the
run goes on with the examples that decide like the first one; the function is run again, from its
start, for the others. So every path through the function runs once for all the examples on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import interpreter
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
from ..ops.shape.view import permute_dims, reshape, slice_axes, take_op
from . import tree
from .custom import BatchedCall, Mapped, listed, run_forward
from .transform import Level, OfLevel, check_inner, is_of, running, untaped

__all__ = ["vmap"]

Rows = Any  # an array of the numbers of examples, in ascending order


class Batched(OfLevel):
    """A value for each example of a level: `value` has them along its first axis."""

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
        """The value for the examples that the level now runs for."""
        self.check()
        if self.rows is not self.level.rows:
            with enable_grad():  # where the value has a gradient, so does a part of it
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
    """Examples to run together: of which chunk, and which random numbers they start with."""

    rows: Rows
    chunk: Rows
    states: list[Tensor]


class Batch(NamedTuple):
    """All examples: how many, also as a size that may be symbolic, and how they are to run."""

    examples: int
    size: Any
    chunk_size: int | None
    randomness: str


class BatchLevel(Level):
    """A run of the function for some examples."""

    def __init__(self, group: ExampleGroup, batch: Batch) -> None:
        self.rows, self.chunk, self.states = group
        self.batch, self.randomness, self.drawn = batch, batch.randomness, 0
        self.others: list[ExampleGroup] = []  # examples that decided otherwise

    @property
    def size(self) -> Any:
        """How many examples the run is for."""
        return self.batch.size if len(self.rows) == self.batch.examples else len(self.rows)

    def go_on_with_first(self, outcomes: list[Any]) -> None:
        """Limits the run to the examples whose outcome is that of the first one."""
        places: dict[Any, list[int]] = {}
        for place, outcome in enumerate(outcomes):
            places.setdefault(outcome, []).append(place)
        stay, *others = places.values()
        if others:
            states = self.states[:self.drawn]
            self.others += [ExampleGroup(self.rows[go], self.chunk, [*states]) for go in others]
            self.rows = self.rows[stay]

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        if op.kind == "composite" and op.batch is None:
            return self._opened(op, inputs, params)
        batched = tuple(is_of(x, self) for x in inputs)
        xs = tuple(x._data.current() if b else x for x, b in zip(inputs, batched))
        rule = op.batch or _RULES.get(op.kind, _one_by_one)
        try:
            value = rule(op, xs, batched, params)
        except FusewireError:
            op.result(*map(type_of, inputs), **params)  # if it fails, this error says more
            raise
        return Tensor(Batched(self, value))

    def _opened(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        """A composite, by what it is made of; the tape notes it as one op."""
        bare = [Tensor(x._data) if is_of(x, self) else x for x in inputs]
        out = op.meaning(*bare, **params)
        if is_of(out, self):
            return Tensor(out._data)
        return Tensor(Batched(self, batching.repeated(out, self.size)))

    def call(self, function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
        inner = [x._data.current() if is_of(x, self) else x for x in args]
        result, kept = run_forward(function, ctx, args, inner)
        outs = listed(result)

        def beneath(xs: Any) -> tuple[list[Any], list[Any]]:
            axes = [0 if is_of(x, self) else None for x in xs]
            return [x if axis is None else x._data.current() for x, axis in zip(xs, axes)], axes

        made = Mapped.apply(BatchedCall(function, kept, outs, beneath, vmap), *inner)
        for x, value in zip(outs, made):
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
        """The state to draw from: as in the run that this one repeats up to a decision."""
        if self.drawn == len(self.states):
            self.states.append(state)
        self.drawn += 1
        return self.states[self.drawn - 1]

    def _each_its_own(self, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any],
                      below: Any) -> Tensor:
        """Numbers for the whole chunk, of which this run takes its own: the same in every run."""
        count = len(self.chunk)
        part: Any = np.searchsorted(self.chunk, self.rows)
        places = np.zeros(count, np.int64)
        places[part] = np.arange(len(part))
        given = [_taken(x, places) if b else batching.repeated(x, count)
                 for x, b in zip(xs[1:], batched[1:])]
        more = {"shape": (count, *params["shape"])} if "shape" in params else {}
        return _taken(below((xs[0], *given), {**params, **more}), part)


# ---- rules by kind, for ops that have none of their own
def _pointwise(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
               ) -> Tensor:
    ndim = max(x.ndim + (not b) for x, b in zip(xs, batched) if isinstance(x, Tensor))
    return apply(op, tuple(_with_axes(x, ndim) if b else x for x, b in zip(xs, batched)), params)


def _with_axes(x: Tensor, ndim: int) -> Tensor:
    """`x` with axes of size 1 after the first, so that it has `ndim`."""
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
    """Runs the op, or run(inputs, params), for each example by itself."""
    run = run or functools.partial(apply, op)
    count = batching.batch_size(xs, batched)
    outs = [run(tuple(_example(x, i) if b else x for x, b in zip(xs, batched)), params)
            for i in range(count)]
    if outs:
        return concat([reshape(out, (1, *out.shape)) for out in outs])
    one = [TensorType(x.shape[1:], x.dtype) if b else type_of(x) for x, b in zip(xs, batched)]
    made = op.result(*one, **params)
    return apply(full_op, (), {"shape": (0, *made.shape), "value": 0, "dtype": made.dtype})


def _example(x: Tensor, i: int) -> Tensor:
    start, size = (i, *(0,) * (x.ndim - 1)), (1, *x.shape[1:])
    return reshape(slice_axes(x, start, (1,) * x.ndim, size), size[1:])


_RULES: dict[str, batching.Rule] = {
    "pointwise": _pointwise, "contract": _contract, "reduce": batching.shifted("axis"),
    "scan": batching.shifted("axis")}


def _taken(x: Tensor, places: Any) -> Tensor:
    """The examples of `x` at `places`."""
    count = len(places)
    if count and np.array_equal(places, np.arange(places[0], places[0] + count)):
        start = (int(places[0]), *(0,) * (x.ndim - 1))
        return slice_axes(x, start, (1,) * x.ndim, (count, *x.shape[1:]))
    index = interpreter.source(Tensor(np.asarray(places, np.int64)))
    return apply(take_op, (x, index), {"axis": 0})


# ---- the transform
def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`f`, a function of one example, as a function of batches: every tensor has one axis more.

    in_axes: the axis of the examples in each positional argument: one for all or a tuple, nested
    like the arguments, with None for what all examples share. Keyword arguments are shared.
    out_axes: where the results have it; None for a result that is the same for all examples.
    randomness: whether random numbers are "different" or the "same" in all examples, or an "error".
    chunk_size: how many examples run at once (None: all).

    Where `f` decides by a value (`if`, `while`, `int(x)`), it runs again from its start for the
    examples that decide otherwise: once for each path that some example takes.

    >>> import fusewire as fw
    >>> fw.func.vmap(fw.matmul, in_axes=(0, None))(fw.ones(2, 3), fw.tensor([1.0, 2.0, 3.0]))
    tensor([6., 6.])
    >>> fw.func.vmap(lambda x: x if x > 0 else -2 * x)(fw.tensor([1.0, -1.0]))
    tensor([1., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise DTypeError(f"vmap: randomness={randomness!r} is not known",
                         'it is "error", "different" or "same"')
    if chunk_size is not None and chunk_size < 1:
        raise ShapeError(f"vmap: chunk_size is 1 or more, not {chunk_size}",
                         "None runs all at once")

    @functools.wraps(f, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        axes = tree.spread("vmap: in_axes", in_axes, structure)
        fronts = [x if axis is None else _front(x, axis, f"argument {place}")
                  for x, axis, place in zip(leaves, axes, tree.argument_places(structure))]
        count, size = _batch_size(fronts, axes, structure)
        batch = Batch(count, size, chunk_size, randomness)

        def run(level: BatchLevel) -> Any:
            own = [x if axis is None else _of_rows(x, level) for x, axis in zip(fronts, axes)]
            return f(*tree.unflatten(structure, own), **kwargs)

        return _together(list(_paths(run, batch)), out_axes)

    return mapped


def _front(x: Any, axis: Any, what: str) -> Tensor:
    """`x` with its axis of examples in front."""
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
    """The number of examples, and as the size to show to user code."""
    sizes = {place: x._data.shape[0] for x, axis, place in
             zip(fronts, axes, tree.argument_places(structure)) if axis is not None}
    if not sizes:
        raise ShapeError("vmap: no argument has an axis of examples",
                         "in_axes names one for at least one positional argument")
    (first, count), *rest = sizes.items()
    for place, n in rest:
        if n != count:
            raise ShapeError(f"vmap: argument {first} has {count} examples, argument {place} {n}",
                             "all must have as many; None in in_axes for what all examples share")
    return count, next(x.shape[0] for x, axis in zip(fronts, axes) if axis is not None)


class BatchResult(NamedTuple):
    """What came of a run: for which examples, and the leaves of its result."""

    rows: Rows
    size: Any  # how many those are
    leaves: list[Tensor]  # with the examples in front, or as they are where not batched
    batched: list[bool]
    structure: Any


def _paths(run: Callable[[BatchLevel], Any], batch: Batch) -> Iterator[BatchResult]:
    """Runs the function until every example has a result."""
    every, count = np.arange(batch.examples), max(batch.examples, 1)
    step = batch.chunk_size or count
    chunks = [every[i:i + step] for i in range(0, count, step)]
    shared: list[Tensor] = []  # states of generators, where all examples draw the same numbers
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
        yield BatchResult(level.rows, level.size, values, batched, structure)
        waiting = level.others + waiting


def _together(paths: list[BatchResult], out_axes: Any) -> Any:
    """The results of all paths as one, the examples in their order and along `out_axes`."""
    first = paths[0]
    for path in paths[1:]:
        _check_alike(first, path)
    axes = tree.spread("vmap: out_axes", out_axes, first.structure)
    order = np.concatenate([path.rows for path in paths])
    outs = []
    for n, axis in enumerate(axes):
        if axis is None:
            outs.append(_shared(paths, n))
            continue
        values = [p.leaves[n] if p.batched[n] else batching.repeated(p.leaves[n], p.size)
                  for p in paths]
        value = values[0] if len(values) == 1 else _in_order(concat(values), order)
        outs.append(_back(value, axis))
    return tree.unflatten(first.structure, outs)


def _in_order(x: Tensor, order: Any) -> Tensor:
    if np.array_equal(order, np.arange(len(order))):
        return x
    index = interpreter.source(Tensor(np.argsort(order)))
    return apply(take_op, (x, index), {"axis": 0})


def _shared(paths: list[BatchResult], n: int) -> Tensor:
    if len(paths) > 1 or paths[0].batched[n]:
        raise ShapeError("vmap: a result with out_axes=None differs between the examples",
                         "give the axis that the examples shall have in it")
    return alias(paths[0].leaves[n])


def _back(x: Tensor, axis: Any) -> Tensor:
    """`x` with its first axis at `axis`."""
    at = axis_of("vmap: out_axes", axis, x.ndim)
    if at == 0:
        return x
    return permute_dims(x, (*range(1, at + 1), 0, *range(at + 1, x.ndim)))


def _check_alike(a: BatchResult, b: BatchResult) -> None:
    """Raises ShapeError unless the results of two paths can be joined."""
    of = f"vmap: examples {_listed(a.rows)} and {_listed(b.rows)} decide differently and give"
    if a.structure != b.structure:
        raise ShapeError(f"{of} {a.structure} and {b.structure}",
                         "every path through the function must return as many tensors")
    for place, s, t in zip(tree.places(a.structure), _types(a), _types(b)):
        if s != t:
            raise ShapeError(f"{of} {s[1].name} of shape {s[0]} and {t[1].name} of {t[0]}"
                             + (f" at {place}" if place else ""),
                             "every path must return tensors of one shape and dtype")


def _types(path: BatchResult) -> list[Any]:
    return [(x._data.shape[1:] if b else x._data.shape, x._data.dtype)
            for x, b in zip(path.leaves, path.batched)]


def _listed(rows: Any) -> str:
    shown = ", ".join(map(str, rows[:3]))
    return f"[{shown}{', ...' if len(rows) > 3 else ''}]"
