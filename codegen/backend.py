"""Defines what a back end is, and registers back ends by the name of their devices.

A back end turns graphs on one kind of devices into executables. The pipeline (`compile.py`) is the
same for all of them; it asks the back end for the parts that differ. `register` is the only place
at which a back end enters: eager then knows its devices, `fw.compile` compiles for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..capture.graph.graph import Graph
from ..eager.arrays import devices
from ..eager.arrays.device_type import DeviceType
from .fusion.launch import Launch
from .ir.target_info import Machine
from .lowering.lowering_table import LoweringTable
from .program.executable import Plan

Device = Any  # for which a back end compiles: a processor, a GPU
Program = Any  # a lowered graph in the form of a back end
T = TypeVar("T")


def _uncached(graph: Graph, device: Device, how: tuple[Any, ...],
              write: Callable[[], tuple[Program, T]]) -> tuple[Program, T]:
    return write()


@dataclass(frozen=True, eq=False)
class Backend:
    """The parts of the compiler that differ between kinds of devices.

    `lowering`: how groups of nodes become kernels of the loop IR
    `device`: device(number) is the device of a number
    `machine`: machine(device) are the properties that the choice of loops depends on
    `assemble`: assemble(plan, launches, device) is the program that runs these launches
    `executable`: executable(program, device, numbers) loads a program; it takes arrays of the
        device and returns arrays of the device. `numbers` are the inputs that stay on the CPU
    `text`: text(program) is its source, for `code()`
    `tuned`: tuned(device) is the lowering table, with choices that are measured on the device
    `cached`: cached(graph, device, how, write) is write(), a program and its description, or both
        from a cache; they depend only on the first three
    `report`: rows for `fusewire doctor`: name -> text
    """

    lowering: LoweringTable
    device: Callable[[int], Device]
    machine: Callable[[Device], Machine]
    assemble: Callable[[Plan, list[Launch], Device], Program]
    executable: Callable[[Program, Device, Collection[int]], Any]
    text: Callable[[Program], str]
    tuned: Callable[[Device], LoweringTable] | None = None
    cached: Callable[..., tuple[Program, Any]] = _uncached
    report: Callable[[], Mapping[str, str]] = dict


_LOADERS: dict[str, Callable[[], Backend]] = {}
_LOADED: dict[str, Backend] = {}


def register(kind: DeviceType, load: Callable[[], Backend]) -> None:
    """Adds a back end for a kind of devices. `load` gives it when code is first asked for."""
    devices.register(kind)
    _LOADERS[kind.name] = load
    _LOADED.pop(kind.name, None)


def unregister(name: str) -> None:
    """Removes a back end and its kind of devices, of which no array may exist."""
    devices.unregister(name)
    del _LOADERS[name]
    _LOADED.pop(name, None)


def backend_of(device: str) -> Backend:
    """The back end of a device."""
    name = device.partition(":")[0]
    if name not in _LOADED:
        _LOADED[name] = _LOADERS[name]()
    return _LOADED[name]


def code_kinds() -> tuple[str, ...]:
    """The back ends whose code `code()` shows by their name, which are all but that of the CPU."""
    return tuple(name for name in _LOADERS if name != devices.CPU)


def device_report() -> dict[str, str]:
    """The rows of all back ends that describe their devices."""
    return {name: text for kind in _LOADERS for name, text in backend_of(kind).report().items()}


def lowering_on(device: str) -> LoweringTable:
    """The lowering table of the back end of a device."""
    return backend_of(device).lowering
