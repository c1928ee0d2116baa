"""When a recording is valid: conditions on what the run could read, as one generated function.

Each condition is text that reads like what a user would write; a miss names the first that failed.
Only names that stand in code that ran are looked at.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...eager.arrays import devices
from ...eager.core.tensor import Tensor
from ..graph.graph import param_key
from ..heap import grad_hook_guards
from ..heap.access_path import Members, Path, describe, item, steps
from ..heap.introspection import dictionary, own_count
from ..heap.snapshot import FIXED, SEQUENCES, is_plain
from ..heap.unguardable import unreadable
from ..sizes.size_expr import constant
from ..sizes.symbolic_dim import Condition
from ..trace.tracer import Tracer
from .predicates import SCOPE, text_of

_INTERNAL = {"_parameters", "_modules", "_buffers", "_grad", "__self__", "__func__", "func", "args",
             "keywords", "original", "fget", "__defaults__", "__kwdefaults__", "__code__",
             "environ"}  # looked through


class Guard(NamedTuple):
    """A condition of CONDITIONS on the value at `path`, with constants: of these paths are further
    values."""

    path: Path
    condition: str
    constants: dict[str, Any]
    says: str  # the condition in the user's words
    # What it is about: a plain "number", the "sizes" of a tensor, a "condition" of sizes; the
    # "identity" of objects, a "type", the "contents" of an object, the "keys" of a dictionary.
    of: str = ""

    @property
    def paths(self) -> list[Path]:
        """What the condition is about."""
        return [self.path, *(v for v in self.constants.values() if isinstance(v, Path))]

    @property
    def key(self) -> Any:
        """Equal for guards that are the same condition."""
        constants = tuple((k, v if isinstance(v, Path) else _identity(v))
                          for k, v in self.constants.items())
        return self.path, self.condition, constants


def _identity(value: Any) -> Any:
    if type(value) in (tuple, list):
        return (type(value), *map(_identity, value))
    if isinstance(value, Condition):
        return value.relation, value.expr, value.outcome
    plain = type(value) in _PLAIN_KEYS or isinstance(value, np.dtype)
    return param_key(value) if plain else id(value)


_PLAIN_KEYS = (int, float, bool, str, bytes)


class PathCodegen:
    """Collects the lines and constants of a generated function that reads paths."""

    def __init__(self, function: Any, held: dict[int, Any], careful: bool = False) -> None:
        """careful: nothing is known of what is read, so that items may be missing."""
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {"FN": function, "ITEM": item, **SCOPE}
        self._careful = careful
        self._variables: dict[Path, str] = {Path("args"): "args", Path("kwargs"): "kwargs",
                                            Path("function"): "FN"}
        self._held = held

    def read(self, path: Path) -> str:
        """The variable that holds the value at `path`; its line is added once."""
        for step in steps(path):
            if step not in self._variables:
                self._variables[step] = self._step(step)
        return self._variables[path]

    def root(self, path: Path) -> Any:
        """The object that a path which is none of the call's own begins with."""
        return path.key if path.kind == "class" else self._held[path.key]

    def constant(self, value: Any) -> str:
        name = f"K{len(self.constants)}"
        self.constants[name] = value
        return name

    def _step(self, step: Path) -> str:
        if step.kind in ("globals", "object", "class"):
            return self.constant(self.root(step))
        assert step.parent is not None
        parent, name = self._variables[step.parent], f"v{len(self.lines)}"
        if step.kind == "attr":
            expression = f"{parent}.{step.key}"
        elif step.kind == "cell":
            expression = f"{parent}.__closure__[{step.key}].cell_contents"
        else:
            key = step.key.value
            text = repr(key) if isinstance(key, (str, int)) else self.constant(key)
            expression = f"ITEM({parent}, {text})" if self._careful else f"{parent}[{text}]"
        self.lines.append(f"    {name} = {expression}")
        return name


def find_guards(recorder: Tracer, wanted: dict[Path, Any], names: set[str] | None) -> list[Guard]:
    """The conditions under which a call takes the path that `recorder` noted.

    `wanted` are the values that code can have read, `names` the names in it; None: any.
    """
    aliases = dict(recorder.state.aliases)
    guards = list(_of_call(recorder))
    guards += [g for path, value in wanted.items() if path not in aliases or not _matters(value)
               for g in _of_value(recorder, path, value)]
    guards += [_alias(a, b) for a, b in aliases.items() if a in wanted and _matters(wanted[a])]
    guards += _of_sizes(recorder)
    guards += [g for made in (_shared, _distinct, _changed_once, _missing)
               for g in made(recorder, wanted)]
    guards += [g for path, value in wanted.items() for g in _keys(recorder, path, value, names)]
    return guards


