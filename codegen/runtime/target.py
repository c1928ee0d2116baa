"""Describes the processor that code is compiled for: name, features, vector width."""

from __future__ import annotations

import functools
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any

import llvmlite.binding as llvm

from ...eager.errors import CodegenError
from ...eager.settings import settings
from .tile_permission import may_use_tiles

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


@dataclass(frozen=True)
class Target:
    """A processor. `vector_bytes`: the width of a vector register. `fma`: it has fused
    multiply-add. `float16`: it converts float16 itself, otherwise LLVM would call a library. `dot`:
    it multiplies pairs of bfloat16 and adds both products in one instruction. `dot16`: the same for
    pairs of integers. `dot8`: the same for four 8-bit integers. `amx`: it multiplies tiles of both,
    and the system lets this process do so."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    fma: bool
    float16: bool
    dot: bool = False
    dot16: bool = False
    dot8: bool = False
    amx: bool = False

    @property
    def x86(self) -> bool:
        """True if this is an x86-64."""
        return _is_x86(self.triple)

    def machine(self, linked: bool = False) -> Any:
        """A new LLVM target machine (they are cheap, and not safe to share between threads), whose
        code is `linked` by a linker, or loaded into this process."""
        # In a crowded address space an object's sections may lie more than 2 GiB apart, which the
        # small model of x86 cannot reach; the large one costs nothing measurable here.
        model = "large" if self.x86 and not linked else "small"
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=2, codemodel=model, reloc="pic",
            jit=not linked
        )

    @property
    def needs(self) -> frozenset[str]:
        """The features that code for it may use. Raises CodegenError for an unknown name."""
        named = frozenset(name[1:] for name in self.features.split(",")
                          if name.startswith("+") and name[1:] not in _TUNING)
        if named:
            return named
        if self.cpu not in _LEVELS:
            raise CodegenError(f"the features of the processor {self.cpu} are not known",
                               f"name one of {', '.join(_LEVELS)}, or this machine")
        return _LEVELS[self.cpu]

    @property
    def layout(self) -> str:
        """The data layout line of a module for this target."""
        return _layout(self)

    @property
    def header(self) -> str:
        """The first lines of a module for this target."""
        return f'target datalayout = "{self.layout}"\ntarget triple = "{self.triple}"\n'

    @property
    def attributes(self) -> str:
        """Function attributes; LLVM prefers narrower vectors than some processors have."""
        width = self.vector_bytes * 8
        features = f' "target-features"="{self.features}"' if self.features else ""
        return f'nounwind "target-cpu"="{self.cpu}"{features} "prefer-vector-width"="{width}"'


def host() -> Target:
    """The processor to compile for."""
    target = named(settings.cpu)
    return target if settings.amx else without_amx(target)


@functools.cache
def named(cpu: str) -> Target:
    """The target called `cpu` as LLVM calls it, with its standard features; "" is this machine."""
    triple = llvm.get_process_triple()
    if cpu:
        return Target(triple, cpu, "", *_abilities(triple, _LEVELS.get(cpu, frozenset())))
    features = llvm.get_host_cpu_features().flatten() + _tuning(triple)
    target = Target(triple, llvm.get_host_cpu_name(), features,
                    *_abilities(triple, features_here()))
    return target if target.amx else without_amx(target)


@functools.cache
def without_amx(target: Target) -> Target:
    """The same processor without its matrix unit."""
    return replace(target, features=target.features.replace("+amx-", "-amx-"), amx=False)


def elsewhere(triple: str, cpu: str) -> Target:
    """A processor of any kind, with the features that its name stands for: nothing of this one."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = _LEVELS.get(cpu, frozenset())
    return Target(triple, cpu, _tuning(triple)[1:], *_abilities(triple, features))


def _is_x86(triple: str) -> bool:
    return triple.startswith(("x86_64", "amd64"))


def _tuning(triple: str) -> str:
    """Gathers and scatters as single loads and stores: measured up to 2.8 times as fast as the
    processor's own instructions, which microcode updates have slowed down on many machines."""
    return "".join([f",+{name}" for name in _TUNING]) if _is_x86(triple) else ""


_AMX = {"amx-tile", "amx-bf16", "amx-int8", "avx512bf16", "avx512vnni"}
_TUNING = ("prefer-no-gather", "prefer-no-scatter")
_V1 = frozenset({"cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
_V2 = _V1 | {"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
_LEVELS = {"x86-64": _V1, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}


def features_here() -> frozenset[str]:
    """The features of this machine's processor that this process may use."""
    present = {name for name, present in llvm.get_host_cpu_features().items() if present}
    if _AMX <= present and not may_use_tiles():
        present -= {name for name in present if name.startswith("amx-")}
    return frozenset(present)


def _abilities(triple: str, features: Set[str]
               ) -> tuple[int, bool, bool, bool, bool, bool, bool]:
    if not triple.startswith(("x86_64", "i686", "amd64")):
        return 16, True, triple.startswith(("aarch64", "arm64")), False, False, False, False
    width = 64 if "avx512f" in features else 32 if "avx2" in features else 16
    dot = {"avx512f", "avx512vl", "avx512bf16"} <= features
    dot16 = width < 64 or "avx512bw" in features
    dot8 = {"avx512vnni", "avx512vl"} <= features or (width == 32 and "avxvnni" in features)
    return width, "fma" in features, "f16c" in features, dot, dot16, dot8, _AMX <= features


@functools.cache
def _layout(target: Target) -> str:
    return str(target.machine().target_data)
