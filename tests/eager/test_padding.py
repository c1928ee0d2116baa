"""pad: what each mode adds, against NumPy, and its gradient; PyTorch's form of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.eager.errors import FusewireError

MODES = ("constant", "reflect", "symmetric", "edge", "wrap")
WIDTHS = [((3, 4), [(1, 2), (0, 3)]), ((3, 4), 2), ((3, 4), (1, 0)), ((3,), [(7, 9)]),
          ((1,), [(3, 2)]), ((2, 3), [(0, 0), (0, 0)]), ((), [])]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "width"), WIDTHS)
def test_every_mode_is_numpys(mode: str, shape: Any, width: Any) -> None:
    x = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    got = fw.pad(fw.tensor(x), width, mode)
    np.testing.assert_array_equal(got.numpy(), np.pad(x, width, mode) if shape else x)


def test_each_mode_on_a_line() -> None:
    x = fw.tensor([1, 2, 3])
    assert fw.pad(x, (2, 2), constant_values=9).tolist() == [9, 9, 1, 2, 3, 9, 9]
    assert fw.pad(x, (2, 2), "reflect").tolist() == [3, 2, 1, 2, 3, 2, 1]
    assert fw.pad(x, (2, 2), "symmetric").tolist() == [2, 1, 1, 2, 3, 3, 2]
    assert fw.pad(x, (2, 2), "replicate").tolist() == [1, 1, 1, 2, 3, 3, 3]
    assert fw.pad(x, (2, 2), "circular").tolist() == [2, 3, 1, 2, 3, 1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_a_gradient_adds_up_the_copies(mode: str) -> None:
    x = fw.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    weights = fw.arange(24, dtype=fw.float32).reshape(3, 8)
    (gradient,) = fw.grad((fw.pad(x, [(1, 1), (2, 3)], mode) * weights).sum(), [x])
    expected = [(np.pad(np.eye(3)[i][None], [(1, 1), (2, 3)], mode) * weights.numpy()).sum()
                for i in range(3)]
    assert gradient.tolist() == [expected]


def test_pytorchs_form_begins_with_the_last_axis() -> None:
    x = fw.arange(12).reshape(1, 3, 4)
    assert F.pad(x, (1, 2)).shape == (1, 3, 7)
    assert F.pad(x, (1, 0, 2, 3), "replicate").shape == (1, 8, 5)
    np.testing.assert_array_equal(F.pad(x, (-1, -2, 1, -1), value=7).numpy(),
                                  [[[7], [1], [5]]])


@pytest.mark.parametrize(("mode", "expected"), [
    ("reflect", [2, 3, 2, 1]), ("replicate", [2, 3, 3, 3]), ("circular", [2, 3, 2, 3])])
def test_what_is_cut_off_at_one_end_is_not_repeated_at_the_other(mode: str, expected: Any) -> None:
    """Mirrors stand at the end that is added to, so they reach what is cut off."""
    assert F.pad(fw.tensor([[1, 2, 3]]), (-1, 2), mode)[0].tolist() == expected


# ---- layers
KINDS = {"ZeroPad": "constant", "ReflectionPad": "reflect", "ReplicationPad": "replicate",
         "CircularPad": "circular"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_layers_pad_the_last_axes(kind: str, d: int) -> None:
    x = fw.arange(180).reshape(3, 3, 4, 5)
    layer = getattr(fw.nn, f"{kind}{d}d")
    assert layer(1)(x).tolist() == F.pad(x, (1,) * 2 * d, KINDS[kind]).tolist()
    uneven = (2, 1, 0, 1, 1, 2)[:2 * d]
    assert layer(uneven)(x).tolist() == F.pad(x, uneven, KINDS[kind]).tolist()
    assert repr(layer(2)) == f"{kind}{d}d({(2,) * 2 * d})"


def test_constant_layers() -> None:
    layer = fw.nn.ConstantPad1d((1, 0), 2.5)
    assert layer(fw.zeros(1, 2)).tolist() == [[2.5, 0, 0]]
    assert repr(layer) == "ConstantPad1d(padding=(1, 0), value=2.5)"
    assert isinstance(fw.nn.ZeroPad2d(1), fw.nn.ConstantPad2d)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: fw.nn.ZeroPad2d((1, 2, 3)), "ZeroPad2d: padding must be a number or 4 of them"),
    (lambda: fw.pad(fw.zeros(2), (1, 1), "mirror"), "pad: mode 'mirror' is not known"),
    (lambda: fw.pad(fw.zeros(2), (1, -1)), "needs .before, after., not negative"),
    (lambda: fw.pad(fw.zeros(2, 2), [(1, 1)] * 3), "needs .before, after., not negative"),
    (lambda: fw.pad(fw.zeros(0), (1, 1), "edge"), "has no elements to repeat"),
    (lambda: F.pad(fw.zeros(2), (1,)), "are not pairs for the last axes"),
    (lambda: F.pad(fw.zeros(2), (-2, -1)), "takes more away than shape"),
])
def test_errors(call: Any, words: str) -> None:
    with pytest.raises(FusewireError, match=words):
        call()


def test_compiled() -> None:
    @fw.compile
    def gradient(x: fw.Tensor) -> Any:
        return fw.grad((fw.pad(x, (2, 2), "reflect") ** 2).sum(), [x])

    x = fw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for _ in range(2):
        assert gradient(x)[0].tolist() == [4, 12, 12]
    assert gradient.stats.replays == 1


def test_constants_for_each_side_as_in_numpy():
    x = np.arange(6.0).reshape(2, 3)
    for values in (3.0, (1.0, 2.0), ((1.0, 2.0), (3.0, 4.0))):
        found = fw.pad(fw.tensor(x), ((1, 2), (0, 1)), constant_values=values)
        assert found.tolist() == np.pad(x, ((1, 2), (0, 1)), constant_values=values).tolist()
