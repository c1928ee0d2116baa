"""What a compiled function reads and changes outside of itself: as eager does, on every call."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
from oracle import assert_same

import fusewire as fw
from fusewire import nn
from fusewire.capture.heap.access_path import Path
from fusewire.capture.replay.compiled_function import CaptureWarning

X = fw.tensor([1.0, 2.0, 3.0])
SCALE: Any = 2.0
WEIGHT = fw.tensor([1.0, 1.0, 1.0])
CONFIG = {"rate": 0.5, "deep": [1, 2]}


def helper(x: fw.Tensor) -> fw.Tensor:
    return x * SCALE


# ---- what it reads is read again
def test_a_global_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fw.compile(lambda x: x * SCALE, fullgraph=True)
    for value in (2.0, 2.0, 3.0, fw.tensor(4.0), fw.tensor(5.0), None):
        monkeypatch.setitem(globals(), "SCALE", value if value is not None else 2.0)
        assert_same(f(X), X * SCALE)
    assert f.stats.recordings == 3


def test_a_global_of_a_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fw.compile(lambda x: helper(x) + 1, fullgraph=True)
    for value in (2.0, 2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", value)
        assert_same(f(X), X * value + 1)


def test_a_global_tensor_bound_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fw.compile(lambda x: x * WEIGHT, fullgraph=True)
    for value in (1.0, 2.0, 3.0):
        monkeypatch.setitem(globals(), "WEIGHT", fw.full(3, value))
        assert_same(f(X), X * value)
    assert f.stats.recordings == 1


def test_another_helper_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fw.compile(lambda x: helper(x), fullgraph=True)
    f(X), f(X)
    monkeypatch.setitem(globals(), "helper", lambda x: x - 1)
    assert_same(f(X), X - 1)


def test_a_global_dict_and_a_list_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fw.compile(lambda x: x * CONFIG["rate"] + CONFIG["deep"][1], fullgraph=True)
    assert_same(f(X), X * 0.5 + 2)
    monkeypatch.setitem(CONFIG, "rate", 4.0)
    assert_same(f(X), X * 4.0 + 2)
    monkeypatch.setitem(CONFIG, "deep", [1, 7])
    assert_same(f(X), X * 4.0 + 7)


def test_a_closure_variable_that_changes() -> None:
    def make() -> Any:
        k: Any = 1.0

        def read(x: fw.Tensor) -> fw.Tensor:
            return x * k

        def write(value: Any) -> None:
            nonlocal k
            k = value

        return fw.compile(read, fullgraph=True), write

    read, write = make()
    for value in (1.0, 1.0, 2.0, X + 1, X + 2):
        write(value)
        assert_same(read(X), X * value)
    assert read.stats.recordings == 3


def test_attributes_of_an_object_and_of_its_class() -> None:
    class Scaler:
        factor = 2.0
        shift = 0.0

        def __call__(self, x: fw.Tensor) -> fw.Tensor:
            return x * self.factor + self.shift

    scaler = Scaler()
    f = fw.compile(scaler.__call__, fullgraph=True)
    assert_same(f(X), X * 2)
    Scaler.factor = 3.0
    assert_same(f(X), X * 3)
    scaler.shift = 1.0
    assert_same(f(X), X * 3 + 1)
    del scaler.shift
    Scaler.shift = 5.0
    assert_same(f(X), X * 3 + 5)


def test_a_property_reads_what_lies_behind_it() -> None:
    class Thing:
        def __init__(self) -> None:
            self._k = 2.0

        @property
        def k(self) -> float:
            return self._k * 10

    thing = Thing()
    f = fw.compile(lambda x: x * thing.k, fullgraph=True)
    for k in (2.0, 2.0, 3.0):
        thing._k = k
        assert_same(f(X), X * k * 10)


def test_getattr_by_a_name_made_up_at_run_time() -> None:
    thing = types.SimpleNamespace(w0=1.0, w1=2.0)
    names = ["w0", "w1"]
    f = fw.compile(lambda x: sum((x * getattr(thing, n) for n in names), x), fullgraph=True)
    for w1 in (2.0, 2.0, 5.0):
        thing.w1 = w1
        assert_same(f(X), X + X + X * w1)


def scaler(k: float) -> Any:
    return lambda x: x * k


def set_cell(function: Any, value: float) -> None:
    function.__closure__[0].cell_contents = value


@pytest.mark.parametrize(("shared", "use", "change"), [
    (types.SimpleNamespace(k=2.0), lambda x, s: x * s.k, lambda s: setattr(s, "k", 5.0)),
    (scaler(2.0), lambda x, s: s(x), lambda s: set_cell(s, 5.0)),
    ({"k": 2.0}, lambda x, s: x * len(s), lambda s: s.update(u=3.0)),
    ([2.0], lambda x, s: x * s[0], lambda s: s.insert(0, 5.0)),
], ids=["object", "function", "dict", "list"])
def test_what_is_found_by_two_names_and_read_by_the_second(
        shared: Any, use: Any, change: Any) -> None:
    box = types.SimpleNamespace(never_read=shared, read=shared)
    f = fw.compile(lambda x: use(x, box.read), fullgraph=True)
    for step in range(4):
        if step == 2:
            change(shared)
        assert_same(f(X), use(X, shared))
    assert f.stats.recordings == 2


def test_the_dictionary_of_an_object() -> None:
    thing = types.SimpleNamespace(a=1.0, b=2.0)
    f = fw.compile(lambda x: sum((x * v for v in vars(thing).values()), x))
    for b in (2.0, 2.0, 5.0):
        thing.b = b
        assert_same(f(X), X + X + X * b)


def test_a_method_of_a_class_replaced() -> None:
    class Layer:
        def act(self, x: fw.Tensor) -> fw.Tensor:
            return x * 2

    layer = Layer()
    f = fw.compile(lambda x: layer.act(x), fullgraph=True)
    f(X), f(X)
    Layer.act = lambda self, x: x * 10  # type: ignore[method-assign]
    assert_same(f(X), X * 10)


def test_training_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    f = fw.compile(lambda x: model(x), fullgraph=True)
    with fw.no_grad():
        for training in (True, True, False, False, True):
            model.train(training)
            fw.manual_seed(3)
            got = f(X)
            fw.manual_seed(3)
            assert_same(got, model(X))
    assert f.stats.recordings == 2


# ---- what it changes is changed
def test_in_place_on_an_input() -> None:
    def f(x: fw.Tensor) -> None:
        x += 1
        x[0] = 10.0

    compiled, x = fw.compile(f, fullgraph=True), fw.zeros(3)
    for n in range(1, 5):
        compiled(x)
        assert_same(x, fw.tensor([10.0, n, n]))


def test_in_place_on_a_tensor_of_the_closure() -> None:
    total = fw.zeros(3)

    @fw.compile(fullgraph=True)
    def add(x: fw.Tensor) -> fw.Tensor:
        total.add_(x)
        return total * 2

    for n in range(1, 5):
        assert_same(add(X), X * n * 2)
        assert_same(total, X * n)


def test_in_place_on_a_parameter() -> None:
    layer = nn.Linear(3, 2)

    @fw.compile(fullgraph=True)
    def shrink() -> None:
        with fw.no_grad():
            layer.weight.mul_(0.5)

    start = layer.weight.numpy().copy()
    for n in range(1, 5):
        shrink()
        assert_same(layer.weight, start * np.float32(0.5) ** n)
    assert layer.weight.requires_grad


def test_in_place_on_what_was_made_inside_changes_nothing_outside() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        y = x * 1
        y[1] = 0.0
        y += x[0]
        return y

    compiled, x = fw.compile(f, fullgraph=True), fw.tensor([1.0, 2.0, 3.0])
    for _ in range(3):
        assert_same(compiled(x), fw.tensor([2.0, 1.0, 4.0]))
    assert_same(x, fw.tensor([1.0, 2.0, 3.0]))


def test_an_attribute_bound_to_a_new_tensor() -> None:
    class Cell:
        def __init__(self) -> None:
            self.h = fw.zeros(3)

        def step(self, x: fw.Tensor) -> fw.Tensor:
            self.h = (self.h + x) * 0.5
            return self.h

    eager, other = Cell(), Cell()
    step = fw.compile(other.step, fullgraph=True)
    for _ in range(4):
        assert_same(step(X), eager.step(X))
        assert_same(other.h, eager.h)


def test_a_dict_item_set_to_a_tensor() -> None:
    cache = {"last": fw.zeros(3)}

    @fw.compile(fullgraph=True)
    def f(x: fw.Tensor) -> fw.Tensor:
        before = cache["last"]
        cache["last"] = x * 2
        return before

    for k in range(4):
        assert_same(f(X * k), X * max(0, k - 1) * 2)
        assert_same(cache["last"], X * k * 2)


def test_swapping_two_attributes() -> None:
    box = types.SimpleNamespace(a=fw.tensor(1.0), b=fw.tensor(2.0))

    @fw.compile(fullgraph=True)
    def swap() -> None:
        box.a, box.b = box.b, box.a

    for n in range(1, 5):
        swap()
        assert (box.a.item(), box.b.item()) == ((2.0, 1.0) if n % 2 else (1.0, 2.0))


def test_changing_one_of_two_lists_that_are_the_same() -> None:
    def f(a: list[Any], b: list[Any], x: fw.Tensor) -> fw.Tensor:
        a[0] = x * 2
        return b[0] + 1

    compiled = fw.compile(f, fullgraph=True)
    for same in (False, False, True, True, False):
        a = [X]
        b = a if same else [X]
        assert_same(compiled(a, b, X), X * 2 + 1 if same else X + 1)


# ---- Python values that change: never frozen
class Counter:
    def __init__(self) -> None:
        self.count, self.log, self.table = 0, [], {}


def check_side_effect(change: Any, seen: Any) -> None:
    """`change(counter, x)` in a compiled function, five times, has the effects it has eagerly."""
    eager, counter = Counter(), Counter()

    def f(c: Counter, x: fw.Tensor) -> fw.Tensor:
        change(c, x)
        return x * 2

    compiled = fw.compile(f, fullgraph=True)
    for k in range(5):
        assert_same(compiled(counter, X * k), f(eager, X * k))
        assert str(seen(counter)) == str(seen(eager))
    assert compiled.stats.replays > 0


def test_a_counter() -> None:
    def change(c: Counter, x: fw.Tensor) -> None:
        c.count += 1

    check_side_effect(change, lambda c: c.count)


def test_a_list_that_grows() -> None:
    check_side_effect(lambda c, x: c.log.append(x.sum()), lambda c: c.log)


def test_a_dict_item_with_a_number() -> None:
    def change(c: Counter, x: fw.Tensor) -> None:
        c.table["n"] = c.table.get("n", 0) + 1

    check_side_effect(change, lambda c: c.table)


def test_a_set_that_grows() -> None:
    seen: list[Any] = [set(), set()]

    def f(box: set[int], x: fw.Tensor) -> fw.Tensor:
        box.add(len(box))
        return x * 2

    compiled = fw.compile(f, fullgraph=True)
    for _ in range(4):
        compiled(seen[0], X), f(seen[1], X)
        assert seen[0] == seen[1]


def test_a_global_that_is_counted_up() -> None:
    scope: dict[str, Any] = {"calls": 0}
    exec("def f(x):\n    global calls\n    calls += 1\n    return x * calls", scope)
    compiled = fw.compile(scope["f"], fullgraph=True)
    for n in range(1, 5):
        assert_same(compiled(X), X * n)
        assert scope["calls"] == n


def test_a_closure_variable_that_is_counted_up() -> None:
    calls = 0

    def f(x: fw.Tensor) -> fw.Tensor:
        nonlocal calls
        calls += 1
        return x * calls

    compiled = fw.compile(f, fullgraph=True)
    for n in range(1, 5):
        assert_same(compiled(X), X * n)
        assert calls == n


def test_a_closure_variable_bound_to_a_new_tensor() -> None:
    state = fw.zeros(3)

    def f(x: fw.Tensor) -> fw.Tensor:
        nonlocal state
        state = state + x
        return state

    compiled = fw.compile(f, fullgraph=True)
    for n in range(1, 5):
        assert_same(compiled(X), X * n)
        assert_same(state, X * n)


def test_a_generator_outside_moves_on() -> None:
    def f(x: fw.Tensor, numbers: Any) -> fw.Tensor:
        return x * next(numbers)

    numbers = iter(range(1, 100))
    compiled = fw.compile(f)
    with pytest.warns(CaptureWarning):
        for n in range(1, 5):
            assert_same(compiled(X, numbers), X * n)


# ---- results
def test_a_result_kept_is_not_overwritten() -> None:
    f = fw.compile(lambda x: (x * 2, x.sum()), fullgraph=True)
    kept = [f(X * k) for k in range(6)]
    for k, (double, total) in enumerate(kept):
        assert_same(double, X * k * 2)
        assert total.item() == 6.0 * k


def test_an_input_returned_is_that_object() -> None:
    f = fw.compile(lambda x, y: (y, x + y, x), fullgraph=True)
    for _ in range(3):
        x, y = X * 1, X * 2
        first, _, last = f(x, y)
        assert first is y and last is x


def test_one_result_twice_is_one_object() -> None:
    def f(x: fw.Tensor) -> Any:
        y = x * 2
        return y, y, x * 2

    compiled = fw.compile(f, fullgraph=True)
    for _ in range(3):
        a, b, c = compiled(X)
        assert a is b and a is not c
        a += 1
        assert_same(b, X * 2 + 1)
        assert_same(c, X * 2)


def test_results_of_all_kinds() -> None:
    def f(x: fw.Tensor) -> Any:
        return {"a": [x * 2, None, "text", 3], "b": (x.shape, x.dtype, slice(1, 2)), "c": {}}

    compiled = fw.compile(f, fullgraph=True)
    for _ in range(3):
        out = compiled(X)
        assert_same(out["a"].pop(0), X * 2)
        assert out == {"a": [None, "text", 3], "b": ((3,), fw.float32, slice(1, 2)), "c": {}}


def test_a_write_to_a_result_that_is_a_view_of_the_input() -> None:
    f = fw.compile(lambda x: (x.reshape(3), x[:2], x.detach()), fullgraph=True)
    x = fw.tensor([1.0, 2.0, 3.0])
    for _ in range(3):
        for out in f(x):
            out += 5
    assert_same(x, fw.tensor([46.0, 47.0, 33.0]))


def test_an_object_made_inside() -> None:
    compiled = fw.compile(lambda x: types.SimpleNamespace(y=x * 2))
    with pytest.warns(CaptureWarning, match="an object of class SimpleNamespace is created"):
        compiled(X)
    assert_same(compiled(X + 1).y, (X + 1) * 2)


def test_an_attribute_named_as_a_module_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """`self.layers` says nothing of a module `layers` that was imported somewhere."""
    module = types.ModuleType("layers")
    module.rows = np.ones(3)
    monkeypatch.setitem(sys.modules, "layers", module)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3)])

        def forward(self, x: fw.Tensor, name: str = "rows") -> fw.Tensor:
            return self.layers[0](x) * len(getattr(self, name, "four"))

    model = fw.compile(Model(), fullgraph=True)
    for _ in range(3):
        model(X)
    assert model.forward.stats.replays == 2


def test_a_module_that_the_function_imports_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("settings_of_mine")
    module.scale = 2.0
    monkeypatch.setitem(sys.modules, "settings_of_mine", module)

    @fw.compile(fullgraph=True)
    def f(x: fw.Tensor) -> fw.Tensor:
        import settings_of_mine
        return x * settings_of_mine.scale

    for scale in (2.0, 2.0, 3.0, 5.0, 7.0):
        module.scale = scale
        assert_same(f(X), X * scale)


def test_a_metaclass_is_not_asked_whether_classes_are_equal() -> None:
    asked = []

    class Meta(type):
        def __eq__(cls, other: object) -> bool:
            asked.append(other)
            return cls is other

        def __hash__(cls) -> int:
            asked.append(cls)
            return id(cls)

    class Rate(metaclass=Meta):
        value = 2.0

    assert Path("class", Rate) == Path("class", Rate) != Path("class", Meta)
    f = fw.compile(lambda x: x * Rate.value)
    for _ in range(3):
        assert f(fw.ones(2)).tolist() == [2.0, 2.0]
    assert not asked and f.stats.replays == 2
