"""The state of modules: what is saved, what is loaded, hooks around both, what errors say."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from modules import Block, kinds, message

import fusewire as fw
from fusewire import nn


# ---- saving state
def test_state_dict_arguments() -> None:
    block = Block()
    assert list(block.state_dict(prefix="m.")) == [
        "m.steps", "m.first.weight", "m.first.bias", "m.second.weight"]
    state: dict[str, Any] = {"other": 1}
    assert block.state_dict(destination=state) is state and len(state) == 5
    assert block.state_dict(keep_vars=True)["first.weight"] is block.first.weight
    assert not block.state_dict()["first.weight"].requires_grad


class Counted(nn.Module):
    """Keeps a Python number in the state."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.count = nn.Linear(1, 1), 0

    def get_extra_state(self) -> Any:
        return {"count": self.count}

    def set_extra_state(self, state: Any) -> None:
        self.count = state["count"]


def test_extra_state() -> None:
    model, other = nn.Sequential(Counted()), nn.Sequential(Counted())
    model[0].count = 7
    state = model.state_dict()
    assert state["0._extra_state"] == {"count": 7}
    assert other.load_state_dict(state) == ([], []) and other[0].count == 7
    del state["0._extra_state"]
    assert "missing: 0._extra_state" in message(lambda: other.load_state_dict(state))
    plain = nn.Sequential(nn.Linear(1, 1))
    assert "unexpected: 0._extra_state" in message(
        lambda: plain.load_state_dict({**plain.state_dict(), "0._extra_state": 1}))


def test_hooks_around_the_state() -> None:
    model, other, seen = nn.Sequential(Block()), nn.Sequential(Block()), []
    model[0].register_state_dict_pre_hook(lambda *args: seen.append(args))
    model[0].register_state_dict_post_hook(
        lambda module, state, prefix, metadata: state.pop(f"{prefix}steps"))
    handle = other[0].register_load_state_dict_pre_hook(
        lambda module, state, prefix, *_: state.setdefault(f"{prefix}steps", fw.tensor(5)))
    other.register_load_state_dict_post_hook(lambda module, names: seen.append(names))
    state = model.state_dict()
    assert seen == [(model[0], "0.", False)] and "0.steps" not in state
    assert other.load_state_dict(state) == ([], []) and other[0].steps.item() == 5
    assert seen[1] == ([], []) and "0.steps" not in state  # the dict given is not changed
    handle.remove()
    assert other.load_state_dict(state, strict=False) == (["0.steps"], [])


def test_a_post_hook_may_forgive() -> None:
    model = Block()
    model.register_load_state_dict_post_hook(lambda module, names: names.missing_keys.clear())
    assert model.load_state_dict({}) == ([], [])


def test_a_class_may_read_older_names() -> None:
    class Renamed(nn.Linear):
        def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
            if prefix + "kernel" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")
            super()._load_from_state_dict(state_dict, prefix, *args)

    model = nn.Sequential(Renamed(2, 1, bias=False))
    assert model.load_state_dict({"0.kernel": fw.ones(1, 2)}) == ([], [])
    assert model[0].weight.tolist() == [[1, 1]]


def test_versions_of_classes() -> None:
    """A class may count the versions of its state; a dict of tensors alone has none."""
    class Second(nn.Linear):
        _version = 2

        def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any,
                                  *args: Any) -> None:
            seen.append(local_metadata.get("version"))
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    seen: list[Any] = []
    model = nn.Sequential(Second(1, 1))
    state: Any = model.state_dict()
    assert state._metadata == {"": {"version": 1}, "0": {"version": 2}}
    model.load_state_dict(state)
    model.load_state_dict(dict(state))
    assert seen == [2, None]


# ---- loading state
def test_values_are_cast_and_arrays_are_taken() -> None:
    model = nn.Linear(2, 1)
    model.load_state_dict({"weight": np.ones((1, 2)), "bias": fw.tensor([2.0], dtype=fw.bfloat16)})
    assert kinds(model) == "float32 float32" and model.bias.item() == 2
    scale = nn.Module()
    scale.register_buffer("steps", fw.tensor(0))
    scale.load_state_dict({"steps": fw.tensor([4])})  # PyTorch saved numbers so before 0.4
    assert scale.steps.item() == 4
    assert repr(scale.load_state_dict({"steps": 3})) == "<All keys matched successfully>"


