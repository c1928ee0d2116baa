"""Selects a candidate kernel by its number."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusewire.codegen.gpu.cost_model import CandidateChoice, Candidates
from fusewire.codegen.ir.loop_ir import Kernel


@dataclass(frozen=True)
class Noting(CandidateChoice):
    """Selects the candidate with a number, and notes the names of all candidates."""

    number: int = 0
    names: list[str] = field(default_factory=list)

    def best(self, candidates: Candidates) -> list[Kernel]:
        self.names[:] = candidates
        return list(candidates.values())[self.number]()
