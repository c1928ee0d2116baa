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
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .bytecode import instructions, is_jump

_MAX_DEPTH = 8  # of a tree of accesses; deeper values escape
_MAX_PASSES = 12
_NO_CONSTANT = object()
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_READS_LOCALS = {"locals", "vars", "dir", "eval", "exec", "globals"}
ESCAPES, RETURNED, OPERAND, TRUTH, MEMBERS, ELEMENTS, ALL_ATTRIBUTES, UNKNOWN = (
    "escapes", "returned", "operand", "truth", "members", "elements", "all attributes", "unknown")
_LOOKUPS = {"getattr", "hasattr", "setattr", "delattr"}  # their names may be computed
_LISTS = {"vars", "dir"}


class Access:
    """How code uses one value: the steps that it takes from there, and other uses."""

    __slots__ = ("arguments", "calls", "depth", "steps", "stored", "uses")

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        self.steps: dict[tuple[str, Any], Access] = {}  # by kind and key
        self.stored: dict[tuple[str, Any], None] = {}  # the attributes and items that code assigns
        self.uses: set[str] = set()
        self.calls: list[CallSite] = []  # that call this value
        self.arguments: list[tuple[CallSite, Any]] = []  # that pass it: position or keyword

    def step(self, kind: str, key: Any = None) -> Access:
        """The access of a part of this value."""
        place = kind, _constant_key(key)
        if place not in self.steps:
            self.steps[place] = Access(self.depth + 1)
        return self.steps[place]


    def lists_attributes(self) -> bool:
        """True if code reads attributes by computed names, of this value or of parts of it."""
        return ALL_ATTRIBUTES in self.uses or any(
            a.lists_attributes() for a in self.steps.values())


def _constant_key(key: Any) -> Any:
    return (type(key), key) if isinstance(key, (int, float)) else key


def key_of(place: tuple[str, Any]) -> Any:
    """The constant key of a step."""
    key = place[1]
    return key[1] if type(key) is tuple and len(key) == 2 and isinstance(key[0], type) else key


class CallSite:
    """A call in the code: constants among its arguments, and the access of its result."""

    __slots__ = ("constants", "result", "spread")

    def __init__(self) -> None:
        self.constants: dict[Any, Any] = {}  # by position or keyword
        self.spread = False  # arguments are passed by `*` or `**`
        self.result = Access()


class Operand(NamedTuple):
    """An abstract value: where it may come from, and its value if it is a constant."""

    origins: frozenset[Access]
    constant: Any = _NO_CONSTANT


_UNKNOWN = Access()
_UNKNOWN.uses.add(UNKNOWN)
_FRESH = Operand(frozenset())
_LOST = Operand(frozenset([_UNKNOWN]))  # the result of code that is not analyzed
_Stack = list[Operand]


