"""Weights that are computed from other parameters; norms of weights; small tools around models."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import ArgumentError, AxisError, DTypeError, ShapeError, StateError
from fusewire.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return fw.triu(x) + fw.triu(x, k=1).mT


class Scaled(nn.Module):
    """Knows its way back."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by, self.calls = by, 0

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        self.calls += 1
        return x * self.by

    def right_inverse(self, value: fw.Tensor) -> fw.Tensor:
        return value / self.by


class Factors(nn.Module):
    """A product of two, of which one is the value at first."""

    def forward(self, a: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
        return a @ b

    def right_inverse(self, value: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        return value, fw.eye(value.shape[-1])


def test_a_parametrized_weight_is_computed_when_it_is_read() -> None:
    layer = nn.Linear(3, 3)
    original = layer.weight
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert repr(layer).startswith("ParametrizedLinear(\n  in_features=3, out_features=3, bias=True")
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert layer.parametrizations.weight.original is original and isinstance(layer, nn.Linear)
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert layer.weight.tolist() == layer.weight.T.tolist()
    layer(fw.ones(1, 3)).sum().backward()
    assert original.grad is not None and original.grad.tolist() == [[1, 2, 2], [0, 1, 2], [0, 0, 1]]


def test_chains_and_assignment() -> None:
    layer = nn.Linear(2, 2, bias=False)
    value = layer.weight.detach()
    parametrize.register_parametrization(layer, "weight", Scaled(2.0))
    parametrize.register_parametrization(layer, "weight", Scaled(5.0))
    assert fw.max(abs(layer.weight - 5 * value)).item() < 1e-6
    assert fw.max(abs(layer.parametrizations.weight.original - value / 2)).item() < 1e-6
    layer.weight = fw.ones(2, 2)
    assert fw.max(abs(layer.weight - 1)).item() < 1e-6
    assert layer.parametrizations.weight.original.tolist() == pytest.approx(np.full((2, 2), 0.1))
    symmetric = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    with pytest.raises(StateError, match="Symmetric has no right_inverse"):
        symmetric.weight = fw.ones(2, 2)


def test_several_originals_buffers_and_two_tensors() -> None:
    layer = nn.Linear(3, 2)
    layer.register_buffer("mask", fw.ones(2))
    value = layer.weight.tolist()
    parametrize.register_parametrization(layer, "weight", Factors())
    parametrize.register_parametrization(layer, "mask", Scaled(2.0))
    assert list(layer.state_dict()) == [
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1",
        "parametrizations.mask.original"]
    assert layer.weight.tolist() == value and layer.mask.tolist() == [1, 1]
    assert [n for n, _ in layer.named_buffers()] == ["parametrizations.mask.original"]
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer).__name__ == "ParametrizedLinear" and layer.mask.tolist() == [1, 1]
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.tolist() == value
    parametrize.remove_parametrizations(layer, "mask")
    assert type(layer) is nn.Linear and [*layer.state_dict()] == ["bias", "weight", "mask"]


def test_removing_keeps_the_parameter_that_an_optimizer_knows() -> None:
    for left, factor in ((True, 1.0), (False, 0.5)):
        layer = nn.Linear(2, 2)
        weight, value = layer.weight, layer.weight.detach()
        parametrize.register_parametrization(layer, "weight", Scaled(2.0))
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=left)
        assert layer.weight is weight and weight.requires_grad
        assert fw.max(abs(weight - value * factor)).item() < 1e-6


def test_cached_computes_once() -> None:
    scaled = Scaled(2.0)
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", scaled)
    before = scaled.calls
    with parametrize.cached():
        with parametrize.cached():
            assert layer.weight is layer.weight
        layer(fw.ones(1, 2)).sum().backward()
        assert scaled.calls == before + 1
    assert layer.weight is not layer.weight and scaled.calls == before + 3


def test_copies_are_independent_and_pickles_are_refused() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Scaled(2.0))
    other = copy.deepcopy(nn.Sequential(layer))[0]
    parametrize.remove_parametrizations(layer, "weight")
    assert parametrize.is_parametrized(other) and other.weight.tolist() == layer.weight.tolist()
    with pytest.raises(StateError, match=r"cannot be pickled[\s\S]*fw.save"):
        pickle.dumps(other)


