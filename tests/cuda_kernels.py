"""The kernels of CUDA C sources, to be compiled many at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from fusewire.codegen.cuda.prelude import PRELUDE
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.codegen.cuda.runtime.nvrtc import Resources
from fusewire.codegen.gpu.cost_model import FIRST_CANDIDATE, CandidateChoice

_FUNCTION = re.compile(r"(?<=\n}\n)")  # behind one, the next one begins
_HEAD = re.compile(r"__launch_bounds__\((?P<threads>\d+)[^)]*\)\s+(?P<name>\w+)\(")


@dataclass(frozen=True)
class Text:
    """A kernel's function, what it is called, and whose it is."""

    text: str
    name: str
    threads: int
    label: str

    def renamed(self, name: str) -> str:
        return self.text.replace(f"{self.name}(", f"{name}(", 1)


@dataclass(frozen=True)
class Taken:
    """What the compiler says of a kernel, launched with blocks of so many threads."""

    threads: int
    resources: Resources

    @property
    def too_much(self) -> bool:
        """Whether a limit is broken: values that do not fit in registers cost more than all else,
        with more than 128 registers a processor has room for one large block only, and 48 KB of
        shared memory are what every GPU gives."""
        r = self.resources
        return r.spill_stores > 0 or r.spill_loads > 0 or r.shared > 48 << 10 \
            or r.registers > (128 if self.threads >= 256 else 255)


@dataclass
class Kernels:
    """Functions of several sources; of those that are equal but for their numbers the first one.
    Graphs are compiled for it as for a device."""

    label: str = ""  # of what is added next
    helpers: dict[str, None] = field(default_factory=dict)
    found: dict[str, Text] = field(default_factory=dict)
    choice: CandidateChoice = FIRST_CANDIDATE

    def load(self, source: str) -> Any:
        """Adds the functions of a source."""
        assert source.startswith(PRELUDE.strip())
        for text in _FUNCTION.split(source[len(PRELUDE.strip()):].lstrip()):
            head = _HEAD.search(text)
            if head is None:
                self.helpers |= {text: None}
            else:
                made = Text(text, head["name"], int(head["threads"]),
                            f"{self.label}: {head['name']}")
                self.found.setdefault(re.sub(r"\d+", "#", made.renamed("kernel")), made)

    def upload(self, array: Any) -> Any:
        return array

    def compiled(self, arch: str) -> dict[str, Taken]:
        """What each kernel takes, by label; CodegenError for a source that is not valid."""
        texts = {f"k{n}": text for n, text in enumerate(self.found.values())}
        source = [PRELUDE, *self.helpers, *(t.renamed(name) for name, t in texts.items())]
        resources = nvrtc.compile("\n".join(source), arch).resources
        return {t.label: Taken(t.threads, resources[name]) for name, t in texts.items()}
