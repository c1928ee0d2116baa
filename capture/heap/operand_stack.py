"""Analyzes the operand stack of a code object from its bytecode.

The stack of a running frame holds values beside its local variables: `[x * 2, y if p else z]` has
computed its first element when `p` is tested. Python cannot read it, so the bytecode tells whether
it may hold values that change between the iterations of a loop.
"""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import itertools
import operator
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .bytecode import instruction_index_at, instructions, is_jump

# Instructions that test their operands, and the number of operands. A loop header must be one of
# these: `max(a, b)`, for example, still needs its operands after the test.
_TEST_OPERANDS = {"TO_BOOL": 1, "UNARY_NOT": 1, "COMPARE_OP": 2, "CONTAINS_OP": 2}
EXIT_OPS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
UNCONDITIONAL_JUMPS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT",
                       "JUMP_ABSOLUTE")
_COMPARED_ONCE = {"less", "less_equal", "greater", "greater_equal", "lt", "le", "gt", "ge"}
_TYPE_NAMES = {"type", "__class__", "pow"}  # names in code that can tell a number from a symbol


def tells_symbols_apart(code: types.CodeType) -> bool:
    """True if code can tell a plain number from a symbolic one: by its type, or by `n is 5`."""
    return not _TYPE_NAMES.isdisjoint(code.co_names) or (
        dis.opmap["IS_OP"] in code.co_code[::2] and any(map(_is_number, code.co_consts))
        and any(step.opname == "IS_OP" and any(map(_loads_number, instructions(code)[n - 2:n]))
                for n, step in enumerate(instructions(code))))


def _loads_number(step: dis.Instruction) -> bool:
    return step.opname.startswith("LOAD") and _is_number(step.argval)


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


@functools.lru_cache(maxsize=4096)
def only_locals_change(code: types.CodeType, at: int, tracked: frozenset[int] = frozenset()
                       ) -> bool:
    """True if two visits of the test at this offset can differ in local variables only. Below its
    operands the stack holds only values from before the loops around it, and iterators whose state
    is compared: those that the instructions `tracked` read."""
    depths = depths_of(code)
    operands = operands_of(code, at)
    heads = [target for start, target in _jumps(code) if target <= at <= start]
    if depths is None or operands is None or not heads or _in_for(code, at, tracked):
        return False
    if any(offset not in depths for offset in (at, *heads)):
        return False  # code that handles exceptions
    return depths[at] - operands <= min(depths[head] for head in heads)


def operands_of(code: types.CodeType, at: int) -> int | None:
    """The number of operands of the test at this offset; None if it is no test."""
    name = instructions(code)[instruction_index_at(code, at)].opname
    return 1 if name.startswith("POP_JUMP") else _TEST_OPERANDS.get(name)


def depth_below(code: types.CodeType, at: int) -> int | None:
    """The stack depth below the operands of the test or call at this offset; None if it is not
    known."""
    step, depths = instructions(code)[instruction_index_at(code, at)], depths_of(code)
    if depths is None or step.offset not in depths:
        return None
    operands = operands_of(code, at)
    if operands is None:
        operands = popped(step) if step.opname.startswith("CALL") else None
    return None if operands is None else depths[step.offset] - operands


def is_single_test(frame: Any, op: str) -> bool:
    """True if the frame executes a test that makes one decision only. `a == b` of lists, and
    `a in b`, decide for one element after the other, and their progress cannot be read. Neither
    can the values that a call holds while it decides: `max(a, b)` returns one of them. `op`: the
    op of the decision; lists compare sizes last, and once."""
    steps = instructions(frame.f_code)
    index = instruction_index_at(frame.f_code, frame.f_lasti)
    if operands_of(frame.f_code, frame.f_lasti) is None:
        return False
    if steps[index].opname != "COMPARE_OP" or op in _COMPARED_ONCE:
        return steps[index].opname != "CONTAINS_OP"
    right_operand = steps[index - 1]
    if right_operand.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
        return _is_number(right_operand.argval)
    names = right_operand.argval if isinstance(right_operand.argval,
                                               tuple) else (right_operand.argval,)
    return right_operand.opname.startswith("LOAD_FAST") and isinstance(
        frame.f_locals.get(names[-1]), (int, float))


def _in_for(code: types.CodeType, at: int, tracked: frozenset[int]) -> bool:
    """True if a `for` with an untracked iterator, which lies on the stack, is around the offset."""
    return any(i.offset <= at < i.argval and i.offset not in tracked
               for i in instructions(code) if i.opname == "FOR_ITER")


@dataclass(frozen=True)
class ContainerPosition:
    """The iterator of a `for` over a list, tuple or dict: the instruction that takes its elements,
    how many it has taken, and what it iterates over."""

    offset: int
    count: int
    tensors: tuple[Any, ...]