def test_parametrized_layers_train_compiled_as_eagerly() -> None:
    def losses(compiled: bool) -> list[float]:
        fw.manual_seed(0)
        model = nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 4)),
                              parametrizations.spectral_norm(nn.Linear(4, 2)),
                              nn.utils.weight_norm(nn.Linear(2, 1)))
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1)

        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = (model(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = fw.compile(step) if compiled else step
        return [run(fw.ones(2, 3)).item() for _ in range(5)]

    eager = losses(False)
    assert losses(True) == pytest.approx(eager, rel=1e-5) and eager[-1] < eager[0]


def test_parametrizations_that_do_not_fit() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(ShapeError, match=r"forward gave shape \(4,\), the tensor has \(2, 2\)"):
        parametrize.register_parametrization(layer, "weight", nn.Flatten(0))
    with pytest.raises(NotImplementedError, match="does not define forward"):
        parametrize.register_parametrization(layer, "weight", nn.Module())
    assert isinstance(layer.weight, nn.Parameter) and type(layer) is nn.Linear


def test_errors_of_parametrizations() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(StateError, match=r"no parameter or buffer 'wait'[\s\S]*'weight', 'bias'"):
        parametrize.register_parametrization(layer, "wait", Scaled(1.0))
    with pytest.raises(StateError, match="has no parametrization of 'weight'"):
        parametrize.remove_parametrizations(layer, "weight")
    parametrize.register_parametrization(layer, "weight", Factors())
    with pytest.raises(ArgumentError, match="computed from several"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    with pytest.raises(ShapeError, match=r"forward gave shape \(4,\)"):
        parametrize.register_parametrization(layer, "weight", nn.Flatten(0))


# ---- norms of weights
def singular(weight: fw.Tensor) -> float:
    return float(np.linalg.svd(weight.detach().numpy(), compute_uv=False)[0])


def test_weight_norm_splits_length_and_direction() -> None:
    layer = nn.Linear(3, 2)
    value = layer.weight.detach()
    for norm, names in (
        (parametrizations.weight_norm,
         ["parametrizations.weight.original0", "parametrizations.weight.original1"]),
        (nn.utils.weight_norm, ["weight_g", "weight_v"]),
    ):
        made = norm(copy.deepcopy(layer))
        state = made.state_dict()
        assert sorted({*state} - {"bias"}) == names
        assert [state[n].shape for n in names] == [(2, 1), (2, 3)]
        assert fw.max(abs(made.weight - value)).item() < 1e-6
        made.get_parameter(names[0])._data = fw.ones(2, 1)._data
        made(fw.ones(1, 3))
        assert fw.linalg.vector_norm(made.weight, axis=1).tolist() == pytest.approx([1, 1])
    assert nn.utils.remove_weight_norm(made) is made and sorted(made.state_dict()) == [
        "bias", "weight"]
    assert fw.linalg.vector_norm(made.weight, axis=1).tolist() == pytest.approx([1, 1])
    assert made._hooks is None or not made._hooks.before


def test_newer_weight_norm_loads_states_of_the_older() -> None:
    older = nn.utils.weight_norm(nn.Linear(3, 2))
    newer = parametrizations.weight_norm(nn.Linear(3, 2))
    assert newer.load_state_dict(older.state_dict()) == ([], [])
    assert newer.weight.tolist() == older.weight.tolist()


@pytest.mark.parametrize("norm", [parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_spectral_norm(norm: Any) -> None:
    fw.manual_seed(0)
    layer = norm(nn.Linear(6, 4), n_power_iterations=2)
    for _ in range(30):
        layer(fw.ones(1, 6))
    assert singular(layer.weight) == pytest.approx(1, abs=1e-3)
    layer.eval()
    before = {k: v.tolist() for k, v in layer.state_dict().items()}
    layer(fw.ones(1, 6))
    assert {k: v.tolist() for k, v in layer.state_dict().items()} == before


def test_removing_spectral_norm() -> None:
    layer = nn.utils.spectral_norm(nn.ConvTranspose2d(3, 4, 2))
    layer.eval()(fw.ones(1, 3, 4, 4))
    value = layer.weight.tolist()
    nn.utils.remove_spectral_norm(layer)
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.tolist() == value
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_errors_of_norms() -> None:
    with pytest.raises(StateError, match="remove_weight_norm: Linear has no weight_norm of 'weig"):
        nn.utils.remove_weight_norm(nn.Linear(1, 1))
    with pytest.raises(ArgumentError, match="no parameter 'weight', or has one that is computed"):
        nn.utils.weight_norm(nn.utils.weight_norm(nn.Linear(1, 1)))
    with pytest.raises(AxisError, match="dim 3 is no axis"):
        parametrizations.spectral_norm(nn.Linear(1, 1), dim=3)
    with pytest.raises(ArgumentError, match="n_power_iterations must be at least 1"):
        parametrizations.spectral_norm(nn.Linear(1, 1), n_power_iterations=0)


@pytest.mark.parametrize("orthogonal_map", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_orthogonal(orthogonal_map: str | None, shape: tuple[int, int]) -> None:
    fw.manual_seed(0)
    layer = parametrizations.orthogonal(nn.Linear(*shape).double(), orthogonal_map=orthogonal_map)
    optimizer = fw.optim.SGD(layer.parameters(), lr=0.5)
    for _ in range(3):
        w = layer.weight if shape[0] <= shape[1] else layer.weight.mT
        assert fw.max(abs(w.mT @ w - fw.eye(min(shape), dtype=fw.float64))).item() < 1e-12
        layer(fw.ones(1, shape[0], dtype=fw.float64)).sum().backward()
        optimizer.step()
    chosen = np.linalg.qr(np.random.default_rng(0).standard_normal((max(shape), min(shape))))[0]
    value = chosen if shape[0] <= shape[1] else chosen.T
    layer.weight = fw.tensor(value)
    np.testing.assert_allclose(layer.weight.detach().numpy(), value, atol=1e-12)


def test_orthogonal_without_a_base() -> None:
    layer = parametrizations.orthogonal(nn.Linear(3, 5).double(), orthogonal_map="householder",
                                        use_trivialization=False)
    value = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 3)))[0]
    layer.weight = fw.tensor(value)
    np.testing.assert_allclose(layer.weight.detach().numpy(), value, atol=1e-12)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    with pytest.raises(ShapeError, match="a matrix or a batch of them"):
        parametrizations.orthogonal(nn.Linear(3, 3), "bias")
    with pytest.raises(ArgumentError, match="orthogonal_map 'qr' is not known"):
        parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="qr")


# ---- tools
def test_vectors() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1, bias=False))
    vector = nn.utils.parameters_to_vector(model.parameters())
    assert vector.shape == (10,) and vector.requires_grad
    nn.utils.vector_to_parameters(fw.arange(10.0), model.parameters())
    assert model[0].weight.tolist() == [[0, 1, 2], [3, 4, 5]] and model[1].weight.is_leaf
    assert model[1].weight.tolist() == [[8, 9]]
    with pytest.raises(ShapeError, match=r"has shape \(3,\), the parameters have 10 elements"):
        nn.utils.vector_to_parameters(fw.ones(3), model.parameters())
    with pytest.raises(DTypeError, match="takes a tensor, not list"):
        nn.utils.vector_to_parameters([1.0], model.parameters())  # type: ignore[arg-type]


