"""Code made by another thread: nothing waits for it, and what goes wrong there is said."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from jobs import together

import fusewire as fw
from fusewire import nn, optim
from fusewire.capture.runtime.warnings import CaptureWarning
from fusewire.codegen import decorator
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.dynamic import specializations

X = fw.linspace(-1, 1, 12).reshape(3, 4)
LARGE = fw.linspace(-1, 1, 1 << 16).reshape(256, 256)  # so large that ops are put off


class Compiler:
    """Makes no code before `go` is set; `fails` with an error where there is one."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.fails: Exception | None = None
        self.threads: list[str] = []

    def __call__(self, graph: Any) -> Any:
        self.threads.append(threading.current_thread().name)
        assert self.go.wait(60)
        if self.fails is not None:
            raise self.fails
        return compile_graph(graph)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    found = Compiler()
    monkeypatch.setattr(decorator, "compile_graph", found)
    yield found
    found.go.set()


def f(x: fw.Tensor) -> fw.Tensor:
    return fw.softmax(fw.tanh(x @ x.T) * 3, -1).sum(axis=0)


def bits(*tensors: Any) -> list[bytes]:
    return [t.numpy().tobytes() for t in tensors]


def is_short(compiled: Any) -> bool:
    """Whether calls go the fast path."""
    return all(p.direct.__name__ == "direct" for p in compiled.programs)


def is_code(compiled: Any) -> bool:
    """Whether all segments have code."""
    return all(s.executable is not None for p in compiled.programs for s in p.segments())


# ---- one function
def test_calls_are_eager_to_the_bit_until_the_code_is_there(compiler: Compiler) -> None:
    compiled = fw.compile(f, background=True)
    for k in range(6):
        assert bits(compiled(X * k)) == bits(f(X * k))
    assert compiled.stats.recordings == 1 and compiled.stats.replays == 5
    assert not is_code(compiled) and compiled.stats.compile_seconds == 0
    compiler.go.set()
    compiled.wait()
    assert is_code(compiled) and compiled.stats.compile_seconds > 0
    for k in range(6):
        np.testing.assert_allclose(compiled(X * k).numpy(), f(X * k).numpy(), rtol=1e-5)
    assert compiler.threads == ["fusewire compiles"]


def test_the_code_is_begun_when_the_function_is_recorded(compiler: Compiler) -> None:
    compiler.go.set()
    compiled = fw.compile(f, background=True)
    compiled(X)
    compiled.wait()
    assert is_code(compiled) and compiled.stats.replays == 0


def test_the_fast_path_is_made_of_code_alone(compiler: Compiler) -> None:
    compiled = fw.compile(f, background=True)
    for _ in range(9):
        compiled(X)
        assert not is_short(compiled)
    compiler.go.set()
    compiled.wait()
    compiled(X)
    assert is_short(compiled)
    assert compiled.stats.peak_bytes > 0


def test_without_it_calls_wait() -> None:
    compiled = fw.compile(f)
    compiled(X), compiled(X)
    assert is_code(compiled)
    compiled.wait()  # there is nothing to wait for


def test_what_nobody_wants_any_more_is_not_made(compiler: Compiler) -> None:
    first, second = fw.compile(f, background=True), fw.compile(f, background=True)
    first(X), second(X)
    second.clear()
    gc.collect()
    compiler.go.set()
    first.wait()
    third = fw.compile(f, background=True)
    third(X)
    third.wait()
    assert len(compiler.threads) == 2


def test_explain_and_code(compiler: Compiler) -> None:
    compiled = fw.compile(f, background=True)
    compiled(X), compiled(X)
    assert "background compilation, 1 graph left" in compiled.explain()
    assert "not compiled yet: the background thread compiles it" in compiled.explain()
    assert compiled.kernels() == []
    assert "matmul" in compiled.graph() or "contract" in compiled.graph()
    timer = threading.Timer(0.05, compiler.go.set)
    timer.start()
    assert "define" in compiled.code()  # which waits
    assert "background compilation" not in compiled.explain() and compiled.kernels()
    assert "simplify" in compiled.graph(passes=True)


def test_young_garbage_is_collected_meanwhile(compiler: Compiler) -> None:
    before = gc.get_threshold()
    compiled = fw.compile(f, background=True)
    compiled(X)
    while not compiler.threads:
        time.sleep(0.001)
    assert gc.isenabled() and gc.get_threshold()[:2] == before[:2]
    compiler.go.set()
    compiled.wait()
    assert gc.get_threshold() == before


# ---- what functions do
def training() -> tuple[Callable[..., Any], list[fw.Tensor]]:
    fw.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, list(model.parameters())


def seeded(step: Callable[..., Any], seed: int) -> list[bytes]:
    fw.manual_seed(seed)
    return bits(step(X))


