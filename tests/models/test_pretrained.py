"""Folders of checkpoints load strictly, and errors name what does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import LLAMA

import fusewire as fw
from fusewire import models
from fusewire.models.blocks.rotary import inverse_frequencies

VALUES = {"architectures": ["LlamaForCausalLM"], **LLAMA}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small Llama."""
    fw.manual_seed(0)
    models.save_pretrained(models.from_config(VALUES), tmp_path, VALUES)
    return tmp_path


def changed(folder: Path, **values: Any) -> None:
    """Changes the config.json of a folder."""
    (folder / "config.json").write_text(json.dumps({**VALUES, **values}))


def test_a_saved_model_loads(folder: Path) -> None:
    fw.manual_seed(0)
    tokens, again = fw.tensor([[1, 2, 3]]), models.from_pretrained(folder)
    np.testing.assert_array_equal(again(tokens).numpy(), models.from_config(VALUES)(tokens).numpy())
    assert not again.training
    assert models.from_config(folder).number_of_parameters() == again.number_of_parameters()


def test_weights_are_cast(folder: Path) -> None:
    model = models.from_pretrained(folder, dtype=fw.bfloat16)
    assert {p.dtype for p in model.parameters()} == {fw.bfloat16}


def test_loading_does_not_draw(folder: Path) -> None:
    fw.manual_seed(3)
    wanted = fw.rand(2).tolist()
    fw.manual_seed(3)
    models.from_pretrained(folder)
    assert fw.rand(2).tolist() == wanted


def without(name: str) -> Any:
    return lambda state: {n: x for n, x in state.items() if n != name}


@pytest.mark.parametrize(("change", "words"), [
    (without("model.norm.weight"), "missing: model.norm.weight"),
    (lambda state: {**state, "model.extra": fw.ones(1)}, "unexpected: model.extra"),
    (lambda state: {**state, "model.norm.weight": fw.ones(3)}, r"model.norm.weight.*\(3,\)"),
])
def test_names_and_shapes_have_to_match(folder: Path, change: Any, words: str) -> None:
    fw.save(change(fw.load(folder / "model.safetensors")), folder / "model.safetensors")
    with pytest.raises(fw.StateError, match=words):
        models.from_pretrained(folder)


@pytest.mark.parametrize(("values", "words"), [
    ({"hidden_act": "maxout"}, "hidden_act='maxout' is not implemented by LlamaConfig"),
    ({"rope_scaling": {"rope_type": "yarn"}}, "'yarn' is not implemented"),
    ({"architectures": ["FooModel"]}, r"\['FooModel'\].* is not implemented"),
])
def test_a_variant_that_is_not_implemented_is_an_error(folder: Path, values: Any, words: str
                                                       ) -> None:
    changed(folder, **values)
    with pytest.raises(models.ConfigError, match=words):
        models.from_pretrained(folder)


def test_a_folder_without_files_is_an_error(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.bin")
    with pytest.raises(fw.StateError, match=r"holds no weights: it has config\.json, model\.bin"):
        models.from_pretrained(folder)
    with pytest.raises(models.ConfigError, match=r"has no config\.json"):
        models.from_pretrained(tmp_path / "absent")


def test_frequencies_between_two_wavelengths_are_mixed() -> None:
    """Of Llama 3: short waves stay, long ones are stretched."""
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    plain, scaled = (inverse_frequencies(128, 5e5, s).numpy() for s in (None, scaling))
    ratio = scaled / plain
    assert ratio[0] == 1 and ratio[-1] == 1 / 8
    assert (np.diff(ratio) <= 0).all()
    linear = inverse_frequencies(128, 5e5, {"type": "linear", "factor": 4.0}).numpy()
    np.testing.assert_allclose(linear, plain / 4, 1e-6)
