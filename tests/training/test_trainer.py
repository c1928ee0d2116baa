"""The trainer computes what the loop written by hand computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn, training
from fusewire.nn import functional as F
from fusewire.utils.data import DataLoader, TensorDataset


def model() -> Any:
    fw.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))


def data(batches: int = 6, size: int = 8) -> list[Any]:
    generator = fw.Generator(1)
    return [(fw.randn(size, 4, generator=generator), fw.randn(size, 1, generator=generator))
            for _ in range(batches)]


def by_hand(net: Any, optimizer: Any, batches: list[Any], update: Callable[[int], None]
            ) -> list[float]:
    """The losses of a plain loop; `update` is called with the number of each batch."""
    losses = []
    for i, (x, y) in enumerate(batches):
        loss = F.mse_loss(net(x), y)
        loss.backward()
        update(i)
        losses.append(loss.item())
    return losses


def trained(net: Any, optimizer: Any, batches: Any, epochs: int = 1, **options: Any
            ) -> training.Trainer:
    trainer = training.Trainer(net, optimizer, F.mse_loss, quiet=True, **options)
    trainer.fit(batches, epochs)
    return trainer


def same_weights(a: Any, b: Any, **tolerance: float) -> None:
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), **tolerance)


def closeness(compile: bool) -> dict[str, float]:
    """Compiled steps round otherwise than eager ones; without compilation the bits are equal."""
    return {"rtol": 1e-4, "atol": 1e-6} if compile else {"rtol": 0, "atol": 0}


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
def test_clipping_a_schedule_and_a_moving_average(compile: bool) -> None:
    mine, theirs = model(), model()
    optimizer = fw.optim.AdamW(mine.parameters(), lr=0.05)
    schedule = fw.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    average = fw.optim.swa_utils.AveragedModel(
        mine, multi_avg_fn=fw.optim.swa_utils.get_ema_multi_avg_fn(0.8))

    def update(i: int) -> None:
        nn.utils.clip_grad_value_(mine.parameters(), 0.5)
        nn.utils.clip_grad_norm_(mine.parameters(), 0.7)
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(mine)
        schedule.step()

    losses = by_hand(mine, optimizer, data(), update)
    other = fw.optim.AdamW(theirs.parameters(), lr=0.05)
    trainer = trained(theirs, other, data(), clip_norm=0.7, clip_value=0.5, average=0.8,
                      scheduler=fw.optim.lr_scheduler.ExponentialLR(other, 0.9),
                      scheduler_every="step", compile=compile)
    np.testing.assert_allclose(trainer.history.losses, losses, **closeness(compile))
    same_weights(mine, theirs, **closeness(compile))
    same_weights(average.module, trainer.averaged, **closeness(compile))
    assert trainer.history.rates.tolist() == pytest.approx([0.05 * 0.9 ** i for i in range(6)])


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
def test_accumulated_batches_count_as_one_large_batch(compile: bool) -> None:
    """Seven batches, three for each update: the last update of the epoch has one batch."""
    mine, theirs = model(), model()
    optimizer = fw.optim.SGD(mine.parameters(), lr=0.1)
    batches = data(7)
    for start in (0, 3, 6):
        x, y = (fw.concat([b[i] for b in batches[start : start + 3]]) for i in (0, 1))
        F.mse_loss(mine(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    trained(theirs, fw.optim.SGD(theirs.parameters(), lr=0.1), batches, accumulate=3,
            compile=compile)
    same_weights(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_scheduler_per_step_steps_with_each_update() -> None:
    net = model()
    optimizer = fw.optim.SGD(net.parameters(), lr=1.0)
    scheduler = fw.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    trainer = trained(net, optimizer, data(5), accumulate=2, compile=False, scheduler=scheduler,
                      scheduler_every="step")
    assert trainer.history.rates.tolist() == [1.0, 1.0, 0.5, 0.5, 0.25]
    assert scheduler.last_epoch == 3


def test_a_scheduler_per_epoch_may_follow_the_validation() -> None:
    net = model()
    optimizer = fw.optim.SGD(net.parameters(), lr=0.0)  # no step improves anything
    optimizer.param_groups[0]["lr"] = 1e-12
    scheduler = fw.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1, eps=0.0)
    trainer = training.Trainer(net, optimizer, F.mse_loss, scheduler=scheduler, compile=False,
                               quiet=True)
    history = trainer.fit(data(1), epochs=4, validate=data(1))
    assert [row["rate"] for row in history.epochs] == pytest.approx([1e-12] * 3 + [1e-13])


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_computes_products_in_16_bits_and_keeps_weights_in_32(precision: str
                                                                              ) -> None:
    seen = []

    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x: fw.Tensor) -> Any:
            y = self.linear(x)
            seen.append(y.dtype.name)
            return y

    net = Watched()
    trainer = trained(net, fw.optim.SGD(net.parameters(), lr=0.05), data(30), epochs=3,
                      precision=precision, compile=False)
    assert set(seen) == {precision}
    assert net.linear.weight.dtype == fw.float32
    assert np.mean(trainer.history.losses[-30:]) < np.mean(trainer.history.losses[:5])


def test_an_overflow_of_float16_skips_the_update_and_halves_the_scale() -> None:
    net = nn.Linear(1, 1, bias=False)
    before = net.weight.item()
    trainer = trained(net, fw.optim.SGD(net.parameters(), lr=1e-3),
                      [(fw.full((1, 1), 3e3), fw.zeros(1, 1))], precision="float16")
    assert trainer.state_dict()["step"]["scaler"]["scale"] == 2.0 ** 15
    assert net.weight.item() == before


def test_the_step_is_compiled_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    net = model()
    trainer = training.Trainer(net, fw.optim.SGD(net.parameters()), F.mse_loss)
    trainer.fit(data(), epochs=1)
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("the step is compiled as one program, in ")
    eager = training.Trainer(net, fw.optim.SGD(net.parameters()), F.mse_loss, compile=False)
    eager.fit(data(), epochs=1)
    assert capsys.readouterr().out.splitlines()[0] == "the step runs op by op: compile=False"


def test_a_step_with_a_graph_break_says_why() -> None:
    net = model()

    def loss(prediction: Any, target: Any) -> Any:
        return F.mse_loss(prediction, target) + float(np.asarray(prediction.detach()).mean()) * 0.0

    trainer = training.Trainer(net, fw.optim.SGD(net.parameters()), loss, quiet=True)
    with pytest.warns(UserWarning, match="graph break"):
        trainer.fit(data(), epochs=1)
    assert "parts" in trainer.report() and "test_trainer.py" in trainer.report()


def test_each_shape_is_compiled_once() -> None:
    """The last batch of an epoch is smaller."""
    net, x = model(), fw.randn(22, 4)
    loader = DataLoader(TensorDataset(x, x[:, :1]), 8)
    trainer = trained(net, fw.optim.SGD(net.parameters()), loader, epochs=5)
    stats = trainer.compiled.stats
    assert (stats.recordings, stats.replays) == (2, 15)


def test_without_exactness_one_program_serves_all_sizes() -> None:
    net = model()
    batches = [(fw.randn(n, 4), fw.randn(n, 1)) for n in range(3, 20)]
    trainer = trained(net, fw.optim.SGD(net.parameters()), batches, exact=False)
    assert trainer.compiled.stats.recordings <= 3


# ---- batches of any form
def test_an_objective_takes_batches_of_any_form() -> None:
    net = model()
    batches = [{"inputs": x, "more": [y]} for x, y in data()]
    trainer = training.Trainer(
        net, fw.optim.SGD(net.parameters(), lr=0.1), quiet=True, compile=False,
        objective=lambda model, batch: F.mse_loss(model(batch["inputs"]), batch["more"][0]))
    trainer.fit(batches, epochs=1)
    other = model()
    assert trained(other, fw.optim.SGD(other.parameters(), lr=0.1), data(), compile=False
                   ).history.losses == trainer.history.losses


# ---- validation
def test_validation_weighs_batches_by_their_samples_and_leaves_the_model_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5), nn.BatchNorm1d(1))
    net[2].eval()  # a frozen layer
    x, y = fw.randn(10, 4), fw.randn(10, 1)
    trainer = training.Trainer(net, fw.optim.SGD(net.parameters()), F.mse_loss, quiet=True,
                               metrics={"distance": lambda p, t: (p - t).abs().mean()})
    results = trainer.validate(DataLoader(TensorDataset(x, y), 4))
    assert [m.training for m in net.modules()] == [True, True, True, False]
    net.eval()
    assert results == pytest.approx({"loss": F.mse_loss(net(x), y).item(),
                                     "distance": (net(x) - y).abs().mean().item()}, rel=1e-5)


def test_a_metric_may_be_an_object_that_accumulates() -> None:
    class Largest:
        def reset(self) -> None:
            self.value = -math.inf

        def update(self, prediction: Any, target: Any) -> None:
            self.value = max(self.value, (prediction - target).abs().max().item())

        def compute(self) -> float:
            return self.value

    net = model()
    trainer = training.Trainer(net, fw.optim.SGD(net.parameters()), F.mse_loss, quiet=True,
                               metrics={"largest": Largest()}, compile=False)
    expected = max((net(x) - y).abs().max().item() for x, y in data())
    for _ in range(2):
        assert trainer.validate(data())["largest"] == expected


def test_validation_uses_the_averaged_weights() -> None:
    net = model()
    trainer = trained(net, fw.optim.SGD(net.parameters(), lr=0.5), data(), average=0.99)
    (x, y), = data(1)
    expected = F.mse_loss(trainer.averaged(x), y).item()
    assert trainer.validate(data(1))["loss"] == pytest.approx(expected, rel=1e-5)
    assert abs(F.mse_loss(net(x), y).item() - expected) > 1e-3


# ---- errors
def test_a_failing_step_names_epoch_batch_and_shapes() -> None:
    net = model()
    batches = [*data(3), (fw.ones(8, 5), fw.ones(8, 1))]
    trainer = training.Trainer(net, fw.optim.SGD(net.parameters()), F.mse_loss, quiet=True)
    with pytest.raises(training.StepError) as caught:
        trainer.fit(batches, epochs=1)
    text = str(caught.value)
    assert text.startswith("the step failed: ShapeError: linear: input (8, 5) ends in 5")
    assert text.endswith("\n  epoch: 0\n  batch: 3, with batch[0] float32 (8, 5), "
                         "batch[1] float32 (8, 1)")
    assert isinstance(caught.value.__cause__, fw.ShapeError)


def test_a_loss_that_is_nan_is_an_error_unless_it_is_allowed() -> None:
    batches = [*data(2), (fw.full((8, 4), math.nan), fw.ones(8, 1))]
    net = model()
    with pytest.raises(training.StepError, match="the loss is nan\n  epoch: 0\n  batch: 2"):
        trained(net, fw.optim.SGD(net.parameters()), batches)
    allowed = trained(net, fw.optim.SGD(net.parameters()), batches, allow_nonfinite=True)
    assert math.isnan(allowed.history.losses[-1])


@pytest.mark.parametrize(("options", "message"), [
    ({}, "neither loss nor objective is given"),
    ({"loss": F.mse_loss, "objective": len}, "both loss and objective are given"),
    ({"objective": len, "metrics": {"a": len}}, "metrics compare predictions with targets"),
    ({"loss": F.mse_loss, "precision": "int8"}, "precision is 'int8'"),
    ({"loss": F.mse_loss, "accumulate": 0}, "accumulate is a whole number of batches above 0"),
    ({"loss": F.mse_loss, "clip_norm": 0.0}, "clip_norm is above 0"),
    ({"loss": F.mse_loss, "scheduler_every": "day"}, "scheduler_every is 'day'"),
])
def test_arguments_are_checked(options: dict[str, Any], message: str) -> None:
    net = model()
    with pytest.raises(fw.ArgumentError, match=message):
        training.Trainer(net, fw.optim.SGD(net.parameters()), **options)


def test_a_loader_that_is_empty_is_an_error() -> None:
    """As a generator is in the second epoch."""
    net = model()
    with pytest.raises(fw.ArgumentError, match="epoch 1 has no batches"):
        trained(net, fw.optim.SGD(net.parameters()), (batch for batch in data()), epochs=2)


def test_a_batch_without_a_target_is_explained() -> None:
    net = model()
    with pytest.raises(training.StepError, match="this one is batch float32"):
        trained(net, fw.optim.SGD(net.parameters()), [fw.ones(2, 4)])


def test_a_model_in_eval_mode_is_trained_in_training_mode() -> None:
    net = model().eval()
    trained(net, fw.optim.SGD(net.parameters()), data(), compile=False)
    assert net.training


def test_a_state_of_another_scheduler_is_refused() -> None:
    def trainer_with(scheduler: Any) -> training.Trainer:
        net = model()
        optimizer = fw.optim.SGD(net.parameters(), lr=0.1)
        return training.Trainer(net, optimizer, F.mse_loss, scheduler=scheduler(optimizer))

    saved = trainer_with(fw.optim.lr_scheduler.ReduceLROnPlateau).state_dict()
    other = trainer_with(lambda o: fw.optim.lr_scheduler.CosineAnnealingLR(o, 10))
    with pytest.raises(fw.StateError, match="scheduler ReduceLROnPlateau, this one has Cos"):
        other.load_state_dict(saved)
