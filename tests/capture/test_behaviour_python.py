"""What people write in a function, compiled: arguments, state, side effects, objects."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from agreement import agree, assert_equal

import fusewire as fw
from fusewire import nn
from fusewire.capture.replay.compiled_function import CaptureWarning

X = fw.tensor([1.0, 2.0, 3.0])
Y = fw.tensor([-4.0, 0.5, 2.0])
RATE = 2.0


# ---- what is read
def test_a_global_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fw.compile(lambda x: x * RATE, fullgraph=True)
    for rate in (2.0, 2.0, 3.0, 4.0, 5.0):
        monkeypatch.setitem(globals(), "RATE", rate)
        assert_equal(f(X), X * rate)
    assert f.stats.recordings <= 2


def test_a_closure_variable_that_changes() -> None:
    rate = 2.0

    @fw.compile(fullgraph=True)
    def f(x: fw.Tensor) -> fw.Tensor:
        return x * rate

    for value in (2.0, 2.0, 3.0, 4.0, 5.0):
        rate = value
        assert_equal(f(X), X * value)
    assert f.stats.recordings <= 2


def test_an_attribute_that_changes() -> None:
    thing = types.SimpleNamespace(rate=2.0, mode="scale")
    f = fw.compile(lambda x: x * thing.rate if thing.mode == "scale" else x, fullgraph=True)
    for rate, mode in ((2.0, "scale"), (3.0, "scale"), (4.0, "scale"), (4.0, "none")):
        thing.rate, thing.mode = rate, mode
        assert_equal(f(X), X * rate if mode == "scale" else X)
    assert f.stats.recordings <= 3


def test_the_mode_of_a_layer() -> None:
    layer = nn.Dropout(0.5)
    f = fw.compile(lambda x: layer(x), fullgraph=True)
    f(X)
    layer.eval()
    assert_equal(f(X), X)


def test_gradients_switched_off() -> None:
    w = fw.tensor(2.0, requires_grad=True)
    f = fw.compile(lambda x: (x * w).detach() if fw.is_grad_enabled() else x * 0)
    assert_equal(f(X), X * 2)
    with fw.no_grad():
        assert_equal(f(X), X * 0)
    assert_equal(f(X), X * 2)


def test_another_dtype() -> None:
    agree(lambda: lambda x: x * 2 + 1, [X], [X.astype(fw.float64)], [X.astype(fw.int32)], [X])


# ---- arguments
def test_the_same_tensor_twice() -> None:
    def make() -> Any:
        def f(a: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
            a += 1
            return a * b

        return f

    agree(make, [X, X], [X, Y], [X, X], [Y, X])


def test_numbers_texts_none_lists_and_dicts() -> None:
    def make() -> Any:
        def f(x: fw.Tensor, *args: Any, **kwargs: Any) -> Any:
            for a in args:
                if isinstance(a, dict):
                    x = x + a["shift"]
                elif isinstance(a, list):
                    x = sum(a, x)
                elif isinstance(a, str):
                    x = getattr(fw, a)(x)
                elif a is not None:
                    x = x * a
            return x, args

        return f

    calls = [[X, 2], [X, 2.5], [X, None], [X, "tanh"], [X, "exp", 2], [X, [X, Y]], [X, [Y]],
             [X, {"shift": Y}], [X, {"shift": 2.0}], [X, True]]
    agree(make, *calls, *calls)


def test_keyword_arguments_in_any_order() -> None:
    f = fw.compile(lambda x, *, scale=1.0, shift=0.0: x * scale + shift, fullgraph=True)
    for _ in range(2):
        assert_equal(f(X), X * 1.0 + 0.0)
        assert_equal(f(X, shift=Y, scale=X), X * X + Y)
        assert_equal(f(x=X, scale=X, shift=Y), X * X + Y)


def test_a_dataclass_comes_and_goes() -> None:
    @dataclasses.dataclass
    class State:
        mean: fw.Tensor
        count: int = 0

    def step(state: State, x: fw.Tensor) -> State:
        return State(state.mean + x, state.count + 1)

    compiled, states = fw.compile(step), (State(X), State(X))
    for k in range(5):
        states = (compiled(states[0], Y * k), step(states[1], Y * k))
        assert type(states[0]) is State
        assert_equal(*states)


def test_a_number_that_changes_costs_one_further_recording() -> None:
    agree(lambda: lambda x, k: x * k + k / 2, *[[X, k / 7] for k in range(1, 30)], recordings=2)


def test_a_number_decides() -> None:
    def make() -> Any:
        return lambda x, k: x * 2 if k > 0.5 else x * k

    f = agree(make, *[[X, k] for k in (0.1, 0.2, 0.3, 0.9, 0.8, 0.05, 0.7)], recordings=3)
    assert f.stats.replays >= 3


def test_a_number_given_to_the_maths_library() -> None:
    import math

    agree(lambda: lambda x, k: x * math.sqrt(k) + round(k, 1), *[[X, k / 3] for k in range(1, 6)])


def test_an_empty_batch() -> None:
    def make() -> Any:
        def f(x: fw.Tensor) -> Any:
            return x.sum(0), x * 2, x.shape[0]

        return f

    agree(make, *[[fw.ones(n, 3)] for n in (2, 0, 3, 0, 1)])


# ---- side effects
def test_a_counter() -> None:
    class Model:
        def __init__(self) -> None:
            self.step, self.total = 0, 0.0

        def __call__(self, x: fw.Tensor) -> fw.Tensor:
            self.step += 1
            self.total += 0.5
            return x * self.step

    def make() -> Any:
        model = Model()
        return model.__call__, [model]

    f = agree(make, *[[X]] * 12, recordings=2)
    assert f.stats.replays >= 9


def test_losses_in_a_list() -> None:
    def make() -> Any:
        losses: list[Any] = []

        def f(x: fw.Tensor) -> fw.Tensor:
            losses.append((x * x).sum())
            return x + 1

        return f, losses

    f = agree(make, *[[X * k] for k in range(6)], recordings=2)
    assert f.stats.replays >= 4


def test_a_dictionary_is_filled() -> None:
    def make() -> Any:
        seen: dict[str, Any] = {}

        def f(x: fw.Tensor, name: str) -> fw.Tensor:
            seen[name] = x * 2
            seen["last"] = name
            return x

        return f, seen

    agree(make, *[[X * k, name] for k in range(4) for name in ("a", "b")])


def test_a_value_kept_for_the_next_call() -> None:
    class Smooth:
        def __init__(self) -> None:
            self.value: Any = None

        def __call__(self, x: fw.Tensor) -> fw.Tensor:
            self.value = x if self.value is None else self.value * 0.9 + x * 0.1
            return self.value

    def make() -> Any:
        smooth = Smooth()
        return smooth.__call__, [smooth]

    agree(make, *[[X * k] for k in range(6)], recordings=2)


def test_print_prints_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: fw.Tensor, k: float) -> fw.Tensor:
        print("sum", x.sum().item(), k, x.shape[0])
        return x * k

    compiled = fw.compile(f, fullgraph=True)
    for k in (1.5, 2.5, 3.5):
        assert_equal(compiled(X * k, k), X * k * k)
    assert capsys.readouterr().out == "sum 9.0 1.5 3\nsum 15.0 2.5 3\nsum 21.0 3.5 3\n"


# ---- exceptions
def test_an_exception_has_its_type_text_and_line() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        if x.sum() > 10:
            raise ValueError(f"too much: {len(x)}")
        return x * 2

    compiled = fw.compile(f, fullgraph=True)
    for _ in range(3):
        assert_equal(compiled(X), X * 2)
        with pytest.raises(ValueError, match="too much: 3") as caught:
            compiled(X * 9)
        assert caught.traceback[-1].name == "f"


def test_an_exception_leaves_state_as_eager_does() -> None:
    def make() -> Any:
        box = types.SimpleNamespace(n=0, h=X, seen=[])

        def f(x: fw.Tensor) -> Any:
            box.n += 1
            box.h = box.h + x
            try:
                if x[0] > 2:
                    raise ValueError("no")
                box.seen.append(x)
            except ValueError:
                box.h = box.h * 2
            return box.h

        return f, [box]

    agree(make, *[[X * k] for k in (1, 1, 3, 1, 4, 5, 1)])


def test_an_uncaught_exception_leaves_nothing_half_done() -> None:
    a, b = fw.zeros(3), fw.zeros(3)

    @fw.compile
    def f(x: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
        a.add_(1) if hasattr(a, "add_") else a.copy_(a + 1)
        out = fw.take(x, i, 0)
        b.copy_(b + 1)
        return out

    good, bad = fw.tensor([0, 1]), fw.tensor([0, 7])
    f(X, good), f(X, good), f(X, good)
    with pytest.raises(IndexError):
        f(X, bad)
    assert (a[0].item(), b[0].item()) in [(3.0, 3.0), (4.0, 3.0)]
    f(X, good)
    assert b[0].item() == 4.0


# ---- outputs
def test_outputs_are_kept_over_later_calls() -> None:
    f = fw.compile(lambda x: (x + 1, x * 2), fullgraph=True)
    kept = [f(X * k) for k in range(8)]
    for k, pair in enumerate(kept):
        assert_equal(pair, (X * k + 1, X * k * 2))


def test_an_output_that_is_the_input() -> None:
    f = fw.compile(lambda x, y: [x, (y, x)], fullgraph=True)
    for _ in range(3):
        first, (second, third) = f(X, Y)
        assert first is X and second is Y and third is X


def test_the_same_result_at_two_places_is_one_object() -> None:
    def f(x: fw.Tensor) -> Any:
        y = x * 2
        return y, [y]

    compiled = fw.compile(f, fullgraph=True)
    for _ in range(3):
        a, (b,) = compiled(X)
        assert a is b


# ---- functions, modules, compiled inside of compiled
def test_compiled_inside_of_compiled() -> None:
    inner = fw.compile(lambda x: x * 2 if x.sum() > 0 else x - 1, fullgraph=True)
    outer = fw.compile(lambda x: inner(x) + inner(-x), fullgraph=True)
    for k in (1.0, 2.0, -1.0, 3.0, -2.0):
        assert_equal(outer(X * k), inner.original(X * k) + inner.original(-X * k))
        assert_equal(inner(X * k), inner.original(X * k))
    assert outer.stats.recordings <= 2 and outer.stats.fallbacks == 0


def test_generators_and_a_context_manager() -> None:
    def parts(x: fw.Tensor, n: int) -> Iterator[fw.Tensor]:
        with fw.no_grad():
            for i in range(n):
                yield x * i

    agree(lambda: lambda x, n: sum(parts(x, n), x), [X, 2], [X, 3], [Y, 2], [Y, 3])


def test_under_a_debugger() -> None:
    """A trace function, as debuggers and coverage install it, sees the lines and changes none."""
    def f(x: fw.Tensor) -> fw.Tensor:
        y = x * 2
        return y if y.sum() > 0 else x

    lines: list[int] = []

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code is f.__code__ and event == "line":
            lines.append(frame.f_lineno)
        return trace

    compiled, before = fw.compile(f, fullgraph=True), sys.gettrace()
    sys.settrace(trace)
    try:
        first = compiled(X)
    finally:
        sys.settrace(before)
    assert_equal(first, X * 2)
    assert len(lines) == 2
    assert_equal(compiled(Y), Y)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.norm(self.layer(x)).detach()


BATCH = fw.stack([X, Y, X * Y])


def test_a_compiled_model_is_still_the_model() -> None:
    fw.manual_seed(0)
    model, plain = Net(), Net()
    plain.load_state_dict(model.state_dict())
    compiled = fw.compile(model)
    assert isinstance(compiled, Net)
    assert list(compiled.state_dict()) == list(plain.state_dict())
    for _ in range(3):
        assert_equal(compiled(BATCH), plain(BATCH))
    assert_equal(compiled.state_dict(), plain.state_dict())
    twins = copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))
    expected = plain(BATCH)
    for twin in twins:
        assert isinstance(twin, Net)
        assert_equal(twin(BATCH), expected)


def test_two_models_of_one_class_share_no_recordings() -> None:
    class Scale(nn.Module):
        def __init__(self, k: float) -> None:
            super().__init__()
            self.k = k

        @fw.compile
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return x * self.k

    one, two = Scale(2.0), Scale(3.0)
    for _ in range(3):
        assert_equal(one(X), X * 2)
        assert_equal(two(X), X * 3)


# ---- counts
def test_counts() -> None:
    f = fw.compile(lambda x: x * 2, fullgraph=True)
    for _ in range(4):
        f(X)
    assert (f.stats.recordings, f.stats.replays, f.stats.fallbacks) == (1, 3, 0)
    assert f.stats.compile_seconds > 0
    f.clear()
    assert (f.stats.recordings, f.stats.replays, f.stats.fallbacks) == (0, 0, 0)
    assert_equal(f(X), X * 2)


def test_a_value_that_leaves_into_numpy_and_comes_back() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        y = fw.exp(x * 0.1) + 1
        y = fw.tensor(y.numpy() * 2)
        return fw.log(y) * x

    compiled = fw.compile(f)
    with pytest.warns(CaptureWarning, match=r"test_behaviour_python.py:\d+") as warned:
        for k in range(5):
            assert_equal(compiled(X * k), f(X * k))
    assert len(warned) == 1
    with pytest.raises(fw.CaptureError, match=r"test_behaviour_python.py:\d+"):
        fw.compile(f, fullgraph=True)(X)


def test_objects_that_answer_every_name() -> None:
    """Such as wrappers of libraries: they have no dictionary, but would answer for one."""
    class Wrapper:
        __slots__ = ("scale",)

        def __init__(self) -> None:
            self.scale = 2.0

        def __getattr__(self, name: str) -> Any:
            return lambda *args: name

    wrapper = Wrapper()
    run = fw.compile(lambda x: x * wrapper.scale, fullgraph=True)
    for scale in (2.0, 2.0, 3.0, 3.0, 4.0):
        wrapper.scale = scale
        assert_equal(run(X), X * scale)
