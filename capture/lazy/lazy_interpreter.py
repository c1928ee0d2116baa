"""Defers ops: Python runs unchanged, and deferred ops run together when a value is needed.

An op returns a tensor with a lazy array. The deferred ops whose results are alive run as one
subgraph when Python reads a value, when an op cannot be compiled, and when the function ends. All
other effects of Python (prints, random numbers, NumPy, exceptions) keep their order; errors about
shapes or indices are raised at the op.
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
from ..heap.source_location import name_of, user_site, values_of
from .lazy_array import LazyArray, LazyOp
from .lazy_array_holders import References, resolve_strays
from .op_signature import OpSignature, OpSignatures, fits

# An op on computed arrays with at most so many elements runs eagerly: NumPy needs no longer for it
# than deferring it takes.
MAX_EAGER_ELEMENTS = 1 << 15

_new: Any = object.__new__
_ndarray = np.ndarray


class LazyInterpreter:
    """Defers the ops of one call of a function, at most `longest` of them at a time.

    run(steps, outputs) returns the arrays of `outputs`; note(why) gets the reasons for runs before
    the end of the function; `sites`: find the line of each op; `small`: instead of
    MAX_EAGER_ELEMENTS.
    """

    can_read_values = True
    keeps_layers = False

    def __init__(self, results: OpSignatures,
                 run: Callable[[list[LazyOp], list[LazyOp]], list[Any]],
                 note: Callable[[str], None], longest: int, sites: bool,
                 small: int | None = None) -> None:
        self._results, self._run, self._note = results, run, note
        self._max_deferred, self._sites = longest, sites
        self._max_eager_elements = MAX_EAGER_ELEMENTS if small is None else small
        self._steps: list[LazyOp] = []
        self._references = References()
        self._computed_arrays: list[Callable[[], LazyArray | None]] = []
        self.eager_ops = 0  # ops that ran at once
        self._lock = threading.RLock()  # another thread may ask for a value, too

    # ---- interface of interpreters

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        operands, ready, largest = [], True, 0
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
                elif not isinstance(x, _ndarray):  # of a transform that has ended
                    return self._run_eagerly(op, inputs, params)
                elif x.size > largest:
                    largest = x.size
            operands.append(x)
        if ready and largest <= self._max_eager_elements and op.kind != "create":
            return self._run_eagerly(op, inputs, params)
        signature = self._results.lookup(op, tuple(operands), params)
        if signature is None or self._must_run(signature, operands, ready):
            return self._run_eagerly(op, inputs, params)
        return self._defer(signature, inputs, operands)

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        return tensor._data.shape  # type: ignore[no-any-return]

    def note_constant(self, tensor: Tensor) -> None:
        array = tensor._data
        if array.flags.writeable and (sys.getrefcount(array) > _EXCLUSIVE_REFERENCES
                                      or not is_whole(array)):
            tensor._data = array.copy()  # its other holder may write to it before the ops run

    def changed(self, tensor: Tensor) -> None:
        self._references.add_tensor(tensor)  # which is about to get a lazy array

    def reads_grad(self, tensor: Tensor) -> None:
        pass

    def sets_grad(self, tensor: Tensor) -> None:
        pass

    def reads_values(self, tensor: Tensor, how: str) -> None:
        if type(tensor._data) is LazyArray:
            tensor._data = tensor._data.array(how, name_of(tensor))

    def item(self, tensor: Tensor, value: Any) -> Any:
        return value

    def apply_data_dependent(self, op: Op, x: Tensor) -> Tensor | None:
        return None

    # ---- one op, eager or deferred

    def _must_run(self, signature: OpSignature, operands: list[Any], ready: bool) -> bool:
        """True if an op must run now because of its kind, its inputs, or an error in them."""
        if signature.why_eager:
            if not ready:
                self._note(f"{user_site() or 'somewhere'}: {signature.why_eager}")
            return True
        if ready and _is_slice(signature, operands):
            return True
        for x, slot in zip(operands, signature.slots):
            if slot is not None and not fits(x, slot):
                return True
        if not signature.checked:
            return False
        checked = [operands[i] for i in signature.checked]
        return not signature.checks_pass([x.array("an index") if type(x) is LazyArray else x
                                          for x in checked])

    def _run_eagerly(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        for x in inputs:
            if isinstance(x, Tensor) and type(x._data) is LazyArray:
                x._data = x._data.array("")
        self.eager_ops += 1
        state = interpreter.STATE
        state._active = None  # not `active`: the thread still counts as one with an interpreter
        try:
            return evaluate(op, inputs, params)
        finally:
            state.active = self  # `active`: the op may have reset the thread's count

    def _defer(self, signature: OpSignature, inputs: tuple[Any, ...],
               operands: list[Any]) -> Tensor:
        if len(self._steps) >= self._max_deferred:
            self.compute()
        step = LazyOp(signature, tuple([x.step if type(x) is LazyArray else x for x in operands]),
                      user_site() if self._sites else "")
        data = LazyArray(step, self)
        self._steps.append(step)
        out = _new(Tensor)
        out._data, out.edge, out._grad, out._view = data, None, None, None
        self._references.add_tensor(out)
        if MODE.enabled and signature.op.vjp is not None:
            edges = tuple([x.edge if isinstance(x, Tensor) else None for x in inputs])
            if any([e is not None for e in edges]):
                out.edge = Entry(signature.op, signature.params, tuple(operands), edges, data)
                self._references.add_entry(out.edge)
        return out  # type: ignore[no-any-return]

    # ---- running deferred ops

    def add_tensor(self, tensor: Tensor) -> None:
        self._references.add_tensor(tensor)

    def compute_for(self, step: LazyOp, how: str, name: str) -> None:
        """Computes all live ops, since Python reads the value of `step` by `how`; `name` is that of
        the tensor."""
        if how:
            self._note(f"{user_site() or 'somewhere'}: {how} hands {values_of(name)} to Python")
        self.compute(step)
        assert step.value is not None

    def compute(self, asked: LazyOp | None = None) -> None:
        """Computes all deferred ops with live results, and `asked`."""
        with self._lock:
            count = len(self._steps)
            steps = self._steps[:count]
            references = [step.array_reference for step in steps]
            outputs = [s for s, p in zip(steps, references) if p() is not None and s.value is None]
            if asked is not None and asked.value is None and asked not in outputs:
                outputs.append(asked)
            if outputs:
                with _plain_eager():
                    values = self._run(_dependencies(steps, outputs), outputs)
                self.set_values(dict(zip(outputs, values)))
            del self._steps[:count]
            self._computed_arrays += [p for p in references if p() is not None]
            self._references.resolve()

    def live_uncomputed(self) -> dict[LazyOp, LazyArray]:
        """The deferred ops with live results, and these results."""
        arrays = {step: step.array_reference() for step in self._steps if step.value is None}
        return {step: p for step, p in arrays.items() if p is not None}

    @property
    def largest_uncomputed(self) -> int:
        """The largest element count of the deferred ops."""
        return max([step.signature.type.size for step in self._steps], default=0)

    def set_values(self, values: Mapping[LazyOp, Any]) -> None:
        """Sets the arrays of ops that the caller has computed."""
        for step, value in values.items():
            expected = step.signature.type
            assert (value.shape, value.dtype) == (expected.shape, expected.dtype), step.signature.op
            step.value, step.inputs = value, ()

    def end(self) -> None:
        """Computes the remaining ops and replaces every lazy array by its array."""
        self.compute()
        resolve_strays([p for p in [r() for r in self._computed_arrays] if p is not None])


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


def _dependencies(steps: list[LazyOp], outputs: list[LazyOp]) -> list[LazyOp]:
    """The uncomputed ops that `outputs` depend on, in order."""
    needed: set[LazyOp] = set()
    stack = list(outputs)
    while stack:
        step = stack.pop()
        if step not in needed:
            needed.add(step)
            stack += [x for x in step.inputs if type(x) is LazyOp and x.value is None]
    return [step for step in steps if step in needed]


def _is_slice(signature: OpSignature, operands: list[Any]) -> bool:
    """True if an op is a slice of one array. NumPy makes such a view for free, and its start may
    differ on each call."""
    return signature.op.kind == "view" and len(operands) == 1 and \
        bool(signature.type.size < operands[0].size)


def _references(tensor: Tensor) -> int:
    array = tensor._data
    return sys.getrefcount(array)


_EXCLUSIVE_REFERENCES = _references(Tensor(np.empty(1)))  # to an array held by its tensor only
