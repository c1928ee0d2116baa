"""An abstract machine for bytecode: a stack and variables that hold accesses in place of values."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..heap.bytecode import instructions, is_jump
from .accesses import ALL_ATTRIBUTES, ESCAPES, UNKNOWN, Access, CallSite, CodeAccesses, constant_key

_MAX_DEPTH = 8  # of a tree of accesses; deeper values escape
_MAX_PASSES = 12
NO_CONSTANT = object()
_READS_LOCALS = {"locals", "vars", "dir", "eval", "exec", "globals"}
_LOOKUPS = {"getattr", "hasattr", "setattr", "delattr"}  # their names may be computed
_LISTS = {"vars", "dir"}


class Operand(NamedTuple):
    """An abstract value: where it may come from, and its value if it is a constant."""

    origins: frozenset[Access]
    constant: Any = NO_CONSTANT


NOT_KNOWN = Access()
NOT_KNOWN.uses.add(UNKNOWN)
FRESH = Operand(frozenset())
LOST = Operand(frozenset([NOT_KNOWN]))  # the result of code that is not analyzed
Stack = list[Operand]


_ENDS = set("""
    RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE JUMP_FORWARD JUMP_BACKWARD
    JUMP_BACKWARD_NO_INTERRUPT JUMP_ABSOLUTE
""".split())
_PUSH_ONE = set("""
    BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP BUILD_STRING BUILD_SLICE
    UNARY_POSITIVE UNARY_NEGATIVE UNARY_INVERT FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC
    CONVERT_VALUE MAKE_FUNCTION LIST_TO_TUPLE CALL_INTRINSIC_1 CALL_INTRINSIC_2 LOAD_BUILD_CLASS
    COMPARE_OP LOAD_LOCALS LOAD_SUPER_ATTR LOAD_ASSERTION_ERROR PUSH_EXC_INFO YIELD_VALUE
    GET_AWAITABLE GET_YIELD_FROM_ITER SET_FUNCTION_ATTRIBUTE
""".split())
_PUSH_NONE = set("""
    LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE RAISE_VARARGS
    DELETE_SUBSCR STORE_SLICE DELETE_FAST DELETE_DEREF POP_BLOCK POP_EXCEPT RERAISE PRINT_EXPR
