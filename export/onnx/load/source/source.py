"""A graph as source of Python: a class whose `forward` calls one operator a line."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .....eager.errors import ImportModelError
from ..runtime import table
from ..runtime.limits import Meter
from ..runtime.module import Names, fits
from ..runtime.tensors import array_of_proto, dense
from . import attributes, control, functions, standard
from .names import identifier, is_attribute
from .types import Types

_NUMBERS = 16  # in attributes, that count as much as a node
DEEPEST = 15  # graphs inside of graphs; Python nests loops twenty deep


class Scope:
    """The names of values in a graph and the source that reads them; those outside are seen."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.known: dict[str, str] = {}
        self.depth: int = 0 if outer is None else outer.depth + 1

    def find(self, name: str) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.known:
                return scope.known[name]
            scope = scope.outer
        return None


class Method:
    """One function of the source: its lines so far, the names that it uses."""

    scope_type = Scope

    def __init__(self, owner: ModelSource, opsets: Mapping[str, int], types: Types,
                 given: Mapping[str, Any]) -> None:
        self.owner, self.opsets, self.types, self.given = owner, opsets, types, given
        self.taken: dict[str, int] = {}
        self.lines: list[str] = []
        self.indent = 2

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append("    " * self.indent + text)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A context whose lines stand below `head`."""
        self.line(head)
        self.indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1

    def fresh(self, name: str) -> str:
        """An identifier that no other value has."""
        return identifier(name, self.taken)

    def read(self, name: str, scope: Scope) -> str:
        """Source for a value."""
        if not name:
            return "None"
        found = scope.find(name)
        if found is None:
            raise ImportModelError(f"the value {name!r} is used where nothing has computed it",
                                   "nodes stand in the order in which they run, without cycles")
        return found

    # ---- graphs
    def initializers(self, graph: Any, scope: Scope) -> None:
        """Enters the constants of a graph."""
        for proto in graph.initializer:
            self.constant(proto.name, array_of_proto(proto), scope, trained=True)
        for proto in graph.sparse_initializer:
            self.constant(proto.values.name, dense(proto, self.owner.meter), scope, trained=False)

    def constant(self, name: str, array: Any, scope: Scope, trained: bool = False) -> None:
        """Enters a constant under `name`: a literal, or what the module holds."""
        kept = trained and array.dtype.kind not in "ib"  # as part of the state
        scope.known[name] = (None if kept else attributes.literal(array)) or \
            self.owner.hold(name, array, trained)

    def nodes(self, nodes: Sequence[Any], scope: Scope) -> None:
        """Lines for nodes."""
        for node in nodes:
            try:
                numbers = sum(len(a.ints) + len(a.floats) + len(a.strings) for a in node.attribute)
                self.owner.meter.count(1 + numbers // _NUMBERS)
                self.node(node, scope)
            except ImportModelError as error:
                if not error.node:
                    error.node = node.name or node.op_type
                    error.message = f"node {error.node!r} ({node.op_type}): {error.message}"
                raise

    def body(self, graph: Any, scope: Scope, inputs: Sequence[str]) -> list[str]:
        """Lines for a graph inside of `scope`, its inputs being `inputs`; source of its outputs."""
        inner = Scope(scope)
        if inner.depth > DEEPEST:
            raise ImportModelError(f"graphs lie more than {DEEPEST} deep inside of each other")
        self.initializers(graph, inner)
        self.types.declare(graph)
        inner.known |= {v.name: text for v, text in zip(graph.input, inputs)}
        self.nodes(graph.node, inner)
        return [self.read(v.name, inner) for v in graph.output]

    # ---- nodes
    def node(self, node: Any, scope: Scope) -> None:
        """A line for a node, or several for control flow."""
        inputs = [self.read(name, scope) for name in node.input]
        while inputs and inputs[-1] == "None":
            inputs.pop()
        given = attributes.attributes_of(node, self.given)
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) not in self.owner.own_names:
            standard.check(node, domain, self.version(domain), given)
        written = control.CONTROL.get((domain, node.op_type))
        if written is not None:
            written(self, node, inputs, given, scope)
        else:
            self.call(node, domain, inputs, given, scope)
        if (domain, node.op_type) not in self.owner.own_names:
            self.types.follow(node, self.version(domain), given)

    def call(self, node: Any, domain: str, inputs: list[str], given: dict[str, Any], scope: Scope
             ) -> None:
        """A line that calls an operator, or the function that it stands for."""
        key = (domain, node.op_type)
        local = self.owner.functions.get((*key, getattr(node, "overload", "")))
        entry = None if local is not None else table.find(*key, self.version(domain))
        if entry is None:
            name = functions.instance(self, node, domain, given, local)
            text, many = f"self.{name}({', '.join(inputs)})", len(node.output) > 1
            self.assign(node.output, text, many, scope)
            return
        keywords = {n: attributes.text(n, proto, lambda n, a: self.owner.hold(
            f"{node.output[0]}_{n}", a, False)) for n, proto in given.items()}
        if "outputs" in inspect.signature(entry.function).parameters:
            keywords["outputs"] = str(_last(node.output))
        _check_call(entry, inputs, keywords)
        for place in entry.settings:
            if place < len(inputs):
                self.owner.not_trained.add(inputs[place])
                inputs[place] = self.owner.scalar(inputs[place])
        text = self.plain_text(entry, node, inputs, keywords)
        if not text:
            call = ", ".join([*inputs, *(f"{n}={v}" for n, v in keywords.items())])
            text = f"op.{entry.label}({call})"
        self.assign(node.output, text, entry.many, scope)

    def plain_text(self, entry: table.Operator, node: Any, inputs: list[str],
                   keywords: dict[str, str]) -> str:
        """What a user of fusewire would write; empty unless all inputs are tensors of floats."""
        if not entry.text or not self.types.are_floats(node.input):
            return ""
        if all(attributes.is_literal(text) for text in inputs):
            return ""  # numbers alone
        parameters = inspect.signature(entry.function).parameters.values()
        usual = {p.name: repr(p.default) for p in parameters if p.default is not p.empty}
        return entry.text.format(*inputs, **{**usual, **keywords})

    def version(self, domain: str) -> int:
        """The version of a domain's operators that the model uses."""
        if domain not in self.opsets:
            raise ImportModelError(f"the model does not say which version of {domain!r} it uses")
        return self.opsets[domain]

    def assign(self, outputs: Sequence[str], text: str, many: bool, scope: Scope) -> None:
        """A line that names what `text` gives."""
        names = [self.fresh(name) if name else "_" for name in outputs]
        for name, own in zip(outputs, names):
            if name:
                scope.known[name] = own
        if not names:
            self.line(text)
        elif many and len(names) == 1:
            self.line(f"{names[0]}, *_ = {text}")
        else:
            self.line(f"{', '.join(names)}{', *_' if many else ''} = {text}")


