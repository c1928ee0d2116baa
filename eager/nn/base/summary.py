"""Tabulates the layers of a model with output shapes, parameters and multiply-adds."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import interpreter
from ...arguments import check_choice, check_whole
from ...arrays.shapes import product
from ...core.dispatch import evaluate
from ...core.op import Op
from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ...ops.create import zeros
from ...ops.layers.conv import conv_op, transpose_op
from ...ops.products.contract import contract_op, parts
from ...ops.random.generator import default_generator
from .module import Module
from .parameter import is_lazy
from .results import tensors_in
from .state import SavedValues

__all__ = ["summary"]


@dataclass
class Layer:
    """A row of the table: a module of the model, with records of its calls."""

    path: str
    kind: str
    parameters: int  # of its own, without its children's
    trainable: int
    output: Any = None  # the shape, or shapes, of the result of its last call
    output_bytes: int = 0  # of all calls
    calls: int = 0
    mult_adds: int = 0  # in its own forward, without those in its children's

    @property
    def depth(self) -> int:
        """The number of modules that contain it."""
        return self.path.count(".") + 1 if self.path else 0


@dataclass
class Summary:
    """The layers of a model, and sums over them; printed as a table."""

    layers: list[Layer]
    parameters: int  # a shared parameter counts once
    trainable: int
    parameter_bytes: int
    buffer_bytes: int
    input_bytes: int
    depth: int | None = field(default=None, repr=False)

    @property
    def mult_adds(self) -> int:
        """The multiply-adds of all matrix products and convolutions."""
        return sum(layer.mult_adds for layer in self.layers)

    @property
    def output_bytes(self) -> int:
        """The bytes of the outputs of all layers that contain no other layer."""
        above = {layer.path.rpartition(".")[0] for layer in self.layers if layer.path}
        return sum(x.output_bytes for x in self.layers if x.path not in above)

    def __str__(self) -> str:
        shown = [x for x in self.layers if self.depth is None or x.depth <= self.depth]
        rows = [("layer", "output shape", "parameters", "mult-adds")]
        rows += [self._row(layer) for layer in shown]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}".rstrip()
                 for a, b, c, d in rows]
        rule = "-" * max(map(len, lines))
        fixed = self.parameters - self.trainable
        return "\n".join([
            lines[0], rule, *lines[1:], rule,
            f"parameters: {self.parameters:,} ({self.trainable:,} trainable, {fixed:,} fixed)",
            f"mult-adds: {self.mult_adds:,}",
            f"memory: input {_bytes(self.input_bytes)}, outputs {_bytes(self.output_bytes)}, "
            f"parameters {_bytes(self.parameter_bytes)}, buffers {_bytes(self.buffer_bytes)}"])

    __repr__ = __str__

    def _row(self, layer: Layer) -> tuple[str, str, str, str]:
        below = f"{layer.path}." if layer.path else ""
        inside = [x for x in self.layers if x is layer or (
            layer.depth == self.depth and x.path.startswith(below))]
        count = sum(x.parameters for x in inside)
        fixed = count > 0 and not sum(x.trainable for x in inside)
        mult_adds = sum(x.mult_adds for x in inside)
        name = layer.path.rpartition(".")[2]
        label = "  " * layer.depth + (f"{name} ({layer.kind})" if name else layer.kind)
        return (label, _output_text(layer), f"{count:,}" + " fixed" * fixed if count else "-",
                f"{mult_adds:,}" if mult_adds else "-")


def _output_text(layer: Layer) -> str:
    if not layer.calls:
        return "not called"
    return f"{layer.output}" + (f" x {layer.calls} calls" if layer.calls > 1 else "")


def _bytes(count: int) -> str:
    return f"{count:,} bytes" if count < 10_000 else f"{count / 1e6:,.2f} MB"


def summary(
    model: Module, input_size: Any = None, input_data: Any = None, *, dtypes: Any = None,
    depth: int | None = None, mode: str = "eval", **kwargs: Any,
) -> Summary:
    """The layers of `model` with output shapes, parameters and multiply-adds; print it.

    The model runs once without gradients; afterwards its mode, values, hooks and the random numbers
    are as before.

    Args:
        model: the module.
        input_size: the shape of the input with its batch, a list of shapes, or a dict of names to
            shapes; or the tensors themselves. Default None: input_data, or no inputs.
        input_data: tensors, instead of input_size. Default None.
        dtypes: of inputs made from shapes, one or a list. Default None: float32.
        depth: the greatest depth of a layer shown, which includes the layers below it. Default
            None: all.
        mode: "eval" or "train". Default "eval".
        **kwargs: passed to forward.

    Raises:
        ArgumentError: an unknown mode, an input that is neither a shape nor tensors, or a list of
            dtypes of another length.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.summary(fw.nn.Sequential(fw.nn.Linear(3, 4), fw.nn.ReLU()), (2, 3))
        layer         output shape  parameters  mult-adds
        -------------------------------------------------
        Sequential    (2, 4)                 -          -
          0 (Linear)  (2, 4)                16         24
          1 (ReLU)    (2, 4)                 -          -
        -------------------------------------------------
        parameters: 16 (16 trainable, 0 fixed)
        mult-adds: 24
        memory: input 24 bytes, outputs 64 bytes, parameters 64 bytes, buffers 0 bytes
    """
    if depth is not None:
        check_whole("summary", "depth", depth, 0)
    check_choice("summary", "mode", mode, ("eval", "train"))
    args, named = _inputs(input_size if input_data is None else input_data, dtypes)
    if any(is_lazy(x) for x in (*model.parameters(), *model.buffers())):
        model = copy.deepcopy(model)  # the first call of a lazy module changes it permanently
    with _restored_after(model, mode), no_grad():
        layers = _run(model, args, {**named, **kwargs})
    held, buffers = list(model.parameters()), list(model.buffers())
    return Summary(
        layers, sum(p.size for p in held), sum(p.size for p in held if p.requires_grad),
        sum(p.nbytes for p in held), sum(b.nbytes for b in buffers),
        sum(x.nbytes for x in tensors_in((args, named))), depth)


# ---- inputs
def _inputs(inputs: Any, dtypes: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and named arguments of forward: tensors, and zeros for shapes."""
    if isinstance(inputs, Mapping):
        tensors, _ = _inputs(list(inputs.values()), dtypes)
        return (), dict(zip(inputs, tensors))
    if inputs is None:
        return (), {}
    if isinstance(inputs, Tensor) or _is_shape(inputs):
        inputs = [inputs]
    if not isinstance(inputs, (list, tuple)) or not all(
            isinstance(x, Tensor) or _is_shape(x) for x in inputs):
        raise ArgumentError(f"summary: {inputs!r:.80} is not a shape, tensor, or list of those",
                            "as in fw.nn.summary(model, (1, 3, 224, 224))")
    chosen = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes] * len(inputs)
    if len(chosen) != len(inputs):
        raise ArgumentError(f"summary: {len(chosen)} dtypes for {len(inputs)} inputs",
                            "one for each, or one for all")
    return tuple(x if isinstance(x, Tensor) else zeros(tuple(x), dtype=dtype)
                 for x, dtype in zip(inputs, chosen)), {}