""".split())


class StackMachine:
    """Interprets the instructions in order, until neither variables nor stacks change."""

    handlers: Mapping[str, Callable[[Any, dis.Instruction], None]] = {}  # by instruction

    def __init__(self, code: types.CodeType) -> None:
        self.code, self.found = code, CodeAccesses(code)
        self._steps = instructions(code)
        self._variables: dict[str, frozenset[Access]] = {}
        self._stacks: dict[int, Stack] = {}  # at the targets of jumps
        self._stack: Stack = []
        self._reachable = True
        self._changed = False
        self._keywords: tuple[str, ...] = ()
        self._protected = _protected_ranges(code)
        for name in _parameters(code):
            self._variables[name] = frozenset([self.found.root("local", name)])

    def run(self) -> bool:
        """Interprets the code. Returns False if that does not end."""
        self._note_hidden_reads()
        for _ in range(_MAX_PASSES):
            self._changed = False
            self._stack, self._reachable = [], True
            for step in self._steps:
                self._interpret(step)
            if not self._changed:
                return True
        return False

    def _note_hidden_reads(self) -> None:
        """Notes reads of variables that no instruction shows: by inner functions, `super()` and
        `locals()`."""
        code = self.code
        hidden = set(code.co_cellvars)
        if "__class__" in code.co_freevars:
            hidden.update(code.co_varnames[:1])
        if not _READS_LOCALS.isdisjoint(code.co_names):
            hidden.update(self._variables)
        for name in hidden & self._variables.keys():
            self._escape(self._variables[name])
        for name in code.co_freevars if not _READS_LOCALS.isdisjoint(code.co_names) else ():
            self.found.root("free", name).uses.add(ESCAPES)

    def check_lookups(self) -> None:
        """Notes functions that read attributes by name and are not just called."""
        names = set(self.code.co_names)
        for name in names & (_LOOKUPS | _LISTS):
            access = self.found.roots.get(("global", name))
            if access is None or access.uses or access.arguments or access.steps:
                self.found.lists_attributes = True
        stored = any(("attr", "__dict__") in a.stored for a in self.all_accesses())
        if "attrgetter" in names or stored:
            self.found.lists_attributes = True

    def all_accesses(self) -> Iterator[Access]:
        """All accesses that were found."""
        todo = [*self.found.roots.values(), *(s.result for s in self.found.call_sites.values())]
        while todo:
            access = todo.pop()
            yield access
            todo.extend(access.steps.values())

    # ---- the abstract machine

    def _interpret(self, step: dis.Instruction) -> None:
        arriving = self._stacks.get(step.offset)
        if arriving is not None:
            self._stack = _joined(self._stack, arriving) if self._reachable else list(arriving)
            self._reachable = True
        elif not self._reachable:
            self._stack = []  # reached later, or by no path
        for depth, extra, target in self._protected.get(step.offset, ()):
            self._jump(target, [*padded(self._stack, depth)[:depth], *[LOST] * extra])
        name = step.opname
        handler = self.handlers.get(name)
        if handler is not None:
            handler(self, step)
        else:
            self._default(step)
        if name in _ENDS:
            self._reachable, self._stack = False, []

    def _jump(self, target: int, stack: Stack) -> None:
        before = self._stacks.get(target)
        joined = stack if before is None else _joined(before, stack)
        if before is None or [o.origins for o in before] != [o.origins for o in joined]:
            self._changed = True
            self._stacks[target] = list(joined)

    def push(self, operand: Operand = LOST) -> None:
        self._stack.append(operand)

    def pop(self) -> Operand:
        return self._stack.pop() if self._stack else LOST

    def pop_many(self, count: int) -> list[Operand]:
        return [self.pop() for _ in range(count)][::-1]

    def use(self, origins: frozenset[Access], how: str) -> None:
        for access in origins:
            if access is not NOT_KNOWN:
                access.uses.add(how)

    def _escape(self, origins: frozenset[Access]) -> None:
        self.use(origins, ESCAPES)

    def parts(self, operand: Operand, kind: str, key: Any = None) -> Operand:
        """The operand that a step from another one leads to."""
        found: set[Access] = set()
        for access in operand.origins:
            if access is NOT_KNOWN:
                found.add(access)
            elif access.depth >= _MAX_DEPTH:
                access.uses.add(ESCAPES)
                found.add(NOT_KNOWN)
            else:
                found.add(access.step(kind, key))
        return Operand(frozenset(found))

    def assign(self, name: str, operand: Operand) -> None:
        before = self._variables.get(name, frozenset())
        if not operand.origins <= before:
            self._variables[name] = before | operand.origins
            self._changed = True
        if name in self.code.co_cellvars or name in self.code.co_freevars:
            self.found.stored_names.add(name)
            self._escape(operand.origins)

    def variable(self, name: str) -> Operand:
        if name in self.code.co_freevars:
            assigned = {NOT_KNOWN} if name in self._variables else set[Access]()
            return Operand(frozenset([self.found.root("free", name), *assigned]))
        if name in self.code.co_cellvars and name not in self._variables:
            return LOST
        origins = self._variables.get(name, frozenset())
        return Operand(origins | {NOT_KNOWN} if name in self.code.co_cellvars else origins)

    def _default(self, step: dis.Instruction) -> None:
        """Handles an instruction of no special meaning: its operands escape."""
        argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        effect = dis.stack_effect(step.opcode, argument, jump=False)
        if step.opname in _PUSH_ONE:
            pops, pushes = 1 - effect, 1
        elif step.opname in _PUSH_NONE:
            pops, pushes = -effect, 0
        else:  # the number of operands is unknown
            pops, pushes = len(self._stack), 0
        for operand in self.pop_many(pops):
            self._escape(operand.origins)
        for _ in range(pushes):
            self.push()
        if is_jump(step):
            self._jump(step.argval, list(self._stack))

    def store_item(self, target: Operand, kind: str, key: Any = None) -> None:
        for access in target.origins:
            if access is not NOT_KNOWN:
                access.stored[kind, constant_key(key)] = None

    def call(self, offset: int, callee: frozenset[Access], arguments: Sequence[Operand],
             keywords: Sequence[str] = (), spread: bool = False) -> None:
        """Notes a call and pushes its result."""
        site = self.found.call_sites.setdefault(offset, CallSite())
        site.spread = site.spread or spread
        unknown = not callee or NOT_KNOWN in callee
        for access in callee - {NOT_KNOWN}:
            if site not in access.calls:
                access.calls.append(site)
        if self._reads_by_name(callee, arguments, spread):
            self._list_attributes(arguments[0].origins if arguments else frozenset([NOT_KNOWN]))
        positional = len(arguments) - len(keywords)
        for i, argument in enumerate(arguments):
            place = i if i < positional else keywords[i - positional]
            site.constants.pop(place, None)
            if argument.constant is not NO_CONSTANT:
                site.constants[place] = argument.constant
            if unknown or spread:
                self._escape(argument.origins)
                continue
            for access in argument.origins - {NOT_KNOWN}:
                if (site, place) not in access.arguments:
                    access.arguments.append((site, place))
        result = frozenset([site.result, NOT_KNOWN] if unknown else [site.result])
        self.push(Operand(result))

    def _reads_by_name(self, callee: frozenset[Access], arguments: Sequence[Operand],
                       spread: bool) -> bool:
        """True if a call may read attributes whose names do not stand in the code."""
        called = {n for n in _LOOKUPS | _LISTS if self.found.roots.get(("global", n)) in callee}
        if not called:
            return False
        constant = arguments[1].constant if len(arguments) > 1 else NO_CONSTANT
        return (
            spread
            or not called <= _LOOKUPS
            or type(constant) is not str
            or constant.startswith("__")
        )

    def _list_attributes(self, origins: frozenset[Access]) -> None:
        self.use(origins, ALL_ATTRIBUTES)
        if NOT_KNOWN in origins:
            self.found.lists_attributes = True


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    """The parameters other than `*args` and `**kwargs`."""
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def is_simple_key(key: Any) -> bool:
    return isinstance(key, (str, int, bytes, bool, type(None)))


def padded(stack: Stack, depth: int) -> Stack:
    """The stack, with values that are not known below it."""
    return [*[LOST] * (depth - len(stack)), *stack]


def _joined(a: Stack, b: Stack) -> Stack:
    """The stack at a place that is reached with two stacks."""
    depth = max(len(a), len(b))
    return [x if x == y else Operand(x.origins | y.origins)
            for x, y in zip(padded(a, depth), padded(b, depth))]


def _protected_ranges(code: types.CodeType) -> dict[int, list[tuple[int, int, int]]]:
    """By the start of each range with a handler: depth, values pushed, and the handler's offset."""
    ranges: dict[int, list[tuple[int, int, int]]] = {}
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        ranges.setdefault(entry.start, []).append((entry.depth, 1 + entry.lasti, entry.target))
    return ranges
