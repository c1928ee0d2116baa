"""Models and optimizers on a GPU train as on the CPU."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
from eager_cuda.tested_devices import BOTH

import fusewire as fw
from fusewire import nn
from fusewire.nn import functional as F


def digits() -> nn.Sequential:
    fw.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 4 * 4, 10))


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        fw.manual_seed(1)
        self.embed = nn.Embedding(11, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.rnn = nn.LSTM(8, 6, batch_first=True)
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 11)

    def forward(self, x):
        return self.head(self.norm(self.rnn(self.block(self.embed(x)))[0])[:, -1])


def batch(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 1, 8, 8), np.float32) if kind is digits else \
        rng.integers(0, 11, (6, 5))
    return fw.tensor(x), fw.tensor(rng.integers(0, 10, 6))


OPTIMIZERS = [
    lambda p: fw.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3),
    lambda p: fw.optim.Adam(p, 1e-2), lambda p: fw.optim.AdamW(p, 1e-2),
    lambda p: fw.optim.RMSprop(p, 1e-2), lambda p: fw.optim.Adagrad(p, 1e-2),
    lambda p: fw.optim.Adafactor(p, 1e-2)]


def trained(model, optimizer, x, y, steps=3, run=lambda step: step):
    """The losses of a few steps, each of which `run` has made something of."""
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    ran = run(step)
    return [ran(x, y).item() for _ in range(steps)]


@BOTH
@pytest.mark.parametrize("run", [lambda step: step, fw.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("make", OPTIMIZERS, ids="sgd adam adamw rmsprop adagrad adafactor".split())
@pytest.mark.parametrize("kind", [digits, Text])
def test_a_training_run_is_that_of_the_cpu(kind, make, run):
    x, y = batch(kind)
    here = kind()
    there = copy.deepcopy(here).to("cuda")
    assert {p.device for p in there.parameters()} == {"cuda:0"}
    first = trained(here, make(here.parameters()), x, y)
    second = trained(there, make(there.parameters()), x.to("cuda"), y.to("cuda"), run=run)
    np.testing.assert_allclose(second, first, rtol=1e-4)
    moved = there.state_dict()
    assert {x.device for x in moved.values()} == {"cuda:0"}
    for name, a in here.state_dict().items():
        if name.endswith("in_proj_bias"):  # that of the keys gets gradients of rounding alone
            continue
        b = moved[name]
        np.testing.assert_allclose(b.cpu().numpy(), a.numpy(), rtol=1e-3, atol=1e-4)


def test_layers_made_on_a_device():
    made = nn.Sequential(nn.Linear(3, 4, device="cuda"), nn.LayerNorm(4, device="cuda"),
                         nn.LSTM(4, 2, device="cuda"))
    assert {p.device for p in made.parameters()} == {"cuda:0"}
    assert made(fw.ones(5, 3, device="cuda"))[0].device == "cuda:0"
    assert nn.Linear(2, 2).cuda(1).weight.device == "cuda:1"
    assert nn.Linear(2, 2).cuda().cpu().weight.device == "cpu"
    assert nn.Linear(2, 2).to("cuda", fw.float64).weight.dtype == fw.float64


@BOTH
def test_a_lazy_layer_gets_its_parameters_where_it_was_sent():
    model = nn.LazyLinear(3).to("cuda")
    assert model(fw.ones(2, 5, device="cuda")).device == "cuda:0"
    assert model.weight.device == "cuda:0"


@BOTH
def test_states_are_loaded_to_where_the_model_is():
    model, file = digits().to("cuda"), io.BytesIO()
    optimizer = fw.optim.AdamW(model.parameters(), 1e-2)
    trained(model, optimizer, *(v.to("cuda") for v in batch(digits)))
    fw.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    other = digits().to("cuda")
    again = fw.optim.AdamW(other.parameters(), 1e-2)
    state = fw.load(io.BytesIO(file.getvalue()))
    other.load_state_dict(state["model"])
    again.load_state_dict(state["optimizer"])
    assert {p.device for p in other.parameters()} == {"cuda:0"}
    x, y = (v.to("cuda") for v in batch(digits))
    assert trained(model, optimizer, x, y) == trained(other, again, x, y)


def test_a_model_on_another_device_than_its_input_is_named():
    with pytest.raises(fw.DeviceError, match=r"the operands are on cpu and cuda:0[^$]*Linear"):
        nn.Sequential(nn.Linear(2, 2)).to("cuda")(fw.ones(1, 2))


@BOTH
def test_dropout_is_that_of_the_cpu():
    layer = nn.Dropout(0.5)
    fw.manual_seed(2)
    here = layer(fw.ones(4, 9))
    fw.manual_seed(2)
    np.testing.assert_array_equal(layer(fw.ones(4, 9, device="cuda")).cpu().numpy(), here.numpy())


@BOTH
def test_a_compiled_function_gives_what_it_computes():
    compiled = fw.compile(lambda x: (x * 2).sum())
    assert compiled(fw.ones(3)).item() == 6.0
    out = compiled(fw.ones(3, device="cuda"))
    assert (out.item(), out.device) == (6.0, "cuda:0")


@BOTH
def test_transforms():
    x = fw.tensor([1.0, 2.0, 3.0], device="cuda")
    assert fw.func.vmap(lambda v: v * 2)(x).tolist() == [2.0, 4.0, 6.0]
    assert fw.func.grad(lambda v: (v * v).sum())(x).tolist() == [2.0, 4.0, 6.0]
    assert fw.func.jacrev(lambda v: v * v)(x).device == "cuda:0"
