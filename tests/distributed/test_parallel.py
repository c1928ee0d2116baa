"""Each scheme of parallel training computes what one process computes with the joint batch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.distributed as dist
from fusewire import nn
from fusewire.distributed import P
from fusewire.eager.errors import ArgumentError, ShapeError, StateError

F = nn.functional
BATCH, STEPS, TOLERANCE = 12, 5, 1e-13
TOKENS = np.random.default_rng(0).integers(0, 12, (STEPS, BATCH, 5))
CLASSES = np.random.default_rng(1).integers(0, 4, (STEPS, BATCH, 5))
COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


class Network(nn.Module):
    """Layers of each kind that can be shared."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(12, 8)
        self.up, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)
        self.down, self.head = nn.Linear(24, 8), nn.Linear(8, 4)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        return self.head(self.norm(x + self.down(F.gelu(self.up(x)))))


fw.manual_seed(0)
MODEL = Network().to(fw.float64)
LAYOUTS = {"table.weight": P("model", None), "up.weight": P("model", None),
           "down.weight": P(None, "model"), "head.weight": P("model", None)}
OTHER_LAYOUTS = {"table.weight": P(None, "model"), "up.weight": P(None, "model"),
                 "head.weight": P(None, "model")}


def data_parallel(model: Any, make: Any) -> tuple[Any, Any, Any]:
    dist.replicate(model, bucket_mb=1e-3)
    return None, make(model.parameters()), model.state_dict


def zero(model: Any, make: Any) -> tuple[Any, Any, Any]:
    dist.replicate(model)
    return None, dist.ZeroRedundancyOptimizer(lambda p: make(p), model.parameters()), \
        model.state_dict


def fully_sharded(model: Any, make: Any) -> tuple[Any, Any, Any]:
    dist.fully_shard(model)
    return None, make(model.parameters()), lambda: dist.whole_state(model)


def tensor_parallel(model: Any, make: Any, layouts: Any = None, cut: Any = (), then: Any = None,
                    data: int = 1) -> tuple[Any, Any, Any]:
    mesh = dist.init_device_mesh((data, dist.get_world_size() // data), ("data", "model"))
    dist.shard(model, layouts or LAYOUTS, mesh, cut)
    (then or partial(dist.replicate, bucket_mb=1e-3))(model, mesh["data"])
    return mesh["data"], make(model.parameters()), None


SCHEMES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "replicate": (data_parallel, (1, 2, 3, 4)),
    "zero": (zero, (1, 2, 3, 4)),
    "fully sharded": (fully_sharded, (1, 2, 3, 4)),
    "tensor": (tensor_parallel, (1, 2, 4)),
    "tensor, stays cut": (lambda m, o: tensor_parallel(m, o, None, ["up"]), (2, 4)),
    "tensor, other axes": (lambda m, o: tensor_parallel(m, o, OTHER_LAYOUTS), (2, 4)),
    "data x tensor": (lambda m, o: tensor_parallel(m, o, None, ["up"], None, 2), (4,)),
    "sharded x tensor": (lambda m, o: tensor_parallel(m, o, None, ["up"], dist.fully_shard, 2),
                         (4,)),
}
OPTIMIZERS = {"adamw": lambda p: fw.optim.AdamW(p, lr=0.01),
              "sgd": lambda p: fw.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)}


def train(scheme: Any, compiled: bool, optimizer: str = "adamw", accumulate: int = 1,
          check: Any = None) -> tuple[Any, Any, int]:
    """Losses and gradient norms of a training, the parameters at its end, and the replays."""
    model = copy.deepcopy(MODEL)
    group, opt, state = None, OPTIMIZERS[optimizer](model.parameters()), model.state_dict
    if scheme is not None:
        group, opt, state = scheme(model, OPTIMIZERS[optimizer])
    ranks = dist.get_world_size(group) if scheme is not None else 1
    share, rank = BATCH // ranks, dist.get_rank(group) if scheme is not None else 0

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x).reshape(-1, 4), y.reshape(-1))
        opt.zero_grad()
        loss.backward()
        clip = nn.utils.clip_grad_norm_ if scheme is None else dist.clip_grad_norm_
        norm = clip(model.parameters(), 0.5)
        opt.step()
        return loss, norm

    run = fw.compile(step, fullgraph=True, check=check) if compiled else step
    rows = []
    for tokens, classes in zip(TOKENS, CLASSES):
        part = slice(rank * share, (rank + 1) * share)
        loss, norm = run(fw.tensor(tokens[part]), fw.tensor(classes[part]))
        mean = loss if scheme is None else dist.all_reduce(loss.detach(), "mean", group)
        rows.append((float(mean), float(norm)))
    values = {k: v.numpy() for k, v in state().items()} if state is not None else {}
    return np.array(rows), values, run.stats.replays if compiled else STEPS - 1


@pytest.fixture(scope="module")
def one_process() -> dict[str, Any]:
    return {name: train(None, False, name) for name in OPTIMIZERS}


