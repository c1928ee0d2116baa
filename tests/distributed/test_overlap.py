"""Buckets of gradients are reduced while the backward goes on, in eager and in compiled steps."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.distributed as dist
from fusewire import nn
from fusewire.codegen.partition import hybrid_executable
from fusewire.codegen.partition.partition import GraphPart, LibraryCall, is_begun
from fusewire.distributed import P
from fusewire.distributed.buckets import buckets
from fusewire.distributed.groups import membership

LAYERS = 3
SIZE = 64


def network() -> nn.Module:
    """A model of several layers, each of which fills a bucket of its own."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(SIZE, SIZE), nn.Tanh()) for _ in range(LAYERS)])
    for i, p in enumerate(model.parameters()):
        p.data = fw.tensor(np.random.default_rng(i).standard_normal(p.shape).astype(np.float32))
    return dist.replicate(model, bucket_mb=0.016)


def rows() -> Any:
    numbers = np.random.default_rng(100 + dist.get_rank()).standard_normal((32, SIZE))
    return fw.tensor(numbers.astype(np.float32))


@pytest.mark.parametrize(("layers", "limit_mb", "expected"), [
    (9, 25, [1] * 9), (64, 25, [4] * 16), (64, 3.5, [3] * 21 + [1]), (8, 0.5, [1] * 8)])
def test_no_bucket_is_a_large_part_of_a_model(layers: int, limit_mb: float, expected: list[int]
                                              ) -> None:
    """The last bucket is hidden by nothing. A layer has 1 MB, and a bias of a few bytes, which
    makes no bucket of its own unless that is the limit."""
    sizes = [1, 1 << 18] * layers
    found = buckets([fw.Tensor(np.broadcast_to(np.float32(0), n)) for n in sizes],
                    int(limit_mb * (1 << 20)))
    assert [round(sum(p.size for p in bucket) / (1 << 18)) for bucket in found if
            len(bucket) > 1 or bucket[0].size > 1] == expected


def test_buckets_begin_before_the_backward_has_ended() -> None:
    def run() -> list[int]:
        model, begun, seen = network(), [], []
        own = membership()
        begin = own.begin
        own.begin = lambda *args: begun.append(args) or begin(*args)  # type: ignore[method-assign]
        model[0][0].weight.register_hook(lambda g: seen.append(len(begun)))
        model(rows()).square().sum().backward()
        return [*seen, len(begun)]

    assert dist.run_fake(2, run) == [[LAYERS - 1, LAYERS]] * 2


@pytest.fixture
def noted_steps(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The steps of each compiled program, in the order in which programs are made."""
    found: list[list[Any]] = []
    make = hybrid_executable.HybridExecutable.__init__

    def noting(self: Any, graph: Any, steps: Any, *others: Any) -> None:
        found.append(list(steps))
        make(self, graph, steps, *others)

    monkeypatch.setattr(hybrid_executable.HybridExecutable, "__init__", noting)
    return found


def test_a_compiled_step_is_cut_where_a_bucket_is_full(noted_steps: list[list[Any]]) -> None:
    """Work lies between the calls, and nothing waits for a sum before the last call has begun."""
    def run() -> None:
        model = network()
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1)

        @fw.compile(fullgraph=True)
        def step(x: Any) -> None:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        for _ in range(3):
            step(rows())

    dist.run_fake(2, run)
    cut = [steps for steps in noted_steps if any(isinstance(step, GraphPart) for step in steps)]
    assert len(cut) >= 2
    for steps in cut:
        calls = [i for i, step in enumerate(steps)
                 if isinstance(step, LibraryCall) and is_begun(step.node)]
        assert len(calls) == LAYERS
        for before, after in itertools.pairwise(calls):
            assert any(isinstance(step, GraphPart) for step in steps[before:after])
        sums = {steps[i].node for i in calls}
        for i, step in enumerate(steps[:calls[-1]]):
            assert i in calls or not sums & set(step.reads)


def test_buckets_begin_between_the_collectives_of_cut_layers(noted_steps: list[list[Any]]) -> None:
    """Data x tensor parallel: the backward goes on with collectives of other groups, which wait for
    no bucket. Ranks of one mesh replay what those of the other still trace."""
    def run() -> list[Any]:
        mesh = dist.init_device_mesh((2, 2), ("data", "model"))
        model = nn.Sequential(*[nn.Sequential(nn.Linear(SIZE, SIZE), nn.Tanh())
                                for _ in range(LAYERS)]).to(fw.float64)
        for i, p in enumerate(model.parameters()):
            p.data = fw.tensor(np.random.default_rng(i).standard_normal(p.shape) / 8)
        dist.shard(model, {"*.0.weight": P("model", None)}, mesh)
        dist.replicate(model, mesh["data"], bucket_mb=0.016)

        def step(x: Any) -> Any:
            model.zero_grad()
            model(x).square().sum().backward()
            return model[0][0].weight.grad + 0

        called, rank = fw.compile(step, fullgraph=True), dist.get_rank()
        x = fw.tensor(np.random.default_rng(mesh["data"].rank).standard_normal((32, SIZE)))
        found = [step(x).numpy()]
        for number in range(6):
            if number == rank:
                called.clear()
            found.append((step if (number + rank) % 3 == 0 else called)(x).numpy())
        return found

    for eager, *others in dist.run_fake(4, run):
        for values in others:
            np.testing.assert_allclose(values, eager, rtol=0, atol=1e-13)
    cut = [steps for steps in noted_steps if any(isinstance(s, GraphPart) for s in steps)]
    assert cut
    for steps in cut:
        begun = [i for i, s in enumerate(steps) if isinstance(s, LibraryCall) and is_begun(s.node)]
        between = [s for s in steps[begun[0]:begun[-1]] if isinstance(s, LibraryCall)
                   and s.node.op == "all_reduce" and not is_begun(s.node)]
        assert len(begun) == LAYERS and len(between) == LAYERS - 1


def test_a_backward_after_one_that_failed() -> None:
    """What it had begun does not count."""
    def run() -> Any:
        model = network()
        with model[0][0].weight.register_hook(lambda g: 1 / 0), pytest.raises(ZeroDivisionError):
            (model(rows()) * 100).sum().backward()
        model.zero_grad()
        model(rows()).sum().backward()
        return [p.grad.numpy() for p in model.parameters()]

    def expected() -> Any:
        model = network()
        model(rows()).sum().backward()
        return [p.grad.numpy() for p in model.parameters()]

    for a, b in zip(dist.run_fake(2, run)[0], dist.run_fake(2, expected)[0]):
        np.testing.assert_array_equal(a, b)


def test_an_error_in_a_bucket_is_raised_by_the_backward() -> None:
    """One rank waits for a bucket of another, which runs no backward."""
    def run() -> None:
        model = network()
        if dist.get_rank() == 0:
            model(rows()).sum().backward()

    with pytest.raises(fw.CollectiveError, match=r"gradients of bucket 0.*rank 1"):
        dist.run_fake(2, run, timeout=0.3)


def test_collectives_of_a_group_stay_in_order() -> None:
    """One that waits comes behind those that have begun."""
    def run() -> list[float]:
        own = membership()
        params = {"group": "world", "size": 2, "site": "", "reduce": "sum"}
        futures = [own.begin("all_reduce", np.full(2, float(i)), params) for i in range(3)]
        last = float(dist.all_reduce(fw.tensor(5.0)))
        return [*(float(f.result()[0]) for f in futures), last]

    assert dist.run_fake(2, run, delay=lambda size: 0.01) == [[0.0, 2.0, 4.0, 10.0]] * 2
