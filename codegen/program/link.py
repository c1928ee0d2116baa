"""Links outlined sections into one program, and plans the memory that their calls share.

Each section is lowered once, and its launches serve every call. A call binds the section's buffers
to other memory: its operands for inputs, new memory for outputs. The next call reuses the
temporaries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...capture.graph.graph import Graph, Node, params_key
from ...capture.passes.bounds_checks import BoundsCheck
from ..fusion.kernel_key import BufferView
from ..fusion.launch import Launch
from ..ir.loop_ir import KernelBuffer
from ..outline.concat_placement import concat_operands_of
from ..outline.outline import Section, SectionCall
from .arena import in_bytes, plan_arena
from .executable import Plan
from .listing import SHARED_NAMES
from .native_program import Arena
from .prepack import buffers_of, prepacked_launches

Lowered = tuple[Plan, list[Launch]]
Lower = Callable[[Graph, Collection[Node]], Lowered]

MIN_PRODUCTS_TO_PACK = 8  # equal products that share an operand, to pack it once for all
_BYTE = np.dtype(np.uint8)


def lower_sections(graph: Graph, sections: Sequence[Section], program_inputs: Collection[Node],
                   lower: Lower, separate: bool, in_order: bool) -> Lowered:
    """The plan and the launches of a graph that was cut into sections.

    lower(part, inputs) lowers one section. `program_inputs` are the inputs that are arguments of
    the whole program, whose elements can be checked before it runs. With `separate`, each value has
    its own buffer, as needed if sizes, and so offsets in a shared one, are unknown. Calls that need
    not run `in_order` share no temporaries.
    """
    sections = [s._replace(graph=replace(s.graph, persistent=_persistent_inputs(s, graph)))
                for s in sections]
    bodies = _lower_each(sections, program_inputs, lower)
    if any(_needs_late_check(section, program_inputs, plan)
           for section, (plan, _) in zip(sections, bodies)):
        graph = replace(graph, donated={})  # nothing may be overwritten before
        sections = [s._replace(graph=replace(s.graph, donated={})) for s in sections]
        bodies = _lower_each(sections, program_inputs, lower)
    composer = _Linker(graph, separate, in_order)
    for section, body in zip(sections, bodies):
        composer.add(section, *body)
    return composer.plan(), composer.launches


def _lower_each(sections: Sequence[Section], program_inputs: Collection[Node], lower: Lower
                ) -> list[Lowered]:
    return [lower(s.graph, _inputs_always_among(s, program_inputs)) for s in sections]


def _persistent_inputs(section: Section, graph: Graph) -> frozenset[int]:
    """The inputs of a section that are persistent inputs of the graph in every call, or one value
    in many calls, such as the weight of a recurrent layer."""
    always = _inputs_always_among(section, {graph.inputs[i] for i in graph.persistent})
    if len(section.calls) >= MIN_PRODUCTS_TO_PACK:
        operands = zip(*[c.operands for c in section.calls])
        always |= {n for n, values in zip(section.graph.inputs, operands) if len({*values}) == 1}
    return frozenset(i for i, n in enumerate(section.graph.inputs) if n in always)


def _inputs_always_among(section: Section, nodes: Collection[Node]) -> set[Node]:
    """The inputs of a section that are bound to one of these nodes in every call."""
    operands = zip(*[c.operands for c in section.calls])
    return {n for n, values in zip(section.graph.inputs, operands)
            if all(o.node in nodes for o in values)}


def _needs_late_check(section: Section, program_inputs: Collection[Node], plan: Plan) -> bool:
    """True if a check of computed values fails only after parts of the program have run."""
    before = _inputs_always_among(section, program_inputs)
    return any(plan.graph.outputs[c.output] not in before for c in plan.checks)


class _Linker:
    """Links the calls of sections into one list of launches."""

    def __init__(self, graph: Graph, separate: bool, in_order: bool) -> None:
        self.graph, self.outputs = graph, set(graph.outputs)
        self.separate, self.in_order = separate or not in_order, in_order
        self.launches: list[Launch] = []
        self.owner: dict[KernelBuffer, Node] = {}  # inputs, constants and results, by their memory
        self.views = {n: self._argument_view(n, n.params["name"]) for n in graph.inputs}
        self.constants: dict[Any, Node] = {}
        self.results: list[Node] = []
        self.donated: dict[Node, Node] = {}
        self.concat_operands = {} if separate else concat_operands_of(graph)
        self.concats = {whole for whole, _ in self.concat_operands.values()}
        self.concat_views: dict[Node,
                                BufferView] = {}  # those of the concats that have memory already
        self.checks: dict[tuple[Node, Any, str, int], None] = {}

    def add(self, section: Section, plan: Plan, launches: Sequence[Launch]) -> None:
        """Adds all calls of a section."""
        lasting = _PersistentBuffers(plan, launches)
        constants, temporaries = self._constant_views(plan), dict[KernelBuffer, BufferView]()
        for call in section.calls:
            if not temporaries or not self.in_order:
                temporaries = self._temporary_views(plan, launches, lasting.sources)
            views = {**temporaries, **constants, **self._input_views(plan, call)}
            rerun_unneeded = lasting.bind(views)
            self._add_outputs(plan, call, views)
            moved = [replace(x, views=tuple([_rebased(p, views) for p in x.views]))
                     for x in launches if x not in rerun_unneeded]
            self.launches += [x for x in moved if not self._is_redundant_copy(x)]

    def plan(self) -> Plan:
        """The plan of the whole graph."""
        graph, checks = self.graph, list[BoundsCheck]()
        outputs = [self.owner[self.views[n].buffer] for n in graph.outputs]
        for node, *rule in self.checks:
            outputs += [] if node in outputs else [node]
            checks.append(BoundsCheck(outputs.index(node), *rule))
        buffers, constants = {n: b for b, n in self.owner.items()}, [*self.constants.values()]
        own = dict.fromkeys(self.results)  # in the order of the outputs if possible
        results = [*dict.fromkeys((*(n for n in outputs if n in own), *own))]
        arguments = {buffers[n]: i for i, n in enumerate((*graph.inputs, *constants, *results))}
        return Plan(replace(graph, outputs=tuple(outputs), donated={}), buffers, arguments,
                    constants, results, self.donated, checks,
                    tuple([n.type.shape for n in graph.outputs]), len(graph.outputs))

    def _argument_view(self, node: Node, name: str) -> BufferView:
        """A buffer that is an argument of the program."""
        buffer = KernelBuffer(name, node.type.dtype, node.type.size)
        self.owner[buffer] = node
        return BufferView(buffer)

    def _temporary_views(self, plan: Plan, launches: Sequence[Launch],
                         lasting: Collection[KernelBuffer]
                         ) -> dict[KernelBuffer, BufferView]:
        """Views into one buffer, which all calls share, for the temporaries of a call."""
        elsewhere = {**plan.arguments, **dict.fromkeys(lasting, 0)}
        if self.separate:
            buffers = dict.fromkeys(p.buffer for x in launches for p in x.views)
            return _own_buffers(b for b in buffers if b not in elsewhere)
        slots, size = plan_arena([[p.buffer for p in x.views] for x in launches], elsewhere)
        temporaries = KernelBuffer(SHARED_NAMES[0], _BYTE, size)
        return {b: BufferView(temporaries, s.offset) for b, s in slots.items()
                if isinstance(s, Arena)}

    def _constant_views(self, plan: Plan) -> dict[KernelBuffer, BufferView]:
        return {plan.buffers[n]: self._constant_view(n) for n in plan.constants}

    def _constant_view(self, node: Node) -> BufferView:
        """The view of a constant; equal constants share it."""
        representative = self.constants.setdefault((params_key(node.params), node.type), node)
        if representative not in self.views:
            self.views[representative] = self._argument_view(representative,
                                                             f"c{len(self.constants)}")
        return self.views[representative]

    def _input_views(self, plan: Plan, call: SectionCall) -> dict[KernelBuffer, BufferView]:
        views = {}
        for node, operand in zip(plan.graph.inputs, call.operands):
            of, size = operand.node, node.type.dtype.itemsize
            view = self._constant_view(of) if of.op == "const" else self.views[of]
            part = operand.offset * size // view.buffer.dtype.itemsize
            views[plan.buffers[node]] = BufferView(view.buffer, view.offset + part)
        return views

    def _add_outputs(self, plan: Plan, call: SectionCall,
                     views: dict[KernelBuffer, BufferView]) -> None:
        """Allocates memory for the outputs of a call, and adds it to `views`."""
        buffers = [plan.buffers[n] for n in plan.graph.outputs]
        program_outputs = {b: n for b, n in zip(buffers, call.outputs) if n in self.outputs}
        for check in plan.checks:
            of = plan.graph.outputs[check.output].type
            program_outputs.setdefault(buffers[check.output], Node("checked", (), {}, of))
        for buffer, node in program_outputs.items():
            if buffer not in views:
                views[buffer] = self._result_view(node)
        for buffer, node in zip(buffers, call.outputs):
            if buffer not in views and (view := self._view_in_concat(node)) is not None:
                views[buffer] = view
        ends = {b: end for b, end in zip(buffers, call.last) if b not in views}
        views |= _own_buffers(ends) if self.separate else _shared_buffers(ends)
        for node, buffer in zip(call.outputs, buffers):
            self.views[node] = views[buffer]
        self.donated |= {call.outputs[j]: call.operands[i].node for j, i in _donated_pairs(plan)}
        for check in plan.checks:
            node = self.owner[views[buffers[check.output]].buffer]
            self.checks[node, check.size, check.what, check.low] = None

    def _result_view(self, node: Node) -> BufferView:
        """The view of a result, in memory of its own; operands of a concat result are views into
        it."""
        if node in self.concat_views:
            return self.concat_views[node]
        self.results.append(node)
        view = self._argument_view(node, f"b{len(self.results) - 1}")
        if node in self.concats:
            self.concat_views[node] = view
        return view

    def _view_in_concat(self, node: Node) -> BufferView | None:
        """The view of a concat operand inside its concat, or of a concat whose operands are in
        place already."""
        concat, at = self.concat_operands.get(node, (node, 0))
        if concat is not node and concat not in self.concat_views:
            self.concat_views[concat] = self._result_view(concat) if concat in self.outputs else \
                BufferView(KernelBuffer("whole", concat.type.dtype, concat.type.size))
        view = self.concat_views.get(concat)
        return None if view is None else BufferView(view.buffer, at)

    def _is_redundant_copy(self, launch: Launch) -> bool:
        """True if a kernel copies a concat operand onto itself."""
        first = launch.views[0]
        return list(launch.views) == [first, first] \
            and any(p.buffer is first.buffer for p in self.concat_views.values())


class _PersistentBuffers:
    """The buffers that a section computes from persistent inputs alone. Calls with different inputs
    have separate buffers, which outlive the calls; calls with equal inputs, such as the steps of a
    recurrent layer, share them."""

    def __init__(self, plan: Plan, launches: Sequence[Launch]) -> None:
        persistent = {plan.buffers[plan.graph.inputs[i]] for i in plan.graph.persistent}
        available = {*persistent, *[plan.buffers[n] for n in plan.constants]}
        self.launches, _ = prepacked_launches(launches, available, plan.arguments)
        # the persistent inputs that each prepacked buffer is computed from
        self.sources: dict[KernelBuffer, dict[KernelBuffer, None]] = {}
        self._views: dict[Any, BufferView] = {}
        for launch in self.launches:
            reads, writes = buffers_of(launch)
            new_sources = dict.fromkeys(s for b in reads
                                        for s in (self.sources.get(b, ())
                                                  if b not in persistent else (b,)))
            for b in writes:
                self.sources[b] = self.sources.get(b, {}) | new_sources

    def bind(self, views: dict[KernelBuffer, BufferView]) -> set[Launch]:
        """Adds the persistent buffers of a call to `views`; returns the launches that need not run
        again."""
        new = set()
        for b, sources in self.sources.items():
            key = b, *[views[s] for s in sources]
            if key not in self._views:
                self._views[key] = BufferView(KernelBuffer(b.name, b.dtype, b.size))
                new.add(b)
            views[b] = self._views[key]
        return {x for x in self.launches if new.isdisjoint(buffers_of(x)[1])}


def _donated_pairs(plan: Plan) -> list[tuple[int, int]]:
    """(output, input) numbers of the outputs that reuse an input's memory."""
    number = {plan.buffers[n]: i for i, n in enumerate(plan.graph.inputs)}
    outputs = enumerate(plan.graph.outputs[:plan.output_count])
    return [(j, number[plan.buffers[n]]) for j, n in outputs if plan.buffers[n] in number]


def _own_buffers(buffers: Iterable[KernelBuffer]) -> dict[KernelBuffer, BufferView]:
    """A separate buffer for each buffer."""
    return {b: BufferView(KernelBuffer(b.name, b.dtype, b.size)) for b in buffers}


def _shared_buffers(ends: Mapping[KernelBuffer, int]) -> dict[KernelBuffer, BufferView]:
    """Views for buffers: those with the same last use share one buffer."""
    sizes: dict[int, int] = {}
    offsets = {}
    for buffer, end in ends.items():
        offsets[buffer] = sizes.get(end, 0)
        sizes[end] = offsets[buffer] + in_bytes(buffer)
    frames = {end: KernelBuffer(f"{SHARED_NAMES[1]}{end}", _BYTE, size)
              for end, size in sizes.items()}
    return {b: BufferView(frames[end], offsets[b]) for b, end in ends.items()}


def _rebased(view: BufferView, views: Mapping[KernelBuffer, BufferView]) -> BufferView:
    """A view of the section in the memory of a call."""
    to = views[view.buffer]
    if not view.offset:
        return to
    scale = view.buffer.dtype.itemsize // to.buffer.dtype.itemsize
    return BufferView(to.buffer, to.offset + view.offset * scale)
