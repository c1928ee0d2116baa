"""Provides a module with parts of every kind, and the texts of errors, for tests of `nn.Module`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import FusewireError


class Block(nn.Module):
    """Two layers, a persistent buffer and one that is not persistent."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, width), nn.Linear(width, 2, bias=False)
        self.register_buffer("steps", fw.tensor(0))
        self.scratch = nn.Buffer(fw.zeros(1), persistent=False)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.second(self.first(x))


def message(call: Callable[[], Any]) -> str:
    """The text of the error that `call` raises, without the user's line."""
    with pytest.raises(FusewireError) as caught:
        call()
    return "\n".join(x for x in str(caught.value).split("\n") if not x.startswith("  at:"))


def kinds(model: nn.Module) -> str:
    """The names of the dtypes in a state dict."""
    return " ".join(x.dtype.name for x in model.state_dict(keep_vars=True).values())
