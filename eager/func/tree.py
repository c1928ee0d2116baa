"""Flattens and rebuilds nested tuples, lists, dicts, named tuples and dataclasses of tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError


class Container(NamedTuple):
    """A container: its type, names of items and their structures; None has no items."""

    kind: type
    names: tuple[Any, ...]
    items: tuple[Any, ...]  # of Node, or LEAF

    def __str__(self) -> str:
        if self.kind is type(None):
            return "None"
        named = self.kind is not tuple and self.kind is not list
        parts = [f"{n}: {i}" if named else f"{i}" for n, i in zip(self.names, self.items)]
        return f"{self.kind.__name__}({', '.join(parts)})"


LEAF = "a tensor"  # any object that is no container


def parts(tree: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """The names and the items of a container; None for a leaf."""
    if tree is None:
        return (), ()
    if isinstance(tree, dict):
        return tuple(tree), tuple(tree.values())
    if isinstance(tree, (tuple, list)):
        return tuple(getattr(tree, "_fields", range(len(tree)))), tuple(tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = tuple(f.name for f in dataclasses.fields(tree) if f.init)
        return names, tuple(getattr(tree, n) for n in names)
    return None


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of `tree`, and its structure."""
    content = parts(tree)
    if content is None:
        return [tree], LEAF
    leaves: list[Any] = []
    nodes = []
    for item in content[1]:
        below, node = flatten(item)
        leaves += below
        nodes.append(node)
    return leaves, Container(type(tree), content[0], tuple(nodes))


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """The tree of a structure with these leaves."""
    return _build(structure, iter(leaves))


def _build(node: Any, leaves: Any) -> Any:
    if node is LEAF:
        return next(leaves)
    if node.kind is type(None):
        return None
    items = [_build(item, leaves) for item in node.items]
    if issubclass(node.kind, dict):
        return _filled(node, items)
    if hasattr(node.kind, "_fields"):
        return node.kind(*items)
    if issubclass(node.kind, (tuple, list)):
        return node.kind(items)
    return node.kind(**dict(zip(node.names, items)))


def _filled(node: Container, items: list[Any]) -> Any:
    container = node.kind() if node.kind is not dict else {}
    container.update(zip(node.names, items))
    return container


def tree_map(fn: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with every leaf x replaced by fn(x)."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [fn(x) for x in leaves])


def leaf_paths(structure: Any, prefix: str = "") -> list[str]:
    """The path to each leaf as text: "[0]['x']"."""
    if structure is LEAF:
        return [prefix]
    by_name = not issubclass(structure.kind, (dict, tuple, list, type(None)))
    return [path for name, item in zip(structure.names, structure.items)
            for path in leaf_paths(item, f"{prefix}.{name}" if by_name else f"{prefix}[{name!r}]")]


def argument_paths(structure: Any) -> list[str]:
    """The path to each leaf of a tuple of arguments, from the number of the argument: "0['x']"."""
    return [f"{n}{at}" for n, item in enumerate(structure.items) for at in leaf_paths(item)]


def spread(name: str, prefix: Any, structure: Any) -> list[Any]:
    """The entry of `prefix` for each leaf: a tree that may end earlier than the structure.

    The entry of a branch holds for all leaves below it.
    """
    if prefix is None or structure is LEAF or not isinstance(prefix, (tuple, list, dict)):
        if isinstance(prefix, (tuple, list, dict)):
            raise ShapeError(f"{name}: {prefix!r} stands where there is one tensor",
                             "give an int or None for it")
        return [prefix] * _count(structure)
    entries = prefix if isinstance(prefix, dict) else dict(zip(structure.names, prefix))
    if len(structure.names) != len(prefix) or set(entries) != set(structure.names):
        raise ShapeError(f"{name}: {prefix!r} does not have the structure of {structure}",
                         "give one int for all, or one entry for each")
    return [entry for key, item in zip(structure.names, structure.items)
            for entry in spread(name, entries[key], item)]


def _count(structure: Any) -> int:
    return 1 if structure is LEAF else sum(map(_count, structure.items))


def tensors(
    name: str, leaves: Sequence[Any], structure: Any, what: str,
    named: Callable[[Any], list[str]] = leaf_paths,
) -> list[Tensor]:
    """`leaves`, which must be tensors; a DTypeError names the first that is not."""
    for path, x in zip(named(structure), leaves):
        if not isinstance(x, Tensor):
            raise DTypeError(f"{name}: {what}{path} is {type(x).__name__}, not a tensor",
                             "make a tensor of it: fw.tensor(x)")
    return list(leaves)


def with_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """(result, aux) from the return value of a function; aux is None without `has_aux`."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise DTypeError(f"{name}: with has_aux=True the function returns (result, aux), it gave "
                         f"{type(result).__name__}", "return a tuple of two")
    return result
