"""Compiles LLVM IR to an object file for a linker; all symbols but its exports are internal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import llvmlite.binding as llvm

from ..runtime.target import Target


def object_file(texts: Sequence[str], exports: Collection[str], target: Target) -> bytes:
    """Links modules into one object file. Only the `exports` are visible to other objects. Raises
    RuntimeError with LLVM's message for an invalid module."""
    first, *others = map(llvm.parse_assembly, texts)
    for other in others:
        first.link_in(other)
    for symbol in (*first.functions, *first.global_variables):
        if not symbol.is_declaration and symbol.name not in exports:
            symbol.linkage = "internal"
    first.verify()
    machine = target.machine(linked=True)
    _drop_unused(first, machine)
    return bytes(machine.emit_object(first))


def _drop_unused(module: Any, machine: Any) -> None:
    """Removes unreferenced functions and globals."""
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
