"""Which devices are there, and what is said where they are not."""

import ctypes

import pytest

import fusewire as fw
from fusewire.eager.arrays import devices
from fusewire.eager.cuda import driver as drivers
from fusewire.eager.cuda.device import CUDA
from fusewire.eager.cuda.driver import Driver


@pytest.fixture
def driver(monkeypatch):
    """Sets what the driver of this machine tells; CuPy is not installed on it."""
    def set(found):
        monkeypatch.setattr(drivers, "driver", lambda: found)
        drivers.probe.cache_clear()

    monkeypatch.setattr(drivers.importlib.util, "find_spec", lambda name: None)
    yield set
    drivers.probe.cache_clear()


class Library:
    """A driver's library with these answers."""

    def __init__(self, failure=0, version=12040, count=2):
        self.cuInit = lambda flags: failure
        self.cuDriverGetVersion = lambda found: setattr(found._obj, "value", version)
        self.cuDeviceGetCount = lambda found: setattr(found._obj, "value", count)


@pytest.mark.parametrize(("library", "why"), [
    (Library(), ""),
    (Library(failure=100), r"does not start \(cuInit gives error 100\)"),
    (Library(count=0), "sees no GPU"),
    (Library(version=11040), r"is for CUDA 11.4, CuPy needs 12.0"),
])
def test_what_a_driver_tells(monkeypatch, library, why):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    found = drivers.driver()
    assert bool(found.why_not) == bool(why)
    if why:
        with pytest.raises(fw.DeviceError, match=why):
            raise fw.DeviceError(found.why_not)
    else:
        assert (found.gpus, found.version) == (2, 12040)


def test_a_machine_without_a_driver(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert "no NVIDIA driver" in drivers.driver().why_not


@pytest.mark.parametrize(("version", "extra"), [(12040, "cuda12"), (13000, "cuda13")])
def test_without_cupy_the_error_names_what_to_install(driver, version, extra):
    driver(Driver("", "", 1, version))
    with pytest.raises(fw.DeviceError, match=rf'CuPy is not installed[^$]*fusewire\[{extra}\]'):
        devices.name_of("cuda")
    assert not CUDA.count()
    assert devices.names() == ("cpu",)


@pytest.mark.parametrize("device", ["mps", "cpu:1", "cpu:", "cuda:", "cuda:-1", "cuda:x", "", True])
def test_devices_that_no_machine_has(driver, device):
    driver(Driver("there is none"))
    with pytest.raises(fw.DeviceError, match=r'devices are "cpu"|: there is none'):
        devices.name_of(device)


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0"])
def test_names_of_the_cpu(device):
    assert devices.name_of(device) == "cpu"
