"""Layers that take their sizes from the first input, or from a state dict."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import ArgumentError, ShapeError, StateError


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LazyLinear(4), nn.LazyLinear(2, bias=False)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.second(self.first(x))


def test_the_first_input_gives_the_sizes() -> None:
    model = Model()
    assert repr(model.first) == "LazyLinear(in_features=0, out_features=4, bias=True)"
    assert model(fw.ones(3, 5)).shape == (3, 2)
    assert type(model.first) is nn.Linear and repr(model.second) == \
        "Linear(in_features=4, out_features=2, bias=False)"
    assert type(model.first.weight) is nn.Parameter and model.first.weight.shape == (4, 5)
    assert model.first._hooks is None  # no slower than one that never was lazy


def test_initial_values_are_those_of_the_layer() -> None:
    fw.manual_seed(3)
    lazy = nn.LazyLinear(4)
    lazy(fw.ones(1, 5))
    fw.manual_seed(3)
    assert nn.Linear(5, 4).state_dict()["weight"].tolist() == lazy.weight.tolist()


@pytest.mark.parametrize(("layer", "shape", "became"), [
    (nn.LazyConv1d(4, 3, groups=2), (1, 2, 8),
     "Conv1d(2, 4, kernel_size=(3,), stride=(1,), groups=2)"),
    (nn.LazyConv2d(4, 3, padding="same"), (1, 2, 8, 8),
     "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=same)"),
    (nn.LazyConv2d(4, 3, bias=False), (2, 8, 8),
     "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), bias=False)"),
    (nn.LazyConv3d(4, 1), (1, 2, 3, 3, 3), "Conv3d(2, 4, kernel_size=(1, 1, 1), stride=(1, 1, 1))"),
    (nn.LazyConvTranspose1d(4, 3), (1, 2, 8),
     "ConvTranspose1d(2, 4, kernel_size=(3,), stride=(1,))"),
    (nn.LazyConvTranspose2d(4, 3, stride=2, groups=2), (1, 2, 8, 8),
     "ConvTranspose2d(2, 4, kernel_size=(3, 3), stride=(2, 2), groups=2)"),
    (nn.LazyConvTranspose3d(4, 1), (1, 2, 3, 3, 3),
     "ConvTranspose3d(2, 4, kernel_size=(1, 1, 1), stride=(1, 1, 1))"),
    (nn.LazyBatchNorm1d(), (4, 2), repr(nn.BatchNorm1d(2))),
    (nn.LazyBatchNorm2d(affine=False), (1, 2, 3, 4), repr(nn.BatchNorm2d(2, affine=False))),
    (nn.LazyBatchNorm3d(track_running_stats=False), (1, 2, 3, 4, 5),
     repr(nn.BatchNorm3d(2, track_running_stats=False))),
    (nn.LazyBatchNorm1d(bias=False), (4, 2, 3), repr(nn.BatchNorm1d(2, bias=False))),
    (nn.LazyInstanceNorm1d(), (2, 3),
     repr(nn.InstanceNorm1d(2, affine=True, track_running_stats=True))),
    (nn.LazyInstanceNorm2d(track_running_stats=False), (1, 2, 3, 4),
     repr(nn.InstanceNorm2d(2, affine=True))),
    (nn.LazyInstanceNorm3d(affine=False, track_running_stats=False), (1, 2, 3, 4, 5),
     repr(nn.InstanceNorm3d(2))),
], ids=lambda x: type(x).__name__ if isinstance(x, nn.Module) else "")
def test_convolutions_and_norms(layer: Any, shape: tuple[int, ...], became: str) -> None:
    other = copy.deepcopy(layer)
    out = layer(fw.ones(shape))
    assert repr(layer) == became
    assert other.load_state_dict(layer.state_dict()) == ([], [])
    assert fw.all(other(fw.ones(shape)) == out).item() and repr(other) == became


def test_a_state_dict_gives_the_sizes_too() -> None:
    trained = Model()
    trained(fw.ones(1, 5))
    model = Model()
    assert model.load_state_dict(trained.state_dict()) == ([], [])
    assert model.first.weight.shape == (4, 5) and not model.first.has_uninitialized_params()
    x = fw.rand(2, 5)
    assert model(x).tolist() == trained(x).tolist() and type(model.first) is nn.Linear


def test_states_without_sizes() -> None:
    model, trained = Model(), Model()
    trained(fw.ones(1, 5))
    assert isinstance(model.state_dict()["first.weight"], nn.UninitializedParameter)
    assert model.load_state_dict(Model().state_dict()) == ([], [])
    with pytest.raises(StateError, match=r"first.weight: it has no shape yet in the state dict"):
        trained.load_state_dict(model.state_dict())
    with pytest.raises(StateError, match=r"save: first.weight has no shape yet"):
        fw.save(model.state_dict(), "never-written.safetensors")


def test_copies_pickles_and_dtypes_before_the_first_input() -> None:
    for model in (copy.deepcopy(Model()), pickle.loads(pickle.dumps(Model()))):
        assert model.double()(fw.ones(1, 3, dtype=fw.float64)).dtype == fw.float64
    frozen = Model().requires_grad_(False)
    assert not frozen(fw.ones(1, 3)).requires_grad


def test_it_trains_after_one_call() -> None:
    model = Model()
    model(fw.ones(1, 3))
    optimizer = fw.optim.SGD(model.parameters(), lr=0.1)
    before = model.first.weight.tolist()
    model(fw.ones(1, 3)).sum().backward()
    optimizer.step()
    assert model.first.weight.tolist() != before


def test_compiled_the_first_call_runs_eagerly() -> None:
    model = Model()
    step = fw.compile(lambda x: model(x).detach())
    with pytest.warns(UserWarning, match="materialize"):
        first = step(fw.ones(1, 3))
    for _ in range(2):
        assert fw.max(abs(step(fw.ones(1, 3)) - first)).item() < 1e-6
    assert (step.stats.recordings, step.stats.replays) == (1, 1)


@pytest.mark.parametrize("use", [
    lambda p: p.shape, lambda p: p + 1, lambda p: p.size, lambda p: p.numpy(), lambda p: p.sum(),
    lambda p: nn.init.zeros_(p), lambda p: len(p),
])
def test_nothing_can_be_done_without_a_shape(use: Any) -> None:
    with pytest.raises(StateError, match=r"has no shape yet[\s\S]*call the lazy module once"):
        use(Model().first.weight)


class Centred(nn.LazyModuleMixin, nn.Module):
    """A lazy module of a user's own, that stays what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.UninitializedParameter()
        self.register_buffer("mean", nn.UninitializedBuffer(dtype=fw.float64))

    def initialize_parameters(self, x: fw.Tensor) -> None:
        self.scale.materialize(x.shape[-1:])
        nn.init.ones_(self.scale)
        self.mean.materialize(x.shape[-1:])

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return (x - self.mean) * self.scale


def test_a_module_of_ones_own() -> None:
    model = Centred()
    assert model.has_uninitialized_params() and repr(model.mean) == "<UninitializedBuffer>"
    assert model(fw.ones(2, 3)).tolist() == [[1] * 3] * 2
    assert type(model) is Centred and type(model.mean) is fw.Tensor
    assert (model.scale.dtype, model.mean.dtype) == (fw.float32, fw.float64)


def test_errors() -> None:
    class Forgets(Centred):
        def initialize_parameters(self, x: fw.Tensor) -> None:
            self.scale.materialize((1,))

    with pytest.raises(StateError, match=r"Forgets.initialize_parameters left parameters or buff"):
        Forgets()(fw.ones(1))
    with pytest.raises(ShapeError, match=r"LazyConv2d: takes \(n, channels, height, width\)"):
        nn.LazyConv2d(2, 1)(fw.ones(3, 4))
    with pytest.raises(ArgumentError, match="in_channels=3 is not divisible by groups=2"):
        nn.LazyConv1d(4, 1, groups=2)(fw.ones(1, 3, 4))