def _of_call(recorder: Tracer) -> Iterator[Guard]:
    yield Guard(Path("args"), "count", {"N": recorder.positional},
                f"the number of positional arguments is {recorder.positional}", "contents")
    keys = recorder.keywords
    yield Guard(Path("kwargs"), "keys", {"K": list(keys)},
                f"the keyword arguments are {', '.join(keys) or 'none'}", "keys")


def find_wanted(recorder: Tracer, names: set[str] | None) -> dict[Path, Any]:
    """The values by path on which the run can depend: what code that ran can have followed, by its
    names, and what stands on the way there. None: it may have read any attribute."""
    values = recorder.state.values
    read = _read(recorder, names)
    wanted: dict[Path, Any] = {}
    for path in values:
        if (path in read and path.parent is not None and path.key != "_grad") \
                or path in recorder.sources:
            for step in steps(path):  # containers first: their keys are guarded before their items
                if step in values:
                    wanted[step] = values[step]
    return wanted


def _read(recorder: Tracer, names: set[str] | None) -> set[Path]:
    """Paths that code can have followed. What it found by one path it can have read by another:
    the parts of an object stand under the path by which that was found first."""
    below: dict[Path | None, list[Path]] = {}
    for path in recorder.state.values:
        above = path.parent if path.parent in recorder.state.values else None
        below.setdefault(above, []).append(path)
    first = dict(recorder.state.aliases)
    found: set[Path] = set()
    todo = [p for p in below.pop(None) if _can_follow(p, names)]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += [p for p in below.get(path, ()) if _can_follow(p, names)]
            todo += [first[path]] if path in first else []
    return found


def _can_follow(path: Path, names: set[str] | None) -> bool:
    """Whether code with these names can have made the last step of a path."""
    if names is None or path.parent is None:
        return True
    if path.kind == "attr":
        return path.key in names or path.key in _INTERNAL
    of_names = path.parent.kind == "globals" or type(path.parent.key) is Members
    return not (path.kind == "item" and of_names) or path.key.value in names


def _of_value(recorder: Tracer, path: Path, value: Any) -> Iterator[Guard]:
    own = path.parent is not None and path.parent.kind == "function"
    if path.parent is None or (own and path.key in ("__self__", "__func__")):
        return
    kind = type(value)
    if isinstance(value, Tensor):
        yield from _of_tensor(recorder, path, value)
    elif value is None or kind is bool or isinstance(value, (*FIXED, types.FunctionType)):
        yield Guard(path, "is", {"K": value}, f"{describe(path)} is {_short(value)}", "identity")
    elif path in recorder.widened:
        yield Guard(path, "of type", {"T": kind},
                    f"{describe(path)} is of type {kind.__name__}", "type")
    elif is_plain(value):
        yield from _of_plain(path, value)
    elif isinstance(value, (np.ndarray, np.generic)):
        recorder.refuse(f"a NumPy array is read ({describe(path)}); give the "
                        "function a tensor instead: fw.from_numpy(array)")
    else:
        yield from _of_object(recorder, path, value)


def _of_plain(path: Path, value: Any) -> Iterator[Guard]:
    same = "equal"
    if value != value:
        same = "nan"
    elif isinstance(value, (float, complex, np.inexact)) and 0.0 in (value.real, value.imag):
        same = "equal zero"
    yield Guard(path, same, {"T": type(value), "K": value},
                f"{describe(path)} {_equals(value)} {_short(value)}",
                "number" if type(value) in (int, float) else "")


def _of_object(recorder: Tracer, path: Path, value: Any) -> Iterator[Guard]:
    says = f"{describe(path)} is a {type(value).__name__}"
    yield Guard(path, "of type", {"T": type(value)}, says, "type")
    own = own_count(value, recorder.state.held.get(path))
    if own is not None:  # one more could stand in front of a method
        yield Guard(path, "attribute count", {"N": own},
                    f"{describe(path)} has {own} attributes", "contents")
    why = unreadable(value)
    if why:
        recorder.refuse(f"{says}, {why}")
    elif _is_closed(value):
        yield Guard(path, "is", {"K": value}, f"{describe(path)} is {_short(value)}", "identity")
    elif path in recorder.state.added and isinstance(value, set):
        yield Guard(path, "superset", {"K": recorder.state.held[path]},
                    f"{describe(path)} has the same contents")
    elif isinstance(value, (set, frozenset)):
        yield from _of_elements(recorder, path, list(recorder.state.held[path]), "elements")
    elif isinstance(value, bytearray):
        held = recorder.state.held[path]
        yield Guard(path, "bytes", {"K": held}, f"{describe(path)} == {held!r:.60}")
    elif isinstance(value, dict) and path not in recorder.state.added:
        keys = [k for k, _ in recorder.state.held[path]]
        yield from _of_elements(recorder, path, keys, "keys")
    elif isinstance(value, SEQUENCES) and path not in recorder.state.added:
        count = len(recorder.state.held.get(path, value))
        yield Guard(path, "count", {"N": count},
                    f"{describe(path)} has {count} elements", "contents")
    if isinstance(value, deque):
        yield Guard(path, "longest", {"N": value.maxlen},
                    f"{describe(path)} has the maximum length {value.maxlen}")
    if path in recorder.state.large and path not in recorder.state.added:
        recorder.refuse(f"{describe(path)} has {len(value)} elements, too many to guard")


