"""Compiles the variants of a library: the programs of its segments, and what runs them, for each
set or range of sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...capture.segments.segment import Segment
from ...codegen.control_vm.assembler import ControlImage
from ...codegen.runtime.target import Target
from ...eager.arrays.shapes import TensorType
from ...eager.errors import CodegenError, ExportError
from .control import lowered
from .program import Compiler, SegmentProgram
from .recording import Recording
from .sizes import Shape, SizeRanges
from .weights import Weights

_HELP = "a library runs without Python: use ops that have native code"


@dataclass(frozen=True)
class Variant:
    """The code for some sizes. `constants`: the arrays that the image reads by number."""

    sizes: SizeRanges
    image: ControlImage
    constants: Sequence[Any]
    types: Sequence[TensorType]  # of the inputs and outputs
    inputs: Sequence[Shape]
    outputs: Sequence[Shape]


class VariantCompiler:
    """Compiles the variants of one library, which share equal programs and weights."""

    def __init__(self, recording: Recording, target: Target, threads: int) -> None:
        self.recording, self.weights = recording, Weights()
        self.programs: dict[str, str] = {}  # symbols by the IR of a program
        self.stack = 0  # the most bytes that a kernel takes
        self._compiler = Compiler(target, threads, self.weights)

    def variants(self, notes: list[str]) -> list[Variant]:
        """The variants; those for one set of sizes come first. Adds remarks to `notes`."""
        recording = self.recording
        try:
            variants = [self._variant(SizeRanges({name: (n, n) for name, n in sizes.items()}))
                        for sizes in recording.specialized]
        except CodegenError as error:
            raise ExportError(f"aot.build: {error.message}", _HELP) from error
        if not recording.ranges:
            return variants
        try:
            return [*variants, self._variant(SizeRanges(recording.ranges))]
        except CodegenError as error:
            if not variants:
                raise ExportError(f"aot.build: there is no code for all sizes: {error.message}",
                                  "give examples of the sizes to build for: "
                                  "examples=[(x,), ...]") from error
            notes.append(f"built only for the sizes of the examples: {error.message}")
            return variants

    def _variant(self, sizes: SizeRanges) -> Variant:
        recording = self.recording
        made: dict[Segment, tuple[str, SegmentProgram]] = {}

        def program(segment: Segment) -> tuple[str, SegmentProgram]:
            if segment not in made:
                made[segment] = self._program(segment, sizes)
            return made[segment]

        image, constants = lowered(recording, sizes, program)
        types = [one.type for one in (*recording.named_inputs, *recording.outputs)]
        return Variant(sizes, image, constants, types,
                       [sizes.shape(node.type.shape) for node in recording.inputs],
                       [sizes.shape(output.type.shape) for output in recording.outputs])

    def _program(self, segment: Segment, sizes: SizeRanges) -> tuple[str, SegmentProgram]:
        """The symbol and the program of a segment. Equal programs have one symbol."""
        graph, arrays = self.recording.graph_of(segment)
        program = self._compiler.compile(graph, arrays, sizes)
        self.stack = max(self.stack, program.stack)
        symbol = self.programs.setdefault(program.written.ir, f"program.{len(self.programs)}")
        return symbol, program
