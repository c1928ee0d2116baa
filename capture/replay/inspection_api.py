"""Shows a compiled function: its report, graphs, code and kernels."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ...eager.errors import ArgumentError
from ...eager.upper_layer import UPPER
from ..graph.graph import Graph
from ..graph.text import to_text
from ..passes import pass_manager
from ..segments.segment import Executable, Segment
from .report import explain
from .report_data import ReportedFunction
from .report_format import Explanation

KINDS: dict[str, Callable[[Segment], str]] = {  # of the CPU; back ends have more
    "llvm": lambda segment: segment.compile().code,
    "asm": lambda segment: segment.compile().assembly,
}


class Inspection(ReportedFunction):
    """The methods of a compiled function that inspect it."""

    def _make(self, graph: Graph) -> Executable:
        """Compiles a graph in this thread and returns its code."""
        raise NotImplementedError

    def explain(self, html: str | os.PathLike[str] | None = None, open: bool = False
                ) -> Explanation:
        """The report: guards, graph breaks, recompilations, and every kernel with its time.

        The result is a text; a notebook shows it as HTML, and `data` has the facts as dictionaries,
        lists, texts and numbers, which JSON can hold.

        Args:
            html: path of a page that is written, too. It needs no network, and shows the control
                flow, the kernels with their code, the memory and the guards.
            open: show the page in the browser. Without `html`, its file is a temporary one.
        """
        explanation = explain(self)
        if html is not None or open:
            UPPER.write_page(explanation.data, html, open)
        return explanation

    def graph(self, which: int | None = None, passes: bool = False) -> str:
        """A program's graphs as text, each line with the user's line it came from.

        `which` is the program's number in `explain`, by default that of the newest. With `passes`
        each graph is shown again after every pass of its compilation.
        """
        shown = []
        for segment in self._segments(which):
            shown.append(to_text(segment.graph, sites=True))
            if passes:
                with pass_manager.watching() as seen:
                    self._make(segment.graph)
                shown += [f"# after {name}\n{to_text(graph, sites=True)}" for name, graph in seen]
        return "\n\n".join(shown)

    def code(self, kind: str = "llvm", which: int | None = None) -> str:
        """The generated code of a program, by default the newest: "llvm", "asm" or "cuda".

        Compiles graphs that have no code yet. "cuda" needs no GPU.
        """
        kinds = (*KINDS, *UPPER.code_kinds())
        if kind not in kinds:
            raise ArgumentError(f"code({kind!r}): there is {', '.join(map(repr, kinds))}")
        segments = self._segments(which)
        for segment in segments:
            segment.compile()
        self.jobs.wait()
        return "\n\n".join(KINDS[kind](segment) if kind in KINDS else UPPER.code_of(segment, kind)
                           for segment in segments)

    def kernels(self) -> list[dict[str, Any]]:
        """One row per compiled kernel: name, line, seconds, bytes, flops."""
        return [row for e in self._executables() for row in e.rows()]

    def _executables(self) -> list[Executable]:
        return [executable for p in self.programs for s in p.segments()
                if (executable := s.executable)]

    def _segments(self, which: int | None) -> list[Segment]:
        count = len(self.programs)
        if which is not None and not 1 <= which <= count:
            raise ArgumentError(f"there is no program {which} of {self.__name__}, which has "
                                f"{count}", "explain() shows them with their numbers")
        return self.programs[(which or 1) - 1].segments() if count else []
