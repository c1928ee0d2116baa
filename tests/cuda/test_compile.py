"""`fw.compile` on tensors of a GPU: the same decorator, kernels of CUDA, run by the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulated_gpu import EmulatedGpu
from gpus import BOTH

import fusewire as fw
from fusewire import nn
from fusewire.capture.replay.compiled_function import CaptureWarning
from fusewire.codegen.partition.hybrid_executable import HybridExecutable
from fusewire.eager.ops import range_checks
from fusewire.eager.ops.shape.take import add_at
from fusewire.nn import functional as F

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("gpus")]


def numbers(*shape: int) -> fw.Tensor:
    return fw.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def same(fn: Callable[..., Any], *args: fw.Tensor, calls: int = 4) -> Any:
    """The compiled function, whose every call on a GPU gives what the function gives on the CPU."""
    compiled = fw.compile(fn)
    want = fn(*args)
    for _ in range(calls):
        got = compiled(*[x.cuda() for x in args])
        assert got.device == "cuda:0"
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), 1e-5, 1e-6)
    assert compiled.stats.recordings == 1 and not compiled.refusals
    return compiled


def parts(compiled: Any) -> list[str]:
    """What computes a recorded call: the device of each program, and the ops that are called."""
    (segment,) = compiled.programs[0].segments()
    assert isinstance(segment.executable, HybridExecutable)
    return [getattr(s, "device", "") or s.node.op for s in segment.executable.steps]


def test_a_function_is_one_program_of_kernels(gpus: list[EmulatedGpu]) -> None:
    compiled = same(lambda x, y: (x * y + 1).tanh().sum(1), numbers(3, 40), numbers(3, 40))
    assert gpus[0].launches == ["k0_sum"] * 3 and not gpus[1].launches
    assert parts(compiled) == ["cuda:0"]


def test_each_device_has_a_recording_of_its_own(gpus: list[EmulatedGpu]) -> None:
    f = fw.compile(lambda x: x * 2 + 1)
    for x in [numbers(5), numbers(5).to("cuda:1"), numbers(5).to("cuda:0")] * 4:
        assert f(x).device == x.device
        np.testing.assert_array_equal(f(x).cpu().numpy(), numbers(5).numpy() * 2 + 1)
    assert f.stats.recordings == 3 and gpus[0].launches and gpus[1].launches
    assert [why.partition(" on ")[2] for why in f.misses] == ["cpu", "cuda:1"]


def test_tensors_go_from_device_to_device_inside() -> None:
    @fw.compile
    def f(x: fw.Tensor) -> tuple[fw.Tensor, ...]:
        y = (x.exp() + 1).to("cuda:0")
        z = (y * y).sqrt().to("cuda:1") * 3
        return y, z, x + 1, fw.zeros(2, device="cuda") + 1

    for _ in range(4):
        y, z, w, v = f(numbers(4, 4))
        assert [t.device for t in (y, z, w, v)] == ["cuda:0", "cuda:1", "cpu", "cuda:0"]
        np.testing.assert_allclose(z.cpu().numpy(), 3 * (np.exp(numbers(4, 4).numpy()) + 1), 1e-6)
        assert v.cpu().tolist() == [1.0, 1.0]
    assert f.stats.recordings == 1


@BOTH
def test_numbers_of_the_cpu_beside_arrays_of_a_gpu() -> None:
    @fw.compile
    def f(x: fw.Tensor, scale: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        more = scale * scale + 1
        return x * more, more

    for n in range(4):
        y, more = f(numbers(6).cuda(), fw.tensor(float(n)))
        assert (y.device, more.device) == ("cuda:0", "cpu")
        np.testing.assert_allclose(y.cpu().numpy(), numbers(6).numpy() * (n * n + 1), 1e-6)


@BOTH
def test_what_is_made_of_nothing_is_made_where_it_is_wanted() -> None:
    compiled = same(lambda x: x + fw.arange(6, dtype=fw.float32, device=x.device) * 2, numbers(6))
    assert parts(compiled) == ["cuda:0"]


@BOTH
def test_decisions_on_values() -> None:
    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        if x.sum() > 0:
            return x * 2
        while x.max() > -8:
            x = x * 2
        return x

    for x in [fw.ones(3), -fw.ones(3), fw.ones(3), -2 * fw.ones(3)] * 3:
        want = f.original(x)
        np.testing.assert_array_equal(f(x.cuda()).cpu().numpy(), want.numpy())
    assert not f.refusals


@BOTH
def test_numbers_that_differ_from_call_to_call() -> None:
    f = fw.compile(lambda x, n: x * n + n)
    for n in (1.0, 2.5, 3.5, -4.0, 5.0):
        np.testing.assert_array_equal(f(numbers(5).cuda(), n).cpu().numpy(),
                                      numbers(5).numpy() * np.float32(n) + np.float32(n))
    assert f.stats.recordings <= 2


@BOTH
def test_sizes_that_differ_from_call_to_call() -> None:
    f = fw.compile(lambda x: F.softmax(x, 1))
    for n in (3, 4, 5, 4, 5, 6, 5):
        np.testing.assert_allclose(f(numbers(n, 7).cuda()).cpu().numpy(),
                                   F.softmax(numbers(n, 7), 1).numpy(), 1e-5)
    assert f.stats.recordings <= 2


@BOTH
def test_gradients_go_back_through_a_compiled_function() -> None:
    f = fw.compile(lambda x, w: F.gelu(x @ w).sum())
    for _ in range(3):
        x, w = numbers(4, 5), numbers(5, 3)
        grads = []
        for device in ("cpu", "cuda"):
            leaves = [t.detach().to(device) for t in (x, w)]
            for t in leaves:
                t.requires_grad = True
            f(*leaves).backward()
            assert all(t.grad.device == t.device for t in leaves)
            grads.append([t.grad.cpu().numpy() for t in leaves])
        for got, want in zip(*grads):
            np.testing.assert_allclose(got, want, 1e-4, 1e-5)


@BOTH
def test_changes_in_place() -> None:
    @fw.compile
    def f(x: fw.Tensor) -> None:
        x += 1
        x[0] = x[1] * 2

    x, y = numbers(4), numbers(4).cuda()
    for _ in range(4):
        f.original(x)
        f(y)
        np.testing.assert_array_equal(y.cpu().numpy(), x.numpy())


@BOTH
def test_an_index_out_of_range_is_an_error() -> None:
    f = fw.compile(lambda w, i: w[i] * 2)
    w = numbers(5, 3).cuda()
    for _ in range(3):
        assert f(w, fw.tensor([0, 4], device="cuda")).shape == (2, 3)
    with pytest.raises(IndexError, match="7 is out of range for size 5"):
        f(w, fw.tensor([0, 7], device="cuda"))


@pytest.mark.parametrize(("values", "dtype", "found"), [
    ([0, 4, 2], fw.int64, True), ([0, 5], fw.int32, False), ([-5, 4], fw.int16, True),
    ([-6], fw.int64, False), ([255, 0], fw.uint8, False), ([2 ** 62], fw.int64, False)])
def test_indices_are_looked_at_by_one_kernel(values: list[int], dtype: Any, found: bool,
                                             gpus: list[EmulatedGpu]) -> None:
    x = fw.tensor(values, dtype=dtype, device="cuda")
    assert range_checks.in_range(x._data, 5, -5) == found
    assert len(gpus[0].launches) == 1


@BOTH
def test_training_with_dropout_is_that_of_the_cpu() -> None:
    """The same numbers are drawn, and the optimizer's state is where its parameters are."""
    losses = {}
    for device in ("cpu", "cuda"):
        fw.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4))
        model.to(device)
        optimizer = fw.optim.AdamW(model.parameters(), lr=1e-2)

        @fw.compile(fullgraph=True)
        def step(x: fw.Tensor, t: fw.Tensor, model: Any = model, optimizer: Any = optimizer
                 ) -> fw.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), t)
            loss.backward()
            optimizer.step()
            return loss

        x, t = numbers(12, 8).to(device), fw.arange(12).to(device) % 4
        losses[device] = [step(x, t).item() for _ in range(5)]
        assert step.stats.recordings == 1
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], 1e-4)


