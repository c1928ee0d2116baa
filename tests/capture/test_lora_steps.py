"""Training steps of adapters compile as a whole, and compute no gradient of the base."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from oracle import assert_same
from small_models import GPT2, LLAMA

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import models, nn
from fusewire.models.text import gpt2
from fusewire.nn.utils import lora

IDS = fw.tensor(np.random.default_rng(0).integers(0, 99, (2, 9)))
LLAMA_VALUES = {"model_type": "llama", **LLAMA}
MODELS: dict[str, Callable[[], Any]] = {
    "Llama": lambda: models.from_config(LLAMA_VALUES),
    "GPT-2": lambda: gpt2.GPT2(GPT2).eval(),
    "Llama of int8": lambda: fw.quantize(models.from_config(LLAMA_VALUES),
                                         activations="dynamic").model,
    "Llama with weights of int4": lambda: fw.quantize(models.from_config(LLAMA_VALUES),
                                                      weights="int4", group=8).model,
    "Llama of bfloat16": lambda: models.from_config(LLAMA_VALUES).to(fw.bfloat16),
}


def adapted(name: str, dropout: float = 0.0) -> Any:
    """A model with adapters at all products of attention, of which none is 0."""
    fw.manual_seed(0)
    model = lora.add(MODELS[name](), 4, 8, ["c_attn"] if name == "GPT-2" else ["*_proj"], dropout)
    for p in lora.parameters(model):
        nn.init.normal_(p, std=0.1)
    return model


def stepper(model: Any) -> Callable[[fw.Tensor], fw.Tensor]:
    """A training step of the next token, on the adapters alone."""
    optimizer = fw.optim.AdamW(lora.parameters(model), lr=1e-2)

    def step(ids: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids[:, :-1]).reshape(-1, 99).astype(fw.float32),
                               ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_recorded_once(name: str) -> None:
    """It has no graph break, changes the adapters as eager does, and nothing else."""
    model, eager = adapted(name), adapted(name)
    before = {n: p.numpy().copy() for n, p in model.state_dict().items() if ".lora." not in n}
    step, plain = fw.compile(stepper(model), fullgraph=True), stepper(eager)
    losses = [(step(IDS).item(), plain(IDS).item()) for _ in range(5)]
    assert (step.stats.recordings, step.stats.replays, step.stats.fallbacks) == (1, 4, 0)
    tolerance = 2e-2 if name.endswith(("int8", "bfloat16")) else 1e-4  # roundings decide codes
    np.testing.assert_allclose(*zip(*losses), rtol=tolerance)
    assert losses[-1][0] < losses[0][0]
    after = model.state_dict()
    assert all(np.array_equal(x, after[n].numpy()) for n, x in before.items())
    if tolerance < 1e-3:
        for p, q in zip(lora.parameters(model), lora.parameters(eager)):
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 1e-3, 1e-5)


def test_dropout_is_drawn_anew_in_each_step() -> None:
    model = adapted("Llama", dropout=0.5)
    step = fw.compile(lambda ids: model(ids), fullgraph=True)
    first, second = step(IDS), step(IDS)
    assert bool((first != second).any())
    model.eval()
    assert_same(step(IDS), step(IDS))


def test_a_step_may_be_split_at_its_backward() -> None:
    """The forward is compiled, the backward runs later."""
    model, eager = adapted("Llama of int8"), adapted("Llama of int8")
    compiled = fw.compile(lambda ids: model(ids).sum(), fullgraph=True)
    compiled(IDS).backward()
    eager(IDS).sum().backward()
    for p, q in zip(lora.parameters(model), lora.parameters(eager)):
        largest = float(q.grad.abs().max())
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 2e-2, 5e-2 * largest)


# ---- what the step computes
WIDTH, LAYERS, RANK, ROWS = 64, 3, 2, 32
PRODUCT = 2 * WIDTH * WIDTH * ROWS  # operations of one layer
BESIDE = 2 * 2 * WIDTH * RANK * ROWS  # of one adapter


def operations(model: Any, parameters: Any) -> int:
    """The operations of products in a compiled step of gradients."""
    @fw.compile(fullgraph=True)
    def step(x: fw.Tensor) -> fw.Tensor:
        for p in parameters:
            p.grad = None
        loss = model(x).square().sum()
        loss.backward()
        return loss

    x = fw.ones(ROWS, WIDTH)
    for _ in range(3):
        step(x)
    return sum(row["flops"] or 0 for row in step.kernels())


def stack() -> Any:
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])


def test_the_base_has_no_gradient_in_the_compiled_step() -> None:
    """Each layer computes its result, and all but the first the gradient of its input. The frozen
    weight of a layer would take as many operations again."""
    plain, model = stack(), lora.add(stack(), RANK, targets="*")
    whole = operations(plain, list(plain.parameters()))
    assert whole >= (3 * LAYERS - 1) * PRODUCT
    beside = operations(model, lora.parameters(model))
    products = (2 * LAYERS - 1) * PRODUCT + (3 * LAYERS - 1) * BESIDE
    assert products <= beside < products + PRODUCT / 2  # the rest are sums of few numbers
    assert all(p.grad is None for n, p in model.named_parameters() if ".lora." not in n)


@pytest.fixture
def unpacked() -> Iterator[None]:
    """Without packed copies of weights in the memory of a call."""
    fw.settings.prepack = False
    yield
    fw.settings.prepack = True


def test_a_step_takes_less_memory_than_with_all_gradients(unpacked: None) -> None:
    def peak(model: Any, parameters: Any) -> int:
        step = fw.compile(stepper_of(model, parameters), fullgraph=True)
        for _ in range(3):
            step(fw.ones(2, 256))
        return step.stats.peak_bytes

    def stepper_of(model: Any, parameters: Any) -> Any:
        optimizer = fw.optim.AdamW(parameters, lr=1e-2)

        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        return step

    wide = [nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)]) for _ in range(2)]
    whole = peak(wide[0], wide[0].parameters())
    beside = peak(lora.add(wide[1], RANK, targets="*"), lora.parameters(wide[1]))
    assert beside < whole / 3  # weights; and no gradients and moments of them
