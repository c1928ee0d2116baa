"""Rewrites a loaded model to call layers of `nn` for products with weights.

`fw.quantize` replaces such layers. A layer has the name of its weight.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

from .....eager.arrays import dtypes
from .....eager.nn.base.module import Module
from .....eager.nn.base.parameter import Parameter
from .....eager.nn.layers.conv import Conv1d, Conv2d, Conv3d
from .....eager.nn.layers.linear import Linear
from .....eager.ops.shape.view import matrix_transpose

_CONVOLUTIONS = {3: Conv1d, 4: Conv2d, 5: Conv3d}  # by the axes of the weight


def layered(source: str, model: Any) -> str:
    """The source with calls of layers, which replace the parameters of `model`."""
    tree = ast.parse(source)
    products = _Products(model, tree)
    return ast.unparse(ast.fix_missing_locations(products.visit(tree))) + "\n" \
        if products.has_products else source


class _Products(ast.NodeTransformer):
    """Rewrites products with weights that have no other use, and adds layers to the model."""

    def __init__(self, model: Any, tree: ast.AST) -> None:
        self.model, self.held = model, dict(model.named_parameters())
        self.read = Counter(name for node in ast.walk(tree) for name in [_name_of(node)] if name)
        self.has_products = any(_is_product(node) for node in ast.walk(tree))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not _is_product(node):
            return node
        kind = node.func.attr  # type: ignore[attr-defined]
        parameters = [self._parameter(x) for x in node.args[1:]]
        if None in parameters or any(not isinstance(k.value, (ast.Constant, ast.Tuple))
                                     for k in node.keywords):
            return node
        attributes = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
        layer = _LAYERS[kind](*parameters, **attributes)
        return node if layer is None else self._called(node.args, layer)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        weight = self._parameter(node.right) if isinstance(node.op, ast.MatMult) else None
        layer = None if weight is None else _product(weight)
        return node if layer is None else self._called([node.left, node.right], layer)

    def _parameter(self, node: ast.AST) -> Any:
        """The parameter that an expression reads, if it has no other use, else None."""
        name = _name_of(node) or ""
        parameter = self.held.get(name)
        if parameter is None or self.read[name] != 1 or parameter.dtype != dtypes.float32:
            return None
        return parameter

    def _called(self, args: list[Any], layer: Module) -> ast.AST:
        """A call of the layer, which replaces its weight and bias in the model."""
        names = [_name_of(x) or "" for x in args[1:]]
        for name in names:
            owner, last = self._owner(name)
            del owner._parameters[last]
        owner, last = self._owner(names[0])
        owner._modules[last] = layer
        return ast.Call(args[1], [args[0]], [])

    def _owner(self, name: str) -> tuple[Any, str]:
        """The submodule that holds the parameter `name`, and the name in it."""
        path, _, last = name.rpartition(".")
        return (self.model, name) if name in self.model._parameters else (
            self.model.get_submodule(path), last)


def _name_of(node: ast.AST) -> str | None:
    """The name in self["name"] or self.name; None for other expressions."""
    if not isinstance(node, (ast.Subscript, ast.Attribute)) or \
            not isinstance(node.value, ast.Name) or node.value.id != "self":
        return None
    if isinstance(node, ast.Attribute):
        return node.attr
    return str(node.slice.value) if isinstance(node.slice, ast.Constant) else None


def _is_product(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and \
        isinstance(node.func.value, ast.Name) and node.func.value.id == "op" and \
        node.func.attr in _LAYERS and len(node.args) > 1


# ---- the layer for each operator; None if no layer computes it
def _product(weight: Any) -> Linear | None:
    return _linear(matrix_transpose(weight.detach()), None) if weight.ndim == 2 else None


def _gemm(weight: Any, bias: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
          transB: int = 0, broadcast: int = 1) -> Linear | None:
    weight = weight.detach() if transB else matrix_transpose(weight.detach())
    if transA or (alpha, beta) != (1.0, 1.0) or (
            bias is not None and bias.shape != weight.shape[:1]):
        return None
    return _linear(weight, bias)


def _linear(weight: Any, bias: Any) -> Linear:
    return _filled(Linear(weight.shape[1], weight.shape[0], bias is not None), weight, bias)


def _conv(weight: Any, bias: Any = None, auto_pad: str = "NOTSET", dilations: Any = 1,
          group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = 1) -> Any:
    axes = weight.ndim - 2
    pads = pads or (0,) * (2 * axes)
    if weight.ndim not in _CONVOLUTIONS or auto_pad != "NOTSET" or pads[:axes] != pads[axes:]:
        return None
    layer = _CONVOLUTIONS[weight.ndim](
        weight.shape[1] * group, weight.shape[0], weight.shape[2:], strides, pads[:axes],
        dilations, group, bias is not None)
    return _filled(layer, weight.detach(), bias)


def _filled(layer: Any, weight: Any, bias: Any) -> Any:
    layer.weight = Parameter(weight)
    layer.bias = None if bias is None else Parameter(bias.detach())
    return layer


_LAYERS: dict[str, Any] = {"Conv": _conv, "Gemm": _gemm, "MatMul": _product}
