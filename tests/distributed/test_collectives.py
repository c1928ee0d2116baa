"""Collectives of the fake engine: results against NumPy, gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.distributed as dist
from fusewire.distributed.engines.engine import ProcessGroup, combined
from fusewire.distributed.engines.host_engine import HostEngine
from fusewire.distributed.engines.transport import Late, Lost
from fusewire.eager.arrays.dtypes import COMPUTED, STORED
from fusewire.eager.errors import ArgumentError, AxisError, CollectiveError, DTypeError, ShapeError

# name: the collective as a function of a tensor, and its kind and params for `combined`
COLLECTIVES: dict[str, tuple[Callable[[Any], Any], str, dict[str, Any]]] = {
    "sum": (dist.all_reduce, "all_reduce", {"reduce": "sum"}),
    "max": (lambda x: dist.all_reduce(x, "max"), "all_reduce", {"reduce": "max"}),
    "min": (lambda x: dist.all_reduce(x, "min"), "all_reduce", {"reduce": "min"}),
    "gather": (dist.all_gather, "all_gather", {"axis": 0}),
    "gather last": (lambda x: dist.all_gather(x, -1), "all_gather", {"axis": 1}),
    "scatter": (dist.reduce_scatter, "reduce_scatter", {"axis": 0}),
    "scatter last": (lambda x: dist.reduce_scatter(x, 1), "reduce_scatter", {"axis": 1}),
    "exchange": (lambda x: dist.all_to_all(x, 0, 1), "all_to_all", {"split": 0, "concat": 1}),
    "broadcast": (lambda x: dist.broadcast(x, 1), "broadcast", {"root": 1}),
    "shift": (dist.shift, "shift", {"by": 1}),
    "shift back": (lambda x: dist.shift(x, -2), "shift", {"by": -2}),
}
REDUCING = {"sum", "max", "min", "scatter", "scatter last"}


def inputs(ranks: int, dtype: Any = np.float64, shape: tuple[int, ...] = (6, 12)) -> list[Any]:
    """An array for each rank."""
    numbers = np.random.default_rng(0).integers(0, 3, (ranks, *shape))
    return [n.astype(dtype) for n in numbers]


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("ranks", [2, 3])
def test_results_of_each_dtype_and_of_no_elements(name: str, ranks: int) -> None:
    function, kind, params = COLLECTIVES[name]
    for dtype in COMPUTED if name in REDUCING else (*COMPUTED, *STORED):
        reduces_numbers = name in REDUCING and name not in ("max", "min")
        if (reduces_numbers and dtype.kind == "b") or (name in ("max", "min")
                                                       and dtype.kind == "c"):
            continue
        for shape in ((6, 12), (6, 0), (0, 6)):
            arrays = inputs(ranks, dtype, shape)
            results = dist.run_fake(ranks, lambda a=arrays: function(fw.from_numpy(
                a[dist.get_rank()].copy()))._data)
            for rank, result in enumerate(results):
                assert result.dtype == dtype
                expected = combined(kind, arrays, rank, params)
                np.testing.assert_array_equal(result.astype(np.complex128),
                                              expected.astype(np.complex128))


def total(ranks: int, arrays: list[Any], weights: list[Any], function: Callable[[Any], Any]
          ) -> float:
    """The sum over the ranks of each one's weighted result."""
    def one() -> float:
        rank = dist.get_rank()
        return float((function(fw.tensor(arrays[rank])) * fw.tensor(weights[rank])).sum())

    return sum(dist.run_fake(ranks, one))


# From a varying value to varying ones: the sum of the ranks' results is what gradients are of.
VARYING = ["gather", "gather last", "scatter", "scatter last", "exchange", "broadcast", "shift",
           "shift back"]


@pytest.mark.parametrize("name", VARYING)
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_equal_finite_differences_summed_over_ranks(name: str, compiled: bool) -> None:
    ranks, function = 3, COLLECTIVES[name][0]
    rng = np.random.default_rng(1)
    arrays = list(rng.standard_normal((ranks, 3, 3)))
    shape = dist.run_fake(ranks, lambda: function(fw.tensor(arrays[0])).shape)[0]
    weights = list(rng.standard_normal((ranks, *shape)))

    def gradients() -> Any:
        rank = dist.get_rank()
        x = fw.tensor(arrays[rank]).requires_grad_()
        run = fw.compile(function, fullgraph=True) if compiled else function
        for _ in range(3):
            x.grad = None
            (run(x) * fw.tensor(weights[rank])).sum().backward()
        return x.grad.numpy()

    found = dist.run_fake(ranks, gradients)
    for rank in range(ranks):
        for index in ((0, 0), (1, 2), (2, 1)):
            moved = [a.copy() for a in arrays]
            moved[rank][index] += 1.0
            difference = total(ranks, moved, weights, function) \
                - total(ranks, arrays, weights, function)
            assert found[rank][index] == pytest.approx(difference, abs=1e-12)  # it is linear


