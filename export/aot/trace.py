"""Records a function for a library, for ranges or sets of sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...capture.replay.path_enumeration import Explored
from ...capture.sizes.size_condition import SizeCondition
from ...capture.sizes.symbolic_dim import ShapeEnv
from ...capture.trace.export_tracer import called
from ...eager.errors import ExportError
from ..onnx.model.arguments import ExportArguments, arguments, further
from ..onnx.model.trace import check_fixed, conditions_of, explored, inference, plain, results_of
from ..onnx.model.training_state import ModelState
from .abi import MAX_SIZES
from .recording import NamedType, Recording, check_equal_types, plan_segments

DEFAULT_MAX_SIZE = 64  # the maximum of a dynamic size without an entry in `max_sizes`
_MAX_CHECKED_SIZE_SETS = 1 << 20  # conditions are evaluated for at most so many sets of sizes


class RecordingOptions(NamedTuple):
    """Options of a recording: names, dynamic axes with their maxima, further examples."""

    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    dynamic_shapes: Any
    max_sizes: Mapping[str, int]
    examples: Sequence[Any]


def record(fn: Callable[..., Any], args: Any, options: RecordingOptions) -> Recording:
    """The recording of fn(*args)."""
    fn = plain(fn)
    example = arguments(fn, args, options.input_names, options.dynamic_shapes)
    with inference(fn):
        examples = [further(example, a) for a in options.examples]
        sizes = ShapeEnv({})
        paths = explored([example, *examples], sizes, draws=True)
        check_fixed(sizes)
        states = _random_states(paths, example.names)
        results = results_of(paths, states, options.output_names, example.names)
    count = len(results.names) - len(states)
    check_equal_types(paths.root, results.nodes, count)
    inputs = next(iter(paths.runs.values()))[0].inputs
    state_nodes = [state.node for state in states]
    plan_segments(fn, paths, (*inputs, *state_nodes), results.nodes)
    outputs = [NamedType(name, node.type) for name, node in
               zip(results.names[:count], next(iter(results.nodes.values())))]
    weights = {node: captured.array for node, captured in paths.names.outside.items()
               if node not in state_nodes}
    conditions = conditions_of(sizes)
    return Recording(paths.root, (*inputs, *state_nodes),
                     [state.name for state in states], outputs, weights, paths.names,
                     _ranges(example, examples, options.max_sizes, conditions),
                     _specialized_sizes(example, examples, conditions))


def _random_states(paths: Explored, taken: Sequence[str]) -> list[ModelState]:
    """The states of the random generators that any path draws from."""
    states: list[ModelState] = []
    names = set(taken)
    for node, tensors in paths.states.items():
        path = paths.names.outside[node].path
        assert path is not None and path.parent is not None
        base = called(path.parent) or "random"
        numbered = (f"{base}_{i}" for i in itertools.count(1))
        name = next(n for n in itertools.chain([base], numbered) if n not in names)
        names.add(name)
        states.append(ModelState(name, f"{name}.new", node, tensors))
    return states


# ---- sizes
def _specialized_sizes(example: ExportArguments, examples: Iterable[ExportArguments],
                       conditions: Iterable[SizeCondition]) -> list[dict[str, int]]:
    """The sets of sizes that get a program of their own: those of `examples`, or, if no size is
    dynamic, the only one."""
    if not example.sizes():
        return [{}]
    distinct = {tuple(e.sizes().items()): e.sizes() for e in examples}
    for sizes in distinct.values():
        for condition in conditions:
            if not condition.holds(sizes):
                raise ExportError(f"aot.build: the function was recorded for {condition}, and the "
                                  f"example with {_sizes_text(sizes)} does not satisfy this",
                                  "remove the example, or build a separate library for it")
    return [*distinct.values()]


def _ranges(example: ExportArguments, examples: Iterable[ExportArguments],
            max_sizes: Mapping[str, int],
            conditions: Sequence[SizeCondition]) -> dict[str, tuple[int, int]]:
    """The least and the largest value of each dynamic size."""
    sizes = example.sizes()
    unknown = [name for name in max_sizes if name not in sizes]
    if unknown:
        raise ExportError(f"aot.build: max_sizes names {', '.join(unknown)}, and no dynamic axis "
                          "has this name", f"the names are {', '.join(sizes) or 'none'}")
    if len(sizes) > MAX_SIZES:
        raise ExportError(f"aot.build: {len(sizes)} sizes are dynamic, at most {MAX_SIZES} are "
                          "supported", "give sizes that are equal one name, or fix some of them")
    ranges = {}
    for name, size in sizes.items():
        largest = max(size, *[e.sizes()[name] for e in examples],
                      max_sizes.get(name, DEFAULT_MAX_SIZE)) \
            if name not in max_sizes else max_sizes[name]
        conditions_on_one = [c for c in conditions if c.expr.symbols() == {name}]
        ranges[name] = _range_around(name, size, largest, conditions_on_one)
    _check_conditions(ranges, [c for c in conditions if len(c.expr.symbols()) > 1])
    return ranges


def _range_around(name: str, size: int, largest: int, conditions: Sequence[SizeCondition]
                  ) -> tuple[int, int]:
    """The least and the largest value around the example's size for which all conditions hold."""
    def holds(n: int) -> bool:
        return all(c.holds({name: n}) for c in conditions)

    if not 1 <= size <= largest:
        raise ExportError(f"aot.build: the maximum of {name} is {largest}, and the example has "
                          f"{size}", "give an example with fewer elements")
    anchor = size if holds(size) else next((n for n in range(1, largest + 1) if holds(n)), 0)
    if not anchor:
        raise ExportError(f"aot.build: the recording is valid only for {conditions[0]}, and no "
                          f"{name} up to {largest} satisfies this",
                          "give a larger one in max_sizes")
    least = next((n + 1 for n in range(anchor - 1, 0, -1) if not holds(n)), 1)
    most = next((n - 1 for n in range(anchor + 1, largest + 1) if not holds(n)), largest)
    return least, most


def _check_conditions(ranges: Mapping[str, tuple[int, int]], conditions: Sequence[SizeCondition]
                      ) -> None:
    """Raises ExportError if a condition on several sizes fails for some sizes in the ranges."""
    for condition in conditions:
        names = sorted(condition.expr.symbols())
        values = [range(ranges[n][0], ranges[n][1] + 1) for n in names]
        if math.prod(map(len, values)) > _MAX_CHECKED_SIZE_SETS or not all(
                condition.holds(dict(zip(names, each))) for each in itertools.product(*values)):
            raise ExportError(
                f"aot.build: the recording is valid only for {condition}, and some sizes up to "
                f"{_sizes_text({n: ranges[n][1] for n in names})} do not satisfy this",
                "give smaller ones in max_sizes, or one name to sizes that are equal")


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {n}" for name, n in sizes.items())

