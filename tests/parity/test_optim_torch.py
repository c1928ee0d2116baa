"""Every optimizer against PyTorch's: twenty steps, and state dicts that go from one to the other.

`OPTIMIZERS` holds the cases; `largest_difference` makes the row of a table of one of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from optimizers import OPTIMIZERS, STEPS, gradients, label, rate, starts

import fusewire as fw

EACH = pytest.mark.parametrize("case", OPTIMIZERS, ids=label)
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
NAMES = [*dict.fromkeys(name for name, _ in OPTIMIZERS), "LBFGS"]
TOLERANCE = {"float32": 2e-6, "float64": 1e-13}


class Training:
    """Parameters in two groups with an optimizer of one library."""

    def __init__(self, library: Any, tensor: Callable[[Any], Any], name: str,
                 settings: dict[str, Any], values: list[Any]) -> None:
        self.tensor = tensor
        self.params = [tensor(v).requires_grad_() for v in values]
        self.lr = settings.get("lr", library.optim.__dict__[name]([tensor(np.ones((2, 2)))])
                               .param_groups[0]["lr"])
        self.optimizer = getattr(library.optim, name)(
            [{"params": self.params[:2]}, {"params": self.params[2:], "lr": float(self.lr) * 2}],
            **settings)

    def run(self, grads: list[list[Any]], first: int = 0) -> None:
        for step, given in enumerate(grads, first):
            for p, g in zip(self.params, given):
                p.grad = None if g is None else self.tensor(g)
            for k, group in enumerate(self.optimizer.param_groups, 1):
                group["lr"] = rate(step, float(self.lr) * k)
            self.optimizer.step()

    def values(self) -> list[Any]:
        return [p.detach().numpy().copy() for p in self.params]


def ours(case: tuple[str, Any], values: list[Any]) -> Training:
    return Training(fw, fw.tensor, *case, values)


def theirs(case: tuple[str, Any], values: list[Any]) -> Training:
    return Training(torch, torch.tensor, *case, values)


def differs(found: Any, expected: Any) -> float:
    """The largest difference, as a share of the largest element (of 1 where all are smaller)."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    size = max(1.0, np.abs(expected).max(initial=0))
    return float(np.abs(found - expected).max(initial=0) / size)


def largest_difference(case: tuple[str, Any], dtype: str, steps: int = STEPS) -> float:
    """Between parameters and state of ours and of PyTorch's after these steps."""
    grads = list(gradients(case[0], dtype, steps))
    mine, other = (make(case, starts(case[0], dtype)) for make in (ours, theirs))
    mine.run(grads)
    other.run(grads)
    pairs = list(zip(mine.values(), other.values()))
    states = mine.optimizer.state_dict()["state"], other.optimizer.state_dict()["state"]
    for i, state in states[1].items():
        pairs += [(states[0][i][k].numpy(), v.numpy()) for k, v in state.items()]
    return max(differs(*pair) for pair in pairs)


@EACH
@DTYPES
def test_twenty_steps(case: Any, dtype: str) -> None:
    assert largest_difference(case, dtype) <= TOLERANCE[dtype]


@EACH
def test_state_dicts_have_the_same_names_shapes_and_settings(case: Any) -> None:
    grads = list(gradients(case[0], "float32", 2))
    mine, other = (make(case, starts(case[0], "float32")) for make in (ours, theirs))
    for training in (mine, other):
        training.run(grads)
    found, expected = mine.optimizer.state_dict(), other.optimizer.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    described = [{i: {k: (tuple(v.shape), str(v.dtype).removeprefix("torch."))
                      for k, v in sorted(state.items())} for i, state in d["state"].items()}
                 for d in (found, expected)]
    assert described[0] == described[1]
    assert repr(mine.optimizer) == repr(other.optimizer)


def handed_over(value: Any) -> Any:
    """A state dict with the tensors of the other library."""
    if isinstance(value, fw.Tensor):
        return torch.tensor(value.numpy())
    if isinstance(value, torch.Tensor):
        return fw.tensor(value.numpy())
    if isinstance(value, dict):
        return {k: handed_over(v) for k, v in value.items()}
    return [handed_over(v) for v in value] if isinstance(value, list) else value


@EACH
@DTYPES
@pytest.mark.parametrize("way", ["from torch", "to torch"])
def test_going_on_from_the_others_state_dict(case: Any, dtype: str, way: str) -> None:
    grads = list(gradients(case[0], dtype))
    whole = theirs(case, starts(case[0], dtype))
    whole.run(grads)
    first, then = (theirs, ours) if way == "from torch" else (ours, theirs)
    begun = first(case, starts(case[0], dtype))
    begun.run(grads[:9])
    ended = then(case, begun.values())
    ended.optimizer.load_state_dict(handed_over(begun.optimizer.state_dict()))
    ended.run(grads[9:], 9)
    for found, expected in zip(ended.values(), whole.values()):
        assert differs(found, expected) <= TOLERANCE[dtype]


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name: str) -> None:
    found, expected = ([(p.name, p.kind, p.default) for p in
                        inspect.signature(getattr(library.optim, name)).parameters.values()]
                       for library in (fw, torch))
    assert found == expected


