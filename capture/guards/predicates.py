"""Defines the predicates of guards as Python text, by name.

`{0}` is the value at the path of a guard, `{1}` and so on are the values at its further paths, and
names such as `{K}` are its constants.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ...eager.arrays import devices
from ...eager.core.views import has_base, relations, repeats_elements, strides_of
from ..heap.grad_hook_guards import hooks_of


def lacks(name: str, value: Any) -> bool:
    """True if an object has no value in a slot."""
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return True
    return False


def _of_shape(constants: Mapping[str, Any]) -> str:
    shape = constants["S"]
    if None not in shape:
        return "{0}._data.shape == {S}"
    sizes = [f"{{0}}._data.shape[{i}] == {n}" if type(n) is int else
             f"{{0}}._data.shape[{i}] > 0" for i, n in enumerate(shape)]
    return " and ".join([f"{{0}}._data.ndim == {len(shape)}", *sizes])


def _of_sizes(constants: Mapping[str, Any]) -> str:
    names = sorted(constants["H"].expr.symbols())
    read = [f"{name!r}: {{{i}}}._data.shape[{axis:d}]"
            for i, (name, axis) in enumerate(zip(names, constants["A"], strict=True))]
    return f"{{H}}.holds({{{{{', '.join(read)}}}}})"


def _of_objects(constants: Mapping[str, Any]) -> str:
    others = ", ".join(f"id({{{i + 1}}})" for i in range(len(constants)))
    return f"len({{{{id({{0}}), {others}}}}}) == {len(constants) + 1}"


def _relations(constants: Mapping[str, Any]) -> str:
    """The predicate that says which tensors share elements; a constant `K` is its text."""
    tensors = ", ".join(f"{{{i}}}" for i in range(len(constants)))
    return f"RELATIONS(({tensors},)) == {{K}}"


def _layout(constants: Mapping[str, Any]) -> str:
    return "STRIDES_OF({0}) == {K}" if constants["K"] else \
        "({0}._view is None or STRIDES_OF({0}) == {K})"


def _tensor(edge: str, constants: Mapping[str, Any]) -> str:
    """The predicate of a tensor; a constant `P` is the name of its device, if not the CPU."""
    device = "DEVICES.of({0}._data) == {P}" if "P" in constants else \
        "type({0}._data) not in DEVICES.LOADED"
    return "type({0}) is {T} and {0}._data.dtype == {D} and " \
        f"{{0}}.edge is {edge} and {device} and {_of_shape(constants)}"


CONDITIONS: dict[str, str | Callable[[Mapping[str, Any]], str]] = {
    "is": "{0} is {K}",
    "of type": "type({0}) is {T}",
    "equal": "type({0}) is {T} and ({0} == {K})",
    "nan": "type({0}) is {T} and ({0} != {0})",
    "equal zero": "type({0}) is {T} and (repr({0}) == repr({K}))",  # 0.0 is not -0.0
    "count": "len({0}) == {N}",
    "keys": "[*{0}] == {K}",
    "keys as text": "repr([*{0}]) == {K}",
    "same keys": "len({0}) == {N} and all(map(IS, {0}, {K}))",
    "has keys": "all(map({0}.__contains__, {K}))",
    "lacks keys": "{0}.keys().isdisjoint({K})",
    "superset": "{0}.issuperset({K})",
    "bytes": "{0} == {K}",
    "longest": "{0}.maxlen == {N}",
    "attribute count": "len({0}.__dict__) == {N}",
    "attributes": "{0}.__dict__.keys() == {K}",
    "no attribute": "not hasattr({0}, {K})",
    "no attributes": "{0}.__dict__.keys().isdisjoint({K})",
    "empty slot": "LACKS({K}, {0})",
    "no globals": "{K}.isdisjoint({0}.keys())",
    "same object": "{0} is {1}",
    "another object": "{0} is not {1}",
    "different objects": _of_objects,
    "relations": _relations,
    "layout": _layout,
    "no view": "({0}._view is None or not HAS_BASE({0}))",
    "no repeats": "({0}._view is None or not REPEATS({0}))",
    "same values": "{0}._data is {1}._data",
    "tensor": functools.partial(_tensor, "None"),
    "tensor on tape": functools.partial(_tensor, "not None"),
    "leaf": "type({0}.edge) is {L}",
    "hooks": "HOOKS({0}.edge) == {K}",
    "no gradient": "{0}._grad is None",
    "gradient": "{0}._grad is not None",
    "same size": "{0}._data.shape[{A}] == {1}._data.shape[{B}]",
    "sizes": _of_sizes,
}

SCOPE: dict[str, Any] = {"IS": operator.is_, "LACKS": lacks, "HOOKS": hooks_of, "DEVICES": devices,
                         "RELATIONS": relations, "STRIDES_OF": strides_of, "HAS_BASE": has_base,
                         "REPEATS": repeats_elements}
"""Global names of the predicates."""


def text_of(condition: str, constants: Mapping[str, Any]) -> str:
    """The text of a condition with these constants."""
    text = CONDITIONS[condition]
    return text if isinstance(text, str) else text(constants)
