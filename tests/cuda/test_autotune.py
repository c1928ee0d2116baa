"""The choice among kernels for a contraction: by the cost model, or by measured times."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from choosing import Noting
from compiled_for_cuda import compile_on, program_of
from emulated import EmulatedDevice
from fake_device import FakeDevice
from oracle import recorded, tensors

import fusewire as fw
import fusewire.nn.functional as F
from emulator.emulator import AVAILABLE
from fusewire.capture.graph.graph import Graph
from fusewire.codegen.cuda.runtime import autotune
from fusewire.codegen.cuda.runtime.autotune import TimedChoice
from fusewire.codegen.gpu.cost_model import (
    CHIPS,
    REFERENCE_CHIP,
    KernelWork,
    chip_of,
    predicted_seconds,
    resident_blocks,
)
from fusewire.codegen.gpu.gemm import configs
from fusewire.codegen.gpu.gemm.configs import (
    SIMT_TILES,
    TENSOR_TILES,
    ContractionSizes,
    SimtTile,
    TileConfig,
    tile_configs,
)
from fusewire.codegen.runtime import disk_cache
from fusewire.eager.settings import settings


# ---- the model
def best(batch: int, rows: int, columns: int, depth: int, itemsize: int = 4) -> TileConfig:
    read = batch * (rows + columns) * depth * itemsize
    return tile_configs(ContractionSizes(batch, rows, columns, depth, itemsize, read),
                        SIMT_TILES)[0]


def test_large_results_have_large_tiles() -> None:
    """Of which more is computed for what is read."""
    assert best(1, 4096, 4096, 256).tile.per_thread == 8 and best(1, 4096, 4096,
                                                                  256).tile.rows == 128
    assert best(1, 16, 16, 40).tile == SimtTile(16, 16, 2)


def test_tiles_are_as_narrow_as_the_result() -> None:
    """64 filters at many places: half of a tile of 128 by 128 would be empty."""
    assert best(1, 64, 32 * 56 * 56, 576).tile.rows == 64
    assert best(1, 16, 64 * 28 * 28, 72).tile.rows == 16


def test_few_tiles_share_long_sums() -> None:
    assert best(1, 32, 144, 100_000).split_k > 16
    assert best(1, 32, 144, 32).split_k == 1
    assert best(1, 4096, 4096, 4096).split_k == 1


@pytest.mark.parametrize("depth", [1, 63, 784, 4096, 1 << 20])
def test_every_share_has_something(depth: int) -> None:
    shares, blocks = best(1, 16, 16, depth).split_k, -(-depth // SimtTile.depth)
    assert (shares - 1) * -(-blocks // shares) < blocks


def test_sums_fit_in_registers() -> None:
    assert {w.tile.per_thread for w in tile_configs(ContractionSizes(1, 4096, 4096, 256, 8, 1),
                                                    SIMT_TILES)} <= {2, 4}


def test_shares_are_the_same_on_every_gpu() -> None:
    """They decide in which order sums are added; tiles do not, and may differ."""
    sizes = [ContractionSizes(b, r, c, d, 4, (r + c) * d * 4) for b, r, c, d in itertools.product(
        (1, 12), (1, 40, 512), (64, 3000), (30, 500, 9000))]
    for among in (SIMT_TILES, TENSOR_TILES):
        chosen = [[tile_configs(s, among, chip)[0] for chip in CHIPS.values()] for s in sizes]
        assert all(len({w.split_k for w in found}) == 1 for found in chosen)
        assert any(len(set(found)) > 1 for found in chosen)


def test_time_grows_with_what_there_is_to_do() -> None:
    work = KernelWork(1000, 128, 64, 4096, 10, 100.0, 1e6, 1e6)
    more = [KernelWork(2000, 128, 64, 4096, 10, 100.0, 1e6, 1e6),
            KernelWork(1000, 128, 64, 4096, 20, 100.0, 1e6, 1e6),
            KernelWork(1000, 128, 64, 4096, 10, 900.0, 1e6, 1e6),
            KernelWork(1000, 128, 64, 4096, 10, 100.0, 1e9, 1e9)]
    for chip in CHIPS.values():
        assert all(predicted_seconds(w, chip) > predicted_seconds(work, chip) for w in more)


@pytest.mark.parametrize(("work", "teams"), [
    (KernelWork(1, 256, 128, 0, 1, 1.0, 0, 0), 2), (KernelWork(1, 1024, 32, 0, 1, 1.0, 0, 0), 2),
    (KernelWork(1, 32, 16, 0, 1, 1.0, 0, 0), 32),
    (KernelWork(1, 64, 32, 40 << 10, 1, 1.0, 0, 0), 4)])
def test_a_processor_has_room(work: KernelWork, teams: int) -> None:
    """For so many registers, threads, blocks, and bytes of shared memory."""
    assert resident_blocks(work, REFERENCE_CHIP) == teams


def test_an_unknown_gpu_is_like_the_newest_one_before_it() -> None:
    assert chip_of("sm_120", 170).clock_ghz == CHIPS[90].clock_ghz
    assert chip_of("sm_86", 84).processors == 84
    assert chip_of("sm_75", 40).additions_per_cycle == REFERENCE_CHIP.additions_per_cycle


# ---- times
@dataclass
class Clock(FakeDevice):
    """A device on which the n-th thing that is timed takes the n-th of these times."""

    times: Callable[[int], float] = float
    asked: int = 0

    def seconds(self, work: Callable[[], None]) -> float:
        work()
        self.asked += 1
        return self.times(self.asked - 1)


def graph_of(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = fw.float32
             ) -> tuple[Graph, list[Any]]:
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    graph, arrays = recorded(function, *tensors(given))
    return graph, list(arrays)


def small() -> Graph:
    return graph_of(lambda x, y: fw.relu(x @ y), (70, 40), (40, 50))[0]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = settings.disk_mb, settings.disk_dir
    settings.disk_mb, settings.disk_dir = 64, str(tmp_path)
    autotune._FASTEST.clear()
    yield tmp_path
    autotune._FASTEST.clear()
    settings.disk_mb, settings.disk_dir = before


def timed(times: Callable[[int], float]) -> Clock:
    return Clock(times=times)


def measured(clock: Clock, name: str = "NVIDIA A100") -> TimedChoice:
    return TimedChoice(REFERENCE_CHIP, device=clock, name=name)


def chosen(clock: Clock, name: str = "NVIDIA A100") -> str:
    """The source of a product's program, with times by a clock."""
    return program_of(small(), choice=measured(clock, name)).module.source