@COMPILED
@pytest.mark.parametrize("name", SCHEMES)
def test_parity_with_one_process(name: str, compiled: bool, one_process: Any) -> None:
    scheme, counts = SCHEMES[name]
    if compiled:  # programs for several ranks differ in the number of ranks only
        counts = tuple(n for n in counts if n in (1, 3)) or counts[-1:]
    for optimizer in OPTIMIZERS if name == "zero" and not compiled else ("adamw",):
        rows, values, _ = one_process[optimizer]
        for ranks in counts:
            for found, state, replays in dist.run_fake(ranks, train, scheme, compiled, optimizer):
                np.testing.assert_allclose(found, rows, rtol=0, atol=TOLERANCE)
                for key in state:
                    np.testing.assert_allclose(state[key], values[key], rtol=0, atol=TOLERANCE)
                assert replays == STEPS - 1


@pytest.mark.parametrize("name", ["replicate", "fully sharded", "data x tensor"])
def test_a_checked_training_issues_each_collective_once(name: str, one_process: Any) -> None:
    """Rank 0 checks its replays, and the others do not."""
    def run() -> Any:
        return train(SCHEMES[name][0], True, check="always" if dist.get_rank() == 0 else None)

    for found, _, _ in dist.run_fake(4 if "tensor" in name else 2, run):
        np.testing.assert_allclose(found, one_process["adamw"][0], rtol=0, atol=TOLERANCE)


@COMPILED
def test_accumulation_without_synchronization(compiled: bool) -> None:
    """no_sync adds gradients of one rank; the next backward averages all of them."""
    def gradients(parts: int) -> Any:
        model = copy.deepcopy(MODEL)
        dist.replicate(model)
        begin = dist.get_rank() * 6
        size = 6 // parts

        def step(x: Any, y: Any) -> None:
            (F.cross_entropy(model(x).reshape(-1, 4), y.reshape(-1)) / parts).backward()

        run = fw.compile(step) if compiled else step
        for part in range(parts):
            rows = slice(begin + part * size, begin + (part + 1) * size)
            x, y = fw.tensor(TOKENS[0, rows]), fw.tensor(CLASSES[0, rows])
            if part < parts - 1:
                with dist.no_sync(model):
                    run(x, y)
            else:
                run(x, y)
        return [p.grad.numpy() for p in model.parameters()]

    whole, several = dist.run_fake(2, gradients, 1), dist.run_fake(2, gradients, 3)
    for a, b in zip(whole, several):
        for x, y in zip(a, b):
            np.testing.assert_allclose(x, y, rtol=0, atol=TOLERANCE)


def test_compiled_steps_see_changes_of_settings() -> None:
    """A learning rate, the mode of a layer, and hooks that the step did not set."""
    def run(compiled: bool) -> Any:
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
        model.to(fw.float64)
        for i, p in enumerate(model.parameters()):
            p.data = fw.tensor(np.random.default_rng(i).standard_normal(p.shape))
        model = dist.join_batches(model)
        model[2].eval()  # threads share a generator, so masks of ranks would differ
        dist.replicate(model)
        optimizer = dist.ZeroRedundancyOptimizer(fw.optim.SGD, model.parameters(), lr=0.1)
        x = fw.tensor(np.random.default_rng(dist.get_rank()).standard_normal((4, 3)))

        def step(x: Any) -> Any:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        called = fw.compile(step) if compiled else step
        losses = []
        for number in range(9):
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + number // 3)
            model[1].train(number % 4 != 3)
            losses.append(float(called(x)))
        return losses

    for a, b in zip(dist.run_fake(2, run, False), dist.run_fake(2, run, True)):
        assert a == pytest.approx(b, abs=TOLERANCE)


def test_a_parameter_without_gradient_takes_part() -> None:
    """One rank does not use a layer: its gradient counts as zeros there."""
    def gradient() -> Any:
        model = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)])
        dist.replicate(model)
        x = fw.ones((1, 2))
        loss = model[0](x).sum()
        (loss + model[1](x).sum() if dist.get_rank() == 0 else loss).backward()
        return model[1].weight.grad.tolist()

    assert dist.run_fake(2, gradient) == [[[0.5, 0.5]]] * 2


@COMPILED
def test_batch_normalization_of_the_joint_batch(compiled: bool) -> None:
    fw.manual_seed(1)
    network = nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(fw.float64)
    batch = np.random.default_rng(3).standard_normal((8, 3, 4))

    def run(ranks: int) -> Any:
        model, rank = copy.deepcopy(network), dist.get_rank() if ranks else 0
        if ranks:
            model = dist.join_batches(model)
            dist.replicate(model)
        share = 8 // max(ranks, 1)
        x = fw.tensor(batch[rank * share:(rank + 1) * share])
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> None:
            loss = (model(x) ** 3).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        called = fw.compile(step, fullgraph=True) if compiled else step
        for _ in range(4):
            called(x)
        return [v.numpy() for v in model.state_dict().values()]

    expected = run(0)
    for ranks in (1, 4):
        for found in dist.run_fake(ranks, run, ranks):
            for a, b in zip(found, expected):
                np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE)