def _of_elements(recorder: Tracer, path: Path, elements: list[Any], what: str) -> Iterator[Guard]:
    """The elements of a set, the keys of a dictionary: the same ones in the same order."""
    count = len(elements)
    says = f"{describe(path)} has {count} {what}"
    if all(type(k) is str for k in elements):
        yield Guard(path, "keys", {"K": elements}, says, "keys")
    elif all(_is_told_by_text(k) for k in elements):
        yield Guard(path, "keys as text", {"K": repr(elements)}, says, "keys")
    elif what == "elements" and not all(is_plain(k) or isinstance(k, FIXED) for k in elements):
        kind = type(recorder.state.values[path]).__name__
        recorder.refuse(f"{describe(path)} is a {kind} of objects; use a list")
    else:
        yield Guard(path, "same keys", {"N": count, "K": elements}, says, "keys")


def _is_told_by_text(key: Any) -> bool:
    """Whether keys of one text are equal, and of one type."""
    if type(key) is tuple:
        return all(map(_is_told_by_text, key))
    return type(key) in (int, float, bool, str, bytes, type(None))


def _is_closed(value: Any) -> bool:
    """Whether nothing can be seen of what an object holds: only it itself is equal to it."""
    cls = type(value)
    return not (hasattr(value, "__dict__") or any("__slots__" in c.__dict__ for c in cls.__mro__)
                or isinstance(value, (dict, set, frozenset, bytearray, *SEQUENCES))
                or hasattr(cls, "__captured__") or cls in (types.MethodType, property,
                functools.partial, staticmethod, classmethod))


def _missing(recorder: Tracer, wanted: dict[Path, Any]) -> Iterator[Guard]:
    """Names that are builtins, or nothing, must not become globals."""
    for path, names in recorder.state.missing.items():
        if names:
            yield Guard(path, "no globals", {"K": names},
                        f"no global is named {' or '.join(sorted(names))}")


def _keys(recorder: Tracer, path: Path, value: Any, names: set[str] | None) -> Iterator[Guard]:
    """Which attributes an object has, where code may have asked, and those that the run made."""
    for made, name in recorder.created:
        if made == path:
            yield Guard(path, "no attribute", {"K": name}, f"{path} has no attribute {name}",
                        "contents")
    seen = path in recorder.state.held and not isinstance(value, (Tensor, types.FunctionType))
    own = dictionary(value) if names is None and seen else None
    if own is not None:
        keys = set(own) - {n for p, n in recorder.created if p == path}
        yield Guard(path, "attributes", {"K": keys},
                    f"{describe(path)} has the attributes {', '.join(sorted(map(str, keys)))}",
                    "contents")


def _of_tensor(recorder: Tracer, path: Path, tensor: Tensor) -> Iterator[Guard]:
    first = recorder.state.paths.get(id(tensor), path)  # where it was found when the run began
    array, gradient = recorder.state.held.get(first, (tensor._data, tensor._grad))
    edge = recorder.state.edges.get(first, tensor.edge)
    on_tape = edge is not None
    shape = recorder.shape_at(path, array.shape)
    device = devices.of(array)
    says = f"{describe(path)} is {array.dtype.name}[{', '.join(map(str, shape))}]" \
        f"{', requires_grad' if on_tape else ''}{f' on {device}' if devices.in_use else ''}"
    known = tuple([n if type(n) is int else None for n in shape])
    names = {"T": type(tensor), "D": array.dtype, "S": known}
    if device != devices.CPU:
        names["P"] = array.device.id
    yield Guard(path, "tensor on tape" if on_tape else "tensor", names, says, "sizes")
    if recorder.went_back:
        for same, names in grad_hook_guards.condition(edge):
            yield Guard(path, same, names, f"{describe(path)} has the same hooks")
    if id(tensor) in recorder.grads_read and first.attr("_grad") not in recorder.sources:
        held = "is" if gradient is None else "is not"
        yield Guard(path, "no gradient" if gradient is None else "gradient", {},
                    f"{describe(path)}.grad {held} None")


