"""Errors inside a model: the path of the layer, both shapes, the likely cause."""

from __future__ import annotations

from typing import Any

import pytest
from modules import message

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import DTypeError, ShapeError


class Feed(nn.Module):
    def __init__(self, takes: int) -> None:
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(takes, 16), nn.Linear(16, 8)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.linear2(self.linear1(x))


class Layer(nn.Module):
    def __init__(self, takes: int) -> None:
        super().__init__()
        self.ffn = Feed(takes)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return x + self.ffn(x)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(9 if i == 3 else 8) for i in range(4)])

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.encoder(x)


TEXT = """\
linear: input (2, 8) ends in 8, but the weight (16, 9) = (n_out, n_in) takes 9
  in layer: encoder.layers.3.ffn.linear1 (Linear)
  help: the last size of the input must be 9"""


def with_hooks(model: nn.Module) -> Any:
    model.encoder.register_forward_hook(lambda *_: None, always_call=True)
    model.encoder.layers[3].register_full_backward_hook(lambda *_: None)
    model.encoder.layers[3].ffn.linear1.register_forward_pre_hook(lambda *_: None)
    return model


@pytest.mark.parametrize("call", [
    lambda model, x: model(x),
    lambda model, x: with_hooks(model)(x),
    lambda model, x: fw.func.functional_call(model, dict(model.named_parameters()), (x,)),
    lambda model, x: fw.compile(model)(x),
    lambda model, x: fw.compile(lambda x: model(x).sum())(x),
    lambda model, x: fw.func.vmap(model)(fw.ones(3, 2, 8)),
    lambda model, x: fw.func.grad(lambda x: model(x).sum())(x),
    lambda model, x: fw.utils.checkpoint.checkpoint(model, x, use_reentrant=False),
], ids=["plain", "hooks", "functional_call", "compiled model", "compiled function", "vmap", "grad",
        "checkpoint"])
def test_the_layer_is_named_however_it_is_called(call: Any) -> None:
    assert message(lambda: call(Model(), fw.ones(2, 8))) == TEXT


@pytest.mark.parametrize(("shape", "help"), [
    ((5, 3, 4), "flatten the input first: x.flatten(1), or nn.Flatten()"),
    ((12, 5), "the last size of the input must be 12; axis 0 has this size: if it is the one of "
     "features, x.moveaxis(0, -1) makes it the last"),
    ((5, 11), "the last size of the input must be 12"),
])
def test_the_likely_cause(shape: tuple[int, ...], help: str) -> None:
    assert message(lambda: nn.Linear(12, 2)(fw.ones(*shape))).split("help: ")[1] == help


def test_a_module_that_is_not_registered() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(3, 3)]

        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return self.layers[0](x)

    assert ("  in layer: 1 (Holder), which calls a Linear that is not registered in it: lists and "
            "dicts of modules are nn.ModuleList and nn.ModuleDict\n") in message(
        lambda: nn.Sequential(nn.Identity(), Holder())(fw.ones(2, 4)))


def test_arguments_that_forward_does_not_take() -> None:
    assert message(lambda: nn.Sequential(nn.Sequential(Feed(2)))(fw.ones(1), 2)) == (
        "Sequential was called with (float32[1], 2): takes 2 positional arguments but 3 were given"
        "\n  in layer: the model itself (Sequential)"
        "\n  help: its forward is Sequential.forward(input: 'Any') -> 'Any'")


def test_a_backward_hook_that_returns_nonsense() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    handle = model[1].register_full_backward_hook(lambda module, ins, outs: (fw.ones(3),))
    with pytest.raises(ShapeError, match=r"a backward hook of Linear returned a gradient of shape "
                                         r"\(3,\) in the place of gradient 0, of shape \(1, 2\)"):
        model(fw.ones(1, 2)).sum().backward()
    assert "in layer: 1 (Linear)" in message(lambda: model(fw.ones(1, 2)).sum().backward())
    handle.remove()
    model[1].register_full_backward_pre_hook(lambda module, outs: (fw.ones(1, 2),) * 2)
    with pytest.raises(DTypeError, match="a backward hook of Linear returned 2 gradients"):
        model(fw.ones(1, 2)).sum().backward()


class Doubled(fw.autograd.Function):
    """A function whose way back is wrong."""

    @staticmethod
    def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: fw.Tensor) -> Any:
        return g @ fw.ones(3, 3)


class Doubles(nn.Module):
    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return Doubled.apply(x)


def test_an_error_on_the_way_back_names_the_layer_of_the_forward() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Identity(), Doubles()))
    loss = model(fw.ones(1, 2)).sum()
    assert message(loss.backward) == """\
matmul: inner sizes differ: left (1, 2) ends in 2, right (3, 3) needs 3
  in layer: 1.1 (Doubles)
  help: the last size of the left must equal the second to last of the right"""
