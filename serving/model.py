"""A served model: a function of tensors with code for each batch size, compiled before requests."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import fusewire as fw

from . import row_check
from .base.data_types import NAMES, Array
from .base.failures import INVALID, RequestError
from .base.signature import ANY, TensorSpec, array_of, random_rows, specs_of
from .sources import Example, Sizes, Source, source_of

Shapes = tuple[tuple[int, ...], ...]  # of the inputs, without the rows
_WARM_CALLS = 3  # a trace, the compilation, and the first call on the fast path


def powers_of_two(most: int) -> tuple[int, ...]:
    """The batch sizes 1, 2, 4, ... up to `most`, which is the last one."""
    return tuple(1 << i for i in range(most.bit_length()) if 1 << i < most) + (most,)


class Model:
    """A function of tensors that is served, alone or in batches.

    Rows of several requests are computed together, in a batch of the next size for which code
    exists, filled with copies of the last row. So a row must not depend on the others: `load`
    refuses functions of which it does.

    Args:
        function: a function, a module, `fw.onnx.load(path)`, or `fw.load_compiled(path)`.
        example: the inputs of a call by name, with the rows on the first axis; or several, one for
            each combination of the other sizes that is served. Default None: ONNX models and saved
            programs know their inputs.
        max_batch: the most rows of a batch. 0 runs each request alone, with the sizes of the
            example. Default 64, or what a saved program was saved for.
        buckets: the batch sizes for which code is compiled. Default 1, 2, 4, ... max_batch.
        sizes: the numbers that a named size of an ONNX model has, beside that of the rows.
        outputs: names of the outputs. Default those of ONNX, or output_0, output_1, ...
        delay: seconds that a request may wait for others. Default 0: a batch is what has come while
            the one before ran.
        queue: the most rows that wait; further requests are refused. Default 1024.
        timeout: seconds after which a waiting request is dropped. Default 10.
        check_rows: False serves a function whose rows depend on each other. Default True.

    Raises:
        ArgumentError: the inputs are not known, or an argument is outside of its range.

    Example:
        >>> import fusewire as fw
        >>> from fusewire.serving import Model
        >>> model = Model(fw.nn.Linear(4, 2), {"input": fw.zeros(1, 4)}, max_batch=2).load()
        >>> [output.shape for output in model.run([fw.ones(2, 4).numpy()])]
        [(2, 2)]
    """

    def __init__(self, function: Any, example: Example | Sequence[Example] | None = None, *,
                 max_batch: int | None = None, buckets: Sequence[int] | None = None,
                 sizes: Sizes | None = None, outputs: Sequence[str] | None = None,
                 delay: float = 0.0, queue: int = 1024, timeout: float = 10.0,
                 check_rows: bool = True) -> None:
        examples = [example] if isinstance(example, Mapping) else list(example or ())
        self.source: Source = source_of(function, examples, sizes or {})
        self.delay, self.queue, self.timeout = delay, queue, timeout
        self.check_rows = check_rows
        self.buckets = _buckets(self.source, max_batch, buckets)
        if min(delay, timeout) < 0 or queue < 1:
            raise fw.ArgumentError(f"delay={delay}, timeout={timeout}, queue={queue}",
                                   "times are at least 0, and the queue takes at least 1 row")
        self._output_names = tuple(outputs) if outputs else self.source.output_names
        self._code: dict[Shapes, Any] = {}
        self._row_shapes = {tuple(s.shape[1:] for s in call) for call in self.source.calls}
        self.inputs: tuple[TensorSpec, ...] = ()
        self.outputs: tuple[TensorSpec, ...] = ()

    @property
    def max_batch(self) -> int:
        """The most rows of a request and of a batch; 0 if requests run alone."""
        return self.buckets[-1] if self.buckets else 0

    @property
    def recordings(self) -> int:
        """The traces that were recorded so far. They stay as many when the model is loaded."""
        return sum(code.stats.recordings for code in self._code.values()
                   if hasattr(code, "stats"))

    def load(self) -> Model:
        """This model, with code for every bucket and all shapes, and with checked rows.

        ArgumentError if the rows of a batch depend on each other, or outputs do not have them.
        """
        inputs, outputs = [], []
        for number in range(len(self.source.calls)):
            for rows in self.buckets or (0,):
                arrays = self._arrays(number, rows, seed=0)
                for _ in range(_WARM_CALLS):
                    results = self._call(arrays)
                self._check_outputs(rows, results)
                inputs.append(arrays)
                outputs.append(results)
            if self.buckets and self.check_rows:
                row_check.check(self._call, self.buckets, [
                    self._arrays(number, self.buckets[-1], seed) for seed in range(3)])
        names = [spec.name for spec in self.source.calls[0]]
        self.inputs = self._with_any_rows(specs_of(names, inputs))
        self.outputs = self._with_any_rows(specs_of(self._named(len(outputs[0])), outputs))
        return self

    def _check_outputs(self, rows: int, results: Sequence[Array]) -> None:
        for number, result in enumerate(results):
            if result.dtype not in NAMES:
                raise fw.ArgumentError(f"output {number} has the dtype {result.dtype}",
                                       f"the protocol has {', '.join(map(str, NAMES))}")
            if rows and result.shape[:1] != (rows,):
                raise fw.ArgumentError(f"output {number} of {rows} rows has the shape "
                                       f"{result.shape}", "return a row for each row of the "
                                       "inputs, or serve it with max_batch=0")

    def _with_any_rows(self, specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        if not self.buckets:
            return specs
        return tuple(replace(spec, shape=(ANY, *spec.shape[1:])) for spec in specs)

    def _named(self, count: int) -> tuple[str, ...]:
        """The names of the outputs."""
        names = self._output_names or tuple(f"output_{i}" for i in range(count))
        if len(set(names)) != count:
            raise fw.ArgumentError(f"{count} outputs have the names {', '.join(names)}",
                                   "give each output a name of its own: outputs=[...]")
        return names

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs of a batch whose number of rows is a bucket, or of one request alone."""
        return self._call(arrays)

    def bucket(self, rows: int) -> int:
        """The smallest batch size that has room for some rows."""
        return self.buckets[bisect.bisect_left(self.buckets, rows)]

    def check(self, arrays: Sequence[Array]) -> int:
        """The number of rows of a request, 1 if requests run alone.

        Args:
            arrays: in the order of `inputs`, with their dtypes.

        Raises:
            RequestError: shapes are not served, inputs differ in their rows, or there are too many.
        """
        if not self.buckets:
            if tuple(a.shape for a in arrays) not in self._code:
                raise self._unfit(arrays)
            return 1
        rows = arrays[0].shape[0] if arrays[0].ndim else 0
        if not all(a.ndim and a.shape[0] == rows for a in arrays) or \
                tuple(a.shape[1:] for a in arrays) not in self._row_shapes:
            raise self._unfit(arrays)
        if not 1 <= rows <= self.max_batch:
            raise RequestError(INVALID, f"the request has {rows} rows; send 1 to {self.max_batch}")
        return rows

    def _unfit(self, arrays: Sequence[Array]) -> RequestError:
        got = ", ".join(f"{spec.name} {list(a.shape)}" for spec, a in zip(self.inputs, arrays))
        rows = ["n"] if self.buckets else []
        served = " or ".join(", ".join(
            f"{s.name} [{', '.join(map(str, rows + list(s.shape[len(rows):])))}]" for s in call)
            for call in self.source.calls)
        return RequestError(INVALID, f"the shapes are {got}; the model takes {served}")

    def _arrays(self, number: int, rows: int, seed: int) -> list[Array]:
        """Inputs for a warm-up call: rows of the example, or random ones."""
        call = self.source.calls[number]
        if not self.source.examples:
            return random_rows(call, rows or call[0].shape[0], seed)
        return row_check.vary(list(self.source.examples[number].values()), rows, seed)

    def _call(self, arrays: Sequence[Array]) -> list[Array]:
        key = tuple(a.shape for a in arrays)
        code = self._code.get(key)
        if code is None:
            code = self._code[key] = self.source.function if self.source.is_fixed else \
                fw.compile(self.source.function, dynamic=False)
        with fw.set_grad_enabled(self.source.has_gradients):
            results = code(*map(fw.Tensor, arrays))
        return [array_of(result) for result in self._listed(results)]

    def _listed(self, results: Any) -> Sequence[Any]:
        if isinstance(results, Mapping):
            self._output_names = self._output_names or tuple(map(str, results))
            return list(results.values())
        return results if isinstance(results, (tuple, list)) else [results]


def _buckets(source: Source, max_batch: int | None, buckets: Sequence[int] | None
             ) -> tuple[int, ...]:
    """The batch sizes in ascending order, none if requests run alone."""
    first = {call[0].shape[:1] for call in source.calls}
    has_fixed_rows = not source.examples and (-1,) not in first
    if has_fixed_rows and source.is_fixed and max_batch != 0 and () not in first:
        return tuple(sorted({n for shape in first for n in shape}))  # what was saved
    if max_batch == 0 or has_fixed_rows or () in first:
        return ()
    chosen = tuple(sorted(set(buckets or powers_of_two(max_batch or 64))))
    if chosen[0] < 1 or (max_batch or chosen[-1]) != chosen[-1]:
        raise fw.ArgumentError(f"buckets are {chosen} with max_batch={max_batch}",
                               "they go from 1 or more up to max_batch")
    return chosen
