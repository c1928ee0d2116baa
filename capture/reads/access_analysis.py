"""Finds by abstract interpretation of bytecode which values a code object can read, and how.

Each global, parameter, closure variable and import is the root of a tree of accesses: attributes,
items, elements. A value of which the analysis loses track *escapes*: it is passed to unknown code,
stored, or combined with others. All values are followed along all paths, so the result is an upper
bound of the accesses of any run.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Callable

from ..heap.bytecode import is_jump
from .accesses import ELEMENTS, ESCAPES, MEMBERS, OPERAND, RETURNED, TRUTH, CodeAccesses
from .stack_machine import FRESH, LOST, NO_CONSTANT, Operand, StackMachine, is_simple_key, padded

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@functools.lru_cache(maxsize=4096)
def accesses_of(code: types.CodeType) -> CodeAccesses:
    """The accesses of a code object."""
    analysis = _Analysis(code)
    if analysis.run():
        analysis.check_lookups()
    else:
        analysis.found.lists_attributes = True
        for access in analysis.all_accesses():
            access.uses.add(ESCAPES)
    return analysis.found


class _Analysis(StackMachine):
    """Interprets the instructions that read, store, call or return values."""

    # ---- instructions

    def load_fast(self, step: dis.Instruction) -> None:
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        for name in names:
            if name in self.code.co_cellvars and step.opname == "LOAD_FAST":
                self.push()  # the cell, for an inner function (3.13)
            elif name in self.code.co_freevars and step.opname == "LOAD_FAST":
                self._escape(self.variable(name).origins)
                self.push()
            else:
                self.push(self.variable(name))

    def load_deref(self, step: dis.Instruction) -> None:
        if step.opname == "LOAD_FROM_DICT_OR_DEREF":
            self.pop()
        self.push(self.variable(step.argval))

    def load_closure(self, step: dis.Instruction) -> None:
        self._escape(self.variable(step.argval).origins)
        self.push()

    def store_fast(self, step: dis.Instruction) -> None:
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        for name in names:
            self.assign(name, self.pop())

    def store_load_fast(self, step: dis.Instruction) -> None:
        stored, loaded = step.argval
        self.assign(stored, self.pop())
        self.push(self.variable(loaded))

    def load_and_clear(self, step: dis.Instruction) -> None:
        self.push(self.variable(step.argval))

    def load_const(self, step: dis.Instruction) -> None:
        self.push(Operand(frozenset(), step.argval))

    def load_global(self, step: dis.Instruction) -> None:
        if step.opname == "LOAD_FROM_DICT_OR_GLOBALS":
            self.pop()
        operand = Operand(frozenset([self.found.root("global", step.argval)]))
        with_null = (
            step.opname == "LOAD_GLOBAL" and _LOADS_NULL and step.arg is not None and step.arg & 1
        )
        self.push(operand)
        if with_null:
            self.push(FRESH)  # 3.11 has it below the function; a call looks at both

    def store_global(self, step: dis.Instruction) -> None:
        self.found.stored_globals.add(step.argval)
        self.found.stored_names.add(step.argval)
        if not step.opname.startswith("DELETE"):
            self._escape(self.pop().origins)

    def load_attribute(self, step: dis.Instruction) -> None:
        owner = self.pop()
        if step.argval == "__dict__":
            self._list_attributes(owner.origins)
        self.push(self.parts(owner, "attr", step.argval))
        if step.opname == "LOAD_METHOD" or (
            _ATTRIBUTES_LOAD_METHODS and step.arg is not None and step.arg & 1
        ):
            self.push(FRESH)

    def store_attribute(self, step: dis.Instruction) -> None:
        owner = self.pop()
        self.found.stored_names.add(step.argval)
        self.store_item(owner, "attr", step.argval)
        if step.opname == "STORE_ATTR":
            self._escape(self.pop().origins)

    def load_item(self, step: dis.Instruction) -> None:
        container, key = self.pop_many(2)
        self._escape(key.origins)
        if key.constant is NO_CONSTANT or not is_simple_key(key.constant):
            self.push(self.parts(container, "key"))
        else:
            self.push(self.parts(container, "item", key.constant))

    def store_item_of(self, step: dis.Instruction) -> None:
        value, container, key = self.pop_many(3)
        self._escape(value.origins | key.origins)
        if key.constant is NO_CONSTANT or not is_simple_key(key.constant):
            self._escape(container.origins)
        else:
            self.store_item(container, "item", key.constant)

    def load_slice(self, step: dis.Instruction) -> None:
        container, _, _ = self.pop_many(3)
        self.use(container.origins, ELEMENTS)
        self.push(container)

    def unpack(self, step: dis.Instruction) -> None:
        elements = self.parts(self.pop(), "each")
        for _ in range(step.arg or 0):
            self.push(elements)

    def unpack_rest(self, step: dis.Instruction) -> None:
        self._escape(self.pop().origins)
        for _ in range(((step.arg or 0) & 0xFF) + 1 + ((step.arg or 0) >> 8)):
            self.push()

    def next_element(self, step: dis.Instruction) -> None:
        iterator = self.pop()
        leaves = dis.stack_effect(step.opcode, step.arg, jump=True) > 0
        ended = [*self._stack, iterator, FRESH] if leaves else list(self._stack)
        self._jump(step.argval, ended)
        self.push(iterator)
        self.push(self.parts(iterator, "each"))

    def truth(self, step: dis.Instruction) -> None:
        value = self.pop()
        self.use(value.origins, TRUTH)
        if step.opname in ("TO_BOOL", "UNARY_NOT"):
            self.push(FRESH)
        elif "OR_POP" in step.opname:
            self._jump(step.argval, [*self._stack, value])
        else:
            self._jump(step.argval, list(self._stack))

    def none_test(self, step: dis.Instruction) -> None:
        self.pop()
        self._jump(step.argval, list(self._stack))

    def jump(self, step: dis.Instruction) -> None:
        self._jump(step.argval, list(self._stack))

    def identity(self, step: dis.Instruction) -> None:
        self.pop_many(2)
        self.push(FRESH)

    def operands(self, step: dis.Instruction) -> None:
        merges = step.opname in ("BINARY_OR", "INPLACE_OR") or "|" in step.argrepr
        for operand in self.pop_many(2):
            self.use(operand.origins, ESCAPES if merges else OPERAND)
        self.push()

    def contains(self, step: dis.Instruction) -> None:
        element, container = self.pop_many(2)
        self._escape(element.origins)
        if element.constant is not NO_CONSTANT and is_simple_key(element.constant):
            self.parts(container, "member", element.constant)
        else:
            self.use(container.origins, MEMBERS)
        self.push(FRESH)

    def copy(self, step: dis.Instruction) -> None:
        depth = {"DUP_TOP": 1}.get(step.opname) or step.arg or 1
        self.push(self._stack[-depth] if depth <= len(self._stack) else LOST)

    def copy_two(self, step: dis.Instruction) -> None:
        two = self.pop_many(2)
        self._stack += [*two, *two]

    def swap(self, step: dis.Instruction) -> None:
        depth = step.arg or 2
        self._stack = padded(self._stack, depth)
        self._stack[-1], self._stack[-depth] = self._stack[-depth], self._stack[-1]

    def rotate(self, step: dis.Instruction) -> None:
        depth = {"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}.get(step.opname) or step.arg or 1
        self._stack = padded(self._stack, depth)
        self._stack.insert(len(self._stack) - depth, self._stack.pop())

    def returned(self, step: dis.Instruction) -> None:
        value = self.pop()
        lives_on = self.code.co_flags & _GENERATORS
        self.use(value.origins, ESCAPES if lives_on else RETURNED)

    def import_module(self, step: dis.Instruction) -> None:
        level, names = self.pop_many(2)
        whole = names.constant is not NO_CONSTANT and names.constant
        module = step.argval if whole else step.argval.partition(".")[0]
        if isinstance(level.constant, int):
            module = "." * level.constant + module
        self.push(Operand(frozenset([self.found.root("import", module)])))

    def import_name(self, step: dis.Instruction) -> None:
        module = self.pop()
        self.push(module)
        self.push(self.parts(module, "attr", step.argval))

    def keyword_names(self, step: dis.Instruction) -> None:
        known = isinstance(step.argval, tuple)
        self._keywords = step.argval if known else self.code.co_consts[step.arg or 0]

    def call_function(self, step: dis.Instruction) -> None:
        keywords, self._keywords = self._keywords, ()
        if step.opname in ("CALL_KW", "CALL_FUNCTION_KW"):
            constant = self.pop().constant
            keywords = constant if isinstance(constant, tuple) else ()
        arguments = self.pop_many(step.arg or 0)
        slots = self.pop_many(1 if step.opname.startswith("CALL_FUNCTION") else 2)
        callee = frozenset().union(*(s.origins for s in slots))
        self.call(step.offset, callee, arguments, keywords)

    def call_spread(self, step: dis.Instruction) -> None:
        arguments = self.pop_many(1 + ((step.arg or 0) & 1))
        slots = self.pop_many(2 if _LOADS_NULL else 1)
        callee = frozenset().union(*(s.origins for s in slots))
        self.call(step.offset, callee, arguments, spread=True)

    def setup_with(self, step: dis.Instruction) -> None:
        self._escape(self.pop().origins)
        self.push()
        if is_jump(step):
            self._jump(step.argval, [*self._stack, *[LOST] * 6])
        self.push()

    def setup_finally(self, step: dis.Instruction) -> None:
        self._jump(step.argval, [*self._stack, *[LOST] * 6])

    def push_null(self, step: dis.Instruction) -> None:
        self.push(FRESH)

    def nothing(self, step: dis.Instruction) -> None:
        pass

    def drop(self, step: dis.Instruction) -> None:
        self.pop_many(-dis.stack_effect(step.opcode))


_LOADS_NULL = "PUSH_NULL" in dis.opmap
_ATTRIBUTES_LOAD_METHODS = _LOADS_NULL and "LOAD_METHOD" not in dis.opmap
_INSTRUCTIONS: dict[Callable[..., None], str] = {
    _Analysis.load_fast: "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST",
    _Analysis.load_deref: "LOAD_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF",
    _Analysis.load_closure: "LOAD_CLOSURE",
    _Analysis.load_and_clear: "LOAD_FAST_AND_CLEAR",
    _Analysis.store_fast: "STORE_FAST STORE_FAST_STORE_FAST STORE_DEREF",
    _Analysis.store_load_fast: "STORE_FAST_LOAD_FAST",
    _Analysis.load_const: "LOAD_CONST",
    _Analysis.load_global: "LOAD_GLOBAL LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS",
    _Analysis.store_global: "STORE_GLOBAL STORE_NAME DELETE_GLOBAL DELETE_NAME",
    _Analysis.load_attribute: "LOAD_ATTR LOAD_METHOD",
    _Analysis.store_attribute: "STORE_ATTR DELETE_ATTR",
    _Analysis.load_item: "BINARY_SUBSCR",
    _Analysis.store_item_of: "STORE_SUBSCR",
    _Analysis.load_slice: "BINARY_SLICE",
    _Analysis.unpack: "UNPACK_SEQUENCE",
    _Analysis.unpack_rest: "UNPACK_EX",
    _Analysis.next_element: "FOR_ITER",
    _Analysis.truth: "TO_BOOL UNARY_NOT",
    _Analysis.jump: "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_ABSOLUTE",
    _Analysis.identity: "IS_OP",
    _Analysis.contains: "CONTAINS_OP",
    _Analysis.copy: "COPY DUP_TOP",
    _Analysis.copy_two: "DUP_TOP_TWO",
    _Analysis.swap: "SWAP",
    _Analysis.rotate: "ROT_TWO ROT_THREE ROT_FOUR ROT_N",
    _Analysis.returned: "RETURN_VALUE",
    _Analysis.import_module: "IMPORT_NAME",
    _Analysis.import_name: "IMPORT_FROM",
    _Analysis.keyword_names: "KW_NAMES",
    _Analysis.call_function: "CALL CALL_FUNCTION CALL_METHOD CALL_KW CALL_FUNCTION_KW",
    _Analysis.call_spread: "CALL_FUNCTION_EX",
    _Analysis.setup_with: "SETUP_WITH BEFORE_WITH SETUP_ASYNC_WITH BEFORE_ASYNC_WITH",
    _Analysis.setup_finally: "SETUP_FINALLY",
    _Analysis.drop: "POP_TOP END_FOR",
    _Analysis.push_null: "PUSH_NULL",
    _Analysis.nothing: "RESUME CACHE EXTENDED_ARG PRECALL NOP COPY_FREE_VARS MAKE_CELL GEN_START "
                       "SETUP_ANNOTATIONS RETURN_GENERATOR RETURN_CONST NOT_TAKEN GET_ITER",
}


def _handler_of(name: str) -> Callable[..., None] | None:
    """The handler of an instruction that stands for many, by its name; None for others."""
    if name.startswith(("POP_JUMP", "JUMP_IF")) and "MATCH" not in name:
        return _Analysis.none_test if "NONE" in name else _Analysis.truth
    arithmetic = name.startswith(("BINARY_", "INPLACE_")) and "SUBSCR" not in name
    return _Analysis.operands if arithmetic and "SLICE" not in name else None


_Analysis.handlers = {
    **{name: handler for name in dis.opmap if (handler := _handler_of(name)) is not None},
    **{name: handler for handler, names in _INSTRUCTIONS.items() for name in names.split()}}
