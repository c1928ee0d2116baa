"""Traces a run: an interpreter that runs ops as eager does and records each as a graph node."""

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
from ...eager.core.tape import Entry
from ...eager.core.tensor import Tensor
from ...eager.core.views import is_shared
from ...eager.errors import DTypeError, FusewireError, GraphError, ShapeError
from ...eager.ops.declare import dtype_of_operands
from ..control_flow.data_dependent_sizes import decide_failure
from ..control_flow.decision import Decision, outcome_of
from ..control_flow.loop_detection import LoopDetector
from ..control_flow.possible_aliases import PossibleAliases
from ..graph.graph import Node
from ..graph.graph_builder import constant, literal
from ..heap.access_path import Path
from ..heap.snapshot import HeapSnapshot
from ..heap.source_location import name_of, user_site, values_of
from ..lazy.lazy_interpreter import LazyInterpreter
from ..passes.bounds_checks import may_raise
from ..scalars.scalar_expr import ScalarConstant, ScalarExpr
from ..scalars.symbolic_scalar import SymbolicScalar, leaked_value, plain_value
from ..sizes.symbolic_dim import ShapeEnv, concrete
from .dynamic_inputs import DynamicInputs
from .effect_recording import EffectRecording
from .loop_questions import LoopQuestions
from .path_merging import PathMerging
from .size_questions import SizeQuestions
from .value_table import ValueTable

_MAX_CONSTANT_ELEMENTS = 64  # of arrays that become constants, or whose values decide
# How Python reads the values of a tensor -> the kind of decision that the run then depends on.
_DECISION_KINDS = {"bool()": "bool", "int()": "int", "float()": "value", "complex()": "value",
                   "tolist()": "value"}


