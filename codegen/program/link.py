"""Sections as one program: each is lowered once, and its launches stand for every call of it.

A call puts other memory in the place of the section's buffers: what it was given for inputs, memory
of its own for outputs. Temporaries are used again by the next call.
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
from ..ir.loop_ir import Buffer
from ..outline.concat_placement import concat_operands_of
from ..outline.outline import Section, SectionCall
from .arena import in_bytes, plan_arena
from .executable import Plan
from .native_program import Arena
from .prepack import buffers_of, prepacked_launches

Lowered = tuple[Plan, list[Launch]]
Lower = Callable[[Graph, Collection[Node]], Lowered]

OFTEN = 8  # products that read the same, from which on it is packed once for all of them
_BYTE = np.dtype(np.uint8)


def lower_sections(graph: Graph, sections: Sequence[Section], given: Collection[Node],
                   lower: Lower, apart: bool, in_order: bool) -> Lowered:
    """The plan and the launches of a graph that was cut into sections.

    lower(part, given) does this for one of them. `given` are the inputs that are arguments of the
    whole program, whose elements can be checked before it runs. Values that lie `apart` are each a
    buffer of their own, as where sizes, and so places in a common one, are not known. Calls that
    need not run `in_order` have no temporaries in common.
    """
    sections = [s._replace(graph=replace(s.graph, persistent=_kept(s, graph))) for s in sections]
    bodies = _lower_each(sections, given, lower)
    if any(_fails_late(section, given, plan) for section, (plan, _) in zip(sections, bodies)):
        graph = replace(graph, donated={})  # nothing may be overwritten before
        sections = [s._replace(graph=replace(s.graph, donated={})) for s in sections]
        bodies = _lower_each(sections, given, lower)
    composer = _Composer(graph, apart, in_order)
    for section, body in zip(sections, bodies):
        composer.add(section, *body)
    return composer.plan(), composer.launches


def _lower_each(sections: Sequence[Section], given: Collection[Node], lower: Lower
                ) -> list[Lowered]:
    return [lower(s.graph, _always_given(s, given)) for s in sections]


def _kept(section: Section, graph: Graph) -> frozenset[int]:
    """The inputs of a section that stand for kept inputs of the graph in every call, or for one
    value in many calls, as the weight of a recurrent layer does."""
    always = _always_given(section, {graph.inputs[i] for i in graph.persistent})
    if len(section.calls) >= OFTEN:
        operands = zip(*[c.operands for c in section.calls])
        always |= {n for n, found in zip(section.graph.inputs, operands) if len({*found}) == 1}
    return frozenset(i for i, n in enumerate(section.graph.inputs) if n in always)


def _always_given(section: Section, given: Collection[Node]) -> set[Node]:
    """The inputs of a section that stand for one of these in every call."""
    operands = zip(*[c.operands for c in section.calls])
    return {n for n, found in zip(section.graph.inputs, operands)
            if all(o.node in given for o in found)}


def _fails_late(section: Section, given: Collection[Node], plan: Plan) -> bool:
    """Whether what a section computes must be checked, when parts of the program have run."""
    before = _always_given(section, given)
    return any(plan.graph.outputs[c.output] not in before for c in plan.checks)


class _Composer:
    """Puts the calls of sections together."""

    def __init__(self, graph: Graph, apart: bool, in_order: bool) -> None:
        self.graph, self.outputs = graph, set(graph.outputs)
        self.apart, self.in_order = apart or not in_order, in_order
        self.launches: list[Launch] = []
        self.owner: dict[Buffer, Node] = {}  # inputs, constants and results, by their memory
        self.places = {n: self._owned(n, n.params["name"]) for n in graph.inputs}
        self.constants: dict[Any, Node] = {}
        self.results: list[Node] = []
        self.taken: dict[Node, Node] = {}
        self.pieces = {} if apart else concat_operands_of(graph)
        self.concats = {whole for whole, _ in self.pieces.values()}
        self.wholes: dict[Node, BufferView] = {}  # those of the concats that have memory already
        self.checks: dict[tuple[Node, Any, str, int], None] = {}

    def add(self, section: Section, plan: Plan, launches: Sequence[Launch]) -> None:
        """Adds all calls of a section."""
        lasting = _PersistentBuffers(plan, launches)
        constants, places = self._constants(plan), dict[Buffer, BufferView]()
        for call in section.calls:
            if not places or not self.in_order:
                places = self._temporaries(plan, launches, lasting.sources)
            where = {**places, **constants, **self._inputs(plan, call)}
            again = lasting.place(where)
            self._add_outputs(plan, call, where)
            moved = [Launch(x.kernel, tuple([_moved(p, where) for p in x.places]))
                     for x in launches if x not in again]
            self.launches += [x for x in moved if not self._is_there(x)]

    def plan(self) -> Plan:
        """The plan of the whole graph."""
        graph, checks = self.graph, list[BoundsCheck]()
        outputs = [self.owner[self.places[n].buffer] for n in graph.outputs]
        for node, *rule in self.checks:
            outputs += [] if node in outputs else [node]
            checks.append(BoundsCheck(outputs.index(node), *rule))
        buffers, constants = {n: b for b, n in self.owner.items()}, [*self.constants.values()]
        own = dict.fromkeys(self.results)  # in the order of the outputs: then they are these
        results = [*dict.fromkeys((*(n for n in outputs if n in own), *own))]
        arguments = {buffers[n]: i for i, n in enumerate((*graph.inputs, *constants, *results))}
        return Plan(replace(graph, outputs=tuple(outputs), donated={}), buffers, arguments,
                    constants, results, self.taken, checks,
                    tuple([n.type.shape for n in graph.outputs]), len(graph.outputs))

    def _owned(self, node: Node, name: str) -> BufferView:
        """A buffer that is an argument of the program."""
        buffer = Buffer(name, node.type.dtype, node.type.size)
        self.owner[buffer] = node
        return BufferView(buffer)

    def _temporaries(self, plan: Plan, launches: Sequence[Launch], lasting: Collection[Buffer]
                     ) -> dict[Buffer, BufferView]:
        """Places in one buffer, which all calls use, for what only one call needs."""
        elsewhere = {**plan.arguments, **dict.fromkeys(lasting, 0)}
        if self.apart:
            own = dict.fromkeys(p.buffer for x in launches for p in x.places)
            return _each(b for b in own if b not in elsewhere)
        slots, size = plan_arena([[p.buffer for p in x.places] for x in launches], elsewhere)
        whole = Buffer("temporaries", _BYTE, size)
        return {b: BufferView(whole, s.offset) for b, s in slots.items() if isinstance(s, Arena)}

    def _constants(self, plan: Plan) -> dict[Buffer, BufferView]:
        return {plan.buffers[n]: self._constant(n) for n in plan.constants}

    def _constant(self, node: Node) -> BufferView:
        """Where a constant lies; equal ones are one."""
        known = self.constants.setdefault((params_key(node.params), node.type), node)
        if known not in self.places:
            self.places[known] = self._owned(known, f"c{len(self.constants)}")
        return self.places[known]

    def _inputs(self, plan: Plan, call: SectionCall) -> dict[Buffer, BufferView]:
        found = {}
        for node, operand in zip(plan.graph.inputs, call.operands):
            of, size = operand.node, node.type.dtype.itemsize
            place = self._constant(of) if of.op == "const" else self.places[of]
            part = operand.offset * size // place.buffer.dtype.itemsize
            found[plan.buffers[node]] = BufferView(place.buffer, place.offset + part)
        return found

    def _add_outputs(self, plan: Plan, call: SectionCall, where: dict[Buffer, BufferView]) -> None:
        """Finds memory for what a call gives, and adds it to `where`."""
        made = [plan.buffers[n] for n in plan.graph.outputs]
        whole = {b: n for b, n in zip(made, call.outputs) if n in self.outputs}
        for check in plan.checks:
            of = plan.graph.outputs[check.output].type
            whole.setdefault(made[check.output], Node("checked", (), {}, of))
        for buffer, node in whole.items():
            if buffer not in where:
                where[buffer] = self._result(node)
        for buffer, node in zip(made, call.outputs):
            if buffer not in where and (place := self._in_whole(node)) is not None:
                where[buffer] = place
        ends = {b: end for b, end in zip(made, call.last) if b not in where}
        where |= _each(ends) if self.apart else _frames(ends)
        for node, buffer in zip(call.outputs, made):
            self.places[node] = where[buffer]
        self.taken |= {call.outputs[j]: call.operands[i].node for j, i in _taken(plan)}
        for check in plan.checks:
            node = self.owner[where[made[check.output]].buffer]
            self.checks[node, check.size, check.what, check.low] = None

    def _result(self, node: Node) -> BufferView:
        """Where a result lies, in memory of its own; pieces of it lie there as well."""
        if node in self.wholes:
            return self.wholes[node]
        self.results.append(node)
        place = self._owned(node, f"b{len(self.results) - 1}")
        if node in self.concats:
            self.wholes[node] = place
        return place

    def _in_whole(self, node: Node) -> BufferView | None:
        """Where a piece of a concat, or a concat of pieces that lie there already, is to lie."""
        whole, at = self.pieces.get(node, (node, 0))
        if whole is not node and whole not in self.wholes:
            self.wholes[whole] = self._result(whole) if whole in self.outputs else \
                BufferView(Buffer("whole", whole.type.dtype, whole.type.size))
        place = self.wholes.get(whole)
        return None if place is None else BufferView(place.buffer, at)

    def _is_there(self, launch: Launch) -> bool:
        """Whether a kernel only copies a piece to where it lies."""
        first = launch.places[0]
        return list(launch.places) == [first, first] \
            and any(p.buffer is first.buffer for p in self.wholes.values())


class _PersistentBuffers:
    """What a section makes of kept inputs alone. Calls with other ones have each their own, which
    outlives them; those with the same, such as the steps of a recurrent layer, share it."""

    def __init__(self, plan: Plan, launches: Sequence[Launch]) -> None:
        kept = {plan.buffers[plan.graph.inputs[i]] for i in plan.graph.persistent}
        given = {*kept, *[plan.buffers[n] for n in plan.constants]}
        self.first, _ = prepacked_launches(launches, given, plan.arguments)
        self.sources: dict[Buffer, dict[Buffer, None]] = {}  # the kept inputs it is made of
        self._made: dict[Any, BufferView] = {}
        for launch in self.first:
            reads, writes = buffers_of(launch)
            found = dict.fromkeys(s for b in reads
                                  for s in (self.sources.get(b, ()) if b not in kept else (b,)))
            for b in writes:
                self.sources[b] = self.sources.get(b, {}) | found

    def place(self, where: dict[Buffer, BufferView]) -> set[Launch]:
        """Adds to `where` the places of a call, and gives the launches that need not run again."""
        new = set()
        for b, sources in self.sources.items():
            key = b, *[where[s] for s in sources]
            if key not in self._made:
                self._made[key] = BufferView(Buffer(b.name, b.dtype, b.size))
                new.add(b)
            where[b] = self._made[key]
        return {x for x in self.first if new.isdisjoint(buffers_of(x)[1])}


def _taken(plan: Plan) -> list[tuple[int, int]]:
    """The outputs that take an input's memory, and these inputs, by their numbers."""
    number = {plan.buffers[n]: i for i, n in enumerate(plan.graph.inputs)}
    outputs = enumerate(plan.graph.outputs[:plan.wanted])
    return [(j, number[plan.buffers[n]]) for j, n in outputs if plan.buffers[n] in number]


def _each(buffers: Iterable[Buffer]) -> dict[Buffer, BufferView]:
    """A place of its own for each buffer."""
    return {b: BufferView(Buffer(b.name, b.dtype, b.size)) for b in buffers}


def _frames(ends: Mapping[Buffer, int]) -> dict[Buffer, BufferView]:
    """Places for buffers: those that are needed until the same call lie in one."""
    sizes: dict[int, int] = {}
    offsets = {}
    for buffer, end in ends.items():
        offsets[buffer] = sizes.get(end, 0)
        sizes[end] = offsets[buffer] + in_bytes(buffer)
    frames = {end: Buffer(f"until{end}", _BYTE, size) for end, size in sizes.items()}
    return {b: BufferView(frames[end], offsets[b]) for b, end in ends.items()}


def _moved(place: BufferView, where: Mapping[Buffer, BufferView]) -> BufferView:
    """A place of a section in the memory of a call."""
    to = where[place.buffer]
    if not place.offset:
        return to
    scale = place.buffer.dtype.itemsize // to.buffer.dtype.itemsize
    return BufferView(to.buffer, to.offset + place.offset * scale)
