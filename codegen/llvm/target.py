"""The processor that code is made for: its name, its features, and how wide its vectors are."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from ...eager.settings import settings

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


@dataclass(frozen=True)
class Target:
    """A processor; `vector_bytes` is the width of one vector register, `fma` whether it fuses,
    `float16` whether it converts these by itself: for others LLVM would call a library; `dot`
    whether it multiplies pairs of bfloat16 and adds both products in one instruction, `dot16`
    whether it does so with pairs of integers, `dot8` with four integers of 8 bits."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    fma: bool
    float16: bool
    dot: bool = False
    dot16: bool = False
    dot8: bool = False

    @property
    def x86(self) -> bool:
        """Whether this is an x86-64."""
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
    return named(settings.cpu)


@functools.cache
def named(cpu: str) -> Target:
    """The target called `cpu` as LLVM calls it, with its standard features; "" is this machine."""
    triple = llvm.get_process_triple()
    if cpu:
        return Target(triple, cpu, "", *_abilities(triple, _baseline(cpu)))
    features = llvm.get_host_cpu_features()
    return Target(
        triple,
        llvm.get_host_cpu_name(),
        features.flatten() + _tuning(triple),
        *_abilities(triple, {name for name, present in features.items() if present}),
    )


def elsewhere(triple: str, cpu: str) -> Target:
    """A processor of any kind, with the features that its name stands for: nothing of this one."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return Target(triple, cpu, _tuning(triple)[1:], *_abilities(triple, _baseline(cpu)))


def _is_x86(triple: str) -> bool:
    return triple.startswith(("x86_64", "amd64"))


def _tuning(triple: str) -> str:
    """Gathers and scatters as single loads and stores: measured up to 2.8 times as fast as the
    processor's own instructions, which microcode updates have slowed down on many machines."""
    return ",+prefer-no-gather,+prefer-no-scatter" if _is_x86(triple) else ""


def _baseline(cpu: str) -> set[str]:
    """The features that decide our choices, of the x86-64 levels; of other names, none."""
    level = {"x86-64-v3": {"avx2", "fma", "f16c"},
             "x86-64-v4": {"avx2", "fma", "f16c", "avx512f", "avx512bw"}}
    return level.get(cpu, set())


def _abilities(triple: str, features: set[str]) -> tuple[int, bool, bool, bool, bool, bool]:
    if not triple.startswith(("x86_64", "i686", "amd64")):
        return 16, True, triple.startswith(("aarch64", "arm64")), False, False, False
    width = 64 if "avx512f" in features else 32 if "avx2" in features else 16
    dot = {"avx512f", "avx512vl", "avx512bf16"} <= features
    dot16 = width < 64 or "avx512bw" in features
    dot8 = {"avx512vnni", "avx512vl"} <= features or (width == 32 and "avxvnni" in features)
    return width, "fma" in features, "f16c" in features, dot, dot16, dot8


@functools.cache
def _layout(target: Target) -> str:
    return str(target.machine().target_data)
