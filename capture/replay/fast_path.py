"""The short way of a call: one generated function for a program.

Made after calls have gone the long way, it does in straight lines what these did: it looks at what
differs from call to call, has all else compared with what it was, and runs the program. Where
anything is not as it was, it does nothing; the call goes the long way, which alone knows what to do
about ways that were not recorded.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ...eager import interpreter
from ...eager.core.tape import MODE
from ...eager.core.tensor import Tensor
from ...eager.uninterrupted import Uninterrupted
from ..guards.guards import Guard, PathCodegen, guard_expression
from ..heap.access_path import Path
from ..heap.mutations import SetArray
from ..heap.object_recipes import Recipe
from ..heap.path_reader import PathReader
from ..program.cfg import Block, Exit
from ..program.stage_planner import exits_of, segments_of
from ..program.trace_exit import RETURNS_NONE, TraceExit, forwarded_tensor
from ..scalars.scalar_expr import ScalarExpr
from ..trace.dynamic_inputs import Axis
from .guard_elision import Contents, GuardElision, Words
from .python_backend import SCOPE, NoFastPath, PythonBackend

Direct = Callable[[Any, Any], Any]
_ARGS, _KWARGS = Path("args"), Path("kwargs")


class ExpectedTensor(NamedTuple):
    """A tensor, its number among the arrays, -1 for none, and its sizes, None for any above 0."""

    tensor: Tensor
    number: int
    shape: tuple[int | None, ...]


class Native(Protocol):
    """What an upper layer knows of Python's objects."""

    def contents(self, value: Any) -> Contents | None:
        """What stays while `value` holds what it does; None: not known."""

    def collector(
        self, words: Words, given: Sequence[ExpectedTensor], held: Sequence[ExpectedTensor],
    ) -> Callable[..., Any] | None:
        """A function of tensors like `given`: the arrays of all, at their numbers; None where a
        word or a tensor's type differs."""

    def lower_control(self, root: Block, numbers: dict[Path, int]) -> ControlProgram | str:
        """The tree as one native call, or why there is none. `numbers`: where the arrays are."""


class ControlProgram(Protocol):
    """A tree as one native call. The conditions of `first` must hold before it, since it writes
    over arrays on their ways, those of other `ends` when it has come there."""

    ends: list[TraceExit]
    first: list[TraceExit]

    def __call__(self, arrays: list[Any], section: Uninterrupted | None
                 ) -> tuple[list[Any], int, dict[ScalarExpr, Any]]:
        """The arrays of the end that a call comes to, its number, and the values of its formulas;
        a number below 0 where it takes a way that was not recorded. Signals are listened to in a
        `section`, while nothing is changed."""


native: Native | None = None  # set by an upper layer


class FastPathContext(NamedTuple):
    """A call that fits, and what its program is made of."""

    args: Any
    kwargs: Any
    fn: Any
    held: dict[int, Any]
    guards: Sequence[Guard]
    root: Block
    sizes: Mapping[str, Axis]  # where each size that varies is found


class FastPath(NamedTuple):
    """The short way of a call. `split`: why Python does what is between its native calls; "" where
    all is one such call, None where it has one part only."""

    call: Direct
    split: str | None


def compile_fast_path(at: FastPathContext, constants: dict[str, Any]) -> FastPath | None:
    """The short way of calls like this one; None where there is none.

    `constants`: PROGRAM, whose uses are counted; FORGET, which is called when what is looked at is
    freed: all that is known of it can be, too; UNSEEN, to give where a call does not fit; RAISED
    and AGAIN, errors to let through, and errors with which a call does not fit.
    """
    if native is None:
        return None
    read = PathReader(at.args, at.kwargs, at.fn, at.held)
    changing = {id(read(e.target)) for leaf in exits_of(at.root) for e in leaf.effects}
    with contextlib.suppress(NoFastPath):
        return _Writer(at, read, GuardElision(read, native.contents, changing)).function(constants)
    return None


class _PinnedSource(PathCodegen):
    """Reads of paths, in which what is pinned is a constant."""

    def __init__(self, at: FastPathContext, read: PathReader, pins: GuardElision) -> None:
        super().__init__(at.fn, at.held)
        self._value, self._pins = read, pins

    def read(self, path: Path) -> str:
        if path not in self._variables:
            constant = self._pins.pinned(path) and not self._pins.looks.get(path)
            self._variables[path] = self.constant(self._value(path)) if constant \
                else self.looked_up(path)
        return self._variables[path]

    def looked_up(self, path: Path) -> str:
        """A variable with what is at `path` in this call."""
        if path.parent is not None:
            self.read(path.parent)
        return self._step(path)


