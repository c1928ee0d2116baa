"""LLVM IR text -> an object file for a linker: everything in it is its own but what it exports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import llvmlite.binding as llvm

from ..runtime.target import Target


def object_file(texts: Sequence[str], exports: Collection[str], target: Target) -> bytes:
    """The object file of some modules as one. What is not among the `exports` no other object sees,
    nor does it clash with theirs. RuntimeError with LLVM's message for a module that is not valid.
    """
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
    """Takes out what nothing refers to."""
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
