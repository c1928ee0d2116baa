"""Layers against formulas in NumPy, modules as trees, and what errors say."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire.eager import nn, optim
from fusewire.eager.errors import DTypeError, IndexingError, ShapeError, StateError

F = nn.functional


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(tensor, expected, rtol=1e-5, atol=1e-6):
    assert_allclose(tensor.detach().numpy(), expected, rtol=rtol, atol=atol)


def small_model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 3), nn.Tanh()))


# ---- layers compute their formulas
def test_linear_is_x_times_the_transposed_weight_plus_bias():
    layer, x = nn.Linear(5, 3), values(2, 4, 5)
    w, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    close(layer(fw.tensor(x)), x @ w.T + b)
    assert nn.Linear(5, 3, bias=False).bias is None


def test_max_pool_takes_the_largest_of_each_window():
    x = values(2, 3, 4, 6)
    close(nn.MaxPool2d(2)(fw.tensor(x)), x.reshape(2, 3, 2, 2, 3, 2).max((3, 5)))
    assert nn.MaxPool2d(3, stride=1, padding=1)(fw.tensor(x)).shape == x.shape


def test_one_hot():
    assert F.one_hot(fw.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert F.one_hot(fw.tensor([[1]]), 2).tolist() == [[[0, 1]]]


# ---- the tree
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.shared = self.first
        self.scale = nn.Parameter(fw.ones(3))
        self.register_buffer("count", fw.zeros(1))
        self.register_buffer("scratch", fw.zeros(1), persistent=False)

    def forward(self, x):
        return self.shared(x) * self.scale


def test_names_of_parts():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias"]
    assert [n for n, _ in net.named_modules()] == ["", "first"]
    assert [n for n, _ in net.named_children()] == ["first"]
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert list(net.state_dict()) == ["scale", "count", "first.weight", "first.bias",
                                      "shared.weight", "shared.bias"]
    assert net.get_submodule("first") is net.first
    assert "scale" in dir(net)


def test_attributes_move_between_tables():
    net = Net()
    net.scale = None
    assert net.scale is None and "scale" not in net.state_dict()
    net.count = fw.ones(1)
    assert net.count.tolist() == [1.0] and "count" in net.state_dict()
    net.first = nn.Identity()
    assert isinstance(net.first, nn.Identity)
    del net.first
    assert not hasattr(net, "first")
    net.later = 5
    net.later = nn.Parameter(fw.ones(1))
    assert "later" in dict(net.named_parameters()) and "later" not in net.__dict__


def test_assignments_that_make_no_sense():
    net = Net()
    with pytest.raises(DTypeError, match=r"'scale' is a Parameter, it cannot be set to Tensor"):
        net.scale = fw.ones(3)
    with pytest.raises(DTypeError, match=r"buffer 'count' takes a tensor or None, not int"):
        net.count = 3
    with pytest.raises(AttributeError, match=r"'Net' object has no attribute 'secnd'"):
        net.secnd  # noqa: B018
    with pytest.raises(StateError, match="no dot"):
        net.register_buffer("a.b", None)

    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before super\(\).__init__\(\)"):
        Early()


def test_train_eval_apply_and_requires_grad():
    model, seen = small_model(), []
    model.eval()
    assert not any(m.training for m in model.modules())
    assert model.train() is model and model[2][0].training
    model.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Tanh", "Sequential", "Sequential"]
    model.requires_grad_(False)
    assert not model(fw.ones(1, 4)).requires_grad


def test_zero_grad_to_none_or_to_zeros():
    layer = nn.Linear(2, 2)
    layer(fw.ones(1, 2)).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0, 0], [0, 0]]
    layer.zero_grad()
    assert layer.weight.grad is None


def test_to_changes_floats_only_and_keeps_the_parameters():
    layer = nn.Linear(2, 2)
    layer.register_buffer("steps", fw.tensor([1]))
    weight = layer.weight
    assert layer.to("cpu").to(fw.float64) is layer
    assert layer.weight is weight and weight.dtype == fw.float64 and weight.is_leaf
    assert layer.steps.dtype == fw.int64
    assert layer.float().weight.dtype == fw.float32
    with pytest.raises(DTypeError, match="no floating point dtype"):
        layer.to("int32")


def test_copies_and_pickles_are_independent():
    model, x = small_model(), fw.ones(2, 4)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        close(other(x), model(x).detach().numpy())
        nn.init.zeros_(other[0].weight)
        assert abs(model[0].weight.detach().numpy()).max() > 0
    net = copy.deepcopy(Net())
    assert net.shared is net.first and isinstance(net.scale, nn.Parameter)


# ---- containers
def test_sequential_by_index_slice_and_name():
    model = nn.Sequential(OrderedDict([("fc", nn.Linear(2, 3)), ("act", nn.ReLU())]))
    assert model.fc is model[0] and model[-1] is model.act and len(model) == 2
    assert list(model[:1].state_dict()) == ["fc.weight", "fc.bias"]
    model[1] = nn.Tanh()
    assert isinstance(model.act, nn.Tanh)
    with pytest.raises(IndexingError, match="index 2 is out of range for a Sequential of 2"):
        model[2]


def test_module_list_grows_and_renumbers():
    layers = nn.ModuleList([nn.Linear(1, 1)]).append(nn.Tanh()).extend([nn.ReLU()])
    layers.insert(1, nn.Identity())
    assert [type(m).__name__ for m in layers] == ["Linear", "Identity", "Tanh", "ReLU"]
    del layers[0]
    assert list(layers._modules) == ["0", "1", "2"] and isinstance(layers[0], nn.Identity)
    assert isinstance(layers[1:], nn.ModuleList) and len(layers[1:]) == 2


def test_repr_shows_the_tree():
    model = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1, bias=False), nn.Sequential(nn.MaxPool2d(2)))
    assert repr(model) == """\