class CodeAccesses:
    """The accesses of a code object, by root: "global", "local", "free" or "import", and a name."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.roots: dict[tuple[str, str], Access] = {}
        self.stored_globals: set[str] = set()
        self.stored_names: set[str] = set()  # attributes and globals that the code assigns
        self.lists_attributes = False  # of values that the analysis has lost track of
        self.call_sites: dict[int, CallSite] = {}  # by offset

    def root(self, kind: str, name: str) -> Access:
        """The access of a variable."""
        return self.roots.setdefault((kind, name), Access())


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


class _Analysis:
    """Interprets the instructions in order, until neither variables nor stacks change."""

    def __init__(self, code: types.CodeType) -> None:
        self.code, self.found = code, CodeAccesses(code)
        self._steps = instructions(code)
        self._variables: dict[str, frozenset[Access]] = {}
        self._stacks: dict[int, _Stack] = {}  # at the targets of jumps
        self._stack: _Stack = []
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
            self._jump(target, [*_padded(self._stack, depth)[:depth], *[_LOST] * extra])
        name = step.opname
        handler = _HANDLERS.get(name)
        if handler is not None:
            handler(self, step)
        else:
            self._default(step)
        if name in _ENDS:
            self._reachable, self._stack = False, []

    def _jump(self, target: int, stack: _Stack) -> None:
        before = self._stacks.get(target)
        joined = stack if before is None else _joined(before, stack)
        if before is None or [o.origins for o in before] != [o.origins for o in joined]:
            self._changed = True
            self._stacks[target] = list(joined)

    def push(self, operand: Operand = _LOST) -> None:
        self._stack.append(operand)

    def pop(self) -> Operand:
        return self._stack.pop() if self._stack else _LOST

    def pop_many(self, count: int) -> list[Operand]:
        return [self.pop() for _ in range(count)][::-1]

    def use(self, origins: frozenset[Access], how: str) -> None:
        for access in origins:
            if access is not _UNKNOWN:
                access.uses.add(how)

    def _escape(self, origins: frozenset[Access]) -> None:
        self.use(origins, ESCAPES)

    def parts(self, operand: Operand, kind: str, key: Any = None) -> Operand:
        """The operand that a step from another one leads to."""
        found: set[Access] = set()
        for access in operand.origins:
            if access is _UNKNOWN:
                found.add(access)
            elif access.depth >= _MAX_DEPTH:
                access.uses.add(ESCAPES)
                found.add(_UNKNOWN)
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
            assigned = {_UNKNOWN} if name in self._variables else set[Access]()
            return Operand(frozenset([self.found.root("free", name), *assigned]))
        if name in self.code.co_cellvars and name not in self._variables:
            return _LOST
        origins = self._variables.get(name, frozenset())
        return Operand(origins | {_UNKNOWN} if name in self.code.co_cellvars else origins)

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
            if access is not _UNKNOWN:
                access.stored[kind, _constant_key(key)] = None

    def call(self, offset: int, callee: frozenset[Access], arguments: Sequence[Operand],
             keywords: Sequence[str] = (), spread: bool = False) -> None:
        """Notes a call and pushes its result."""
        site = self.found.call_sites.setdefault(offset, CallSite())
        site.spread = site.spread or spread
        unknown = not callee or _UNKNOWN in callee
        for access in callee - {_UNKNOWN}:
            if site not in access.calls:
                access.calls.append(site)
        if self._reads_by_name(callee, arguments, spread):
            self._list_attributes(arguments[0].origins if arguments else frozenset([_UNKNOWN]))
        positional = len(arguments) - len(keywords)
        for i, argument in enumerate(arguments):
            place = i if i < positional else keywords[i - positional]
            site.constants.pop(place, None)
            if argument.constant is not _NO_CONSTANT:
                site.constants[place] = argument.constant
            if unknown or spread:
                self._escape(argument.origins)
                continue
            for access in argument.origins - {_UNKNOWN}:
                if (site, place) not in access.arguments:
                    access.arguments.append((site, place))
        result = frozenset([site.result, _UNKNOWN] if unknown else [site.result])
        self.push(Operand(result))

    def _reads_by_name(self, callee: frozenset[Access], arguments: Sequence[Operand],
                       spread: bool) -> bool:
        """True if a call may read attributes whose names do not stand in the code."""
        called = {n for n in _LOOKUPS | _LISTS if self.found.roots.get(("global", n)) in callee}
        if not called:
            return False
        constant = arguments[1].constant if len(arguments) > 1 else _NO_CONSTANT
        return spread or not called <= _LOOKUPS or type(constant) is not str \
            or constant.startswith("__")

    def _list_attributes(self, origins: frozenset[Access]) -> None:
        self.use(origins, ALL_ATTRIBUTES)
        if _UNKNOWN in origins:
            self.found.lists_attributes = True

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
        with_null = step.opname == "LOAD_GLOBAL" and _LOADS_NULL and step.arg is not None \
            and step.arg & 1
        self.push(operand)
        if with_null:
            self.push(_FRESH)  # 3.11 has it below the function; a call looks at both

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
        if step.opname == "LOAD_METHOD" or (_ATTRIBUTES_LOAD_METHODS and step.arg is not None
                                            and step.arg & 1):
            self.push(_FRESH)

    def store_attribute(self, step: dis.Instruction) -> None:
        owner = self.pop()
        self.found.stored_names.add(step.argval)
        self.store_item(owner, "attr", step.argval)
        if step.opname == "STORE_ATTR":
            self._escape(self.pop().origins)

    def load_item(self, step: dis.Instruction) -> None:
        container, key = self.pop_many(2)
        self._escape(key.origins)
        if key.constant is _NO_CONSTANT or not _is_simple_key(key.constant):
            self.push(self.parts(container, "key"))
        else:
            self.push(self.parts(container, "item", key.constant))

    def store_item_of(self, step: dis.Instruction) -> None:
        value, container, key = self.pop_many(3)
        self._escape(value.origins | key.origins)
        if key.constant is _NO_CONSTANT or not _is_simple_key(key.constant):
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
        ended = [*self._stack, iterator, _FRESH] if leaves else list(self._stack)
        self._jump(step.argval, ended)
        self.push(iterator)
        self.push(self.parts(iterator, "each"))

    def truth(self, step: dis.Instruction) -> None:
        value = self.pop()
        self.use(value.origins, TRUTH)
        if step.opname in ("TO_BOOL", "UNARY_NOT"):
            self.push(_FRESH)
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
        self.push(_FRESH)

    def operands(self, step: dis.Instruction) -> None:
        merges = step.opname in ("BINARY_OR", "INPLACE_OR") or "|" in step.argrepr
        for operand in self.pop_many(2):
            self.use(operand.origins, ESCAPES if merges else OPERAND)
        self.push()

    def contains(self, step: dis.Instruction) -> None:
        element, container = self.pop_many(2)
        self._escape(element.origins)
        if element.constant is not _NO_CONSTANT and _is_simple_key(element.constant):
            self.parts(container, "member", element.constant)
        else:
            self.use(container.origins, MEMBERS)
        self.push(_FRESH)

    def copy(self, step: dis.Instruction) -> None:
        depth = {"DUP_TOP": 1}.get(step.opname) or step.arg or 1
        self.push(self._stack[-depth] if depth <= len(self._stack) else _LOST)

    def copy_two(self, step: dis.Instruction) -> None:
        two = self.pop_many(2)
        self._stack += [*two, *two]

    def swap(self, step: dis.Instruction) -> None:
        depth = step.arg or 2
        self._stack = _padded(self._stack, depth)
        self._stack[-1], self._stack[-depth] = self._stack[-depth], self._stack[-1]

    def rotate(self, step: dis.Instruction) -> None:
        depth = {"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}.get(step.opname) or step.arg or 1
        self._stack = _padded(self._stack, depth)
        self._stack.insert(len(self._stack) - depth, self._stack.pop())

    def returned(self, step: dis.Instruction) -> None:
        value = self.pop()
        lives_on = self.code.co_flags & _GENERATORS
        self.use(value.origins, ESCAPES if lives_on else RETURNED)

    def import_module(self, step: dis.Instruction) -> None:
        level, names = self.pop_many(2)
        whole = names.constant is not _NO_CONSTANT and names.constant
        module = step.argval if whole else step.argval.partition(".")[0]
        if isinstance(level.constant, int):
            module = "." * level.constant + module
        self.push(Operand(frozenset([self.found.root("import", module)])))

    def import_name(self, step: dis.Instruction) -> None:
        module = self.pop()
        self.push(module)
        self.push(self.parts(module, "attr", step.argval))

    def keyword_names(self, step: dis.Instruction) -> None:
        self._keywords = step.argval if isinstance(step.argval, tuple) \
            else self.code.co_consts[step.arg or 0]

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
            self._jump(step.argval, [*self._stack, *[_LOST] * 6])
        self.push()

    def setup_finally(self, step: dis.Instruction) -> None:
        self._jump(step.argval, [*self._stack, *[_LOST] * 6])

    def nothing(self, step: dis.Instruction) -> None:
        pass

    def drop(self, step: dis.Instruction) -> None:
        self.pop_many(-dis.stack_effect(step.opcode))


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    """The parameters other than `*args` and `**kwargs`."""
    return code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


def _is_simple_key(key: Any) -> bool:
    return isinstance(key, (str, int, bytes, bool, type(None)))


def _padded(stack: _Stack, depth: int) -> _Stack:
    """The stack, with values that are not known below it."""
    return [*[_LOST] * (depth - len(stack)), *stack]


def _joined(a: _Stack, b: _Stack) -> _Stack:
    """The stack at a place that is reached with two stacks."""
    depth = max(len(a), len(b))
    return [x if x == y else Operand(x.origins | y.origins)
            for x, y in zip(_padded(a, depth), _padded(b, depth))]


def _protected_ranges(code: types.CodeType) -> dict[int, list[tuple[int, int, int]]]:
    """By the start of each range with a handler: depth, values pushed, and the handler's offset."""
    ranges: dict[int, list[tuple[int, int, int]]] = {}
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        ranges.setdefault(entry.start, []).append((entry.depth, 1 + entry.lasti, entry.target))
    return ranges