def container_positions(frame: Any, others: Sequence[Any]) -> list[ContainerPosition]:
    """The iterators over lists, tuples and dicts of the `for` loops that a frame is in. Left out
    are those over an object that the bytecode does not name, and those over one with several
    iterators. `others` are iterators that the frame does not use."""
    iterated = {step.offset: of for n, step in enumerate(instructions(frame.f_code))
                if step.opname == "FOR_ITER" and step.offset <= frame.f_lasti < step.argval
                and (of := _iterated(frame, n)) is not None}
    if not iterated:
        return []  # spares the search, which visits all objects that the trace has made
    ignored, positions = set(map(id, others)), []
    iterators = {kind: [i for i in _young(kind) if id(i) not in ignored]
                 for kind in {kind for _, kind in iterated.values()}}
    for offset, (of, kind) in iterated.items():
        taken = [at for i in iterators[kind] if (at := _position_in(i, of)) is not None]
        if len(taken) == 1:
            positions.append(ContainerPosition(offset, taken[0], (of,)))
    return positions


# The types of iterators: of containers, and of what these methods of a dict return.
_ITERATORS: dict[Any, type] = {kind: type(iter(kind())) for kind in (list, tuple, dict)}
_OF_METHODS: dict[str, type] = {
    name: type(iter(getattr({}, name)())) for name in ("keys", "values", "items")}


def container_iterators() -> list[Any]:
    """The young iterators over lists, tuples and dicts. No garbage is collected during a trace, so
    the iterators that it has made are young objects."""
    return [i for kind in {*_ITERATORS.values(), *_OF_METHODS.values()} for i in _young(kind)]


def _young(kind: type) -> list[Any]:
    """The young objects of a type.

    One call of C code sees the other young objects, so that no other thread runs meanwhile. It may
    be about to end a tuple, and CPython ends a tuple only if nothing else refers to it. The second
    list of objects begins with those of the first.
    """
    objects, again = (itertools.chain.from_iterable(map(gc.get_objects, (0,))) for _ in range(2))
    is_kind = map(functools.partial(operator.is_, kind), map(type, again))
    found = list(itertools.compress(itertools.chain(objects, itertools.repeat(None)), is_kind))
    return [i for i in found if type(i) is kind]


def _position_in(iterator: Any, container: Any) -> int | None:
    """The position of an iterator over a container; None if it iterates over another one."""
    if type(container) is dict:
        is_over = any(of is container for of in gc.get_referents(iterator))
        return len(container) - operator.length_hint(iterator) if is_over else None
    _, arguments, *position = iterator.__reduce__()
    return position[0] if position and arguments[0] is container else None


def _iterated(frame: Any, n: int) -> tuple[Any, type] | None:
    """The container over which the FOR_ITER with number `n` iterates, and the type of its iterator;
    None if it is not known."""
    code = frame.f_code
    slot = (depths_of(code) or {}).get(instructions(code)[n].offset, 0) - 1
    begin = writer(code, n, slot)
    if begin is None or instructions(code)[begin].opname != "GET_ITER":
        return None
    source = writer(code, begin, slot)
    if source is None:
        return None
    if instructions(code)[source].opname.startswith("CALL"):
        return _iterated_by_method(frame, source, slot)
    container = _loaded(frame, source)
    kind = next((i for of, i in _ITERATORS.items() if isinstance(container, of)), None)
    # A subclass may iterate over something else.
    if kind is None or all(type(container).__iter__ is not of.__iter__ for of in _ITERATORS):
        return None
    return container, kind


def _iterated_by_method(frame: Any, call: int, slot: int) -> tuple[Any, type] | None:
    """The dict of which a call without arguments, such as `d.items()`, returns a view, and the type
    of the iterator; None for other calls."""
    code = frame.f_code
    method = callee_of(code, call, slot)
    kind = None if method is None else _OF_METHODS.get(instructions(code)[method].argval)
    if method is None or kind is None or instructions(code)[call].arg != 0:
        return None
    owner = writer(code, method, (depths_of(code) or {})[instructions(code)[method].offset] - 1)
    container = None if owner is None else _loaded(frame, owner)
    return (container, kind) if type(container) is dict else None


def _jumps(code: types.CodeType) -> Iterator[tuple[int, int]]:
    return ((i.offset, i.argval) for i in instructions(code) if is_jump(i))


@functools.lru_cache(maxsize=1024)
def depths_of(code: types.CodeType) -> dict[int, int] | None:
    """The stack depth before each instruction that is reachable without an exception; None if it
    depends on the path."""
    depths: dict[int, int] = {}
    steps = instructions(code)
    indices = {step.offset: n for n, step in enumerate(steps)}
    todo = [(0, 0)]
    while todo:
        n, depth = todo.pop()
        step = steps[n]
        if step.offset in depths:
            if depths[step.offset] != depth:
                return None
            continue
        depths[step.offset] = depth
        if is_jump(step):
            todo.append((indices[step.argval], depth + _effect(step, jump=True)))
        if step.opname not in EXIT_OPS and step.opname not in UNCONDITIONAL_JUMPS:
            todo.append((n + 1, depth + _effect(step, jump=False)))
    return depths