class _Writer:
    """Writes the function."""

    def __init__(self, at: FastPathContext, read: PathReader, pins: GuardElision) -> None:
        self.at, self.read, self.pins = at, read, pins
        self.source = _PinnedSource(at, read, pins)
        self.leaves = exits_of(at.root)
        self.changes = any(leaf.effects for leaf in self.leaves)
        self.shapes: dict[Path, tuple[int | None, ...]] = {}  # as guards have them
        self.targets: dict[TraceExit, str] = {}  # what each changes, as it is read
        self.ends: list[TraceExit] = []  # by the numbers that they have in the lines
        self.split: str | None = None

    def function(self, constants: dict[str, Any]) -> FastPath | None:
        tensors = self._tensors()
        left = [g for g in self.at.guards if not self._told(g, tensors) and not self.pins.omits(g)]
        given = [p for p in tensors if not self.pins.pinned(p)]
        targets = [e.target for leaf in self.leaves for e in leaf.effects]
        for path in [*targets, *(p for g in left for p in g.paths)]:
            self.pins.pinned(path)
        assert native is not None
        collect = native.collector(list(self.pins.words.items()),
                                   [self._wanted(p, tensors[p]) for p in given],
                                   [self._wanted(p, tensors[p]) for p in tensors
                                    if self.pins.pinned(p)])
        if collect is None:
            return None
        self.pins.close()
        lines = [*self._looks(constants["FORGET"]), *self._guards(left, given),
                 *self._collected(given)]
        lines += self._computed(tensors)
        body = ["    try:", *_indented(lines), "    except RAISED: raise",
                "    except AGAIN: return UNSEEN", "    PROGRAM.uses += 1", *self._made()]
        if self.changes:
            body = ["    with SECTION() as section:", "        section.open = True",
                    *_indented(body)]
        text = "\n".join(["def direct(args, kwargs):", *self._head(), *body])
        scope = {**self.source.constants, **constants, **self._constants(collect), **SCOPE}
        exec(compile(text, "<direct>", "exec"), scope)
        return FastPath(scope.pop("direct"), self.split)

    def _told(self, guard: Guard, tensors: dict[Path, int]) -> bool:
        """Whether a guard follows from the types of tensors, which `collect` compares with what
        guards say of them, or from there being no keywords."""
        if guard.category == "condition":
            return all(p in tensors and None not in self.shapes[p] for p in guard.paths)
        return guard.category == "sizes" or (guard.path == _KWARGS and not self.at.kwargs)

    def _tensors(self) -> dict[Path, int]:
        """Paths of the tensors whose types matter, arguments first, and their places among the
        arrays, which are in the order of the stages; NoFastPath where one is used of whose
        type nothing is said."""
        used = dict.fromkeys(p for stage in segments_of(self.at.root) for p in stage.paths)
        number = {p: i for i, p in enumerate(used)}
        for guard in self.at.guards:
            if guard.category == "sizes":
                known, shape = self.shapes.get(guard.path), guard.constants["S"]
                self.shapes[guard.path] = shape if known is None else tuple(
                    [n if m is None else m for m, n in zip(known, shape, strict=True)])
        if not number.keys() <= self.shapes.keys():
            raise NoFastPath
        first = {p: i for i, p in enumerate(self._arguments())}
        ordered = sorted(self.shapes, key=lambda p: first.get(p, len(first)))
        return {p: number.get(p, -1) for p in ordered}

    def _wanted(self, path: Path, number: int) -> ExpectedTensor:
        return ExpectedTensor(self.read(path), number, self.shapes[path])

    def _arguments(self) -> list[Path]:
        return [_ARGS.item(i) for i in range(len(self.at.args))]

    def _head(self) -> Iterator[str]:
        empty = "" if self.at.kwargs else "kwargs or "
        yield f"    if {empty}INTERPRETER.in_use != INTERPRETER.devices " \
            "or MODE.enabled is not GRAD: return UNSEEN"

    def _looks(self, forget: Callable[[Any], None]) -> Iterator[str]:
        for path, may_go in self.pins.looks.items():
            start, value = len(self.source.lines), self.read(path)
            name = self.source.read(path) if may_go else self.source.looked_up(path)
            yield from self.source.lines[start:]
            if may_go:
                known = self.source.constant(weakref.ref(value, forget))
                yield f"    if {name} is not {known}() or {name} is None: return UNSEEN"
            else:
                yield f"    if {name} is not {self.source.read(path)}: return UNSEEN"

    def _guards(self, left: Sequence[Guard], given: Sequence[Path]) -> Iterator[str]:
        whole = list(given) == self._arguments()  # then `collect` counts them
        for guard in left:
            if whole and guard.path == _ARGS and guard.category == "contents":
                continue
            start = len(self.source.lines)
            condition = guard_expression(guard, self.source)
            yield from self.source.lines[start:]
            yield f"    if not ({condition}): return UNSEEN"

    def _collected(self, given: Sequence[Path]) -> Iterator[str]:
        if list(given) == self._arguments():
            yield "    arrays = COLLECT(*args)"
        else:
            start = len(self.source.lines)
            names = ", ".join([self.source.read(p) for p in given])
            yield from self.source.lines[start:]
            yield f"    arrays = COLLECT({names})"
        yield "    if arrays is None: return UNSEEN"

    def _computed(self, tensors: dict[Path, int]) -> Iterator[str]:
        start = len(self.source.lines)
        for leaf in self.leaves:
            self.targets[leaf] = ", ".join([self.source.read(e.target) for e in leaf.effects])
        lines = list(self._ways(tensors))
        yield from self.source.lines[start:]
        yield from self._view_guards()
        yield from _indented(lines)

    def _view_guards(self) -> Iterator[str]:
        """Lines that leave calls whose targets are views to the slow path, before anything runs."""
        targets = {e.target for leaf in self.leaves for e in leaf.effects
                   if isinstance(e.assign, SetArray)}
        for name in sorted(self.source.read(target) for target in targets):
            yield f"    if getattr({name}, '_base', None) is not None: return UNSEEN"

    def _ways(self, tensors: dict[Path, int]) -> Iterator[str]:
        """The lines that go through the tree: one native call, or a call for each of its parts."""
        checked = len(self.leaves) == 1
        assert native is not None
        root = self.at.root
        single = isinstance(root, Exit) and not root.segments
        whole = None if single else native.lower_control(root, tensors)
        self.split = whole if isinstance(whole, str) else None if whole is None else ""
        if whole is None or isinstance(whole, str):
            straight = PythonBackend(tensors, self.at.sizes, self.source, checked)
            self.ends = straight.ends
            yield from straight.lines(root)
            return
        self.ends = whole.ends
        for leaf in whole.first:
            yield f"if {self.source.constant(leaf)}.check(args, kwargs) >= 0: return UNSEEN"
        if self.changes:
            yield "section.open = False"
        section = "section" if self.changes else "None"
        yield f"found, end, values = {self.source.constant(whole)}(arrays, {section})"
        yield "if end < 0: return UNSEEN"
        if not checked and any(leaf.exit_guards for leaf in self.ends if leaf not in whole.first):
            ends = self.source.constant(self.ends)
            yield f"if {ends}[end].check(args, kwargs) >= 0: return UNSEEN"

    def _made(self) -> Iterator[str]:
        """The lines that give the result."""
        for number, leaf in enumerate(self.ends):
            name = self.source.constant(leaf)
            if len(self.ends) == 1:
                yield from _indented(self._result(leaf, name))
            else:
                yield f"    if end == {number}:"
                yield from _indented(_indented(self._result(leaf, name)))

    def _result(self, leaf: TraceExit, name: str) -> list[str]:
        """What can be, without a detour, all else as a leaf does it."""
        single, used = leaf.single_output(), f"{name}.uses += 1"
        if single is not None:
            return [used, *self._tensor("result", single), "return result"]
        if leaf.backward is None and not leaf.formulas and not leaf.reads_arguments:
            return [used, *self._finished(leaf), "return result"]
        numbers = ["read.number = values.__getitem__"] if leaf.formulas else []
        return [used, "read = READER(args, kwargs, FN, HELD)", *numbers,
                f"result, commit = {name}.finish(found, [{self.targets[leaf]}], None, read)",
                "commit()", "return result"]

    def _tensor(self, name: str, of: tuple[int, Any]) -> list[str]:
        """Lines that make a tensor over an output."""
        return [f"{name} = NEW(TENSOR)", f"{name}._data = found[{of[0]}]",
                f"{name}.edge = {self.source.constant(of[1])}",
                f"{name}._grad = {name}._base = None"]

    def _finished(self, leaf: TraceExit) -> Iterator[str]:
        """Lines for what `Leaf.finish` and its changes do."""
        constant = self.source.constant
        for i, tensor in enumerate(leaf.tensors):
            yield from self._tensor(f"tensor{i}", tensor)
        yield f"tensors = [{', '.join([f'tensor{i}' for i in range(len(leaf.tensors))])}]"
        yield f"result = {self._value(leaf, leaf.result)}"
        yield f"targets = [{self.targets[leaf]}]"
        for i, effect in enumerate(leaf.effects):
            made = self._value(leaf, effect.value) if effect.node is None else \
                f"found[{effect.node}]"
            yield f"new{i} = {made}"
        for i, effect in enumerate(leaf.effects):
            name = effect.assign.attribute
            yield f"{constant(effect.assign)}(targets[{i}], new{i})" if not name else \
                f"targets[{i}].{name} = new{i}"

    def _value(self, leaf: TraceExit, make: Recipe) -> str:
        """What a template makes: one of the tensors, None, or what it returns."""
        found = forwarded_tensor(make, len(leaf.tensors))
        if found is None:
            return f"{self.source.constant(make)}(tensors, None)"
        return "None" if found is RETURNS_NONE else f"tensor{found}"

    def _constants(self, collect: Callable[..., Any]) -> dict[str, Any]:
        return {"COLLECT": collect, "INTERPRETER": interpreter, "MODE": MODE, "GRAD": MODE.enabled,
                "READER": PathReader, "HELD": self.at.held, "KEPT": self.pins.kept,
                "NEW": object.__new__, "TENSOR": Tensor, "SECTION": Uninterrupted}


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
