"""Pickles and copies of tensors."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn


class Named(fw.Tensor):
    """A subclass with attributes of its own."""


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("x", [
    fw.tensor([1.0, 2.0]), fw.tensor(3), fw.zeros(0, 2), fw.arange(6).reshape(2, 3)[:, ::2],
    fw.tensor([1.5], dtype=fw.bfloat16), fw.tensor([1 + 2j]), nn.Parameter(fw.ones(2)),
    nn.Parameter(fw.ones(2), requires_grad=False),
], ids=lambda x: f"{type(x).__name__}{x.shape}{x.dtype.name}")
def test_a_tensor_comes_back_as_it_was(x: fw.Tensor, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(x, protocol))
    assert (type(again), again.dtype, again.shape, again.requires_grad, again.tolist()) == \
        (type(x), x.dtype, x.shape, x.requires_grad, x.tolist())
    assert again.is_leaf


def test_pickles_name_public_places_only() -> None:
    text = pickle.dumps([fw.ones(1), nn.Parameter(fw.ones(1))], 2)
    assert b"cfusewire\nTensor\n" in text and b"cfusewire.nn\nParameter\n" in text
    assert b"eager" not in text


def test_memory_is_handed_over_where_pickling_has_a_place_for_it() -> None:
    x = fw.ones(1000)
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(text) < 400 and len(buffers) == 1
    again = pickle.loads(text, buffers=buffers)
    assert np.shares_memory(again.numpy(), x.numpy())


def test_another_process_gets_a_tensor() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(fw.sum, (fw.arange(10),)).item() == 45


# ---- copies
def test_deepcopy_copies_leaf_gradient_and_attributes() -> None:
    x = Named(np.ones(2, np.float32)).requires_grad_()
    x.label = ["a"]
    (x * 3).sum().backward()
    other = copy.deepcopy(x)
    assert type(other) is Named and other.requires_grad and other.grad.tolist() == [3, 3]
    assert other.label == ["a"] and other.label is not x.label and other.grad is not x.grad
    other.grad = None
    with fw.no_grad():
        other += 1
    assert (x.tolist(), x.grad.tolist()) == ([1, 1], [3, 3])


def test_deepcopy_keeps_shared_tensors_shared() -> None:
    x = fw.ones(2)
    a, b = copy.deepcopy([x, x])
    assert a is b and a is not x


def test_only_leaves_are_deep_copied_but_any_tensor_is_copied() -> None:
    x = fw.ones(2).requires_grad_()
    y = x * 2
    with pytest.raises(fw.GradientError, match="only leaves can be deep-copied"):
        copy.deepcopy(y)
    z = copy.copy(y)
    assert z is not y and not z.is_leaf
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_a_leaf_of_its_own(way: Any) -> None:
    x = nn.Parameter(fw.ones(2))
    y = way(x)
    assert type(y) is nn.Parameter and y.is_leaf and y.requires_grad
    y.sum().backward()
    assert x.grad is None and y.grad.tolist() == [1, 1]