def _effect(step: dis.Instruction, jump: bool) -> int:
    argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(step.opcode, argument, jump=jump)


# Instructions that change a container below their operands, at the depth that `arg` tells.
_ADDS_BELOW = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2, "LIST_EXTEND": 1, "SET_UPDATE": 1,
               "DICT_UPDATE": 1, "DICT_MERGE": 1}
_POPPED = {"LOAD_ATTR": 1, "LOAD_METHOD": 1, "LOAD_SUPER_ATTR": 3, "UNPACK_SEQUENCE": 1,
           "UNPACK_EX": 1, "ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4, "FOR_ITER": 0}
_POPS_NOTHING = ("LOAD_", "PUSH_", "COPY", "DUP_", "NOP", "RESUME", "CACHE", "EXTENDED_", "PRECALL",
                 "KW_", "MAKE_CELL")
_PUSHES_NOTHING = ("STORE_", "DELETE_", "POP_", "JUMP_", "RETURN_")


def popped(step: dis.Instruction) -> int:
    """The number of stack entries, from the top, that an instruction pops or changes."""
    name = step.opname
    if name in _ADDS_BELOW:
        return _ADDS_BELOW[name] + (step.arg or 0)
    if name in ("SWAP", "ROT_N"):
        return step.arg or 0
    if name in _POPPED:
        return _POPPED[name]
    if name == "STORE_FAST_LOAD_FAST":
        return 1
    if name.startswith(_POPS_NOTHING):
        return 0
    net = _effect(step, jump=False)
    return -net if name.startswith(_PUSHES_NOTHING) else 1 - net


def consumer(code: types.CodeType, n: int, slot: int) -> int | None:
    """The index of the instruction that pops the stack slot which instruction `n` has filled; None
    if a jump between them leads elsewhere."""
    depths = depths_of(code) or {}
    steps, targets = instructions(code), list[int]()
    for m, step in enumerate(steps[n + 1:], n + 1):
        if step.offset not in depths:
            return None
        if depths[step.offset] - popped(step) <= slot:
            is_between = all(steps[n].offset < target <= step.offset for target in targets)
            return m if is_between else None
        if is_jump(step):
            targets.append(step.argval)
    return None


def writer(code: types.CodeType, n: int, slot: int) -> int | None:
    """The instruction before `n` that wrote a stack slot last, in the order of the code."""
    depths = depths_of(code) or {}
    for k in range(n - 1, -1, -1):
        step = instructions(code)[k]
        if step.offset not in depths:
            return None
        below = depths[step.offset] - popped(step)
        after = depths.get(instructions(code)[k + 1].offset, below)
        if below <= slot < after and not step.opname.startswith(("PRECALL", "KW_", "CACHE")):
            return k
    return None


def callee_of(code: types.CodeType, n: int, base: int) -> int | None:
    """The instruction that loads what a call calls; its stack slots begin at `base`."""
    return writer(code, n, base + _NULL_COMES_FIRST)


_NULL_COMES_FIRST = (3, 11) <= sys.version_info < (3, 13)  # below a function that is no method


# ---- calls
def calls_directly(frame: Any, called: Any) -> bool:
    """True if the instruction of a frame calls the function of the frame `called` itself. A builtin
    such as `map` may call it several times, and its progress is hidden."""
    code = frame.f_code
    base = depth_below(code, frame.f_lasti)
    if called.f_back is not frame or base is None:
        return False
    n = callee_of(code, instruction_index_at(code, frame.f_lasti), base)
    return n is not None and _code_called(_loaded(frame, n)) is called.f_code


def _loaded(frame: Any, n: int) -> Any:
    """The object that the instruction `n` of a frame loads, without running code; None if it is not
    known."""
    step = instructions(frame.f_code)[n]
    if step.opname == "LOAD_CONST":
        return step.argval
    if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
        return frame.f_globals.get(step.argval, frame.f_builtins.get(step.argval))
    if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
        return frame.f_locals.get(step.argval) if isinstance(step.argval, str) else None
    if step.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
        return None
    depth = (depths_of(frame.f_code) or {}).get(step.offset, 0)
    owner = writer(frame.f_code, n, depth - 1)
    return None if owner is None else _attribute(_loaded(frame, owner), step.argval)


def _attribute(owner: Any, name: str) -> Any:
    """An attribute of an object, or the submodule of this name; None if there is none."""
    submodules = inspect.getattr_static(owner, "_modules", None)
    if isinstance(submodules, dict) and name in submodules:
        return submodules[name]
    return inspect.getattr_static(owner, name, None)


def _code_called(function: Any) -> types.CodeType | None:
    """The code that runs first when an object is called; None if that is not Python's."""
    if not isinstance(function, (types.FunctionType, types.MethodType, staticmethod, classmethod)):
        function = inspect.getattr_static(type(function), "__call__", None)
    function = getattr(function, "__func__", function)
    return function.__code__ if isinstance(function, types.FunctionType) else None
