"""What users read when they make a mistake: the op, both shapes with the axis, a likely cause."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.eager.errors import FusewireError


class Mistake(NamedTuple):
    """A call, the Python class its error derives from, words of its message, words of its help."""

    call: Any
    error: type
    words: str
    help: str = ""


def leaf(*shape: int) -> fw.Tensor:
    return fw.zeros(*shape).requires_grad_()


def assign(x: fw.Tensor, index: Any, value: Any) -> None:
    x[index] = value


def grow(x: fw.Tensor, y: Any) -> None:
    x += y


SHAPES = {
    "right side transposed": Mistake(
        lambda: fw.zeros(2, 3) @ fw.zeros(5, 3), ValueError,
        "matmul: inner sizes differ: left (2, 3) ends in 3, right (5, 3) needs 5", "pass y.T"),
    "left side transposed": Mistake(
        lambda: fw.zeros(3, 2) @ fw.zeros(3, 5), ValueError,
        "matmul: inner sizes differ: left (3, 2) ends in 2, right (3, 5) needs 3", "pass x.T"),
    "batches that differ": Mistake(
        lambda: fw.zeros(4, 2, 3) @ fw.zeros(5, 3, 2), ValueError,
        "matmul of (4, 2, 3) and (5, 3, 2): the axes before the last two: shapes (4,) and (5,) do "
        "not broadcast"),
    "product with a number": Mistake(
        lambda: fw.zeros(2, 3) @ fw.tensor(2.0), ValueError, "got (2, 3) and ()", "use x * y"),
    "operand transposed": Mistake(
        lambda: fw.zeros(2, 3) + fw.zeros(3, 2), ValueError,
        "add: shapes (2, 3) and (3, 2) do not broadcast: axis -2 is 2 on one side and 3 on the "
        "other", "try y.T"),
    "one number for each row": Mistake(
        lambda: fw.zeros(2, 3) * fw.zeros(2), ValueError, "axis -1 is 3 on one side and 2",
        "y[:, None]"),
    "one row for each of a batch": Mistake(
        lambda: fw.zeros(4, 2) - fw.zeros(4, 2, 3), ValueError, "subtract: shapes (4, 2) and",
        "(4, 2) fits the first axes of (4, 2, 3); sizes match from the last: x[:, :, None]"),
    "reshape": Mistake(
        lambda: fw.zeros(2, 3).reshape(4, -1), ValueError,
        "reshape: 6 elements of shape (2, 3) do not fit the shape (4, -1)", "stay the same"),
    "concat along another axis": Mistake(
        lambda: fw.concat([fw.zeros(2, 3), fw.zeros(2, 4)]), ValueError,
        "axis 1 is 3 in one and 4 in the other", "they would fit along axis=1"),
    "concat of ranks": Mistake(
        lambda: fw.concat([fw.zeros(2, 3), fw.zeros(3)]), ValueError,
        "shapes (2, 3) and (3,) have 2 and 1 axes", "x[None]"),
    "stack": Mistake(lambda: fw.stack([fw.zeros(2), fw.zeros(3)]), ValueError,
                     "shapes (2,) and (3,) differ", "fw.concat"),
    "axis": Mistake(lambda: fw.zeros(2, 3).sum(axis=2), ValueError,
                    "axis 2 is out of range for a tensor with 2 axes", "from -2 to 1"),
    "in place": Mistake(lambda: grow(fw.zeros(3), fw.zeros(2, 3)), ValueError,
                        "(2, 3), which does not fit back into (3,)", "x = x + y"),
    "ragged lists": Mistake(lambda: fw.tensor([[1, 2], [3]]), ValueError, "[[1, 2], [3]]",
                            "one length"),
    ".T of a batch": Mistake(lambda: fw.zeros(2, 3, 4).T, ValueError, "shape (2, 3, 4)", ".mT"),
    "a forgotten flatten": Mistake(
        lambda: nn.Linear(12, 2)(fw.zeros(2, 3, 4)), ValueError,
        "linear: input (2, 3, 4) ends in 4, but the weight (2, 12)", "x.flatten(1)"),
    "channels last": Mistake(
        lambda: nn.Conv2d(3, 4, 3)(fw.zeros(1, 8, 8, 3)), ValueError, "8 channels in axis 1",
        "x.permute_dims((0, 3, 1, 2))"),
    "a forgotten axis of channels": Mistake(
        lambda: F.conv2d(fw.zeros(8, 8), fw.zeros(1, 1, 3, 3)), ValueError, "got shape (8, 8)",
        "x[:, None]"),
    "loss of a column and a row": Mistake(
        lambda: F.mse_loss(fw.zeros(4, 1), fw.zeros(4)), ValueError,
        "input (4, 1) and target (4,)", "bring one to the shape of the other"),
    "targets of another batch": Mistake(
        lambda: F.cross_entropy(fw.zeros(4, 3), fw.zeros(5, dtype=fw.int64)), ValueError,
        "needs a target of shape (4,), got (5,)", "one class number"),
}
DTYPES = {
    "a list as an operand": Mistake(lambda: fw.zeros(2) + [1, 2], TypeError,
                                    "add: takes tensors and numbers, not list",
                                    "fw.tensor([1, 2])"),
    "a list on the left": Mistake(lambda: [1, 2] * fw.zeros(2), TypeError,
                                  "multiply: takes tensors and numbers, not list", "fw.tensor"),
    "a list in a product": Mistake(lambda: fw.zeros(2, 2) @ [[1, 2], [3, 4]], TypeError,
                                   "matmul: takes tensors and numbers, not list", "fw.tensor"),
    "a list for a function": Mistake(lambda: fw.sqrt([1.0]), TypeError,
                                     "sqrt: takes tensors, not list", "fw.tensor"),
    "a list for a layer": Mistake(lambda: nn.Linear(3, 2)([1.0, 2.0, 3.0]), TypeError,
                                  "linear: takes tensors, not list", "fw.tensor"),
    "bits of floats": Mistake(lambda: fw.zeros(2) & 1, TypeError,
                              "takes integers and bool, not float32", "x.astype(fw.int64)"),
    "order of complex numbers": Mistake(
        lambda: fw.maximum(fw.zeros(1, dtype=fw.complex64), 0.0), TypeError, "not complex64",
        "fw.real(x)"),
    "gradient of integers": Mistake(lambda: fw.arange(3).requires_grad_(), TypeError,
                                    "int64 cannot require a gradient", "x.astype(fw.float32)"),
    "integers in place": Mistake(lambda: grow(fw.arange(3), 0.5), TypeError,
                                 "float32, which does not fit back into int64", "x = x + y"),
    "an unknown dtype": Mistake(lambda: fw.zeros(2).astype("float3"), TypeError, "'float3'",
                                "float32"),
    "a number that does not fit": Mistake(lambda: fw.tensor([300], dtype=fw.uint8), TypeError,
                                          "300", "a dtype that holds"),
    "text": Mistake(lambda: fw.tensor("abc"), TypeError, "'abc'", "numbers"),
    "item of many": Mistake(lambda: fw.zeros(2).item(), TypeError, "this one has shape (2,)",
                            "x.sum()"),
    "if of many": Mistake(lambda: bool(fw.zeros(2) > 0), TypeError, "this one has shape (2,)",
                          "x.any(), x.all()"),
    "a float as an index": Mistake(lambda: [1, 2][fw.tensor(1.0)], TypeError, "float32",
                                   "x.astype(fw.int64)"),
    "length of a number": Mistake(lambda: len(fw.tensor(1.0)), TypeError, "0-d", "x.item()"),
    "a missing argument": Mistake(lambda: nn.Linear(3, 2)(), TypeError,
                                  "Linear was called with (): missing 1 required positional",
                                  "its forward is Linear.forward("),
    "an argument too many": Mistake(
        lambda: nn.Linear(3, 2)(fw.zeros(1, 3), 4), TypeError,
        "Linear was called with (float32[1, 3], 4): takes", "Linear.forward("),
    "an unexpected name": Mistake(lambda: nn.Linear(3, 2)(fw.zeros(1, 3), bias=None), TypeError,
                                  "unexpected keyword argument 'bias'", "Linear.forward("),
}
INDICES = {
    "an integer": Mistake(lambda: fw.zeros(2, 3)[0, 3], IndexError,
                          "index 3 is out of range for axis 1 of shape (2, 3)", "-3 to 2"),
    "an assignment": Mistake(lambda: assign(fw.zeros(3), -4, 1.0), IndexError,
                             "index -4 is out of range for axis 0 of shape (3,)", "-3 to 2"),
    "a tensor": Mistake(lambda: fw.zeros(2, 3)[fw.tensor([0, 5])], IndexError,
                        "index 5 is out of range", "-2 to 1"),
    "take": Mistake(lambda: fw.take(fw.zeros(3), fw.tensor([3])), IndexError,
                    "take: index 3 is out of range for size 3", "-3 to 2"),
    "a class": Mistake(lambda: F.cross_entropy(fw.zeros(2, 3), fw.tensor([0, 3])), IndexError,
                       "target 3 is not one of 3 classes", "count from 0"),
    "too many": Mistake(lambda: fw.zeros(2, 3)[0, 1, 2], IndexError,
                        "3 for a tensor with 2 axes", "x[..., i]"),
    "floats": Mistake(lambda: fw.zeros(2)[fw.tensor([1.0])], IndexError, "not float32",
                      "astype(fw.int64)"),
    "a mask": Mistake(lambda: fw.zeros(2, 3)[fw.ones(3) > 0], IndexError,
                      "a mask of shape (3,) does not fit the shape (2, 3)", "sizes of the axes"),
}
GRADIENTS = {
    "of many numbers": Mistake(lambda: (leaf(3) * 2).backward(), RuntimeError,
                               "shape (3,) has no single gradient", "loss.mean()"),
    "of a constant": Mistake(lambda: fw.zeros(()).backward(), RuntimeError,
                             "float32 of shape (), does not depend on anything",
                             "outside of fw.no_grad()"),
    "of something unused": Mistake(lambda: fw.grad(leaf(2).sum(), leaf(3)), RuntimeError,
                                   "do not depend on input 0, float32 of shape (3,)",
                                   "allow_unused=True"),
    "by a constant": Mistake(lambda: fw.grad(leaf(2).sum(), fw.zeros(3)), RuntimeError,
                             "input 0 does not require a gradient: float32 of shape (3,)",
                             "x.requires_grad_()"),
    "of another shape": Mistake(lambda: leaf(2).backward(fw.ones(3)), ValueError,
                                "gradient has shape (3,), the tensor (2,)", "tensor's shape"),
    "of another dtype": Mistake(lambda: leaf(2).backward(np.ones(2)), TypeError,
                                "gradient is float64, the tensor float32",
                                "NumPy's floats are float64"),
    "a leaf in place": Mistake(lambda: grow(leaf(2), 1.0), RuntimeError,
                               "cannot be changed in place", "fw.no_grad()"),
    "a device": Mistake(lambda: fw.zeros(2).to("cuda"), RuntimeError, '"cuda" is not available',
                        '"cpu"'),
}
TABLE = {**SHAPES, **DTYPES, **{f"index: {k}": v for k, v in INDICES.items()},
         **{f"gradient: {k}": v for k, v in GRADIENTS.items()}}


@pytest.mark.parametrize("mistake", TABLE.values(), ids=TABLE.keys())
def test_mistakes(mistake: Mistake) -> None:
    with pytest.raises(mistake.error) as caught:
        mistake.call()
    error = caught.value
    assert isinstance(error, FusewireError)
    assert mistake.words in error.message
    assert mistake.help in error.help and error.help
    assert error.line.startswith(f"{__file__}:")


def test_the_layer_is_named() -> None:
    class Broken(nn.Module):
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return x + [1]

    with pytest.raises(ValueError, match=r"in layer: 2 \(Linear\)"):
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(5, 2))(fw.zeros(1, 3))
    with pytest.raises(TypeError, match=r"in layer: 1 \(Broken\)"):
        nn.Sequential(nn.Linear(3, 4), Broken())(fw.zeros(1, 3))


def test_a_mistake_inside_of_forward_stays_as_it_is() -> None:
    class Inner(nn.Module):
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return len(1)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)"):
        Inner()(fw.zeros(1))


def test_float64_stays_float64() -> None:
    assert (fw.zeros(2) + np.zeros(2)).dtype == fw.float64
    assert nn.Linear(3, 2)(np.zeros((1, 3))).dtype == fw.float64
    assert (fw.zeros(2) + np.float64(1)).dtype == fw.float32  # a number adapts


def test_comparing_with_a_list_is_no_error() -> None:
    assert fw.zeros(2) not in [[1, 2], (3, 4)]
