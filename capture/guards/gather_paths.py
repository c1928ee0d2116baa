"""Generates functions that read values by access path; common steps of paths are read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..heap.access_path import Path
from .guards import PathCodegen

Gather = Callable[[Any, Any], tuple[list[Any], list[Any]]]


def compile_gather(paths: Sequence[Path], others: Sequence[Path], source: PathCodegen) -> Gather:
    """gather(args, kwargs) -> (tensors at `paths`, objects at `others`)."""
    tensors, objects = ([source.read(p) for p in group] for group in (paths, others))
    body = "\n".join(["def gather(args, kwargs):", *source.lines,
                      f"    return [{', '.join(tensors)}], [{', '.join(objects)}]"])
    scope = dict(source.constants)
    exec(compile(body, "<gather>", "exec"), scope)
    return scope["gather"]  # type: ignore[no-any-return]
