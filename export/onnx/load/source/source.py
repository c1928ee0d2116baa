"""Generates the Python source of a graph: a class whose `forward` calls one operator per line."""

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

_NUMBERS_PER_NODE = 16  # so many numbers in attributes count as a node
_INVALID_NODE = "the file is damaged or not supported: export the model again, or to another opset"
MAX_GRAPH_DEPTH = 15  # nested graphs; Python allows twenty nested loops


class Scope:
    """The source for each value of a graph, by name; values of outer graphs are visible."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.sources: dict[str, str] = {}
        self.depth: int = 0 if outer is None else outer.depth + 1

    def find(self, name: str) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.sources:
                return scope.sources[name]
            scope = scope.outer
        return None


class Method:
    """A method of the source under construction: its lines, and the identifiers in use."""

    scope_type = Scope

    def __init__(self, owner: ModelSource, opsets: Mapping[str, int], types: Types,
                 arguments: Mapping[str, Any]) -> None:
        self.owner, self.opsets, self.types, self.arguments = owner, opsets, types, arguments
        self.taken: dict[str, int] = {}
        self.lines: list[str] = []
        self.indent = 2

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append("    " * self.indent + text)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A context whose lines are indented below `head`."""
        self.line(head)
        self.indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1

    def fresh(self, name: str) -> str:
        """A new identifier like `name`."""
        return identifier(name, self.taken)

    def read(self, name: str, scope: Scope) -> str:
        """The source that reads a value. Raises ImportModelError if no node computes it."""
        if not name:
            return "None"
        source = scope.find(name)
        if source is None:
            raise ImportModelError(f"the value {name!r} is used before it is computed",
                                   "nodes must be in topological order, without cycles")
        return source

    # ---- graphs
    def initializers(self, graph: Any, scope: Scope) -> None:
        """Adds the constants of a graph to the scope."""
        for proto in graph.initializer:
            self.constant(proto.name, array_of_proto(proto), scope, trained=True)
        for proto in graph.sparse_initializer:
            self.constant(proto.values.name, dense(proto, self.owner.meter), scope, trained=False)

    def constant(self, name: str, array: Any, scope: Scope, trained: bool = False) -> None:
        """Adds a constant to the scope: a literal, or source that reads it from the module."""
        in_state = trained and array.dtype.kind not in "ib"
        scope.sources[name] = (None if in_state else attributes.literal(array)) or \
            self.owner.hold(name, array, trained)

    def nodes(self, nodes: Sequence[Any], scope: Scope) -> None:
        """Writes lines for nodes."""
        for node in nodes:
            try:
                numbers = sum(len(a.ints) + len(a.floats) + len(a.strings) for a in node.attribute)
                self.owner.meter.count(1 + numbers // _NUMBERS_PER_NODE)
                self.node(node, scope)
            except ImportModelError as error:
                if not error.node:
                    error.node = node.name or node.op_type
                    error.message = f"node {error.node!r} ({node.op_type}): {error.message}"
                    error.help = error.help or _INVALID_NODE
                raise

    def body(self, graph: Any, scope: Scope, inputs: Sequence[str]) -> list[str]:
        """Writes lines for a subgraph, and returns the source of its outputs."""
        inner = Scope(scope)
        if inner.depth > MAX_GRAPH_DEPTH:
            raise ImportModelError(f"graphs are nested more than {MAX_GRAPH_DEPTH} levels deep")
        self.initializers(graph, inner)
        self.types.declare(graph)
        inner.sources |= {v.name: text for v, text in zip(graph.input, inputs)}
        self.nodes(graph.node, inner)
        return [self.read(v.name, inner) for v in graph.output]

    # ---- nodes
    def node(self, node: Any, scope: Scope) -> None:
        """Writes a line for a node, or several for control flow."""
        inputs = [self.read(name, scope) for name in node.input]
        while inputs and inputs[-1] == "None":
            inputs.pop()
        protos = attributes.attributes_of(node, self.arguments)
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) not in self.owner.own_names:
            standard.check(node, domain, self.version(domain), protos)
        writer = control.NODE_WRITERS.get((domain, node.op_type))
        if writer is not None:
            writer(self, node, inputs, protos, scope)
        else:
            self.call(node, domain, inputs, protos, scope)
        if (domain, node.op_type) not in self.owner.own_names:
            self.types.follow(node, self.version(domain), protos)

    def call(self, node: Any, domain: str, inputs: list[str], protos: dict[str, Any], scope: Scope
             ) -> None:
        """Writes a line that calls an operator, or the function that defines it."""
        key = (domain, node.op_type)
        local = self.owner.functions.get((*key, getattr(node, "overload", "")))
        entry = None if local is not None else table.find(*key, self.version(domain))
        if entry is None:
            name = functions.instance(self, node, domain, protos, local)
            text, many = f"self.{name}({', '.join(inputs)})", len(node.output) > 1
            self.assign(node.output, text, many, scope)
            return
        keywords = {n: attributes.text(n, proto, lambda n, a: self.owner.hold(
            f"{node.output[0]}_{n}", a, False)) for n, proto in protos.items()}
        if "outputs" in inspect.signature(entry.function).parameters:
            keywords["outputs"] = str(_last(node.output))
        _check_call(entry, inputs, keywords)
        for position in entry.settings:
            if position < len(inputs):
                self.owner.not_trained.add(inputs[position])
                inputs[position] = self.owner.scalar(inputs[position])
        text = self.plain_text(entry, node, inputs, keywords)
        if not text:
            call = ", ".join([*inputs, *(f"{n}={v}" for n, v in keywords.items())])
            text = f"op.{entry.label}({call})"
        self.assign(node.output, text, entry.many, scope)

    def plain_text(self, entry: table.Operator, node: Any, inputs: list[str],
                   keywords: dict[str, str]) -> str:
        """The Python expression of a user for an operator, if it has one, else an empty string.

        It applies if all inputs are tensors of floats.
        """
        if not entry.text or not self.types.are_floats(node.input):
            return ""
        if all(attributes.is_literal(text) for text in inputs):
            return ""  # the expression would compute with Python numbers only
        parameters = inspect.signature(entry.function).parameters.values()
        usual = {p.name: repr(p.default) for p in parameters if p.default is not p.empty}
        return entry.text.format(*inputs, **{**usual, **keywords})

    def version(self, domain: str) -> int:
        """The version of a domain's operators that the model uses."""
        if domain not in self.opsets:
            raise ImportModelError(f"the model has no opset import for the domain {domain!r}")
        return self.opsets[domain]

    def assign(self, outputs: Sequence[str], text: str, many: bool, scope: Scope) -> None:
        """Writes a line that assigns the result of `text` to the outputs."""
        names = [self.fresh(name) if name else "_" for name in outputs]
        for name, own in zip(outputs, names):
            if name:
                scope.sources[name] = own
        if not names:
            self.line(text)
        elif many and len(names) == 1:
            self.line(f"{names[0]}, *_ = {text}")
        else:
            self.line(f"{', '.join(names)}{', *_' if many else ''} = {text}")


