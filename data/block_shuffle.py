"""Orders the samples of data larger than memory at random, so that few blocks are held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.utils.data import Sampler


class BlockShuffle(Sampler[int]):
    """A random order in which samples of a few blocks come together.

    Blocks are in a random order; the samples of each `blocks_together` of them are mixed. The order
    of a pass follows from the seed and the number of the pass, so a loader resumes without drawing
    or reading what came before.

    Args:
        data: has `block_ends`: for each block, the number of samples up to its end.
        seed: of the orders. Default 0.
        blocks_together: blocks that are mixed; the data must hold as many in memory. Default 4.

    Raises:
        ArgumentError: `data` has no blocks, or `blocks_together` is less than 1.

    Example:
        >>> import fusewire as fw
        >>> class Blocks:
        ...     block_ends = [3, 6]
        >>> order = list(fw.data.BlockShuffle(Blocks(), blocks_together=1))
        >>> sorted(order[:3]) in ([0, 1, 2], [3, 4, 5]), sorted(order)
        (True, [0, 1, 2, 3, 4, 5])
    """

    def __init__(self, data: Any, seed: int = 0, blocks_together: int = 4) -> None:
        if not hasattr(data, "block_ends"):
            raise fw.ArgumentError(f"BlockShuffle: {type(data).__name__} has no block_ends",
                                   "DataLoader(shuffle=True) mixes data that fits into memory")
        if blocks_together < 1:
            raise fw.ArgumentError(f"BlockShuffle: blocks_together={blocks_together} is less "
                                   "than 1")
        self.ends = [0, *data.block_ends]
        self.seed, self.blocks_together = seed, blocks_together
        self.passes, self.yielded = 0, 0  # passes before the present one, and samples of this one
        self._is_resumed = False

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __iter__(self) -> Iterator[int]:
        if not self._is_resumed:
            self.rewind()
        self._is_resumed = False
        return self._pass(self.passes, self.yielded)

    def _pass(self, number: int, skipped: int) -> Iterator[int]:
        rng = np.random.default_rng([self.seed, number])
        blocks = rng.permutation(len(self.ends) - 1)
        seen = 0
        for first in range(0, len(blocks), self.blocks_together):
            group = [np.arange(self.ends[i], self.ends[i + 1])
                     for i in blocks[first:first + self.blocks_together]]
            samples = rng.permutation(np.concatenate(group))[max(0, skipped - seen):]
            seen += sum(map(len, group))
            for sample in samples.tolist():
                self.yielded += 1
                yield sample

    def rewind(self) -> None:
        """Makes the next pass start anew, after the present one."""
        if self.yielded:
            self.passes, self.yielded = self.passes + 1, 0

    def state_dict(self) -> dict[str, int]:
        """The position: passes before the present one, and samples of this one."""
        return {"passes": self.passes, "yielded": self.yielded}

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Makes the next pass continue where `state_dict` was taken."""
        self.passes, self.yielded = int(state_dict["passes"]), int(state_dict["yielded"])
        self._is_resumed = True
