"""Errors that Python raises itself get a next step where they are shown."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import fusewire as fw
from fusewire.eager.front import advice

x = fw.ones(2, 4)


def pair():
    values, places = fw.ones(3, 4).max(1)
    return values, places


def distributions():
    from fusewire.distributions import Categorical
    return Categorical


def cat():
    from fusewire import cat
    return cat


@pytest.mark.parametrize(("call", "help"), [
    (lambda: x.size(0), "use x.shape, and x.shape[i] for one axis"),
    (lambda: x.sum(dim=1), "the keyword is axis here: sum(x, axis, keepdims, dtype)"),
    (lambda: fw.mean(x, 1, keepdim=True), "the keyword is keepdims here: mean(x, axis, keepdims)"),
    (lambda: fw.concat([x, x], dim=1), "the keyword is axis here: concat(arrays, axis)"),
    (lambda: fw.triu(x, diagonal=1), "the keyword is k here: triu(x, k)"),
    (lambda: fw.linalg.vector_norm(x, dim=1), "the keyword is axis here"),
    (lambda: fw.zeros(2, requires_grad=True), "fw.zeros(3).requires_grad_()"),
    (lambda: x.std(colour=1), "it takes std(x, axis,"),
    (lambda: fw.Tensor(2, 3) + 1, "use fw.tensor for numbers, fw.empty for a shape"),
    (lambda: x.shape.numel(), "use x.size"),
    (lambda: x.tile(2, 1), "x.tile((2, 1))"),
    (lambda: fw.where(x > 0), "fw.nonzero(condition)"),
    (pair, "fw.argmax, argmin and argsort say where"),
    (distributions, "sample with fw.multinomial"),
    (cat, "use fw.concat"),
])
def test_what_to_do_instead(call, help):
    with pytest.raises((AttributeError, ImportError, TypeError, ValueError)) as caught:
        call()
    before = str(caught.value)
    advice.advise(caught.value)
    text, _, shown = str(caught.value).partition("\n  help: ")
    assert text == before and help in shown
    advice.advise(caught.value)
    assert str(caught.value).count("help: ") == 1


def own(**options):
    return len(options)


@pytest.mark.parametrize("call", [
    lambda: own(1), lambda: len(3), lambda: int("a"), lambda: (1).size, lambda: dict(1, dim=2),
])
def test_errors_of_other_code_stay_as_they_are(call):
    with pytest.raises((AttributeError, TypeError, ValueError)) as caught:
        call()
    before = str(caught.value)
    advice.advise(caught.value)
    assert str(caught.value) == before


def test_python_shows_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import fusewire as fw\nprint(fw.ones(2).size(0))\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("and x.shape[i] for one axis")


def test_a_notebook_shows_it(monkeypatch):
    """IPython shows errors by itself, and takes a function for those of some kinds."""
    shell = SimpleNamespace(custom_exceptions=(), shown=[])
    shell.set_custom_exc = lambda kinds, show: setattr(shell, "show", show)
    shell.showtraceback = lambda error, tb_offset: shell.shown.append(str(error[1]))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    advice.install()
    with pytest.raises(TypeError) as caught:
        x.size(0)
    shell.show(shell, TypeError, caught.value, caught.tb)
    assert "help: x.size is the number" in shell.shown[0]


def test_repeat_with_an_axis_by_place_is_an_error():
    with pytest.raises(fw.ArgumentError, match="takes one number of repeats, not") as caught:
        x.repeat(2, 1)
    assert "x.tile((2, 1))" in caught.value.help
