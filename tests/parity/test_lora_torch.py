"""Adapters have the results, gradients and files of PEFT, in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from parity.pretrained import DECODERS, RNG

import fusewire as fw
from fusewire import models, nn
from fusewire.nn.utils import lora

peft = pytest.importorskip("peft", reason="PEFT is not installed")
pytestmark = [pytest.mark.filterwarnings("ignore:.*:UserWarning"),
              pytest.mark.filterwarnings("ignore:.*:FutureWarning")]

IDS = RNG.integers(1, 99, (2, 9))
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "attention of Llama": ("Llama", {"target_modules": ["q_proj", "v_proj"]}),
    "other ranks": ("Llama", {
        "target_modules": ["q_proj", "down_proj", "o_proj"], "rank_pattern": {"down_proj": 2},
        "alpha_pattern": {r"layers\.1\.self_attn\.q_proj": 3}}),
    "rslora": ("Llama", {"target_modules": ["k_proj", "lm_head"], "use_rslora": True,
                         "lora_dropout": 0.25}),
    "a regular expression": ("Llama", {"target_modules": r".*\.1\..*(gate|up)_proj"}),
    "excluded layers": ("Llama", {"target_modules": ["v_proj"],
                                  "exclude_modules": r".*layers\.0\..*"}),
    "one layer": ("Llama", {"target_modules": ["v_proj"], "layers_to_transform": [1]}),
    "every product": ("Qwen 2", {"target_modules": "all-linear"}),
    "embedding of Llama": ("Llama", {"target_modules": ["embed_tokens", "q_proj"]}),
    "GPT-2, whose weights are (n_in, n_out)": ("GPT-2", {
        "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    "embedding of GPT-2": ("GPT-2", {"target_modules": ["wpe", "c_fc"], "fan_in_fan_out": True}),
}
Both = tuple[Any, Any]


def base(name: str, folder: Path) -> Both:
    """A model of transformers with random weights, and ours."""
    torch.manual_seed(0)
    theirs = DECODERS[name]().eval()
    theirs.save_pretrained(folder)
    return theirs.double(), models.from_pretrained(folder, dtype=fw.float64)


def drawn(model: Any) -> Any:
    """A model of PEFT with random numbers in every adapter."""
    for name, p in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(p, std=0.3)
    return model


def assert_close(got: Any, wanted: Any, name: str = "", largest: float = 0.0) -> None:
    """To 1e-6, since transformers computes norms and rotations of Llama in float32."""
    bound = 1e-6 * (largest or float(np.abs(wanted).max()))
    np.testing.assert_allclose(got, wanted, 1e-6, bound, err_msg=name)


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal logits and gradients of the sum of their squares by the adapters; none by others."""
    a, b = ours(fw.tensor(IDS)), theirs(torch.tensor(IDS)).logits
    assert_close(a.detach().numpy(), b.detach().numpy())
    (a * a).sum().backward()
    (b * b).sum().backward()
    grads = {name.removeprefix("base_model.model.").replace(".default", ""): p.grad
             for name, p in theirs.named_parameters() if p.grad is not None}
    own = {f"{path}.{name}": p.grad for path, layer in ours.named_modules()
           if isinstance(layer._modules.get("lora"), lora.Adapter)
           for name, p in zip(layer.lora.NAMES, (layer.lora.A, layer.lora.B))}
    assert own.keys() == grads.keys()
    largest = max(float(g.abs().max()) for g in grads.values())
    for name, grad in grads.items():
        assert_close(own[name].numpy(), grad.numpy(), name, largest)
    assert [name for name, p in ours.named_parameters() if p.grad is not None
            and ".lora." not in name] == []


def saved(case: str, folder: Path) -> tuple[Any, Any]:
    """Their model with adapters, saved in `folder / "adapters"`, and our base."""
    name, how = CASES[case]
    theirs, ours = base(name, folder / "base")
    theirs = drawn(peft.get_peft_model(theirs, peft.LoraConfig(r=4, lora_alpha=6, **how)))
    theirs.save_pretrained(folder / "adapters")
    return theirs, ours


@pytest.mark.parametrize("case", CASES)
def test_files_of_peft_load(case: str, tmp_path: Path) -> None:
    theirs, ours = saved(case, tmp_path)
    assert_same(lora.load(ours.eval(), tmp_path / "adapters").eval(), theirs.eval())


