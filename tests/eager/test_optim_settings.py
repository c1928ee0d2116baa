"""Settings of optimizers read as Python's numbers: all optimizers, all settings, all ways to write.

What was read stays what it was; a compiled step sees what was written.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from optimizers import OPTIMIZERS, gradients, label, starts

import fusewire as fw
from fusewire import optim

CASES = list({case[0]: case for case in OPTIMIZERS}.values())  # the one with most settings of each
WHOLE = ("ns_steps", "warmup")  # counts of Python's loops


def numbers(group: Any) -> dict[Any, float]:
    """Every setting that is a number above 0, and those in tuples, by name and index."""
    found = {}
    for name, value in group.items():
        if name == "params" or name in WHOLE:
            continue
        parts = enumerate(value) if isinstance(value, tuple) else [(None, value)]
        found |= {(name, i): v for i, v in parts if type(v) in (int, float) and v > 0}
    return found


def read(group: Any, key: Any) -> Any:
    value = group[key[0]]
    return value if key[1] is None else value[key[1]]


def write(group: Any, key: Any, value: Any) -> None:
    name, i = key
    group[name] = value if i is None else (*group[name][:i], value, *group[name][i + 1:])


class Training:
    def __init__(self, case: Any, compiled: bool = False) -> None:
        self.params = [fw.tensor(v).requires_grad_() for v in starts(case[0], "float32")[:2]]
        self.given = [fw.zeros_like(p.detach()) for p in self.params]
        self.optimizer = getattr(optim, case[0])(self.params, **case[1])
        self.grads = iter(list(gradients(case[0], "float32", 80)))
        self.run = fw.compile(self.step, fullgraph=True) if compiled else self.step

    @property
    def group(self) -> Any:
        return self.optimizer.param_groups[0]

    def step(self) -> None:
        self.optimizer.zero_grad()
        for p, g in zip(self.params, self.given):
            (p * g).sum().backward()
        self.optimizer.step()

    def steps(self, count: int = 1) -> None:
        for _, grads in zip(range(count), self.grads):
            for given, g in zip(self.given, grads):
                given.copy_(0.0 if g is None else fw.tensor(g))
            self.run()

    def values(self) -> list[Any]:
        return [p.detach().numpy().copy() for p in self.params]


def same(a: Training, b: Training, tolerance: float = 2e-5) -> None:
    for x, y in zip(a.values(), b.values()):
        np.testing.assert_allclose(x, y, tolerance, tolerance)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_a_number_that_was_read_stays_what_it_was(case: Any) -> None:
    training = Training(case)
    first = numbers(training.group)
    assert ("lr", None) in first and all(type(v) in (int, float) for v in first.values())
    for kind in (float, np.float64, np.float32, fw.tensor):
        for key, value in numbers(training.group).items():
            if kind is fw.tensor and key[1] is None:
                continue  # a tensor is given back as it is, as PyTorch does
            before = read(training.group, key)
            write(training.group, key, kind(value / 2))
            after = read(training.group, key)
            assert before == value and float(after) == pytest.approx(value / 2)
            write(training.group, key, float(after))
    copied, raw = copy.deepcopy(training.optimizer), pickle.dumps(training.optimizer)
    settings = training.optimizer.state_dict()["param_groups"][0]
    half = {k: float(v) for k, v in numbers(training.group).items()}
    for key, value in half.items():
        write(training.group, key, value * 3)
    for holder in (copied.param_groups[0], pickle.loads(raw).param_groups[0], settings):
        assert {k: v for k, v in numbers(holder).items() if k in half} == \
            {k: v for k, v in half.items() if k in numbers(holder)}
    training.optimizer.load_state_dict({"state": {}, "param_groups": [settings]})
    assert numbers(training.group) == pytest.approx(half)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_a_compiled_step_sees_every_number_that_is_written(case: Any) -> None:
    eager, compiled = Training(case), Training(case, True)
    for training in (eager, compiled):
        training.steps(2)
    for key, value in numbers(eager.group).items():
        for factor in (0.9, 0.8, 0.7, 1.0):
            for training in (eager, compiled):
                write(training.group, key, value * factor)
                training.steps()
                assert read(training.group, key) == value * factor
    same(eager, compiled)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_a_new_learning_rate_records_nothing(case: Any) -> None:
    compiled, rates = Training(case, True), []
    compiled.steps(3)
    recordings = compiled.run.stats.recordings
    for k in range(6):
        compiled.group["lr"] *= 0.5 if k % 2 else 1.5
        compiled.steps()
        rates.append(compiled.group["lr"])
    assert compiled.run.stats.recordings == recordings and len(set(rates)) == 6


@pytest.mark.parametrize("case", [OPTIMIZERS[1], OPTIMIZERS[4]], ids=label)
@pytest.mark.parametrize("moved", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_is_written_by_itself(case: Any, moved: Any) -> None:
    training = Training(case, True)
    training.steps(3)
    other = moved(training.optimizer)
    other.param_groups[0]["lr"] = 7.0
    assert training.group["lr"] == training.optimizer.defaults["lr"]
    training.group["lr"] = 5.0
    assert other.param_groups[0]["lr"] == 7.0


# ---- inside of compiled functions
def test_rates_read_and_written_inside_of_a_compiled_step() -> None:
    def logs(compiled: bool) -> Any:
        training, rates = Training(OPTIMIZERS[1]), []

        def step() -> Any:
            training.step()
            rates.append(training.group["lr"])
            training.group["lr"] *= 0.9
            return training.group["lr"]

        training.run = fw.compile(step) if compiled else step
        returned = []
        for _ in range(8):
            returned.append(training.run())
            if len(returned) == 5:
                training.group["lr"] = 3.0
        return rates, returned

    (rates, returned), expected = logs(True), logs(False)
    assert rates == pytest.approx(expected[0]) and returned == pytest.approx(expected[1])
    assert len(set(rates)) == 8 and all(type(r) is float for r in rates + returned)


# ---- groups are dicts to whoever reads them
def test_what_a_dict_can_do() -> None:
    p, q = fw.nn.Parameter(fw.ones(2)), fw.nn.Parameter(fw.ones(2))
    optimizer = optim.SGD([p], lr=0.5)
    group = optimizer.param_groups[0]
    taken = [dict(group), {**group}, group | {"more": 1}, {"more": 1} | group, group.copy(),
             copy.copy(group), dict(group.items()), dict(zip(group.keys(), group.values()))]
    group["lr"] = 0.25
    assert [t["lr"] for t in taken] == [0.5] * len(taken)
    assert group.get("lr") == group.setdefault("lr", 1) == 0.25 and "lr" in group
    group |= {"lr": 2}
    group.update(momentum=0.5)
    assert (group["lr"], group["momentum"], group.pop("momentum"), len(group)) == (
        2, 0.5, 0.5, len(list(group)))
    assert repr(group) == repr(dict(group)) and group == dict(group)
    optimizer.add_param_group({**group, "params": [q], "lr": 3.0})
    assert [g["lr"] for g in optimizer.param_groups] == [2, 3]


def test_a_tensor_of_the_user_is_given_back() -> None:
    rate = fw.tensor(0.5)
    p = fw.nn.Parameter(fw.ones(1))
    optimizer = optim.SGD([p], lr=rate)
    assert optimizer.param_groups[0]["lr"] is rate
    rate.fill_(0.25)
    p.grad = fw.ones(1)
    optimizer.step()
    assert p.tolist() == [0.75]
    optimizer.param_groups[0]["lr"] = 0.125
    assert optimizer.param_groups[0]["lr"] == 0.125 and rate.item() == 0.25
