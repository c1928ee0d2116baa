"""Modules as functions of their state: other tensors in place, per-example gradients, ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import DTypeError, FusewireError, StateError
from fusewire.func import functional_call, grad, stack_module_state, vmap


class Counter(fw.nn.Module):
    """Scales, counts its calls, and fails when asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = fw.nn.Parameter(fw.ones(2))
        self.register_buffer("calls", fw.tensor(0))

    def forward(self, x: Any, fail: bool = False) -> Any:
        self.calls += 1
        if fail:
            raise RuntimeError("asked to")
        return x * self.scale


def test_runs_with_other_tensors_and_puts_the_own_ones_back() -> None:
    model = Counter()
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    given = {"scale": fw.tensor([2.0, 3.0]), "calls": fw.tensor(10)}
    assert functional_call(model, given, (fw.ones(2),)).tolist() == [2, 3]
    assert functional_call(model, ({"scale": given["scale"]}, {}), fw.ones(2)).tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="asked to"):
        functional_call(model, given, (fw.ones(2),), {"fail": True})
    assert all(x is own[n] for n, x in (*model.named_parameters(), *model.named_buffers()))
    assert given["calls"].item() == 12 and model.calls.item() == 1


def test_tied_weights() -> None:
    model = fw.nn.Sequential(fw.nn.Linear(2, 2, bias=False), fw.nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    other, x = fw.tensor([[0.0, 1.0], [2.0, 0.0]]), fw.ones(2)
    assert functional_call(model, {"0.weight": other}, x).tolist() == [2, 2]
    untied = functional_call(model, {"0.weight": other}, x, tie_weights=False)
    np.testing.assert_allclose(untied.numpy(), model[1](other @ x).detach().numpy())
    both = functional_call(model, {"0.weight": other, "1.weight": fw.eye(2)}, x)
    assert both.tolist() == [1, 2]


@pytest.mark.parametrize(("given", "strict", "words"), [
    ({"scal": fw.ones(2)}, False, r"unexpected: scal \(nearest: scale\)"),
    ({"scale": fw.ones(2)}, True, "missing: calls"),
    (({"scale": fw.ones(2)}, {"scale": fw.ones(2)}), False, "in two of the dicts"),
    ({"scale": 2.0}, False, "'scale' is float, not a tensor"),
    (3, False, "takes a dict of names"),
])
def test_names_that_do_not_fit(given: Any, strict: bool, words: str) -> None:
    with pytest.raises(FusewireError, match=words) as caught:
        functional_call(Counter(), given, fw.ones(2), strict=strict)
    assert isinstance(caught.value, (StateError, DTypeError)) and caught.value.help


class Net(fw.nn.Module):
    """A convolution, a pool and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = fw.nn.Conv2d(1, 3, 3)
        self.pool = fw.nn.MaxPool2d(2)
        self.head = fw.nn.Linear(12, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.pool(self.conv(x).relu()).flatten(1))


def loss(model: Any, state: Any, x: Any, y: Any) -> Any:
    out = functional_call(model, state, x[None])
    return fw.nn.functional.cross_entropy(out, y[None])


def test_gradients_of_each_example() -> None:
    fw.manual_seed(0)
    model = Net().double()
    state = {name: p.detach() for name, p in model.named_parameters()}
    x = fw.tensor(np.random.default_rng(0).standard_normal((5, 1, 6, 6)))
    y = fw.tensor([0, 3, 1, 1, 2])
    found = vmap(grad(lambda s, a, b: loss(model, s, a, b)), in_axes=(None, 0, 0))(state, x, y)
    for i in range(5):
        fw.nn.functional.cross_entropy(model(x[i:i + 1]), y[i:i + 1]).backward()
        for name, p in model.named_parameters():
            np.testing.assert_allclose(found[name][i].numpy(), p.grad.numpy(), atol=1e-12)
        model.zero_grad()
    assert not any(g.requires_grad for g in found.values())


def test_ensembles() -> None:
    fw.manual_seed(0)
    models, x = [Net() for _ in range(3)], fw.randn(2, 1, 6, 6)
    parameters, buffers = stack_module_state(models)
    assert buffers == {} and all(p.is_leaf and p.requires_grad for p in parameters.values())
    out = vmap(lambda p: functional_call(models[0], p, x))(parameters)
    for got, model in zip(out, models):
        np.testing.assert_allclose(got.detach().numpy(), model(x).detach().numpy(), rtol=1e-4,
                                   atol=1e-5)
    out.sum().backward()
    models[1](x).sum().backward()
    np.testing.assert_allclose(parameters["head.weight"].grad[1].numpy(),
                               models[1].head.weight.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_ensembles_are_of_equal_modules() -> None:
    for models, words in (([], "got none"), ([Counter(), Net()], "different classes"),
                          ([fw.nn.Linear(2, 2), fw.nn.Linear(2, 2, bias=False)],
                           "different names")):
        with pytest.raises(FusewireError, match=words):
            stack_module_state(models)


def test_a_compiled_step_on_gradients_of_each_example() -> None:
    fw.manual_seed(0)
    model = fw.nn.Linear(3, 1)
    optimizer = fw.optim.SGD(model.parameters(), lr=0.1)

    @fw.compile
    def step(x: Any, y: Any) -> Any:
        state = {name: p.detach() for name, p in model.named_parameters()}
        each = vmap(grad(lambda s, a, b: ((functional_call(model, s, a) - b) ** 2).sum()),
                    in_axes=(None, 0, 0))(state, x, y)
        for name, p in model.named_parameters():
            p.grad = each[name].mean(0)
        optimizer.step()

    x, y = fw.randn(6, 3), fw.ones(6, 1)
    before = ((model(x) - y) ** 2).mean().item()
    for _ in range(10):
        step(x, y)
    assert ((model(x) - y) ** 2).mean().item() < before / 2
    assert step.stats.replays == 9
