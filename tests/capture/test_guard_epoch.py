"""The fast path of a call skips what nothing was written to: every write must be seen."""

import sys

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT

needs_layout = pytest.mark.skipif(LAYOUT is None, reason="objects are read by Python alone here")


class Scaled(nn.Module):
    offset = 0.0

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.scale, self.factors = 2.0, [1.0, 3.0]
        self.register_buffer("shift", fw.ones(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = x * 0 if self.training else x
        return x * self.scale + self.shift * self.factors[1] + self.offset


class Doubled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


def warm(call, times=5):
    """Calls often enough for the fast path to be made."""
    for _ in range(times):
        call()


def programs(function):
    return function.programs


def set_attribute(m):
    m.scale = 5.0


def delete_attribute(m):
    del m.shift
    m.shift = fw.zeros(3)


def write_dict(m):
    m.__dict__["scale"] = 7.0


def update_dict(m):
    vars(m).update(scale=8.0)


def exchange_dict(m):
    m.__dict__ = {**m.__dict__, "scale": 9.0}


def replace_parameter(m):
    m.layers[0].weight = nn.Parameter(fw.eye(3))


def write_parameters(m):
    m.layers[0]._parameters["weight"] = nn.Parameter(fw.eye(3))


def register_parameter(m):
    m.layers[1].register_parameter("bias", None)


def register_buffer(m):
    m.register_buffer("shift", fw.full((3,), 4.0))


def write_data(m):
    m.layers[0].weight._data = np.eye(3, dtype=np.float32)


def load(m):
    m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()})


def train(m):
    m.train()


def freeze(m):
    m.requires_grad_(False)


def widen(m):
    m.to(fw.float64)


def share(m):
    m.layers[1].weight = m.layers[0].weight


def tie_arrays(m):
    m.layers[1].weight._data = m.layers[0].weight._data


def hook(m):
    m.layers[0].register_forward_hook(lambda module, args, out: out * 3)


def replace_child(m):
    m.layers[0] = Doubled(3, 3)


def append_child(m):
    m.layers.append(nn.Linear(3, 3))


def replace_modules(m):
    m._modules["layers"] = nn.ModuleList([nn.Linear(3, 3)])


def set_class_attribute(m):
    type(m).offset = 11.0


def set_method(m):
    type(m.layers[0]).forward = lambda self, x: x * 13


def exchange_class(m):
    m.layers[0].__class__ = Doubled


def write_list(m):
    m.factors[1] = 17.0


def grow_list(m):
    m.factors.insert(0, 19.0)




CHANGES = [set_attribute, delete_attribute, write_dict, update_dict, exchange_dict,
           replace_parameter, write_parameters, register_parameter, register_buffer, write_data,
           load, train, freeze, widen, share, tie_arrays, hook, replace_child, append_child,
           replace_modules, set_class_attribute, exchange_class, write_list, grow_list]


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(Scaled, "offset", 0.0)
    made = Scaled()
    made.eval()
    return made


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("by", ["argument", "closure", "method"])
def test_every_way_to_change_a_module_is_seen(model, change, by):
    compiled = {"argument": fw.compile(lambda m, x: m(x)), "method": fw.compile(model.forward),
                "closure": fw.compile(lambda x: model(x))}[by]
    args = (model,) if by == "argument" else ()
    x = fw.arange(3).astype(fw.float32)
    with fw.no_grad():
        warm(lambda: compiled(*args, x))
        change(model)
        for _ in range(3):
            assert np.allclose(compiled(*args, x).numpy(), model(x).numpy(), 1e-5, 1e-6)


@needs_layout
def test_the_fast_path_is_taken(model):
    compiled = fw.compile(model.forward)
    with fw.no_grad():
        warm(lambda: compiled(fw.ones(3)))
        assert programs(compiled)[0].direct((fw.ones(3),), {}).shape == (3,)


@needs_layout
@pytest.mark.parametrize("args, kwargs", [
    ((fw.ones(4),), {}), ((fw.ones(3, dtype=fw.float64),), {}), ((fw.ones((1, 3)),), {}),
    ((), {}), ((fw.ones(3), 1), {}), ((fw.ones(3),), {"y": 1}), ((np.ones(3),), {}), ((None,), {}),
    ((fw.ones(3).requires_grad_(),), {}), ((nn.Parameter(fw.ones(3)),), {}),
])
def test_another_argument_does_not_fit(args, kwargs):
    compiled = fw.compile(lambda x: x * 2)
    warm(lambda: compiled(fw.ones(3)))
    (program,) = programs(compiled)
    assert not program.fits(args, kwargs)
    assert type(program.direct(args, kwargs)) is object


SCALE = 2.0


