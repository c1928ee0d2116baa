"""Names of NumPy and PyTorch that are not ours: the error says which one is."""

import pickle
import re

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.front import hints


def hint(get):
    with pytest.raises(AttributeError) as caught:
        get()
    return str(caught.value).partition("help: ")[2]


@pytest.mark.parametrize(("name", "use"), [*hints.FUNCTIONS.items(), *hints.METHODS.items()])
def test_what_a_hint_says_can_be_used(name, use):
    x, y = fw.ones(2, 2), fw.ones(2, 2)
    called = re.fullmatch(r"x\.copy_\((.*)\(\.\.\.\)\)", use)
    found = eval(called[1] if called else use, {"fw": fw, "x": x, "y": y})
    assert not called or callable(found)


@pytest.mark.parametrize("name", hints.FUNCTIONS)
def test_a_function_that_is_missing_names_ours(name):
    assert hint(lambda: getattr(fw, name)) == f"use {hints.FUNCTIONS[name]}"


@pytest.mark.parametrize("name", hints.METHODS)
def test_a_method_that_is_missing_names_ours(name):
    assert hint(lambda: getattr(fw.ones(2, 2), name)) == f"use {hints.METHODS[name]}"


def test_a_name_that_stands_in_another_module():
    assert hint(lambda: fw.vmap) == "use fw.func.vmap"
    assert hint(lambda: fw.Linear) == "use fw.nn.Linear"
    assert hint(lambda: fw.linalg.rfft) == "use fw.fft.rfft"
    assert hint(lambda: fw.expand_as) == "use x.broadcast_to(y.shape)"
    assert hint(lambda: fw.tolist) == "it is a method of tensors: x.tolist"


def test_a_misspelt_name():
    assert hint(lambda: fw.lingalg) == "is it fw.linalg?"
    assert "fw.manual_seed" in hint(lambda: fw.manual_sed)
    assert "fw.nn.Linear" in hint(lambda: fw.nn.Lienar)
    assert hint(lambda: fw.nothing_like_this) == ""
    with pytest.raises(AttributeError, match="no attribute 'sqaure'"):
        fw.ones(2).sqaure  # noqa: B018


def test_missing_names_are_missing_to_python():
    x = fw.ones(2)
    assert not hasattr(fw, "cat") and getattr(fw, "cat", 1) == 1
    assert not hasattr(x, "view") and not hasattr(fw.Tensor, "view")
    assert "view" not in dir(x) and "reshape" in dir(x)
    assert "np" not in dir(fw.fft) and "rfft" in dir(fw.fft)
    with pytest.raises(ImportError):
        from fusewire import cat  # noqa: F401


def test_the_error_can_be_pickled():
    with pytest.raises(fw.MissingNameError) as caught:
        np.asarray(fw.ones(2).view)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is AttributeError and "use x.reshape" in str(again)


def test_things_that_do_not_exist_here():
    assert '"cuda"' in hint(lambda: fw.mps)
    assert hint(lambda: fw.nn.DataParallel) == "use the module itself: one process uses all cores"
    assert hint(lambda: fw.clip_grad_norm_) == "use fw.nn.utils.clip_grad_norm_"
    assert hint(lambda: fw.optim.StepLR) == "use fw.optim.lr_scheduler.StepLR"
    assert hint(lambda: fw.dropout) == "use fw.nn.functional.dropout"
