"""Training steps as models: parameters and state of the optimizer go in and come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.export.onnx import ExportReport, export

ort = pytest.importorskip("onnxruntime")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "step.onnx"


def batch(rows: int = 16) -> tuple[fw.Tensor, fw.Tensor]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    return fw.from_numpy(x), fw.from_numpy(x[:, :3].argmax(1))


def trained(path: Path, report: ExportReport, inputs: dict[str, Any], steps: int) -> list[float]:
    """The losses of so many steps in plain onnxruntime."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options)
    feed, losses = dict(inputs), []
    for _ in range(steps):
        made = dict(zip(report.outputs, session.run(None, feed)))
        feed.update({name: made[new] for name, new in report.state})
        losses.append(made["output"].item())
    return losses


def small_net() -> nn.Module:
    fw.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))


OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: fw.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "AdamW": lambda p: fw.optim.AdamW(p, lr=0.05),
    "RMSprop": lambda p: fw.optim.RMSprop(p, lr=0.01),
    "Adagrad": lambda p: fw.optim.Adagrad(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_trains_in_onnxruntime(name: str, path: Path) -> None:
    """Its losses are our own, and they fall."""
    net = small_net()
    opt = OPTIMIZERS[name](net.parameters())

    @fw.compile
    def step(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    x, y = batch()
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    report = export(step, (x, y), path, training=True,
                    dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}})
    assert all((v.numpy() == before[k]).all() for k, v in net.state_dict().items())
    assert report.inputs == ("x", "y") and report.outputs[0] == "output"
    assert {"0.weight", "0.bias", "1.running_mean", "3.weight"} <= {n for n, _ in report.state}
    assert len(report.checked_sizes) >= 2 and net.training
    theirs = trained(path, report, {"x": x.numpy(), "y": y.numpy()}, 40)
    ours = [step(x, y).item() for _ in range(40)]
    np.testing.assert_allclose(theirs, ours, rtol=1e-3, atol=1e-5)
    assert theirs[-1] < theirs[0] / 2


def test_names_of_state(path: Path) -> None:
    net = nn.Linear(4, 3)
    opt = fw.optim.Adam(net.parameters())

    def step(x: fw.Tensor) -> fw.Tensor:
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    report = export(step, batch()[0], path, training=True)
    assert {n for n, _ in report.state} == {
        "weight", "bias", "step", "weight.exp_avg", "weight.exp_avg_sq", "bias.exp_avg",
        "bias.exp_avg_sq"}
    model = onnx.load(path)
    assert {i.name for i in model.graph.input} == {"x"} | {n for n, _ in report.state}
    assert {o.name for o in model.graph.output} == {"output"} | {n for _, n in report.state}
    assert {n for n, _ in report.state} <= {i.name for i in model.graph.initializer}


def test_a_step_that_decides(path: Path) -> None:
    """Large gradients are cut off."""
    net = nn.Linear(4, 1)
    opt = fw.optim.SGD(net.parameters(), lr=0.1)

    def step(x: fw.Tensor) -> fw.Tensor:
        opt.zero_grad()
        loss = (net(x) - 3).square().mean()
        loss.backward()
        size = net.weight.grad.square().sum()
        if size > 4:
            net.weight.grad = net.weight.grad / size.sqrt()
        opt.step()
        return loss

    x, _ = batch()
    report = export(step, x, path, training=True)
    theirs = trained(path, report, {"x": x.numpy()}, 30)
    np.testing.assert_allclose(theirs, [step(x).item() for _ in range(30)], rtol=1e-4)


def test_two_models_tell_their_names_apart(path: Path) -> None:
    one, two = nn.Linear(4, 4), nn.Linear(4, 1)
    opt = fw.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)

    def step(x: fw.Tensor) -> fw.Tensor:
        opt.zero_grad()
        loss = two(one(x)).square().mean()
        loss.backward()
        opt.step()
        return loss

    report = export(step, batch()[0], path, training=True)
    assert {n for n, _ in report.state} == {"one.weight", "one.bias", "two.weight", "two.bias"}


def test_gradients_that_pile_up_are_refused(path: Path) -> None:
    net = nn.Linear(4, 3)
    opt = fw.optim.SGD(net.parameters(), lr=0.1)

    def step(x: fw.Tensor) -> fw.Tensor:
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    with pytest.raises(fw.ExportError, match="is added to that of the call before"):
        export(step, batch()[0], path, training=True)


def test_a_step_is_asked_for(path: Path) -> None:
    net = nn.Linear(4, 3)

    def step(x: fw.Tensor) -> fw.Tensor:
        for p in net.parameters():
            p.grad = None
        return net(x)

    with pytest.raises(fw.ExportError, match="training=True"):
        export(step, batch()[0], path)


def test_dropout_in_training_is_refused(path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    with pytest.raises(fw.ExportError, match="uniform cannot be written to ONNX"):
        export(lambda x: net(x), batch()[0], path, training=True)