def test_a_global_that_changes_is_seen(monkeypatch):
    compiled = fw.compile(lambda x: x * SCALE)
    warm(lambda: compiled(fw.ones(2)))
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)
    assert compiled(fw.ones(2)).tolist() == [3.0, 3.0]


def test_a_closure_that_changes_is_seen():
    scale = 2.0

    def rebind():
        nonlocal scale
        scale = 3.0

    compiled = fw.compile(lambda x: x * scale)
    warm(lambda: compiled(fw.ones(2)))
    rebind()
    assert compiled(fw.ones(2)).tolist() == [3.0, 3.0]


def test_defaults_that_change_are_seen():
    def scaled(x, scale=2.0):
        return x * scale

    compiled = fw.compile(scaled)
    warm(lambda: compiled(fw.ones(2)))
    scaled.__defaults__ = (3.0,)
    assert compiled(fw.ones(2)).tolist() == [3.0, 3.0]


def test_grad_mode_and_autocast_are_seen():
    weight = fw.ones(2).requires_grad_()
    compiled = fw.compile(lambda x: x * weight)
    with fw.no_grad():
        warm(lambda: compiled(fw.ones(2)))
    assert compiled(fw.ones(2)).requires_grad


def test_slots_and_properties_are_read_in_each_call():
    class Config:
        __slots__ = ("scale",)

        @property
        def twice(self):
            return self.scale * 2

    config = Config()
    config.scale = 1.0
    compiled = fw.compile(lambda x: x * config.scale + config.twice)
    warm(lambda: compiled(fw.ones(1)))
    config.scale = 5.0
    assert compiled(fw.ones(1)).tolist() == [15.0]


def test_a_model_in_training_keeps_its_fast_path():
    model = nn.Linear(2, 1)
    optimizer = fw.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    twin = nn.Linear(2, 1)
    twin.load_state_dict(model.state_dict())
    other = fw.optim.SGD(twin.parameters(), lr=0.1)
    compiled = fw.compile(step)
    for _ in range(8):
        compiled(fw.ones((4, 2)))
        other.zero_grad()
        (twin(fw.ones((4, 2))) ** 2).mean().backward()
        other.step()
    assert np.allclose(model.weight.numpy(), twin.weight.numpy(), rtol=1e-4)


def test_a_value_that_somebody_holds_is_not_written_over():
    class Counter:
        def __init__(self):
            self.value = fw.zeros(3)

        def add(self, x):
            self.value += x

    counter = Counter()
    compiled = fw.compile(counter.add)
    warm(lambda: compiled(fw.ones(3)))
    kept = fw.tensor(counter.value)
    compiled(fw.ones(3))
    assert kept.tolist() == [5.0] * 3 and counter.value.tolist() == [6.0] * 3


_NOT_TWICE = (widen, append_child, replace_modules, delete_attribute)


@needs_layout
def test_what_is_skipped_holds_where_python_looks_at_it_all(model):
    """After each of many changes, a call that the fast path takes fits by all guards."""
    compiled = fw.compile(lambda m, x: m(x))
    x = fw.ones(3)
    with fw.no_grad():
        for change in [c for c in CHANGES if c not in _NOT_TWICE] * 2:
            warm(lambda: compiled(model, x), 3)
            change(model)
            for program in programs(compiled):
                took = type(program.direct((model, x), {})) is not object
                assert program.fits((model, x), {}) or not took


@needs_layout
def test_a_step_that_returns_the_loss_it_went_back_from() -> None:
    layer = nn.Linear(3, 1)

    @fw.compile
    def step(x: fw.Tensor) -> fw.Tensor:
        layer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        return loss

    x = fw.ones(2, 3)
    for _ in range(4):
        loss = step(x)
    made = programs(step)[0].direct((x,), {})
    for each in (loss, made):  # the long way and the short one
        assert each.requires_grad
        with pytest.raises(fw.GradientError, match="freed by an earlier backward"):
            each.backward()


def in_a_list():
    factors = [1.0, 3.0]
    return lambda x: x * factors[1], lambda value: factors.__setitem__(1, value)


def in_a_closure():
    factor = 3.0

    def put(value):
        nonlocal factor
        factor = value

    return lambda x: x * factor, put


@pytest.mark.parametrize("make", [in_a_list, in_a_closure])
def test_a_number_that_lies_where_an_older_one_lay(make):
    """The number that the fast path knows is equal to the one that was recorded, but another
    object; when it is gone, numbers come to lie where it did."""
    function, put = make()
    compiled, x = fw.compile(function, dynamic=False), fw.ones(2)
    compiled(x)
    put(float("3"))
    warm(lambda: compiled(x))
    put(None)
    for number in [float(n) for n in range(4, 50)]:
        put(number)
        took = programs(compiled)[0].direct((x,), {})
        assert not isinstance(took, fw.Tensor) or took.tolist() == [number] * 2
