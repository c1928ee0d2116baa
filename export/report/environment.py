"""Describes this machine and installation, for reports and for `fusewire doctor`."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from ...codegen.program.native_threads import get_num_threads
from ...codegen.runtime.target import host
from ...eager.arrays import devices
from ...eager.installed import version_of

PACKAGES = ("fusewire", "numpy", "llvmlite", "onnx", "onnxruntime")
NOTABLE = ("avx2", "avx512f", "avx512bf16", "amx-tile", "fma", "neon", "sve")  # CPU features
CPU_FILE = Path("/proc/cpuinfo")  # Linux shows the name of the processor here


def version(package: str) -> str:
    """The installed version of `package`, or "-"."""
    return version_of([package]) or "-"


def processor() -> str:
    """The processor's product name, or else LLVM's name."""
    if CPU_FILE.exists():
        for line in CPU_FILE.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or host().cpu


def features() -> list[str]:
    """The features of the processor that matter most to generated code."""
    present = host().features.split(",")
    return [name for name in NOTABLE if f"+{name}" in present]


def environment() -> dict[str, str]:
    """Versions, system, processor and threads, as text by name."""
    target = host()
    versions = {name: version(name) for name in PACKAGES}
    for kind in devices.TYPES.values():
        versions |= {name: version_of(packages) or "-"
                     for name, packages in kind.packages.items()}
    rows = {"fusewire": versions.pop("fusewire")}
    rows["Python"] = f"{platform.python_version()} ({sys.implementation.name})"
    rows["packages"] = ", ".join(f"{name} {v}" for name, v in versions.items() if v != "-")
    rows["system"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    rows["processor"] = f"{processor()} (LLVM: {target.cpu})"
    rows["features"] = ", ".join([*features(), f"{8 * target.vector_bytes}-bit vectors"])
    rows["threads"] = str(get_num_threads())
    return rows
