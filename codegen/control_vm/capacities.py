"""Tells for which sizes the dynamic-shape programs of a control-flow graph have room."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...capture.sizes.symbolic_dim import size_expr_of
from ...eager.arrays.shapes import TensorType
from ..dynamic.dynamic_program import DynamicProgram
from ..dynamic.specializations import DynamicExecutable
from ..ir.sizes import bounded_size, is_dynamic, rebound, upper_bound
from .assembler import NotNativelyControlled
from .extra_arrays import Sizes


class Capacities:
    """The dynamic-shape programs of a tree, and the sizes for which all of them have room."""

    def __init__(self, executables: Sequence[DynamicExecutable], names: Collection[str]) -> None:
        """names: of the sizes that are known when a call begins."""
        self.programs = {each: _program_of(each) for each in executables}
        self._sizes: dict[str, Any] = {}  # with bounds
        for program in self.programs.values():
            if not program.capacity.keys() <= {*names}:
                raise NotNativelyControlled("a size is known only when its values are")
            for name, most in program.capacity.items():
                most = min(most, upper_bound(self._sizes.get(name, most)))
                self._sizes[name] = bounded_size(name, 1, most)

    def have_room(self, sizes: Sizes) -> bool:
        """True if all programs can run with these sizes."""
        return all(program.has_room({name: sizes[name] for name in program.capacity})
                   and executable.has_code_for(sizes)
                   for executable, program in self.programs.items())

    def at_capacity(self, type: TensorType) -> TensorType:
        """A type with its largest sizes."""
        sizes = [self._largest(n) if is_dynamic(n) else n for n in type.shape]
        return TensorType(tuple(sizes), type.dtype)

    def _largest(self, size: Any) -> int:
        if not size_expr_of(size).symbols() <= self._sizes.keys():
            raise NotNativelyControlled("a loop carries a tensor whose size has no bound")
        return upper_bound(rebound(size, self._sizes))


def _program_of(executable: DynamicExecutable) -> DynamicProgram:
    program = executable.program_for_all()
    if program is None:
        raise NotNativelyControlled(f"no program is for all sizes: {executable.refusal}")
    return program
