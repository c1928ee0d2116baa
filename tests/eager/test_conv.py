"""Convolutions: sums over windows, groups, paddings, their transposes, gradients of any order."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.eager.errors import ArgumentError, DTypeError, FusewireError, ShapeError
from fusewire.eager.ops.layers import conv


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def tracked(*shape: int, seed: int = 0) -> fw.Tensor:
    return fw.tensor(values(*shape, seed=seed), requires_grad=True)


def by_loops(x: Any, w: Any, stride: Any, pad: Any, dilation: Any, groups: int = 1) -> Any:
    """The sum over windows, one place of the result after the other."""
    n, filters, each = len(x), len(w) // groups, x.shape[1] // groups
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    reach = [(k - 1) * r + 1 for k, r in zip(w.shape[2:], dilation, strict=True)]
    size = [(m - r) // s + 1 for m, r, s in zip(x.shape[2:], reach, stride, strict=True)]
    out = np.zeros((n, len(w), *size))
    axes = range(1, w.ndim)
    for at in np.ndindex(*size):
        place = [slice(i * s, i * s + m, r) for i, s, m, r in zip(at, stride, reach, dilation)]
        for g in range(groups):
            part = x[(slice(None), slice(g * each, (g + 1) * each), *place)]
            mine = slice(g * filters, (g + 1) * filters)
            out[(slice(None), mine, *at)] = np.tensordot(part, w[mine], (axes, axes))
    return out


# ---- what a convolution is
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("stride", "pad", "dilation"), [
    ((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 0), (1, 1)), ((1, 2), (2, 1), (2, 1))])
def test_a_convolution_is_the_sum_over_windows(stride: Any, pad: Any, dilation: Any, groups: int
                                               ) -> None:
    layer = nn.Conv2d(4, 8, (3, 2), stride, pad, dilation, groups, dtype=fw.float64)
    x, w = values(2, 4, 7, 6), layer.weight.detach().numpy()
    expected = by_loops(x, w, stride, pad, dilation, groups)
    expected += layer.bias.detach().numpy()[:, None, None]
    np.testing.assert_allclose(layer(fw.tensor(x)).detach().numpy(), expected)
    without_samples = layer(fw.tensor(x[0])).detach().numpy()
    np.testing.assert_allclose(without_samples, expected[0])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_number_of_axes(d: int) -> None:
    x, w = values(2, 3, *(6, 5, 4)[:d]), values(4, 3, *(2, 3, 2)[:d], seed=1)
    conv = getattr(F, f"conv{d}d")
    got = conv(fw.tensor(x), fw.tensor(w), stride=2, padding=1)
    np.testing.assert_allclose(got.numpy(), by_loops(x, w, (2,) * d, (1,) * d, (1,) * d))


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding_keeps_the_size_and_puts_the_odd_zero_last(kernel: int, dilation: int) -> None:
    x = fw.tensor(values(1, 1, 6))
    both = dilation * (kernel - 1)
    by_hand = F.pad(x, (both // 2, both - both // 2))
    w = fw.tensor(values(2, 1, kernel, seed=1))
    same = F.conv1d(x, w, padding="same", dilation=dilation)
    assert same.shape == (1, 2, 6)
    assert same.tolist() == F.conv1d(by_hand, w, dilation=dilation).tolist()
    assert F.conv1d(x, w, padding="valid").shape == (1, 2, 7 - kernel)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [2, "same", "valid"])
def test_other_paddings_are_added_first(mode: str, padding: Any) -> None:
    layer = nn.Conv2d(2, 3, (4, 3), padding=padding, padding_mode=mode, dtype=fw.float64)
    x = fw.tensor(values(1, 2, 5, 6))
    around = {2: (2, 2, 2, 2), "same": (1, 1, 1, 2), "valid": (0, 0, 0, 0)}[padding]
    expected = F.conv2d(F.pad(x, around, mode), layer.weight, layer.bias)
    assert layer(x).tolist() == expected.tolist()


def test_groups_see_only_their_own_channels() -> None:
    layer = nn.Conv1d(4, 4, 1, groups=2, bias=False)
    assert layer.weight.shape == (4, 2, 1)
    x = fw.tensor([[[1.0], [1.0], [0.0], [0.0]]])
    assert layer(x).flatten().tolist()[2:] == [0, 0]


def test_sums_of_nothing() -> None:
    assert F.conv1d(fw.zeros(0, 2, 4), fw.zeros(3, 2, 2)).shape == (0, 3, 3)
    x, w = fw.zeros(2, 0, 4).requires_grad_(), fw.zeros(3, 0, 2).requires_grad_()
    out = F.conv1d(x, w, fw.ones(3))
    assert out.tolist() == fw.ones(2, 3, 3).tolist()
    assert [g.shape for g in fw.grad(out.sum(), [x, w])] == [(2, 0, 4), (3, 0, 2)]


def test_time_batch_channels() -> None:
    x, w, b = fw.tensor(values(5, 2, 3)), fw.tensor(values(3, 3, 4)), fw.tensor(values(4))
    got = F.conv_tbc(x, w, b, 1)
    turned = F.conv1d(x.permute_dims((1, 2, 0)), w.permute_dims((2, 1, 0)), b, padding=1)
    assert got.tolist() == turned.permute_dims((2, 0, 1)).tolist()


# ---- transposed
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (3, 2, 2)])
def test_a_transposed_convolution_is_the_gradient_by_the_input(
    stride: int, padding: int, dilation: int, groups: int
) -> None:
    w, x = fw.tensor(values(4, 2, 3, 2)), tracked(2, 2 * groups, 9, 8)
    out = F.conv2d(x, w, None, stride, padding, dilation, groups)
    y = fw.tensor(values(*out.shape, seed=2))
    (expected,) = fw.grad(out, [x], [y])
    more = [n - ((m - 1) * stride - 2 * padding + dilation * (k - 1) + 1)
            for n, m, k in zip((9, 8), out.shape[2:], (3, 2))]
    got = F.conv_transpose2d(y, w, None, stride, padding, tuple(more), groups, dilation)
    np.testing.assert_allclose(got.numpy(), expected.numpy())


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride", "before", "more"), [
    (3, 2, 1, 1), (3, 2, 1, 0), (3, 2, 0, 1), (1, 2, 0, 1), (2, 3, 1, 2), (5, 3, 2, 0),
    (1, 2, 1, 1)])
@pytest.mark.parametrize("channels", [2, 200])
def test_compiled_gradients_of_strides_are_those_without(
    kernel: int, stride: int, before: int, more: int, channels: int, d: int
) -> None:
    """Few channels are multiplied by weights with zeros between them, many by whole ones."""
    y, w = values(2, channels, *(3, 2, 4)[:d]), values(channels, 3, *(kernel,) * d, seed=1)
    how = ((stride,) * d, (1,) * d, (before,) * d, (more,) * d)
    back = fw.compile(lambda y, w: conv.conv_transpose(y, w, *how))
    expected = conv.conv_transpose(fw.tensor(y), fw.tensor(w), *how).numpy()
    np.testing.assert_allclose(back(fw.tensor(y), fw.tensor(w)).numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(back(fw.tensor(y), fw.tensor(w)).numpy(), expected, atol=1e-12)


def test_gradients_of_strides_in_16_bits_are_rounded_once() -> None:
    y, w = values(2, 300, 5), values(300, 3, 3, seed=1) / 10
    back = fw.compile(lambda y, w: conv.conv_transpose(y, w, (2,), (1,), (1,), (1,)))
    small = [fw.tensor(a).astype(fw.float16) for a in (y, w)]
    exact = conv.conv_transpose(*[a.astype(fw.float64) for a in small], (2,), (1,), (1,), (1,))
    back(*small)
    np.testing.assert_allclose(back(*small).astype(fw.float64).numpy(), exact.numpy(),
                               rtol=2 ** -11, atol=1e-5)


def test_elements_that_no_window_reaches_have_no_gradient() -> None:
    y, w = fw.ones(2, 90, 1), fw.ones(90, 3, 1)
    back = fw.compile(lambda y, w: conv.conv_transpose(y, w, (2,), (1,), ((1, 0),), (1,)))
    assert back(y, w).tolist() == back(y, w).tolist() == fw.zeros(2, 3, 1).tolist()


def test_output_size_chooses_among_those_that_a_stride_makes_equal() -> None:
    up = nn.ConvTranspose2d(2, 3, 3, stride=2)
    x = fw.zeros(1, 2, 4, 5)
    assert up(x).shape == (1, 3, 9, 11)
    assert up(x, output_size=(10, 11)).shape == (1, 3, 10, 11)
    assert up(x, [1, 3, 9, 12]).shape == (1, 3, 9, 12)
    assert up(x[0], (3, 9, 12)).shape == (3, 9, 12)
    with pytest.raises(ShapeError, match=r"sizes go from \(9, 11\) to \(10, 12\)"):
        up(x, (11, 11))
    with pytest.raises(ShapeError, match="needs 2 sizes of space, or all 4"):
        up(x, (9, 9, 9))


# ---- derivatives
CALLS: dict[str, tuple[Callable[..., fw.Tensor], tuple[Any, ...]]] = {
    "groups": (lambda x, w: F.conv1d(x, w, groups=2, stride=2, padding=1), ((2, 4, 5), (2, 2, 3))),
    "each channel": (lambda x, w: F.conv2d(x, w, groups=2, padding="same"),
                     ((1, 2, 3, 3), (2, 1, 2, 3))),
    "points": (lambda x, w: F.conv2d(x, w, stride=2), ((2, 2, 3, 3), (3, 2, 1, 1))),
    "transposed": (lambda x, w: F.conv_transpose1d(x, w, stride=2, output_padding=1, groups=2),
                   ((2, 4, 3), (4, 1, 3))),
    "apart": (lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1, dilation=3),
              ((2, 2, 3), (2, 1, 3))),
    "with zeros at the end": (lambda x, w: F.conv_transpose1d(x, w, dilation=3, output_padding=2),
                              ((1, 1, 3), (1, 2, 2)))}


@pytest.mark.parametrize("name", CALLS)
def test_first_and_second_gradients_are_those_of_finite_differences(name: str) -> None:
    call, shapes = CALLS[name]
    inputs = [tracked(*shape, seed=n) for n, shape in enumerate(shapes)]
    assert fw.autograd.gradcheck(call, inputs)
    assert fw.autograd.gradgradcheck(call, inputs)


def test_a_gradient_for_each_example() -> None:
    x, w = fw.tensor(values(3, 1, 4, 5)), fw.tensor(values(2, 2, 3, seed=1))

    def loss(w: fw.Tensor, x: fw.Tensor) -> fw.Tensor:
        return (F.conv1d(x, w, groups=2, padding=1) ** 2).sum()

    each = fw.func.vmap(fw.func.grad(loss), in_axes=(None, 0))(w, x)
    for n in range(3):
        np.testing.assert_allclose(each[n].numpy(), fw.func.grad(loss)(w, x[n]).numpy())


def test_many_examples_are_taken_in_blocks() -> None:
    """More windows than are written to memory at once."""
    x, w = values(40, 4, 40, 20).astype(np.float32), values(4, 2, 5, 5).astype(np.float32)
    out = F.conv2d(fw.tensor(x), fw.tensor(w), groups=2)
    one_by_one = [F.conv2d(fw.tensor(e), fw.tensor(w), groups=2).numpy() for e in x]
    np.testing.assert_allclose(out.numpy(), np.stack(one_by_one), rtol=1e-4, atol=1e-4)
    y = fw.tensor(values(*out.shape).astype(np.float32))
    back = F.conv_transpose2d(y, fw.tensor(w), groups=2, stride=1)
    each = [F.conv_transpose2d(e, fw.tensor(w), groups=2).numpy() for e in y]
    np.testing.assert_allclose(back.numpy(), np.stack(each), rtol=1e-4, atol=1e-4)


# ---- dtypes
@pytest.mark.parametrize("dtype", [fw.float16, fw.bfloat16])
def test_small_floats_are_summed_in_float32(dtype: Any) -> None:
    x = fw.ones(1, 64, 5, 5, dtype=dtype).requires_grad_()
    w = fw.full((1, 64, 3, 3), 1.0, dtype=dtype)
    out = F.conv2d(x, w)
    assert out.dtype == dtype and out.flatten().tolist() == [576.0] * 9
    (g,) = fw.grad(out.sum(), [x])
    assert g.dtype == dtype and g[0, 0, 2, 2].item() == 9


def test_integers_and_complex_numbers() -> None:
    x = fw.arange(5).reshape(1, 1, 5)
    assert F.conv1d(x, fw.tensor([[[1, -1]]])).tolist() == [[[-1] * 4]]
    z = fw.tensor([[[1j, 2.0, 1 + 1j]]])
    assert F.conv1d(z, fw.tensor([[[1j, 1.0]]], dtype=z.dtype)).tolist() == [[[1, 1 + 3j]]]


# ---- compiled
@pytest.mark.parametrize("name", CALLS)
def test_compiled_it_is_the_same_and_stays_compiled(name: str) -> None:
    call, shapes = CALLS[name]

    def step(*inputs: fw.Tensor) -> Any:
        return fw.grad((call(*inputs) ** 2).sum(), inputs)

    inputs = [tracked(*shape, seed=n) for n, shape in enumerate(shapes)]
    compiled = fw.compile(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            for got, wanted in zip(compiled(*inputs), step(*inputs)):
                np.testing.assert_allclose(got.numpy(), wanted.numpy())
    assert compiled.stats.replays == 2


# ---- layers
def test_sizes_are_kept_as_one_number_for_each_axis() -> None:
    layer = nn.Conv3d(2, 4, 3, (1, 2, 1), 1)
    assert layer.kernel_size == (3, 3, 3) and layer.stride == (1, 2, 1)
    assert layer.padding == (1, 1, 1) and not layer.transposed
    assert nn.ConvTranspose1d(6, 4, 3, groups=2).weight.shape == (6, 2, 3)
    assert nn.Conv1d(6, 4, 3, bias=False).bias is None


def test_text() -> None:
    layer = nn.Conv2d(4, 8, 3, 2, 1, 2, 2, False, "reflect")
    assert repr(layer) == (
        "Conv2d(4, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), "
        "groups=2, bias=False, padding_mode=reflect)")
    assert repr(nn.ConvTranspose1d(2, 3, 4, stride=2, output_padding=1)) == (
        "ConvTranspose1d(2, 3, kernel_size=(4,), stride=(2,), output_padding=(1,))")
    assert repr(nn.Conv1d(2, 3, 2, padding="same")) == (
        "Conv1d(2, 3, kernel_size=(2,), stride=(1,), padding=same)")


# ---- errors
X, W = (1, 4, 6, 6), (8, 4, 3, 3)


@pytest.mark.parametrize(("x", "w", "more", "words"), [
    ((1, 6, 6, 4), W, {}, r"input \(1, 6, 6, 4\) has 6 channels in axis 1, but the weight "
     r"\(8, 4, 3, 3\) with groups=1 takes 4\n.*\n.*help: the channels look to be last: "
     r"x.permute_dims\(\(0, 3, 1, 2\)\)"),
    ((5, 6, 6), (8, 1, 3, 3), {}, r"channels looks to be missing: x\[:, None\]"),
    ((6, 6), W, {}, r"takes \(n, channels, height, width\) or \(channels, height, width\), got"),
    ((1, 5, 6, 6), W, {}, r"has 5 channels in axis 1.*\n.*\n.*the input must be \(n, 4, \*space\)"),
    ((1, 8, 6, 6), W, {}, "groups=2 would fit these shapes"),
    (X, W, {"groups": 3}, "3 groups do not divide the 8 channels in axis 0"),
    (X, (8, 4, 3), {}, r"the weight must be \(out, in / groups, \*kernel\) with 4 axes"),
    (X, W, {"bias": fw.zeros(4)}, r"the bias must be \(8,\) .* got shape \(4,\)"),
    (X, W, {"stride": (1, 2, 3)}, "stride must be a number or 2 of them"),
    (X, (8, 4, 9, 3), {"padding": 1}, "a window of 9 does not fit into an axis of size 6 padded by "
     "1 and 1")])
def test_shapes_that_do_not_fit(x: Any, w: Any, more: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        F.conv2d(fw.zeros(*x), fw.zeros(*w), **more)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: F.conv1d(fw.zeros(1, 2, 4), fw.zeros(1, 2, 2), stride=2, padding="same"),
     ArgumentError, r"padding='same' with stride \(2,\)"),
    (lambda: F.conv1d(fw.zeros(1, 2, 4), fw.zeros(1, 2, 2), stride=0), ArgumentError,
     "stride must be at least 1"),
    (lambda: F.conv1d(fw.zeros(1, 2, 4), fw.zeros(1, 2, 2), padding=-1), ArgumentError,
     "padding must be at least 0"),
    (lambda: F.conv1d(fw.zeros(1, 2, 4), fw.zeros(1, 2, 2), padding="full"), ArgumentError,
     "padding is one of 'valid', 'same'"),
    (lambda: F.conv1d(fw.zeros(1, 2, 4), fw.zeros(1, 2, 2), groups=0), ArgumentError,
     "groups must be at least 1"),
    (lambda: F.conv1d(fw.zeros(1, 2, 4), fw.zeros(1, 2, 2, dtype=fw.float64)), DTypeError,
     "the input is float32, the weight float64"),
    (lambda: F.conv1d(fw.zeros(1, 2, 4), fw.zeros(1, 2, 2), fw.zeros(1, dtype=fw.float64)),
     DTypeError, "the bias is float64"),
    (lambda: F.conv1d(fw.zeros(1, 2, 4) > 0, fw.zeros(1, 2, 2) > 0), DTypeError, "not bool"),
    (lambda: F.conv_transpose1d(fw.zeros(1, 2, 4), fw.zeros(3, 2, 2)), ShapeError,
     "has 2 channels in axis 1, .* takes 3"),
    (lambda: F.conv_transpose1d(fw.zeros(1, 2, 4), fw.zeros(2, 2, 2), output_padding=1),
     ArgumentError, "output_padding .1,. must be less than the stride"),
    (lambda: F.conv_transpose1d(fw.zeros(1, 2, 4), fw.zeros(2, 2, 2), padding="same"),
     ArgumentError, "padding is a number"),
    (lambda: F.conv_transpose1d(fw.zeros(1, 2, 1), fw.zeros(2, 2, 2), padding=2), ShapeError,
     r"gives the sizes \(-2,\)"),
    (lambda: nn.Conv2d(3, 4, 3, groups=2), ArgumentError, "in_channels=3 is not divisible by"),
    (lambda: nn.Conv2d(2, 3, 3, groups=2), ArgumentError, "out_channels=3 is not divisible by"),
    (lambda: nn.Conv2d(2, 3, 3, padding_mode="edge"), ArgumentError, "padding_mode 'edge'"),
    (lambda: nn.Conv2d(2, 3, 3, padding="same", stride=2), ArgumentError, "is for stride 1"),
    (lambda: nn.ConvTranspose2d(2, 3, 3, padding_mode="reflect"), ArgumentError, "use 'zeros'"),
    (lambda: nn.Conv1d(2, 3, (3, 3)), ShapeError, "kernel_size must be a number or 1 of them")])
def test_errors(call: Any, error: type[FusewireError], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_an_error_inside_a_model_names_the_layer() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.Conv2d(5, 4, 3)))
    with pytest.raises(ShapeError, match=r"takes 5[\s\S]*in layer: 1\.0 \(Conv2d\)"):
        model(fw.zeros(1, 3, 8, 8))