def test_assign_takes_the_tensors_themselves() -> None:
    model = Block().requires_grad_(False)
    state = {k: v.to("float64") if k != "steps" else v for k, v in Block().state_dict().items()}
    state["second.weight"] = nn.Parameter(state["second.weight"])
    assert model.load_state_dict(state, assign=True) == ([], [])
    assert kinds(model) == "int64 float64 float64 float64" and model.steps is state["steps"]
    assert model.second.weight is state["second.weight"] and model.second.weight.requires_grad
    assert isinstance(model.first.weight, nn.Parameter) and not model.first.weight.requires_grad


def test_a_state_that_does_not_fit_says_all_at_once_and_changes_nothing() -> None:
    model = nn.Sequential(OrderedDict(encoder=Block(), head=nn.Linear(2, 2)))
    before = {k: v.tolist() for k, v in model.state_dict().items()}
    state = nn.Sequential(OrderedDict(encoder=Block(5), head=nn.Linear(2, 2))).state_dict()
    state["head.weigth"] = state.pop("head.weight")
    state["head.bias"] = "none"
    text = """\
the state dict does not fit Sequential:
    shape of encoder.first.weight: (5, 2) in the state dict, (3, 2) in the model, \
which differ in axis 0
    shape of encoder.first.bias: (5,) in the state dict, (3,) in the model
    shape of encoder.second.weight: (2, 5) in the state dict, (2, 3) in the model, \
which differ in axis 1
    head.bias: str in the state dict, a tensor in the model
    missing: head.weight (nearest: head.weigth)
    unexpected: head.weigth (nearest: head.weight)
  help: create the model with the settings of the saved one; strict=False leaves out names that do \
not match"""
    assert message(lambda: model.load_state_dict(state)) == text
    assert "missing" not in message(lambda: model.load_state_dict(state, strict=False))
    assert {k: v.tolist() for k, v in model.state_dict().items()} == before
    whole = {"step": {"model": model.state_dict(), "count": 3}, "epoch": 1}
    assert message(lambda: model.load_state_dict(whole)).endswith(
        "this is a whole checkpoint: load its part state['step']['model']")
    assert "is it transposed?" in message(lambda: nn.Linear(2, 3, bias=False).load_state_dict(
        {"weight": fw.ones(2, 3)}))


def test_a_failure_in_the_middle_changes_nothing() -> None:
    class Fails(nn.Linear):
        def _load_from_state_dict(self, *args: Any) -> None:
            raise RuntimeError("no")

    model = nn.Sequential(nn.Linear(1, 1, bias=False), Fails(1, 1))
    weight, value = model[0].weight, model[0].weight.item()
    for assign in (False, True):
        with pytest.raises(RuntimeError, match="no"):
            model.load_state_dict({"0.weight": fw.tensor([[9.0]])}, assign=assign)
        assert model[0].weight is weight and weight.item() == value


def test_a_prefix_too_much_or_too_few() -> None:
    model = nn.Sequential(nn.Linear(1, 1))
    state = {f"module.{k}": v for k, v in model.state_dict().items()}
    text = message(lambda: model.load_state_dict(state))
    assert text.endswith("help: the names in the state dict begin with 'module.': load "
                         "{k.removeprefix('module.'): v for k, v in state.items()}")
    text = message(lambda: nn.ModuleDict({"net": model}).load_state_dict(model.state_dict()))
    assert text.endswith("help: the names of the model begin with 'net.': load "
                         "{'net.' + k: v for k, v in state.items()}")


def test_what_is_no_state_dict() -> None:
    model = nn.Linear(1, 1)
    assert message(lambda: model.load_state_dict("x.safetensors")) == (
        "load_state_dict takes a dict of names to tensors, not str\n"
        "  help: fw.load(path) reads one from a file")
    assert message(lambda: model.load_state_dict(model)).endswith(
        "help: pass its state_dict()")
