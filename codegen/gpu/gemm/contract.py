"""Contractions as kernels for a GPU: teams compute tiles of the result.

Which tiles these are, and by what they are multiplied, stands in `tiles.py`. Where tiles are few
and sums long, teams share the summed elements, and a second kernel adds up what they have in order.

What is a large product of matrices as they lie in memory says so: a library may compute it. All
other products of floats of 16 bits go to tensor cores, where the GPU has any.
"""

from __future__ import annotations

from collections.abc import Collection

from ....capture.graph.graph import Node
from ...fusion.fusion import Group
from ...ir.loop_ir import Buffer, Kernel
from ...ir.target_info import Machine
from ..cost_model import FIRST, Choice
from .configs import TENSOR_TILES, TILES, tile_configs
from .contraction import GpuContraction
from .mma import MmaKernel
from .simt import SimtKernel


def lower_contract(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str,
                   kept: Collection[Buffer] = (), choice: Choice = FIRST) -> list[Kernel]:
    """The kernels of a group that begins with a contraction. Which of its tiles these have is the
    model's choice, or of who measures them."""
    of = GpuContraction(group, buffers, machine, name)
    if of.is_plain:
        return SimtKernel(of, tile_configs(of.sizes, TILES, whole=True)[0]).kernels()
    if of.is_of_small_floats and choice.chip.matrix:
        return choice.best({str(w): MmaKernel(of, w).kernels
                            for w in tile_configs(of.sizes, TENSOR_TILES, choice.chip)})
    return choice.best({str(w): SimtKernel(of, w).kernels
                        for w in tile_configs(of.sizes, TILES, choice.chip)})
