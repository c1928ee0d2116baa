"""Distributions against PyTorch's: densities, entropies, moments, divergences, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import fusewire as fw
import fusewire.torch as ours
from fusewire.frontends.torch.distributions.gammas import gradient_of_gamma

torch = pytest.importorskip("torch")
G = np.random.default_rng(0)


def positive(*shape):
    return G.uniform(0.3, 3, shape).astype("f4")


def numbers(*shape):
    return G.normal(size=shape).astype("f4")


_A = numbers(3, 3)
CASES = {
    "Normal": (numbers(3, 2), positive(3, 2)), "LogNormal": (numbers(3), positive(3)),
    "HalfNormal": (positive(3),), "Laplace": (numbers(3), positive(3)),
    "Cauchy": (numbers(3), positive(3)), "Uniform": (numbers(3) - 5, numbers(3) + 5),
    "Exponential": (positive(3),), "Bernoulli": (positive(3) / 4,),
    "Categorical": (positive(3, 4),), "OneHotCategorical": (positive(3, 4),),
    "Geometric": (positive(3) / 4,), "Poisson": (positive(3),), "Gamma": (positive(3), positive(3)),
    "Beta": (positive(3), positive(3)), "Dirichlet": (positive(2, 3),), "Chi2": (positive(3),),
    "MultivariateNormal": (numbers(2, 3), (_A @ _A.T + 3 * np.eye(3)).astype("f4")),
}


def made(name, args):
    return (getattr(torch.distributions, name)(*map(torch.tensor, args)),
            getattr(ours.distributions, name)(*map(ours.tensor, args)))


def check(ours_, theirs):
    assert type(ours_) is ours.Tensor
    np.testing.assert_allclose(ours_.detach().numpy(), theirs.detach().numpy(), 2e-5, 2e-5)


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_a_distribution(name):
    theirs, d = made(name, CASES[name])
    value = theirs.sample((5,))
    check(d.log_prob(ours.tensor(value.numpy())), theirs.log_prob(value))
    assert tuple(d.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(d.event_shape) == tuple(theirs.event_shape)
    for part in ("mean", "variance"):
        check(getattr(d, part), getattr(theirs, part))
    if name != "Poisson":
        check(d.entropy(), theirs.entropy())


@pytest.mark.parametrize("name", CASES)
def test_samples(name):
    theirs, d = made(name, CASES[name])
    ours.manual_seed(1)
    drawn = d.sample((4000,))
    assert type(drawn) is ours.Tensor and drawn.shape[1:] == theirs.sample((1,)).shape[1:]
    if name not in ("Cauchy", "Categorical"):
        deviation = np.sqrt(theirs.variance.numpy().max() / 4000)
        np.testing.assert_allclose(drawn.numpy().mean(0), theirs.mean.numpy(), 0, 6 * deviation)
    if name == "Categorical":
        found = (drawn.numpy()[..., None] == np.arange(4)).mean(0)
        np.testing.assert_allclose(found, theirs.probs.numpy(), 0, 0.05)


@pytest.mark.parametrize("name", CASES)
def test_divergences(name):
    theirs, d = made(name, CASES[name])
    other = [a * np.float32(0.7) if i == 0 else a for i, a in enumerate(CASES[name])]
    if name == "Uniform":
        other = [CASES[name][0] - 1, CASES[name][1] + 1]
    their_other, our_other = made(name, other)
    try:
        expected = torch.distributions.kl_divergence(theirs, their_other)
    except NotImplementedError:
        return
    if name in ("HalfNormal", "Cauchy", "Geometric", "Poisson"):
        with pytest.raises(NotImplementedError, match="register_kl adds one"):
            ours.distributions.kl_divergence(d, our_other)
    else:
        check(ours.distributions.kl_divergence(d, our_other), expected)


def test_gradients_of_gamma_samples():
    a = G.uniform(0.1, 60, 300)
    x = G.gamma(a)
    expected = torch._standard_gamma_grad(torch.tensor(a), torch.tensor(x)).numpy()
    np.testing.assert_allclose(gradient_of_gamma(ours.tensor(a), ours.tensor(x)).numpy(),
                               expected, 1e-3, 1e-3)


def test_gradients_of_samples_reach_the_parameters():
    loc, scale = (ours.zeros(3, requires_grad=True), ours.ones(3, requires_grad=True))
    d = ours.distributions.Normal(loc, scale)
    x = d.rsample((500,))
    x.sum().backward()
    assert loc.grad.tolist() == [500, 500, 500]
    np.testing.assert_allclose(scale.grad.numpy(), x.detach().numpy().sum(0), 1e-3, 1e-2)


def test_independent():
    base = ours.distributions.Normal(ours.zeros(2, 3), ours.ones(2, 3))
    d = ours.distributions.Independent(base, 1)
    assert d.batch_shape == (2,) and d.event_shape == (3,)
    assert ours.equal(d.log_prob(ours.ones(2, 3)), base.log_prob(ours.ones(2, 3)).sum(-1))


def test_wrong_arguments():
    with pytest.raises(fw.ArgumentError, match="Normal: the parameter scale has values outside"):
        ours.distributions.Normal(0.0, -1.0)
    with pytest.raises(fw.ArgumentError, match="either probs or logits"):
        ours.distributions.Categorical()
    with pytest.raises(fw.ArgumentError, match="Bernoulli: value has values outside"):
        ours.distributions.Bernoulli(0.5).log_prob(ours.tensor([0.5]))
