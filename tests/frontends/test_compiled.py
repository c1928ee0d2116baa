"""`torch.compile`: whole steps are one program, and results keep their class."""

from __future__ import annotations

import pytest

import fusewire.torch as torch
import fusewire.torch.nn.functional as F
from fusewire.torch import nn
from fusewire.torch.distributions import Categorical, Normal


def models():
    yield "mlp", nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    yield "batch norm", nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

    class Viewing(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.out = nn.Conv2d(1, 2, 2), nn.Linear(4, 3)

        def forward(self, x):
            y = F.relu(self.conv(x.view(x.size(0), 1, 2, 3))).view(x.size(0), -1)
            return self.out(y) + x.max(1, keepdim=True)[0]

    yield "views", Viewing()

    class Flattened(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.out = nn.Conv2d(1, 2, 2), nn.Linear(2, 3)

        def forward(self, x):
            y = F.max_pool2d(self.conv(x.reshape(x.size(0), 1, 2, 3)), (1, 2))
            return self.out(torch.flatten(y, 1).reshape(y.size(0), -1))

    yield "flattened", Flattened()


@pytest.mark.parametrize("name", [name for name, _ in models()])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_step_is_one_program_and_equal(name, optimizer):
    losses = {}
    for compiled in (False, True):
        torch.manual_seed(0)
        model = dict(models())[name]
        opt = optimizer(model.parameters(), lr=0.05)

        def step(x, y, model=model, opt=opt):
            opt.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            opt.step()
            return loss, out.argmax(dim=1)

        run = torch.compile(step, fullgraph=True) if compiled else step
        x, y = torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0])
        results = [run(x, y) for _ in range(4)]
        losses[compiled] = [loss.item() for loss, _ in results]
        assert {type(part) for result in results for part in result} == {torch.Tensor}
        assert type(next(model.parameters()).grad) is torch.Tensor
    assert losses[True] == pytest.approx(losses[False], rel=1e-5)
    assert run.stats.fallbacks == 0 and run.stats.recordings <= 2


def test_sizes_and_devices_of_the_program_are_values():
    device = torch.device("cpu")

    @torch.compile(fullgraph=True)
    def f(x):
        return x.to(device), x.size(), x.shape[0] * 2, x.device

    for n in (2, 3, 4, 5):
        moved, size, double, where = f(torch.ones(n, 3))
        assert type(moved) is torch.Tensor and size == (n, 3) and double == 2 * n
        assert type(size) is torch.Size and where == device and type(where) is torch.device
    assert f.stats.recordings == 2


def test_a_class_that_differs_is_another_trace():
    import fusewire as fw
    f = torch.compile(lambda x: x + 1)
    assert type(f(torch.ones(2))) is torch.Tensor
    assert type(f(fw.ones(2))) is fw.Tensor
    assert type(f(torch.ones(2))) is torch.Tensor


def test_a_distribution_outside_of_the_function_is_read_each_time():
    d = Normal(torch.zeros(3), torch.ones(3))

    @torch.compile(fullgraph=True)
    def f(x):
        return d.log_prob(x).sum()

    x = torch.ones(3)
    before = [f(x).item() for _ in range(3)]
    d.loc = torch.ones(3)
    assert f(x).item() == pytest.approx(before[-1] + 1.5)
    d.loc.fill_(3.0)
    assert f(x).item() == pytest.approx(before[-1] + 1.5 - 6)


def test_a_policy_step_with_samples():
    model = nn.Linear(4, 3)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(fullgraph=True)
    def step(x):
        opt.zero_grad()
        d = Categorical(logits=model(x))
        action = d.sample()
        loss = -d.log_prob(action).mean()
        loss.backward()
        opt.step()
        return action, loss

    for _ in range(4):
        action, loss = step(torch.ones(5, 4))
        assert type(action) is type(loss) is torch.Tensor and action.shape == (5,)
    assert step.stats.recordings == 1
