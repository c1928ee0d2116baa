"""Collects the kernels of CUDA C sources and compiles them together."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from fusewire.codegen.cuda.prelude import PRELUDE
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.codegen.cuda.runtime.nvrtc import Resources
from fusewire.codegen.gpu.cost_model import FIRST_CANDIDATE, CandidateChoice

_FUNCTION = re.compile(r"(?<=\n}\n)")  # the end of a function
_HEAD = re.compile(r"__launch_bounds__\((?P<threads>\d+)[^)]*\)\s+(?P<name>\w+)\(")


@dataclass(frozen=True)
class Text:
    """The source of a kernel's function, its name, and a label that tells its origin."""

    text: str
    name: str
    threads: int
    label: str

    def renamed(self, name: str) -> str:
        return self.text.replace(f"{self.name}(", f"{name}(", 1)


@dataclass(frozen=True)
class Taken:
    """The resources that the compiler reports for a kernel, and the threads of its blocks."""

    threads: int
    resources: Resources

    @property
    def too_much(self) -> bool:
        """True if a kernel exceeds a limit. Spilled registers cost more than all else. With more
        than 128 registers a processor runs only one large block. Every GPU has 48 KB of shared
        memory."""
        r = self.resources
        return r.spill_stores > 0 or r.spill_loads > 0 or r.shared > 48 << 10 \
            or r.registers > (128 if self.threads >= 256 else 255)


@dataclass
class Kernels:
    """The functions of several sources; of functions that differ only in numbers, the first one.
    Graphs are compiled for it as for a device."""

    label: str = ""  # of the next functions
    helpers: dict[str, None] = field(default_factory=dict)
    kernels: dict[str, Text] = field(default_factory=dict)
    choice: CandidateChoice = FIRST_CANDIDATE

    def load(self, source: str) -> Any:
        """Adds the functions of a source."""
        assert source.startswith(PRELUDE.strip())
        for text in _FUNCTION.split(source[len(PRELUDE.strip()):].lstrip()):
            head = _HEAD.search(text)
            if head is None:
                self.helpers |= {text: None}
            else:
                kernel = Text(text, head["name"], int(head["threads"]),
                              f"{self.label}: {head['name']}")
                self.kernels.setdefault(re.sub(r"\d+", "#", kernel.renamed("kernel")), kernel)

    def upload(self, array: Any) -> Any:
        return array

    def compiled(self, arch: str) -> dict[str, Taken]:
        """The resources of each kernel, by label. CodegenError for an invalid source."""
        texts = {f"k{n}": text for n, text in enumerate(self.kernels.values())}
        source = [PRELUDE, *self.helpers, *(t.renamed(name) for name, t in texts.items())]
        resources = nvrtc.compile("\n".join(source), arch).resources
        return {t.label: Taken(t.threads, resources[name]) for name, t in texts.items()}
