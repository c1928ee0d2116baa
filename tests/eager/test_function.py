"""Functions with a way back of the user's own."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import pytest

import fusewire as fw
from fusewire.autograd import Function, gradcheck, gradgradcheck
from fusewire.autograd.function import once_differentiable
from fusewire.eager.errors import DTypeError, GradientError, ShapeError


def leaf(*values: float) -> fw.Tensor:
    return fw.tensor(values if len(values) != 1 else values[0], requires_grad=True)


def double(*values: float) -> fw.Tensor:
    return fw.tensor(values, dtype=fw.float64, requires_grad=True)


class Cube(Function):
    """x ** 3."""

    @staticmethod
    def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
        assert not fw.is_grad_enabled()
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx: Any, g: fw.Tensor) -> fw.Tensor:
        x, = ctx.saved_tensors
        return g * 3 * x ** 2


class Both(Function):
    """Product and sum; notes the gradients that come."""

    seen: ClassVar[list[Any]] = []

    @staticmethod
    def forward(x: fw.Tensor, y: fw.Tensor) -> Any:
        return x * y, x + y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: fw.Tensor, h: fw.Tensor) -> Any:
        x, y = ctx.saved_tensors
        Both.seen.append((g.item(), h.item()))
        return g * y + h, g * x + h


def test_any_order_of_derivative() -> None:
    x = leaf(2.0)
    first, = fw.grad(Cube.apply(x), x, create_graph=True)
    second, = fw.grad(first, x, create_graph=True)
    third, = fw.grad(second, x)
    assert [t.item() for t in (first, second, third)] == [12.0, 12.0, 6.0]
    assert gradcheck(Cube.apply, double(1.0, 2.0)) and gradgradcheck(Cube.apply, double(1.0, 2.0))


def test_several_results_share_one_call() -> None:
    x, y = leaf(2.0), leaf(3.0)
    Both.seen.clear()
    product, total = Both.apply(x, y)
    (product * product + total * 10).backward()
    assert Both.seen == [(12.0, 10.0)]
    assert (x.grad.item(), y.grad.item()) == (46.0, 34.0)
    product, _ = Both.apply(x, y)
    product.backward()  # the gradient of the other one is zeros
    assert Both.seen[1] == (1.0, 0.0)


def test_results_may_be_saved() -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx: Any, g: fw.Tensor) -> fw.Tensor:
            return g * ctx.saved_tensors[0]

    assert gradcheck(Exp.apply, double(0.5, -1.0)) and gradgradcheck(Exp.apply, double(0.5, -1.0))
    x = leaf(0.0)
    y = Exp.apply(x)
    first, = fw.grad(y, x, create_graph=True)  # y itself, as it was saved
    assert fw.grad(first * 3 + y * 5, x)[0].item() == 8.0
    y = Exp.apply(x)
    held = weakref.ref(y)
    del y  # no cycle keeps it
    assert held() is None


def test_arguments_that_are_no_tensors() -> None:
    class Power(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor, n: int, y: Any) -> fw.Tensor:
            ctx.n = n
            ctx.save_for_backward(x, None)
            assert ctx.needs_input_grad == (True, False, False)
            return x ** n

        @staticmethod
        def backward(ctx: Any, g: fw.Tensor) -> Any:
            x, none = ctx.saved_tensors
            assert none is None
            return g * ctx.n * x ** (ctx.n - 1), None, None

    x = leaf(2.0)
    Power.apply(x, 4, fw.ones(1)).backward()
    assert x.grad.item() == 32.0


def test_none_in_the_place_of_zeros() -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            assert h is None
            return g * 2

    x = leaf(1.0)
    Two.apply(x)[0].backward()
    assert x.grad.item() == 2.0


def test_results_without_a_gradient() -> None:
    class Sorted(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor) -> Any:
            count, sign = (x > 0).sum(), x.sign()
            ctx.mark_non_differentiable(sign)
            return x * 2, sign, count

        @staticmethod
        def backward(ctx: Any, g: Any, *rest: Any) -> Any:
            return g * 2

    x = leaf(1.0, -1.0)
    out, sign, count = Sorted.apply(x)
    assert (out.requires_grad, sign.requires_grad, count.requires_grad) == (True, False, False)
    out.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_input_as_a_result_and_changed_in_place() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, g: fw.Tensor) -> fw.Tensor:
            return g * 5

    class AddOne(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(ctx: Any, g: fw.Tensor) -> fw.Tensor:
            return g * 7

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x and fw.grad(y, x)[0].item() == 5.0
    z = x * 1
    out = AddOne.apply(z)
    assert out is z and z.item() == 2.0 and fw.grad(z, x)[0].item() == 7.0
    with pytest.raises(GradientError, match="AddOne: a leaf that requires a gradient"):
        AddOne.apply(x)


def test_broadcast_gradients_are_summed_and_cast() -> None:
    class Add(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
            return x + y

        @staticmethod
        def backward(ctx: Any, g: fw.Tensor) -> Any:
            return g, g.astype(fw.float64)

    x, y = fw.zeros(2, 3).requires_grad_(), fw.zeros(3).requires_grad_()
    Add.apply(x, y).sum().backward()
    assert y.grad.tolist() == [2.0] * 3 and y.grad.dtype == fw.float32


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: fw.Tensor) -> fw.Tensor:
            assert not fw.is_grad_enabled()
            return g * 2 * ctx.saved_tensors[0]

    x = leaf(3.0)
    assert fw.grad(Once.apply(x), x)[0].item() == 6.0
    first, = fw.grad(Once.apply(x), x, create_graph=True)
    with pytest.raises(GradientError, match="Once is marked @once_differentiable"):
        first.backward()


def test_hooks_and_retain_grad_on_results() -> None:
    x = leaf(2.0)
    y = Cube.apply(x)
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.backward()
    assert (y.grad.item(), x.grad.item()) == (2.0, 24.0)


def test_the_tape_of_a_function_is_freed() -> None:
    x = leaf(2.0)
    y = Cube.apply(x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 24.0
    with pytest.raises(GradientError, match="freed by an earlier backward, at its op Cube"):
        y.backward()


def test_outside_of_the_tape() -> None:
    assert not Cube.apply(fw.ones(2)).requires_grad
    with fw.no_grad():
        assert not Cube.apply(leaf(1.0)).requires_grad


def test_recorded() -> None:
    def loss(x: fw.Tensor) -> fw.Tensor:
        y = x.detach().requires_grad_()
        Cube.apply(y * 2).sum().backward()
        return y.grad

    compiled = fw.compile(loss)
    x = fw.tensor([1.0, 2.0])
    for _ in range(3):
        assert compiled(x).tolist() == [24.0, 96.0]
    assert compiled.stats.replays == 2


def test_under_transforms() -> None:
    x = fw.tensor([1.0, 2.0, 3.0])
    assert fw.func.vmap(Cube.apply)(x).tolist() == [1.0, 8.0, 27.0]
    assert fw.func.grad(lambda x: Cube.apply(x).sum())(x).tolist() == [3.0, 12.0, 27.0]
    assert fw.func.vmap(fw.func.grad(Cube.apply))(x).tolist() == [3.0, 12.0, 27.0]
    assert fw.func.grad(fw.func.grad(Cube.apply))(fw.tensor(2.0)).item() == 12.0


def returns(value: Any) -> Any:
    class Made(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: fw.Tensor) -> Any:
            return value

    return lambda: Made.apply(leaf(1.0, 2.0)).sum().backward()


@pytest.mark.parametrize(("make", "error", "words"), [
    (returns(2.0), DTypeError, "Made.backward returned float as gradient of argument 0"),
    (returns(fw.ones(3)), ShapeError, r"gradient of shape \(3,\) for argument 0 of shape \(2,\)"),
    (returns((fw.ones(2), fw.ones(2))), GradientError, "returned 2 gradients for the 1 arguments"),
    (returns(()), GradientError, "returned 0 gradients for the 1 arguments"),
    (Cube, GradientError, "cannot be instantiated"),
    (lambda: type("Odd", (Function,), {"forward": staticmethod(lambda ctx: 3)}).apply(), DTypeError,
     "Odd.forward returned int"),
])
def test_mistakes(make: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        make()
