"""Recurrent layers in ONNX: an operator for each layer, for any number of steps, there and back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import fusewire as fw
from fusewire import nn
from fusewire.eager.ops.layers.recurrent import KINDS, RecurrentWeights, stored
from fusewire.export.onnx import export

LAYERS = ("LSTM", "GRU", "RNN")
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {}, "two layers": {"num_layers": 2}, "both ways": {"bidirectional": True},
    "without bias": {"bias": False, "num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True, "bidirectional": True},
    "dropout": {"num_layers": 3, "dropout": 0.5},
}
SIZES = ((1, 1), (5, 3), (9, 2))  # steps, batch


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def made(kind: str, **options: Any) -> Any:
    fw.manual_seed(0)
    return getattr(nn, kind)(3, 4, **options)


def inputs(layer: Any, steps: int, batch: int) -> tuple[Any, ...]:
    """An input, and a state to begin with: arrays."""
    lead = layer.num_layers * (1 + layer.bidirectional)
    x = values(*((batch, steps) if layer.batch_first else (steps, batch)), 3)
    return x, *(values(lead, batch, 4, seed=n) for n in range(1 + (layer.mode == "LSTM")))


def flat(layer: Any, x: Any, *state: Any) -> tuple[fw.Tensor, ...]:
    """What a layer gives, as a tuple of tensors."""
    begun = state if len(state) == 2 else state[0] if state else None
    out, last = layer(x, begun)
    return out, *(last if isinstance(last, tuple) else (last,))


def arrays(found: Any) -> list[Any]:
    return [y.detach().numpy() for y in found]


def close(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def axes(layer: Any, count: int) -> tuple[dict[int, str], ...]:
    """Steps and batch vary, in the input and in states."""
    first = {0: "batch", 1: "steps"} if layer.batch_first else {0: "steps", 1: "batch"}
    return first, *({1: "batch"},) * (count - 1)


@pytest.mark.parametrize("begun", [False, True], ids=["from zeros", "from a state"])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_is_an_operator(kind: str, option: str, begun: bool, tmp_path: Path) -> None:
    layer, path, again = made(kind, **OPTIONS[option]), tmp_path / "a.onnx", tmp_path / "b.onnx"
    given = inputs(layer, 7, 2)[:None if begun else 1]
    names, tensors, varying = "xhc"[:len(given)], tuple(map(fw.tensor, given)), axes(
        layer, len(given))
    export(lambda x, h=None, c=None: flat(layer, *(s for s in (x, h, c) if s is not None)),
           tensors, path, dynamic_shapes=varying)
    loaded = fw.onnx.load(path)
    export(loaded, tensors, again, dynamic_shapes=varying)
    assert operators(path)[kind] == operators(again)[kind] == layer.num_layers
    assert sum(operators(path).values()) <= 8 * layer.num_layers
    runs = [onnxruntime.InferenceSession(path).run, ReferenceEvaluator(str(path)).run,
            onnxruntime.InferenceSession(again).run]
    for sizes in SIZES:
        given = inputs(layer, *sizes)[:len(given)]
        wanted = arrays(flat(layer.eval(), *map(fw.tensor, given)))
        for run in runs:
            close(run(None, dict(zip(names, given))), wanted)
        close(arrays(loaded.eval()(*map(fw.tensor, given))), wanted)


def test_relu_in_place_of_tanh(tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    export(made("RNN", nonlinearity="relu", bidirectional=True), fw.tensor(values(5, 2, 3)), path,
           dynamic_shapes=({0: "steps"},))
    export(fw.onnx.load(path), fw.tensor(values(5, 2, 3)), path, dynamic_shapes=({0: "steps"},))
    assert operators(path)["RNN"] == 1


@pytest.mark.parametrize("kind", LAYERS)
def test_a_loaded_layer_learns_as_the_one_that_it_was(kind: str, tmp_path: Path) -> None:
    layer = made(kind, bidirectional=True)
    x = values(5, 2, 3)
    export(layer, fw.tensor(x), tmp_path / "x.onnx", dynamic_shapes=({0: "t", 1: "b"},))
    loaded = fw.onnx.load(tmp_path / "x.onnx").train()
    compiled = fw.onnx.load(tmp_path / "x.onnx").train()
    step = fw.compile(lambda x: sum((y * y).sum() for y in compiled(x)))
    sum((y * y).sum() for y in flat(layer, fw.tensor(x))).backward()
    sum((y * y).sum() for y in loaded(fw.tensor(x))).backward()
    step(fw.tensor(x)).backward()
    grads = [RecurrentWeights(*(p.grad for p in each)) for each in layer.all_weights]
    wanted = stored(KINDS[layer.mode], grads)
    for model in (loaded, compiled):
        close(arrays(p.grad for p in model.parameters()), arrays(wanted))


def test_what_a_layer_gives_is_one_node_on_each_way(tmp_path: Path) -> None:
    layer = made("LSTM")

    def two(x: fw.Tensor) -> fw.Tensor:
        out, (h, c) = layer(x)
        return (out[-1] + h[0]) * c[0] if x.sum() > 0 else layer(-x)[1][1][0]

    export(two, fw.tensor(values(5, 2, 3)), tmp_path / "x.onnx", dynamic_shapes=({0: "t"},))
    whole = onnx.load(tmp_path / "x.onnx").graph.node
    branches = [a.g.node for node in whole for a in node.attribute if a.g.node]
    assert [sum(n.op_type == "LSTM" for n in nodes) for nodes in branches] == [1, 1]


def test_weights_may_be_inputs(tmp_path: Path) -> None:
    layer = made("GRU")
    export(lambda x, w: fw.func.functional_call(layer, {"weight_ih_l0": w}, (x,))[0],
           (fw.tensor(values(5, 2, 3)), fw.tensor(values(12, 3))), tmp_path / "x.onnx",
           dynamic_shapes=({0: "t"}, None))
    assert operators(tmp_path / "x.onnx")["GRU"] == 1


def test_parameters_keep_their_names(tmp_path: Path) -> None:
    for kind, word in (("RNN", "reshaped"), ("GRU", "part.joined.reshaped")):
        export(made(kind), fw.tensor(values(5, 2, 3)), tmp_path / "x.onnx")
        names = {t.name for t in onnx.load(tmp_path / "x.onnx").graph.initializer}
        assert {f"weight_ih_l0.{word}", f"weight_hh_l0.{word}"} <= names


def test_float64_is_written_step_by_step(tmp_path: Path) -> None:
    layer, x = made("LSTM").to(fw.float64), fw.tensor(values(5, 2, 3).astype(np.float64))
    report = export(layer, x, tmp_path / "x.onnx", dynamic_shapes=({1: "batch"},))
    assert operators(tmp_path / "x.onnx")["LSTM"] == 0
    assert report.max_error is not None and report.max_error < 1e-12
    with pytest.raises(fw.ExportError, match="a dynamic number of steps cannot be unrolled") as e:
        export(layer, x, tmp_path / "y.onnx", dynamic_shapes=({0: "steps"},))
    assert "test_onnx_recurrent.py" in str(e.value)


@pytest.mark.parametrize("kind", LAYERS)
def test_training_steps_are_written_step_by_step(kind: str, tmp_path: Path) -> None:
    layer, x = made(kind), fw.tensor(values(3, 2, 3))
    opt = fw.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: fw.Tensor) -> fw.Tensor:
        opt.zero_grad()
        loss = (layer(x)[0] ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    report = export(step, x, tmp_path / "x.onnx", training=True)
    assert operators(tmp_path / "x.onnx")[kind] == 0 and len(report.state) == 4


def loaded(kind: str, gates: int, w_rows: int | None = None, **attributes: Any) -> Any:
    """A loaded model of one operator over (steps, 2, 3)."""
    weights = {"w": values(1, w_rows or gates * 4, 3), "r": values(1, gates * 4, 4, seed=1),
               "b": values(1, gates * 8, seed=2)}
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", *weights], ["y", "h"], hidden_size=4, **attributes)], "net",
        [helper.make_tensor_value_info("x", 1, ["t", 2, 3])],
        [helper.make_empty_tensor_value_info(n) for n in "yh"],
        [numpy_helper.from_array(a, n) for n, a in weights.items()])
    opsets = [helper.make_opsetid("", 18)]
    return fw.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9))


@pytest.mark.parametrize(("kind", "gates", "attributes", "same"), [
    ("LSTM", 4, {}, True), ("LSTM", 4, {"clip": 0.1}, False),
    ("LSTM", 4, {"input_forget": 1}, False), ("GRU", 3, {"linear_before_reset": 1}, True),
    ("GRU", 3, {}, False), ("RNN", 1, {"activations": ["Relu"]}, True),
    ("RNN", 1, {"activations": ["Softsign"]}, False), ("LSTM", 4, {"direction": "reverse"}, True)])
def test_what_nn_does_not_have_is_run_step_by_step(
        kind: str, gates: int, attributes: Any, same: bool, tmp_path: Path) -> None:
    model, x = loaded(kind, gates, **attributes), fw.tensor(values(3, 2, 3))
    export(model, x, tmp_path / "x.onnx")  # compared with onnxruntime by itself
    assert operators(tmp_path / "x.onnx")[kind] == same


def test_weights_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(fw.FusewireError):
        loaded("LSTM", 4, w_rows=19)(fw.tensor(values(3, 2, 3)))
