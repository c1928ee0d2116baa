"""Tensors on a GPU: made there, copied there and back, looked at, and their gradients."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import fusewire as fw


def test_made_on_a_device():
    for x in (fw.tensor([1.0, 2.0], device="cuda"), fw.zeros(2, device="cuda:0"),
              fw.full((2,), 3, device=0), fw.arange(4, device="cuda"), fw.eye(3, device="cuda"),
              fw.linspace(0, 1, 4, device="cuda"), fw.asarray([1, 2], device="cuda"),
              fw.zeros_like(fw.ones(2, device="cuda")), fw.fft.fftfreq(4, device="cuda")):
        assert x.device == "cuda:0" and x.is_cuda
    assert fw.zeros(2).device == "cpu" and not fw.zeros(2).is_cuda
    assert fw.ones(3, device="cuda:1").device == "cuda:1"


@pytest.mark.parametrize("make", [
    lambda **how: fw.arange(7, **how), lambda **how: fw.linspace(-1, 2, 5, **how),
    lambda **how: fw.eye(3, 4, k=1, **how), lambda **how: fw.full((2, 3), 1.5, **how),
    lambda **how: fw.fft.rfftfreq(6, **how)])
def test_the_same_values_as_on_the_cpu(make):
    np.testing.assert_array_equal(make(device="cuda").cpu().numpy(), make().numpy())


def test_copies_there_and_back():
    x = fw.tensor([1.0, 2.0])
    there = x.to("cuda")
    assert (there.device, there.cpu().device, there.to("cuda:1").device) == (
        "cuda:0", "cpu", "cuda:1")
    assert x.cuda(1).device == "cuda:1"
    assert x.to_device("cuda").to_device("cpu").tolist() == [1.0, 2.0]
    assert x.to("cuda", fw.float64).dtype == fw.float64
    assert x.to(there).device == "cuda:0"
    assert x.astype(fw.int64, device="cuda").tolist() == [1, 2]


def test_gradients_go_the_way_back():
    x = fw.tensor([1.0, 2.0], requires_grad=True)
    y = (x.to("cuda") ** 2).sum()
    assert y.device == "cuda:0"
    y.backward()
    assert x.grad.device == "cpu" and x.grad.tolist() == [2.0, 4.0]


def test_values_for_python():
    x = fw.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert x.sum().item() == 10.0 and float(x[0, 1]) == 2.0 and bool(x.sum() > 3)
    assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], device='cuda:0')"
    assert "cuda:0" in x._repr_html_()


@pytest.mark.parametrize("use", [np.asarray, lambda x: x.numpy(), np.array])
def test_numpy_is_told_to_ask_for_a_copy(use):
    with pytest.raises(fw.DeviceError, match=r'x\.to\("cpu"\)'):
        use(fw.ones(2, device="cuda"))


def test_operands_on_different_devices():
    x, y = fw.ones(2, device="cuda"), fw.ones(2)
    with pytest.raises(fw.DeviceError, match="add: the operands are on cpu and cuda:0"):
        x + y
    with pytest.raises(fw.DeviceError, match="cuda:0 and cuda:1"):
        x + fw.ones(2, device="cuda:1")


def test_a_cpu_tensor_without_axes_counts_as_a_number():
    x, scale = fw.ones(2, device="cuda"), fw.tensor(3.0, requires_grad=True)
    y = (x * scale).sum()
    y.backward()
    assert y.device == "cuda:0" and scale.grad.device == "cpu" and scale.grad.item() == 2.0


def test_devices_that_are_not_there():
    with pytest.raises(fw.DeviceError, match='"cuda:2" is not available'):
        fw.ones(2, device="cuda:2")
    assert fw.__array_namespace_info__().devices() == ("cpu", "cuda:0", "cuda:1")


def test_pickles_and_copies_stay_on_their_device():
    x = fw.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert made.device == "cuda:1" and made.requires_grad and made.tolist() == [1.0, 2.0]


def test_checkpoints_are_read_to_the_device_that_is_asked_for():
    file = io.BytesIO()
    fw.save({"x": fw.tensor([1.0, 2.0], device="cuda")}, file)
    for location, device in ((None, "cpu"), ("cuda:1", "cuda:1")):
        x = fw.load(io.BytesIO(file.getvalue()), map_location=location)["x"]
        assert x.device == device and x.tolist() == [1.0, 2.0]


def test_dlpack(cupy):
    x = fw.from_dlpack(cupy.arange(3))
    assert x.device == "cuda:0" and x.__dlpack_device__() == (2, 0)
    assert cupy.from_dlpack(x).tolist() == [0, 1, 2]
    assert fw.from_dlpack(np.arange(3), device="cuda").device == "cuda:0"
    assert fw.from_dlpack(x, device="cpu").numpy().tolist() == [0, 1, 2]


def test_a_change_in_place_keeps_the_device():
    x = fw.zeros(3, device="cuda")
    x[1] = 5.0
    x += 1
    assert x.device == "cuda:0" and x.tolist() == [1.0, 6.0, 1.0]
    x.copy_(fw.tensor([7.0, 8.0, 9.0]))
    assert x.device == "cuda:0" and x.tolist() == [7.0, 8.0, 9.0]
    assert x.fill_(2).device == "cuda:0"


def test_random_numbers_are_those_of_the_cpu():
    for draw in (lambda **how: fw.rand(5, 40, **how), lambda **how: fw.randn(7, **how),
                 lambda **how: fw.randint(-5, 2**40, (9,), **how),
                 lambda **how: fw.randperm(6, **how)):
        fw.manual_seed(3)
        here = draw()
        fw.manual_seed(3)
        there = draw(device="cuda")
        assert there.device == "cuda:0"
        np.testing.assert_allclose(there.cpu().numpy(), here.numpy(), rtol=1e-6)
    generator = fw.Generator(1, device="cuda")
    assert fw.rand(3, generator=generator).device == "cuda:0"
