"""Transformers: layers as sums of attention and products, stacks, masks, errors."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fusewire as fw
from fusewire.eager import nn
from fusewire.eager.errors import ArgumentError, ShapeError

F = nn.functional


def values(*shape, seed=0):
    return fw.tensor(np.random.default_rng(seed).standard_normal(shape).astype("f4"))


def same(a, b):
    assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def layer_of(kind, *args, **kwargs):
    fw.manual_seed(1)
    return getattr(nn, kind)(*args, **kwargs).eval()


# ---- layers
def products(layer, x):
    return layer.linear2(layer.activation(layer.linear1(x)))


def test_an_encoder_layer_adds_attention_and_products():
    layer, x = layer_of("TransformerEncoderLayer", 8, 2, 16), values(5, 3, 8)
    y = layer.norm1(x + layer.self_attn(x, x, x)[0])
    same(layer(x), layer.norm2(y + products(layer, y)))


def test_norms_may_come_first():
    layer, x = layer_of("TransformerEncoderLayer", 8, 2, 16, norm_first=True), values(5, 3, 8)
    y = layer.norm1(x)
    y = x + layer.self_attn(y, y, y)[0]
    same(layer(x), y + products(layer, layer.norm2(y)))


def test_a_decoder_layer_looks_at_the_memory_too():
    layer, x, memory = (layer_of("TransformerDecoderLayer", 8, 2, 16, activation="gelu"),
                        values(4, 3, 8), values(5, 3, 8, seed=1))
    y = layer.norm1(x + layer.self_attn(x, x, x)[0])
    y = layer.norm2(y + layer.multihead_attn(y, memory, memory)[0])
    same(layer(x, memory), layer.norm3(y + products(layer, y)))
    assert layer.activation is F.gelu


def test_the_activation_may_be_any_function():
    layer = layer_of("TransformerEncoderLayer", 8, 2, 16, activation=F.silu)
    assert layer.activation is F.silu
    with pytest.raises(ArgumentError, match="activation 'swish' is not known"):
        nn.TransformerEncoderLayer(8, 2, activation="swish")


def test_positions_that_are_hidden_change_nothing():
    layer, x = layer_of("TransformerEncoderLayer", 8, 2, 16, batch_first=True), values(2, 5, 8)
    other = fw.concat([x[:, :3], x[:, 3:] * 2 + 1], axis=1)
    padding = fw.tensor([[False] * 3 + [True] * 2] * 2)
    same(layer(x, src_key_padding_mask=padding)[:, :3],
         layer(other, src_key_padding_mask=padding)[:, :3])
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    same(layer(x, mask)[:, :3], layer(other, mask, is_causal=True)[:, :3])


def test_the_causal_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=fw.float64)
    inf = float("inf")
    assert mask.tolist() == [[0, -inf, -inf], [0, 0, -inf], [0, 0, 0]]
    assert mask.dtype == fw.float64


# ---- stacks
def test_an_encoder_is_a_stack_of_copies_and_a_norm():
    layer, x = layer_of("TransformerEncoderLayer", 8, 2, 16), values(5, 3, 8)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8)).eval()
    same(encoder(x), encoder.norm(encoder.layers[1](encoder.layers[0](x))))
    assert len({id(p) for p in encoder.parameters()} | {id(p) for p in layer.parameters()}) == 38
    for name, p in layer.named_parameters():
        for n in range(2):
            assert_array_equal(p.detach().numpy(), dict(encoder.named_parameters())[
                f"layers.{n}.{name}"].detach().numpy())


def test_a_transformer_is_an_encoder_and_a_decoder():
    model = layer_of("Transformer", 8, 2, 1, 2, 16, batch_first=True)
    src, tgt = values(3, 5, 8), values(3, 4, 8, seed=1)
    mask = model.generate_square_subsequent_mask(4)
    padding = fw.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 5])
    memory = model.encoder(src, src_key_padding_mask=padding)
    expected = model.decoder(tgt, memory, tgt_mask=mask, memory_key_padding_mask=padding)
    same(model(src, tgt, tgt_mask=mask, src_key_padding_mask=padding,
               memory_key_padding_mask=padding), expected)
    same(model(src[0], tgt[0]), model(src, tgt)[0])


def test_parts_of_a_transformer_may_be_given():
    class Nothing(nn.Module):
        def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
            return src

    model = layer_of("Transformer", 8, 2, 1, 1, 16, custom_encoder=Nothing())
    src, tgt = values(5, 3, 8), values(4, 3, 8)
    same(model(src, tgt), model.decoder(tgt, src))


def test_weights_start_evenly_after_glorot():
    model = layer_of("Transformer", 64, 4, 1, 1, 128)
    for name, p in model.named_parameters():
        if p.ndim > 1:
            bound = (6 / sum(p.shape)) ** 0.5
            assert 0.95 * bound < abs(p.detach().numpy()).max() <= bound, name


def test_without_biases():
    names = [n for n, _ in layer_of("Transformer", 8, 2, 1, 1, 16, bias=False).named_parameters()]
    assert not [n for n in names if "bias" in n]


# ---- training
def test_compiled_training_is_eager_training():
    def trained(compiled):
        fw.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)  # with dropout
        optimizer = fw.optim.AdamW(layer.parameters(), lr=0.01)
        mask = nn.Transformer.generate_square_subsequent_mask(5)

        def step(x):
            loss = (layer(x, mask) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = fw.compile(step) if compiled else step
        return [run(values(2, 5, 8, seed=n)).item() for n in range(4)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of it runs eagerly
        assert_allclose(trained(True), trained(False), rtol=1e-4)


# ---- errors
def test_errors_name_the_layer_and_the_shapes():
    model = nn.Transformer(8, 2, 2, 1, 16)
    with pytest.raises(ShapeError, match=r"with d_model 8, .*, got \(5, 3, 8\) and \(4, 3, 6\)"):
        model(values(5, 3, 8), values(4, 3, 6))
    with pytest.raises(ShapeError, match=r"got \(5, 3, 8\) and \(4, 2, 8\)"):
        model(values(5, 3, 8), values(4, 2, 8))
    with pytest.raises(ShapeError, match=r"in layer: encoder.layers.0.self_attn \(Multihead"):
        model(values(5, 3, 8), values(4, 3, 8), src_mask=fw.zeros(4, 4))
