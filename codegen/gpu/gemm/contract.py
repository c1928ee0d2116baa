"""Lowers contractions to GPU kernels: thread blocks compute tiles of the result.

`configs.py` chooses the tiles. Where tiles are few and sums long, the sums are split among
blocks, and a second kernel adds up the splits in order. A large product of matrices in memory
is marked for a library. Other products of 16-bit floats use tensor cores where the GPU has
them.
"""

from __future__ import annotations

from collections.abc import Collection

from ....capture.graph.graph import Node
from ...fusion.fusion import Group
from ...ir.loop_ir import Kernel, KernelBuffer
from ...ir.target_info import Machine
from ..cost_model import FIRST_CANDIDATE, CandidateChoice
from .configs import SIMT_TILES, TENSOR_TILES, tile_configs
from .contraction import GpuContraction
from .mma import MmaKernel
from .simt import SimtKernel


def lower_contract(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str,
                   persistent: Collection[KernelBuffer] = (),
                   choice: CandidateChoice = FIRST_CANDIDATE) -> list[Kernel]:
    """The kernels of a group that begins with a contraction; `choice` picks among tile
    configurations."""
    contraction = GpuContraction(group, buffers, machine, name)
    if contraction.uses_library:
        config, *_ = tile_configs(contraction.sizes, SIMT_TILES, unsplit=True)
        return SimtKernel(contraction, config).kernels()
    if contraction.has_16_bit_floats and choice.chip.tensor_core_products_per_cycle:
        configs = tile_configs(contraction.sizes, TENSOR_TILES, choice.chip)
        return choice.best({str(c): MmaKernel(contraction, c).kernels for c in configs})
    configs = tile_configs(contraction.sizes, SIMT_TILES, choice.chip)
    return choice.best({str(c): SimtKernel(contraction, c).kernels for c in configs})
