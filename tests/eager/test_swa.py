"""Averages of a model's parameters. Compared with PyTorch's in test_schedulers_torch.py."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import ArgumentError
from fusewire.optim import swa_utils
from fusewire.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn, update_bn


class Counted(nn.Module):
    """A parameter, and buffers of floats and of integers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(fw.zeros(2))
        self.register_buffer("mean", fw.zeros(2))
        self.register_buffer("count", fw.tensor(0))

    def forward(self, x):
        return x * self.weight

    def become(self, value):
        with fw.no_grad():
            self.weight.fill_(value)
            self.mean.fill_(value * 10)
            self.count.fill_(int(value))


def averaged(*values, **options):
    model = Counted()
    average = AveragedModel(model, **options)
    for value in values:
        model.become(value)
        average.update_parameters(model)
    return average


def test_even_average():
    average = averaged(1.0, 2.0, 6.0)
    assert_allclose(average.module.weight.tolist(), [3, 3], rtol=1e-6)
    assert average.module.mean.tolist() == [60, 60]  # of the last model
    assert average.n_averaged.item() == 3 and average.n_averaged.dtype == fw.int64
    assert_allclose(average(fw.ones(2)).tolist(), [3, 3], rtol=1e-6)


@pytest.mark.parametrize("options", [
    {"avg_fn": get_ema_avg_fn(0.75)}, {"multi_avg_fn": get_ema_multi_avg_fn(0.75)},
    {"avg_fn": lambda mean, value, count: mean * 0.75 + value * 0.25},
])
def test_moving_average(options):
    average = averaged(4.0, 8.0, use_buffers=True, **options)
    assert average.module.weight.tolist() == [5, 5] and average.module.mean.tolist() == [50, 50]
    assert average.module.count.item() == 5


def test_the_first_update_takes_the_parameters_as_they_are():
    assert averaged(0.1, avg_fn=lambda mean, value, count: mean * float("nan")
                    ).module.weight.tolist() == fw.full((2,), 0.1).tolist()


def test_the_copy_is_a_model_of_its_own():
    model = Counted()
    average = AveragedModel(model)
    model.become(5.0)
    assert average.module.weight.tolist() == [0, 0]
    assert sorted(average.state_dict()) == ["module.count", "module.mean", "module.weight",
                                            "n_averaged"]
    other = averaged(1.0, 3.0)
    average.load_state_dict(other.state_dict())
    model.become(5.0)
    average.update_parameters(model)
    assert_allclose(average.module.weight.tolist(), [3, 3])
    assert copy.deepcopy(average).n_averaged.item() == 3


def test_functions_of_averages():
    mean, value = fw.tensor([1.0]), fw.tensor([4.0])
    for count in (2, fw.tensor(2)):
        assert swa_utils.get_swa_avg_fn()(mean, value, count).tolist() == [2.0]
        kept = fw.tensor([1.0])
        swa_utils.get_swa_multi_avg_fn()([kept], [value], count)
        assert kept.tolist() == [2.0]
    with pytest.raises(ArgumentError, match="decay must be between 0 and 1"):
        get_ema_multi_avg_fn(1.5)
    with pytest.raises(ArgumentError, match="both avg_fn and multi_avg_fn"):
        AveragedModel(Counted(), avg_fn=min, multi_avg_fn=max)


def test_an_average_in_a_compiled_step():
    def trained(compile):
        fw.manual_seed(0)
        model = nn.Linear(3, 1)
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8))
        adam, x, y = fw.optim.Adam(model.parameters(), lr=0.1), fw.rand(8, 3), fw.rand(8, 1)

        def step(x, y):
            adam.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            adam.step()
            average.update_parameters(model)
            return loss

        run = fw.compile(step, fullgraph=True) if compile else step
        for _ in range(8):
            run(x, y)
        return average, run

    (eager, _), (compiled, run) = trained(False), trained(True)
    assert_allclose(compiled.module.weight.tolist(), eager.module.weight.tolist(), rtol=1e-4)
    assert compiled.n_averaged.item() == 8 and run.stats.recordings <= 2


def test_statistics_of_batch_norms():
    fw.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2, momentum=0.5)).eval()
    batches = [fw.tensor(np.random.default_rng(i).standard_normal((5, 2)), dtype=fw.float32)
               for i in range(3)]
    update_bn([(x, None) for x in batches], model)
    means = fw.stack([x.mean(0) for x in batches]).mean(0)
    assert_allclose(model[0].running_mean.numpy(), means.numpy(), rtol=1e-5)
    assert model[0].num_batches_tracked.item() == 3 and not model.training
    assert (model[0].momentum, model[1].momentum) == (0.1, 0.5)
    update_bn(batches, nn.Linear(2, 2))  # without any there is nothing to do
