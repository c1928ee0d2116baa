"""`for` over symbolic sizes, in models: one `Loop` for any number of iterations."""

from __future__ import annotations

import builtins
import pickle
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.export.onnx import export
from fusewire.export.onnx.verify import compare

SIZES = (1, 2, 3, 7)


def numbered(x: fw.Tensor) -> fw.Tensor:
    h = fw.zeros(3)
    for t in range(x.shape[0]):
        h = fw.tanh(h * 0.5 + x[t]) * t
    return h


def by_row(x: fw.Tensor) -> fw.Tensor:
    h = fw.zeros(3)
    for row in x:
        h = fw.tanh(h * 0.5 + row)
    return h


def backwards(x: fw.Tensor) -> fw.Tensor:
    h = fw.zeros(3)
    for t in reversed(range(x.shape[0])):
        h = h * 0.5 + x[t]
    for t in range(x.shape[0] - 1, 0, -2):
        h = h - x[t]
    return h


def all_results(x: fw.Tensor) -> Any:
    out, h = fw.zeros_like(x), fw.zeros(3)
    for t in range(x.shape[0]):
        h = h * 0.5 + x[t]
        out[t] = h
        out[t, 0] = h.sum()
    return out, h


def deciding(x: fw.Tensor) -> fw.Tensor:
    """Its decisions meet again in each turn, and one of them ends the loop."""
    h, n = fw.zeros(3), 0
    for t in range(1, x.shape[0]):
        if x[t].sum() > 0:
            h = h + x[t]
            n = n + 1
        if h[0] > 1:
            h = h - x[t - 1]
        if n > 2:
            break
    return h + n


def two_deep(x: fw.Tensor) -> fw.Tensor:
    h = fw.zeros(3)
    for i in range(x.shape[0]):
        for j in range(i):
            h = h * 0.9 + x[i] * x[j]
        h = h + i
    return h


def while_inside(x: fw.Tensor) -> fw.Tensor:
    h = fw.zeros(3)
    for row in x:
        h = h + row
        while h.max() > 1:
            h = h * 0.5
    return h


def in_a_plain_loop(x: fw.Tensor) -> fw.Tensor:
    h = fw.zeros(3)
    for k in range(2):
        for row in x:
            h = h * 0.5 + row * k
    return h


def begins_otherwise(x: fw.Tensor) -> fw.Tensor:
    """The first turn begins with a number and None, and leaves tensors."""
    total: Any = 0
    best: Any = None
    for row in x:
        total = total + row.sum()
        best = row if best is None else fw.maximum(best, row)
    return total * best


def read_afterwards(x: fw.Tensor) -> fw.Tensor:
    for t in range(x.shape[0]):
        h = x[t] * t
    return h + t


def first_turn_in_loops(x: fw.Tensor) -> fw.Tensor:
    """Each turn leaves a number where it began with a tensor, and has a loop of its own."""
    s: Any = x[0, 0]
    for t in reversed(range(x.shape[0])):
        s = s * 0.5
        for row in x:
            s = s + row[0]
            if s > 1:
                s = s - 1
        s = s.item() + t * 0.1
    return x * s


def in_place(x: fw.Tensor) -> fw.Tensor:
    h = x[0] * 1
    for row in x:
        h += row
        x[0] = h
    return h


def with_numbers(x: fw.Tensor) -> fw.Tensor:
    h = fw.zeros(3)
    for i, row in enumerate(x, 1):
        h = h * 0.5 + row * i
    for one, other in zip(x, fw.flip(x, 0)):
        h = h - one * other
    return h


def begun_in_two_ways(x: fw.Tensor) -> fw.Tensor:
    """What the ways have made different lies in the iterator alone."""
    total: Any = 0
    if x.sum() > 0:
        turns = enumerate(x, 1)
    else:
        turns = enumerate(x, 5)
    for i, row in turns:
        if row[0] > 0:
            row = row * i
        total = total + row
    return total


COUNTED = [numbered, by_row, with_numbers, backwards, all_results, deciding, two_deep, while_inside,
           in_a_plain_loop, begins_otherwise, read_afterwards, first_turn_in_loops, in_place,
           begun_in_two_ways]


def inputs(n: int) -> list[fw.Tensor]:
    rng = np.random.default_rng(n)
    return [fw.tensor(rng.standard_normal((n, 3)) * scale, dtype=fw.float32)
            for scale in (0.3, 1, 2)]


def check(fn: Any, path: Path) -> list[str]:
    """Exports a function of some rows, compares at other sizes; the operators of the model."""
    export(fn, inputs(4)[1] * 1, path, dynamic_shapes={"x": {0: "n"}})
    run = compare.runner(path.read_bytes()).run
    for x in (x for n in SIZES for x in inputs(n)):
        wanted = fn(x * 1)
        for have, want in zip(run({"x": x.numpy()}), wanted if isinstance(wanted, tuple)
                              else [wanted], strict=True):
            np.testing.assert_allclose(have, want.numpy(), 1e-4, 1e-5, err_msg=str(x))
    return kinds(onnx.load(path).graph)


def kinds(graph: Any) -> list[str]:
    """The operators of a graph and of those inside of it."""
    return [kind for node in graph.node for kind in
            [node.op_type, *(k for a in node.attribute for k in kinds(a.g))]]


