"""Generated functions that read values by their paths, one step of a path shared by all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..heap.access_path import Path
from .guards import PathCodegen

Gather = Callable[[Any, Any], tuple[list[Any], list[Any]]]


def compile_gather(paths: Sequence[Path], others: Sequence[Path], source: PathCodegen) -> Gather:
    """gather(args, kwargs) -> (tensors at `paths`, objects at `others`)."""
    first, second = ([source.read(p) for p in each] for each in (paths, others))
    body = "\n".join(["def gather(args, kwargs):", *source.lines,
                      f"    return [{', '.join(first)}], [{', '.join(second)}]"])
    scope = dict(source.constants)
    exec(compile(body, "<gather>", "exec"), scope)
    return scope["gather"]  # type: ignore[no-any-return]
