"""Operators beyond tensors of numbers in and out: labels and trees of `ai.onnx.ml`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....eager.core.tensor import tensor
from .....eager.errors import ImportModelError
from .....eager.ops.elementwise import pointwise
from .....eager.ops.shape import view
from ..runtime.table import Tensor, operator
from ..runtime.values import is_tensor, value_of

__all__: list[str] = []

ML = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", domain=ML)
def _features(x: Tensor, indices: Tensor) -> Tensor:
    found = view.take(x, view.reshape(indices, (-1,)), axis=-1)
    return view.reshape(found, (1, -1)) if x.ndim == 1 else found


@operator("Binarizer", domain=ML)
def _binarized(x: Tensor, threshold: float = 0.0) -> Tensor:
    return pointwise.greater(x, threshold).astype(x.dtype)


_KINDS = ("tensor", "strings", "int64s", "floats")
_USUAL = {"strings": "_Unused", "int64s": -1, "floats": -0.0}


@operator("LabelEncoder", domain=ML, since=2)
def _encoded(x: Any, **given: Any) -> Any:
    """Each key's value; for what is no key a value of its own."""
    keys, values = (next(((k, given[f"{what}_{k}"]) for k in _KINDS
                          if given.get(f"{what}_{k}") is not None), None)
                    for what in ("keys", "values"))
    if keys is None or values is None:
        raise ImportModelError("LabelEncoder has no keys or no values")
    kind = values[0]
    default = given.get(f"default_{kind.rstrip('s') if kind != 'tensor' else kind}",
                        _USUAL.get(kind))
    array = x.numpy() if is_tensor(x) else x
    table = {_key(k): v for k, v in zip(_listed(keys[1]), _listed(values[1]))}
    unknown = _listed(default)[0] if kind == "tensor" and default is not None else default
    flat = [table.get(_key(v), unknown) for v in array.reshape(-1).tolist()]
    dtype = {"strings": object, "int64s": np.int64, "floats": np.float32}.get(
        kind, getattr(values[1], "dtype", object))
    return value_of(np.array([*flat, None], object)[:-1].astype(dtype).reshape(array.shape))


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else \
        (x.numpy() if is_tensor(x) else np.asarray(x)).reshape(-1).tolist()


def _key(x: Any) -> Any:
    return "nan" if isinstance(x, float) and x != x else x


@operator("TreeEnsemble", domain=ML, since=5)
def _trees(x: Tensor, **how: Any) -> Tensor:
    """What the leaves give that a row of `x` comes to, over all trees."""
    rows = x.numpy()
    out = np.zeros((len(rows), how.get("n_targets", 1)), rows.dtype)
    merge = {0: "sum", 1: "sum", 2: "min", 3: "max"}[how.get("aggregate_function", 1)]
    for row, sums in zip(rows, out):
        leaves: list[list[float]] = [[] for _ in sums]
        for root in how["tree_roots"]:
            leaf = _leaf(row, int(root), how)
            weight = _listed(how["leaf_weights"])[leaf]
            leaves[how["leaf_targetids"][leaf]].append(weight)
        sums[:] = [getattr(np, merge)(of) if of else 0 for of in leaves]
        if how.get("aggregate_function", 1) == 0:
            sums /= len(how["tree_roots"])
    return tensor(out)


_TESTS = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")


def _leaf(row: Any, node: int, how: Any) -> int:
    """The leaf that a row comes to from a node on."""
    splits, modes = _listed(how["nodes_splits"]), _listed(how["nodes_modes"])
    sets = _sets(how.get("membership_values"))
    members = {n: s for n, s in zip((i for i, m in enumerate(modes) if m == 6), sets)}
    for _ in range(len(splits) + 1):
        value = row[how["nodes_featureids"][node]]
        mode = modes[node]
        if np.isnan(value):
            holds = bool(how.get("nodes_missing_value_tracks_true", (0,) * (node + 1))[node])
        elif mode == 6:
            holds = float(value) in members[node]
        else:
            holds = bool(getattr(np, _TESTS[mode])(value, splits[node]))
        side = "true" if holds else "false"
        following = int(how[f"nodes_{side}nodeids"][node])
        if how[f"nodes_{side}leafs"][node]:
            return following
        node = following
    raise ImportModelError("TreeEnsemble: nodes form a circle")


def _sets(values: Any) -> list[set[float]]:
    """Sets, which stand behind each other with nan between them."""
    found: list[set[float]] = [set()]
    for v in _listed(values) if values is not None else ():
        if v != v:
            found.append(set())
        else:
            found[-1].add(float(v))
    return found
