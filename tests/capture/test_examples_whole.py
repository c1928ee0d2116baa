"""The training steps of the examples are recorded whole: nothing runs eagerly. Their models, too:
`tests/codegen/test_compiled_models.py`."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from agreement import agree, assert_equal
from whole_compilation import compiled_whole

import fusewire as fw
from house.test_examples import FEW, FOLDER

FEWER = {
    "char_lm": 4, "detection": 4, "diffusion": 4, "digits": 1, "distillation": 2, "fine_tune": 3,
    "gan": 4, "graph_network": 4, "hamiltonian": 30, "neural_ode": 12, "physics_informed": 4,
    "policy_gradient": 2, "style_transfer": 4, "time_series": 1, "unequal_lengths": 12, "vae": 4,
}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_steps_of_an_example(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled_whole(monkeypatch)
    (option,) = FEW[name]
    importlib.import_module(name).main(**{option: FEWER[name]}, compiled=True)
    assert made and all(f.stats.replays > 0 and f.stats.fallbacks == 0 for f in made)
    assert all(f.stats.recordings <= 2 for f in made), [f.misses for f in made]


# ---- models that are refused where a model is traced: what they do depends on values
class Gate(fw.nn.Module):
    """One of two layers, as the input's mean says."""

    def __init__(self) -> None:
        super().__init__()
        self.warm, self.cold = fw.nn.Linear(3, 3), fw.nn.Linear(3, 3)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        if x.mean() > 0:
            return fw.relu(self.warm(x))
        return self.cold(x) - x


class Settle(fw.nn.Module):
    """A layer, over and over, until its values hardly change."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = fw.nn.Linear(3, 3)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        change = fw.tensor(1.0)
        while change > 1e-2:
            new = fw.tanh(self.turn(x)) * 0.5
            change = fw.abs(new - x).max()
            x = new
        return x


@pytest.mark.parametrize("kind", [Gate, Settle])
def test_models_with_control_flow(kind: type) -> None:
    def make() -> Any:
        fw.manual_seed(1)
        return kind().requires_grad_(False)

    rows = fw.tensor([[1.0, -2.0, 0.5], [0.3, 0.8, -1.0]])
    calls = [[rows * k] for k in (1.0, -1.0, 3.0, -5.0, 0.01, 100.0)]
    f = agree(lambda: make().forward, *calls)
    assert f.stats.fallbacks == 0 and f.stats.recordings <= 4 and f.stats.replays >= 2


def test_the_loop_of_a_model_and_its_gradient() -> None:
    fw.manual_seed(1)
    model = Settle()

    def step(x: fw.Tensor) -> Any:
        model.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        return loss.detach(), model.turn.weight.grad

    f = fw.compile(step, fullgraph=True)
    for k in (1.0, 2.0, 0.1, 50.0, 3.0):
        x = fw.tensor([[1.0, -2.0, 0.5]]) * k
        assert_equal(f(x), step(x))
    assert f.stats.fallbacks == 0
