"""What cannot be saved is refused when it is saved; what was not saved, when it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import CaptureError, ExportError
from fusewire.export.saved import LoadedFunction


class Point:
    def __init__(self, x: Any) -> None:
        self.x = x


def refused(f: Any, *args: Any, folder: Path) -> str:
    """The error of a function that is called twice and saved."""
    f(*args)
    f(*args)
    with pytest.raises(ExportError) as error:
        f.save(folder / "f.fw")
    assert not (folder / "f.fw").exists()
    return error.value.message


def loaded(f: Any, folder: Path) -> LoadedFunction:
    f.save(folder / "f.fw")
    return fw.load_compiled(folder / "f.fw")


# ---- saving
def test_an_argument_of_a_users_class(tmp_path: Path) -> None:
    @fw.compile
    def f(p: Point) -> fw.Tensor:
        return p.x * 2

    assert refused(f, Point(fw.ones(2)), folder=tmp_path) == \
        "f cannot be saved: argument 0 is a Point, and the class Point cannot be rebuilt " \
        "without its source"


def test_a_result_of_a_users_class(tmp_path: Path) -> None:
    @fw.compile
    def f(x: fw.Tensor) -> Point:
        return Point(x * 2)

    assert "class" in refused(f, fw.ones(2), folder=tmp_path)


def test_an_object_that_is_handed_out(tmp_path: Path) -> None:
    point = Point(fw.ones(2))

    @fw.compile
    def f(x: fw.Tensor) -> tuple[fw.Tensor, Point]:
        return x * point.x, point

    assert "the function returns closure variable point, an object of class Point" in \
        refused(f, fw.ones(2), folder=tmp_path)


def test_a_container_that_is_handed_out(tmp_path: Path) -> None:
    """Who gets it could change what the function depends on."""
    scales = [fw.ones(2)]
    f = fw.compile(lambda x: (x * scales[0] * len(scales), scales))
    assert "the function returns closure variable scales, an object of class list" in \
        refused(f, fw.ones(2), folder=tmp_path)


def test_a_class_that_changes(tmp_path: Path) -> None:
    class Counted:
        calls = 0

    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        Counted.calls += 1
        return x * 2

    assert "it changes" in refused(f, fw.ones(2), folder=tmp_path)


def test_gradients_of_results(tmp_path: Path) -> None:
    weight = fw.ones(2).requires_grad_()
    f = fw.compile(lambda x: x * weight)
    assert "its results have gradients" in refused(f, fw.ones(2), folder=tmp_path)


def test_what_is_not_recorded(tmp_path: Path) -> None:
    f = fw.compile(lambda x: x + 1)
    with pytest.raises(ExportError, match="it has no recording"):
        f.save(tmp_path / "f.fw")


@pytest.mark.filterwarnings("ignore:f. graph break")
def test_what_runs_in_pieces(tmp_path: Path) -> None:
    @fw.compile
    def f(x: fw.Tensor) -> Any:
        return x.numpy().sum()

    assert "f cannot be saved: it has a graph break: " in refused(f, fw.ones(2), folder=tmp_path)


def test_autocast(tmp_path: Path) -> None:
    f = fw.compile(lambda x: x @ x)
    with fw.autocast("cpu"):
        assert "under autocast" in refused(f, fw.ones(2, 2), folder=tmp_path)


def test_code_that_is_checked(tmp_path: Path) -> None:
    f = fw.compile(lambda x: x * 2, check="first")
    assert "compared with NumPy" in refused(f, fw.ones(2), folder=tmp_path)


def test_a_state_that_is_another_by_now(tmp_path: Path) -> None:
    """Ways that no call of what is loaded could take are left out; of none left that is said."""
    scale = 2.0

    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        return x * scale

    f(fw.ones(2))
    scale = 3.0
    with pytest.raises(ExportError, match=r"fits its current state: guard failed: "
                                          r"closure variable scale == 2\.0"):
        f.save(tmp_path / "f.fw")
    f(fw.ones(2))
    assert np.array_equal(loaded(f, tmp_path)(fw.ones(2)).numpy(), [3.0, 3.0])


# ---- calls of what was loaded
ARGUMENTS: dict[str, tuple[Callable[[], tuple[Any, ...]], str]] = {
    "shape": (lambda: (fw.ones(3, 2), 2, "a"), r"x is float32\[2, 2\]; got float32\[3, 2\]"),
    "dtype": (lambda: (fw.ones(2, 2).astype(fw.float64), 2, "a"), r"got float64\[2, 2\]"),
    "gradient": (lambda: (fw.ones(2, 2).requires_grad_(), 2, "a"), "requires_grad"),
    "number": (lambda: (fw.ones(2, 2), 3, "a"), "k == 2; got 3"),
    "a float that is equal": (lambda: (fw.ones(2, 2), 2.0, "a"), r"k == 2; got 2\.0"),
    "text": (lambda: (fw.ones(2, 2), 2, "b"), "name == 'a'; got 'b'"),
    "no tensor": (lambda: (np.ones((2, 2)), 2, "a"), "got array"),
    "one too few": (lambda: (fw.ones(2, 2), 2), "positional arguments is 3"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_another_call_is_refused_by_name(name: str, tmp_path: Path) -> None:
    @fw.compile
    def f(x: fw.Tensor, k: int, name: str) -> fw.Tensor:
        return x * k if name == "a" else x

    f(fw.ones(2, 2), 2, "a")
    args, message = ARGUMENTS[name]
    saved = loaded(f, tmp_path)
    for _ in range(4):  # the long way, and the short one
        assert np.array_equal(saved(fw.ones(2, 2), 2, "a").numpy(), np.full((2, 2), 2.0))
        with pytest.raises(fw.ArgumentError, match=f"f was not saved for this call, .*{message}"):
            saved(*args())


def test_a_decision_that_was_never_taken(tmp_path: Path) -> None:
    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        return x * 2 if x.sum() > 0 else -x

    f(fw.ones(2))
    saved = loaded(f, tmp_path)
    for _ in range(4):
        assert np.array_equal(saved(fw.ones(2)).numpy(), [2.0, 2.0])
        with pytest.raises(fw.ArgumentError, match=r"have recorded outcomes \(test_saved"):
            saved(-fw.ones(2))


def test_what_was_recorded_without_gradients_runs_without(tmp_path: Path) -> None:
    weight = fw.ones(2).requires_grad_()

    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        return x * weight

    with fw.no_grad():
        f(fw.ones(2))
    saved = loaded(f, tmp_path)
    for _ in range(4):
        assert not saved(fw.ones(2)).requires_grad
        with fw.no_grad():
            saved(fw.ones(2))
        with pytest.raises(fw.ArgumentError, match="requires_grad"):
            saved(fw.ones(2).requires_grad_())


def test_it_cannot_be_recorded_again(tmp_path: Path) -> None:
    f = fw.compile(lambda x: x * 2)
    f(fw.ones(2))
    saved = loaded(f, tmp_path)
    with pytest.raises(CaptureError, match="was loaded from a file"):
        fw.compile(lambda x: saved(x) + 1)(fw.ones(2))
    with pytest.raises(CaptureError, match="was loaded from a file"):
        fw.func.vmap(saved)(fw.ones(3, 2))


def test_an_error_of_values_changes_nothing(tmp_path: Path) -> None:
    seen = fw.zeros(3)

    @fw.compile
    def f(x: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
        seen[:] = seen + 1
        return x[i]

    f(fw.ones(3), fw.tensor([0, 1]))
    saved = loaded(f, tmp_path)
    for _ in range(4):
        before = saved.state_dict()["seen"].numpy().copy()
        with pytest.raises(IndexError, match="out of range"):
            saved(fw.ones(3), fw.tensor([0, 7]))
        assert np.array_equal(saved.state_dict()["seen"].numpy(), before)
        saved(fw.ones(3), fw.tensor([0, 1]))
        assert np.array_equal(saved.state_dict()["seen"].numpy(), before + 1)


# ---- the state
def test_a_state_dict_is_taken_as_a_whole(tmp_path: Path) -> None:
    model = fw.nn.Linear(2, 3)
    f = fw.compile(lambda x: model(x))
    with fw.no_grad():
        f(fw.ones(1, 2))
    saved = loaded(f, tmp_path)
    state = saved.state_dict()
    assert list(state) == ["model.weight", "model.bias"]
    other = {name: fw.ones_like(x) for name, x in state.items()}
    for wrong, message in (({**other, "more": fw.ones(1)}, "has no tensor 'more'"),
                           ({"model.weight": other["model.weight"]}, "lacks 'model.bias'"),
                           ({**other, "model.bias": fw.ones(4)}, r"is float32\[3\], got")):
        with pytest.raises(fw.StateError, match=message):
            saved.load_state_dict(wrong)
    assert np.array_equal(saved(fw.ones(1, 2)).numpy(), model(fw.ones(1, 2)).numpy())
    saved.load_state_dict(other)
    assert np.array_equal(saved(fw.ones(1, 2)).numpy(), np.full((1, 3), 3.0))


def test_copies_are_apart(tmp_path: Path) -> None:
    total = fw.zeros(2)

    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        total[:] = total + x
        return total * 1

    for _ in range(2):
        f(fw.ones(2))
    first, second = loaded(f, tmp_path), loaded(f, tmp_path)
    assert [first(fw.ones(2))[0].item() for _ in range(3)] == [3.0, 4.0, 5.0]
    first.save(tmp_path / "later.fw")
    third = fw.load_compiled(tmp_path / "later.fw")
    assert [g(fw.ones(2))[0].item() for g in (first, second, third, f)] == [6.0, 3.0, 6.0, 3.0]


def test_a_profile_counts_its_calls(tmp_path: Path) -> None:
    weight = fw.ones(2, 2)
    f = fw.compile(lambda x: fw.tanh(x @ weight))
    f(fw.ones(2, 2))
    saved = loaded(f, tmp_path)
    with fw.profile() as p:
        saved(fw.ones(2, 2))
    assert "saved step 0" in str(p)
