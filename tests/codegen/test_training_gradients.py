"""Gradients of convolution networks in compiled training are as near to float64's as eager ones.

`python tests/conv_networks.py 0 100` compares a hundred networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conv_networks import distances, network
from oracle import recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.codegen.compile import lower_graph
from fusewire.codegen.cpu.winograd import convolution
from fusewire.codegen.cpu_backend import machine_of
from fusewire.codegen.runtime.target import host
from fusewire.eager.settings import settings

MOST = 10.0  # times as far from float64 as eager products, which no tiles are in


@pytest.fixture(autouse=True)
def tiles_as_usual() -> Iterator[None]:
    before = settings.winograd, settings.winograd_training
    settings.winograd, settings.winograd_training = 4, 2
    yield
    settings.winograd, settings.winograd_training = before


@pytest.mark.parametrize("seed", range(4))
def test_random_networks(seed: int) -> None:
    made = network(seed)
    for got, eager in zip(distances(made, True), distances(made, False)):
        assert got < MOST * eager


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The results along a side of each tile that is chosen from here on."""
    chosen: list[int] = []
    own = convolution.transforms
    monkeypatch.setattr(convolution, "transforms", lambda n: chosen.append(n) or own(n))
    return chosen


def layer() -> tuple[Any, Any]:
    fw.manual_seed(0)
    return fw.nn.Conv2d(16, 16, 3, padding=1), fw.randn(2, 16, 16, 16)


def test_a_step_takes_small_tiles_for_results(tiles: list[int]) -> None:
    conv, x = layer()
    run = fw.compile(lambda x: fw.grad(F.relu(conv(x)).sum(), [conv.weight]))
    for _ in range(2):
        run(x)
    assert sorted({*tiles}) == [2, 4]


def test_so_does_a_function_whose_gradients_come_later(tiles: list[int]) -> None:
    conv, x = layer()
    run = fw.compile(lambda x: conv(x))
    for _ in range(3):
        run(x).sum().backward()
    assert tiles[0] == 2


def test_inference_takes_large_tiles(tiles: list[int]) -> None:
    conv, x = layer()
    conv.requires_grad_(False)
    run = fw.compile(lambda x: conv(x))
    run(x)
    tiles.clear()  # what the recorded call computed eagerly
    run(x)
    assert {*tiles} == {4}


@pytest.mark.parametrize("wanted", [0, 2, 4])
def test_a_setting_chooses_the_tiles_of_results(wanted: int, tiles: list[int]) -> None:
    settings.winograd_training = wanted
    x, w = fw.zeros((2, 16, 16, 16)), fw.zeros((16, 16, 3, 3))
    graph, _ = recorded(lambda x, w: F.conv2d(x, w), x, w)
    lower_graph(graph, machine_of(host()))
    assert {*tiles} == ({wanted} if wanted else set())
