"""Adapters of LoRA: merged and separate results are equal, files load to the bit, bases stay."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import GPT2

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import ArgumentError, DTypeError, StateError
from fusewire.models.text import gpt2
from fusewire.nn.utils import lora, parametrizations


# ---- random models
class Case:
    """A random model, an input of it, and the arguments of `lora.add`."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        fw.manual_seed(seed)
        self.model, self.x = self._image() if seed % 3 == 0 else self._table()
        self.model.to(fw.float64).eval()
        names = [name for name, layer in self.model.named_modules() if hasattr(layer, "weight")
                 and not isinstance(layer, nn.LayerNorm)]
        count = int(self.rng.integers(1, len(names) + 1))
        self.how = {"rank": int(self.rng.integers(1, 6)), "alpha": float(self.rng.integers(1, 20)),
                    "rslora": bool(self.rng.integers(2)),
                    "dropout": float(self.rng.integers(2)) / 4,
                    "targets": [str(n) for n in self.rng.choice(names, count, replace=False)]}

    def _table(self) -> tuple[Any, Any]:
        """Rows of an Embedding and linear layers of random widths."""
        widths = [int(n) for n in self.rng.integers(2, 9, self.rng.integers(2, 5))]
        layers: list[nn.Module] = [nn.Embedding(7, widths[0], padding_idx=self._maybe(3))]
        for n, m in itertools.pairwise(widths):
            layers += [nn.Linear(n, m, bias=bool(self.rng.integers(2))), nn.GELU(), nn.LayerNorm(m)]
        return nn.Sequential(*layers), fw.tensor(self.rng.integers(0, 7, (3, 4)))

    def _image(self) -> tuple[Any, Any]:
        """Convolutions with random sizes."""
        padding = str(self.rng.choice(["zeros", "reflect", "circular"]))
        model = nn.Sequential(
            nn.Conv2d(3, 5, (3, 2), stride=int(self.rng.integers(1, 3)), padding=1,
                      dilation=int(self.rng.integers(1, 3)), padding_mode=padding), nn.ReLU(),
            nn.Conv2d(5, 4, 1, bias=False), nn.Flatten(2), nn.Conv1d(4, 2, 3, padding="same"))
        return model, fw.tensor(self.rng.standard_normal((2, 3, 7, 6)))

    def _maybe(self, value: int) -> int | None:
        return value if self.rng.integers(2) else None

    def adapted(self) -> Any:
        """The model with random adapters."""
        lora.add(self.model, **self.how)
        for p in lora.parameters(self.model):
            nn.init.normal_(p)
        return self.model

    def result(self, model: Any = None) -> Any:
        return (model or self.model)(self.x).detach().numpy()


SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_adapters_start_without_effect(seed: int) -> None:
    case = Case(seed)
    before = case.result()
    np.testing.assert_array_equal(case.result(lora.add(case.model, **case.how)), before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_merged_model_computes_the_same(seed: int) -> None:
    case = Case(seed)
    state, base = dict(case.model.state_dict()), case.result()
    wanted = case.result(case.adapted())
    assert np.abs(wanted - base).max() > 1e-3
    np.testing.assert_allclose(case.result(lora.merge(case.model)), wanted, 1e-9, 1e-9)
    assert case.model.state_dict().keys() == state.keys()


@pytest.mark.parametrize("seed", SEEDS)
def test_disabled_and_removed_adapters_leave_the_base_to_the_bit(seed: int) -> None:
    case = Case(seed)
    base = case.result()
    wanted = case.result(case.adapted())
    with lora.disabled(case.model), lora.disabled(case.model):
        np.testing.assert_array_equal(case.result(), base)
    np.testing.assert_array_equal(case.result(), wanted)
    np.testing.assert_array_equal(case.result(lora.remove(case.model)), base)


@pytest.mark.parametrize("seed", SEEDS)
def test_files_load_to_the_bit(seed: int, tmp_path: Path) -> None:
    case = Case(seed)
    base = copy.deepcopy(case.model)
    lora.save(case.adapted(), tmp_path)
    again = lora.load(base, tmp_path)
    for name, x in case.model.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name].numpy(), x.numpy())
    np.testing.assert_array_equal(case.result(again), case.result())
    assert [repr(m) for m in again.modules()] == [repr(m) for m in case.model.modules()]


