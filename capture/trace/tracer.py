"""The recorder: an interpreter that runs ops as eager does and notes each as a node."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from ...eager import interpreter
from ...eager.arrays import devices
from ...eager.arrays.memory import SMALLEST
from ...eager.arrays.shapes import TensorType
from ...eager.core.dispatch import evaluate
from ...eager.core.op import Op
from ...eager.core.tensor import Tensor
from ...eager.errors import DTypeError, FusewireError, GraphError, ShapeError
from ...eager.ops.data_dependent import run
from ...eager.ops.declare import dtype_of_operands
from ..control_flow.data_dependent_sizes import DataDependentSize, decide_failure
from ..control_flow.decision import Decision, outcome_of
from ..control_flow.loop_detection import LoopDetector, LoopEntry, LoopRepeat
from ..control_flow.loop_gradients import LoopBackwardEvent
from ..graph.graph import Node
from ..graph.graph_builder import constant, literal
from ..heap.access_path import Path
from ..heap.snapshot import HeapSnapshot
from ..heap.source_location import user_site
from ..lazy.interpreter import LazyInterpreter
from ..passes.bounds_checks import may_raise
from ..scalars.scalar_expr import Constant, ScalarExpr, of_number
from ..scalars.symbolic_scalar import Number, plain, plainly
from ..sizes.symbolic_dim import Sizes, concrete
from .dynamic_inputs import DynamicInputs
from .value_table import ValueTable

_SMALL = 64  # arrays of at most so many elements become constants, or decide by their values
# How the values of a tensor reach Python, and what of them a run then depends on.
_ASKED = {"bool()": "bool", "int()": "int", "float()": "value", "complex()": "value",
          "tolist()": "value"}


class Tracer:
    """Notes what runs. Arrays never change, so an array's identity says which node it is."""

    answers = True
    keeps_layers = False

    def __init__(self, state: HeapSnapshot, positional: int, keywords: tuple[str, ...],
                 names: ValueTable,
                 sizes: Sizes | None = None, varying: DynamicInputs | None = None) -> None:
        self.state, self.names, self.nodes = state, names, names.nodes
        self.positional, self.keywords = positional, keywords
        self.unwatched: AbstractContextManager[Any] = nullcontext()
        self.sizes, self.varying = sizes or Sizes({}), varying or DynamicInputs()
        self.widened: dict[Path, Number] = {}  # plain numbers that were replaced by symbols
        self.made_numbers = False
        self._symbolic: list[tuple[Any, ...]] = []  # entries with symbols: these, what they had
        self.path: list[Decision | LoopEntry | LoopRepeat | LoopBackwardEvent
                        | DataDependentSize] = []
        self.loops = LoopDetector(self)
        if self.sizes is names.sizes:
            self.sizes.number, self.sizes.asked = self._size, self._asked
        self.later: LazyInterpreter | None = None  # delays ops until Python reads a value
        self.listening = True  # whether what Python asks of numbers is part of the run
        self._decided: set[tuple[Any, str]] = set()
        self._in_turns: list[Any] = []  # what was learnt and decided of loops' turns: ids, keys
        self.sources: dict[Path, Node] = {}  # tensors that came from outside, in order of use
        self.grads_read: set[int] = set()  # tensors whose .grad was read before it was set
        self.grads_set: set[int] = set()
        self.changed_tensors: dict[int, Tensor] = {}
        self.changed_paths: list[Path] = []  # what the run changed, found when it has ended
        self.created: list[tuple[Path, str]] = []  # attributes that it made
        self.went_back = False  # whether gradients were computed in the run
        self.results: list[Tensor] = []  # once the run has ended: the tensors that leave it
        self.place = ""  # once the run has ended: where the function stands
        self.refusal = ""  # why this run cannot be replayed, with the user's line
        self.again = False  # whether the next run can be, as it is recorded in another way
        # Nodes that may raise errors, by how many elements of the path were noted before.
        self.raising: list[tuple[int, Node]] = []
        self.entries: dict[int, tuple[Any, Node]] = {}  # of the tape, with the nodes they stand for
        self._known: dict[int, tuple[Any, Node]] = {}
        self._lookup: dict[int, Path] = {}
        self._indexed = 0

    # ---- the interpreter's side

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        with self.unwatched:  # only our own code runs in here
            params = {name: _settled(value) for name, value in params.items()}
            out = self._run(op, inputs, params)
            self._note(op, inputs, params, out)
            return out

    def _run(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        before, interpreter.STATE.active, self.listening = interpreter.STATE.active, None, False
        try:
            given = tuple(concrete(plain(x)) for x in inputs)
            known = {name: concrete(value) for name, value in params.items()}
            out = evaluate(op, given, known) if self.later is None else \
                self.later.apply(op, given, known)
            if out.edge is not None and (_differ(given, inputs) or _differ(
                    known.values(), params.values())):
                self._give_symbols(out.edge, inputs, params)
            return out
        except FusewireError as error:
            self.listening = True
            for x in inputs:  # an error is the answer to these very numbers
                plainly(x)
            decide_failure(self, op, inputs, params)
            if not isinstance(error, (ShapeError, DTypeError)):
                self.refuse(f"{op.name} raises an error here that depends on values")
            raise
        finally:
            interpreter.STATE.active, self.listening = before, True

    def _give_symbols(self, entry: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> None:
        """The way back computes with symbols, too, while the run lasts."""
        given = tuple([x._data if isinstance(x, Tensor) else x for x in inputs])
        self._symbolic.append((entry, given, entry.arrays, entry.params))
        entry.arrays, entry.params = given, params

    def settle_tape(self) -> None:
        """Puts plain numbers on the tape, which may outlive the run."""
        for entry, given, arrays, params in self._symbolic:
            entry.params = params
            if entry.arrays is given:  # neither given up nor forgotten by a checkpoint
                entry.arrays = arrays
        self._symbolic.clear()

    def end(self) -> None:
        """The run has ended: nothing holds its arrays any longer, but a tape that goes through a
        loop which is rolled up."""
        self.settle_tape()
        self.unwatched = nullcontext()
        self.sizes.asked = self.sizes.number = None
        self.results = []
        if not self.loops.rolled_gradients:
            self.loops.end()
            self.state = HeapSnapshot()
            self.entries, self._known, self.changed_tensors = {}, {}, {}

    def measure(self, op: Op, x: Tensor) -> Tensor | None:
        self._flush_lazy()
        out, node = Tensor(run(op, x._data)), self.node_of(x)
        if node.op == "const":
            self.source(out)
            return out
        with self.sizes.listening(False):
            made = self.names.measured(op, node, self.sizes, out._data.shape[0])
        self.learn(out._data, made)
        if self._is_new(made, "measure"):
            self.path.append(DataDependentSize(made, user_site()))
            self.loops.measured()
        return out

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        if not self.sizes.values:
            return tensor._data.shape  # type: ignore[no-any-return]
        with self.sizes.listening(False):
            return self.node_of(tensor).type.shape

    def source(self, tensor: Tensor) -> None:
        if self.later is not None:
            self.later.source(tensor)
        array = tensor._data
        if array.size <= _SMALL:
            self.learn(array, constant(self.nodes, array))
        else:
            self.refuse(f"a tensor with {array.size} elements is made from Python values "
                        "or a NumPy array here; make it before the call")

    def changed(self, tensor: Tensor) -> None:
        self.changed_tensors[id(tensor)] = tensor
        if self.later is not None:
            self.later.changed(tensor)

    def reads_grad(self, tensor: Tensor) -> None:
        if id(tensor) not in self.grads_set:
            self.grads_read.add(id(tensor))

    def sets_grad(self, tensor: Tensor) -> None:
        self.grads_set.add(id(tensor))

    def leaves(self, tensor: Tensor, how: str) -> Any:
        self._flush_lazy()
        if how == "item()":
            return None  # what `number` gives can be followed
        kind = _ASKED.get(how)
        if kind is None or tensor._data.size > _SMALL:
            self.refuse(f"{how} hands a tensor's values to Python")
        else:
            node = self.node_of(tensor)
            self.decide(node, kind, outcome_of(kind, node, tensor._data))
        return None

    def number(self, tensor: Tensor, value: Any) -> Any:
        node = self.node_of(tensor)
        if node.op == "const":
            return value
        if not self.names.follows_numbers or type(value) not in (int, float):
            kind = "bool" if type(value) is bool else "value"
            self.decide(node, kind, outcome_of(kind, node, tensor._data))
            return value
        self.made_numbers = True
        return Number(ScalarExpr("element", (node,)), value, self)

    def _size(self, size: Any) -> Number:
        return Number(ScalarExpr("size", (size.expr,)), size.value, self)

    def tensor_of(self, number: Number, dtype: Any) -> Tensor | None:
        """The tensor of a number, None where the dtype cannot hold it."""
        with np.errstate(over="ignore"):
            try:
                out = Tensor(np.asarray(dtype.type(number.value)))
            except OverflowError:
                return None
        self.uses(number)
        node = self.names.number(number.formula, TensorType((), dtype))
        self.loops.made(node)
        self.learn(out._data, node)
        return out

    def looks_at_types(self) -> None:
        """Code of the function tells a number from what stands for it: none must be there."""
        if self.made_numbers or self.widened or self.sizes.values:
            self.refuse("type(), __class__ or pow() is used on a symbolic number; the function "
                        "is retraced with plain numbers")
        self.names.follows_numbers = False

    def index_of(self, number: Number) -> Any:
        """What stands for a number in an index: here its value is asked for."""
        return number

    # ---- decisions

    def decide(self, subject: Any, kind: str, outcome: Any) -> Any:
        """Notes a decision; one that was made before is implied. The answer to go on with."""
        if not self.listening or getattr(subject, "op", "") in ("const", "constant"):
            return outcome
        self._flush_lazy()
        if kind == "bool":
            with self.sizes.listening(False):
                subject = self.loops.visit(subject, user_site())
        return self._answered(subject, kind, outcome)

    def _asked(self, relation: str, expr: Any, outcome: int) -> None:
        """A question about measured sizes was answered."""
        size = ScalarExpr("size", (expr,))
        if relation == "value":
            self.decide(size, relation, outcome)
        else:
            self._answered(ScalarExpr(relation, (size, of_number(0))), "bool", bool(outcome))

    def _answered(self, subject: Any, kind: str, outcome: Any) -> Any:
        self._flush_lazy()
        noted = Constant(outcome) if isinstance(subject,
                                                ScalarExpr) and kind == "value" else outcome
        if self._is_new(subject, kind):
            self.path.append(Decision(subject, kind, noted, user_site()))
            self.loops.step()
        return outcome

    def _is_new(self, subject: Any, kind: str) -> bool:
        """Whether this was not asked before; from now on it was."""
        key = subject, kind
        if key in self._decided:
            return False
        self._decided.add(key)
        if self.loops.depth_of(subject):
            self._in_turns.append(key)
        return True

    @property
    def turn(self) -> int:
        return self.loops.turn

    def uses(self, number: Number) -> None:
        if self.listening:
            self.loops.computed()
            self.loops.check(number)

    @property
    def noting(self) -> bool:
        """Whether what runs now is part of the recorded run."""
        return interpreter.STATE.active is self

    def went_through(self, head: Any, given: Any, found: Any) -> None:
        """A gradient went back through a loop."""
        with self.sizes.listening(False):
            self.loops.went_through(head, given, found, user_site())

    def forget(self, is_gone: Callable[[Any], bool]) -> None:
        """Arrays and decisions that a loop has made in earlier turns mean nothing any more."""
        kept = []
        for each in self._in_turns:
            if type(each) is int:
                if each in self._known and is_gone(self._known[each][1]):
                    del self._known[each]
                    continue
            elif is_gone(each[0]):
                self._decided.discard(each)
                continue
            kept.append(each)
        self._in_turns = kept

    # ---- nodes of arrays

    def _note(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any], out: Tensor) -> None:
        with self.sizes.listening(False):
            nodes = self._operands(inputs)
        kind = self._type(op, nodes, params, out)
        with self.sizes.listening(False):
            made = self.nodes.make(op.name, nodes, params, kind, user_site())
        self.loops.made(made)
        self.learn(out._data, made)
        if may_raise(op):
            self.raising.append((len(self.path), made))
        if out.edge is not None:
            self.entries[id(out.edge)] = (out.edge, made)

    def _operands(self, inputs: tuple[Any, ...]) -> list[Node]:
        known = [self.node_of(x) if isinstance(x, Tensor) else None for x in inputs]
        if None not in known:
            return known  # type: ignore[return-value]
        types = tuple([plain(x) if n is None else n.type for x, n in zip(inputs, known)])
        return [self._number(x, types) if n is None else n for x, n in zip(inputs, known)]

    def _type(self, op: Op, nodes: list[Node], params: dict[str, Any], out: Tensor) -> TensorType:
        """The type of a result; its shape by the op's own rule where sizes are symbols."""
        shape = out._data.shape
        if self.sizes.values:
            shape = op.result(*[n.type for n in nodes], **params).shape  # sizes are asked in here
            if concrete(shape) != out._data.shape:
                raise GraphError(f"{op.name}: its rule gives the shape {shape}, its value has "
                                 f"{out._data.shape}")
        return TensorType(shape, out._data.dtype)

    def _number(self, x: Any, types: tuple[Any, ...]) -> Node:
        """The node of a number among operands of these types."""
        dtype = dtype_of_operands(types)
        try:
            if type(x) is Number:
                self.uses(x)
                return self.names.number(x.formula, TensorType((), dtype))
            return self.nodes.const(*literal(x, dtype))
        except OverflowError:  # such a number can be compared with, no more
            self.refuse(f"a tensor of {dtype.name} is compared with {x}, which {dtype.name} "
                        "cannot hold")
            return self.nodes.const(*literal(0, dtype))

    def learn(self, array: Any, node: Node) -> None:
        """From now on `array` stands for `node`. A large one is not kept for that: its memory is
        free for the next one as soon as the program lets go of it."""
        key = id(array)
        held = array if array.nbytes < SMALLEST else weakref.ref(array, partial(self._gone, key))
        self._known[key] = (held, node)
        if node in self.loops.dependent:
            self._in_turns.append(id(array))

    def _flush_lazy(self) -> None:
        """Python looks at values: from here on ops run where they stand."""
        later, self.later = self.later, None
        if later is not None:
            later.compute()

    def comes(self, later: Any, array: Any) -> None:
        """What stood for an array has got it."""
        node = self.node_of_array(later)
        if node is not None:
            self.learn(array, node)
        self._lookup.pop(id(later), None)  # which may be the next one's
        self.state.comes(later, array)

    def node_of_array(self, array: Any) -> Node | None:
        """The node of an array that was made in this run, or read from a path."""
        return self._known.get(id(array), (None, None))[1]

    def _gone(self, key: int, reference: Any) -> None:
        """An array is gone; the next one may have its id."""
        if self._known.get(key, (None,))[0] is reference:
            del self._known[key]

    def knows(self, tensor: Tensor) -> bool:
        """Whether the tensor's value was computed in this run, or read from a path."""
        return id(tensor._data) in self._known

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor's present value; one not made here is an input by its path."""
        found = self._known.get(id(tensor._data))
        if found is not None:
            return found[1]
        path = self._path_of(tensor._data)
        if path is None:
            self.refuse("a tensor is used that was not made here and cannot be reached from the "
                        "arguments, closure or globals of the function")
            path = Path("lost", len(self.sources))
        kind = TensorType(self.shape_at(path, tensor._data.shape), tensor._data.dtype)
        with self.sizes.listening(False):
            node = self.sources[path] = self.names.tensor(path, kind, devices.of(tensor._data))
        self.learn(tensor._data, node)
        return node

    def shape_at(self, path: Path, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """The shape of the tensor at `path`, with symbols for the sizes that vary."""
        named = {axis: name for (at, axis), name in self.varying.axes.items() if at == path}
        return tuple(self.sizes.named(named[i]) if i in named else n for i, n in enumerate(shape))

    def _path_of(self, array: Any) -> Path | None:
        if self._indexed != len(self.state.held):
            for path, held in self.state.held.items():
                if isinstance(self.state.values[path], Tensor):
                    self._lookup.setdefault(id(held[0]), path)
            self._indexed = len(self.state.held)
        return self._lookup.get(id(array))

    def unrolls(self) -> None:
        """A gradient goes through a loop in a way that only its single turns can be recorded."""
        self.names.rolls_gradients = False
        if not self.refusal:
            self.again = True
            self.refuse("a gradient goes through a loop; it is retraced with the loop unrolled")

    def refuse(self, why: str) -> None:
        """This run cannot be replayed, for this reason; the first one is kept."""
        self._flush_lazy()
        if not self.refusal:
            self.refusal = f"{self.place or user_site() or 'somewhere'}: {why}"


def _differ(known: Iterable[Any], given: Iterable[Any]) -> bool:
    return any(a is not b for a, b in zip(known, given))


def _settled(value: Any) -> Any:
    """A param as plain data: a number in it is one for good."""
    if type(value) is Number:
        return value.leak()
    return tuple(map(_settled, value)) if type(value) is tuple else value
