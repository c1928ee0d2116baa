"""What the choice of loops needs to know about a processor."""

from __future__ import annotations

from dataclasses import dataclass

_LONG = 80.0  # simple operations of an element


@dataclass(frozen=True)
class Machine:
    """`vector_bytes`: width of a vector register; `registers`: how many there are; `threads`: of
    the pool; `open`: the prime numbers that stand for sizes known at run time, each with the
    largest that it stands for; `winograd`: results along a side of the tiles by which convolutions
    of 3 by 3 are computed, 0 for none; `winograd_training`: the most of them for results whose
    weights change from call to call, `trains`: whether gradients by weights are computed as well;
    `dot`: whether products of bfloat16 are made of pairs;
    `dot16`: whether those of integers of 16 bits are; `dot8`: whether those of integers of 8 bits
    are made of four; `finer`: how many times smaller than a processor's its tasks are, and how many
    times more of them there may be; `in_order`: whether kernels run as they come, one after the
    other; else what need not share memory does not, so that they can be put in another order.
    """

    vector_bytes: int = 64
    registers: int = 32
    threads: int = 2
    open: tuple[tuple[int, int], ...] = ()
    winograd: int = 4
    winograd_training: int = 2
    trains: bool = False
    dot: bool = False
    dot16: bool = False
    dot8: bool = False
    finer: int = 1
    in_order: bool = True

    def varies(self, size: int) -> bool:
        """Whether a size is known at run time only: then loops are to be right for any."""
        return any(size % prime == 0 for prime, _ in self.open)

    def most(self, size: int) -> int:
        """The largest that a size can be: what is chosen by it is the same for all sizes."""
        for prime, largest in self.open:
            times = 0
            while size and size % prime == 0:
                size, times = size // prime, times + 1
            size *= largest ** times
        return size

    def lanes(self, itemsize: int = 4) -> int:
        """Elements of `itemsize` bytes in a vector."""
        return max(1, self.vector_bytes // itemsize)

    def vectors(self, work: float) -> int:
        """Vectors of a computation whose temporaries stay in registers. One of so much `work` that
        the processor never waits for a vector takes fewer: code as fast in half of LLVM's time."""
        most = 1 if self.vector_bytes < 32 and self.registers < 32 else self.registers // 8
        return most if work < _LONG else min(most, 2)

    @property
    def tile_rows(self) -> int:
        """Rows of a matrix tile two vectors wide whose sums stay in registers."""
        return (self.registers - 4) // 2