def source_of(number: int) -> str:
    return program_of(small(), choice=Noting(number=number)).module.source


def slower(asked: int) -> float:
    return 1.0 + asked


def faster(asked: int) -> float:
    return 1.0 - asked / 100


def test_the_fastest_way_is_taken(folder: Path) -> None:
    """The model's first one, if it is that."""
    clock = timed(slower)
    assert chosen(clock) == program_of(small()).module.source == source_of(0)
    assert 2 <= clock.asked <= 4
    other = timed(faster)
    assert chosen(other, "NVIDIA H100") == source_of(other.asked - 1) != source_of(0)


def test_times_are_taken_once(folder: Path) -> None:
    first = chosen(timed(faster))
    autotune._FASTEST.clear()  # as another process begins
    again = timed(slower)
    assert chosen(again) == first and again.asked == 0
    settings.disk_mb = 0
    assert chosen(again) == first and again.asked == 0  # and kept in memory


def test_what_is_remembered_is_of_a_gpu_and_a_kernel(folder: Path) -> None:
    chosen(timed(faster))
    others = timed(faster)
    chosen(others, "NVIDIA H100")
    assert others.asked > 0
    larger = graph_of(lambda x, y: fw.relu(x @ y), (70, 40), (40, 51))[0]
    before = others.asked
    program_of(larger, choice=measured(others))
    assert others.asked > before
    assert len(list(folder.glob("*.fastest"))) == 3


@pytest.mark.parametrize("image", [b"", b"damaged", b"\xff\xfe"])
def test_damaged_entries_are_measured_again(folder: Path, image: bytes) -> None:
    first = chosen(timed(faster))
    (entry,) = folder.glob("*.fastest")
    entry.write_bytes(image)
    autotune._FASTEST.clear()
    again = timed(faster)
    assert chosen(again) == first and again.asked > 0


def test_entries_that_name_no_way_are_measured_again(folder: Path) -> None:
    first = chosen(timed(faster))
    (entry,) = folder.glob("*.fastest")
    disk_cache.save(entry.name, b"1024x1024x99/1")
    autotune._FASTEST.clear()
    assert chosen(timed(faster)) == first


def test_ways_that_the_gpu_does_not_take_are_left_out(folder: Path) -> None:
    def fails(asked: int) -> float:
        if asked == 1:
            return 1.0
        raise fw.CodegenError("too much shared memory")

    assert chosen(timed(fails)) == source_of(1)

    def fails_always(asked: int) -> float:
        raise MemoryError

    assert chosen(timed(fails_always), "a small one") == source_of(0)
    assert len(list(folder.glob("*.fastest"))) == 1


def test_what_takes_much_memory_is_not_measured(folder: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotune, "MAX_MEASUREMENT_BYTES", 1000)
    clock = timed(faster)
    assert chosen(clock) == source_of(0) and clock.asked == 0


def test_kernels_are_timed_on_memory_of_their_own(folder: Path) -> None:
    """With all of their arguments, whatever their dtypes; indices are 0."""
    device = timed(faster)
    given = fw.ones(9, 40), fw.tensor(list(range(9))), fw.ones(40, 50, dtype=fw.bfloat16)
    graph, _ = recorded(lambda x, i, y: fw.take(x, i, axis=0) @ y.astype(fw.float32), *given)
    program_of(graph, choice=measured(device))
    assert len(device.launches) >= 2
    for function, regions in device.launches:
        assert [(r.dtype, r.size) for r in regions] == \
            [(b.dtype, b.size) for b in function.arguments]
        assert all(r.array.nbytes == r.size * r.dtype.itemsize and not r.array.any()
                   for r in regions)


# ---- numbers
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "with more behind it": (lambda x, y: fw.relu(x @ y), ((70, 40), (40, 50))),
    "sums that are shared": (lambda x, y: x.T @ y, ((900, 40), (900, 33))),
    "a convolution": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 5, 9, 9), (20, 5, 3, 3))),
}


@pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "among"),
                         [(fw.float32, SIMT_TILES), (fw.bfloat16, TENSOR_TILES)])
def test_all_ways_give_the_same_bits(name: str, dtype: Any, among: Sequence[Any],
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """So a time decides about nothing but time."""
    monkeypatch.setattr(configs, "MEASURED_WITHIN", float("inf"))
    graph, arrays = graph_of(CASES[name][0], *CASES[name][1], dtype=dtype)
    noting = Noting()
    program_of(graph, choice=noting)
    assert len(noting.names) == len(among)
    device, found = EmulatedDevice(), []
    for number in range(len(among)):
        device.choice = Noting(number=number)
        found.append(compile_on(graph, device)(arrays)[0].tobytes())
    assert len(set(found)) == 1