def _is_shape(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and all(isinstance(n, int) for n in x)


# ---- the run
@contextlib.contextmanager
def _restored_after(model: Module, mode: str) -> Iterator[None]:
    """A context with the model in `mode`; restores flags, values, hooks and random numbers."""
    modules = list(model.modules())
    fields = [(m, m.training, m._hooks) for m in modules]
    values, random = SavedValues(model), default_generator.get_state()
    for module in modules:
        module.training = mode == "train"
    try:
        yield
    finally:
        for module, training, hooks in fields:
            module.training = training
            if hooks is None:
                module.__dict__.pop("_hooks", None)
        values.restore()
        with no_grad():
            default_generator.set_state(random)


def _run(model: Module, args: Any, kwargs: Any) -> list[Layer]:
    layers = {module: _layer(path, module) for path, module in model.named_modules()}
    counter = _Counter()
    handles = [handle for module, layer in layers.items() for handle in (
        module.register_forward_pre_hook(lambda *_, layer=layer: counter.enter(layer),
                                         prepend=True),
        module.register_forward_hook(lambda _m, _a, out: counter.leave(out), always_call=True))]
    before, interpreter.STATE.active = interpreter.STATE.active, counter
    try:
        model(*args, **kwargs)
    finally:
        interpreter.STATE.active = before
        for handle in handles:
            handle.remove()
    return list(layers.values())


def _layer(path: str, module: Module) -> Layer:
    own = list(module.parameters(recurse=False))
    sizes = [p.size if not is_lazy(p) else 0 for p in own]
    return Layer(path, type(module).__name__, sum(sizes),
                 sum(n for n, p in zip(sizes, own) if p.requires_grad))


class _Counter:
    """Runs ops and adds their multiply-adds to the layer whose forward runs."""

    can_read_values = False
    keeps_layers = False

    def __init__(self) -> None:
        self._running: list[Layer] = []

    def enter(self, layer: Layer) -> None:
        self._running.append(layer)

    def leave(self, out: Any) -> None:
        layer = self._running.pop()
        layer.calls += 1
        layer.output = _shapes(out)
        layer.output_bytes += sum(x.nbytes for x in tensors_in(out))

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        out = evaluate(op, inputs, params)
        if op in _MULT_ADDS and self._running:
            self._running[-1].mult_adds += _MULT_ADDS[op](out, *inputs, **params)
        return out

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        return tensor._data.shape  # type: ignore[no-any-return]

    def note_constant(self, tensor: Tensor) -> None: ...
    def changed(self, tensor: Tensor) -> None: ...
    def reads_grad(self, tensor: Tensor) -> None: ...
    def sets_grad(self, tensor: Tensor) -> None: ...
    def reads_values(self, tensor: Tensor, how: str) -> None: ...

    def item(self, tensor: Tensor, value: Any) -> Any:
        return value

    def apply_data_dependent(self, op: Op, x: Tensor) -> Tensor | None:
        return None


def _of_contraction(out: Any, x: Any, y: Any, spec: str) -> int:
    left, right, _ = parts(spec)
    return int(product({**dict(zip(left, x.shape)), **dict(zip(right, y.shape))}.values()))


_MULT_ADDS: dict[Op, Any] = {  # of an op's result, inputs and params
    contract_op: _of_contraction,
    conv_op: lambda out, x, w, **_: out.size * product(w.shape[1:]),
    transpose_op: lambda out, x, w, **_: x.size * product(w.shape[1:]),
}


def _shapes(out: Any) -> Any:
    """The shapes of a result's tensors, in the same nesting of lists and dicts."""
    if isinstance(out, Tensor):
        return tuple(out.shape)
    if isinstance(out, (list, tuple)):
        return [_shapes(x) for x in out]
    if isinstance(out, Mapping):
        return {name: _shapes(x) for name, x in out.items()}
    return type(out).__name__