@pytest.mark.parametrize("seed", SEEDS)
def test_only_adapters_have_gradients_and_they_are_those_of_the_weight(seed: int) -> None:
    """For W + scale * B A, the gradient of A is scale * B.T G, and that of B scale * G A.T."""
    case = Case(seed)
    case.how["dropout"] = 0.0
    case.model[0].padding_idx = None  # B gets a gradient of that row, but the weight has none
    merged = lora.merge(copy.deepcopy(case.adapted())).requires_grad_()
    weights = fw.tensor(case.rng.standard_normal(case.result().shape))
    for model in (case.model, merged):
        (model(case.x) * weights).sum().backward()
    for name, layer in case.model.named_modules():
        adapter = layer._modules.get("lora")
        if adapter is None:
            continue
        g = merged.get_submodule(name).weight.grad
        g = g.mT if isinstance(layer, nn.Embedding) else g.reshape(g.shape[0], -1)
        a, b = (p.detach().reshape(p.shape[0], -1) for p in (adapter.A, adapter.B))
        for p, wanted in ((adapter.A, b.mT @ g), (adapter.B, g @ a.mT)):
            wanted = (wanted * adapter.scale).reshape(p.shape).numpy()
            np.testing.assert_allclose(p.grad.numpy(), wanted, 1e-8, 1e-9)
    assert {n for n, p in case.model.named_parameters() if p.grad is not None} == \
        {n for n, p in case.model.named_parameters() if ".lora." in n}


# ---- models
def small() -> Any:
    fw.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))


def adapted(**how: Any) -> Any:
    """A small model with adapters that are not 0."""
    model = lora.add(small(), **{"rank": 2, "targets": "*", **how})
    for p in lora.parameters(model):
        nn.init.normal_(p)
    return model


X = fw.tensor(np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32))


def test_targets_are_names_ends_of_names_and_patterns() -> None:
    def chosen(targets: Any) -> list[str]:
        model = lora.add(gpt2.GPT2(GPT2), 2, targets=targets)
        return [n.removesuffix(".lora.A") for n in lora.state_dict(model) if n.endswith("A")]

    assert chosen("lm_head") == ["lm_head"]
    assert chosen(["h.1.attn.c_attn", "wte"]) == ["transformer.wte", "transformer.h.1.attn.c_attn"]
    assert chosen("h.*.mlp.c_fc") == [f"transformer.h.{i}.mlp.c_fc" for i in range(3)]
    assert len(chosen("*")) == 3 + 3 * 4


def test_targets_may_be_added_later() -> None:
    model = lora.add(adapted(targets="0"), 3, targets="2", alpha=6)
    assert [p.shape for p in lora.parameters(model)] == [(2, 6), (4, 2), (3, 4), (2, 3)]
    assert [p.requires_grad for p in model.parameters()] == [False, False, True, True] * 2


def test_a_tied_weight_that_is_merged_becomes_a_separate_one() -> None:
    model = gpt2.GPT2(GPT2).eval()
    ids = fw.tensor([[1, 2, 3]])
    table = model.transformer.wte.weight.numpy().copy()
    lora.add(model, 2, targets="lm_head")
    nn.init.normal_(model.lm_head.lora.B)
    wanted = model(ids).detach().numpy()
    lora.merge(model)
    np.testing.assert_array_equal(model.transformer.wte.weight.numpy(), table)
    np.testing.assert_allclose(model(ids).detach().numpy(), wanted, 1e-4, 1e-5)


def test_other_hooks_stay() -> None:
    model, calls = small(), []
    handle = model[0].register_forward_hook(lambda *_: calls.append(1))
    lora.remove(lora.add(model, 2, targets="0"))(X)
    handle.remove()
    model(X)
    assert calls == [1]
    assert lora.remove(adapted())[2]._hooks is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_adapters_of_their_own(copied: Callable[[Any], Any]) -> None:
    model = adapted()
    wanted, again = model(X).detach().numpy(), copied(model)
    np.testing.assert_array_equal(again(X).detach().numpy(), wanted)
    lora.remove(again)
    np.testing.assert_array_equal(model(X).detach().numpy(), wanted)
    np.testing.assert_array_equal(again(X).detach().numpy(), small()(X).detach().numpy())


def test_the_input_may_be_named() -> None:
    model = adapted()
    np.testing.assert_array_equal(model[0](input=X).detach().numpy(), model[0](X).detach().numpy())


