"""The table of a model's layers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import ArgumentError, ShapeError

summary = nn.summary


def lenet() -> nn.Sequential:
    model = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Sequential(nn.Linear(1176, 100), nn.Dropout(), nn.Linear(100, 10)))
    model[4][2].requires_grad_(False)
    return model


def test_the_table() -> None:
    assert str(summary(lenet(), (8, 1, 28, 28))) == """\
layer             output shape     parameters  mult-adds
--------------------------------------------------------
Sequential        (8, 10)                   -          -
  0 (Conv2d)      (8, 6, 28, 28)          156    940,800
  1 (ReLU)        (8, 6, 28, 28)            -          -
  2 (MaxPool2d)   (8, 6, 14, 14)            -          -
  3 (Flatten)     (8, 1176)                 -          -
  4 (Sequential)  (8, 10)                   -          -
    0 (Linear)    (8, 100)            117,700    940,800
    1 (Dropout)   (8, 100)                  -          -
    2 (Linear)    (8, 10)         1,010 fixed      8,000
--------------------------------------------------------
parameters: 118,866 (117,856 trainable, 1,010 fixed)
mult-adds: 1,889,600
memory: input 0.03 MB, outputs 0.38 MB, parameters 0.48 MB, buffers 0 bytes"""


def test_depth_adds_up_what_is_inside() -> None:
    table = str(summary(lenet(), (8, 1, 28, 28), depth=1)).split("\n")
    assert table[7].split() == ["4", "(Sequential)", "(8,", "10)", "118,710", "948,800"]
    assert str(summary(lenet(), (8, 1, 28, 28), depth=0)).split("\n")[2].split() == [
        "Sequential", "(8,", "10)", "118,866", "1,889,600"]


def test_a_model_that_asks_for_numbers() -> None:
    class Scaled(nn.Linear):
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return super().forward(x) / max(1.0, x.abs().max().item())

    assert summary(Scaled(3, 2), (4, 3)).mult_adds == 4 * 3 * 2


class Both(nn.Module):
    """Two inputs, results in a dict, one layer twice, one never, a product of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear, self.spare = nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(9, 9)
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight = self.linear.weight
        self.register_buffer("calls", fw.tensor(0))

    def forward(self, ids: fw.Tensor, x: fw.Tensor, scale: float = 1.0) -> dict[str, Any]:
        self.calls += 1
        both = self.linear(self.table(ids)) + self.linear(x) * scale
        return {"out": [both, self.head(both)], "scores": both @ both.mT, "n": 3}


@pytest.mark.parametrize("given", [
    {"input_size": [(2, 3), (2, 3, 4)], "dtypes": [fw.int64, None]},
    {"input_size": {"ids": (2, 3), "x": (2, 3, 4)}, "dtypes": [fw.int64, fw.float32]},
    {"input_size": [fw.zeros(2, 3, dtype=fw.int64), (2, 3, 4)], "scale": 2.0},
    {"input_data": (fw.zeros(2, 3, dtype=fw.int64), fw.ones(2, 3, 4))},
    {"input_data": {"x": fw.ones(2, 3, 4), "ids": fw.zeros(2, 3, dtype=fw.int64)}},
], ids=str)
def test_several_inputs_and_results(given: dict[str, Any]) -> None:
    found = summary(Both(), **given)
    rows = {x.path: x for x in found.layers}
    assert rows[""].output == {"out": [(2, 3, 4), (2, 3, 4)], "scores": (2, 3, 3), "n": "int"}
    assert rows[""].mult_adds == 2 * 3 * 3 * 4
    assert (rows["linear"].calls, rows["linear"].mult_adds) == (2, 2 * 2 * 3 * 4 * 4)
    assert (rows["spare"].calls, rows["head"].parameters) == (0, 16)
    assert (found.parameters, found.buffer_bytes) == (28 + 20 + 90, 8)  # a shared one counts once
    assert found.input_bytes == 2 * 3 * 8 + 2 * 3 * 4 * 4
    text = str(found)
    assert "not called" in text and "(2, 3, 4) x 2 calls" in text


@pytest.mark.parametrize(("layer", "shape", "count"), [
    (nn.Conv2d(4, 6, (3, 2), groups=2), (2, 4, 5, 5), 2 * 6 * 3 * 4 * 2 * 6),
    (nn.ConvTranspose1d(4, 6, 3), (2, 4, 5), 2 * 4 * 5 * 6 * 3),
    (nn.Linear(3, 5), (7, 2, 3), 7 * 2 * 3 * 5), (nn.ReLU(), (4,), 0),
], ids=str)
def test_multiply_adds(layer: Any, shape: tuple[int, ...], count: int) -> None:
    assert summary(layer, shape).mult_adds == count


def test_the_model_is_as_before() -> None:
    model = nn.Sequential(Both(), nn.Identity())
    model[0].table.eval()
    seen: list[Any] = []
    model[1].register_forward_hook(lambda *_: seen.append(1))
    flags, hooks = [m.training for m in model.modules()], model[1]._hooks
    state, random = copy.deepcopy(model.state_dict()), fw.get_rng_state().tolist()

    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: fw.Tensor, x: fw.Tensor) -> Any:
            return self.model[0](ids, x + fw.rand(4))

    for mode in ("eval", "train"):
        summary(Draws(), [(2, 3), (2, 3, 4)], dtypes=[fw.int64, None], mode=mode)
    assert [m.training for m in model.modules()] == flags
    assert model[0]._hooks is None and model[1]._hooks is hooks
    assert {k: v.tolist() for k, v in model.state_dict().items()} == {
        k: v.tolist() for k, v in state.items()}
    assert fw.get_rng_state().tolist() == random and model[0].calls.item() == 0
    assert all(p.grad is None for p in model.parameters())


def test_it_is_as_before_after_an_error_too() -> None:
    model = lenet()
    with pytest.raises(ShapeError, match=r"in layer: 4\.0 \(Linear\)"):
        summary(model, (1, 1, 30, 30))
    assert model.training and model[4][0]._hooks is None
    assert model(fw.zeros(1, 1, 28, 28)).requires_grad


def test_lazy_layers_stay_lazy() -> None:
    model = nn.Sequential(nn.LazyLinear(3))
    assert summary(model, (2, 5)).parameters == 18
    assert isinstance(model[0], nn.LazyLinear)


def test_compiled_models() -> None:
    assert summary(fw.compile(nn.Sequential(nn.Linear(2, 3))), (1, 2)).mult_adds == 6


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="'text' is not a shape, tensor, or list of those"):
        summary(nn.ReLU(), "text")
    with pytest.raises(ArgumentError, match="1 dtypes for 2 inputs"):
        summary(nn.ReLU(), [(1,), (2,)], dtypes=["int64"])
    with pytest.raises(ArgumentError, match="mode 'test' is not known"):
        summary(nn.ReLU(), (1,), mode="test")