@BOTH
def test_what_cannot_be_recorded_runs_as_it_is() -> None:
    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        with open(__file__, encoding="utf-8") as file:
            return x * 2 + len(file.read(3))

    with pytest.warns(CaptureWarning):
        for _ in range(6):
            assert f(fw.ones(2, device="cuda")).tolist() == [5.0, 5.0]


@BOTH
def test_code_is_compared_with_numpy() -> None:
    f = fw.compile(lambda x: x.exp().sum(0), check="always")
    for _ in range(3):
        np.testing.assert_allclose(f(numbers(3, 4).cuda()).cpu().numpy(),
                                   np.exp(numbers(3, 4).numpy()).sum(0), 1e-5)


@BOTH
def test_what_is_known_of_it_can_be_read() -> None:
    f = same(lambda x: x.exp().sum(0), numbers(3, 4))
    assert "__global__" in f.code() and "k0_sum" in f.explain()


def test_it_is_not_saved(tmp_path: Any) -> None:
    f = same(lambda x: x.exp(), numbers(3))
    with pytest.raises(fw.ExportError, match="computes on cuda:0"):
        f.save(tmp_path / "f.fw")


ROWS = fw.tensor([3, 0, 3, 1, 3, 0])


@BOTH
def test_rows_that_meet_in_one_place_are_added_by_kernels() -> None:
    def gradient(w: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
        w = w.detach().requires_grad_()
        return fw.grad((w[i] * w[0]).tanh().sum(), [w])[0]

    compiled = same(gradient, numbers(5, 3), ROWS)
    assert parts(compiled) == ["cuda:0"]


@BOTH
@pytest.mark.parametrize("reduce", ["add", None])
def test_calls_of_numpy_are_made_of_other_ops(reduce: str | None) -> None:
    def f(x: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
        return fw.scatter(fw.sort(x.tanh(), 0), 0, i, x.exp() * 2, reduce) + 1

    compiled = same(f, numbers(6, 3), fw.tensor([[3, 0, 1], [2, 2, 2], [5, 4, 1]] * 2))
    assert parts(compiled) == ["cuda:0"]


@BOTH
def test_rows_added_on_the_cpu_are_kernels_there() -> None:
    def f(x: fw.Tensor, i: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        rows = add_at((x.exp() * 3).tanh() + x, i, 5).sin() * 2 + 1
        return rows.exp().to(y.device) * y + 1

    compiled, given = fw.compile(f), (numbers(6, 3), ROWS, numbers(5, 3))
    for _ in range(4):
        got = compiled(*given[:2], given[2].cuda())
        np.testing.assert_allclose(got.cpu().numpy(), f(*given).numpy(), 1e-5, 1e-6)
    assert parts(compiled) == ["cpu", "transfer", "cuda:0"]


@BOTH
def test_a_library_call_on_the_cpu_stands_between_kernels() -> None:
    def f(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        rows = fw.special.gammainc(x * x + 1, (x.exp() * 3).tanh() + 1).sin() * 2 + 1
        return rows.exp().to(y.device) * y + 1

    compiled, arguments = fw.compile(f), (numbers(6, 3), numbers(6, 3))
    for _ in range(4):
        got = compiled(arguments[0], arguments[1].cuda())
        np.testing.assert_allclose(got.cpu().numpy(), f(*arguments).numpy(), 1e-5, 1e-6)
    assert parts(compiled) == ["cpu", "gammainc", "cpu", "transfer", "cuda:0"]


def test_a_size_that_depends_on_values(gpus: list[EmulatedGpu]) -> None:
    same(lambda x: x[x > 0].exp().sum(), numbers(9))
