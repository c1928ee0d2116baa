"""`fusewire doctor`: versions, settings, and a test of this installation."""

from __future__ import annotations

from typing import Any

import emulated_gpu
import pytest
from emulated_gpu import emulated_gpus

from emulator.emulator import AVAILABLE
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.commands import doctor
from fusewire.eager.cuda import driver as drivers
from fusewire.eager.cuda.device import CUDA
from fusewire.eager.errors import CodegenError
from fusewire.eager.settings import KNOBS, settings


def test_for_people(call: Any) -> None:
    done = call("doctor")
    lines = done.out.splitlines()
    assert done.status == 0
    assert {"fusewire", "Python", "processor", "threads"} <= {line.split()[0] for line in lines
                                                             if line}
    assert ["self-test", "passed", "on", "cpu"] in map(str.split, lines)
    assert lines[-len(KNOBS):] == repr(settings).splitlines()[1:]


def test_for_programs(call: Any) -> None:
    found = call("doctor", "--json").json
    assert found["self_test"] == "passed" and found["settings"].keys() == KNOBS.keys()
    assert found["environment"]["threads"].isdigit()


def test_a_failed_test_is_a_failure(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_self_test", lambda device: f"no native code ran on {device}")
    done = call("doctor", "--json")
    assert done.status == 1 and done.json["self_test"] == "no native code ran on cpu"
    assert done.err == "fusewire doctor: self-test: no native code ran on cpu\n"


def test_without_a_gpu_it_says_what_to_install(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "driver", lambda: drivers.Driver("no driver here", "install one"))
    monkeypatch.setattr(CUDA, "packages", {"cupy": ()})
    found = call("doctor", "--json").json["environment"]
    assert found["GPU"] == "none: no driver here; install one"
    assert found["CuPy"] == 'none: pip install "fusewire[cuda12]"'


def test_a_driver_without_cupy_tells_how_many_gpus_there_are(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drivers.Driver("", "", 2, 13000)
    monkeypatch.setattr(drivers, "driver", lambda: driver)
    monkeypatch.setattr(drivers, "probe", lambda: driver._replace(why_not="no CuPy"))
    monkeypatch.setattr(CUDA, "packages", {"cupy": ()})
    found = call("doctor", "--json").json["environment"]
    assert found["GPU"] == "2, driver for CUDA 13.0"
    assert found["CuPy"] == 'none: pip install "fusewire[cuda13]"'


def test_without_nvrtc_it_says_what_to_install(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def library(newest: int | None) -> Any:
        raise CodegenError("there is no NVRTC", "pip install it")

    monkeypatch.setattr(nvrtc, "library", library)
    assert call("doctor", "--json").json["environment"]["NVRTC"] == "none: pip install it"


@pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")
def test_each_gpu_is_named_and_tested(call: Any) -> None:
    with emulated_gpus() as emulated:
        done = call("doctor")
    lines = dict(line.split(maxsplit=1) for line in done.out.splitlines() if " " in line)
    assert done.status == 0 and lines["self-test"] == "passed on cpu, cuda:0, cuda:1"
    assert lines["GPU"] == "Not a GPU (sm_90), Not a GPU (sm_90), driver for CUDA 12.4"
    assert all(gpu.launches for gpu in emulated)


@pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")
def test_a_gpu_that_does_not_compute_is_a_failure(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(*how: Any) -> None:
        raise RuntimeError("it is on fire")

    monkeypatch.setattr(emulated_gpu._Loaded, "launch", launch)
    with emulated_gpus():
        done = call("doctor", "--json")
    assert done.status == 1 and "cuda:0: RuntimeError: it is on fire" in done.json["self_test"]