Sequential(
  (0): Conv2d(1, 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
  (1): Sequential(
    (0): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
  )
)"""
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert repr(nn.Parameter(fw.ones(1))).startswith("Parameter containing:\ntensor([1.]")


# ---- state
def test_state_dict_round_trip():
    model, other, x = small_model(), small_model(), fw.ones(2, 4)
    state, before = copy.deepcopy(model.state_dict()), model(x).detach().numpy()
    nn.init.zeros_(model[0].weight)
    assert other.load_state_dict(state) == ([], [])
    close(other(x), before)
    assert other.load_state_dict({k: v.numpy() for k, v in state.items()}) == ([], [])


def test_state_that_does_not_fit_is_listed_and_changes_nothing():
    model = small_model()
    before, state = model.state_dict(), small_model().state_dict()
    state["0.weigth"] = state.pop("0.weight")
    state["2.0.bias"] = fw.ones(5)
    with pytest.raises(StateError) as info:
        model.load_state_dict(state)
    text = str(info.value)
    assert "shape of 2.0.bias: (5,) in the state dict, (3,) in the model" in text
    assert "missing: 0.weight (nearest: 0.weigth)" in text
    assert "unexpected: 0.weigth (nearest: 0.weight)" in text
    for name, value in model.state_dict().items():
        assert np.array_equal(value.numpy(), before[name].numpy())
    del state["2.0.bias"]
    assert model.load_state_dict(state, strict=False) == (["0.weight", "2.0.bias"], ["0.weigth"])


# ---- errors name the layer
def test_wrong_last_size_names_both_sizes_and_the_layer():
    with pytest.raises(ShapeError) as info:
        nn.Sequential(nn.Identity(), nn.Sequential(nn.Linear(4, 8)))(fw.ones(2, 5))
    text = str(info.value)
    assert "input (2, 5) ends in 5, but the weight (8, 4) = (n_out, n_in) takes 4" in text
    assert "in layer: 1.0 (Linear)" in text


def test_forgotten_flatten_is_guessed():
    with pytest.raises(ShapeError, match=r"flatten the input first"):
        nn.Linear(12, 2)(fw.ones(5, 3, 4))


# ---- all together
def test_a_small_network_learns_xor():
    fw.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    x, y = fw.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), fw.tensor([0, 1, 1, 0])
    optimizer, losses = optim.Adam(model.parameters(), lr=0.05), []
    for _ in range(100):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 < losses[0]
    assert model(x).argmax(1).tolist() == y.tolist()


def test_a_small_convolutional_network_learns():
    fw.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(16, 2))
    images = values(16, 1, 4, 4)
    images[8:] += 1
    x, y = fw.tensor(images), fw.tensor([0] * 8 + [1] * 8)
    optimizer, losses = optim.SGD(model.parameters(), lr=0.2, momentum=0.9), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5