@COMPILED
@pytest.mark.parametrize("data", [1, 2])
def test_pipelines(compiled: bool, data: int) -> None:
    """Stages on ranks, and two pipelines that share the batch."""
    fw.manual_seed(2)
    stages = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()).to(fw.float64) for _ in range(4)]
    x, y = (np.random.default_rng(i).standard_normal((8, 6)) for i in (4, 5))

    def run(depth: int) -> tuple[list[Any], list[Any]]:
        own = copy.deepcopy(stages)
        if not depth:
            model = nn.Sequential(*own)
            optimizer = fw.optim.AdamW(model.parameters(), lr=0.01)
            losses = []
            for _ in range(4):
                loss = F.mse_loss(model(fw.tensor(x)), fw.tensor(y))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(float(loss))
            return losses, [p.numpy() for p in model.parameters()]
        mesh = dist.init_device_mesh((data, depth), ("data", "pipe"))
        rank, share = mesh["pipe"].rank, 4 // depth
        model = nn.Sequential(*own[rank * share:(rank + 1) * share])
        optimizer = fw.optim.AdamW(model.parameters(), lr=0.01)
        pipe = dist.pipeline(fw.compile(lambda z: model(z)) if compiled else model, F.mse_loss,
                             mesh["pipe"], microbatches=4)
        rows = slice(mesh["data"].rank * 8 // data, (mesh["data"].rank + 1) * 8 // data)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = pipe.step(fw.tensor(x[rows]), fw.tensor(y[rows]))
            for p in model.parameters():
                p.grad = dist.all_reduce(p.grad, "mean", mesh["data"])
            optimizer.step()
            losses.append(None if loss is None else
                          float(dist.all_reduce(loss, "mean", mesh["data"])))
        return losses, [p.numpy() for p in model.parameters()]

    losses, parameters = run(0)
    for depth in (2, 4) if data == 1 else (2,):
        ranks = dist.run_fake(depth * data, run, depth)
        np.testing.assert_allclose(ranks[-1][0], losses, rtol=0, atol=TOLERANCE)
        found = [p for _, own in ranks[-depth:] for p in own]
        for a, b in zip(found, parameters, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE)


def test_shards_of_a_parameter_that_two_layers_share() -> None:
    def train_tied(scheme: bool) -> Any:
        model = nn.ModuleList([nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)]).to(fw.float64)
        model[1].weight = model[0].weight
        with fw.no_grad():
            model[0].weight.copy_(fw.tensor(np.arange(15.0).reshape(5, 3) / 10))
        if scheme:
            dist.fully_shard(model)
            assert len(list(model.parameters())) == 1
        optimizer = fw.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model[1](model[0](fw.tensor([1, 2, 4]))).square().mean().backward()
            optimizer.step()
        return model[0].weight.numpy()

    for found in dist.run_fake(2, train_tied, True):
        np.testing.assert_allclose(found, train_tied(False), rtol=0, atol=TOLERANCE)


def test_samplers_share_a_data_set() -> None:
    shares = dist.run_fake(3, lambda: list(dist.sampler(range(7), shuffle=False)))
    assert shares == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]


def mesh_of_two() -> Any:
    return dist.init_device_mesh((2,), ("model",))


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda m: dist.shard(m, {"tabel.weight": P("model", None)}, mesh_of_two()), ArgumentError,
     "'tabel.weight' matches no weight"),
    (lambda m: dist.shard(m, {"up.weight": P("model")}, mesh_of_two()), ArgumentError,
     "must cut one of two axes"),
    (lambda m: dist.shard(m, {"up.weight": P("data", None)}, mesh_of_two()), ArgumentError,
     "no axis 'data'"),
    (lambda m: dist.shard(m, {"up.weight": P("model", None)}, mesh_of_two(), ["down"]),
     ArgumentError, "stays_cut names"),
    (lambda m: dist.shard(nn.Sequential(nn.Linear(3, 5)), {"0.weight": P("model", None)},
                          mesh_of_two()), ShapeError, "2 ranks cannot share axis 0"),
    (lambda m: dist.replicate(dist.replicate(m)), StateError, "replicated already"),
    (lambda m: dist.no_sync(m).__enter__(), StateError, "not replicated"),
    (lambda m: dist.pipeline(m, F.mse_loss, microbatches=0), ArgumentError, "at least 1"),
    (lambda m: dist.fully_shard(dist.fully_shard(m)), StateError, "has a parametrization"),
    (lambda m: dist.clip_grad_norm_(m.parameters(), 1.0, 0.0), ArgumentError, "above 0"),
])
def test_bad_arguments(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        dist.run_fake(2, lambda: call(copy.deepcopy(MODEL)), timeout=5)
