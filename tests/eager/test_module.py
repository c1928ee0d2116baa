"""Modules as PyTorch has them: parts by name, conversion, containers."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections import OrderedDict
from typing import Any

import pytest
from modules import Block, kinds, message

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import ArgumentError, DeviceError, DTypeError, IndexingError, StateError


# ---- parts by name
def test_parts_by_dotted_name() -> None:
    model = nn.Sequential(Block(), nn.ReLU())
    assert model.get_parameter("0.first.weight") is model[0].first.weight
    assert model.get_buffer("0.steps") is model[0].steps
    with pytest.raises(AttributeError, match=r"'Linear' has no parameter 'wait' \(nearest: weig"):
        model.get_parameter("0.first.wait")
    with pytest.raises(AttributeError, match=r"'Block' has no submodule 'frst' \(nearest: first\)"):
        model.get_submodule("0.frst.weight")
    with pytest.raises(AttributeError, match="'Block' has no buffer 'first'"):
        model.get_buffer("0.first")


def test_set_submodule() -> None:
    model = nn.Sequential(Block(), nn.ReLU())
    model.set_submodule("0.first", nn.Identity())
    model.set_submodule("0.third", nn.Tanh())
    assert [n for n, _ in model[0].named_children()] == ["first", "second", "third"]
    assert isinstance(model[0].first, nn.Identity)
    with pytest.raises(AttributeError, match="no submodule 'fourth'"):
        model.set_submodule("0.fourth", nn.Tanh(), strict=True)
    with pytest.raises(AttributeError, match="no submodule 'steps'"):
        model.set_submodule("0.steps", nn.Tanh())
    with pytest.raises(ArgumentError, match="cannot be replaced"):
        model.set_submodule("", nn.Tanh())
    with pytest.raises(DTypeError, match=r"not a list of them[\s\S]*nn.Sequential\(\*layers\)"):
        nn.Sequential([nn.ReLU()])
    with pytest.raises(DTypeError, match="cannot register int as module 'first'"):
        model.set_submodule("0.first", 3)  # type: ignore[arg-type]


def test_names_that_are_taken() -> None:
    block = Block()
    block.register_module("third", nn.ReLU())
    for register in (block.register_buffer, block.register_parameter, block.register_module):
        assert message(lambda register=register: register("forward", None)) == (
            "attribute 'forward' of Block already exists\n"
            "  help: choose another name, or delete the attribute first")
    block.register_buffer("steps", None)  # one that is there may be set anew
    with pytest.raises(StateError, match="hold no dot"):
        block.add_module("a.b", nn.ReLU())


def test_every_walk_takes_the_arguments_of_pytorch() -> None:
    relu = nn.ReLU()
    model = nn.Sequential(relu, relu)
    assert len(list(model.modules())) == 2 and len(list(model.modules(remove_duplicate=False))) == 3
    seen = {relu}
    assert [n for n, _ in model.named_modules(seen, prefix="m")] == ["m"]
    assert list(dict(Block().named_parameters("p", recurse=False))) == []
    assert list(dict(Block().named_buffers("b"))) == ["b.steps", "b.scratch"]


# ---- modes
def test_train_is_called_on_every_module() -> None:
    """A module that stays frozen says so in its own `train`."""
    class Frozen(nn.Sequential):
        def train(self, mode: bool = True) -> Any:
            return super().train(False)

    model = nn.Sequential(Frozen(nn.Dropout()), nn.Dropout()).train()
    assert [m.training for m in model.modules()] == [True, False, False, True]
    with pytest.raises(ArgumentError, match="mode is True or False, not 1"):
        model.train(1)  # type: ignore[arg-type]


# ---- dtypes and devices
@pytest.mark.parametrize("name", ["half", "bfloat16", "float", "double"])
def test_floats_in_another_dtype(name: str) -> None:
    model = nn.Linear(2, 1)
    model.register_buffer("steps", fw.tensor(0))
    model.register_buffer("wave", fw.tensor([1j]))
    model(fw.ones(1, 2)).sum().backward()
    weight = model.weight
    assert getattr(model, name)() is model and model.weight is weight
    dtype = {"half": "float16", "float": "float32", "double": "float64"}.get(name, name)
    assert kinds(model) == f"{dtype} {dtype} int64 complex64"
    assert weight.grad is not None and weight.grad.dtype.name == dtype


@pytest.mark.parametrize(("args", "kwargs", "dtype"), [
    ((), {}, "float32"), (("cpu",), {}, "float32"), ((fw.float64,), {}, "float64"),
    (("cpu", fw.float16), {}, "float16"), (("cpu", "float64", True), {}, "float64"),
    ((None, fw.float64), {}, "float64"), ((fw.float64, False), {}, "float64"),
    ((), {"dtype": fw.bfloat16, "device": "cpu", "non_blocking": True}, "bfloat16"),
    ((fw.ones(1, dtype=fw.float64),), {}, "float64"), (("cpu", None, False), {}, "float32"),
    ((), {"tensor": fw.ones(1, dtype=fw.float64), "memory_format": None}, "float64"),
], ids=repr)
def test_every_way_of_calling_to(args: Any, kwargs: Any, dtype: str) -> None:
    model = nn.Linear(1, 1)
    assert model.to(*args, **kwargs) is model and model.weight.dtype.name == dtype


def test_to_refuses() -> None:
    model = nn.Linear(1, 1)
    for device in (lambda: model.cuda(), lambda: model.to("cuda:1"), lambda: model.to(1),
                   lambda: model.to_empty(device="meta"), lambda: model.cuda(1)):
        with pytest.raises(DeviceError, match="is not available"):
            device()
    assert message(lambda: model.to(fw.int8)).startswith("Linear.to: int8 is no floating point")
    assert "got ('cpu',) too" in message(lambda: model.to("cpu", fw.float64, "cpu"))


def test_type_and_to_empty() -> None:
    model = nn.Linear(1, 1, bias=False)
    model.register_buffer("steps", fw.tensor(3))
    assert kinds(model.type(fw.float64)) == "float64 float64"
    assert model.to_empty(device="cpu").weight.tolist() == [[0]] and model.cpu() is model


# ---- containers
def test_sequential_arithmetic() -> None:
    """The same modules again, not copies: `*` shares weights."""
    s = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    twice = s * 2
    assert len(twice) == 4 and twice[2] is s[0] and len(s) == 2
    assert [type(m).__name__ for m in s + nn.Sequential(nn.Tanh())] == ["Linear", "ReLU", "Tanh"]
    s += nn.Sequential(nn.Tanh())
    s *= 2
    assert len(s) == 6 and [*s.state_dict()] == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert isinstance(s.pop(1), nn.ReLU) and [*s._modules] == [*"01234"]
    assert s.insert(-1, nn.GELU()) is s and isinstance(s[4], nn.GELU)
    with pytest.raises(IndexingError, match="index 9 is out of range for a Sequential of 6"):
        s.insert(9, nn.ReLU())
    with pytest.raises(ArgumentError, match="at least 1"):
        s * 0
    with pytest.raises(DTypeError, match="takes a module, not int"):
        s.insert(0, 3)  # type: ignore[arg-type]


def test_equal_neighbours_are_one_entry_of_a_list() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)] + [nn.ModuleList([nn.ReLU()] * 2)])
    assert repr(nn.Sequential(layers)) == """\
