"""What follows from the registration of a back end: devices, errors, graphs on several devices."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from backends.c_source.arrays import CArray, CDevices
from backends.c_source.backend import compiled

import fusewire as fw
from fusewire.codegen.backend import register, unregister
from fusewire.eager.arrays.device_type import DeviceType


def numbers(*shape: int, device: str = "c:0", seed: int = 0) -> fw.Tensor:
    drawn = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return fw.tensor(drawn, device=device)


def same(function: Any, *xs: fw.Tensor) -> fw.Tensor:
    """The result of a function, compiled on the devices of its arguments, which is the CPU's."""
    f = fw.compile(function, fullgraph=True)
    for _ in range(3):
        found = f(*xs)
    assert f.stats.replays == 2 and not f.stats.fallbacks
    expected = function(*[x.cpu() for x in xs])
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    return found


def test_names_and_moves() -> None:
    x = fw.tensor([1.0, 2.0], device="c")
    assert x.device == "c:0" and x.to("c:1").device == "c:1" and x.cpu().device == "cpu"
    assert not x.is_cuda and repr(x) == "tensor([1., 2.], device='c:0')"
    assert pickle.loads(pickle.dumps(x)).device == copy.deepcopy(x).device == "c:0"
    with pytest.raises(fw.DeviceError, match=r'"c:2" is not available[^$]*"c:0", "c:1"'):
        x.to("c:2")


def test_arrays_are_not_numpys() -> None:
    x = fw.tensor([1.0, 2.0], device="c:0")
    assert type(x._data) is CArray
    with pytest.raises(fw.DeviceError, match="NumPy cannot read the memory of a tensor on c:0"):
        x.numpy()
    for use in (np.asarray, np.add.reduce, lambda a: np.float32(1) + a, lambda a: a + np.ones(2),
                memoryview, lambda a: np.from_dlpack(a)):
        with pytest.raises((TypeError, AttributeError)):
            use(x._data)  # type: ignore[operator]


def test_operands_on_two_devices() -> None:
    with pytest.raises(fw.DeviceError, match="add: the operands are on c:0 and cpu"):
        numbers(3) + fw.ones(3)
    with pytest.raises(fw.DeviceError, match="add: the operands are on c:0 and c:1"):
        numbers(3) + numbers(3, device="c:1")


def test_a_graph_on_three_devices() -> None:
    def function(x: fw.Tensor, y: fw.Tensor, z: fw.Tensor) -> fw.Tensor:
        a = (x.exp() * 2).to(y.device)
        return ((a + y).sum(axis=1).to(z.device) * z).cumsum(0)

    out = same(function, numbers(4, 5), numbers(4, 5, device="c:1"), numbers(4, device="cpu"))
    assert out.device == "cpu"


def test_an_op_without_code_is_a_library_call_in_a_program(back_end: CDevices) -> None:
    def function(x: fw.Tensor) -> fw.Tensor:
        return fw.linalg.inv((x @ x.mT).tanh() + fw.eye(4, device=x.device) * 9).exp() + 1

    assert same(function, numbers(4, 4)).device == "c:0"
    assert {*back_end.calls} == {"inv"}


def test_sizes_that_change() -> None:
    f = fw.compile(lambda x: (x * 2).exp().sum(axis=0), dynamic=True, fullgraph=True)
    for size in (3, 4, 7, 200, 5):
        x = numbers(size, 3, seed=size)
        np.testing.assert_allclose(f(x).cpu().numpy(), (x.cpu() * 2).exp().sum(axis=0).numpy(),
                                   rtol=1e-5)


def test_training_steps_are_those_of_the_cpu() -> None:
    def trained(device: str) -> list[float]:
        fw.manual_seed(3)
        model = fw.nn.Sequential(fw.nn.Linear(4, 8), fw.nn.Tanh(), fw.nn.Linear(8, 3)).to(device)
        optimizer = fw.optim.Adam(model.parameters(), lr=0.05)

        @fw.compile
        def step(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = fw.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        x, y = numbers(6, 4, device=device), fw.tensor([0, 1, 2, 0, 1, 2], device=device)
        return [float(step(x, y)) for _ in range(6)]

    here, there = trained("cpu"), trained("c:0")
    np.testing.assert_allclose(there, here, rtol=1e-4)
    assert here[-1] < here[0]


def test_an_index_out_of_range() -> None:
    x, i = numbers(5), fw.tensor([0, 5], device="c:0")
    for function in (fw.take, fw.compile(lambda x, i: fw.take(x, i))):
        with pytest.raises(IndexError, match="5 is out of range for size 5"):
            function(x, i)


def test_code_is_shown_for_functions_of_the_cpu_too() -> None:
    f = fw.compile(lambda x: x.exp().sum())
    f(fw.ones(3))
    assert "expf(" in f.code("c") and "void run(" in f.code("c")
    with pytest.raises(fw.ArgumentError, match="'llvm', 'asm', 'cuda', 'c'"):
        f.code("wgsl")


def test_a_source_that_the_compiler_refuses() -> None:
    with pytest.raises(RuntimeError, match="the C compiler refuses the source"):
        compiled("void run(")


def test_a_back_end_leaves_again() -> None:
    class Others(DeviceType):
        name = "others"

    register(Others(), lambda: pytest.fail("no code was asked for"))
    assert "others:0" in fw.eager.arrays.devices.names()
    unregister("others")
    with pytest.raises(fw.DeviceError, match="'others' is not available"):
        fw.ones(3).to(device="others")
