"""Defines operators of `ai.onnx.ml`: feature extraction, labels and trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....eager.core.tensor import tensor
from .....eager.errors import ImportModelError
from .....eager.ops.elementwise import pointwise
from .....eager.ops.shape import view
from .....eager.ops.shape.take import take
from ..runtime.table import Tensor, operator
from ..runtime.values import is_tensor, value_of

__all__: list[str] = []

ML = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", domain=ML)
def _features(x: Tensor, indices: Tensor) -> Tensor:
    features = take(x, view.reshape(indices, (-1,)), axis=-1)
    return view.reshape(features, (1, -1)) if x.ndim == 1 else features


@operator("Binarizer", domain=ML)
def _binarized(x: Tensor, threshold: float = 0.0) -> Tensor:
    return pointwise.greater(x, threshold).astype(x.dtype)


_KINDS = ("tensor", "strings", "int64s", "floats")
_USUAL = {"strings": "_Unused", "int64s": -1, "floats": -0.0}


@operator("LabelEncoder", domain=ML, since=2)
def _encoded(x: Any, **attributes: Any) -> Any:
    """The value of each key, or the default for an unknown key."""
    keys, values = (next(((k, attributes[f"{what}_{k}"]) for k in _KINDS
                          if attributes.get(f"{what}_{k}") is not None), None)
                    for what in ("keys", "values"))
    if keys is None or values is None:
        raise ImportModelError("LabelEncoder has no keys or no values")
    kind = values[0]
    default = attributes.get(f"default_{kind.rstrip('s') if kind != 'tensor' else kind}",
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
def _trees(x: Tensor, **attributes: Any) -> Tensor:
    """The sum, mean or extreme over all trees of the leaf that each row of `x` reaches."""
    rows = x.numpy()
    out = np.zeros((len(rows), attributes.get("n_targets", 1)), rows.dtype)
    merge = {0: "sum", 1: "sum", 2: "min", 3: "max"}[attributes.get("aggregate_function", 1)]
    for row, sums in zip(rows, out):
        leaves: list[list[float]] = [[] for _ in sums]
        for root in attributes["tree_roots"]:
            leaf = _leaf(row, int(root), attributes)
            weight = _listed(attributes["leaf_weights"])[leaf]
            leaves[attributes["leaf_targetids"][leaf]].append(weight)
        sums[:] = [getattr(np, merge)(of) if of else 0 for of in leaves]
        if attributes.get("aggregate_function", 1) == 0:
            sums /= len(attributes["tree_roots"])
    return tensor(out)


_TESTS = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")


def _leaf(row: Any, node: int, attributes: Any) -> int:
    """The number of the leaf that a row reaches from a node."""
    splits, modes = _listed(attributes["nodes_splits"]), _listed(attributes["nodes_modes"])
    sets = _sets(attributes.get("membership_values"))
    members = {n: s for n, s in zip((i for i, m in enumerate(modes) if m == 6), sets)}
    for _ in range(len(splits) + 1):
        value = row[attributes["nodes_featureids"][node]]
        mode = modes[node]
        if np.isnan(value):
            holds = bool(attributes.get("nodes_missing_value_tracks_true", (0,) * (node + 1))[node])
        elif mode == 6:
            holds = float(value) in members[node]
        else:
            holds = bool(getattr(np, _TESTS[mode])(value, splits[node]))
        side = "true" if holds else "false"
        following = int(attributes[f"nodes_{side}nodeids"][node])
        if attributes[f"nodes_{side}leafs"][node]:
            return following
        node = following
    raise ImportModelError("TreeEnsemble: its nodes form a cycle")


def _sets(values: Any) -> list[set[float]]:
    """The sets in a list of values, which are separated by nan."""
    sets: list[set[float]] = [set()]
    for v in _listed(values) if values is not None else ():
        if v != v:
            sets.append(set())
        else:
            sets[-1].add(float(v))
    return sets
