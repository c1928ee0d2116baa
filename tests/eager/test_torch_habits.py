"""Calls as in PyTorch that plain fusewire understands, or answers with what to write instead."""

from __future__ import annotations

import json
import pickle

import pytest

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.eager.front import hints


def test_a_tensor_of_numbers_says_what_to_call():
    for data in ([1, 2], (2, 3), 5, 1.5):
        with pytest.raises(fw.DTypeError, match=r"fw\.tensor takes numbers"):
            fw.Tensor(data)


def test_a_device_that_does_not_exist_is_no_dtype():
    with pytest.raises(fw.DeviceError, match="'mps' is neither a device nor a dtype"):
        fw.ones(2).to("mps")
    assert fw.ones(2).to("float64").dtype == fw.ones(2).to("f8").dtype == fw.float64


def test_groups_are_suggested_only_if_they_fit():
    def hint(weight):
        with pytest.raises(fw.ShapeError) as caught:
            F.conv2d(fw.ones(1, 6, 4, 4), weight)
        return str(caught.value)

    assert "groups=3" not in hint(fw.ones(4, 2, 3, 3))  # 4 filters are no multiple of 3
    assert "groups=3 would fit" in hint(fw.ones(6, 2, 3, 3))


def test_dropout2d_of_two_axes_warns_and_drops_elements():
    with pytest.warns(UserWarning, match="dropout2d: .* single elements"):
        out = F.dropout2d(fw.ones(30, 40))
    assert set(out.flatten().tolist()) == {0.0, 2.0}


def test_the_second_argument_of_diff_is_how_often():
    assert fw.diff(fw.tensor([1, 4, 9, 16]), 2).tolist() == [2, 2]


def test_tensors_have_reduce():
    function, args, state = fw.ones(2).__reduce__()
    x = function(*args)
    x.__setstate__(state)
    assert x.tolist() == [1, 1] == pickle.loads(pickle.dumps(fw.ones(2))).tolist()


def test_the_profiler_is_ours():
    assert hints.suggestion("profiler", "fw") == "use fw.profile"


def test_similarity_along_an_axis_that_is_broadcast():
    """The lengths are those of the broadcast vectors."""
    x, y = fw.rand(1, 2, 3), fw.rand(2, 1, 3)
    a, b = fw.broadcast_arrays(x, y)
    for dim in (0, 1, 2):
        expected = (a * b).sum(axis=dim) / ((a * a).sum(axis=dim) * (b * b).sum(axis=dim)).sqrt()
        assert fw.allclose(F.cosine_similarity(x, y, dim=dim), expected, atol=1e-6)


def test_functions_that_make_tensors_mark_them_for_gradients():
    like = fw.ones(2, 3)
    made = [fw.zeros(2, requires_grad=True), fw.ones(2, requires_grad=True),
            fw.empty(2, requires_grad=True), fw.full((2,), 1.5, requires_grad=True),
            fw.arange(2.0, requires_grad=True), fw.linspace(0, 1, 3, requires_grad=True),
            fw.eye(2, requires_grad=True), fw.rand(2, requires_grad=True),
            fw.randn(2, requires_grad=True), fw.zeros_like(like, requires_grad=True),
            fw.ones_like(like, requires_grad=True), fw.empty_like(like, requires_grad=True),
            fw.full_like(like, 2.0, requires_grad=True), fw.rand_like(like, requires_grad=True),
            fw.randn_like(like, requires_grad=True), fw.tensor([1.0], requires_grad=True)]
    for x in made:
        assert x.is_leaf and x.requires_grad
        (x * x).sum().backward()
        assert fw.allclose(x.grad, 2 * x.detach())
    assert not fw.zeros(2).requires_grad and not fw.rand(2).requires_grad
    with pytest.raises(fw.DTypeError):
        fw.zeros(2, dtype=fw.int64, requires_grad=True)


def test_two_arguments_of_randint_are_the_end_and_the_size():
    fw.manual_seed(0)
    x = fw.randint(5, (200,))
    assert x.shape == (200,) and x.min() == 0 and x.max() == 4


def test_tile_takes_its_numbers_one_by_one():
    assert fw.ones(1, 2).tile(2, 3).shape == fw.ones(1, 2).tile((2, 3)).shape == (2, 6)


def test_the_number_of_elements_is_a_number():
    """A call of it is an error that says what to write; everything else takes it as an int."""
    x = fw.ones(2, 3)
    assert x.size == 6 and isinstance(x.size, int) and json.dumps([x.size]) == "[6]"
    assert fw.zeros(x.size, x.size).shape == (6, 6) and type(fw.zeros(x.size).shape[0]) is int
    assert fw.arange(x.size).reshape(x.size // 2, 2).shape == (3, 2)
    assert pickle.loads(pickle.dumps(x.size)) == 6
    scaled = fw.compile(lambda x, n: x * n / x.size)
    for _ in range(3):
        assert scaled(x, x.size).tolist() == x.tolist()
    assert len(scaled.programs) == 1


def test_functions_that_answer_keywords_are_found_by_pickle():
    """A worker of a loader gets its functions by pickle."""
    for function in (fw.sum, fw.stack, fw.linalg.vector_norm, fw.zeros):
        assert pickle.loads(pickle.dumps(function)) is function
    assert fw.sum is fw.Tensor.sum


def test_lstsq_has_the_limit_of_numpy():
    a = fw.tensor([[1.0, 0.0], [0.0, 1e-3], [0.0, 0.0]])
    b = fw.tensor([1.0, 1.0, 0.0])
    assert fw.allclose(fw.linalg.lstsq(a, b).solution, fw.tensor([1.0, 1000.0]))
    assert fw.allclose(fw.linalg.lstsq(a, b, rcond=1e-2).solution, fw.tensor([1.0, 0.0]))