def _of_sizes(recorder: Tracer) -> Iterator[Guard]:
    """What the run asked of the sizes that vary, and that sizes of one name are one size."""
    places = recorder.varying.places()
    for (path, axis), name in recorder.varying.axes.items():
        other, at = places[name]
        if (path, axis) != (other, at):
            yield Guard(path, "same size", {"A": axis, "B": at, "1": other},
                        f"{describe(path)}.shape[{axis}] == {describe(other)}.shape[{at}]",
                        "condition")
    sizes = recorder.sizes
    fixed = [Condition("eq", f.expr - constant(f.value), True, f.line) for f in sizes.fixed]
    for condition in (*sizes.conditions.values(), *fixed):
        yield _condition(condition, places)


def _condition(condition: Condition, places: dict[str, Any]) -> Guard:
    names = sorted(condition.expr.symbols())
    paths = {str(i): places[name][0] for i, name in enumerate(names) if i}
    where = ", ".join(f"{n} = {describe(places[n][0])}.shape[{places[n][1]}]" for n in names)
    axes = tuple([places[name][1] for name in names])
    return Guard(places[names[0]][0], "sizes", {"H": condition, "A": axes, **paths},
                 f"{condition}, where {where} (checked at {condition.line})", "condition")


def _equals(value: Any) -> str:
    """The comparison that a message names: `is` for None, True and False, `==` for others."""
    return "is" if value is None or isinstance(value, bool) else "=="


def _short(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return f"the code of {value.co_name}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return str(name) if name else f"{value!r:.60}"


def _matters(value: Any) -> bool:
    return not (is_plain(value) or isinstance(value, (*FIXED, types.FunctionType)))


def _alias(path: Path, first: Path) -> Guard:
    """A second way to a known object must lead to that object again."""
    return Guard(path, "same object", {"1": first},
                 f"{describe(path)} is the same object as {describe(first)}", "identity")


def _shared(recorder: Tracer, wanted: dict[Path, Any]) -> Iterator[Guard]:
    """Tensors over one array are not told apart while recording, so they must share it again."""
    state = recorder.state
    first: dict[int, Path] = {}
    for path, value in wanted.items():
        if isinstance(value, Tensor) and state.paths[id(value)] == path:
            known = first.setdefault(id(state.held[path][0]), path)
            if known != path:
                yield Guard(path, "same values", {"1": known},
                            f"{describe(path)} shares memory with {describe(known)}")


def _changed_once(recorder: Tracer, wanted: dict[Path, Any]) -> Iterator[Guard]:
    """Objects that were changed must stay different from others that could have been them."""
    values = recorder.state.values
    for path in recorder.changed_paths:
        if path.parent is None or isinstance(values[path], (Tensor, types.FunctionType)):
            continue
        for other, value in wanted.items():
            if type(value) is type(values[path]) and value is not values[path]:
                yield Guard(other, "another object", {"1": path},
                            f"{describe(other)} is not the same object as {describe(path)}",
                            "identity")


def _distinct(recorder: Tracer, wanted: dict[Path, Any]) -> Iterator[Guard]:
    """Tensors that were changed, or read beside changed ones, must stay different objects."""
    state = recorder.state
    both = dict.fromkeys((*recorder.sources, *recorder.changed_paths))
    paths = [p for p in both if isinstance(state.values.get(p), Tensor)]
    if recorder.changed_tensors and len(paths) > 1:
        first, rest = paths[0], paths[1:]
        yield Guard(first, "different objects", {str(i + 1): p for i, p in enumerate(rest)},
                    "the tensors are different objects", "identity")


def compile_check(guards: list[Guard], source: PathCodegen) -> Callable[[Any, Any], int]:
    """check(args, kwargs): -1 where all guards hold, else the number of the first that fails."""
    for i, guard in enumerate(guards):
        source.lines.append(f"    if not ({written(guard, source)}): return {i}")
    body = "\n".join(["def check(args, kwargs):", *source.lines, "    return -1"])
    scope = dict(source.constants)
    exec(compile(body, "<guards>", "exec"), scope)
    return scope["check"]  # type: ignore[no-any-return]


def compile_each(guards: list[Guard], source: PathCodegen) -> Callable[[Any, Any], list[bool]]:
    """each(args, kwargs): for each guard, whether it holds."""
    conditions = [f"bool({written(guard, source)})" for guard in guards]
    body = "\n".join(["def each(args, kwargs):", *source.lines,
                      f"    return [{', '.join(conditions)}]"])
    scope = dict(source.constants)
    exec(compile(body, "<guards>", "exec"), scope)
    return scope["each"]  # type: ignore[no-any-return]


def written(guard: Guard, source: PathCodegen) -> str:
    """The condition as an expression of the variables and constants of `source`."""
    names = {k: source.read(v) if isinstance(v, Path) else source.constant(v)
             for k, v in guard.constants.items()}
    value = source.read(guard.path)
    numbered = [names[str(n)] for n in range(1, len(names) + 1) if str(n) in names]
    return text_of(guard.condition, guard.constants).format(value, *numbered, **names)