class Tracer(SizeQuestions, EffectRecording, PathMerging, LoopQuestions):
    """Records the ops of a run. Arrays are never written to, so an array's identity determines its
    node."""

    can_read_values = True
    keeps_layers = False

    def __init__(self, state: HeapSnapshot, positional: int, keywords: tuple[str, ...],
                 names: ValueTable,
                 sizes: ShapeEnv | None = None, varying: DynamicInputs | None = None) -> None:
        self.state, self.names, self.nodes = state, names, names.nodes
        self.positional, self.keywords = positional, keywords
        self.unwatched: AbstractContextManager[Any] = nullcontext()
        self.sizes, self.dynamic_inputs = sizes or ShapeEnv({}), varying or DynamicInputs()
        self.symbolized: dict[Path, SymbolicScalar] = {}  # numbers replaced by symbols
        self.made_symbolic_scalars = False
        self._symbolic_entries: list[tuple[Any, ...]] = []  # entry, symbols, arrays, params
        self.path: list[Any] = []  # elements of the path that the run takes, see `cfg.Element`
        self.uncomputed, self.effect_targets, self._forgotten = {}, set(), {}
        self.loops, self.counts = LoopDetector(self), names.rolls_sizes
        self.aliases = PossibleAliases(self, names.merged_inputs)
        if self.sizes is names.sizes:
            self.sizes.number, self.sizes.on_question = self._size, self._decide_size
            self.sizes.is_loop_test = self.is_loop_test
        self.lazy: LazyInterpreter | None = None  # defers ops until Python reads a value
        self.listening = True  # False while numbers are read outside of the run
        self._decided: set[tuple[Any, str]] = set()
        self._loop_dependent: list[int] = []  # ids in `_nodes_by_id`
        self.sources: dict[Path, Node] = {}  # tensors read from outside, in order of use
        self.grads_read: set[int] = set()  # tensors whose .grad was read before it was set
        self.grads_set: dict[int, None] = {}  # in the order in which they were set
        # By id; weak, since a view that is gone is no longer changed with its base.
        self.changed_tensors: weakref.WeakValueDictionary[int, Tensor] = \
            weakref.WeakValueDictionary()
        self.changed_paths: list[Path] = []  # objects that the run changed, set at its end
        self.created: list[tuple[Path, str]] = []  # attributes that the run created
        self.computed_gradients = False  # the run computed gradients
        self.results: list[Tensor] = []  # set at the end: the tensors that outlive the run
        self.location = ""  # set at the end: file and line of the function
        self.refusal = ""  # the reason why this run cannot be replayed, with the user's line
        self.can_retry = False  # the refusal does not apply to the next trace
        # Nodes that may raise errors, with the length of the path before each.
        self.raising: list[tuple[int, Node]] = []
        self.ordered: list[Node] = []  # nodes of ordered ops, each of which reads the one before
        self.entries: dict[int, tuple[Any, Node]] = {}  # of the tape, by id, with their nodes
        self.untaped: set[Node] = set()  # computed without an entry of the tape
        self._nodes_by_id: dict[int, tuple[Any, Node]] = {}
        self._lookup: dict[int, Path] = {}
        self._indexed = 0

    # ---- interface of interpreters

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        with self.unwatched:  # no user code runs here
            self.aliases.copy_changes()
            params = {name: _specialized(value) for name, value in params.items()}
            if op.ordered:
                params = self._begin_ordered(params)
            out = self._run(op, inputs, params)
            self._record(op, inputs, params, out)
            return out

    def _run(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        before, interpreter.STATE.active, self.listening = interpreter.STATE.active, None, False
        try:
            arguments = tuple(concrete(plain_value(x)) for x in inputs)
            arguments_by_name = {name: concrete(value) for name, value in params.items()}
            out = evaluate(op, arguments, arguments_by_name) if self.lazy is None else \
                self.lazy.apply(op, arguments, arguments_by_name)
            if out.edge is not None and (_any_differ(arguments, inputs) or _any_differ(
                    arguments_by_name.values(), params.values())):
                self._record_symbols_on_tape(out.edge, inputs, params)
            return out
        except FusewireError as error:
            self.listening = True
            for x in inputs:  # the error depends on these exact numbers
                leaked_value(x)
            decide_failure(self, op, inputs, params)
            if not isinstance(error, (ShapeError, DTypeError)):
                self.refuse(f"{op.name} raises an error here that depends on values")
            raise
        finally:
            interpreter.STATE.active, self.listening = before, True

    def _record_symbols_on_tape(self, entry: Any, inputs: tuple[Any, ...],
                                params: dict[str, Any]) -> None:
        """Lets the backward pass compute with symbols, too, during the run."""
        symbols = tuple([x._data if isinstance(x, Tensor) else x for x in inputs])
        self._symbolic_entries.append((entry, symbols, entry.arrays, entry.params))
        entry.arrays, entry.params = symbols, params

    def settle_tape(self) -> None:
        """Replaces symbols on the tape by plain numbers, since the tape may outlive the run."""
        for entry, symbols, arrays, params in self._symbolic_entries:
            entry.params = params
            if entry.arrays is symbols:  # not released by backward() or a checkpoint
                entry.arrays = arrays
        self._symbolic_entries.clear()

    def end(self) -> None:
        """Ends the run and releases its arrays, unless the tape goes through a rolled loop."""
        self.settle_tape()
        self.unwatched = nullcontext()
        self.sizes.on_question = self.sizes.number = self.sizes.is_loop_test = None
        self.results = []
        if not self.loops.rolled_gradients:
            self.loops.end()
            self.aliases.tracer = self.merger = None
            self.state = HeapSnapshot()
            self.entries, self._nodes_by_id = {}, {}
            self.changed_tensors.clear()

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        if not self.sizes.values:
            return tensor._data.shape  # type: ignore[no-any-return]
        with self.sizes.recording(False):
            return self.node_of(tensor).type.shape

    def note_constant(self, tensor: Tensor) -> None:
        if self.lazy is not None:
            self.lazy.note_constant(tensor)
        array = tensor._data
        if array.size <= _MAX_CONSTANT_ELEMENTS:
            self.bind(array, constant(self.nodes, array))
        else:
            self.refuse(f"a tensor with {array.size} elements is made from Python values "
                        "or a NumPy array here; make it before the call")

    def changed(self, tensor: Tensor) -> None:
        self._observe(tensor)
        self.loops.lists.note_change(tensor)
        self.state.before_change(tensor)
        if is_shared(tensor):
            self.state.note_bases(tensor)
            self.loops.note_shared_write()
        self.aliases.note_change(tensor)
        self.changed_tensors[id(tensor)] = tensor
        if self.lazy is not None:
            self.lazy.changed(tensor)

    def reads_grad(self, tensor: Tensor) -> None:
        self._observe(tensor)
        if id(tensor) not in self.grads_set:
            self.grads_read.add(id(tensor))

    def sets_grad(self, tensor: Tensor) -> None:
        self._observe(tensor)
        self.grads_set[id(tensor)] = None

    def reads_values(self, tensor: Tensor, how: str) -> Any:
        self.aliases.copy_changes()
        self._flush_lazy()
        if how == "item()":
            return None  # `number` returns a symbolic scalar
        text = self.text_of_tensor(tensor) if how == "repr()" else None
        if text is not None:
            return text
        kind = _DECISION_KINDS.get(how)
        if kind is None or tensor._data.size > _MAX_CONSTANT_ELEMENTS:
            self.refuse(f"{how} hands {values_of(name_of(tensor))} to Python")
        else:
            node = self.node_of(tensor)
            self.decide(node, kind, outcome_of(kind, node, tensor._data))
        return None

    def item(self, tensor: Tensor, value: Any) -> Any:
        node = self.node_of(tensor)
        if node.op == "const":
            return value
        if not self.names.symbolic_scalars or type(value) not in (int, float):
            kind = "bool" if type(value) is bool else "value"
            self.decide(node, kind, outcome_of(kind, node, tensor._data))
            return value
        self.made_symbolic_scalars = True
        return SymbolicScalar(ScalarExpr("element", (node,)), value, self)

    def tensor_of(self, number: SymbolicScalar, dtype: Any) -> Tensor | None:
        """The tensor of a number; None if the dtype cannot hold it."""
        with np.errstate(over="ignore"):
            try:
                out = Tensor(np.asarray(dtype.type(number.value)))
            except OverflowError:
                return None
        self.uses(number)
        node = self.names.number(number.formula, TensorType((), dtype))
        self.loops.note_node(node)
        self.bind(out._data, node)
        return out

    @property
    def has_symbols(self) -> bool:
        """True if numbers or sizes of this run are symbols."""
        return bool(self.made_symbolic_scalars or self.symbolized or self.sizes.values)

    def disable_symbolic_scalars(self) -> None:
        """Traces with plain numbers, since the function can tell them from symbolic scalars.
        Refuses the run if it has symbols already."""
        if self.has_symbols:
            self.refuse("type(), __class__ or pow() is used while numbers are symbolic; the next "
                        "call is traced with plain numbers")
        self.names.symbolic_scalars = False

    # ---- decisions

    def decide(self, subject: Any, kind: str, outcome: Any) -> Any:
        """Records a decision, unless it was made before. Returns the outcome to continue with."""
        if not self.listening or getattr(subject, "op", "") in ("const", "constant"):
            return outcome
        self._flush_lazy()
        if kind != "bool":
            return self._record_decision(subject, kind, outcome)
        with self.sizes.recording(False):
            subject = self.loops.visit(self._joined(subject), user_site())
        length = len(self.path)
        outcome = self._record_decision(subject, kind, outcome)
        self._note_branch(length)
        return outcome

    def _record_decision(self, subject: Any, kind: str, outcome: Any) -> Any:
        self._flush_lazy()
        is_number = isinstance(subject, ScalarExpr) and kind == "value"
        recorded = ScalarConstant(outcome) if is_number else outcome
        if self._is_new(subject, kind):
            self.path.append(Decision(subject, kind, recorded, user_site()))
            self.loops.note_path_element()
        return outcome

    def _is_new(self, subject: Any, kind: str) -> bool:
        """Marks a decision as made. Returns True if it was not made before."""
        key = subject, kind
        if key in self._decided:
            return False
        self._decided.add(key)
        return True

    @property
    def iteration(self) -> int:
        return self.loops.iteration

    def uses(self, number: SymbolicScalar) -> None:
        if self.listening:
            self.loops.note_computation()
            self.loops.refuse_stale(number)

    @property
    def is_recording(self) -> bool:
        """True if code that runs now is part of the traced run."""
        return interpreter.STATE.active is self

    def note_loop_gradient(self, header: Any, out_gradients: Any, in_gradients: Any) -> None:
        """Records a backward pass through a loop."""
        with self.sizes.recording(False):
            self.loops.note_loop_gradient(header, out_gradients, in_gradients, user_site())

    @property
    def decided(self) -> frozenset[tuple[Any, str]]:
        """The decisions whose outcomes are known here."""
        return frozenset(self._decided)

    def forget(self, is_gone: Callable[[Any], bool], decided: frozenset[tuple[Any, str]]) -> None:
        """Forgets the arrays of earlier iterations whose nodes are gone, and all decisions other
        than `decided`: an iteration repeats those of the one before, since all share one body."""
        self._decided &= decided
        known = self._nodes_by_id
        for key in [k for k in self._loop_dependent if k in known and is_gone(known[k][1])]:
            known.pop(key, None)
        self._loop_dependent = [key for key in self._loop_dependent if key in known]

    # ---- nodes of arrays

    def _record(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any], out: Tensor) -> None:
        with self.sizes.recording(False):
            nodes = self._operands(inputs) + (self.ordered[-1:] if op.ordered else [])
        tensor_type = self._type(op, nodes, params, out)
        with self.sizes.recording(False):
            node = self.nodes.make(op.name, nodes, params, tensor_type, user_site())
        self.loops.note_node(node)
        if op.ordered:
            self.ordered.append(node)
        self.uncomputed[node] = None
        self.bind(out._data, node)
        if may_raise(op):
            self.raising.append((len(self.path), node))
        if out.edge is None:
            self.untaped.add(node)
        else:
            self.entries[id(out.edge)] = (out.edge, node)

    def _operands(self, inputs: tuple[Any, ...]) -> list[Node]:
        operands = [self.node_of(x) if isinstance(x, Tensor) else None for x in inputs]
        if None not in operands:
            return operands  # type: ignore[return-value]
        types = tuple([plain_value(x) if n is None else n.type for x, n in zip(inputs, operands)])
        return [self._number(x, types) if n is None else n for x, n in zip(inputs, operands)]

    def _type(self, op: Op, nodes: list[Node], params: dict[str, Any], out: Tensor) -> TensorType:
        """The type of a result; if sizes are symbols, the op's own rule gives its shape."""
        shape = out._data.shape
        if self.sizes.values:
            shape = op.result(*[n.type for n in nodes],
                              **params).shape  # may make decisions on sizes
            if concrete(shape) != out._data.shape:
                raise GraphError(f"{op.name}: its rule gives the shape {shape}, its value has "
                                 f"{out._data.shape}")
        return TensorType(shape, out._data.dtype)

    def _number(self, x: Any, types: tuple[Any, ...]) -> Node:
        """The node of a number that is an operand beside operands of these types."""
        dtype = dtype_of_operands(types)
        try:
            if type(x) is SymbolicScalar:
                self.uses(x)
                return self.names.number(x.formula, TensorType((), dtype))
            return self.nodes.const(*literal(x, dtype))
        except OverflowError:  # only comparisons accept such a number
            self.refuse(f"a tensor of {dtype.name} is compared with {x}, which {dtype.name} "
                        "cannot hold")
            return self.nodes.const(*literal(0, dtype))

    def bind(self, array: Any, node: Node) -> None:
        """Binds `array` to `node`. A large array is held weakly, so that its memory is reused as
        soon as the program releases it."""
        key = id(array)
        held = array if array.nbytes < SMALLEST else weakref.ref(array,
                                                                 partial(self._forget_freed, key))
        self._nodes_by_id[key] = (held, node)
        if node in self.loops.dependent:
            self._loop_dependent.append(id(array))

    def _flush_lazy(self) -> None:
        """Flushes the lazy interpreter: from now on ops run eagerly."""
        lazy, self.lazy = self.lazy, None
        if lazy is not None:
            lazy.compute()

    def resolve(self, lazy_array: Any, array: Any) -> None:
        """Replaces a lazy array by its computed array."""
        node = self.node_of_array(lazy_array)
        if node is not None:
            self.bind(array, node)
        self._lookup.pop(id(lazy_array), None)  # another object may get this id
        self.state.resolve(lazy_array, array)

    def node_of_array(self, array: Any) -> Node | None:
        """The node of an array that this run computed or read from a path, else None."""
        return self._nodes_by_id.get(id(array), (None, None))[1]

    def _forget_freed(self, key: int, reference: Any) -> None:
        """Forgets an array that was freed, since another one may get its id."""
        if self._nodes_by_id.get(key, (None,))[0] is reference:
            del self._nodes_by_id[key]

    def knows(self, tensor: Tensor) -> bool:
        """True if this run computed the tensor's value or read it from a path."""
        return id(tensor._data) in self._nodes_by_id

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor's current value; a value from outside is an input with a path."""
        bound = self._nodes_by_id.get(id(tensor._data))
        if bound is not None:
            return bound[1]
        path = self._path_of(tensor._data)
        if path is None:
            self._refuse_lost(tensor)
            path = Path("lost", len(self.sources))
        tensor_type = TensorType(self.shape_at(path, tensor._data.shape), tensor._data.dtype)
        with self.sizes.recording(False):
            node = self.sources[path] = self.names.tensor(path, tensor_type,
                                                          devices.of(tensor._data))
        self.bind(tensor._data, node)
        return node

    def _why_lost(self, tensor: Tensor) -> str:
        """The reason why the value of a tensor has no path."""
        taped = next((p for p, edge in self.state.edges.items() if type(edge) is Entry), None)
        name = name_of(tensor)
        if taped is not None and not name:
            return f"a gradient goes through operations that ran before the call: they made {taped}"
        return f"{f'`{name}`' if name else 'a tensor'} is used, which the function did not make " \
            "and which cannot be reached from its arguments, closure or globals"

    def shape_at(self, path: Path, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """The shape of the tensor at `path`, with symbols for dynamic sizes."""
        named = {axis: name for (at, axis), name in self.dynamic_inputs.axes.items() if at == path}
        return tuple(self.sizes.named(named[i]) if i in named else n for i, n in enumerate(shape))

    def _path_of(self, array: Any) -> Path | None:
        if self._indexed != len(self.state.held):
            for path, held in self.state.held.items():
                if isinstance(self.state.values[path], Tensor):
                    self._lookup.setdefault(id(held[0]), path)
            self._indexed = len(self.state.held)
        return self._lookup.get(id(array))

    def request_unrolling(self) -> None:
        """Refuses the run and asks for unrolled loops, since a gradient cannot be rolled up."""
        self.names.rolls_gradients = False
        if not self.refusal:
            self.refuse("a gradient goes through a loop; the next call is traced with the loop "
                        "unrolled")
            self.can_retry = True

    def note_import(self) -> None:
        """Refuses the run, in which a module is imported. The next call finds it loaded, unless
        the import fails each time."""
        if not self.refusal and self.names.may_import:
            self.names.may_import, self.can_retry = False, True
        self.refuse("a module is imported")

    def refuse(self, why: str) -> None:
        """Marks the run as one that cannot be replayed; the first reason is reported."""
        self._flush_lazy()
        if not self.refusal:
            self.refusal = f"{self.location or user_site() or 'somewhere'}: {why}"
            self.unroll_sizes()


def _any_differ(values: Iterable[Any], others: Iterable[Any]) -> bool:
    return any(a is not b for a, b in zip(values, others))


def _specialized(value: Any) -> Any:
    """A param as plain data; specializes symbolic numbers in it."""
    if type(value) is SymbolicScalar:
        return value.leak()
    return tuple(map(_specialized, value)) if type(value) is tuple else value
