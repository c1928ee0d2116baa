"""Models in int8 and in 16 bits: what they compute, what the report says, what is refused."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import ArgumentError
from fusewire.export.demo.digits import split_digits
from fusewire.export.demo.model import DigitNet


def drawn(*shape: int, seed: int = 0, scale: float = 1.0) -> fw.Tensor:
    rng = np.random.default_rng(seed)
    return fw.from_numpy((rng.standard_normal(shape) * scale).astype(np.float32))


def batches(*shape: int, count: int = 3) -> list[fw.Tensor]:
    return [drawn(*shape, seed=seed) for seed in range(count)]


def seeded(make: Any) -> Any:
    fw.manual_seed(0)
    return make()


class Residual(nn.Module):
    """Convolutions with batch norms, groups and strides, and what goes past them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.norm2 = nn.Conv2d(8, 8, 3, padding="same", groups=4), nn.BatchNorm2d(8)
        self.third = nn.Conv2d(8, 6, 3, stride=2, dilation=2, padding=2)
        self.head = nn.Linear(6, 5)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = fw.relu(self.norm1(self.first(x)))
        x = fw.relu(self.norm2(self.second(x))) + x
        return self.head(self.third(x).mean((2, 3)))


class Tokens(nn.Module):
    """An embedding, linear layers over three axes, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.wide = nn.Embedding(50, 16), nn.Linear(16, 24)
        self.norm, self.out = nn.LayerNorm(24), nn.Linear(24, 7, bias=False)

    def forward(self, tokens: fw.Tensor) -> fw.Tensor:
        return fw.softmax(self.out(self.norm(fw.relu(self.wide(self.table(tokens))))), -1)


def trained(make: Any, *shape: int) -> Any:
    """A model whose batch norms have seen something."""
    model = seeded(make)
    for x in batches(*shape):
        model(x + 0.5)
    return model.eval()


def tokens(count: int = 3) -> list[fw.Tensor]:
    return [fw.from_numpy(np.random.default_rng(i).integers(0, 50, (4, 6))) for i in range(count)]


MODELS: dict[str, Any] = {
    "residual": (lambda: trained(Residual, 4, 3, 10, 9), lambda: batches(4, 3, 10, 9)),
    "tokens": (lambda: seeded(Tokens).eval(), tokens),
    "conv1d": (lambda: seeded(lambda: nn.Sequential(
        nn.Conv1d(2, 4, 3, padding=1, padding_mode="reflect"), nn.Tanh(), nn.Conv1d(4, 3, 2))),
        lambda: batches(2, 2, 12)),
    "conv3d": (lambda: seeded(lambda: nn.Conv3d(2, 4, (2, 3, 1), padding=(1, 0, 0))),
               lambda: batches(2, 2, 4, 5, 6)),
    "linear": (lambda: seeded(lambda: nn.Linear(9, 4)), lambda: batches(5, 9)),
    "encoder": (lambda: seeded(lambda: nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)),
                lambda: batches(2, 5, 16)),
}
WAYS: dict[str, dict[str, Any]] = {
    "static": {}, "symmetric": {"symmetric": True}, "dynamic": {"activations": "dynamic"},
    "one scale": {"per_channel": False}, "percentile": {"observer": "percentile"},
    "mse": {"observer": "mse"}, "bfloat16": {"to": "bfloat16"}, "float16": {"to": fw.float16},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS)
def test_near_to_the_float_model_and_compiled_to_eager(model: str, way: str) -> None:
    make, data = MODELS[model]
    given, plain = data(), make().eval()
    before = {name: x.numpy().copy() for name, x in plain.state_dict().items()}
    small = fw.quantize(plain, given, **WAYS[way])
    output = small.report.output
    assert output.decibels is not None and output.decibels > 22, small.report
    assert all(np.array_equal(x.numpy(), before[n]) for n, x in plain.state_dict().items())
    eager = [small.model(x).numpy() for x in given]
    compiled = fw.compile(small.model, fullgraph=True)
    for _ in range(2):
        for x, wanted in zip(given, eager):
            np.testing.assert_allclose(compiled(x).numpy(), wanted, rtol=1e-5, atol=TIGHT[way])


TIGHT = {**dict.fromkeys(WAYS, 1e-5), "bfloat16": 2e-2, "float16": 2e-3}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS)
def test_a_state_dict_makes_the_same_model_of_a_float_one(model: str, way: str, tmp_path: Any
                                                          ) -> None:
    make, data = MODELS[model]
    small = fw.quantize(make(), data(), **WAYS[way]).model
    fw.save(small.state_dict(), tmp_path / "small.safetensors")
    again = fw.load_quantized(make(), fw.load(tmp_path / "small.safetensors"))
    assert str(again) == str(small)
    for x in data():
        np.testing.assert_array_equal(again(x).numpy(), small(x).numpy())


# ---- what a layer computes
def test_sums_are_exact() -> None:
    """A layer is the product of the floats that its codes stand for, rounded once."""
    layer, x = seeded(lambda: nn.Linear(300, 7)), drawn(6, 300, scale=2.0)
    small = fw.quantize(layer, [x]).model
    scale, zero = float(small.input_scale), int(small.input_zero)
    q = np.clip(np.rint(x.numpy() / np.float32(scale)) + zero, 0, 255).astype(np.int64)
    sums = (q - zero) @ small.codes.numpy().astype(np.int64).T + small.shift.numpy()
    wanted = sums.astype(np.float32) * (np.float32(scale) * small.weight_scale.numpy())
    np.testing.assert_array_equal(small(x).numpy(), wanted)


def test_padding_is_exactly_zero() -> None:
    """A convolution of what is far from 0, so that a wrong padding would show."""
    layer = seeded(lambda: nn.Conv2d(2, 3, 3, padding=2, bias=False))
    x = drawn(1, 2, 5, 5) * 0.1 + 9.0
    apart = (fw.quantize(layer, [x]).model(x) - layer(x)).abs()
    assert float(apart.max()) < 0.12  # nine steps of 9 / 255, of weights up to 0.24


def test_weights_and_biases_read_as_the_floats_that_they_stand_for() -> None:
    """A model may read the weight of a layer itself, as one with tied weights does."""
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.inner = nn.Embedding(20, 8), nn.Linear(8, 8)

        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return self.inner(self.table(x)) @ self.table.weight.T + self.inner.bias.sum()

    model, data = seeded(Tied), [fw.tensor([1, 5, 19])]
    report = fw.quantize(model, data).report
    assert report.output.decibels is not None and report.output.decibels > 30


def test_a_scale_for_each_channel_beats_one_for_all() -> None:
    layer, data = seeded(lambda: nn.Linear(16, 8, bias=False)), batches(32, 16)
    with fw.no_grad():
        layer.weight *= fw.tensor([[10.0 ** -i] for i in range(8)])
    own = fw.quantize(layer, data, per_channel=True).model(data[0]).numpy()
    one = fw.quantize(layer, data, per_channel=False).model(data[0]).numpy()
    wanted = layer(data[0]).detach().numpy()
    worst = [float((np.abs(x - wanted).max(0) / np.abs(wanted).max(0)).max()) for x in (own, one)]
    assert worst[0] < 0.05 < 0.5 < worst[1]


def test_observers_leave_out_what_stands_alone() -> None:
    """One number of 1000 in 20,000 ordinary ones takes all of the range."""
    x = drawn(2000, 10)
    x[0, 0] = 1000.0
    layer = nn.Linear(10, 10)
    steps = {kind: float(fw.quantize(layer, [x], observer=kind, percentile=99.9).model.input_scale)
             for kind in ("minmax", "percentile", "mse")}
    assert steps["percentile"] < 0.1 and steps["minmax"] > 3.5
    assert steps["mse"] <= steps["minmax"]


@pytest.mark.parametrize("observer", ["minmax", "percentile", "mse"])
@pytest.mark.parametrize("value", [0.0, 5.0, -3e-30, 1e30, 5.0000005])
def test_inputs_that_are_all_alike(observer: str, value: float) -> None:
    layer, x = seeded(lambda: nn.Linear(3, 2, bias=False)), fw.full((4, 3), value)
    found = fw.quantize(layer, [x], observer=observer).model(x).numpy()
    np.testing.assert_allclose(found, layer(x).detach().numpy(), rtol=0.03)


def test_one_program_for_all_sizes() -> None:
    """A compiled model sees batches of other sizes, and gives what eager gives."""
    make, data = MODELS["residual"]
    small = fw.quantize(make(), data()).model
    compiled = fw.compile(fw.quantize(make(), data()).model, fullgraph=True)
    for rows in (4, 2, 3, 7, 1, 5):
        x = drawn(rows, 3, 10, 9, seed=rows)
        np.testing.assert_allclose(compiled(x).numpy(), small(x).numpy(), rtol=1e-5, atol=1e-5)


def test_nothing_is_printed_without_a_terminal(capfd: Any) -> None:
    fw.quantize(nn.Linear(4, 4), batches(2, 4))
    assert capfd.readouterr() == ("", "")


def test_a_bias_that_is_large_beside_the_weight_fits_in_its_sum() -> None:
    layer = nn.Linear(4, 2)
    with fw.no_grad():
        layer.weight *= 1e-9
        layer.bias += 1000.0
    x = drawn(3, 4)
    np.testing.assert_allclose(fw.quantize(layer, [x]).model(x).numpy(), layer(x).detach().numpy(),
                               rtol=1e-6)


def test_dynamic_ranges_follow_each_input() -> None:
    layer = seeded(lambda: nn.Linear(8, 4))
    small = fw.quantize(layer, activations="dynamic").model
    compiled = fw.compile(small, fullgraph=True)
    for i, rows in enumerate((1, 5, 3, 7)):
        x = drawn(rows, 8, seed=i, scale=10.0 ** (i - 1))
        wanted = layer(x).detach().numpy()
        for model in (small, compiled):
            assert np.abs(model(x).numpy() - wanted).max() < 0.02 * np.abs(wanted).max() + 0.02
    np.testing.assert_array_equal(small(fw.zeros(2, 8)).numpy(), layer.bias.numpy()[None].repeat(
        2, 0))


def test_attention_is_made_small_by_its_projections() -> None:
    """Others than of itself too: with keys of other sizes, without biases, with a mask."""
    class Across(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend = nn.MultiheadAttention(8, 2, kdim=6, vdim=4, bias=False, add_bias_kv=True)

        def forward(self, q: fw.Tensor, k: fw.Tensor, v: fw.Tensor) -> Any:
            return self.attend(q, k, v, attn_mask=fw.arange(5) > fw.arange(3)[:, None])

    data = list(zip(batches(3, 2, 8), batches(5, 2, 6), batches(5, 2, 4)))
    small = fw.quantize(seeded(Across), data)
    assert [x.name for x in small.report.layers] == [
        f"attend.{part}" for part in ("q_proj", "k_proj", "v_proj", "out_proj")]
    assert small.report.output.decibels is not None and small.report.output.decibels > 30
    with pytest.raises(ArgumentError, match="there is no layer to convert to int8"):
        fw.quantize(seeded(Across), data, skip=nn.MultiheadAttention)


def test_floats_of_16_bits_may_come_in() -> None:
    small = fw.quantize(seeded(lambda: nn.Linear(8, 4)), batches(2, 8)).model
    x = batches(2, 8)[0].astype(fw.bfloat16)
    np.testing.assert_array_equal(small(x).numpy(), small(x.astype(fw.float32)).numpy())
    with pytest.raises(fw.DTypeError, match="takes float32"):
        small(x.astype(fw.float64))


def test_other_hooks_stay() -> None:
    layer, called = nn.Linear(4, 4), []
    layer.register_forward_hook(lambda *_: called.append(1))
    small = fw.quantize(nn.Sequential(layer), [drawn(2, 4)]).model
    called.clear()
    small(drawn(2, 4))
    assert called == [1]


def test_a_layer_in_two_places_stays_one() -> None:
    layer = nn.Linear(4, 4)
    small = fw.quantize(nn.Sequential(layer, nn.ReLU(), layer), [drawn(2, 4)]).model
    assert small[0] is small[2] and len(list(small.parameters())) == 0


def test_a_compiled_model_is_quantized_like_any() -> None:
    model, data = seeded(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU())), batches(2, 4)
    wanted = fw.quantize(model, data).model(data[0]).numpy()
    small = fw.quantize(fw.compile(copy.deepcopy(model)), data).model
    np.testing.assert_array_equal(small(data[0]).numpy(), wanted)


# ---- batch norms
def test_batch_norms_are_taken_in_where_nothing_else_reads() -> None:
    small = fw.quantize(trained(Residual, 4, 3, 10, 9), batches(4, 3, 10, 9))
    assert small.report.folded == {"norm1": "first", "norm2": "second"}
    assert isinstance(small.model.norm1, nn.Identity)


def test_a_batch_norm_stays_where_something_else_reads_the_layer() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2)

        def forward(self, x: fw.Tensor) -> Any:
            y = self.conv(x)
            return self.norm(y), y

    report = fw.quantize(trained(Both, 3, 2, 5), batches(3, 2, 5)).report
    assert not report.folded and "norm" in report.kept
    assert report.output.decibels is not None and report.output.decibels > 30


# ---- the report
def test_digits_keep_their_accuracy() -> None:
    digits = split_digits()
    model = seeded(DigitNet)
    optimizer = fw.optim.Adam(model.parameters(), lr=2e-3)
    step = fw.compile(lambda x, y: _step(model, optimizer, x, y))
    rng = np.random.default_rng(0)
    for _ in range(250):
        rows = fw.tensor(rng.integers(0, len(digits.train_images), 64))
        step(digits.train_images[rows], digits.train_labels[rows])
    model.eval()
    data = [digits.train_images[i:i + 64] for i in range(0, 512, 64)]
    exact = _accuracy(model, digits)
    assert exact > 0.95
    for way in ({}, {"activations": "dynamic"}, {"to": "bfloat16"}):
        small = fw.quantize(model, data, **way)
        assert _accuracy(small.model, digits) >= exact - 0.005, (way, small.report)
    report = fw.quantize(model, data).report
    assert report.bytes_after < 0.27 * report.bytes_before
    assert [x.name for x in report.layers] == ["conv1", "conv2", "linear1", "linear2"]


def _step(model: Any, optimizer: Any, x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def _accuracy(model: Any, data: Any) -> float:
    with fw.no_grad():
        found = model(data.test_images).argmax(-1)
    return float((found == data.test_labels).astype(fw.float32).mean())


def test_the_report_names_the_worst_layer() -> None:
    model = seeded(lambda: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)))
    with fw.no_grad():
        model[1].weight[:, 0] += 300.0  # all other weights of its channels are lost beside this
        model[0].weight[0] *= 0.0
        model[0].bias[0] = 0.0
    report = fw.quantize(model, batches(16, 8)).report
    assert report.worst is not None and report.worst.name == "1"
    plain = report.to_dict()
    assert json.loads(json.dumps(plain)) == plain and plain["worst"] == "1"
    lines = str(report).splitlines()
    assert lines[0].split() == ["layer", "kind", "bytes", "in", "int8", "signal/noise", "largest",
                                "difference"]
    assert re.match(r"1 +Linear +288 +133 +-?[\d.]+ dB", lines[3])
    assert lines[-1].startswith("whole model")


def test_without_data_there_are_sizes_only() -> None:
    report = fw.quantize(nn.Linear(4, 4), activations="dynamic").report
    assert report.worst is None and report.output.decibels is None
    assert "the model itself  Linear" in str(report) and report.to_dict()["worst"] is None


def test_what_stays_is_told_with_its_reason() -> None:
    class Own(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(4, 4), Own(4, 4), nn.LayerNorm(4), nn.Linear(4, 4).double(),
                          nn.Linear(4, 4))
    model.append(nn.ModuleList([nn.Linear(40_000, 1)]))

    class Some(nn.Sequential):
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return self[1](self[0](x))

    model = Some(*model)
    kept = fw.quantize(model, [drawn(2, 4)]).report.kept
    assert kept == {"1": "Own has no quantized form",
                    "2": "LayerNorm has no quantized form",
                    "3": "its weight is float64, not float32",
                    "4": "no batch of the data calls it",
                    "5.0": "sums of more than 32768 products do not fit in int32"}


@pytest.mark.parametrize("skip", ["second", ["second"], ["sec*"], nn.Linear, [nn.Linear, "second"]])
def test_layers_to_leave_alone(skip: Any) -> None:
    report = fw.quantize(trained(Residual, 4, 3, 10, 9), batches(4, 3, 10, 9), skip=skip).report
    small = {x.name for x in report.layers}
    assert ("second" in small) == (skip is nn.Linear)
    assert "third" in small and set(report.kept) == {"first", "second", "third", "head", "norm2"
                                                     } - small - set(report.folded)


def test_data_may_be_tuples_dicts_and_an_iterator() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(3, 2), nn.Linear(4, 2)

        def forward(self, a: fw.Tensor, b: fw.Tensor) -> dict[str, fw.Tensor]:
            return {"sum": self.one(a) + self.other(input=b)}

    model = seeded(Two)
    pairs = list(zip(batches(2, 3), batches(2, 4)))
    wanted = fw.quantize(model, pairs).report.to_dict()
    assert fw.quantize(model, iter(pairs)).report.to_dict() == wanted
    assert fw.quantize(model, [{"a": a, "b": b} for a, b in pairs]).report.to_dict() == wanted


# ---- what is refused
NAN = float("nan")


def spoiled(layer: Any) -> Any:
    with fw.no_grad():
        layer.weight[0, 0] = NAN
    return layer


REFUSED: dict[str, tuple[Any, str]] = {
    "no data": (lambda: fw.quantize(nn.Linear(2, 2)),
                "static activations need calibration data\n  help: pass some inputs"),
    "a tensor as data": (lambda: fw.quantize(nn.Linear(2, 2), fw.zeros(2, 2)),
                         "data is an iterable of inputs, not Tensor"),
    "empty data": (lambda: fw.quantize(nn.Linear(2, 2), []), "data holds no batch"),
    "another dtype": (lambda: fw.quantize(nn.Linear(2, 2), to="int4"),
                      "to is one of 'int8', 'bfloat16', 'float16'"),
    "another observer": (lambda: fw.quantize(nn.Linear(2, 2), [], observer="max"),
                         "observer 'max' is not known"),
    "other activations": (lambda: fw.quantize(nn.Linear(2, 2), [], activations="none"),
                          "activations 'none' is not known"),
    "a percentile": (lambda: fw.quantize(nn.Linear(2, 2), [], percentile=0.1),
                     "percentile is above 50 and at most 100, got 0.1"),
    "a name": (lambda: fw.quantize(trained(Residual, 4, 3, 10, 9), [], skip=["secnd"],
                                   activations="dynamic"), "data holds no batch"),
    "a wrong name": (lambda: fw.quantize(Residual(), batches(1, 3, 9, 9), skip="secnd"),
                     "skip names 'secnd', but there is no such layer\n  help: the nearest is "
                     "'second'"),
    "a wrong rule": (lambda: fw.quantize(Residual(), batches(1, 3, 9, 9), skip=[3]),
                     "skip holds 3"),
    "nan": (lambda: fw.quantize(nn.Sequential(nn.Identity(), nn.Linear(2, 2)),
                                [fw.zeros(1, 2), fw.tensor([[1.0, NAN]])]),
            "nan in batch 1 of the data, at the input of '1'"),
    "nan in a weight": (lambda: fw.quantize(nn.Sequential(spoiled(nn.Linear(2, 2))),
                                            activations="dynamic"),
                        "the weight of '0' has nan or inf"),
    "nothing to do": (lambda: fw.quantize(nn.Sequential(nn.ReLU()), [fw.zeros(2)]),
                      "there is no layer to convert to int8 in Sequential"),
    "integers": (lambda: fw.quantize(nn.Linear(2, 2).type(fw.int64), [fw.zeros(2, 2)]),
                 "the parameter 'weight' is int64"),
    "a function": (lambda: fw.quantize(fw.relu, [fw.zeros(2)]), "takes a model, a fw.nn.Module"),
    "a float state": (lambda: fw.load_quantized(nn.Linear(2, 2), nn.Linear(2, 2).state_dict()),
                      "the state is not that of a quantized model"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_say_what_is_wrong_and_what_to_do(case: str) -> None:
    call, words = REFUSED[case]
    with pytest.raises(ArgumentError) as caught:
        call()
    text = "\n".join(x for x in str(caught.value).splitlines() if not x.startswith("  at:"))
    assert words in text and re.match("(load_)?quantize", text)
