"""Describes a processor for the choice of loops."""

from __future__ import annotations

from dataclasses import dataclass

_LONG_BODY_OPS = 80.0  # simple operations per element


@dataclass(frozen=True)
class Machine:
    """Properties of a target that loops depend on.

    `vector_bytes`: width of a vector register
    `registers`: number of vector registers
    `threads`: size of the thread pool
    `winograd`: results along a side of the tiles of 3 by 3 convolutions, 0 to disable them
    `winograd_training`: their maximum where the weights change from call to call
    `training`: whether gradients of weights are computed as well
    `dot`, `dot16`, `dot8`: whether there are dot products of pairs of bfloat16, of pairs of 16-bit
        integers, and of four 8-bit integers
    `matrix_unit`: whether there are registers for tiles of such products (`loop_ir.TileDot`)
    `task_divisor`: factor by which tasks are smaller, and more numerous, than on a processor
    `in_order`: whether kernels run one after the other as listed; if not, buffers share memory only
        where they must, so that kernels can be reordered
    `gpu`: whether the target is a GPU: scalar operations have other costs there
    """

    vector_bytes: int = 64
    registers: int = 32
    threads: int = 2
    winograd: int = 4
    winograd_training: int = 2
    training: bool = False
    dot: bool = False
    dot16: bool = False
    dot8: bool = False
    matrix_unit: bool = False
    task_divisor: int = 1
    in_order: bool = True
    gpu: bool = False

    def lanes(self, itemsize: int = 4) -> int:
        """Elements of `itemsize` bytes in a vector."""
        return max(1, self.vector_bytes // itemsize)

    def vectors_in_flight(self, work: float) -> int:
        """The number of vectors computed at a time, with temporaries in registers.

        An element with much `work` keeps the processor busy with fewer vectors. The code is as
        fast, and LLVM compiles it in half the time."""
        most = 1 if self.vector_bytes < 32 and self.registers < 32 else self.registers // 8
        return most if work < _LONG_BODY_OPS else min(most, 2)

    @property
    def tile_rows(self) -> int:
        """Rows of a matrix tile, two vectors wide, whose sums stay in registers."""
        return (self.registers - 4) // 2