def test_replicated_values() -> None:
    """A loss that all ranks share counts once; its gradient with respect to a replicated weight is
    the sum over the ranks, as of one process."""
    def parts() -> tuple[Any, Any]:
        x = fw.tensor(np.arange(4.0) + dist.get_rank())
        w = fw.tensor([1.0, 2.0, 3.0, 4.0], dtype=fw.float64).requires_grad_()
        loss = dist.all_reduce((dist.replicate_values(w) * x).square().sum())
        loss.backward()
        return float(loss), w.grad.numpy()

    x = fw.tensor(np.stack([np.arange(4.0), np.arange(4.0) + 1]))
    w = fw.tensor([1.0, 2.0, 3.0, 4.0], dtype=fw.float64).requires_grad_()
    loss = (w * x).square().sum()
    loss.backward()
    for found, gradient in dist.run_fake(2, parts):
        assert found == float(loss)
        np.testing.assert_array_equal(gradient, w.grad.numpy())


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_gradient_of_extremes(reduce: str) -> None:
    """It goes to the ranks that have the extreme, in equal shares."""
    def gradient() -> Any:
        x = fw.tensor([1.0, 5.0, 2.0] if dist.get_rank() == 0 else [3.0, 5.0, 1.0])
        x.requires_grad_()
        dist.all_reduce(x, reduce).sum().backward()
        return x.grad.tolist()

    expected = [[0.0, 0.5, 1.0], [1.0, 0.5, 0.0]]
    assert dist.run_fake(2, gradient) == (expected if reduce == "max" else expected[::-1])


def test_second_gradients() -> None:
    def second() -> Any:
        x = fw.tensor([1.0, 2.0], dtype=fw.float64).requires_grad_()
        y = (dist.all_reduce(dist.replicate_values(x) ** 3)).sum()
        (g,) = fw.grad(y, [x], create_graph=True)
        return fw.grad(g.sum(), [x])[0].tolist()

    assert dist.run_fake(2, second) == [[12.0, 24.0]] * 2


def test_means_and_groups_of_a_mesh() -> None:
    def means() -> tuple[float, float]:
        mesh = dist.init_device_mesh((2, 2), ("data", "model"))
        x = fw.tensor(float(dist.get_rank()))
        return (float(dist.all_reduce(x, "mean", mesh["data"])),
                float(dist.all_reduce(x, "mean", mesh["model"])))

    assert dist.run_fake(4, means) == [(1.0, 0.5), (2.0, 0.5), (1.0, 2.5), (2.0, 2.5)]


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda x: dist.all_reduce(x, "average"), ArgumentError, "unknown reduction 'average'"),
    (lambda x: dist.all_gather(x, 2), AxisError, "axis 2 of a tensor with 2 axes"),
    (lambda x: dist.reduce_scatter(x), ShapeError, r"cannot share axis 0 of the shape \(3, 4\)"),
    (lambda x: dist.all_to_all(x), ShapeError, r"cannot share axis 0 of the shape \(3, 4\)"),
    (lambda x: dist.broadcast(x, 2), ArgumentError, "root 2 in a group of 2 ranks"),
    (lambda x: dist.all_reduce(x > 0), DTypeError, "does not take bool"),
    (lambda x: dist.init_device_mesh((3,), ("data",)), ArgumentError, "has 3 ranks"),
    (lambda x: dist.new_group([0, 0]), ArgumentError, "no distinct ranks"),
    (lambda x: dist.init_process_group(), ArgumentError, "there is a process group already"),
])
def test_bad_arguments(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        dist.run_fake(2, lambda: call(fw.ones((3, 4))))


def test_without_a_process_group() -> None:
    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    with pytest.raises(CollectiveError, match="there is no process group"):
        dist.all_reduce(fw.ones(2))


def test_ranks_that_ask_for_different_collectives() -> None:
    def different() -> None:
        dist.barrier()
        dist.all_reduce(fw.ones(2 + dist.get_rank()))

    with pytest.raises(CollectiveError, match=r"(?s)rank 0: .*number 2.*float32\[2\].*at "
                       r"|float32\[2\], reduce=sum, site=test_collectives.py"):
        dist.run_fake(2, different)


def test_a_rank_that_does_not_come() -> None:
    def late() -> None:
        dist.barrier()
        if dist.get_rank() == 0:
            dist.all_reduce(fw.ones(2))

    with pytest.raises(CollectiveError, match=r"rank 0 waited .* in collective number 2, all_reduce"
                       r".*for rank 1, last seen at collective number 1, barrier"):
        dist.run_fake(2, late, timeout=0.2)


def test_a_rank_that_does_not_exchange_objects() -> None:
    def late() -> None:
        if dist.get_rank() == 0:
            dist.all_gather_object("here")

    with pytest.raises(CollectiveError, match=r"rank 0 waited 0.2 s in an exchange of objects at "
                       r"test_collectives.py:\d+ of group 'world' for rank 1, which has not"):
        dist.run_fake(2, late, timeout=0.2)


def test_engines_of_the_host_name_who_does_not_exchange_objects() -> None:
    """Rank 5 answers the roll call. The connection to a rank is lost."""
    class Silent:
        def meet(self, own: Any, everybody: Any) -> None:
            raise error

        def roll_call(self, number: int) -> list[int]:
            return [2]

    engine, group = HostEngine(), ProcessGroup("some", (3, 4, 5), 0)
    engine._transports["some"] = Silent()  # type: ignore[assignment]
    error: Exception = Late(0.5)
    with pytest.raises(CollectiveError, match=r"rank 3 waited 0.5 s in an exchange of objects at "
                       r"a.py:1 of group 'some' for rank 4, which has not c"):
        engine.gather_objects(7, group, "a.py:1")
    error = Lost("reset")
    with pytest.raises(CollectiveError, match="rank 3 lost another rank of group 'some' in an"):
        engine.gather_objects(7, group)


def test_a_rank_that_raises() -> None:
    def failing() -> None:
        if dist.get_rank() == 1:
            raise KeyError("lost")
        dist.barrier()

    with pytest.raises(KeyError, match="lost"):
        dist.run_fake(2, failing)
