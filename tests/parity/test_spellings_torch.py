"""PyTorch's names and keywords, typed on plain `fw`: they work, or the error says what to type."""

from __future__ import annotations

import inspect

import pytest
import torch

import fusewire as fw
import fusewire.torch as front
from fusewire.eager.front import advice

SPACES = {
    "fw": (torch, fw, front), "x": (torch.Tensor, fw.ones(2, 3), front.ones(2, 3)),
    "fw.nn": (torch.nn, fw.nn, front.nn),
    "fw.nn.functional": (torch.nn.functional, fw.nn.functional, front.nn.functional),
    "fw.optim": (torch.optim, fw.optim, front.optim),
    "fw.optim.lr_scheduler":
        (torch.optim.lr_scheduler, fw.optim.lr_scheduler, front.optim.lr_scheduler),
    "fw.linalg": (torch.linalg, fw.linalg, front.linalg), "fw.fft": (torch.fft, fw.fft, front.fft),
    "fw.special": (torch.special, fw.special, front.special),
    "fw.nn.init": (torch.nn.init, fw.nn.init, front.nn.init),
    "fw.utils.data": (torch.utils.data, fw.utils.data, front.utils.data),
}
INNER = {"annotations", "factory_kwargs", "layout", "output_nr", "parallel", "upsample"}


@pytest.mark.parametrize("path", SPACES)
def test_a_name_that_the_front_end_has_is_there_or_has_a_hint(path):
    theirs, ours, ported = SPACES[path]
    names = [n for n in dir(theirs) if not n.startswith("_") and n not in INNER
             and hasattr(ported, n)]
    assert len(names) > 10
    for name in names:
        try:
            getattr(ours, name)
        except AttributeError as error:
            assert "help: " in str(error), f"{path}.{name}"


FUNCTIONS = [(path, name, function)
             for path, space in (("fw", fw), ("x", fw.Tensor), ("fw.linalg", fw.linalg),
                                 ("fw.fft", fw.fft), ("fw.special", fw.special))
             for name, function in vars(space).items()
             if not name.startswith("_") and inspect.isfunction(function)]


@pytest.mark.parametrize("theirs", ["dim", "keepdim", "dim0", "diagonal", "size", "tensors",
                                    "shifts", "steps"])
def test_a_keyword_of_pytorch_is_answered_by_ours(theirs):
    """The error names ours before anything runs, whatever the other arguments are."""
    answered = 0
    for path, name, function in FUNCTIONS:
        parameters = inspect.signature(function).parameters
        expected = next((k for k in advice.KEYWORDS[theirs] if k in parameters), None)
        if expected is None or theirs in parameters:
            continue
        needed = [p for p in parameters.values() if p.default is p.empty
                  and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        with pytest.raises(TypeError) as caught:
            function(*[None] * len(needed), **{theirs: 1})
        assert f"help: the keyword is {expected} here" in str(caught.value), f"{path}.{name}"
        answered += 1
    assert answered > 0
