"""What a compiled function changes outside of itself is changed again by each replay, exactly."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import types
from typing import Any, NamedTuple

import pytest
from oracle import assert_same

import fusewire as fw
from fusewire import nn
from fusewire.capture.replay.compiled_function import CaptureWarning

X = fw.tensor([1.0, 2.0, 3.0])
LOG: list[Any] = []


def compiled(fn: Any) -> Any:
    return fw.compile(fn, fullgraph=True)


@dataclasses.dataclass(frozen=True)
class Output:
    logits: fw.Tensor
    name: str = "out"


@dataclasses.dataclass
class Slotted:
    __slots__ = ("x", "y")
    x: fw.Tensor
    y: fw.Tensor


class Pair(NamedTuple):
    first: fw.Tensor
    second: fw.Tensor


# ---- containers that are only added to: one recording for ever
def test_appending_to_a_global_list() -> None:
    LOG.clear()

    def f(x: fw.Tensor) -> fw.Tensor:
        LOG.append(x.sum())
        return x * 2

    g = compiled(f)
    for k in range(6):
        g(X * k)
    assert [t.item() for t in LOG] == [6.0 * k for k in range(6)]
    assert g.stats.recordings == 1


def test_appending_to_a_list_of_an_object_and_of_a_dict() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.losses: list[Any] = []
            self.history: dict[str, list[Any]] = {"loss": [], "rate": []}

        def step(self, x: fw.Tensor) -> fw.Tensor:
            self.losses.append(x.sum())
            self.history["loss"].append(x.max())
            self.history["rate"].append(0.5)
            return x * 2

    trainer = Trainer()
    step = compiled(trainer.step)
    for k in range(5):
        step(X * k)
    assert [t.item() for t in trainer.losses] == [6.0 * k for k in range(5)]
    assert [t.item() for t in trainer.history["loss"]] == [3.0 * k for k in range(5)]
    assert trainer.history["rate"] == [0.5] * 5
    assert step.stats.recordings == 1


def test_appending_to_a_list_given_as_argument() -> None:
    def f(x: fw.Tensor, log: list[Any]) -> None:
        log.append({"loss": x.sum(), "name": "a"})

    g, log = compiled(f), list[Any]()
    for k in range(5):
        g(X * k, log)
    assert [d["loss"].item() for d in log] == [6.0 * k for k in range(5)]
    assert g.stats.recordings == 1


def test_a_long_list_is_appended_to_without_being_read() -> None:
    log: list[Any] = [0.0] * 5000
    g = compiled(lambda x: log.append(x.sum()))
    for k in range(3):
        g(X * k)
    assert len(log) == 5003 and log[-1].item() == 12.0
    assert g.stats.recordings == 1


def test_filling_a_dict_that_is_not_read() -> None:
    seen: dict[str, Any] = {}

    def f(x: fw.Tensor) -> fw.Tensor:
        seen["input"] = x
        for i in range(2):
            seen[f"layer{i}"] = x * i
        return x

    g = compiled(f)
    for k in range(4):
        g(X * k)
        assert list(seen) == ["input", "layer0", "layer1"]
        assert_same(seen["layer1"], X * k)
    assert g.stats.recordings == 1


def test_a_list_whose_length_is_read_records_again() -> None:
    log: list[Any] = []

    def f(x: fw.Tensor) -> fw.Tensor:
        log.append(x.sum())
        return x * len(log)

    g = compiled(f)
    for n in range(1, 4):
        assert_same(g(X), X * n)


def test_a_tensor_kept_in_a_list_and_read_by_another_name() -> None:
    class Box:
        def __init__(self) -> None:
            self.log: list[Any] = []
            self.last = fw.zeros(3)

        def step(self, x: fw.Tensor) -> fw.Tensor:
            before = self.last
            self.last = x * 2
            self.log.append(self.last)
            return before

    eager, other = Box(), Box()
    step = compiled(other.step)
    for k in range(5):
        assert_same(step(X * k), eager.step(X * k))
        assert other.log[-1] is other.last


# ---- counters
def test_counters_of_all_kinds_need_few_recordings() -> None:
    class Steps:
        total = 0

        def __init__(self) -> None:
            self.step, self.table, self.row = 0, {"n": 0}, [0]

    def f(c: Steps, x: fw.Tensor) -> fw.Tensor:
        c.step += 1
        c.table["n"] += 2
        c.row[0] += 3
        return x * 2

    c, g = Steps(), compiled(f)
    for n in range(1, 9):
        assert_same(g(c, X), X * 2)
        assert (c.step, c.table, c.row) == (n, {"n": 2 * n}, [3 * n])
        assert type(c.step) is int
    assert g.stats.recordings <= 3


# ---- order and deletion
def test_deleting_keys_attributes_and_globals() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x, d, o):\n    global tmp\n    del d['a'], o.a, tmp\n    return x", scope)
    g = compiled(scope["f"])
    for _ in range(4):
        d, o = {"a": 1, "b": 2}, types.SimpleNamespace(a=1, b=2)
        scope["tmp"] = 3
        g(X, d, o)
        assert d == {"b": 2} and vars(o) == {"b": 2} and "tmp" not in scope


def test_a_set_and_a_deque() -> None:
    def f(x: fw.Tensor, names: set[str], last: Any) -> fw.Tensor:
        names.add("a")
        last.append(x.sum())
        return x

    g, names, last = compiled(f), set[str](), collections.deque(maxlen=2)
    for k in range(5):
        g(X * k, names, last)
    assert names == {"a"} and [t.item() for t in last] == [18.0, 24.0]


def test_a_setter_of_ones_own_is_not_run_twice() -> None:
    class Counted:
        def __init__(self) -> None:
            self.__dict__.update(value=None, sets=0)

        def __setattr__(self, name: str, value: Any) -> None:
            self.__dict__[name] = value
            self.__dict__["sets"] += 1

    eager, other = Counted(), Counted()

    def f(o: Any, x: fw.Tensor) -> None:
        o.value = x * 2

    g = fw.compile(f)
    for k in range(4):
        f(eager, X * k), g(other, X * k)
        assert other.sets == eager.sets
        assert_same(other.value, eager.value)


# ---- objects made inside
def test_objects_made_inside_are_made_by_each_call() -> None:
    def f(x: fw.Tensor) -> Any:
        return Output(x * 2), Slotted(x, x + 1), Pair(x * 3, x), collections.OrderedDict(b=x * 4)

    g, kept = compiled(f), []
    for k in range(3):
        kept.append(g(X * k))
    for k, (output, slotted, pair, ordered) in enumerate(kept):
        assert type(output) is Output and output.name == "out" and type(pair) is Pair
        for got, factor in ((output.logits, 2), (pair.first, 3), (ordered["b"], 4)):
            assert_same(got, X * k * factor)
        assert_same(slotted.y, X * k + 1)
    assert kept[0][0] is not kept[1][0]


def test_one_object_at_several_places_is_one() -> None:
    box = types.SimpleNamespace(last=None)

    def f(x: fw.Tensor) -> Any:
        made = [x * 2]
        box.last = made
        return made, {"same": made}

    g = compiled(f)
    for _ in range(4):
        first, second = g(X)
        assert first is second["same"] and first is box.last


def refusals() -> dict[str, Any]:
    def holds_itself(x: fw.Tensor) -> Any:
        made: list[Any] = [x]
        made.append(made)
        return made

    def closure(x: fw.Tensor) -> Any:
        y = x * 2
        return lambda: y

    def local_class(x: fw.Tensor) -> Any:
        class Result:
            y = x
        return Result()

    return {"contains itself": holds_itself, "class function": closure,
            "Result is created": local_class,
            "class generator": lambda x: (x * k for k in range(2))}


@pytest.mark.parametrize("says", refusals())
def test_what_cannot_be_made_again_is_said(says: str) -> None:
    g = fw.compile(refusals()[says])
    with pytest.warns(CaptureWarning, match=says):
        first, second = g(X), g(X)
    assert first is not second


# ---- modules
def test_a_layer_whose_forward_is_replaced() -> None:
    layer = nn.Linear(3, 3)
    g = compiled(lambda x: layer(x).detach())
    g(X), g(X)
    layer.forward = lambda x: x * 7  # type: ignore[method-assign]
    assert_same(g(X), X * 7)


def test_what_getattr_reads() -> None:
    """A list that is only added to is no condition, unless code may read it by a name that does
    not stand there: `contextmanager` itself asks for `getattr(function, "__doc__", None)`."""
    box, name = types.SimpleNamespace(log=[]), "log"

    @contextlib.contextmanager
    def noted() -> Any:
        box.log.append("begin")
        yield
        box.log.append("end")

    def only_adds(x: fw.Tensor) -> fw.Tensor:
        with noted():
            return x * 2

    def reads(x: fw.Tensor) -> fw.Tensor:
        box.log.append(1)
        return x * len(getattr(box, "log"))  # noqa: B009

    def reads_by_variable(x: fw.Tensor) -> fw.Tensor:
        box.log.append(1)
        return x * len(getattr(box, name))

    def reads_by_sum(x: fw.Tensor) -> fw.Tensor:
        box.log.append(1)
        return x * len(getattr(box, "lo" + name[-1]))

    adding = compiled(only_adds)
    for _ in range(5):
        adding(X)
    assert box.log == ["begin", "end"] * 5
    assert adding.stats.recordings == 1
    for function in (reads, reads_by_variable, reads_by_sum):
        run = compiled(function)
        for _ in range(4):
            assert_same(run(X), X * len(box.log))
