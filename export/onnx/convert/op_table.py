"""Holds the functions that write ops as ONNX nodes, where a single operator does not suffice.

ROWS has a function row(context, node, inputs) for each such op. An op that names an ONNX operator
is written as that operator; a pointwise op without either by its formula; a composite without
either is decomposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import Dim, size_expr_of
from ....eager.arrays.shapes import product
from ....eager.core.op import OPS
from ....eager.errors import ExportError
from ....eager.ops.products.contract import parts
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue
from ..writer.pointwise_formulas import BOOL, Number
from ..writer.size_expressions import FIRST, LAST, along

Row = Callable[[WriterContext, Node, list[OnnxValue]], OnnxValue]
ROWS: dict[str, Row] = {}

# Advice for ops whose entry gives a reason why they cannot be exported.
INSTEAD = {
    **dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "reduce_to",
                     "broadcast", "barrier", "shift", "replicate"),
                    "export the function of one process, without collectives"),
    **dict.fromkeys(("uniform", "normal", "randint", "poisson", "binomial"),
                    "draw the numbers outside and pass them in as an argument"),
    **dict.fromkeys(("gcd", "lcm"), "compute it outside and pass it in as an argument"),
    "gammainc": "compute it outside and pass it in as an argument",
    "window": "use fw.nn.functional.conv2d or max_pool2d, which have operators of their own",
    **dict.fromkeys(("unwindow", "rewindow", "pool_pick", "pool_put", "max_pool_back"),
                    "export the forward computation only"),
    "pool_argmax": "leave out return_indices",
    **dict.fromkeys(("angle", "complex", "conj", "imag", "real"),
                    "keep real and imaginary parts as two tensors"),
    **dict.fromkeys(("encode", "decode", "as_stored"), "cast: x.astype(dtype)"),
    "nextafter": "add a small multiple of the number instead",
    "true_indices": "choose by a mask: fw.where(mask, values, x)",
    "repeats": "pass in the repeated tensor as an argument",
    "index_put": "choose by a mask: fw.where(mask, values, x)",
    "cumulative_prod": "for positive numbers: fw.exp(fw.cumulative_sum(fw.log(x)))",
    "cumulative_max": "for few elements: the maximum of each with those before, one by one",
    "cumulative_min": "for few elements: the minimum of each with those before, one by one",
    "logcumsumexp": "for numbers of similar size: fw.log(fw.cumulative_sum(fw.exp(x)))",
    **dict.fromkeys(
        ("cholesky", "cofactors", "det_hessian", "eig", "eigh", "eigvalsh", "inv", "lu",
         "matrix_exp", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals"),
        "compute it outside and pass the result in as an argument"),
    **dict.fromkeys(("fft", "ifft", "irfft", "rfft"),
                    "transform outside, or multiply with a matrix of cosines and sines"),
}


def row(*names: str) -> Callable[[Row], Row]:
    """A decorator that registers a function as the row of the ops `names`."""
    def enter(fn: Row) -> Row:
        ROWS.update(dict.fromkeys(names, fn))
        return fn

    return enter


def attributes(**where: str) -> Callable[[WriterContext, Node, list[OnnxValue]], OnnxValue]:
    """A row: the op's operator, with attributes taken from its params (attribute=param)."""
    def write(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
        values = {name: node.params[param] for name, param in where.items()}
        return c.writer.apply(OPS[node.op].onnx, xs, **values)

    return write


for _name, _taken in {
    "softmax": {"axis": "axis"}, "log_softmax": {"axis": "axis"}, "concat": {"axis": "axis"},
    "permute_dims": {"perm": "axes"}, "leaky_relu": {"alpha": "alpha"}, "elu": {"alpha": "alpha"},
}.items():
    ROWS[_name] = attributes(**_taken)


def formula_row(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """A pointwise op, written by its formula."""
    out = OPS[node.op].meaning(c.k, *map(c.k.wrap, xs), **node.params)
    value: OnnxValue = out.value
    return c.writer.cast(value, node.type.dtype)


# ---- pointwise
@row("alias", "check_index")
def _same(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return xs[0]


@row("cast")
def _cast(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    if node.params["dtype"] == BOOL and xs[0].dtype != BOOL:
        return (c.k.wrap(xs[0]) != 0).value  # Cast does not define nan to bool
    return c.writer.cast(xs[0], node.params["dtype"])


@row("where")
def _choice(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return c.writer.apply("Where", xs, typed=1)


@row("relu")
def _relu(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return xs[0] if xs[0].dtype.kind == "u" else c.writer.apply("Relu", xs)


@row("pow")
def _pow(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    exponent = node.inputs[1]
    whole = exponent.op == "const" and type(exponent.params["value"]) is int
    if node.type.dtype.kind == "f" or (whole and exponent.params["value"] >= 0):
        return c.writer.apply("Pow", xs)
    return formula_row(c, node, xs)


@row("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return formula_row(c, node, xs)


# ---- creation
@row("full")
def _full(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    value = c.writer.const(np.array(node.params["value"], node.type.dtype))
    return c.expand(value, (), node.type.shape)


@row("iota")
def _iota(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    axis, shape, dtype = node.params["axis"], node.type.shape, node.type.dtype
    counted = c.writer.cast(c.as_value(c.positions(shape[axis]), np.int64), dtype)
    own = tuple(n if i == axis else 1 for i, n in enumerate(shape))
    along_axis = c.writer.reshape(counted, [-1 if i == axis else 1 for i in range(len(shape))]) \
        if len(shape) > 1 and shape[axis] != 0 else counted
    return c.expand(along_axis, own, shape) if len(shape) > 1 else along_axis


# ---- views
@row("reshape")
def _reshape(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    old, new = node.inputs[0].type.shape, node.type.shape
    if any(n == 0 for n in new):  # by default a 0 copies the size of the input
        return c.writer.op("Reshape", [xs[0], c.sizes.vector(new)], xs[0].dtype, allowzero=1)
    target = [0 if type(n) is Dim and i < len(old) and n == old[i] else n
              for i, n in enumerate(new)]
    varying = [i for i, n in enumerate(target) if type(n) is Dim]
    units = _units(old, new) if varying else None
    if units is not None:
        return c.writer.op(units[0], [xs[0], c.writer.ints(units[1])], xs[0].dtype)
    if len(varying) > 1:  # each of them may be 0
        return c.writer.op("Reshape", [xs[0], c.sizes.vector(new)], xs[0].dtype, allowzero=1)
    if varying:  # Reshape infers it from the others
        target[varying[0]] = -1
    return c.writer.op("Reshape", [xs[0], c.sizes.vector(target)], xs[0].dtype)


def _units(old: Sequence[Any], new: Sequence[Any]) -> tuple[str, list[int]] | None:
    """Squeeze or Unsqueeze and its axes, if the shapes differ only in axes of size 1."""
    for kind, short, long in (("Squeeze", new, old), ("Unsqueeze", old, new)):
        rest, axes = list(short), list[int]()
        for axis, n in enumerate(long):
            if rest and type(rest[0]) is type(n) and rest[0] == n:
                rest.pop(0)
            elif type(n) is int and n == 1:
                axes.append(axis)
            else:
                break
        else:
            if not rest and axes:
                return kind, axes
    return None


@row("broadcast_to")
def _broadcast(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return c.expand(xs[0], node.inputs[0].type.shape, node.type.shape)


@row("slice")
def _slice(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    limits = []
    p, shape = node.params, node.inputs[0].type.shape
    for axis, (start, step, size, n) in enumerate(zip(p["start"], p["step"], p["size"], shape)):
        if not (step == 1 and size == n):
            limits.append((along(start, n), _end(start, step, size, n), axis, step))
    if not limits:
        return xs[0]
    starts, ends, axes, steps = (list(x) for x in zip(*limits))
    vectors = [c.sizes.vector(starts), c.sizes.vector(ends), c.writer.ints(axes)]
    vectors += [c.sizes.vector(steps)] if any(s != 1 for s in steps) else []
    return c.writer.op("Slice", [xs[0], *vectors], xs[0].dtype)


def _end(start: Any, step: int, size: Any, n: Any) -> Any:
    """The end of a slice, as Slice takes it."""
    if type(size) is not Dim and size == 0:
        return along(start, n)
    stop = start + step * size
    if step > 0:
        beyond = (size_expr_of(stop) - size_expr_of(n)).low()
        return LAST if beyond is not None and beyond >= 0 else along(stop, n)
    if type(stop) is not Dim:
        return FIRST if stop < 0 else stop
    return start + step * (size - 1) - 1 - n  # one before the last element, counted from the back


def spread(c: WriterContext, v: OnnxValue, own: Any, shape: Any, start: Any, step: Any
           ) -> tuple[OnnxValue, OnnxValue | None]:
    """The elements of `v` at the positions of a slice of `shape`, and a mask of these positions.

    Other positions hold any element. The mask broadcasts to `shape`; it is None if the slice covers
    everything.
    """
    mask: Number | None = None
    for axis, (b, s, count, n) in enumerate(zip(start, step, own, shape)):
        if s == 1 and type(b) is int and b == 0 and count == n:
            continue
        positions = c.positions(n)
        offset = (positions - c.size_number(b)) if s > 0 else (c.size_number(b) - positions)
        limit = c.size_number(count)
        hit = (offset >= 0) & (offset < limit * abs(s)) & (offset % abs(s) == 0)
        inside = c.as_value(offset * _whole(hit) // abs(s), np.int64)  # 0 where nothing is hit
        v = c.writer.op("Gather", [_not_empty(c, v, count, axis, len(own)), inside], v.dtype,
                        axis=axis)
        flags = c.writer.reshape(c.as_value(hit, bool), [-1, *[1] * (len(shape) - axis - 1)])
        hits = c.k.wrap(flags)
        mask = hits if mask is None else mask & hits
    return v, None if mask is None else mask.value


def _not_empty(c: WriterContext, v: OnnxValue, count: Any, axis: int, ndim: int) -> OnnxValue:
    """`v` with one more element along `axis` if that axis may be empty, for Gather to read."""
    if (size_expr_of(count).low() or 0) > 0:
        return v
    pads = [int(i == ndim + axis) for i in range(2 * ndim)]
    zero = c.writer.const(np.array(0, v.dtype))
    return c.writer.op("Pad", [v, c.writer.ints(pads), zero], v.dtype, mode="constant")


def _whole(hit: Any) -> Any:
    return hit.k.cast(hit, np.int64) if isinstance(hit, Number) else hit.astype(np.int64)


@row("unslice")
def _unslice(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    p, own, shape = node.params, node.inputs[0].type.shape, node.type.shape
    fill = c.writer.const(np.array(p["fill"], xs[0].dtype))
    if any(n == 0 for n in own):
        return c.expand(fill, (), shape)
    if any(s != 1 for s in p["step"]):
        v, mask = spread(c, xs[0], own, shape, p["start"], p["step"])
        return v if mask is None else c.writer.op("Where", [mask, v, fill], v.dtype)
    after = [n - b - m for n, b, m in zip(shape, p["start"], own)]
    pads = c.sizes.vector((*p["start"], *after))
    return c.writer.op("Pad", [xs[0], pads, fill], xs[0].dtype, mode="constant")


@row("put_slice")
def _put_slice(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    own = node.inputs[1].type.shape
    if any(n == 0 for n in own):
        return xs[0]
    v, mask = spread(c, xs[1], own, node.type.shape, node.params["start"], node.params["step"])
    return v if mask is None else c.writer.op("Where", [mask, v, xs[0]], v.dtype)


@row("take")
def _take(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    indices = xs[1] if xs[1].dtype.name in ("int32", "int64") else c.writer.cast(xs[1], np.int64)
    return c.writer.op("Gather", [xs[0], indices], xs[0].dtype, axis=node.params["axis"])


@row("add_at")
def _add_at(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """ScatterND adds along leading axes, so the axis is moved there and back."""
    axis, size, w = node.params["axis"], node.params["size"], c.writer
    values, width = node.inputs[0].type, node.inputs[1].type.ndim
    perm = [*range(axis, axis + width), *range(axis), *range(axis + width, values.ndim)]
    updates = c.writer.permuted(xs[0], perm)
    indices = w.op("Unsqueeze", [w.cast(xs[1], np.int64), w.ints([-1])], np.int64)
    rest = [values.shape[i] for i in perm[width:]]
    zeros = c.expand(w.const(np.array(0, values.dtype)), (), (size, *rest))
    out = w.op("ScatterND", [zeros, indices, updates], values.dtype, reduction="add")
    return c.writer.permuted(out, [*range(1, axis + 1), 0, *range(axis + 1, len(rest) + 1)])


@row("take_along_axis")
def _take_along_axis(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """GatherElements on the slice of elements that the indices reach."""
    w, axis = c.writer, node.params["axis"]
    x, own, target = xs[0], node.inputs[0].type.shape, node.type.shape
    cut = [a for a, (n, m) in enumerate(zip(own, target)) if a != axis and n != m]
    if cut:
        limits = [w.ints([0] * len(cut)), c.sizes.vector([target[a] for a in cut]), w.ints(cut)]
        x = w.op("Slice", [x, *limits], x.dtype)
    return w.op("GatherElements", [x, w.cast(xs[1], np.int64)], x.dtype, axis=axis)


_SCATTER = {None: "none", "add": "add", "prod": "mul", "amax": "max", "amin": "min"}


@row("scatter")
def _scatter(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    inputs = [xs[0], c.writer.cast(xs[1], np.int64), xs[2]]
    return c.writer.apply("ScatterElements", inputs, axis=node.params["axis"],
                          reduction=_SCATTER[node.params["reduce"]])


@row("argsort")
def _argsort(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """The second result of TopK, which keeps the order of equal elements."""
    axis, largest = node.params["axis"], int(node.params["descending"])
    count = c.sizes.vector([node.params["count"]])
    return c.writer.apply("TopK", [xs[0], count], np.int64, before=1, axis=axis, largest=largest)


@row("sort")
def _sort(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """The elements in the order of TopK's second result."""
    axis, largest = node.params["axis"], int(node.params["descending"])
    count = c.sizes.vector([node.type.shape[axis]])
    indices = c.writer.apply("TopK", [xs[0], count], np.int64, before=1, axis=axis, largest=largest)
    return c.writer.op("GatherElements", [xs[0], indices], xs[0].dtype, axis=axis)


@row("cumulative_sum")
def _cumulative_sum(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """float16 is summed in float32."""
    wide = c.writer.cast(xs[0], np.float32) if xs[0].dtype == np.float16 else xs[0]
    axis = c.writer.const(np.int64(node.params["axis"]))
    return c.writer.cast(c.writer.apply("CumSum", [wide, axis]), xs[0].dtype)


# ---- reductions
_REDUCE = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}


@row("sum", "prod", "max", "min")
def _reduction(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return c.reduce(_REDUCE[node.op], xs[0], node.params["axis"], node.params["keepdims"])


@row("any", "all")
def _truth(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """any: true elements are counted; all: false elements are."""
    x = c.k.wrap(xs[0])
    hits = c.writer.cast((x if node.op == "any" else ~x).value, np.int64)
    count = c.reduce("ReduceSum", hits, node.params["axis"], node.params["keepdims"])
    total = c.k.wrap(count)
    return (total > 0 if node.op == "any" else total == 0).value


@row("argmax")
def _argmax(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return c.writer.apply("ArgMax", xs, np.int64, axis=node.params["axis"], keepdims=0)


# ---- products
@row("contract")
def _contract(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """MatMul if the spec is a (batched) matrix product, else Einsum."""
    left, right, out = parts(node.params["spec"])
    batch = [a for a in out if a in left and a in right]
    rows, columns = [a for a in out if a not in right], [a for a in out if a not in left]
    summed = [a for a in left if a not in out]
    # onnxruntime (1.31) fuses a transposition of x into the product, wrongly if y is a vector
    transposed = not columns and left != "".join((*rows, *summed))
    if len(summed) != 1 or len(columns) > 1 or (batch and len(rows) != 1) \
            or (batch and not columns) or transposed:
        return c.writer.apply("Einsum", xs, equation=node.params["spec"])
    x = c.writer.permuted(xs[0], [left.index(a) for a in (*batch, *rows, *summed)])
    y = c.writer.permuted(xs[1], [right.index(a) for a in (*batch, *summed, *columns)])
    axes = [*batch, *rows, *columns]
    return c.writer.permuted(c.writer.apply("MatMul", [x, y]), [axes.index(a) for a in out])


def convolved(c: WriterContext, node: Node, xs: list[OnnxValue], weight: int = 1, kind: str = "Conv"
              ) -> OnnxValue:
    """Conv or another operator `kind` on the inputs `xs`.

    The weight is the input number `weight` of the node.
    """
    p = node.params
    return c.writer.apply(kind, xs, kernel_shape=node.inputs[weight].type.shape[2:],
                          strides=p["stride"], dilations=p["dilation"], group=p["groups"],
                          pads=_pads(p["pad"]))


ROWS["conv"] = convolved


def _pads(pairs: Any) -> tuple[int, ...]:
    """The pads as ONNX orders them: all at the start of an axis, then all at the end."""
    return (*(before for before, _ in pairs), *(after for _, after in pairs))


@row("conv_transpose")
def _conv_transpose(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """Elements beyond the last window: the pads are reduced, or zeros are appended."""
    p, (y, w) = node.params, node.inputs
    least = [(n - 1) * s + r * (k - 1) + 1 - sum(pad) for n, s, r, k, pad in zip(
        y.type.shape[2:], p["stride"], p["dilation"], w.type.shape[2:], p["pad"])]
    ends = [after - int(n - low) for (_, after), n, low in zip(p["pad"], p["space"], least)]
    pads = _pads([(before, max(end, 0)) for (before, _), end in zip(p["pad"], ends)])
    out = c.writer.apply("ConvTranspose", xs, kernel_shape=w.type.shape[2:], strides=p["stride"],
                         dilations=p["dilation"], group=p["groups"], pads=pads)
    more = [0] * (y.type.ndim + 2) + [max(-end, 0) for end in ends]
    return c.writer.op("Pad", [out, c.writer.ints(more)], out.dtype) if any(more) else out


@row("conv_weight")
def _conv_weight(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """The gradient of a convolution's weight, as a convolution.

    Channels are its batch, examples its channels, strides its dilations.
    """
    p, (x, y) = node.params, [i.type.shape for i in node.inputs]
    (n, channels, *space), filters, groups = x, y[1], p["groups"]
    d, each = len(space), channels // groups

    def reshaped(v: OnnxValue, *shape: Any) -> OnnxValue:
        return c.writer.op("Reshape", [v, c.sizes.vector(shape)], v.dtype)

    image = c.writer.permuted(reshaped(xs[0], n, groups, each, *space), [2, 1, 0, *range(3, d + 3)])
    out = c.writer.apply(
        "Conv", [reshaped(image, each, groups * n, *space),
                 c.writer.permuted(xs[1], [1, 0, *range(2, d + 2)])],
        kernel_shape=y[2:], strides=p["dilation"], dilations=p["stride"], group=groups,
        pads=_pads(p["pad"]))
    sizes = [filters, each, *p["kernel"]]
    ends = [c.writer.ints([0] * (d + 2)), c.sizes.vector(sizes)]
    permuted = c.writer.permuted(out, [1, 0, *range(2, d + 2)])
    return c.writer.op("Slice", [permuted, *ends], out.dtype)


@row("max_pool")
def _max_pool(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    p = node.params
    return c.writer.apply("MaxPool", xs, kernel_shape=p["kernel"], strides=p["stride"],
                          dilations=p["dilation"], pads=_pads(_around(node, p["dilation"])))


@row("pool_sum")
def _pool_sum(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """The mean over windows times the number of their elements."""
    count = c.writer.const(np.array(product(node.params["kernel"]), node.type.dtype))
    return c.writer.apply("Mul", [pool_means(c, node, xs), count])


def pool_means(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """The mean over windows, with padding counted, for a node that sums over windows."""
    p = node.params
    if any(n != 1 for n in p["spread"]):
        raise ExportError("its input is dilated, as in gradients of pooling",
                          "export the forward computation only")
    ones = (1,) * len(p["kernel"])
    return c.writer.apply("AveragePool", xs, kernel_shape=p["kernel"], strides=p["stride"],
                          pads=_pads(_around(node, ones)), count_include_pad=1)


def _around(node: Node, dilation: Any) -> list[tuple[int, int]]:
    """The pads before and after each axis for which `out` windows fit."""
    p, space = node.params, node.inputs[0].type.shape[2:]
    axes = zip(space, p["kernel"], p["out"], p["stride"], dilation, p["pad"])
    return [(pad, pad if out == (n + 2 * pad - r * (k - 1) - 1) // s + 1 else
             max(0, int((out - 1) * s + r * (k - 1) + 1 - n - pad)))
            for n, k, out, s, r, pad in axes]


@row("cross_entropy_rows")
def _cross_entropy(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    target = c.writer.cast(xs[1], np.int64)
    return c.writer.apply("SoftmaxCrossEntropyLoss", [xs[0], target], reduction="none",
                          ignore_index=node.params["ignore"])
