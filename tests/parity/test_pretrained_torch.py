"""Checkpoint folders of transformers load, and give the same outputs and gradients."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layers.row import tensors_of
from parity.pretrained import DECODERS, LEFT, PUBLISHED, RNG, Published

import fusewire as fw
from fusewire import models


def saved(make: Callable[[], Any], folder: Path, **options: Any) -> Any:
    """A model of transformers with random weights, after it was saved to a folder."""
    torch.manual_seed(0)
    theirs = make().eval()
    theirs.save_pretrained(folder, **options)
    return theirs


def assert_close(got: Any, wanted: Any, where: Any = ...) -> None:
    wanted = wanted.detach().numpy()
    bound = 2e-6 * float(np.abs(wanted).max())
    np.testing.assert_allclose(got.numpy()[where], wanted[where], 1e-5, bound)


@pytest.mark.parametrize("name", PUBLISHED)
def test_outputs_are_the_same(name: str, tmp_path: Path) -> None:
    model = PUBLISHED[name]
    theirs = saved(model.make, tmp_path)
    ours = models.from_pretrained(tmp_path)
    wanted = model.outputs(theirs(**model.arguments(torch.tensor)))
    for a, b in zip(tensors_of(ours(**model.arguments(fw.tensor))), wanted, strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("name", [*PUBLISHED, *DECODERS])
def test_gradients_are_the_same(name: str, tmp_path: Path) -> None:
    """By every parameter, of the sum of squares, in float64."""
    model = PUBLISHED.get(name) or Published(
        DECODERS[name], {"input_ids": RNG.integers(1, 99, (2, 9))}, lambda out: (out.logits,))
    theirs = saved(model.make, tmp_path).double()
    ours = models.from_pretrained(tmp_path, dtype=fw.float64).train()
    wanted = model.outputs(theirs(**model.arguments(wide(torch.tensor))))
    ours.eval()
    sum((b * b).sum() for b in wanted).backward()
    sum((a * a).sum() for a in tensors_of(ours(**model.arguments(wide(fw.tensor))))).backward()
    compare_gradients(ours, theirs, model.renamed)


def wide(tensor: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that makes tensors in which float32 is float64."""
    return lambda a: tensor(a.astype(np.float64) if a.dtype == np.float32 else a)


def compare_gradients(ours: Any, theirs: Any, renamed: Any = ()) -> None:
    grads = dict(pair for name, p in theirs.named_parameters() if p.grad is not None
                 for pair in published_names(name, p.grad, renamed))
    largest = max(float(g.abs().max()) for g in grads.values())
    own = {name: p.grad for name, p in ours.named_parameters()}
    assert grads.keys() <= own.keys()
    for name, grad in grads.items():
        np.testing.assert_allclose(own[name].numpy(), grad.numpy(), 1e-6, 1e-6 * largest,
                                   err_msg=name)


def published_names(name: str, grad: Any, renamed: Any) -> list[tuple[str, Any]]:
    """A gradient by the name in files; transformers joins the experts of Mixtral in memory."""
    for there, here in renamed:
        name = name.replace(there, here)
    name = name.replace("mlp.gate.", "block_sparse_moe.gate.")
    owner, is_joined, part = name.partition("mlp.experts.")
    if not is_joined:
        return [(name, grad)]
    parts = zip(("w1", "w3"), grad.chunk(2, dim=1)) if part == "gate_up_proj" else [("w2", grad)]
    return [(f"{owner}block_sparse_moe.experts.{i}.{key}.weight", of[i])
            for key, of in parts for i in range(len(of))]


@pytest.mark.parametrize("name", DECODERS)
def test_decoder_with_padding_and_cache(name: str, tmp_path: Path) -> None:
    """Texts of unequal lengths, at once and token by token."""
    theirs, ours = saved(DECODERS[name], tmp_path), models.from_pretrained(tmp_path)
    ids = RNG.integers(1, 99, LEFT.shape)
    positions = np.maximum(LEFT.cumsum(1) - 1, 0)
    wanted = theirs(torch.tensor(ids), attention_mask=torch.tensor(LEFT),
                    position_ids=torch.tensor(positions)).logits
    at_once = ours(fw.tensor(ids), fw.tensor(LEFT))
    assert_close(at_once, wanted, LEFT == 1)
    cache = ours.new_cache(2, 16)
    parts = [ours(fw.tensor(ids[:, :6]), fw.tensor(LEFT[:, :6]), cache)]
    parts += [ours(fw.tensor(ids[:, i:i + 1]), None, cache) for i in (6, 7, 8)]
    assert_close(fw.concat(parts, axis=1), wanted, LEFT == 1)


def test_checkpoint_in_several_files(tmp_path: Path) -> None:
    theirs = saved(DECODERS["Llama"], tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ids = RNG.integers(1, 99, (1, 5))
    assert_close(models.from_pretrained(tmp_path)(fw.tensor(ids)), theirs(torch.tensor(ids)).logits)


def test_weights_of_the_base_model(tmp_path: Path) -> None:
    """The published file of GPT-2 has no prefix; that of BERT has one, and heads for training."""
    theirs = saved(DECODERS["GPT-2"], tmp_path / "gpt2")
    state = fw.load(tmp_path / "gpt2" / "model.safetensors")
    fw.save({name.removeprefix("transformer."): x for name, x in state.items()},
            tmp_path / "gpt2" / "model.safetensors")
    ids = RNG.integers(1, 99, (1, 5))
    assert_close(models.from_pretrained(tmp_path / "gpt2")(fw.tensor(ids)),
                 theirs(torch.tensor(ids)).logits)


def test_a_tied_weight_with_values_of_its_own_is_used(tmp_path: Path) -> None:
    saved(DECODERS["GPT-2"], tmp_path)
    state = fw.load(tmp_path / "model.safetensors")
    other = fw.ones_like(state["transformer.wte.weight"])
    fw.save({**state, "lm_head.weight": other}, tmp_path / "model.safetensors")
    model = models.from_pretrained(tmp_path)
    assert model.lm_head.weight is not model.transformer.wte.weight
    np.testing.assert_array_equal(model.lm_head.weight.detach().numpy(), other.numpy())


def test_what_is_saved_loads_again(tmp_path: Path) -> None:
    saved(DECODERS["Llama 3"], tmp_path / "theirs")
    ours = models.from_pretrained(tmp_path / "theirs")
    values = json.loads((tmp_path / "theirs" / "config.json").read_text())
    models.save_pretrained(ours, tmp_path / "ours", values)
    again = models.from_pretrained(tmp_path / "ours")
    assert again.lm_head.weight is again.model.embed_tokens.weight
    ids = fw.tensor(RNG.integers(1, 99, (1, 5)))
    np.testing.assert_array_equal(again(ids).numpy(), ours(ids).numpy())


@pytest.mark.parametrize("name", DECODERS)
def test_greedy_tokens_are_the_same(name: str, tmp_path: Path) -> None:
    theirs, ours = saved(DECODERS[name], tmp_path), models.from_pretrained(tmp_path)
    ids = RNG.integers(3, 99, LEFT.shape)
    wanted = theirs.generate(
        torch.tensor(ids), attention_mask=torch.tensor(LEFT), max_new_tokens=12, do_sample=False,
        pad_token_id=0, eos_token_id=None)
    got = models.generate(ours, fw.tensor(ids), 12, attention_mask=fw.tensor(LEFT))
    np.testing.assert_array_equal(got.numpy(), wanted.numpy())