def test_a_training_step(compiler: Compiler) -> None:
    step, parameters = training()
    other, own = training()
    compiled = fw.compile(other, background=True, fullgraph=True)
    for seed in range(5):
        assert seeded(compiled, seed) == seeded(step, seed)
        assert bits(*own) == bits(*parameters)
    compiler.go.set()
    compiled.wait()
    for seed in range(5):
        seeded(compiled, seed), seeded(step, seed)
    for p, q in zip(own, parameters):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-3, atol=1e-5)
    assert is_code(compiled) and is_short(compiled)


def test_decisions_and_loops(compiler: Compiler) -> None:
    def g(x: fw.Tensor) -> fw.Tensor:
        while x.sum() < 10:
            x = x * 1.5 + 0.1
        return fw.exp(-x) if x[0, 0] > 0.5 else x - 1

    compiled = fw.compile(g, background=True, fullgraph=True)
    given = [X + k for k in (0.5, 1.0, 0.2, 3.0, 0.1, 0.9)]
    for x in given * 2:
        assert bits(compiled(x)) == bits(g(x))
    compiler.go.set()
    compiled.wait()
    for x in given * 3:
        np.testing.assert_allclose(compiled(x).numpy(), g(x).numpy(), rtol=1e-5)
    assert is_code(compiled) and is_short(compiled)


def test_gradients_through_a_function(compiler: Compiler) -> None:
    compiled = fw.compile(f, background=True)

    def gradient(function: Any) -> fw.Tensor:
        x = fw.tensor(X.numpy(), requires_grad=True)
        (function(x) * fw.arange(3)).sum().backward()
        return x.grad

    for _ in range(4):
        assert bits(gradient(compiled)) == bits(gradient(f))
    compiler.go.set()
    compiled.wait()
    for _ in range(4):
        np.testing.assert_allclose(gradient(compiled).numpy(), gradient(f).numpy(), rtol=1e-4,
                                   atol=1e-6)
    assert len(compiler.threads) == 2


def test_sizes_are_met_while_there_is_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go = threading.Event(), threading.Event()

    def opened(self: Any, least: Any) -> Any:
        entered.set()
        assert go.wait(60)
        return make(self, least)

    def g(x: fw.Tensor) -> fw.Tensor:
        return (fw.tanh(x) * 2).sum(axis=0)

    make = specializations.DynamicExecutable._compile_dynamic
    monkeypatch.setattr(specializations.DynamicExecutable, "_compile_dynamic", opened)
    compiled = fw.compile(g, background=True, dynamic={"x": [0]})
    given = [fw.linspace(-1, 1, 4 * n).reshape(n, 4) for n in (2, 3, 5, 7, 3, 5, 7, 3)]
    for x in given:
        assert bits(compiled(x)) == bits(g(x))
    assert entered.wait(60) and compiled.stats.recordings == 1
    assert "background compilation" in compiled.explain()
    program = compiled.programs[0].segments()[0].executable
    assert "op by op until another thread has compiled it" in program.explain()
    go.set()
    compiled.wait()
    for x in given * 2:
        np.testing.assert_allclose(compiled(x).numpy(), g(x).numpy(), rtol=1e-5)
    compiled.wait()
    assert all(v.dynamic_program is not None for v in program.specializations), program.explain()
    assert "background compilation" not in compiled.explain()


def test_a_function_in_pieces(compiler: Compiler) -> None:
    def g(x: fw.Tensor) -> fw.Tensor:
        y = f(x)
        random.random()
        return y * 2 + 1

    g(LARGE)  # code for the product alone, which eager calls have, is not made in a recording
    compiled = fw.compile(g, background=True)
    with pytest.warns(CaptureWarning, match="graph break"):
        compiled(LARGE)
    for _ in range(8):
        assert bits(compiled(LARGE)) == bits(g(LARGE))
    compiler.go.set()
    compiled.wait()
    np.testing.assert_allclose(compiled(LARGE).numpy(), g(LARGE).numpy(), rtol=1e-4)
    assert compiled.graph_breaks.replays > 0 and not compiled.graph_breaks.uncompiled


def test_pieces_without_code_run_op_by_op(compiler: Compiler) -> None:
    compiler.fails = fw.CodegenError("there is none")
    compiler.go.set()
    compiled = fw.compile(lambda x: (random.random(), f(x))[1], background=True)
    with pytest.warns(CaptureWarning, match="graph break"):
        compiled(LARGE)
    for _ in range(8):
        assert bits(compiled(LARGE)) == bits(f(LARGE))
        compiled.wait()
    assert compiled.graph_breaks.uncompiled["there is none"] > 0


# ---- what goes wrong
@pytest.mark.parametrize(("error", "says"), [
    (fw.CodegenError("there is none"), "there is none"),
    (ValueError("lost"), "code generation failed: ValueError: lost")])
def test_an_error_is_told_by_the_next_call(compiler: Compiler, error: Exception, says: str) -> None:
    compiler.fails = error
    compiled = fw.compile(f, background=True)
    assert bits(compiled(X)) == bits(compiled(X))
    compiler.go.set()
    compiled.wait()
    with pytest.warns(CaptureWarning, match=says) as told:
        for _ in range(3):
            assert bits(compiled(X)) == bits(f(X))
            compiled.wait()
    assert len(told) == 1
    for _ in range(9):
        assert bits(compiled(X)) == bits(f(X))
        compiled.wait()
    whole = fw.compile(f, background=True, fullgraph=True)
    whole(X)
    whole.wait()
    with pytest.raises(fw.CaptureError, match=says):
        whole(X)