Sequential(
  (0): ModuleList(
    (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    (3): ModuleList(
      (0-1): 2 x ReLU()
    )
  )
)"""
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_module_list_is_a_list() -> None:
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    assert [type(m).__name__ for m in layers + [nn.GELU()]] == ["ReLU", "Tanh", "GELU"]
    layers += [nn.GELU()]
    layers.extend(layers)
    assert len(layers) == 6 and len(layers.pop(slice(0, 2))) == 2 and len(layers) == 4
    layers[-1] = nn.Identity()
    assert isinstance(layers[3], nn.Identity) and nn.ReLU() not in layers and layers[0] in layers
    with pytest.raises(DTypeError, match=r"extend: takes a list or another iterable, not ReLU"):
        layers.extend(nn.ReLU())  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="ModuleList does not define forward"):
        layers(fw.ones(1))


def test_module_dict() -> None:
    heads = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    heads["c"] = nn.GELU()
    heads.update([("a", nn.Identity())])
    assert [*heads] == [*heads.keys()] == ["a", "b", "c"] and "c" in heads and len(heads) == 3
    assert isinstance(heads.pop("a"), nn.Identity) and [*dict(heads.items())] == ["b", "c"]
    assert message(lambda: heads["a"]) == (
        "ModuleDict has no module 'a'\n  help: it has ['b', 'c']")
    assert "element 0 is ReLU, not a pair" in message(lambda: heads.update([nn.ReLU()]))
    assert "attribute 'type' of ModuleDict already exists" in message(
        lambda: heads.update({"type": nn.ReLU()}))
    del heads["b"]
    heads.clear()
    assert repr(heads) == "ModuleDict()" and list(heads.values()) == []


def test_parameter_list() -> None:
    p = nn.ParameterList([fw.ones(2, 3), nn.Parameter(fw.zeros(1))])
    p += [fw.ones(1)]
    p.append("note")
    assert [type(x).__name__ for x in p] == ["Parameter"] * 3 + ["str"] and p[-1] == "note"
    p[0] = fw.ones(4)
    assert [*dict(p.named_parameters())] == ["0", "1", "2"] and p[0].shape == (4,)
    assert repr(p[1:]) == """\
ParameterList(
    (0): Parameter containing: [float32 of size 1]
    (1): Parameter containing: [float32 of size 1]
    (2): Object of type: str
)"""
    with pytest.raises(IndexingError, match="index 4 is out of range for a ParameterList of 4"):
        p[4]
    with pytest.raises(DTypeError, match="takes a list or another iterable, not Tensor"):
        p.extend(fw.ones(2))


def test_parameter_dict() -> None:
    """A plain dict is taken in the order of its names, as by PyTorch: optimizers count on it."""
    p = nn.ParameterDict({"w": fw.ones(2), "b": nn.Parameter(fw.zeros(1))})
    assert [*p] == ["b", "w"] and [*reversed(p)] == ["w", "b"]
    assert [*nn.ParameterDict(OrderedDict(w=fw.ones(2), b=fw.ones(1)))] == ["w", "b"]
    assert p.setdefault("c", fw.ones(1)) is p["c"] and p.get("d") is None
    merged = p | {"a": fw.ones(1)}
    assert [*merged] == ["b", "w", "c", "a"] and [*({"z": 1} | p)] == ["z", "b", "w", "c"]
    p |= {"e": fw.ones(1)}
    assert p.popitem()[0] == "e" and p.pop("c").shape == (1,) and len(p) == 2 and "c" not in p
    assert [*p.fromkeys(["x", "y"], fw.ones(1)).state_dict()] == ["x", "y"]
    assert message(lambda: p["q"]) == (
        "ParameterDict has no parameter 'q'\n  help: it has ['b', 'w']")
    q = p.copy()
    p.clear()
    assert [*dict(q.items())] == ["b", "w"] and list(p.values()) == list(p.parameters()) == []


# ---- copies
def test_pickles_copies_and_older_states() -> None:
    model = nn.ModuleDict({"a": nn.ParameterList([fw.ones(1)]), "b": nn.ModuleList([Block()])})
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(1, 1))))):
        assert other.state_dict().keys()
    copied = copy.deepcopy(model)
    fw.nn.init.zeros_(copied["a"][0])
    assert model["a"][0].item() == 1
    made = nn.Linear.__new__(nn.Linear)
    made.__setstate__(nn.Linear(2, 1).__dict__)
    assert made(fw.ones(1, 2)).shape == (1, 1)


def test_parameters_without_values() -> None:
    assert nn.Parameter().shape == nn.Buffer().shape == (0,)
    block = Block()
    assert "scratch" not in block.state_dict() and isinstance(block.scratch, nn.Buffer)
    block.later = None
    block.later = nn.Buffer(fw.ones(1))
    assert "later" in block.state_dict() and "later" not in vars(block)


def test_compile_in_place() -> None:
    model = nn.Linear(2, 1)
    model.compile()
    x = fw.ones(1, 2)
    with fw.no_grad():
        assert model(x).tolist() == model(x).tolist() == nn.functional.linear(
            x, model.weight, model.bias).tolist()
    assert model.forward.stats.recordings == 1


def test_submodules_are_the_same_by_either_name() -> None:
    """`from fusewire.nn.parameter import Parameter` gives the class that modules register."""
    for name, home, of in (("nn.parameter", "nn.base.parameter", "Parameter"),
                           ("nn.init", "nn.base.init", "zeros_"),
                           ("nn.utils.rnn", "nn.recurrent.packed_sequence", "pad_sequence"),
                           ("nn.utils.parametrize", "nn.utils.parametrize", "cached"),
                           ("optim.optimizer", "optim.base.optimizer", "Optimizer"),
                           ("optim.sgd", "optim.sgd", "SGD")):
        module = importlib.import_module(f"fusewire.{name}")
        assert module is importlib.import_module(f"fusewire.eager.{home}") and hasattr(module, of)