_LOADS_NULL = "PUSH_NULL" in dis.opmap
_ATTRIBUTES_LOAD_METHODS = _LOADS_NULL and "LOAD_METHOD" not in dis.opmap
_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD",
         "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"}
_PUSH_ONE = {
    "BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_STRING",
    "BUILD_SLICE", "UNARY_POSITIVE", "UNARY_NEGATIVE", "UNARY_INVERT", "FORMAT_VALUE",
    "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE", "MAKE_FUNCTION", "LIST_TO_TUPLE",
    "CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "LOAD_BUILD_CLASS", "COMPARE_OP", "LOAD_LOCALS",
    "LOAD_SUPER_ATTR", "LOAD_ASSERTION_ERROR", "PUSH_EXC_INFO", "YIELD_VALUE",
    "GET_AWAITABLE", "GET_YIELD_FROM_ITER", "SET_FUNCTION_ATTRIBUTE",
}
_PUSH_NONE = {"LIST_APPEND", "SET_ADD", "MAP_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE",
              "DICT_MERGE", "RAISE_VARARGS", "DELETE_SUBSCR", "STORE_SLICE", "DELETE_FAST",
              "DELETE_DEREF", "POP_BLOCK", "POP_EXCEPT", "RERAISE", "PRINT_EXPR"}
