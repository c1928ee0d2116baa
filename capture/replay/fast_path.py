"""Generates the fast path of a program: one Python function that replays its calls.

The fast path is built after some calls have taken the slow path. It evaluates the guards that can
fail, compares watched memory words for the others, and runs the program. If anything differs, it
returns NOT_TRACED without effects, and the call takes the slow path. Only the slow path handles
paths that have no trace.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ...eager import interpreter
from ...eager.core.tape import MODE
from ...eager.core.tensor import Tensor
from ...eager.core.views import is_shared
from ...eager.uninterrupted import Uninterrupted
from ...eager.upper_layer import UPPER
from ..cfg.ir import Block, HostCall, walk
from ..cfg.segment_planner import exits_of, segments_of
from ..cfg.trace_exit import RETURNS_NONE, TraceExit, forwarded_tensor
from ..effects.effect_call import perform
from ..effects.performers import FAST_PATH_FILE
from ..guards.guards import Guard, PathCodegen, guard_expression
from ..heap.access_path import Path
from ..heap.mutations import SetArray
from ..heap.object_recipes import Recipe
from ..heap.path_reader import PathReader
from ..scalars.scalar_expr import ScalarExpr
from ..trace.dynamic_inputs import Axis
from ..trace.output_spec import OutputTensor
from .guard_elision import Contents, GuardElision, Words
from .python_backend import SCOPE, NoFastPath, PythonBackend

Direct = Callable[[Any, Any], Any]
_ARGS, _KWARGS = Path("args"), Path("kwargs")


class ExpectedTensor(NamedTuple):
    """A tensor, its index among the arrays or -1, and its sizes, with None for any size above 0."""

    tensor: Tensor
    number: int
    shape: tuple[int | None, ...]


class Native(Protocol):
    """The operations that an upper layer implements in native code."""

    def contents(self, value: Any) -> Contents | None:
        """The memory words that prove `value` unchanged; None if there are none."""

    def collector(
        self, words: Words, arguments: Sequence[ExpectedTensor], closure: Sequence[ExpectedTensor],
    ) -> Callable[..., Any] | None:
        """A function that takes tensors like `arguments` and returns the arrays of all tensors.

        Each array is at the index of its tensor. The function returns None if a word or the type of
        a tensor differs.
        """

    def lower_control(self, root: Block, numbers: dict[Path, int],
                      type_of: Callable[[Path], type], sizes: Sequence[str]
                      ) -> ControlProgram | str:
        """The tree as one native call, or the reason against it. `numbers`: indices of arrays.
        `type_of`: the type of the Python number at a path. `sizes`: names of the dynamic sizes."""


class ControlProgram(Protocol):
    """A tree as one native call.

    The guards of the exits `first` must hold before the call, since their paths overwrite arrays.
    The guards of the other `ends` are checked after it. A call takes the numbers at the paths
    `arguments`, and the sizes with the names `sizes`.
    """

    arguments: list[Path]
    sizes: Sequence[str]
    ends: list[TraceExit]
    first: list[TraceExit]

    def __call__(self, arrays: list[Any], section: Uninterrupted | None,
                 numbers: Sequence[Any], sizes: Sequence[int]
                 ) -> tuple[list[Any], int, dict[ScalarExpr, Any]]:
        """The arrays of the exit that a call reaches, its index, and the values of its formulas.

        The index is negative if the path has no trace. Within a `section`, signals are handled
        until the first change.
        """



class FastPathContext(NamedTuple):
    """A call whose guards hold, and the contents of its program."""

    args: Any
    kwargs: Any
    fn: Any
    held: dict[int, Any]
    guards: Sequence[Guard]
    root: Block
    sizes: Mapping[str, Axis]  # the source of each dynamic size


class FastPath(NamedTuple):
    """The fast path of a program.

    `split` is the reason for Python code between native calls. It is "" for a single native call of
    a tree, and None for a program with one segment.
    """

    call: Direct
    split: str | None


def compile_fast_path(at: FastPathContext, constants: dict[str, Any]) -> FastPath | None:
    """The fast path for calls like this one; None if it cannot be built.

    `constants` holds PROGRAM, whose uses are counted; FORGET, which is called when a watched object
    is freed; NOT_TRACED, the result for a call that does not fit; RAISED, the errors to propagate;
    and AGAIN, the errors that send a call to the slow path.
    """
    if UPPER.fast_path is None:
        return None
    read = PathReader(at.args, at.kwargs, at.fn, at.held)
    changing = {id(read(e.target)) for trace_exit in exits_of(at.root) for e in trace_exit.effects}
    with contextlib.suppress(NoFastPath):
        elision = GuardElision(read, UPPER.fast_path.contents, changing)
        return _Writer(at, read, elision).function(constants)
    return None


class _PinnedSource(PathCodegen):
    """Code for reads of paths. A pinned path becomes a constant."""

    def __init__(self, at: FastPathContext, read: PathReader, elision: GuardElision) -> None:
        super().__init__(at.fn, at.held)
        self._value, self._elision = read, elision

    def read(self, path: Path) -> str:
        if path not in self._variables:
            constant = self._elision.pinned(path) and not self._elision.identity_checks.get(path)
            self._variables[path] = self.constant(self._value(path)) if constant \
                else self.looked_up(path)
        return self._variables[path]

    def looked_up(self, path: Path) -> str:
        """The name of a variable that holds the value at `path` in the current call."""
        if path.parent is not None:
            self.read(path.parent)
        return self._step(path)


class _Writer:
    """Writes the source of a fast path and compiles it."""

    def __init__(self, at: FastPathContext, read: PathReader, elision: GuardElision) -> None:
        self.at, self.read, self.elision = at, read, elision
        self.source = _PinnedSource(at, read, elision)
        self.exits = exits_of(at.root)
        self.changes = any(trace_exit.effects for trace_exit in self.exits)
        self.calls_host = any(isinstance(block, HostCall) for block in walk(at.root))
        self.shapes: dict[Path, tuple[int | None, ...]] = {}  # as the guards require them
        self.targets: dict[TraceExit, str] = {}  # the objects that each exit changes, as source
        self.ends: list[TraceExit] = []  # in the order of their indices in the code
        self.split: str | None = None

    def function(self, constants: dict[str, Any]) -> FastPath | None:
        tensors = self._tensors()
        guards = [g for g in self.at.guards
                  if not self._needs_no_code(g, tensors) and not self.elision.omits(g)]
        inputs = [p for p in tensors if not self.elision.pinned(p)]
        targets = [e.target for trace_exit in self.exits for e in trace_exit.effects]
        for path in [*targets, *(p for g in guards for p in g.paths)]:
            self.elision.pinned(path)
        native: Native = UPPER.fast_path
        collect = native.collector(list(self.elision.words.items()),
                                   [self._expected(p, tensors[p]) for p in inputs],
                                   [self._expected(p, tensors[p]) for p in tensors
                                    if self.elision.pinned(p)])
        if collect is None:
            return None
        self.elision.close()
        lines = [*self._identity_checks(constants["FORGET"]), *self._guards(guards, inputs),
                 *self._collect_call(inputs)]
        lines += self._run_lines(tensors)
        body = ["    try:", *_indented(lines), "    except RAISED: raise",
                "    except AGAIN: return NOT_TRACED", "    PROGRAM.uses += 1",
                *self._result_lines()]
        if self.changes:
            body = ["    with SECTION() as section:", "        section.open = True",
                    *_indented(body)]
        text = "\n".join(["def direct(args, kwargs):", *self._head(), *body])
        scope = {**self.source.constants, **constants, **self._constants(collect), **SCOPE}
        exec(compile(text, FAST_PATH_FILE, "exec"), scope)
        return FastPath(scope.pop("direct"), self.split)

    def _needs_no_code(self, guard: Guard, tensors: dict[Path, int]) -> bool:
        """True if a guard needs no code.

        `collect` compares the types of tensors, and the first line of the fast path rejects
        unexpected keywords.
        """
        if guard.category == "condition":
            return all(p in tensors and None not in self.shapes[p] for p in guard.paths)
        return guard.category == "sizes" or (guard.path == _KWARGS and not self.at.kwargs)

    def _tensors(self) -> dict[Path, int]:
        """The paths of all tensors with guarded types, and their indices among the arrays.

        Arguments come first. Arrays are in the order of the segments. Raises NoFastPath for a used
        tensor without a guard on its type.
        """
        used = dict.fromkeys(p for segment in segments_of(self.at.root) for p in segment.paths)
        number = {p: i for i, p in enumerate(used)}
        for guard in self.at.guards:
            if guard.category == "sizes":
                guarded_shape, shape = self.shapes.get(guard.path), guard.constants["S"]
                self.shapes[guard.path] = shape if guarded_shape is None else tuple(
                    [n if m is None else m for m, n in zip(guarded_shape, shape, strict=True)])
        if not number.keys() <= self.shapes.keys():
            raise NoFastPath
        argument_order = {p: i for i, p in enumerate(self._arguments())}
        ordered = sorted(self.shapes, key=lambda p: argument_order.get(p, len(argument_order)))
        return {p: number.get(p, -1) for p in ordered}

    def _expected(self, path: Path, number: int) -> ExpectedTensor:
        return ExpectedTensor(self.read(path), number, self.shapes[path])

    def _arguments(self) -> list[Path]:
        return [_ARGS.item(i) for i in range(len(self.at.args))]

    def _head(self) -> Iterator[str]:
        keyword_check = "" if self.at.kwargs else "kwargs or "
        yield f"    if {keyword_check}INTERPRETER.in_use != INTERPRETER.devices " \
            "or MODE.enabled is not GRAD: return NOT_TRACED"

    def _identity_checks(self, forget: Callable[[Any], None]) -> Iterator[str]:
        for path, is_weak in self.elision.identity_checks.items():
            start, value = len(self.source.lines), self.read(path)
            name = self.source.read(path) if is_weak else self.source.looked_up(path)
            yield from self.source.lines[start:]
            if is_weak:
                reference = self.source.constant(weakref.ref(value, forget))
                yield f"    if {name} is not {reference}() or {name} is None: return NOT_TRACED"
            else:
                yield f"    if {name} is not {self.source.read(path)}: return NOT_TRACED"

    def _guards(self, guards: Sequence[Guard], inputs: Sequence[Path]) -> Iterator[str]:
        is_all_arguments = list(inputs) == self._arguments()  # `collect` then checks their number
        for guard in guards:
            if is_all_arguments and guard.path == _ARGS and guard.category == "contents":
                continue
            start = len(self.source.lines)
            condition = guard_expression(guard, self.source)
            yield from self.source.lines[start:]
            yield f"    if not ({condition}): return NOT_TRACED"

    def _collect_call(self, inputs: Sequence[Path]) -> Iterator[str]:
        if list(inputs) == self._arguments():
            yield "    arrays = COLLECT(*args)"
        else:
            start = len(self.source.lines)
            names = ", ".join([self.source.read(p) for p in inputs])
            yield from self.source.lines[start:]
            yield f"    arrays = COLLECT({names})"
        yield "    if arrays is None: return NOT_TRACED"

    def _run_lines(self, tensors: dict[Path, int]) -> Iterator[str]:
        start = len(self.source.lines)
        for trace_exit in self.exits:
            targets = [self.source.read(e.target) for e in trace_exit.effects]
            self.targets[trace_exit] = ", ".join(targets)
        lines = list(self._tree_lines(tensors))
        yield from self.source.lines[start:]
        yield from self._view_guards()
        yield from _indented(lines)

    def _view_guards(self) -> Iterator[str]:
        """Lines that leave calls whose targets are views to the slow path, before anything runs."""
        targets = {e.target for trace_exit in self.exits for e in trace_exit.effects
                   if isinstance(e.assign, SetArray)}
        for name in sorted(self.source.read(target) for target in targets):
            yield f"    if {name}._view is not None and IS_SHARED({name}): return NOT_TRACED"

    def _tree_lines(self, tensors: dict[Path, int]) -> Iterator[str]:
        """Lines that run the tree: one native call, or one call per segment."""
        has_one_exit = len(self.exits) == 1
        native: Native = UPPER.fast_path
        root = self.at.root
        single = bool(root.exits) and not root.segments and not _reads_numbers(root)
        native_program = None if single else native.lower_control(
            root, tensors, lambda path: type(self.read(path)), list(self.at.sizes))
        self.split = native_program if isinstance(native_program, str) else \
            None if native_program is None else ""
        if native_program is None or isinstance(native_program, str):
            python_backend = PythonBackend(tensors, self.at.sizes, self.source, has_one_exit)
            self.ends = python_backend.ends
            yield from ["effects = []"] if self.calls_host else []
            yield from python_backend.lines(root)
            return
        self.ends = native_program.ends
        numbers = "".join(f"{self.source.read(path)}, " for path in native_program.arguments)
        axes = [self.at.sizes[name] for name in native_program.sizes]
        sizes = "".join(f"{self.source.read(path)}._data.shape[{axis}], " for path, axis in axes)
        for trace_exit in native_program.first:
            fails = f"{self.source.constant(trace_exit.check)}(args, kwargs) >= 0"
            yield f"if {fails}: return NOT_TRACED"
        if self.changes:
            yield "section.open = False"
        section = "section" if self.changes else "None"
        yield f"found, end, values = {self.source.constant(native_program)}" \
            f"(arrays, {section}, ({numbers}), ({sizes}))"
        yield "if end < 0: return NOT_TRACED"
        checked_later = [x for x in self.ends if x not in native_program.first]
        if not has_one_exit and any(x.exit_guards for x in checked_later):
            checks = self.source.constant([x.check for x in self.ends])  # of this tree
            yield f"if {checks}[end](args, kwargs) >= 0: return NOT_TRACED"

    def _result_lines(self) -> Iterator[str]:
        """Lines that build and return the result of each exit."""
        for number, trace_exit in enumerate(self.ends):
            name = self.source.constant(trace_exit)
            if len(self.ends) == 1:
                yield from _indented(self._result(trace_exit, name))
            else:
                yield f"    if end == {number}:"
                yield from _indented(_indented(self._result(trace_exit, name)))

    def _result(self, trace_exit: TraceExit, name: str) -> list[str]:
        """Lines for one exit: inline code if possible, else a call of `TraceExit.finish`."""
        single, used = trace_exit.single_output(), f"{name}.uses += 1"
        last = [*self._effect_lines(), "return result"]
        if single is not None:
            return [used, *self._tensor("result", single), *last]
        if trace_exit.backward is None and not trace_exit.formulas \
                and not trace_exit.reads_arguments:
            return [used, *self._inline_result(trace_exit), *last]
        numbers = ["read.number = values.__getitem__"] if trace_exit.formulas else []
        return [used, "read = READER(args, kwargs, FN, HELD)", *numbers,
                f"result, commit = {name}.finish(found, [{self.targets[trace_exit]}], None, read)",
                "commit()", *last]

    def _effect_lines(self) -> list[str]:
        """Lines that perform the effect calls, when everything else has changed."""
        if not self.calls_host:
            return []
        return [*(["section.open = True"] if self.changes else []), "PERFORM(effects)"]

    def _tensor(self, name: str, of: OutputTensor) -> list[str]:
        """Lines that wrap an output array in a tensor."""
        cls = "TENSOR" if of.cls is Tensor else self.source.constant(of.cls)
        return [f"{name} = NEW({cls})", f"{name}._data = found[{of.value}]",
                f"{name}.edge = {self.source.constant(of.edge)}",
                f"{name}._grad = {name}._view = None"]

    def _inline_result(self, trace_exit: TraceExit) -> Iterator[str]:
        """Lines that do the work of `TraceExit.finish` and apply the effects."""
        constant = self.source.constant
        for i, tensor in enumerate(trace_exit.tensors):
            yield from self._tensor(f"tensor{i}", tensor)
        yield f"tensors = [{', '.join([f'tensor{i}' for i in range(len(trace_exit.tensors))])}]"
        yield f"result = {self._value(trace_exit, trace_exit.result)}"
        yield f"targets = [{self.targets[trace_exit]}]"
        for i, effect in enumerate(trace_exit.effects):
            value = self._value(trace_exit, effect.value) if effect.node is None else \
                f"found[{effect.node}]"
            yield f"new{i} = {value}"
        for i, effect in enumerate(trace_exit.effects):
            name = effect.assign.attribute
            yield f"{constant(effect.assign)}(targets[{i}], new{i})" if not name else \
                f"targets[{i}].{name} = new{i}"

    def _value(self, trace_exit: TraceExit, make: Recipe) -> str:
        """The source of a recipe's value: a tensor, None, or a call of the recipe."""
        index = forwarded_tensor(make, len(trace_exit.tensors))
        if index is None:
            return f"{self.source.constant(make)}(tensors, None)"
        return "None" if index is RETURNS_NONE else f"tensor{index}"

    def _constants(self, collect: Callable[..., Any]) -> dict[str, Any]:
        return {"COLLECT": collect, "INTERPRETER": interpreter, "MODE": MODE, "GRAD": MODE.enabled,
                "READER": PathReader, "HELD": self.at.held, "OWNED": self.elision.owned,
                "NEW": object.__new__, "TENSOR": Tensor, "IS_SHARED": is_shared,
                "SECTION": Uninterrupted, "PERFORM": perform}


def _reads_numbers(block: Block) -> bool:
    """True if the graph of an exit reads numbers, which native code passes faster."""
    segment = block.exits[0].segment
    return segment is not None and bool(segment.inputs.numbers)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