def test_a_way_back_without_code_runs_op_by_op(compiler: Compiler) -> None:
    compiled = fw.compile(f, background=True)
    x = fw.tensor(X.numpy(), requires_grad=True)
    compiler.go.set()
    compiled(x), compiled.wait()
    compiler.fails = fw.CodegenError("there is none")
    compiled(x).sum().backward()
    compiled.wait()
    with pytest.warns(CaptureWarning, match="runs op by op: there is none"):
        compiled(x).sum().backward()
    compiled(x).sum().backward()
    wanted = fw.tensor(X.numpy(), requires_grad=True)
    f(wanted).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * wanted.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_an_error_at_sizes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> Any:
        raise fw.CodegenError("there is none")

    compiled = fw.compile(f, background=True, dynamic=True)
    monkeypatch.setattr(specializations.DynamicExecutable, "_specialize", refuse)
    monkeypatch.setattr(specializations.DynamicExecutable, "_compile_dynamic", refuse)
    with pytest.warns(CaptureWarning, match="there is none"):
        for _ in range(9):
            assert bits(compiled(X)) == bits(f(X))
            compiled.wait()


def test_compiled_code_is_checked(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler.go.set()
    compiled = fw.compile(f, background=True, check="always")
    compiled(X)
    compiled.wait()
    compiled(X)
    assert type(compiled.programs[0].segments()[0].executable).__name__ == "CheckedProgram"


# ---- options, threads, processes
def test_copies_keep_the_option() -> None:
    compiled = fw.compile(nn.Linear(4, 2), background=True)
    for model in (compiled, copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert bits(model(X)) == bits(compiled.forward.original(X))
        model.forward.wait()  # this is what has code before it is called again
        assert is_code(model.forward) and model.forward.stats.replays == 0


def test_several_threads_from_the_first_call(compiler: Compiler) -> None:
    threading.Timer(0.02, compiler.go.set).start()
    for _ in range(3):
        compiled = fw.compile(f, background=True, fullgraph=True)
        given = [X * k for k in range(4)]

        def calls(x: fw.Tensor, compiled: Any = compiled) -> list[Any]:
            return [compiled(x).numpy() for _ in range(300)]

        for x, found in zip(given, together(*[lambda x=x: calls(x) for x in given])):
            for got in found:
                np.testing.assert_allclose(got, f(x).numpy(), rtol=1e-5)
        assert compiled.stats.recordings == 1
        compiled.wait()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_makes_what_was_not_begun(compiler: Compiler) -> None:
    """The fork waits for what is being made; the rest both make for themselves."""
    first, second = fw.compile(f, background=True), fw.compile(f, background=True)
    first(X), second(X)
    while not compiler.threads:
        time.sleep(0.001)
    timer = threading.Timer(0.05, compiler.go.set)
    timer.start()
    pid = os.fork()

    def whole() -> bool:
        first.wait(), second.wait()
        return is_code(first) and is_code(second) and bits(first(X)) == bits(second(X))

    if pid == 0:
        status = 1
        try:
            compiler.go = threading.Event()
            compiler.go.set()
            status = 0 if is_code(first) and whole() else 1
        finally:
            os._exit(status)
    assert whole()
    assert os.waitpid(pid, 0)[1] == 0


_SCRIPT = """
import os, time
import fusewire as fw
from fusewire.codegen import decorator
from fusewire.codegen.compile import compile_graph

def slowly(graph):
    say("begun")
    time.sleep(0.2)
    made = compile_graph(graph)
    say("made")
    return made

def say(word):
    os.write(1, f"{word}\\n".encode())  # a line as a whole: two threads speak

decorator.compile_graph = slowly
functions = [fw.compile(lambda x: fw.exp(x) + 1, background=True) for _ in range(20)]
for f in functions:
    f(fw.ones(3))
say(f(fw.ones(3)).sum().item())
"""


def script(text: str) -> list[str]:
    """What a script prints, which ends well."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", text], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def test_a_process_ends_while_code_is_made() -> None:
    """What is begun is finished, the rest dropped."""
    printed = script(_SCRIPT)
    assert printed.count("made") == printed.count("begun") < 20


def test_a_process_calls_at_its_end() -> None:
    printed = script("import atexit\natexit.register(lambda: (print(f(fw.ones(3))[0].item() > 3), "
                     "f.wait(), print('done')))\n" + _SCRIPT)
    assert printed[-2:] == ["True", "done"]
    printed = script("import atexit\nimport fusewire as fw\nf = fw.compile(lambda x: x * 2 + 1, "
                     "background=True)\natexit.register(lambda: [print(f(fw.ones(1)).item()) "
                     "for _ in range(3)])")
    assert printed == ["3.0"] * 3