def _last(outputs: Sequence[str]) -> int:
    """How many outputs are asked for, to the last that is."""
    return max((i for i, name in enumerate(outputs, 1) if name), default=0)


def _check_call(entry: table.Operator, inputs: Sequence[str], keywords: Mapping[str, str]) -> None:
    if not all(name.isidentifier() for name in keywords):
        raise ImportModelError(f"{entry.name} has an attribute that is no name: {[*keywords]}")
    try:
        inspect.signature(entry.function).bind(*inputs, **keywords)
    except TypeError as error:
        raise ImportModelError(f"{entry.name} cannot be called so: {error}",
                               f"it takes {inspect.signature(entry.function)}") from None


class ModelSource:
    """The source of a model, its constants, and what it needs to be made of them."""

    def __init__(self, model: Any, meter: Meter) -> None:
        self.model, self.meter = model, meter
        self.opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version
                       for o in model.opset_import}
        standard.check_versions(self.opsets)
        self.functions = {("" if f.domain == "ai.onnx" else f.domain, f.name,
                           getattr(f, "overload", "")): f for f in model.functions}
        self.own_names = {key[:2] for key in self.functions}
        self.held: dict[str, Any] = {}        # source that reads a constant: (name, array, trained)
        self.not_trained: set[str] = set()    # source of floats that are settings
        self.methods: dict[Any, tuple[str, list[str], list[int]]] = {}  # types of outputs last
        self.method_names = {"forward": 1}
        self.making: list[str] = []           # functions whose source is being made
        self.parts = Names()
        self.many: dict[str, int] = {}        # names that the module holds, by what they begin with
        self.inputs: list[tuple[str, bool]] = []  # parameters of forward; whether they have a value
        self.lines = self._forward()

    def hold(self, name: str, array: Any, trained: bool) -> str:
        """Source that reads an array which the module holds."""
        self.meter.tick()
        base = name or "constant"
        if not fits(name, self.parts):
            name = base = identifier(base, {})
        while not fits(name, self.parts) or name in self.parts:
            self.many[base] = self.many.get(base, 1) + 1
            name = f"{base}_{self.many[base]}"
        self.parts.add(name)
        quoted = json.dumps(name, ensure_ascii=False)
        text = f"self.{name}" if is_attribute(name) else f"self[{quoted}]"
        self.held[text] = (name, array, trained)
        return text

    def scalar(self, text: str) -> str:
        """A literal in place of source that reads a scalar, where there is one."""
        found = self.held.get(text)
        return (attributes.literal(found[1]) if found and not found[1].ndim else None) or text

    def _forward(self) -> list[str]:
        graph = self.model.graph
        method, scope = Method(self, self.opsets, Types(), {}), Scope()
        method.types.declare(graph)
        method.initializers(graph, scope)
        given = []
        for place, v in enumerate(graph.input):
            own = method.fresh(v.name)
            default = scope.known.get(v.name)
            given.append(own if default is None else f"{own}=None")
            self.inputs.append((own, default is not None))
            method.line(f"{own} = self.given({place}, {own})" if default is None else
                        f"{own} = {default} if {own} is None else self.given({place}, {own})")
            scope.known[v.name] = own
        given = [g for g in given if "=" not in g] + [g for g in given if "=" in g]
        method.nodes(graph.node, scope)
        outputs = [f"op.result({method.read(v.name, scope)})" for v in graph.output]
        method.line(f"return {', '.join(outputs)}" if outputs else "return ()")
        return [f"    def forward({', '.join(['self', *given])}):", *method.lines]

    def text(self, title: str) -> str:
        """The whole source."""
        lines = ["import fusewire as fw", "", "op = fw.onnx.operators", "", "",
                 f"class {title}(fw.onnx.Model):", *self.lines]
        for _, method, _ in self.methods.values():
            lines += ["", *method]
        return "\n".join(lines) + "\n"
