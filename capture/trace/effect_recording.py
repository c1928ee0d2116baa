"""Notes calls of functions with effects in a trace: `print`, logging, warnings, clocks."""

from __future__ import annotations

import sys
import types
import warnings
from contextlib import AbstractContextManager
from typing import Any

from ...eager import interpreter
from ...eager.core.tensor import Tensor
from ..control_flow.loop_detection import LoopDetector
from ..effects.arguments import Arguments, FormattedValue, Messages, Unsupported
from ..effects.effect_call import ClockRead, EffectCall, display_of
from ..effects.interception import CachedCall, InterceptedFunction, Interception
from ..effects.message_flow import goes_into_messages
from ..effects.performers import CallerSite, frame_outside, site_of
from ..effects.rules import (
    RULES,
    CallContext,
    Clock,
    Described,
    Effect,
    Lookup,
    Refused,
    owners,
    stand_in_of_stream,
)
from ..graph.graph import Node
from ..heap.access_path import Arguments as CallArguments
from ..heap.access_path import Path
from ..heap.code_tracker import is_python, unobserved
from ..heap.introspection import attributes
from ..heap.object_recipes import BuiltContainer
from ..heap.snapshot import HeapSnapshot
from ..heap.source_location import user_site
from ..heap.value_kinds import is_plain, same_contents
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import SYMBOLS, SymbolicScalar, leaked_value
from ..sizes.symbolic_dim import Dim
from .value_table import ValueTable

_OUR_FRAMES = 3  # between user code and a function that runs in place of its stand-in
_HAS_TEXT = (str, int, float, bool, type(None), list, tuple, dict, set, frozenset)


