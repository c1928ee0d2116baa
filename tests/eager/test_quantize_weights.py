"""Weights in 4 and 8 bits: what they stand for, products with few and many rows, files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import models, nn
from fusewire.eager.errors import ArgumentError, ShapeError


def drawn(*shape: int, seed: int = 0) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def linear(inputs: int, outputs: int, seed: int = 0, bias: bool = True) -> nn.Linear:
    fw.manual_seed(seed)
    return nn.Linear(inputs, outputs, bias=bias)


def rounded(weight: Any, bits: int, group: int) -> Any:
    """The weight with each group rounded to 2**bits numbers from its smallest to its largest."""
    groups = weight.reshape(weight.shape[0], -1, group)
    least, most = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    scale = (most - least) / (2**bits - 1)
    codes = np.rint((groups - least) / np.where(scale > 0, scale, 1))
    return (codes * scale + least).reshape(weight.shape)


@pytest.mark.parametrize("seed", range(12))
def test_products_are_those_of_the_rounded_weight(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits, group = int(rng.choice([4, 8])), int(rng.choice([2, 16, 32, 64]))
    inputs, outputs = group * 2 * int(rng.integers(1, 5)), int(rng.integers(1, 40))
    layer = linear(inputs, outputs, seed, bool(rng.integers(2)))
    small = fw.quantize(layer, weights=f"int{bits}", group=group).model
    weight = rounded(layer.weight.detach().numpy().astype(np.float64), bits, group)
    np.testing.assert_allclose(small.weight.numpy(), weight, rtol=1e-4, atol=1e-6)
    compiled = fw.compile(small)
    for rows in (1, 2, 3, 4, 5, 17):
        x = drawn(rows, inputs, seed=rows)
        exact = x.numpy() @ small.weight.numpy().astype(np.float64).T
        exact = exact + (0 if layer.bias is None else layer.bias.detach().numpy())
        for result in (small(x), compiled(x)):
            np.testing.assert_allclose(result.numpy(), exact, rtol=1e-4, atol=1e-4)


def test_the_ends_of_a_group_are_exact_and_a_constant_group_is() -> None:
    layer = linear(8, 2)
    layer.load_state_dict({"weight": fw.tensor([[-3.0, 0.1, 0.2, 5.0, 7.0, 7.0, 7.0, 7.0]] * 2),
                           "bias": fw.zeros(2)})
    weight = fw.quantize(layer, weights="int4", group=4).model.weight
    assert weight[0, 0].item() == -3 and weight[0, 3].item() == 5
    assert weight[0, 4:].tolist() == [7.0] * 4


def test_a_group_shares_a_byte_with_another_half_of_the_inputs() -> None:
    small = fw.quantize(linear(128, 3), weights="int4", group=32).model
    assert small.codes.shape == (3, 64) and small.scale.shape == (3, 4)
    assert fw.quantize(linear(128, 3), weights="int8", group=32).model.codes.shape == (3, 128)


def test_gradients_reach_the_input_and_the_layer_has_no_parameters() -> None:
    small = fw.quantize(linear(64, 5), weights="int4", group=32).model
    x = drawn(3, 64).requires_grad_()
    small(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.tile(small.weight.numpy().sum(0), (3, 1)), 1e-5)
    assert not list(small.parameters())


def test_results_have_the_dtype_and_the_axes_of_the_input() -> None:
    small = fw.quantize(linear(64, 5), weights="int8").model
    assert small(drawn(2, 3, 64).astype(fw.bfloat16)).dtype == fw.bfloat16
    assert small(drawn(2, 3, 64)).shape == (2, 3, 5) and small(drawn(64)).shape == (5,)
    with pytest.raises(ShapeError, match=r"takes \(\.\.\., 64\), got shape \(2, 63\)"):
        small(drawn(2, 63))


def test_the_report_says_what_stays_and_why() -> None:
    model = nn.Sequential(linear(64, 32), nn.LayerNorm(32), linear(32, 6))
    report = fw.quantize(model, [drawn(4, 64)], weights="int4", group=32).report
    assert report.to == "int4" and [row.name for row in report.layers] == ["0"]
    assert report.kept["2"] == "its 32 inputs are no multiple of 64; choose a smaller group"
    assert report.output.decibels > 15 and report.bytes_after < report.bytes_before / 3


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match="weights"):
        fw.quantize(linear(64, 2), weights="int3")
    with pytest.raises(ArgumentError, match="leave `to` out"):
        fw.quantize(linear(64, 2), weights="int4", to="bfloat16")
    with pytest.raises(ArgumentError, match="group must be at least 1"):
        fw.quantize(linear(64, 2), weights="int4", group=0)
    with pytest.raises(ArgumentError, match="no layer to convert to int4"):
        fw.quantize(linear(63, 2), weights="int4")


def test_states_load_again_with_their_bits_and_groups() -> None:
    for bits, group in ((4, 16), (8, 64)):
        small = fw.quantize(linear(128, 3), weights=f"int{bits}", group=group).model
        again = fw.load_quantized(linear(128, 3, seed=1), small.state_dict())
        assert (again.bits, again.group) == (bits, group)
        assert again(drawn(2, 128)).tolist() == small(drawn(2, 128)).tolist()


@pytest.mark.parametrize("bits", [4, 8])
def test_onnxruntime_computes_the_same(bits: int, tmp_path: Any) -> None:
    import onnxruntime

    small = fw.quantize(linear(64, 5), weights=f"int{bits}", group=32).model
    x = drawn(3, 64)
    fw.onnx.export(small, (x,), tmp_path / "small.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "small.onnx"))
    (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(result, small(x).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", [
    {"model_type": "llama", "vocab_size": 96, "hidden_size": 64, "intermediate_size": 128,
     "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    {"model_type": "gpt2", "vocab_size": 96, "n_embd": 64, "n_layer": 2, "n_head": 4,
     "n_positions": 32}], ids=lambda config: config["model_type"])
def test_language_models_generate_with_small_weights(config: Any) -> None:
    fw.manual_seed(0)
    model = models.from_config(config).eval()
    tokens = fw.tensor([[1, 5, 9, 2, 6]])
    small = fw.quantize(model, [tokens], weights="int8", group=32)
    assert small.report.output.decibels > 35
    out = models.generate(small.model, tokens, max_new_tokens=4)
    assert out.shape == (1, 9)
    for n in range(5, 9):  # the tokens that a run without a cache takes
        assert out[0, n].item() == small.model(out[:, :n])[0, -1].numpy().argmax()