_ARITHMETIC = [name for name in dis.opmap
               if name.startswith(("BINARY_", "INPLACE_")) and "SUBSCR" not in name
               and "SLICE" not in name]
_HANDLERS: dict[str, Any] = {
    **dict.fromkeys(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST"), _Analysis.load_fast),
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"),
                    _Analysis.load_deref),
    "LOAD_CLOSURE": _Analysis.load_closure, "LOAD_FAST_AND_CLEAR": _Analysis.load_and_clear,
    **dict.fromkeys(("STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_DEREF"), _Analysis.store_fast),
    "STORE_FAST_LOAD_FAST": _Analysis.store_load_fast, "LOAD_CONST": _Analysis.load_const,
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"),
                    _Analysis.load_global),
    **dict.fromkeys(("STORE_GLOBAL", "STORE_NAME", "DELETE_GLOBAL", "DELETE_NAME"),
                    _Analysis.store_global),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD"), _Analysis.load_attribute),
    **dict.fromkeys(("STORE_ATTR", "DELETE_ATTR"), _Analysis.store_attribute),
    "BINARY_SUBSCR": _Analysis.load_item, "STORE_SUBSCR": _Analysis.store_item_of,
    "BINARY_SLICE": _Analysis.load_slice, "UNPACK_SEQUENCE": _Analysis.unpack,
    "UNPACK_EX": _Analysis.unpack_rest, "FOR_ITER": _Analysis.next_element,
    "GET_ITER": _Analysis.nothing,
    **{name: _Analysis.truth for name in dis.opmap
       if name.startswith(("POP_JUMP", "JUMP_IF")) and "NONE" not in name
       and "MATCH" not in name},
    **{name: _Analysis.none_test for name in dis.opmap if name.startswith("POP_JUMP")
       and "NONE" in name},
    "TO_BOOL": _Analysis.truth, "UNARY_NOT": _Analysis.truth,
    **dict.fromkeys(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT",
                     "JUMP_ABSOLUTE"), _Analysis.jump),
    "IS_OP": _Analysis.identity, "CONTAINS_OP": _Analysis.contains,
    **dict.fromkeys(_ARITHMETIC, _Analysis.operands),
    "COPY": _Analysis.copy, "DUP_TOP": _Analysis.copy, "DUP_TOP_TWO": _Analysis.copy_two,
    "SWAP": _Analysis.swap,
    **dict.fromkeys(("ROT_TWO", "ROT_THREE", "ROT_FOUR", "ROT_N"), _Analysis.rotate),
    "RETURN_VALUE": _Analysis.returned, "IMPORT_NAME": _Analysis.import_module,
    "IMPORT_FROM": _Analysis.import_name, "KW_NAMES": _Analysis.keyword_names,
    **dict.fromkeys(("CALL", "CALL_FUNCTION", "CALL_METHOD", "CALL_KW", "CALL_FUNCTION_KW"),
                    _Analysis.call_function),
    "CALL_FUNCTION_EX": _Analysis.call_spread,
    **dict.fromkeys(("SETUP_WITH", "BEFORE_WITH", "SETUP_ASYNC_WITH", "BEFORE_ASYNC_WITH"),
                    _Analysis.setup_with),
    "SETUP_FINALLY": _Analysis.setup_finally,
    "POP_TOP": _Analysis.drop, "END_FOR": _Analysis.drop,
    **dict.fromkeys(("PUSH_NULL",), lambda analysis, step: analysis.push(_FRESH)),
    **dict.fromkeys(("RESUME", "CACHE", "EXTENDED_ARG", "PRECALL", "NOP", "COPY_FREE_VARS",
                     "MAKE_CELL", "GEN_START", "SETUP_ANNOTATIONS", "RETURN_GENERATOR",
                     "RETURN_CONST", "NOT_TAKEN"), _Analysis.nothing),
}