class EffectRecording:
    """The part of a tracer that notes effects."""

    path: list[Any]
    refusal: str
    listening: bool
    loops: LoopDetector
    names: ValueTable
    state: HeapSnapshot
    made_symbolic_scalars: bool
    _interception: Interception | None = None  # while user code runs
    _context: CallContext | None = None
    _frame: Any = None  # which calls the function that is intercepted

    def begin_effects(self) -> None:
        """Puts stand-ins in place of functions with effects."""
        self._messages = Messages()
        self.effect_targets: set[Path] = set()  # of objects that only effects read
        self.uncomputed: dict[Node, None] = {}  # the values since the last read of a clock
        self._interception = Interception(owners, RULES, stand_in_of_stream)
        self._interception.install(self)
        self.names.sizes.on_text = self.text_of
        self._context = CallContext(sys.stdout, warnings.filters, self._site)  # type: ignore

    def end_effects(self) -> None:
        """Puts the functions back."""
        self.names.sizes.on_text = None
        at = self._context
        if at is not None and (sys.stdout is not at.stdout or warnings.filters is not at.filters):
            self.refuse("the call replaces sys.stdout, or the filters of warnings")
        self._frame = self._context = None
        self._messages, self.uncomputed = Messages(), {}
        if self._interception is not None:
            self._interception.remove()
            self._interception = None

    def enter_scope(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        """Puts stand-ins in place of functions that code has imported by name, and of cached
        functions that it may read."""
        if self._interception is None:
            return
        self._interception.enter(code, scope)
        cached, self.state.cached = self.state.cached, []
        for path in cached:
            self._interception.replace_at(path, self.state.values)

    # ---- calls

    def intercepted(self, function: InterceptedFunction, args: tuple[Any, ...],
                    kwargs: dict[str, Any], frame: Any) -> Any:
        """Performs and notes a call of a function with effects."""
        self._frame = frame
        rule = function.rule
        if not self.is_recording and interpreter.STATE.active is not None:
            self.refuse(f"{function.__name__}() is called inside of a transform")
        if isinstance(rule, Clock) and self.is_recording:
            return self._read_clock(function)
        if isinstance(rule, Lookup):
            return self._look_up(function, args, kwargs)
        if isinstance(rule, CachedCall):
            return self._call_cached(function, args, kwargs)
        if isinstance(rule, Refused):
            self.refuse(rule.why)
        self._flush_lazy()
        if not isinstance(rule, Effect):
            return function.value(*args, **kwargs)
        return self._perform(rule, function, args, kwargs)

    def _perform(self, rule: Effect, function: InterceptedFunction, args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> Any:
        arguments = Arguments(self, self._messages, self._is_stale)  # type: ignore[arg-type]
        described = self._described(rule, function, args, kwargs)
        if described is None:
            if rule.tells_site and (function.value is not warnings.warn or len(args) < 3):
                kwargs = {**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + _OUR_FRAMES}
            with unobserved(), _Inactive():
                return function.value(*arguments.plain(args), **arguments.plain(kwargs))
        before = self._changes() if described.performer.runs_python else None
        self._note_effect(described, arguments)
        try:
            with unobserved(), _Inactive():
                described.performer.perform(arguments.plain(described.args),
                                            arguments.plain(described.kwargs))
        finally:
            if before is not None:
                self._refuse_changes(before, described.performer.name)

    def _described(self, rule: Effect, function: InterceptedFunction, args: tuple[Any, ...],
                   kwargs: dict[str, Any]) -> Described | None:
        """What a call does; None, with the run refused, if a replay cannot do it."""
        try:
            assert self._context is not None
            described = rule.describe(self._context, function.value, args, kwargs)
        except Unsupported as why:
            self.refuse(f"{function.__name__}(): {why}")
            return None
        return described._replace(args=tuple(map(self._shown, described.args))) \
            if rule.with_text else described

    def _changes(self) -> dict[Path, Any]:
        """The objects that the run has changed so far, with their contents."""
        return {} if self.refusal else {path: now for path, _, now in self.state.changes()}

    def _refuse_changes(self, before: dict[Path, Any], name: str) -> None:
        """Refuses the run if the code that an effect ran has changed what the function reads: each
        call runs that code, so the changes are none of the function."""
        for path, now in self._changes().items():
            if path not in before or not same_contents(before[path], now):
                self.refuse(f"{name} changes {path}, which the function reads")

    def _shown(self, value: Any) -> Any:
        """The value, or the text that it shows if it is an object of another class."""
        is_known = type(value) in _HAS_TEXT or isinstance(value, Tensor) or is_plain(value) \
            or type(value) in SYMBOLS
        return value if is_known else str(value)

    def _check_target(self, described: Described) -> None:
        """Notes the object that an effect changes: only effects may read it."""
        target = described.target
        if target is None:
            return
        path = self.state.paths.get(id(target))
        if path is None:
            raise Unsupported(f"the {type(target).__name__} is made in the call")
        held = self.state.held.get(path)
        if isinstance(held, dict) and any(
                held.get(name) is not value for name, value in attributes(target).items()
                if is_plain(value)):
            raise Unsupported(f"{path} changes in the call")
        self.effect_targets.add(path)

    def _note_effect(self, described: Described, arguments: Arguments) -> None:
        """Adds an effect call to the path. Refuses the run if there is no recipe for it."""
        if self.refusal:
            return
        try:
            self._check_target(described)
            recipe = BuiltContainer("tuple", (arguments.recipe(described.args),
                                              arguments.recipe(described.kwargs)))
        except Unsupported as why:
            self.refuse(f"{described.performer.name}(): {why}")
            return
        self._add(EffectCall(described.performer, recipe, tuple(arguments.nodes),
                             tuple(arguments.displays), tuple(arguments.formulas), user_site()))

    def _add(self, element: EffectCall | ClockRead) -> None:
        self.path.append(element)
        self.loops.note_path_element()

    def _read_clock(self, function: InterceptedFunction) -> Any:
        self._flush_lazy()
        value = function.value()
        if self.refusal or not self.names.symbolic_scalars:
            self.refuse(f"{function.__name__}() returns a different value on each call")
            return value
        token = self.loops.token("clock")
        self._add(ClockRead(function.value, token, tuple(self._take_uncomputed()), user_site()))
        self.made_symbolic_scalars = True
        return SymbolicScalar(ScalarExpr("phi", (token,)), value, self)  # type: ignore[arg-type]

    def _take_uncomputed(self) -> list[Node]:
        """The values that eager has computed by now and that nothing has read yet."""
        read = {i for node in self.uncomputed for i in node.inputs}
        nodes = [n for n in self.uncomputed if n not in read and n.kind != "view" and n.inputs]
        self.uncomputed = {}
        return nodes

    def _look_up(self, function: InterceptedFunction, args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> Any:
        """The result of a function that returns the same object for the same arguments."""
        with unobserved(), _Inactive():
            result = function.value(*args, **kwargs)
        self.names.held[id(result)] = result
        self.state.note(Path("object", id(result)), result)
        return result

    def _call_cached(self, function: InterceptedFunction, args: tuple[Any, ...],
                     kwargs: dict[str, Any]) -> Any:
        """The result of a function with a cache of results.

        A guard calls the function with these arguments again, as eager does. It finds the cached
        result, or the function computes another one. So the result is a value from outside. An
        argument may be an object that the cache tells by its identity, which a guard compares.
        """
        path = self.state.paths.get(id(function.value))
        args = tuple(map(leaked_value, args))
        kwargs = {name: leaked_value(value) for name, value in kwargs.items()}
        objects = [x for x in (*args, *kwargs.values()) if not _is_constant(x)]
        wrong = next((x for x in objects if not self._is_told_by_identity(x)), None)
        if path is None or wrong is not None:
            self.refuse(f"the cached function {function.__name__}() gets "
                        f"a {type(wrong).__name__}; cached functions with plain arguments are "
                        "compiled")
            return function.value(*args, **kwargs)
        self._flush_lazy()
        with unobserved(), _Inactive():
            result = function.value(*args, **kwargs)
        self.effect_targets.update([path, *(self.state.paths[id(x)] for x in objects)])
        self.state.walk(path.call(CallArguments(args, kwargs)), result)
        return result

    def _is_told_by_identity(self, value: Any) -> bool:
        """True for an object from outside of the run that is equal to itself only."""
        cls: Any = type(value)
        return id(value) in self.state.paths and cls.__eq__ is object.__eq__ \
            and cls.__hash__ is object.__hash__

    def _site(self, level: int) -> CallerSite:
        """The site of the n-th frame around the function that is called."""
        frame: Any = self._frame
        while level > 1 or is_python(frame.f_code.co_filename):
            if not is_python(frame.f_code.co_filename):
                level -= 1
            if frame.f_back is self.loops.base or frame.f_back is None:
                return site_of(frame_outside(self.loops.base, level), level)
            frame = frame.f_back
        return site_of(frame, 0)

    # ---- texts

    def text_of(self, number: SymbolicScalar | Dim, spec: str | None) -> str | None:
        """The placeholder of a number in a message; None if code may look into the text."""
        if self._interception is None or not self.listening or self.refusal \
                or not self.is_recording or not goes_into_messages(spec is None):
            return None
        formula = number.expr if type(number) is Dim else number.formula
        return self._messages.placeholder((formula, spec, self.loops.iteration),
                                          FormattedValue(number, spec, self.loops.iteration))

    def text_of_tensor(self, tensor: Tensor) -> str | None:
        """The placeholder of a tensor in a message; None if code may look into the text."""
        if self._interception is None or self.refusal or not goes_into_messages(True):
            return None
        value = FormattedValue(tensor, None, self.loops.iteration)
        key = self.node_of(tensor), display_of(tensor), self.loops.iteration
        return self._messages.placeholder(key, value)

    def _is_stale(self, part: FormattedValue, read: Any) -> bool:
        return self.loops.is_stale(part, read)

    # ---- the rest of the tracer

    @property
    def is_recording(self) -> bool:
        """True if code that runs now is part of the traced run."""
        raise NotImplementedError

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor's current value."""
        raise NotImplementedError

    def refuse(self, why: str) -> None:
        """Marks the run as one that cannot be replayed."""
        raise NotImplementedError

    def _flush_lazy(self) -> None:
        raise NotImplementedError


def _is_constant(value: Any) -> bool:
    """True if an argument of a cached function is equal in each call."""
    return all(map(_is_constant, value)) if type(value) is tuple else type(value) in (
        int, float, str, bytes, bool, type(None))


class _Inactive(AbstractContextManager[None]):
    """A context in which no op and no number belongs to a trace."""

    def __enter__(self) -> None:
        self._active, interpreter.STATE.active = interpreter.STATE.active, None

    def __exit__(self, *error: object) -> None:
        interpreter.STATE.active = self._active
