"""Vectors looked up by numbers: rows, bags of rows, and which of them get a gradient."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fusewire as fw
from fusewire.eager import nn
from fusewire.eager.errors import ArgumentError, DTypeError, IndexingError, ShapeError

F = nn.functional


def table(rows=5, dim=3, requires_grad=True):
    values = np.random.default_rng(0).standard_normal((rows, dim))
    return fw.tensor(values, requires_grad=requires_grad)


def gradient(weight, out):
    """Of the sum of everything in `out`."""
    return fw.grad(out.sum(), weight)[0].numpy()


# ---- rows
def test_embedding_gives_the_rows_named():
    layer, i = nn.Embedding(5, 3), fw.tensor([[0, 4], [2, 2]])
    assert_array_equal(layer(i).detach().numpy(), layer.weight.detach().numpy()[i.numpy()])
    assert layer(fw.tensor(3)).shape == (3,)


def test_a_row_that_is_named_twice_gets_both_gradients():
    weight = table()
    assert_array_equal(gradient(weight, F.embedding(fw.tensor([1, 1, 4]), weight))[:, 0],
                       [0, 2, 0, 0, 1])


def test_the_padding_row_is_zero_and_gets_no_gradient():
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert layer.padding_idx == 4
    assert not layer.weight[4].numpy().any()
    layer(fw.tensor([4, 0])).sum().backward()
    assert_array_equal(layer.weight.grad.numpy()[:, 0], [1, 0, 0, 0, 0])


def test_gradients_divided_by_how_often_a_row_is_named():
    weight = table()
    out = F.embedding(fw.tensor([1, 1, 1, 4]), weight, scale_grad_by_freq=True)
    assert_allclose(gradient(weight, out)[:, 0], [0, 1, 0, 0, 1])


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_max_norm_shortens_the_rows_in_use_in_the_weight_itself(norm_type):
    layer = nn.Embedding(6, 4, max_norm=0.5, norm_type=norm_type)
    before = layer.weight.detach().numpy().copy()
    out = layer(fw.tensor([3, 0, 3])).detach().numpy()
    after = layer.weight.detach().numpy()
    rounding = 1e-6
    assert (np.linalg.norm(out, norm_type, axis=1) <= 0.5 + rounding).all()
    assert_array_equal(out, after[[3, 0, 3]])
    assert_array_equal(after[[1, 2, 4, 5]], before[[1, 2, 4, 5]])


def test_max_norm_of_a_weight_that_was_computed_keeps_its_gradient():
    leaf = table()
    weight = leaf * 2
    F.embedding(fw.tensor([1]), weight, max_norm=0.1).sum().backward()
    assert_array_equal(leaf.grad.numpy()[:, 0], [0, 2, 0, 0, 0])


def test_from_pretrained_is_frozen_unless_told_otherwise():
    values = table(requires_grad=False)
    assert not nn.Embedding.from_pretrained(values).weight.requires_grad
    assert nn.Embedding.from_pretrained(values, freeze=False).weight.requires_grad
    bag = nn.EmbeddingBag.from_pretrained(values, mode="max")
    assert_array_equal(bag(fw.tensor([[0, 1]])).numpy()[0], values.numpy()[:2].max(0))
    assert not bag.weight.requires_grad


def test_sparse_gradients_are_dense():
    layer = nn.Embedding(5, 3, sparse=True)
    layer(fw.tensor([1])).sum().backward()
    assert layer.weight.grad.shape == (5, 3)


# ---- bags
REDUCED = {"sum": np.sum, "mean": np.mean, "max": np.max}


@pytest.mark.parametrize("mode", REDUCED)
def test_bags_of_one_size_are_reduced_over_their_rows(mode):
    weight, i = table(), np.array([[0, 1, 1], [4, 2, 0]])
    out = F.embedding_bag(fw.tensor(i), weight, mode=mode).detach()
    assert_allclose(out.numpy(), REDUCED[mode](weight.detach().numpy()[i], axis=1))


@pytest.mark.parametrize("mode", REDUCED)
def test_bags_that_begin_at_offsets(mode):
    weight, bags = table(), [[0, 1, 1], [], [4, 2]]
    flat, offsets = fw.tensor([i for bag in bags for i in bag]), fw.tensor([0, 3, 3])
    out = F.embedding_bag(flat, weight, offsets, mode=mode)
    rows = weight.detach().numpy()
    expected = [REDUCED[mode](rows[b], axis=0) if b else np.zeros(3) for b in bags]
    assert_allclose(out.detach().numpy(), expected)
    closed = F.embedding_bag(flat, weight, fw.tensor([0, 3, 3, 5]), mode=mode,
                             include_last_offset=True)
    assert_array_equal(closed.detach().numpy(), out.detach().numpy())


@pytest.mark.parametrize("mode", REDUCED)
def test_padding_counts_for_nothing_in_a_bag(mode):
    weight = table()
    out = F.embedding_bag(fw.tensor([[2, 1, 4], [2, 2, 2]]), weight, mode=mode, padding_idx=2)
    rows = weight.detach().numpy()
    assert_allclose(out.detach().numpy(), [REDUCED[mode](rows[[1, 4]], axis=0), np.zeros(3)])
    assert not gradient(weight, out)[2].any()


def test_factors_of_single_rows_have_gradients_too():
    weight, factors = table(), fw.tensor([[2.0, -1.0]], requires_grad=True)
    out = F.embedding_bag(fw.tensor([[0, 3]]), weight, mode="sum", per_sample_weights=factors)
    rows = weight.detach().numpy()
    assert_allclose(out.detach().numpy(), [2 * rows[0] - rows[3]], rtol=1e-6)
    assert_allclose(gradient(factors, out), [rows[[0, 3]].sum(1)], rtol=1e-6)


@pytest.mark.parametrize("mode", REDUCED)
def test_derivatives_of_bags_agree_with_differences(mode):
    i, offsets = fw.tensor([0, 1, 1, 4, 2]), fw.tensor([0, 3])

    def bags(weight):
        return F.embedding_bag(i, weight, offsets, mode=mode, padding_idx=4) ** 2

    assert fw.autograd.gradcheck(bags, table())
    assert fw.autograd.gradgradcheck(bags, table())


def test_bags_without_anything():
    weight = table()
    assert F.embedding_bag(fw.zeros(2, 0, dtype=fw.int64), weight, mode="max").tolist() == \
        [[0.0] * 3] * 2
    assert F.embedding_bag(fw.zeros(0, dtype=fw.int64), weight,
                           fw.zeros(0, dtype=fw.int64)).shape == (0, 3)


# ---- compiled
def test_compiled_lookup_checks_its_indices():
    layer = nn.Embedding(5, 3, padding_idx=0)
    step = fw.compile(lambda i: layer(i).detach() * 2)
    for i in ([1, 2], [0, 4], [3, 3]):
        assert_array_equal(step(fw.tensor(i)).numpy(),
                           layer.weight.detach().numpy()[i] * 2)
    with pytest.raises(IndexError, match="5"):
        step(fw.tensor([0, 5]))


# ---- errors
@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda w: F.embedding(fw.tensor([1, 5]), w), IndexingError,
     r"embedding: index 5 is out of range .* 5\n.*\n  help: .* 0 to 4; is the vocabulary larger"),
    (lambda w: F.embedding(fw.tensor([-1]), w), IndexingError, "embedding: index -1"),
    (lambda w: F.embedding(fw.tensor([1.0]), w), DTypeError, "must be integers, not float32"),
    (lambda w: F.embedding(w, fw.tensor([1])), ShapeError, r"must be \(rows, dim\), got shape"),
    (lambda w: F.embedding(fw.tensor([1]), w, padding_idx=5), ArgumentError,
     "padding_idx 5 is none of the 5 rows"),
    (lambda w: nn.Embedding(3, 2, padding_idx=-4), ArgumentError, "it goes from -3 to 2"),
    (lambda w: nn.Embedding(3, 2, _weight=w), ShapeError, r"\(5, 3\) is not .* = \(3, 2\)"),
    (lambda w: nn.Embedding.from_pretrained(w[0]), ShapeError, r"are \(rows, dim\), got shape"),
    (lambda w: F.embedding_bag(fw.tensor([1]), w), ShapeError, "with offsets"),
    (lambda w: F.embedding_bag(fw.tensor([1, 2]), w, fw.tensor([1])), IndexingError,
     "offsets begin with 0"),
    (lambda w: F.embedding_bag(fw.tensor([1, 2]), w, fw.tensor([0, 3])), IndexingError,
     "offset into 2 indices: 3 is out of range"),
    (lambda w: F.embedding_bag(fw.tensor([1, 2]), w, fw.tensor([0, 1]), include_last_offset=True),
     IndexingError, "a last one is the size"),
    (lambda w: F.embedding_bag(fw.tensor([[1]]), w, per_sample_weights=fw.ones(1, 1)),
     ArgumentError, "for mode 'sum', not 'mean'"),
    (lambda w: F.embedding_bag(fw.tensor([[1]]), w, mode="sum", per_sample_weights=fw.ones(2)),
     ShapeError, "differ in shape"),
    (lambda w: F.embedding_bag(fw.tensor([[1]]), w, mode="max", scale_grad_by_freq=True),
     ArgumentError, "mode 'max' has no scale_grad_by_freq"),
    (lambda w: nn.EmbeddingBag(3, 2, mode="min"), ArgumentError, "mode 'min' is not known"),
])
def test_errors_say_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call(table())