def test_weights_of_16_bits_have_adapters_of_32() -> None:
    model = lora.add(small().to(fw.bfloat16), 2, targets="*")
    assert {p.dtype for p in lora.parameters(model)} == {fw.float32}
    assert model(X.astype(fw.bfloat16)).dtype == lora.merge(model)[0].weight.dtype == fw.bfloat16


def test_dropout_is_of_training_only() -> None:
    model = adapted(dropout=0.5)
    assert bool((model(X) != model(X)).any())
    model.eval()
    assert bool((model(X) == model(X)).all())
    assert lora.add(small().eval(), 2, targets="0")[0].lora.training is False


def test_states_load_strictly() -> None:
    model, other = adapted(), adapted()
    state = lora.state_dict(model)
    lora.load_state_dict(other, state)
    np.testing.assert_array_equal(other(X).detach().numpy(), model(X).detach().numpy())
    for wrong, words in (({**state, "1.lora.A": X}, "unexpected: 1.lora.A"),
                         ({n: x for n, x in state.items() if n != "0.lora.B"}, "missing: 0.lora.B"),
                         ({**state, "0.lora.A": X}, "0.lora.A")):
        with pytest.raises(StateError, match=words):
            lora.load_state_dict(other, wrong)


# ---- bases of few bits
class FourBits(nn.Module):
    """A linear layer that stores its weight as int4."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        weight = layer.weight.detach()
        self.register_buffer("scale", abs(weight).max(axis=1, keepdims=True) / 7)
        self.register_buffer("codes", fw.round(weight / self.scale).astype(fw.int4))

    @property
    def weight(self) -> fw.Tensor:
        return self.codes.astype(fw.float32) * self.scale

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return nn.functional.linear(x, self.weight)


def of_4_bits() -> Any:
    lora.register(FourBits, lora.LinearAdapter)
    model = small()
    return nn.Sequential(FourBits(model[0]), model[1], FourBits(model[2]))


def of_8_bits() -> Any:
    return fw.quantize(small(), activations="dynamic").model


def of_8_bits_static() -> Any:
    return fw.quantize(small(), [X]).model


@pytest.mark.parametrize("make", [of_4_bits, of_8_bits, of_8_bits_static])
def test_adapters_of_a_base_of_few_bits_train(make: Callable[[], Any], tmp_path: Path) -> None:
    """Their gradients are those beside the floats that the codes stand for.

    The adapters are small, so that inputs stay in the static ranges of the base.
    """
    model, floats = make(), small()
    for i in (0, 2):
        bias = getattr(model[i], "bias", None)
        floats[i].weight = nn.Parameter(model[i].weight.detach())
        floats[i].bias = None if bias is None else nn.Parameter(bias.detach())
    for each in (model, floats):
        lora.add(each, 2, targets="*")
    for p in lora.parameters(model):
        nn.init.normal_(p, std=0.1)
    lora.load_state_dict(floats, lora.state_dict(model))
    for each in (model, floats):
        each(X).square().sum().backward()
    for p, q in zip(lora.parameters(model), lora.parameters(floats)):
        largest = float(abs(q.grad).max())
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 0, 0.05 * largest)
    with pytest.raises(StateError, match="the weight of 0, a"):
        lora.merge(model)
    lora.save(model, tmp_path)
    again = lora.load(make(), tmp_path)
    np.testing.assert_array_equal(again(X).detach().numpy(), model(X).detach().numpy())


def test_a_model_with_adapters_is_not_quantized() -> None:
    with pytest.raises(ArgumentError, match="has adapters of LoRA"):
        fw.quantize(adapted(), activations="dynamic")


# ---- files
def test_the_config_tells_what_differs(tmp_path: Path) -> None:
    model = lora.add(adapted(targets="0"), 3, targets="2", alpha=6)
    lora.save(model, tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (2, 16)
    assert (config["rank_pattern"], config["alpha_pattern"]) == ({"2": 3}, {"2": 6})
    assert config["target_modules"] == ["0", "2"]


def test_targets_of_a_file_mean_the_layers_with_adapters_alone(tmp_path: Path) -> None:
    model = lora.add(gpt2.GPT2(GPT2), 2, targets="h.1.attn.c_proj")
    lora.save(model, tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["target_modules"] == r"transformer\.h\.1\.attn\.c_proj"
    assert config["fan_in_fan_out"]
    assert len(lora.parameters(lora.load(gpt2.GPT2(GPT2), tmp_path))) == 2


def _tensors(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file = folder / "adapter_model.safetensors"
        fw.save(change(dict(fw.load(file))), file)
    return apply


def _config(**values: Any) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file = folder / "adapter_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))
    return apply


A = "base_model.model.0.lora_A.weight"


@pytest.mark.parametrize(("change", "words"), [
    (_tensors(lambda x: {n: v for n, v in x.items() if n != A}), f"missing: {A}"),
    (_tensors(lambda x: {n: v for n, v in x.items() if ".0." not in n}), f"missing: .*{A}"),
    (_tensors(lambda x: {**x, "base_model.model.0.lora_C.weight": X}), "unexpected: .*lora_C"),
    (_tensors(lambda x: {**x, "other": X}), "unexpected: other"),
    (_tensors(lambda x: {**x, A: X}), r"0\.lora_A\.weight"),
    (_tensors(lambda x: {n.replace(".0.", ".7."): v for n, v in x.items()}), "no layer 7"),
    (_config(r=3), r"0\.lora_A\.weight"),
    (_config(peft_type="LOHA"), "peft_type='LOHA' is not implemented"),
    (_config(use_dora=True), "use_dora=True is not implemented"),
    (_config(made_up=[1]), r"made_up=\[1\] is not implemented"),
    (lambda folder: (folder / "adapter_config.json").write_text("{}"), "does not say lora_alpha"),
    (lambda folder: (folder / "adapter_config.json").unlink(), "has no adapter_config.json"),
    (lambda folder: (folder / "adapter_model.safetensors").unlink(), "has no adapter_model"),
])
def test_files_that_do_not_fit(change: Callable[[Path], Any], words: str, tmp_path: Path) -> None:
    lora.save(adapted(), tmp_path)
    change(tmp_path)
    base = small()
    with pytest.raises(StateError, match=words):
        lora.load(base, tmp_path)
    assert all(p.requires_grad for p in base.parameters())
    assert base[0]._hooks is None


def test_a_format_without_two_dropouts(tmp_path: Path) -> None:
    model = lora.add(adapted(targets="0"), 2, targets="2", dropout=0.5)
    with pytest.raises(StateError, match="several values of dropout"):
        lora.save(model, tmp_path)


# ---- errors
class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(4, 2), nn.Linear(4, 2)


@pytest.mark.parametrize(("make", "how", "words"), [
    (small, {"targets": "q_proj"}, "fits the target 'q_proj'"),
    (small, {"targets": ["0", "1"]}, "fits the target '1'"),
    (small, {"targets": "0", "rank": 0}, "rank must be at least 1"),
    (small, {"targets": "0", "dropout": 1.0}, "dropout must be"),
    (Attending, {"targets": "out_proj"}, "fits the target 'out_proj'"),
    (lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 2))), {"targets": "0"},
     "fits the target '0'"),
    (lambda: nn.Sequential(nn.Conv2d(4, 4, 3, groups=2)), {"targets": "0"}, "groups=2"),
    (lambda: nn.Sequential(nn.Embedding(4, 4, max_norm=1)), {"targets": "0"}, "max_norm"),
])
def test_what_cannot_be_added(make: Callable[[], Any], how: Any, words: str) -> None:
    model = make()
    with pytest.raises(ArgumentError, match=words):
        lora.add(model, **how)
    assert all(p.requires_grad for p in model.parameters())


def test_an_unknown_target_is_answered_by_the_layers_that_exist() -> None:
    with pytest.raises(ArgumentError) as error:
        lora.add(gpt2.GPT2(GPT2), targets="q_proj")
    assert "transformer.h.*.attn.c_attn, transformer.h.*.attn.c_proj" in error.value.help


@pytest.mark.parametrize("name", ["parameters", "state_dict", "merge", "remove"])
def test_a_model_without_adapters(name: str) -> None:
    with pytest.raises(StateError, match=f"lora.{name}: the Sequential has no adapters"):
        getattr(lora, name)(small())


def test_a_layer_has_one_adapter(tmp_path: Path) -> None:
    model = adapted()
    lora.save(model, tmp_path)
    with pytest.raises(StateError, match="0 has an adapter already"):
        lora.add(model, targets="0")
    with pytest.raises(StateError, match="has adapters already"):
        lora.load(model, tmp_path)
    with pytest.raises(DTypeError, match="no subclass of Adapter"):
        lora.register(nn.Linear, nn.Linear)
