"""Attention against its formula in NumPy: masks, heads in groups, projections."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fusewire as fw
from fusewire.eager import nn
from fusewire.eager.errors import ArgumentError, DTypeError, ShapeError

attend = nn.functional.scaled_dot_product_attention


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def close(tensor, expected, rtol=1e-9, atol=1e-12):
    assert_allclose(tensor.detach().numpy(), expected, rtol=rtol, atol=atol)


def qkv(*lead, l=3, s=5, e=4, v=2):  # noqa: E741
    return values(*lead, l, e, seed=1), values(*lead, s, e, seed=2), values(*lead, s, v, seed=3)


def by_formula(q, k, v, added=0.0, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + added
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def tensors(arrays):
    return [fw.tensor(a, requires_grad=True) for a in arrays]


# ---- attention alone
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_attention_mixes_values_by_softmax(lead):
    q, k, v = qkv(*lead)
    close(attend(*tensors((q, k, v))), by_formula(q, k, v))
    close(attend(*tensors((q, k, v)), scale=0.3), by_formula(q, k, v, scale=0.3))


@pytest.mark.parametrize("s", [2, 3, 5])
def test_causal_attention_looks_back_only(s):
    arrays = qkv(2, s=s)
    hidden = np.where(np.tri(3, s) > 0, 0.0, -np.inf)
    close(attend(*tensors(arrays), is_causal=True), by_formula(*arrays, hidden))


def test_a_mask_says_where_to_look_or_is_added():
    arrays, mask = qkv(2, 3), values(3, 5, seed=4)
    close(attend(*tensors(arrays), fw.tensor(mask)), by_formula(*arrays, mask))
    allowed = mask > -0.5
    allowed[:, 0] = True
    hidden = np.where(allowed, 0.0, -np.inf)
    close(attend(*tensors(arrays), fw.tensor(allowed)), by_formula(*arrays, hidden))
    both = attend(*tensors(arrays), fw.tensor(allowed), is_causal=True)
    close(both, by_formula(*arrays, np.where(np.tri(3, 5) > 0, hidden, -np.inf)))


@pytest.mark.parametrize("kind", ["bool", "numbers"])
def test_a_query_that_may_look_at_nothing_gives_zeros_and_no_gradient(kind):
    inputs, allowed = tensors(qkv()), np.array([[True] * 5, [False] * 5, [True] * 5])
    mask = fw.tensor(allowed if kind == "bool" else np.where(allowed, 0.0, -np.inf))
    out = attend(*inputs, mask)
    assert_array_equal(out.detach().numpy()[1], [0.0, 0.0])
    out.sum().backward()
    assert not inputs[0].grad.numpy()[1].any()
    assert all(np.isfinite(x.grad.numpy()).all() for x in inputs)


def test_heads_of_keys_that_several_heads_of_queries_share():
    q, (_, k, v) = values(2, 6, 3, 4), qkv(2, 2)
    repeated = (np.repeat(x, 3, axis=1) for x in (k, v))
    mask = values(2, 6, 3, 5, seed=4)
    out = attend(*tensors((q, k, v)), fw.tensor(mask), enable_gqa=True)
    close(out, by_formula(q, *repeated, mask))


def test_dropout_sets_weights_to_zero_whether_training_or_not():
    fw.manual_seed(0)
    one = fw.ones(1, 4), fw.ones(1000, 4), fw.ones(1000, 1)
    out = attend(*one, dropout_p=0.5)
    assert 0.8 < out.item() < 1.2
    assert out.item() != 1.0
    assert attend(*one, dropout_p=1.0).item() == 0.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_computed_in_float32_between(dtype):
    arrays = [(a * 4).astype("f4") for a in qkv(2)]
    small = [fw.tensor(a).to(dtype) for a in arrays]
    out = attend(*small)
    assert str(out.dtype) == dtype
    expected = by_formula(*[x.to(fw.float64).numpy() for x in small])
    close(out.to(fw.float64), expected, rtol=1e-2, atol=1e-2)


def test_derivatives_agree_with_differences():
    mask = fw.tensor(np.tri(3, 5, 1) > 0)
    for more in ({}, {"is_causal": True}, {"attn_mask": mask}):
        assert fw.autograd.gradcheck(lambda *x, more=more: attend(*x, **more), tensors(qkv()))
    assert fw.autograd.gradgradcheck(lambda *x: attend(*x, mask), tensors(qkv()))
    added = fw.tensor(values(3, 5), requires_grad=True)
    assert fw.autograd.gradcheck(attend, (*tensors(qkv()), added))


# ---- several heads
def heads_by_formula(layer, q, k, v, added=0.0):
    """Output and weights of each head for one example."""
    w, b = layer.in_proj_weight.detach().numpy(), layer.in_proj_bias.detach().numpy()
    n, d = layer.num_heads, layer.head_dim
    parts = [x @ wi.T + bi for x, wi, bi in zip((q, k, v), np.split(w, 3), np.split(b, 3))]
    q, k, v = (np.moveaxis(p.reshape(len(p), n, d), 1, 0) for p in parts)
    weights = by_formula(q, k, np.eye(len(k[0])), added)
    out = np.moveaxis(weights @ v, 0, 1).reshape(len(q[0]), n * d)
    return out @ layer.out_proj.weight.detach().numpy().T + \
        layer.out_proj.bias.detach().numpy(), weights


def layer_of(*args, **kwargs):
    fw.manual_seed(5)
    return nn.MultiheadAttention(*args, dtype=fw.float64, **kwargs)


def test_each_head_attends_by_its_own_features():
    layer = layer_of(6, 2)
    q, k, v = values(3, 2, 6, seed=1), values(5, 2, 6, seed=2), values(5, 2, 6, seed=3)
    out, weights = layer(*tensors((q, k, v)))
    every = layer(*tensors((q, k, v)), average_attn_weights=False)[1]
    for b in range(2):
        expected, shares = heads_by_formula(layer, q[:, b], k[:, b], v[:, b])
        close(out[:, b], expected)
        close(every[b], shares)
        close(weights[b], shares.mean(0))
    assert layer(*tensors((q, k, v)), need_weights=False)[1] is None


def test_the_batch_may_come_first_or_be_left_out():
    layer, first = layer_of(6, 2), layer_of(6, 2, batch_first=True)
    x = fw.tensor(values(2, 4, 6))
    out, weights = first(x, x, x)
    turned = fw.transpose(x, 0, 1)
    close(fw.transpose(layer(turned, turned, turned)[0], 0, 1), out.detach().numpy())
    alone, share = layer(x[0], x[0], x[0])
    close(alone, out[0].detach().numpy())
    close(share, weights[0].detach().numpy())


def test_masks_of_positions_and_of_padding():
    layer, x = layer_of(6, 2, batch_first=True), values(2, 4, 6)
    later, padding = np.tri(4) == 0, np.array([[False] * 4, [False, False, True, True]])
    hidden = np.where(later | padding[:, None], -np.inf, 0.0)
    given = fw.tensor(x)
    out = layer(given, given, given, key_padding_mask=fw.tensor(padding),
                attn_mask=fw.tensor(later))[0]
    added = layer(given, given, given, key_padding_mask=fw.tensor(np.where(padding, -np.inf, 0.0)),
                  attn_mask=fw.tensor(later), need_weights=False)[0]
    for b in range(2):
        close(out[b], heads_by_formula(layer, x[b], x[b], x[b], hidden[b])[0])
    close(added, out.detach().numpy())


def test_padding_alone_gives_zeros_with_and_without_weights():
    layer, x = layer_of(6, 2, batch_first=True), fw.tensor(values(2, 4, 6))
    padding = fw.tensor([[True] * 4, [False] * 4])
    out, weights = layer(x, x, x, key_padding_mask=padding)
    assert not weights[0].detach().numpy().any()
    close(layer(x, x, x, key_padding_mask=padding, need_weights=False)[0], out.detach().numpy())
    close(out[0, 0], layer.out_proj.bias.detach().numpy())


def test_more_keys_are_looked_at_always():
    layer, x = layer_of(6, 2, add_bias_kv=True, add_zero_attn=True), fw.tensor(values(3, 2, 6))
    weights = layer(x, x, x, attn_mask=fw.ones(3, 3, dtype=fw.bool))[1]
    assert weights.shape == (2, 3, 5)
    assert not weights[..., :3].detach().numpy().any()
    close(weights.sum(-1), np.ones((2, 3)))


def test_keys_and_values_of_other_sizes_have_weights_of_their_own():
    layer = layer_of(6, 2, kdim=3, vdim=4)
    assert {name: p.shape for name, p in layer.named_parameters()} == {
        "q_proj_weight": (6, 6), "k_proj_weight": (6, 3), "v_proj_weight": (6, 4),
        "in_proj_bias": (18,), "out_proj.weight": (6, 6), "out_proj.bias": (6,)}
    out, _ = layer(*tensors((values(3, 2, 6), values(5, 2, 3), values(5, 2, 4))))
    assert out.shape == (3, 2, 6)


def test_dropout_in_training_only():
    layer, x = layer_of(6, 2, dropout=0.5), fw.tensor(values(4, 2, 6))
    assert not np.array_equal(*[layer(x, x, x)[0].detach().numpy() for _ in range(2)])
    layer.eval()
    assert_array_equal(*[layer(x, x, x)[0].detach().numpy() for _ in range(2)])


def test_compiled_training_is_eager_training():
    def trained(compiled):
        fw.manual_seed(0)
        layer = nn.MultiheadAttention(8, 2, batch_first=True)
        optimizer = fw.optim.AdamW(layer.parameters(), lr=0.01)
        padding = fw.tensor([[False] * 5, [False, False, True, True, True]])

        def step(x):
            out = layer(x, x, x, key_padding_mask=padding, need_weights=False)[0]
            loss = (out ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = fw.compile(step) if compiled else step
        return [run(fw.tensor(values(2, 5, 8, seed=n).astype("f4"))).item() for n in range(4)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of it runs eagerly
        assert_allclose(trained(True), trained(False), rtol=1e-5)


def test_choices_between_kernels_are_accepted():
    arrays = tensors(qkv())
    with nn.attention.sdpa_kernel([nn.attention.SDPBackend.FLASH_ATTENTION]):
        close(attend(*arrays), attend(*arrays).detach().numpy())


# ---- errors
X = fw.zeros(3, 2, 6)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: attend(fw.zeros(3, 4), fw.zeros(5, 3), fw.zeros(5, 3)), ShapeError,
     r"got \(3, 4\), \(5, 3\) and \(5, 3\)"),
    (lambda: attend(fw.zeros(3, 4), fw.zeros(5, 4), fw.zeros(4, 4)), ShapeError, "of one letter"),
    (lambda: attend(fw.zeros(3, 4), fw.zeros(5, 4), fw.zeros(5, 4), fw.ones(3, 5, dtype=fw.int64)),
     DTypeError, "a mask is bool, or numbers to add, not int64"),
    (lambda: attend(fw.zeros(3, 4), fw.zeros(5, 4), fw.zeros(5, 4), fw.ones(3, 4)), ShapeError,
     "do not broadcast"),
    (lambda: attend(fw.zeros(5, 3, 4), fw.zeros(2, 3, 4), fw.zeros(2, 3, 4), enable_gqa=True),
     ShapeError, "are a multiple"),
    (lambda: nn.MultiheadAttention(6, 4), ArgumentError, "6 is not divisible by num_heads 4"),
    (lambda: nn.MultiheadAttention(6, 2)(X, fw.zeros(4, 2, 6), X), ShapeError,
     r"got \(3, 2, 6\), \(4, 2, 6\) and \(3, 2, 6\)"),
    (lambda: nn.MultiheadAttention(6, 2)(X, fw.zeros(4, 3, 6), fw.zeros(4, 3, 6)), ShapeError,
     "MultiheadAttention: takes query"),
    (lambda: nn.MultiheadAttention(6, 2)(X, X, X, attn_mask=fw.zeros(2, 3)), ShapeError,
     r"attn_mask must be \(l, s\) = \(3, 3\) or \(n \* heads, l, s\) = \(4, 3, 3\), got \(2, 3\)"),
    (lambda: nn.MultiheadAttention(6, 2)(X, X, X, key_padding_mask=fw.zeros(3, 2)), ShapeError,
     r"key_padding_mask must be \(n, s\) = \(2, 3\), got \(3, 2\)"),
    (lambda: nn.MultiheadAttention(6, 2)(X, X, X, is_causal=True), ArgumentError,
     "generate_square_subsequent_mask"),
    (lambda: nn.MultiheadAttention(8, 2)(X, X, X), ShapeError, "linear: input"),
])
def test_errors_say_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call()