@pytest.mark.parametrize("case", CASES)
def test_peft_loads_our_files(case: str, tmp_path: Path) -> None:
    """After our load of the file of PEFT, so that one table has all cases."""
    name, how = CASES[case]
    theirs, ours = base(name, tmp_path / "base")
    first = drawn(peft.get_peft_model(theirs, peft.LoraConfig(r=4, lora_alpha=6, **how)))
    first.save_pretrained(tmp_path / "theirs")
    lora.save(lora.load(ours, tmp_path / "theirs"), tmp_path / "ours")
    again, _ = base(name, tmp_path / "again")
    again = peft.PeftModel.from_pretrained(again, tmp_path / "ours", is_trainable=True)
    assert_same(ours.eval(), again.eval())


@pytest.mark.parametrize("case", CASES)
def test_merged_models_are_the_same(case: str, tmp_path: Path) -> None:
    theirs, ours = saved(case, tmp_path)
    merged = lora.merge(lora.load(ours, tmp_path / "adapters"))
    wanted = theirs.eval()(torch.tensor(IDS)).logits
    assert_close(merged(fw.tensor(IDS)).detach().numpy(), wanted.detach().numpy())


@pytest.mark.parametrize("make", [
    lambda m: m.Sequential(m.Conv2d(3, 4, 3, stride=2, padding=1), m.ReLU(),
                           m.Conv2d(4, 2, (1, 3), padding="same")),
    lambda m: m.Sequential(m.Conv2d(3, 4, 5, padding=2, bias=False)),
])
def test_convolutions(make: Callable[[Any], Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs, ours = make(torch.nn).double(), make(nn).double()
    ours.load_state_dict({name: x.numpy() for name, x in theirs.state_dict().items()})
    names = [name for name, layer in theirs.named_modules() if hasattr(layer, "kernel_size")]
    theirs = drawn(peft.get_peft_model(theirs, peft.LoraConfig(r=3, target_modules=names)))
    theirs.save_pretrained(tmp_path)
    x = RNG.standard_normal((2, 3, 9, 8))
    wanted = theirs.eval()(torch.tensor(x)).detach().numpy()
    lora.load(ours, tmp_path)
    assert_close(ours(fw.tensor(x)).detach().numpy(), wanted)
    assert_close(lora.merge(ours)(fw.tensor(x)).detach().numpy(), wanted)


def test_the_first_adapters_are_drawn_alike(tmp_path: Path) -> None:
    """The spread of A is that of PEFT, and B is 0; the other way round for an Embedding."""
    theirs, ours = base("Llama", tmp_path)
    config = peft.LoraConfig(r=64, lora_alpha=6, target_modules=["q_proj", "embed_tokens"])
    wanted = peft.get_peft_model(theirs, config).state_dict()
    lora.add(ours, 64, 6, ["q_proj", "embed_tokens"])
    for name, mine in lora.state_dict(ours).items():
        kind = "embedding_" if "embed" in name else ""
        path, _, letter = name.rpartition(".lora.")
        other = wanted[f"base_model.model.{path}.lora_{kind}{letter}.default"
                       + ("" if kind else ".weight")]
        assert tuple(other.shape) == mine.shape
        assert float(mine.std()) == pytest.approx(float(other.std(correction=0)), rel=0.1)


@pytest.mark.parametrize("how", [{"use_dora": True}, {"bias": "all"}, {"lora_bias": True},
                                 {"modules_to_save": ["lm_head"]}, {"init_lora_weights": "pissa"}])
def test_what_is_not_implemented_is_refused(how: dict[str, Any], tmp_path: Path) -> None:
    theirs, ours = base("Llama", tmp_path / "base")
    config = peft.LoraConfig(r=4, target_modules=["q_proj"], **how)
    peft.get_peft_model(theirs.float(), config).save_pretrained(tmp_path / "adapters")
    with pytest.raises(fw.StateError, match=next(iter(how))):
        lora.load(ours, tmp_path / "adapters")


def test_trained_embeddings_in_a_file_are_compared(tmp_path: Path) -> None:
    theirs, ours = base("Llama", tmp_path / "base")
    config = peft.LoraConfig(r=4, target_modules=["embed_tokens"])
    peft.get_peft_model(theirs, config).save_pretrained(tmp_path / "adapters")
    saved = fw.load(tmp_path / "adapters" / "adapter_model.safetensors")
    name = next(name for name in saved if "lora" not in name)
    fw.save({**saved, name: saved[name] + 1}, tmp_path / "adapters" / "adapter_model.safetensors")
    with pytest.raises(fw.StateError, match="with other values"):
        lora.load(ours, tmp_path / "adapters")
    assert json.loads((tmp_path / "adapters" / "adapter_config.json").read_text())["r"] == 4
