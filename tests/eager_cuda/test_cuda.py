"""`fw.cuda`: devices, streams and memory, by the names that PyTorch has for them."""

from __future__ import annotations

import pytest

import fusewire as fw


def test_devices():
    assert fw.cuda.is_available() and fw.cuda.device_count() == 2
    assert fw.cuda.current_device() == 0
    with fw.cuda.device("cuda:1"):
        assert fw.ones(2, device="cuda").device == "cuda:1"
    with fw.cuda.device(None):
        assert fw.cuda.current_device() == 0
    fw.cuda.set_device(1)
    assert fw.ones(2, device="cuda").device == "cuda:1"
    assert fw.cuda.get_device_name() == "Not a GPU"
    assert fw.cuda.get_device_capability() == (9, 0)
    with pytest.raises(fw.DeviceError, match="'cpu' is not a GPU"):
        fw.cuda.synchronize("cpu")


def test_streams():
    side = fw.cuda.Stream()
    with fw.cuda.stream(side):
        assert fw.cuda.current_stream().cupy is side.cupy
        x = fw.ones(3, device="cuda") * 2
    assert fw.cuda.current_stream().cupy is not side.cupy
    assert side.cuda_stream == side.cupy.ptr
    fw.cuda.current_stream().wait_stream(side)
    event = side.record_event()
    event.wait()
    event.synchronize()
    side.synchronize()
    assert side.query() and event.query() and x.tolist() == [2.0, 2.0, 2.0]
    assert fw.ones(2).to_device("cuda", stream=side).device == "cuda:0"


def test_memory():
    assert 0 < fw.cuda.memory_allocated() <= fw.cuda.memory_reserved()
    free, total = fw.cuda.mem_get_info("cuda:1")
    assert 0 < free <= total
    fw.cuda.empty_cache()
    fw.cuda.synchronize()


def test_one_seed_for_all_devices():
    fw.cuda.manual_seed(4)
    first = fw.rand(3, device="cuda").tolist()
    fw.manual_seed(4)
    assert fw.rand(3).tolist() == first