def _last(outputs: Sequence[str]) -> int:
    """The number of outputs, up to the last one that is used."""
    return max((i for i, name in enumerate(outputs, 1) if name), default=0)


def _check_call(entry: table.Operator, inputs: Sequence[str], keywords: Mapping[str, str]) -> None:
    if not all(name.isidentifier() for name in keywords):
        raise ImportModelError(f"{entry.name} has an attribute whose name is not an identifier: "
                               f"{[*keywords]}")
    try:
        inspect.signature(entry.function).bind(*inputs, **keywords)
    except TypeError as error:
        raise ImportModelError(f"{entry.name} has wrong inputs or attributes: {error}",
                               f"it takes {inspect.signature(entry.function)}") from None


class ModelSource:
    """Generates the source of a model, and collects the arrays that it reads."""

    def __init__(self, model: Any, meter: Meter) -> None:
        self.model, self.meter = model, meter
        self.opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version
                       for o in model.opset_import}
        standard.check_versions(self.opsets)
        self.functions = {("" if f.domain == "ai.onnx" else f.domain, f.name,
                           getattr(f, "overload", "")): f for f in model.functions}
        self.own_names = {key[:2] for key in self.functions}
        self.held: dict[str, Any] = {}        # (name, array, trained) by the source that reads it
        self.not_trained: set[str] = set()    # source of floats that are settings
        self.methods: dict[Any, tuple[str, list[str], list[int]]] = {}  # name, lines, output types
        self.method_names = {"forward": 1}
        self.active_functions: list[str] = []  # functions whose source is being written
        self.parts = Names()
        self.counts: dict[str, int] = {}      # number of names by their common base
        self.inputs: list[tuple[str, bool]] = []  # parameters of forward; True with a default
        self.lines = self._forward()

    def hold(self, name: str, array: Any, trained: bool) -> str:
        """Adds an array to the module, and returns the source that reads it."""
        self.meter.tick()
        base = name or "constant"
        if not fits(name, self.parts):
            name = base = identifier(base, {})
        while not fits(name, self.parts) or name in self.parts:
            self.counts[base] = self.counts.get(base, 1) + 1
            name = f"{base}_{self.counts[base]}"
        self.parts.add(name)
        quoted = json.dumps(name, ensure_ascii=False)
        text = f"self.{name}" if is_attribute(name) else f"self[{quoted}]"
        self.held[text] = (name, array, trained)
        return text

    def scalar(self, text: str) -> str:
        """A literal for source that reads a scalar, if there is one, else the source itself."""
        constant = self.held.get(text)
        if constant is None or constant[1].ndim:
            return text
        return attributes.literal(constant[1]) or text

    def _forward(self) -> list[str]:
        graph = self.model.graph
        method, scope = Method(self, self.opsets, Types(), {}), Scope()
        method.types.declare(graph)
        method.initializers(graph, scope)
        parameters = []
        for index, v in enumerate(graph.input):
            own = method.fresh(v.name)
            default = scope.sources.get(v.name)
            parameters.append(own if default is None else f"{own}=None")
            self.inputs.append((own, default is not None))
            method.line(f"{own} = self.given({index}, {own})" if default is None else
                        f"{own} = {default} if {own} is None else self.given({index}, {own})")
            scope.sources[v.name] = own
        parameters = [g for g in parameters if "=" not in g] + [g for g in parameters if "=" in g]
        method.nodes(graph.node, scope)
        outputs = [f"op.result({method.read(v.name, scope)})" for v in graph.output]
        method.line(f"return {', '.join(outputs)}" if outputs else "return ()")
        return [f"    def forward({', '.join(['self', *parameters])}):", *method.lines]

    def text(self, title: str) -> str:
        """The complete source."""
        lines = ["import fusewire as fw", "", "op = fw.onnx.operators", "", "",
                 f"class {title}(fw.onnx.Model):", *self.lines]
        for _, method, _ in self.methods.values():
            lines += ["", *method]
        return "\n".join(lines) + "\n"
