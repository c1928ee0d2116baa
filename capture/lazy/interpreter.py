"""The interpreter that puts ops off: Python runs as it is, and ops run together when it needs them.

An op gives a tensor whose value is to come. When Python asks for a value, when an op is met that
no code can be made for, and when the function ends, all that was put off and can still be seen runs
as one piece. What Python does in between (it prints, draws numbers, calls NumPy, raises) is what it
does without this, in the same order; errors about shapes or indices are raised where the op stands.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...eager import interpreter
from ...eager.arrays.memory import is_whole
from ...eager.core.dispatch import evaluate
from ...eager.core.op import Op
from ...eager.core.tape import MODE, Entry
from ...eager.core.tensor import Tensor
from ..heap.source_location import user_site
from .array import LazyArray, LazyOp
from .op_signature import OpSignature, OpSignatures, fits
from .references import References, settle_strays

# An op on arrays that are there, all of at most so many elements, runs at once: to put it off takes
# as long as NumPy needs for so many.
SMALL = 1 << 15

_new: Any = object.__new__
_ndarray = np.ndarray


class LazyInterpreter:
    """One call of a function whose ops are put off, at most `longest` of them at a time.

    run(steps, wanted) gives the arrays of those wanted; `note` is told why something runs before
    the function ends; `sites`: whether to find out each op's line; `small`: in the place of SMALL.
    """

    answers = True
    keeps_layers = False

    def __init__(self, results: OpSignatures, run: Callable[[list[LazyOp], list[LazyOp]],
                                                            list[Any]],
                 note: Callable[[str], None], longest: int, sites: bool,
                 small: int | None = None) -> None:
        self._results, self._run, self._note = results, run, note
        self._longest, self._sites = longest, sites
        self._small = SMALL if small is None else small
        self._steps: list[LazyOp] = []
        self._holders = References()
        self._computed: list[Callable[[], LazyArray | None]] = []
        self._lock = threading.RLock()  # another thread may ask for a value, too

    # ---- the interpreter's side

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        operands, ready, most = [], True, 0
        for x in inputs:
            if isinstance(x, Tensor):
                x = x._data
                if type(x) is LazyArray:
                    if not x.belongs_to(self):
                        x = x.array("")
                    elif x.step.value is None:
                        ready = False
                    else:
                        x = x.step.value
                elif not isinstance(x, _ndarray):  # it belongs to a transform that has ended
                    return self._at_once(op, inputs, params)
                elif x.size > most:
                    most = x.size
            operands.append(x)
        if ready and most <= self._small and op.kind != "create":
            return self._at_once(op, inputs, params)
        result = self._results.of(op, tuple(operands), params)
        if result is None or self._must_run(result, operands, ready):
            return self._at_once(op, inputs, params)
        return self._put_off(result, inputs, operands)

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        return tensor._data.shape  # type: ignore[no-any-return]

    def source(self, tensor: Tensor) -> None:
        array = tensor._data
        if array.flags.writeable and (sys.getrefcount(array) > _EXCLUSIVE or not is_whole(array)):
            tensor._data = array.copy()  # whoever holds it may write to it before the piece runs

    def changed(self, tensor: Tensor) -> None:
        self._holders.tensor(tensor)  # which is about to get a value to come

    def reads_grad(self, tensor: Tensor) -> None:
        pass

    def sets_grad(self, tensor: Tensor) -> None:
        pass

    def leaves(self, tensor: Tensor, how: str) -> None:
        if type(tensor._data) is LazyArray:
            tensor._data = tensor._data.array(how)

    def number(self, tensor: Tensor, value: Any) -> Any:
        return value

    def measure(self, op: Op, x: Tensor) -> Tensor | None:
        return None

    # ---- an op, now or later

    def _must_run(self, result: OpSignature, operands: list[Any], ready: bool) -> bool:
        """Whether an op is not put off: because of its kind, its inputs, or an error in these."""
        if result.why_now:
            if not ready:
                self._note(f"{user_site() or 'somewhere'}: {result.why_now}")
            return True
        if ready and _is_window(result, operands):
            return True
        for x, slot in zip(operands, result.slots):
            if slot is not None and not fits(x, slot):
                return True
        if not result.checked:
            return False
        checked = [operands[i] for i in result.checked]
        return not result.holds([x.array("an index") if type(x) is LazyArray else x
                                 for x in checked])

    def _at_once(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        for x in inputs:
            if isinstance(x, Tensor) and type(x._data) is LazyArray:
                x._data = x._data.array("")
        state = interpreter.STATE
        state._active = None  # not `active`: the thread goes on to be one with an interpreter
        try:
            return evaluate(op, inputs, params)
        finally:
            state.active = self  # `active`: what ran may have counted the thread as one without

    def _put_off(self, result: OpSignature, inputs: tuple[Any, ...], operands: list[Any]) -> Tensor:
        if len(self._steps) >= self._longest:
            self.compute()
        step = LazyOp(result, tuple([x.step if type(x) is LazyArray else x for x in operands]),
                      user_site() if self._sites else "")
        data = LazyArray(step, self)
        self._steps.append(step)
        out = _new(Tensor)
        out._data, out.edge, out._grad, out._base = data, None, None, None
        self._holders.tensor(out)
        if MODE.enabled and result.op.vjp is not None:
            edges = tuple([x.edge if isinstance(x, Tensor) else None for x in inputs])
            if any([e is not None for e in edges]):
                out.edge = Entry(result.op, result.params, tuple(operands), edges, data)
                self._holders.entry(out.edge)
        return out  # type: ignore[no-any-return]

    # ---- running what was put off

    def held(self, tensor: Tensor) -> None:
        self._holders.tensor(tensor)

    def compute_for(self, step: LazyOp, how: str) -> None:
        """Computes everything, since Python asks for the value of `step` by `how`."""
        if how:
            self._note(f"{user_site() or 'somewhere'}: {how} hands a tensor's values to Python")
        self.compute(step)
        assert step.value is not None

    def compute(self, asked: LazyOp | None = None) -> None:
        """Computes all steps whose results somebody holds, and those of `asked`."""
        with self._lock:
            count = len(self._steps)
            steps = self._steps[:count]
            references = [step.pending for step in steps]
            wanted = [s for s, p in zip(steps, references) if p() is not None and s.value is None]
            if asked is not None and asked.value is None and asked not in wanted:
                wanted.append(asked)
            if wanted:
                with _plain_eager():
                    values = self._run(_needed(steps, wanted), wanted)
                self.give(dict(zip(wanted, values)))
            del self._steps[:count]
            self._computed += [p for p in references if p() is not None]
            self._holders.settle()

    def waiting(self) -> dict[LazyOp, LazyArray]:
        """The steps without a value whose results somebody holds."""
        found = {step: step.pending() for step in self._steps if step.value is None}
        return {step: p for step, p in found.items() if p is not None}

    @property
    def largest(self) -> int:
        """The most elements that a step has whose turn has not come."""
        return max([step.result.type.size for step in self._steps], default=0)

    def give(self, values: Mapping[LazyOp, Any]) -> None:
        """Takes the arrays of steps that somebody else has computed."""
        for step, value in values.items():
            known = step.result.type
            assert (value.shape, value.dtype) == (known.shape, known.dtype), step.result.op
            step.value, step.inputs = value, ()

    def end(self) -> None:
        """Computes what is left, so that arrays stand wherever a value to come stood."""
        self.compute()
        settle_strays([p for p in [r() for r in self._computed] if p is not None])


class _plain_eager:
    """A context without interpreter and autocast."""

    __slots__ = ("active", "casting")

    def __enter__(self) -> None:
        state = interpreter.STATE
        self.active, self.casting = state._active, interpreter.set_casting(None)
        state._active = None

    def __exit__(self, *error: Any) -> None:
        interpreter.STATE.active = self.active
        interpreter.set_casting(self.casting)


def _needed(steps: list[LazyOp], wanted: list[LazyOp]) -> list[LazyOp]:
    """The steps that `wanted` are computed from and that have no value yet, in order."""
    needed: set[LazyOp] = set()
    stack = list(wanted)
    while stack:
        step = stack.pop()
        if step not in needed:
            needed.add(step)
            stack += [x for x in step.inputs if type(x) is LazyOp and x.value is None]
    return [step for step in steps if step in needed]


def _is_window(result: OpSignature, operands: list[Any]) -> bool:
    """Whether an op takes a part of one array: NumPy makes a window into it, for nothing, and
    where it begins may be different on each call."""
    return result.op.kind == "view" and len(operands) == 1 and \
        bool(result.type.size < operands[0].size)


def _references(tensor: Tensor) -> int:
    array = tensor._data
    return sys.getrefcount(array)


_EXCLUSIVE = _references(Tensor(np.empty(1)))  # to an array that only its tensor holds