# ---- dtypes that are computed with in another one
@EACH
def test_complex_parameters(case: Any) -> None:
    if case[0] in ("Adafactor", "Muon"):
        with pytest.raises(fw.DTypeError, match="takes real parameters, not complex64"):
            ours(case, [np.ones((2, 2), np.complex64)])
        return
    rng = np.random.default_rng(3)
    values = [(rng.standard_normal((6, 2, 3)) + 1j * rng.standard_normal((6, 2, 3)))
              .astype(np.complex64) for _ in range(2)]
    mine, other = (make(case, [v[0] for v in values]) for make in (ours, theirs))
    for training in (mine, other):
        training.run([[v[k] for v in values] for k in range(1, 6)])
    for found, expected in zip(mine.values(), other.values()):
        assert differs(found, expected) <= 2e-6


@EACH
def test_half_precision(case: Any) -> None:
    """PyTorch rounds after each of its steps, ours once at the end: a few units of difference."""
    name, settings = case
    if name == "Muon":  # PyTorch's overwrites its momentum in bfloat16 where this is not copied
        settings = {**settings, "nesterov": True}
    grads = list(gradients(name, "float32", 5))
    mine = ours(case, starts(name, "float32"))
    mine.params = [p.detach().to(fw.bfloat16).requires_grad_() for p in mine.params]
    other = theirs(case, starts(name, "float32"))
    other.params = [p.detach().bfloat16().requires_grad_() for p in other.params]
    for training in (mine, other):
        make = training.tensor
        cast = fw.bfloat16 if training is mine else torch.bfloat16
        training.tensor = lambda g, make=make, cast=cast: make(g).to(cast)
        training.optimizer = type(training.optimizer)(training.params, **settings)
        training.run(grads)
    for p, q in zip(mine.params, other.params):
        assert str(p.dtype) == "bfloat16"
        found, expected = p.detach().to(fw.float32).numpy(), q.detach().float().numpy()
        assert differs(found, expected) <= 5 * 2 ** -7


# ---- L-BFGS, which asks for the loss itself
def rosenbrock(library: Any, params: list[Any]) -> Any:
    a, b, c = params
    x = library.concat([a.reshape(-1), b.reshape(-1), c.reshape(-1)])
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def minimize(library: Any, optimizer: Any, params: list[Any], steps: int) -> list[float]:
    def closure() -> Any:
        optimizer.zero_grad()
        loss = rosenbrock(library, params)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(steps)]


LBFGS = [{"lr": 0.002, "max_iter": 5}, {"line_search_fn": "strong_wolfe", "max_iter": 4},
         {"line_search_fn": "strong_wolfe", "history_size": 3},
         {"lr": 0.01, "max_iter": 9, "max_eval": 4, "history_size": 2}]
POINT = [np.array([[-1.2, 1.0], [0.3, 0.5]]), np.array(0.7), np.array([1.3, -0.4])]


@pytest.mark.parametrize("settings", LBFGS, ids=str)
def test_lbfgs(settings: dict[str, Any]) -> None:
    found = []
    for library, tensor in ((fw, fw.tensor), (torch, torch.tensor)):
        params = [tensor(v).requires_grad_() for v in POINT]
        optimizer = library.optim.LBFGS(params, **settings)
        losses = minimize(library, optimizer, params, 6)
        state = optimizer.state_dict()["state"][0]
        found.append((losses, [p.detach().numpy() for p in params],
                      (state["n_iter"], state["func_evals"], len(state["ro"]))))
    (losses, values, counts), (their_losses, their_values, their_counts) = found
    assert counts == their_counts
    np.testing.assert_allclose(losses, their_losses, rtol=1e-9)
    for a, b in zip(values, their_values):
        assert differs(a, b) <= 1e-9


@pytest.mark.parametrize("settings", LBFGS, ids=str)
@pytest.mark.parametrize("way", ["from torch", "to torch"])
def test_lbfgs_goes_on_from_the_others_state(settings: dict[str, Any], way: str) -> None:
    sides = [(torch, torch.tensor), (fw, fw.tensor)]
    whole = [torch.tensor(v).requires_grad_() for v in POINT]
    minimize(torch, torch.optim.LBFGS(whole, **settings), whole, 6)
    params: Any = POINT
    state = None
    for library, tensor in sides if way == "from torch" else sides[::-1]:
        params = [tensor(v).requires_grad_() for v in params]
        optimizer = library.optim.LBFGS(params, **settings)
        if state is not None:
            optimizer.load_state_dict(handed_over(state))
        minimize(library, optimizer, params, 3)
        state, params = optimizer.state_dict(), [p.detach().numpy() for p in params]
    for a, b in zip(params, whole):
        assert differs(a, b.detach().numpy()) <= 1e-8


def test_hooks_see_what_those_of_torch_see() -> None:
    seen: list[Any] = []
    for library, tensor in ((fw, fw.tensor), (torch, torch.tensor)):
        p = tensor(np.ones(2)).requires_grad_()
        optimizer = library.optim.SGD([p], lr=1.0)
        calls: list[Any] = []

        def note(name: str, calls: Any = calls) -> Any:
            return lambda *args: calls.append((name, len(args), *map(len, args[1:])))

        for kind in ("step_pre", "step_post", "state_dict_pre", "state_dict_post",
                     "load_state_dict_pre", "load_state_dict_post"):
            getattr(optimizer, f"register_{kind}_hook")(note(kind))
        p.grad = tensor(np.ones(2))
        optimizer.step()
        optimizer.step(lambda: None)
        optimizer.load_state_dict(optimizer.state_dict())
        seen.append(calls)
    assert seen[0] == seen[1] and len(seen[0]) == 8
