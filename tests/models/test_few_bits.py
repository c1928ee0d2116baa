"""Checkpoints in the layouts of GPTQ and AWQ: packed here as the formats define, and loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import models
from fusewire.models.config import ConfigError

CONFIG = {"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 96,
          "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
GROUP = 32  # one group for 32 inputs, which two halves share; three for 96


def packed(numbers: Any, bits: int) -> Any:
    """(n, m) -> (n, m * bits / 32): words of int32, the first number lowest."""
    words = np.zeros((len(numbers), numbers.shape[1] * bits // 32), np.uint32)
    for i in range(numbers.shape[1]):
        words[:, i * bits // 32] |= numbers[:, i].astype(np.uint32) << (i * bits % 32)
    return words.view(np.int32)


def gptq(codes: Any, zeros: Any, bits: int) -> dict[str, Any]:
    return {"qweight": packed(codes.T, bits).T, "qzeros": packed(zeros - 1, bits),
            "g_idx": np.arange(len(codes), dtype=np.int32) // GROUP}


def awq(codes: Any, zeros: Any, bits: int) -> dict[str, Any]:
    order = np.array([0, 2, 4, 6, 1, 3, 5, 7])
    shuffled = [x.reshape(len(x), -1, 8)[..., order].reshape(x.shape) for x in (codes, zeros)]
    return {"qweight": packed(shuffled[0], bits), "qzeros": packed(shuffled[1], bits)}


def write(folder: Path, method: str, bits: int, seed: int = 0, **settings: Any) -> dict[str, Any]:
    """Writes a checkpoint with random layers of few bits; returns their weights by name."""
    rng = np.random.default_rng(seed)
    fw.manual_seed(seed)
    state, weights = dict(models.from_config(CONFIG).state_dict()), {}
    for name in [n for n in state if n.endswith("_proj.weight")]:
        outputs, inputs = state.pop(name).shape
        codes = rng.integers(0, 2**bits, (inputs, outputs))
        zeros = rng.integers(1, 2**bits, (inputs // GROUP, outputs))
        scales = (rng.random(zeros.shape) / 2**bits).astype(np.float16)
        layout = {"gptq": gptq, "awq": awq}[method](codes, zeros, bits)
        whole = [np.repeat(x, GROUP, axis=0) for x in (zeros, scales.astype(np.float32))]
        weights[name] = ((codes - whole[0]) * whole[1]).T
        for part, x in {**layout, "scales": scales}.items():
            state[name.replace("weight", part)] = fw.from_numpy(np.ascontiguousarray(x))
    fw.save(state, folder / "model.safetensors")
    quantized = {"quant_method": method, "bits": bits, "group_size": GROUP, **settings}
    (folder / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": quantized}))
    return weights


@pytest.mark.parametrize(("method", "bits"), [("gptq", 4), ("gptq", 8), ("awq", 4)])
@pytest.mark.parametrize("seed", range(3))
def test_layers_have_the_weights_of_the_file(method: str, bits: int, seed: int, tmp_path: Path
                                             ) -> None:
    weights = write(tmp_path, method, bits, seed)
    model = models.from_pretrained(tmp_path)
    for name, weight in weights.items():
        layer = model.get_submodule(name.removesuffix(".weight"))
        np.testing.assert_allclose(layer.weight.numpy(), weight, rtol=1e-5, atol=1e-6)
        assert layer.codes.nbytes == weight.size * bits // 8
    assert models.generate(model, fw.tensor([[1, 2, 3]]), max_new_tokens=2).shape == (1, 5)


def test_scales_stay_exact_beside_small_parameters(tmp_path: Path) -> None:
    write(tmp_path, "gptq", 4)
    model = models.from_pretrained(tmp_path, dtype=fw.bfloat16)
    assert model.model.norm.weight.dtype == fw.bfloat16
    assert model.model.layers[0].mlp.up_proj.scale.dtype == fw.float32
    assert model(fw.tensor([[1, 2]])).dtype == fw.bfloat16


def test_the_second_version_of_gptq_has_whole_zeros(tmp_path: Path) -> None:
    weights = write(tmp_path, "gptq", 4, checkpoint_format="gptq_v2")
    layer = models.from_pretrained(tmp_path).model.layers[0].mlp.up_proj
    # The test's zeros are one less in the file, so weights here are one scale more.
    apart = layer.weight.numpy() - weights["model.layers.0.mlp.up_proj.weight"]
    np.testing.assert_allclose(apart, np.repeat(layer.scale.numpy(), layer.group, 1), atol=1e-6)


def test_layouts_that_are_not_implemented(tmp_path: Path) -> None:
    write(tmp_path, "awq", 4, quant_method="bitsandbytes")
    with pytest.raises(ConfigError, match="4 bits by 'bitsandbytes' are not implemented"):
        models.from_pretrained(tmp_path)
    write(tmp_path, "gptq", 4)
    state = fw.load(tmp_path / "model.safetensors")
    name = "model.layers.0.mlp.down_proj"
    state[f"{name}.g_idx"] = state[f"{name}.g_idx"][::-1]
    fw.save(state, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=f"{name}: the groups of its inputs are reordered"):
        models.from_pretrained(tmp_path)


def test_incomplete_and_unknown_layers(tmp_path: Path) -> None:
    write(tmp_path, "gptq", 4)
    state = fw.load(tmp_path / "model.safetensors")
    name = "model.layers.0.mlp.down_proj"
    incomplete = {n: x for n, x in state.items() if n != f"{name}.scales"}
    fw.save(incomplete, tmp_path / "model.safetensors")
    with pytest.raises(fw.StateError, match=f"no {name}.scales"):
        models.from_pretrained(tmp_path)
    renamed = {n.replace("down_proj", "downward"): x for n, x in state.items()}
    fw.save(renamed, tmp_path / "model.safetensors")
    with pytest.raises(fw.StateError, match=r"the model has no layer .*downward"):
        models.from_pretrained(tmp_path)