@pytest.mark.parametrize("fn", COUNTED)
def test_any_number_of_turns(fn: Any, tmp_path: Path) -> None:
    assert "Loop" in check(fn, tmp_path / "model.onnx")
    assert builtins.range is type(range(3))


@pytest.mark.parametrize(("fn", "loops", "ifs"), [
    (numbered, 1, 0), (by_row, 1, 0), (deciding, 1, 6), (two_deep, 2, 0), (begins_otherwise, 1, 0)])
def test_one_loop_each(fn: Any, loops: int, ifs: int, tmp_path: Path) -> None:
    found = check(fn, tmp_path / "model.onnx")
    assert (found.count("Loop"), found.count("If")) == (loops, ifs)


def test_as_many_turns_as_a_value_says(tmp_path: Path) -> None:
    def fn(x: fw.Tensor, count: fw.Tensor) -> fw.Tensor:
        for i in range(count.item()):
            x = x * 0.5 + i
        return x

    path = tmp_path / "model.onnx"
    export(fn, (fw.ones(3), fw.tensor(4)), path)
    run = compare.runner(path.read_bytes()).run
    for n in (0, 1, 9):
        have, = run({"x": np.ones(3, np.float32), "count": np.array(n)})
        np.testing.assert_allclose(have, fn(fw.ones(3), fw.tensor(n)).numpy())


def test_a_cell_over_time(tmp_path: Path) -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.h0 = nn.GRUCell(3, 4), nn.Parameter(fw.ones(1, 4) * 0.1)

        def forward(self, x: fw.Tensor) -> Any:
            h, out = self.h0, fw.zeros(1, x.shape[0], 4)
            for t in range(x.shape[0]):
                h = self.cell(x[t].reshape(1, 3), h)
                out[:, t] = h
            return out, h

    with fw.no_grad():
        found = check(Reader(), tmp_path / "model.onnx")
    assert found.count("Loop") == 1


# ---- what cannot be
def listed(x: fw.Tensor) -> fw.Tensor:
    found = []
    for row in x:
        found.append(row * 2)
    return fw.stack(found)


def not_a_for(x: fw.Tensor) -> fw.Tensor:
    return fw.stack([row * 2 for row in x])


def a_plain_number(x: fw.Tensor) -> fw.Tensor:
    names = [1.0, 2.0, 3.0, 4.0]
    for t in range(x.shape[0]):
        x = x * names[t]
    return x


@pytest.mark.parametrize(("fn", "words"), [
    (listed, "each iteration of this loop leaves `found` of another kind"),
    (not_a_for, "the size `n` was fixed to 4"), (a_plain_number, "known only when the model runs")])
def test_says_where_and_why(fn: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(fw.ExportError, match=words) as caught:
        export(fn, inputs(4)[0], tmp_path / "model.onnx", dynamic_shapes={"x": {0: "n"}})
    assert Path(__file__).name in str(caught.value.line)
    assert not (tmp_path / "model.onnx").exists()


def test_ranges_of_python_stay_what_they_are(tmp_path: Path) -> None:
    """While a function is recorded, too."""
    def fn(x: fw.Tensor) -> fw.Tensor:
        r = range(3)
        assert type(r) is range and r == range(0, 3) and list(r) == [0, 1, 2]
        return x[list(range(2))] + len(r)

    export(fn, inputs(4)[0], tmp_path / "model.onnx")


def test_nobody_else_sees_other_ranges(tmp_path: Path) -> None:
    """Neither Python's modules while a `for` is recorded, nor this one afterwards."""
    def look() -> None:
        seen.add(builtins.range is type(builtins.range(3)) and range(4) == builtins.range(4)
                 and isinstance(builtins.range(3), range))
        seen.add(pickle.loads(pickle.dumps(range(3))) == range(3))

    seen: set[bool] = set()

    def fn(x: fw.Tensor) -> fw.Tensor:
        for t in range(x.shape[0]):
            x = x * 0.5 + t
            look()
            threading.Thread(target=look).start()
        return x

    assert "Loop" in check(fn, tmp_path / "model.onnx")
    assert seen == {True} and not {"range", "enumerate", "zip"} & globals().keys()


def test_loops_of_other_modules(tmp_path: Path) -> None:
    """A function that is called counts in its own module, and keeps what is called so there."""
    helper = types.ModuleType("helper")
    source = ("def halved(x):\n    for row in range(x.shape[0]):\n        x = x * 0.5\n"
              "    return x\n")
    exec(compile(source, "helper.py", "exec"), vars(helper))

    def fn(x: fw.Tensor) -> fw.Tensor:
        return helper.halved(x)  # type: ignore[no-any-return]

    assert "Loop" in check(fn, tmp_path / "model.onnx")
    own = vars(helper)["range"] = lambda n: [n, n]
    with pytest.raises(fw.ExportError):
        export(lambda x: helper.halved(x)[range(1)[0]:x.shape[0] - 1] + [0.0] * x.shape[0],
               inputs(4)[0], tmp_path / "model.onnx", dynamic_shapes={"x": {0: "n"}})
    assert vars(helper)["range"] is own
