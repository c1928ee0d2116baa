"""`fusewire.torch.Tensor`: PyTorch's meanings, and results that keep the class."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import fusewire as fw
import fusewire.torch as torch
from fusewire.torch import nn

X = [[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]]


@pytest.fixture
def x():
    return torch.tensor(X)


MEANINGS = {  # a program of `x`, and the values that it has in PyTorch
    "max": (lambda x: x.max(1), ([3.0, 6.0], [0, 1])),
    "max of all": (lambda x: x.max(), 6.0),
    "max with a tensor": (lambda x: torch.max(x, torch.full((2, 3), 3.5)).sum(), 25.5),
    "min": (lambda x: torch.min(x, dim=0, keepdim=True), ([[3.0, 1.0, 2.0]], [[0, 0, 0]])),
    "sort": (lambda x: x.sort(dim=1, descending=True)[0], [[3, 2, 1], [6, 5, 4]]),
    "std": (lambda x: x.std(1), [1.0, 1.0]),
    "var without correction": (lambda x: x.var(unbiased=False), 17.5 / 6),
    "median": (lambda x: torch.tensor([4.0, 1.0, 2.0, 3.0]).median(), 2.0),
    "repeat": (lambda x: torch.tensor([1, 2]).repeat(2, 2), [[1, 2, 1, 2], [1, 2, 1, 2]]),
    "repeat_interleave": (lambda x: torch.tensor([1, 2]).repeat_interleave(2), [1, 1, 2, 2]),
    "equal": (lambda x: torch.equal(x, x.clone()), True),
    "nonzero": (lambda x: torch.tensor([0, 3, 0, 4]).nonzero(), [[1], [3]]),
    "size": (lambda x: (x.size(0), x.size(-1), tuple(x.size())), (2, 3, (2, 3))),
    "squeeze of an axis that stays": (lambda x: tuple(x.squeeze(0).shape), (2, 3)),
    "expand": (lambda x: tuple(x[:, :1].expand(-1, 4).shape), (2, 4)),
    "view": (lambda x: x.view(3, -1).size(), (3, 2)),
    "gather": (lambda x: x.gather(1, torch.tensor([[0], [2]])), [[3.0], [5.0]]),
    "unsqueeze": (lambda x: tuple(x.unsqueeze(-1).shape), (2, 3, 1)),
    "masked_fill": (lambda x: x.masked_fill(x > 3, 0.0).sum(), 6.0),
    "clamp": (lambda x: x.clamp(min=2).min(), 2.0),
    "any dim": (lambda x: (x > 5).any(dim=1), [False, True]),
    "new_zeros": (lambda x: tuple(x.new_zeros(2, 4).shape), (2, 4)),
    "split": (lambda x: [tuple(p.shape) for p in x.split(2, dim=1)], [(2, 2), (2, 1)]),
    "topk": (lambda x: x.topk(2)[1], [[0, 2], [1, 2]]),
    "arange": (lambda x: torch.arange(1, 4).tolist(), [1, 2, 3]),
    "meshgrid": (lambda x: tuple(torch.meshgrid(torch.arange(2), torch.arange(3))[0].shape),
                 (2, 3)),
    "0-d tensors are numbers": (lambda x: (x * torch.tensor(2.0, dtype=torch.float64)).dtype.name,
                                "float32"),
    "diff": (lambda x: torch.diff(x, 2), [[3.0], [-3.0]]),
    "T": (lambda x: tuple(torch.zeros(2, 3, 4).T.shape), (4, 3, 2)),
    "where": (lambda x: torch.where(x > 3)[0], [1, 1, 1]),
    "type": (lambda x: x.long().type(), "torch.LongTensor"),
    "index_add_": (lambda x: torch.zeros(3).index_add_(0, torch.tensor([0, 0]), torch.ones(2)),
                   [2.0, 0.0, 0.0]),
}


def plain(value):
    if isinstance(value, fw.Tensor):
        return value.tolist()
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value


@pytest.mark.parametrize("name", MEANINGS)
@pytest.mark.parametrize("compiled", [False, True])
def test_meanings(x, name, compiled):
    program, expected = MEANINGS[name]
    run = torch.compile(program) if compiled else program
    for _ in range(2):
        got = plain(run(x))
    assert np.allclose(got, expected) if name.startswith("var") else got == expected


def test_code_of_fusewire_calls_methods_by_its_own_words(x):
    assert x.max(axis=1).tolist() == [3.0, 6.0]
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert type(x.std(axis=0)) is torch.Tensor


OPERATIONS = [
    lambda x: x + 1, lambda x: 1 - x, lambda x: x @ x.T, lambda x: x[0], lambda x: x[:, 1:],
    lambda x: -x, lambda x: abs(x), lambda x: x > 2, lambda x: x.exp(), lambda x: x.view(-1),
    lambda x: torch.cat([x, x], dim=1), lambda x: x.detach(), lambda x: x.data, lambda x: x.float(),
    lambda x: x.to("cpu"), lambda x: x.sum(), lambda x: torch.einsum("ij->ji", x),
    lambda x: nn.functional.relu(x), lambda x: nn.Linear(3, 2)(x), lambda x: copy.deepcopy(x),
    lambda x: pickle.loads(pickle.dumps(x)), lambda x: x.unbind()[0], lambda x: next(iter(x)),
    lambda x: x.mul_(2), lambda x: torch.linalg.norm(x), lambda x: torch.fft.rfft(x).real,
    lambda x: torch.special.expit(x), lambda x: nn.Parameter(x) * 2,
    lambda x: nn.Sequential(nn.Linear(3, 4), nn.ReLU())[:1](x),
    lambda x: nn.LSTM(3, 2)(x.unsqueeze(0))[1][0],
    lambda x: nn.MultiheadAttention(3, 1)(x, x, x)[0],
    lambda x: torch.func.grad(lambda y: (y * y).sum())(x),
    lambda x: torch.autograd.grad((nn.Parameter(x) * 2).sum(), [nn.Parameter(x)],
                                  allow_unused=True) or x,
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_results_keep_the_class(x, number):
    out = OPERATIONS[number](x)
    out = out[0] if isinstance(out, tuple) and out[0] is not None else out
    assert out == (None,) or type(out) is torch.Tensor


def test_parameters_buffers_and_gradients_have_the_class(x):
    layer = nn.BatchNorm1d(3)
    layer(x).sum().backward()
    assert type(layer.weight) is nn.Parameter and isinstance(layer.weight, torch.Tensor)
    assert type(layer.running_mean) is type(layer.weight.grad) is torch.Tensor
    assert {type(v) for v in layer.state_dict().values()} == {torch.Tensor}


def test_inner_layers_have_the_classes_of_the_front_end():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    inner = list(model.modules())
    assert all(isinstance(m, nn.Module) for m in inner)
    assert sum(isinstance(m, nn.Linear) for m in inner) == 6
    assert all(type(p) is nn.Parameter for p in model.parameters())


def test_plain_tensors_stay_plain():
    x = fw.ones(2)
    assert type(x + 1) is fw.Tensor and type(fw.nn.Linear(2, 1)(x)) is fw.Tensor
    assert not hasattr(x, "unsqueeze")


def test_text(x):
    assert f"{x.sum():.2f}" == "21.00" and f"{x.sum()}" == "21.0"
    assert repr(x.shape) == "torch.Size([2, 3])" and x.shape.numel() == 6
    assert repr(torch.device("cuda", 1)) == "device(type='cuda', index=1)"
    assert torch.device("cpu").type == "cpu" == x.device


def test_constructors():
    assert torch.Tensor([1, 2]).dtype == torch.float32 and torch.Tensor(2, 3).shape == (2, 3)
    assert torch.LongTensor([1.0, 2.0]).tolist() == [1, 2]
    assert isinstance(torch.tensor([1]), torch.LongTensor)
    assert torch.zeros(2, requires_grad=True).is_leaf and torch.rand(size=(2, 3)).shape == (2, 3)


def test_views_share_elements(x):
    x.view(-1)[0] = 9.0
    x[1].add_(1)
    assert x.tolist() == [[9.0, 1.0, 2.0], [5.0, 7.0, 6.0]]


def test_in_place_methods_keep_the_shape(x):
    with pytest.raises(fw.ShapeError, match="does not fit back"):
        x.add_(torch.ones(4, 2, 3))
    y = torch.zeros(2, 3)
    assert torch.add(x, 1, out=y) is y and y[0, 0] == 4


def test_a_wrong_keyword_names_the_right_one(x):
    with pytest.raises(TypeError, match="'keepdimz': is it 'keepdim'"):
        torch.amax(x, 0, keepdimz=True)


def test_functions_of_the_user_with_a_backward(x):
    seen = []

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x ** 3

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            seen.extend([type(x), type(g)])
            return g * 3 * x.pow(2)

    x.requires_grad_()
    Cube.apply(x).sum().backward()
    assert seen == [torch.Tensor, torch.Tensor] and x.grad[0, 0] == 27


def test_optimizers_of_the_user():
    class Descent(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad, alpha=-group["lr"])

    p = nn.Parameter(torch.ones(2))
    (p * p).sum().backward()
    Descent([p], 0.25).step()
    assert p.tolist() == [0.5, 0.5]


def test_nodes_of_the_graph_of_gradients():
    w = torch.ones(3, requires_grad=True)
    loss = (w * torch.tensor([1.0, 2.0, 3.0])).sum()
    assert loss.grad_fn.name() == "SumBackward" and repr(loss.grad_fn) == "<SumBackward>"
    product = loss.grad_fn.next_functions[0][0]
    assert product.name() == "MultiplyBackward"
    (leaf, place), (constant, _) = product.next_functions
    assert leaf.name() == "AccumulateGrad" and leaf.variable is w and place == 0
    assert constant is None and leaf.next_functions == () and w.grad_fn is None
    assert loss.grad_fn == loss.grad_fn


def test_an_index_without_axes_is_a_list_of_one():
    x, at = torch.arange(3.0), torch.tensor(1)
    assert torch.zeros(3).scatter_(0, at, value=1).tolist() == [0, 1, 0]
    assert torch.zeros(3).scatter(0, at, torch.tensor(2.0)).tolist() == [0, 2, 0]
    assert torch.zeros(3).scatter_add(0, at, torch.tensor(2.0)).tolist() == [0, 2, 0]
    assert torch.zeros(3).scatter_reduce(0, at, torch.tensor(2.0), "sum").tolist() == [0, 2, 0]
    assert x.gather(0, at).shape == () and x.gather(0, at).item() == 1
    assert x.index_select(0, at).tolist() == [1]
    assert torch.tensor(5).gather(0, torch.tensor(0)).item() == 5


def items_of_an_index(library):
    return [0, -1, slice(None), slice(1, None), None, Ellipsis, [0, 1], library.tensor([1, 0]),
            library.tensor(1), library.tensor([True, False, True])]


def test_integers_of_an_index_select_before_its_tensors():
    """In NumPy x[0, :, [1, 2]] has the axis of [1, 2] first, in PyTorch last."""
    theirs = pytest.importorskip("torch")
    values = np.arange(81, dtype=np.float32).reshape(3, 3, 3, 3)
    pairs = list(zip(items_of_an_index(torch), items_of_an_index(theirs)))
    for triple in itertools.product(pairs, repeat=3):
        ours, reference = zip(*triple)
        if ours.count(Ellipsis) > 1:
            continue
        a, b = torch.tensor(values), theirs.tensor(values)
        np.testing.assert_array_equal(a[ours].numpy(), b[reference].numpy())
        a[ours], b[reference] = a[ours] * -2, b[reference] * -2
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=repr(reference))


def test_transforms_take_pytorchs_words():
    x, w = torch.tensor(X), torch.ones(3)
    assert torch.func.vmap(torch.dot, in_dims=(0, None))(x, w).tolist() == [6, 15]
    assert torch.vmap(lambda row: row * 2, 1, out_dims=1)(x).tolist() == (x * 2).tolist()
    gradient, value = torch.func.grad_and_value(lambda w: (w * w).sum())(w)
    assert gradient.tolist() == [2, 2, 2] and value.item() == 3


@pytest.mark.parametrize("change", [
    lambda x: x.add_(1.5), lambda x: x.mul_(0.5), lambda x: x.div_(2), lambda x: x.sqrt_(),
    lambda x: x.clamp_(max=0.5)])
def test_a_result_in_place_has_to_fit_the_dtype(change):
    x = torch.tensor([1, 2])
    with pytest.raises(fw.DTypeError, match="_: the result is float32, which does not fit back"):
        change(x)
    assert x.tolist() == [1, 2] and x.add_(True).div_(2, rounding_mode="floor").tolist() == [1, 1]


def test_totals_of_unsigned_integers_are_signed():
    x = torch.tensor([200, 100, 7], dtype=torch.uint8)
    totals = [x.sum(), torch.sum(x), x.sum(dim=0), x.prod(), x.cumsum(0), torch.cumprod(x, 0),
              torch.trace(x.view(1, 3))]
    assert all(total.dtype == torch.int64 for total in totals)
    assert (x.sum() - 1000).item() == -693
    assert x.sum(dtype=torch.int32).dtype == torch.int32
    assert torch.compile(lambda x: x.sum() - 1000)(x).item() == -693