def test_skip_init_uses_no_random_numbers() -> None:
    before = fw.get_rng_state().tolist()
    layer = nn.utils.skip_init(nn.Linear, 3, 2, dtype=fw.float64)
    assert fw.get_rng_state().tolist() == before and layer.weight.dtype == fw.float64
    with pytest.raises(DTypeError, match="takes a class of modules"):
        nn.utils.skip_init(nn.functional.relu)


def trained(norm: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    for p in norm.parameters():
        nn.init.uniform_(p, 0.5, 2.0)
    for _ in range(3):
        norm(fw.rand(*shape) * 3)
    return norm.eval()


def test_batch_norm_as_part_of_the_layer_before_it() -> None:
    fw.manual_seed(0)
    x = fw.rand(2, 3, 6, 6)
    for conv, transpose in ((nn.Conv2d(3, 4, 3, bias=False), False),
                            (nn.ConvTranspose2d(3, 4, 3), True)):
        conv, norm = conv.eval(), trained(nn.BatchNorm2d(4), (5, 4, 6, 6))
        fused = nn.utils.fuse_conv_bn_eval(conv, norm, transpose)
        assert fw.max(abs(fused(x) - norm(conv(x)))).item() < 1e-5
    linear, norm = nn.Linear(6, 4).eval(), trained(nn.BatchNorm1d(4), (5, 4))
    fused = nn.utils.fuse_linear_bn_eval(linear, norm)
    assert fw.max(abs(fused(x[0, 0]) - norm(linear(x[0, 0])))).item() < 1e-5
    with pytest.raises(ArgumentError, match="in eval mode"):
        nn.utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(4))
    with pytest.raises(ArgumentError, match="the layer has 4 features, the batch norm takes 5"):
        nn.utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(5).eval())
