"""Errors for habits from other libraries name the next step, in themselves or where Python shows
them."""

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
    (lambda: x.size(), "use x.shape, and x.shape[i] for one axis"),
    (lambda: x.size(0), "use x.shape, and x.shape[i] for one axis"),
    (lambda: x.sum(dim=1), "the keyword is axis here: sum(x, axis, keepdims, dtype)"),
    (lambda: fw.mean(x, 1, keepdim=True), "the keyword is keepdims here: mean(x, axis, keepdims)"),
    (lambda: fw.concat([x, x], dim=1), "the keyword is axis here: concat(arrays, axis)"),
    (lambda: fw.triu(x, diagonal=1), "the keyword is k here: triu(x, k)"),
    (lambda: fw.linalg.vector_norm(x, dim=1), "the keyword is axis here"),
    (lambda: fw.zeros(2, pin_memory=True), "copies to a GPU need no preparation"),
    (lambda: x.std(unbiased=True), "use correction=1"),
    (lambda: x.std(colour=1), "it takes std(x, axis,"),
    (lambda: x.max(1).values, "max, min, sort and median give the values alone"),
    (lambda: x.max(1).indices, "fw.argmax(x)"),
    (lambda: x.clamp_max_(1), "x.copy_(x.minimum(...))"),
])
def test_the_exception_itself_says_what_to_do(call, help):
    """So code that catches or logs it has the advice, too."""
    with pytest.raises((AttributeError, TypeError)) as caught:
        call()
    text = str(caught.value)
    assert help in text.partition("\n  help: ")[2]
    advice.advise(caught.value)
    assert str(caught.value) == text


@pytest.mark.parametrize(("call", "help"), [
    (lambda: x.shape.numel(), "use x.size"),
    (lambda: fw.exp(x, out=x), "y.copy_(result)"),
    (lambda: fw.nn.functional.softmax(x, axis=1), "the keyword is dim here: softmax(input, dim"),
    (pair, "fw.argmax, argmin and argsort say where"),
    (distributions, "sample with fw.multinomial"),
    (cat, "use fw.concat"),
    (lambda: fw.metrics.Accuracy(num_classes=3), "it takes Accuracy(top_k, multilabel"),
    (lambda: fw.nn.Linear(2, 3, device_type="cpu"), "it takes Linear(in_features, out_features"),
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
    script.write_text("import fusewire as fw\nprint(fw.ones(2).shape.numel())\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("help: use x.size")


def test_a_notebook_shows_it(monkeypatch):
    """IPython shows errors by itself, and takes a function for those of some kinds."""
    shell = SimpleNamespace(custom_exceptions=(), shown=[])
    shell.set_custom_exc = lambda kinds, show: setattr(shell, "show", show)
    shell.showtraceback = lambda error, tb_offset: shell.shown.append(str(error[1]))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    advice.install()
    with pytest.raises(AttributeError) as caught:
        x.shape.numel()
    shell.show(shell, AttributeError, caught.value, caught.tb)
    assert "help: use x.size" in shell.shown[0]


def test_repeat_with_an_axis_by_place_is_an_error():
    with pytest.raises(fw.ArgumentError, match="takes one number of repeats, not") as caught:
        x.repeat(2, 1)
    assert "x.tile((2, 1))" in caught.value.help
