"""Derives the guards of a trace and compiles them into one generated function.

A guard is a condition on a value that the run could read. Each guard has a message that reads like
the user's code; a cache miss reports the first guard that failed. Guards cover only names that
occur in code that ran.
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
from ...eager.core.views import relations
from ..graph.graph import param_key
from ..heap import grad_hook_guards
from ..heap.access_path import Path, describe, item, steps
from ..heap.introspection import dictionary, own_count
from ..heap.unguardable import why_unguardable
from ..heap.value_kinds import FIXED, SEQUENCES, is_plain
from ..sizes.size_condition import SizeCondition
from ..sizes.size_expr import constant
from ..trace.tracer import Tracer
from .predicates import SCOPE, text_of


class Guard(NamedTuple):
    """A condition of CONDITIONS on the value at `path`. Its constants may be paths of further
    values."""

    path: Path
    condition: str
    constants: dict[str, Any]
    message: str  # the condition in terms of the user's code
    # "number" (a plain one), "sizes" (of a tensor), "condition" (on sizes), "identity", "type",
    # "contents" (of an object), "keys" (of a dictionary), or "".
    category: str = ""

    @property
    def paths(self) -> list[Path]:
        """The paths of all values that the condition reads."""
        return [self.path, *(v for v in self.constants.values() if isinstance(v, Path))]

    @property
    def key(self) -> Any:
        """A key that is equal for equal conditions."""
        constants = tuple((k, v if isinstance(v, Path) else _identity(v))
                          for k, v in self.constants.items())
        return self.path, self.condition, constants


def _identity(value: Any) -> Any:
    if type(value) in (tuple, list):
        return (type(value), *map(_identity, value))
    if isinstance(value, SizeCondition):
        return value.relation, value.expr, value.outcome
    plain = type(value) in _PLAIN_KEYS or isinstance(value, np.dtype)
    return param_key(value) if plain else id(value)


_PLAIN_KEYS = (int, float, bool, str, bytes)


class PathCodegen:
    """Writes the lines and constants of a generated function that reads access paths."""

    def __init__(self, function: Any, held: dict[int, Any], careful: bool = False) -> None:
        """careful: items may be missing, since nothing is known about the values."""
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
        """The root object of a path that does not begin with the call or the function."""
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
        elif step.kind == "call":
            arguments = self.constant(step.key)
            expression = f"{parent}(*{arguments}.args, **{arguments}.kwargs)"
        else:
            key = step.key.value
            text = repr(key) if isinstance(key, (str, int)) else self.constant(key)
            expression = f"ITEM({parent}, {text})" if self._careful else f"{parent}[{text}]"
        self.lines.append(f"    {name} = {expression}")
        return name


def find_guards(tracer: Tracer, read_values: dict[Path, Any]) -> list[Guard]:
    """The guards under which a call may replay the trace of `tracer`.

    `read_values`: the values that code may have read.
    """
    aliases = dict(tracer.state.aliases)
    guards = list(_call_guards(tracer))
    guards += [g for path, value in read_values.items() if path not in aliases
               or not _has_identity(value)
               for g in _value_guards(tracer, path, value)]
    guards += [_alias_guard(a, b) for a, b in aliases.items() if a in read_values
               and _has_identity(read_values[a])]
    guards += _size_guards(tracer)
    guards += [g for make_guards in (_shared_array_guards, _distinct_guards,
                                     _changed_object_guards, _missing_global_guards)
               for g in make_guards(tracer, read_values)]
    guards += [g for path, value in read_values.items()
               for g in _attribute_guards(tracer, path, value)]
    return guards


def _call_guards(tracer: Tracer) -> Iterator[Guard]:
    yield Guard(Path("args"), "count", {"N": tracer.positional},
                f"the number of positional arguments is {tracer.positional}", "contents")
    keys = tracer.keywords
    yield Guard(Path("kwargs"), "keys", {"K": list(keys)},
                f"the keyword arguments are {', '.join(keys) or 'none'}", "keys")


def find_read_values(tracer: Tracer) -> dict[Path, Any]:
    """The values, by path, on which the run may depend: those that code may have read, and the
    values on the paths to them."""
    values = tracer.state.values
    read_values: dict[Path, Any] = {}
    for path in values:
        if (path.parent is not None and path.key != "_grad") or path in tracer.sources:
            for step in steps(path):  # containers first: their keys are guarded before their items
                if step in values:
                    read_values[step] = values[step]
    return read_values


def _value_guards(tracer: Tracer, path: Path, value: Any) -> Iterator[Guard]:
    own = path.parent is not None and path.parent.kind == "function"
    if path.parent is None or (own and path.key in ("__self__", "__func__")):
        return
    kind = type(value)
    if isinstance(value, Tensor):
        yield from _tensor_guards(tracer, path, value)
    elif value is None or kind is bool or isinstance(value, (*FIXED, types.FunctionType)):
        yield Guard(path, "is", {"K": value}, f"{describe(path)} is {_short(value)}", "identity")
    elif path in tracer.symbolized:
        yield Guard(path, "of type", {"T": kind},
                    f"{describe(path)} is of type {kind.__name__}", "type")
    elif is_plain(value):
        yield from _plain_guards(path, value)
    elif isinstance(value, (np.ndarray, np.generic)):
        tracer.refuse(f"a NumPy array is read ({describe(path)}); give the "
                      "function a tensor instead: fw.from_numpy(array)")
    else:
        yield from _object_guards(tracer, path, value)


def _plain_guards(path: Path, value: Any) -> Iterator[Guard]:
    same = "equal"
    if value != value:
        same = "nan"
    elif isinstance(value, (float, complex, np.inexact)) and 0.0 in (value.real, value.imag):
        same = "equal zero"
    yield Guard(path, same, {"T": type(value), "K": value},
                f"{describe(path)} {_equals(value)} {_short(value)}",
                "number" if type(value) in (int, float) else "")


def _object_guards(tracer: Tracer, path: Path, value: Any) -> Iterator[Guard]:
    if path in tracer.effect_targets:
        yield Guard(path, "is", {"K": value}, f"{describe(path)} is {_short(value)}", "identity")
        return
    message = f"{describe(path)} is a {type(value).__name__}"
    yield Guard(path, "of type", {"T": type(value)}, message, "type")
    own = own_count(value, tracer.state.held.get(path))
    if own is not None:  # a further one could hide a method
        yield Guard(path, "attribute count", {"N": own},
                    f"{describe(path)} has {own} attributes", "contents")
    why = why_unguardable(value)
    if why:
        tracer.refuse(f"{message}, {why}")
    elif _has_hidden_state(value):
        yield Guard(path, "is", {"K": value}, f"{describe(path)} is {_short(value)}", "identity")
    elif path in tracer.state.append_only and isinstance(value, set):
        yield Guard(path, "superset", {"K": tracer.state.held[path]},
                    f"{describe(path)} still holds its elements")
    elif path not in tracer.state.held and not isinstance(value, tuple):
        yield from _part_guards(tracer, path, value)
    elif isinstance(value, (set, frozenset)):
        yield from _element_guards(tracer, path, list(tracer.state.held[path]), "elements")
    elif isinstance(value, bytearray):
        held = tracer.state.held[path]
        yield Guard(path, "bytes", {"K": held}, f"{describe(path)} == {held!r:.60}")
    elif isinstance(value, dict) and path not in tracer.state.append_only:
        keys = [k for k, _ in tracer.state.held[path]]
        yield from _element_guards(tracer, path, keys, "keys")
    elif isinstance(value, SEQUENCES) and path not in tracer.state.append_only:
        count = len(tracer.state.held.get(path, value))
        yield Guard(path, "count", {"N": count},
                    f"{describe(path)} has {count} elements", "contents")
    if isinstance(value, deque):
        yield Guard(path, "longest", {"N": value.maxlen},
                    f"{describe(path)} has the maximum length {value.maxlen}")
    if path in tracer.state.large and path not in tracer.state.append_only:
        tracer.refuse(f"{describe(path)} has {len(value)} elements, too many to guard")


def _part_guards(tracer: Tracer, path: Path, value: Any) -> Iterator[Guard]:
    """Guards on a container of which the run has read at most a few items."""
    if path in tracer.state.counted:
        yield Guard(path, "count", {"N": len(value)},
                    f"{describe(path)} has {len(value)} elements", "contents")
    tested = tracer.state.tested.get(path, {})
    present = [key for key, exists in tested.items() if exists]
    missing = [key for key, exists in tested.items() if not exists]
    if present:
        yield Guard(path, "has keys", {"K": present},
                    f"{describe(path)} has the keys {', '.join(map(repr, present))}", "contents")
    if missing:
        yield Guard(path, "lacks keys", {"K": missing},
                    f"{describe(path)} lacks the keys {', '.join(map(repr, missing))}", "contents")


def _element_guards(tracer: Tracer, path: Path, elements: list[Any],
                    what: str) -> Iterator[Guard]:
    """Guards that a set has the same elements, or a dictionary the same keys, in the same order."""
    count = len(elements)
    message = f"{describe(path)} has {count} {what}"
    if all(type(k) is str for k in elements):
        yield Guard(path, "keys", {"K": elements}, message, "keys")
    elif all(_is_told_by_repr(k) for k in elements):
        yield Guard(path, "keys as text", {"K": repr(elements)}, message, "keys")
    elif what == "elements" and not all(is_plain(k) or isinstance(k, FIXED) for k in elements):
        kind = type(tracer.state.values[path]).__name__
        tracer.refuse(f"{describe(path)} is a {kind} of objects; use a list")
    else:
        yield Guard(path, "same keys", {"N": count, "K": elements}, message, "keys")


def _is_told_by_repr(key: Any) -> bool:
    """True if keys of this type with equal `repr` are equal and of one type."""
    if type(key) is tuple:
        return all(map(_is_told_by_repr, key))
    return type(key) in (int, float, bool, str, bytes, type(None))


def _has_hidden_state(value: Any) -> bool:
    """True if the contents of an object cannot be read, so that its guard is identity."""
    cls = type(value)
    return not (hasattr(value, "__dict__") or any("__slots__" in c.__dict__ for c in cls.__mro__)
                or isinstance(value, (dict, set, frozenset, bytearray, *SEQUENCES))
                or hasattr(cls, "__captured__") or cls in (types.MethodType, property,
                functools.partial, staticmethod, classmethod))


def _missing_global_guards(tracer: Tracer, read_values: dict[Path, Any]) -> Iterator[Guard]:
    """Guards that names which were builtins or undefined have not become globals."""
    for path, names in tracer.state.missing.items():
        if names:
            yield Guard(path, "no globals", {"K": names},
                        f"no global is named {' or '.join(sorted(names))}")


def _attribute_guards(tracer: Tracer, path: Path, value: Any) -> Iterator[Guard]:
    """Guards on the set of attributes that code may have read, and on attributes that the run
    created."""
    for owner, name in tracer.created:
        if owner == path:
            yield Guard(path, "no attribute", {"K": name}, f"{path} has no attribute {name}",
                        "contents")
    has_attributes = path in tracer.state.held and not isinstance(value,
                                                                  (Tensor, types.FunctionType))
    state = tracer.state
    is_listed = path in state.listed or (state.any_name and path in state.exposed)
    own = dictionary(value) if is_listed and has_attributes else None
    if own is not None:
        keys = set(own) - {n for p, n in tracer.created if p == path}
        yield Guard(path, "attributes", {"K": keys},
                    f"{describe(path)} has the attributes {', '.join(sorted(map(str, keys)))}",
                    "contents")


def _tensor_guards(tracer: Tracer, path: Path, tensor: Tensor) -> Iterator[Guard]:
    first = tracer.state.paths.get(id(tensor), path)  # its path when the run began
    array, gradient = tracer.state.held.get(first, (tensor._data, tensor._grad))
    edge = tracer.state.edges.get(first, tensor.edge)
    on_tape = edge is not None
    shape = tracer.shape_at(path, array.shape)
    device = devices.of(array)
    message = f"{describe(path)} is {array.dtype.name}[{', '.join(map(str, shape))}]" \
        f"{', requires_grad' if on_tape else ''}{f' on {device}' if devices.in_use else ''}"
    sizes = tuple([n if type(n) is int else None for n in shape])
    names = {"T": type(tensor), "D": array.dtype, "S": sizes}
    if device != devices.CPU:
        names["P"] = device
    yield Guard(path, "tensor on tape" if on_tape else "tensor", names, message, "sizes")
    if tracer.computed_gradients:
        for same, names in grad_hook_guards.hook_condition(edge):
            yield Guard(path, same, names, f"{describe(path)} has the same hooks")
    if id(tensor) in tracer.grads_read and first.attr("_grad") not in tracer.sources:
        relation = "is" if gradient is None else "is not"
        yield Guard(path, "no gradient" if gradient is None else "gradient", {},
                    f"{describe(path)}.grad {relation} None")


def _size_guards(tracer: Tracer) -> Iterator[Guard]:
    """Guards on dynamic sizes: the conditions that the run tested, and equality of sizes that share
    a symbol."""
    axis_of_size = tracer.dynamic_inputs.axis_of_size()
    for (path, axis), name in tracer.dynamic_inputs.axes.items():
        other, at = axis_of_size[name]
        if (path, axis) != (other, at):
            yield Guard(path, "same size", {"A": axis, "B": at, "1": other},
                        f"{describe(path)}.shape[{axis}] == {describe(other)}.shape[{at}]",
                        "condition")
    sizes = tracer.sizes
    fixed = [SizeCondition("eq", f.expr - constant(f.value), True, f.line) for f in sizes.fixed]
    for condition in (*sizes.conditions.values(), *fixed):
        yield _size_condition_guard(condition, axis_of_size)


def _size_condition_guard(condition: SizeCondition, axis_of_size: dict[str, Any]) -> Guard:
    names = sorted(condition.expr.symbols())
    paths = {str(i): axis_of_size[name][0] for i, name in enumerate(names) if i}
    where = ", ".join(f"{n} = {describe(axis_of_size[n][0])}.shape[{axis_of_size[n][1]}]"
                      for n in names)
    axes = tuple([axis_of_size[name][1] for name in names])
    return Guard(axis_of_size[names[0]][0], "sizes", {"H": condition, "A": axes, **paths},
                 f"{condition}, where {where} (checked at {condition.line})", "condition")


def _equals(value: Any) -> str:
    """The comparison that a message names: `is` for None, True and False, `==` for others."""
    return "is" if value is None or isinstance(value, bool) else "=="


def _short(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return f"the code of {value.co_name}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return str(name) if name else f"{value!r:.60}"


def _has_identity(value: Any) -> bool:
    return not (is_plain(value) or isinstance(value, (*FIXED, types.FunctionType)))


def _alias_guard(path: Path, first: Path) -> Guard:
    """A guard that two paths lead to the same object."""
    return Guard(path, "same object", {"1": first},
                 f"{describe(path)} is the same object as {describe(first)}", "identity")


def _shared_array_guards(tracer: Tracer, read_values: dict[Path, Any]) -> Iterator[Guard]:
    """Guards that tensors over one array share it again, since the trace treats them as one."""
    state = tracer.state
    first: dict[int, Path] = {}
    for path, value in read_values.items():
        if isinstance(value, Tensor) and state.paths[id(value)] == path:
            first_path = first.setdefault(id(state.held[path][0]), path)
            if first_path != path:
                yield Guard(path, "same values", {"1": first_path},
                            f"{describe(path)} shares memory with {describe(first_path)}")


def _changed_object_guards(tracer: Tracer, read_values: dict[Path, Any]) -> Iterator[Guard]:
    """Guards that changed objects are distinct from other objects of their type."""
    values = tracer.state.values
    for path in tracer.changed_paths:
        if path.parent is None or isinstance(values[path], (Tensor, types.FunctionType)):
            continue
        for other, value in read_values.items():
            if type(value) is type(values[path]) and value is not values[path]:
                yield Guard(other, "another object", {"1": path},
                            f"{describe(other)} is not the same object as {describe(path)}",
                            "identity")


def _distinct_guards(tracer: Tracer, read_values: dict[Path, Any]) -> Iterator[Guard]:
    """Guards that changed tensors and tensors read beside them are distinct."""
    state = tracer.state
    both = dict.fromkeys((*tracer.sources, *tracer.changed_paths))
    paths = [p for p in both if isinstance(state.values.get(p), Tensor)]
    if tracer.changed_tensors and len(paths) > 1:
        first, rest = paths[0], paths[1:]
        others: dict[str, Any] = {str(i + 1): p for i, p in enumerate(rest)}
        yield Guard(first, "different objects", others,
                    "the tensors are different objects", "identity")
        shared = relations([state.values[p] for p in paths])
        yield Guard(first, "relations", others | {"K": shared},
                    "the tensors are views of each other as in the trace" if shared else
                    "no tensor is a view of another one", "identity")


def compile_check(guards: list[Guard], source: PathCodegen) -> Callable[[Any, Any], int]:
    """Compiles check(args, kwargs) -> -1 if all guards hold, else the index of the first that
    fails."""
    for i, guard in enumerate(guards):
        source.lines.append(f"    if not ({guard_expression(guard, source)}): return {i}")
    body = "\n".join(["def check(args, kwargs):", *source.lines, "    return -1"])
    scope = dict(source.constants)
    exec(compile(body, "<guards>", "exec"), scope)
    return scope["check"]  # type: ignore[no-any-return]


def compile_each(guards: list[Guard], source: PathCodegen) -> Callable[[Any, Any], list[bool]]:
    """Compiles each(args, kwargs) -> one bool per guard: True if it holds."""
    conditions = [f"bool({guard_expression(guard, source)})" for guard in guards]
    body = "\n".join(["def each(args, kwargs):", *source.lines,
                      f"    return [{', '.join(conditions)}]"])
    scope = dict(source.constants)
    exec(compile(body, "<guards>", "exec"), scope)
    return scope["each"]  # type: ignore[no-any-return]


def guard_expression(guard: Guard, source: PathCodegen) -> str:
    """The condition of a guard as Python text over the variables and constants of `source`."""
    names = {k: source.read(v) if isinstance(v, Path) else source.constant(v)
             for k, v in guard.constants.items()}
    value = source.read(guard.path)
    numbered = [names[str(n)] for n in range(1, len(names) + 1) if str(n) in names]
    return text_of(guard.condition, guard.constants).format(value, *numbered, **names)

