"""Entries of the functions of nn.functional, which are called alike in both libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from parity.entry import Table

import fusewire as fw


def functions(table: Table) -> Callable[..., None]:
    """A function that enters a way of calling a function of nn.functional in `table`.

    It takes the name, the tensors, `args` and keywords (`more`) that follow them.
    """
    def enter(name: str, *inputs: Any, args: tuple[Any, ...] = (), label: str = "",
              theirs: Any = None, ours: Any = None, **how: Any) -> None:
        more = how.pop("more", {})

        def mine(*a: Any) -> Any:
            return getattr(fw.nn.functional, name)(*a, *args, **more)

        def other(*a: Any) -> Any:
            return getattr(F, name)(*a, *args, **more)

        label = label or ", ".join([*map(str, args), *(f"{k}={v}" for k, v in more.items())])
        table(f"nn.functional.{name}", *inputs, label=label, ours=ours or mine,
              theirs=theirs or other, **{"loose": 4, **how})

    return enter
