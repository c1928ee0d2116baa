"""Every scheduler beside PyTorch's: rates and momentum over 40 epochs, and state dicts moved over;
averages of models, and clipping of gradients.

A row is the way of making a scheduler, as a function of the library's module of schedulers and of
an optimizer of two groups, whose rates are 0.1 and 0.03.
"""

from __future__ import annotations

import copy
import inspect
import random
import warnings

import numpy as np
import pytest
import torch

import fusewire as fw

STEPS = 40


class Root:
    """A callable object, whose attributes a state dict holds."""

    def __init__(self, power):
        self.power = power

    def __call__(self, epoch):
        return (1 + epoch) ** -self.power


def by_epoch(epoch):
    return 0.95 ** epoch


SCHEDULERS = {
    "lambda": lambda s, o: s.LambdaLR(o, by_epoch),
    "lambda, a list": lambda s, o: s.LambdaLR(o, [by_epoch, lambda epoch: 1 / (1 + epoch)]),
    "lambda, an object": lambda s, o: s.LambdaLR(o, Root(0.5)),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 1 - 0.5 / (1 + epoch)),
    "step": lambda s, o: s.StepLR(o, 7),
    "step, gamma": lambda s, o: s.StepLR(o, step_size=3, gamma=0.7),
    "milestones": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 30], gamma=0.3),
    "constant": lambda s, o: s.ConstantLR(o),
    "constant, factor": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=11),
    "linear": lambda s, o: s.LinearLR(o),
    "linear, down": lambda s, o: s.LinearLR(o, 1.0, 0.05, total_iters=30),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o),
    "polynomial, power": lambda s, o: s.PolynomialLR(o, total_iters=33, power=2.5),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 10),
    "cosine, eta_min": lambda s, o: s.CosineAnnealingLR(o, 40, eta_min=0.001),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 6),
    "restarts, longer": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=0.002),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.001, 0.1, step_size_up=6),
    "cyclic, triangular2": lambda s, o: s.CyclicLR(o, 0.001, [0.1, 0.3], 4, 9, "triangular2"),
    "cyclic, exp_range": lambda s, o: s.CyclicLR(
        o, [0.001, 0.0], 0.1, 5, mode="exp_range", gamma=0.97, base_momentum=[0.5, 0.6]),
    "cyclic, scale_fn": lambda s, o: s.CyclicLR(
        o, 0.001, 0.1, 5, scale_fn=lambda x: 1 / x, cycle_momentum=False),
    "cyclic, by iterations": lambda s, o: s.CyclicLR(
        o, 0.001, 0.1, 5, scale_fn=Root(0.1), scale_mode="iterations"),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.3, STEPS),
    "one cycle, epochs": lambda s, o: s.OneCycleLR(
        o, [0.3, 0.5], epochs=5, steps_per_epoch=9, pct_start=0.4, anneal_strategy="linear",
        div_factor=5.0, final_div_factor=100.0),
    "one cycle, three phases": lambda s, o: s.OneCycleLR(
        o, 0.3, STEPS, three_phase=True, base_momentum=0.7, max_momentum=[0.9, 0.99]),
    "one cycle, rates only": lambda s, o: s.OneCycleLR(o, 0.3, 50, cycle_momentum=False),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 5), s.ExponentialLR(o, 0.9), s.StepLR(o, 10, 0.5)]),
    "chained, cosine": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.1, total_iters=8), s.CosineAnnealingLR(o, 40), s.PolynomialLR(o, 60)]),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 30, 1e-4)], [5]),
    "sequential, three": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 4)], [3, 20]),
    "sequential of chained": lambda s, o: s.SequentialLR(o, [
        s.ChainedScheduler([s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9)]),
        s.MultiStepLR(o, [2, 9])], [10]),
    "swa": lambda s, o: swa(s).SWALR(o, 0.05),
    "swa, linear": lambda s, o: swa(s).SWALR(o, [0.05, 0.5], 4, "linear"),
    "swa, at once": lambda s, o: swa(s).SWALR(o, 0.05, anneal_epochs=0),
    "jump": lambda s, o: Jumping(s.ExponentialLR(o, 0.9), [3, 17, 2]),
    "jump, milestones": lambda s, o: Jumping(s.MultiStepLR(o, [2, 5, 5, 30]), [4, 17]),
    "jump, restarts": lambda s, o: Jumping(
        s.CosineAnnealingWarmRestarts(o, 3, 2), [0.5, 2.75, 9.5, 30, 1]),
    "jump, cosine": lambda s, o: Jumping(s.CosineAnnealingLR(o, 13, 1e-3), [5, 20]),
}
METRICS = [5.0, 4.0, 4.0, 4.0, 3.9995, 4.2, 4.0, 3.0, 3.0, 3.0, 3.0, 3.0, 2.9, 3.0, 3.1, 3.1] * 3
PLATEAUS = [
    {"patience": 1}, {"patience": 2, "factor": 0.5, "cooldown": 2}, {"mode": "max", "patience": 0},
    {"patience": 1, "threshold": 0.5, "threshold_mode": "abs"},
    {"mode": "max", "patience": 3, "threshold_mode": "abs", "min_lr": [0.02, 0.0]},
    {"patience": 0, "min_lr": 0.01}, {"patience": 0, "eps": 0.01},
]


class Jumping:
    """A scheduler whose steps go to given epochs first."""

    def __init__(self, scheduler, epochs):
        self.inner, self.epochs = scheduler, list(epochs)

    def step(self):
        if self.epochs:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.inner.step(self.epochs.pop(0))
        else:
            self.inner.step()

    def __getattr__(self, name):
        return getattr(self.inner, name)


def swa(schedulers):
    return fw.optim.swa_utils if schedulers is fw.optim.lr_scheduler else \
        torch.optim.swa_utils


def ours(kind="SGD"):
    groups = [{"params": [fw.nn.Parameter(fw.ones(2))]},
              {"params": [fw.nn.Parameter(fw.ones(3))], "lr": 0.03}]
    return getattr(fw.optim, kind)(groups, lr=0.1, **OPTIONS[kind])


def theirs(kind="SGD"):
    groups = [{"params": [torch.nn.Parameter(torch.ones(2))]},
              {"params": [torch.nn.Parameter(torch.ones(3))], "lr": 0.03}]
    return getattr(torch.optim, kind)(groups, lr=0.1, **OPTIONS[kind])


OPTIONS = {"SGD": {"momentum": 0.9}, "Adam": {"betas": (0.8, 0.99)}}
LIBRARIES = ((ours, fw.optim.lr_scheduler), (theirs, torch.optim.lr_scheduler))


def made(name, schedulers, optimizer):
    with warnings.catch_warnings():
        if schedulers is torch.optim.lr_scheduler:  # it warns of the order in chains of chains
            warnings.simplefilter("ignore")
        return SCHEDULERS[name](schedulers, optimizer)


def settings(optimizer):
    """Rates and momentum of the groups, as numbers."""
    found = []
    for group in optimizer.param_groups:
        momentum = group["momentum"] if "momentum" in group else group["betas"][0]
        found += [float(group["lr"]), float(momentum)]
    return found


def steps(optimizer, scheduler, count):
    found = []
    for _ in range(count):
        step(optimizer)
        scheduler.step()
        found.append([*settings(optimizer), *map(float, scheduler.get_last_lr())])
    return np.array(found)


def step(optimizer):
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = p.detach() * 0
    optimizer.step()


def same(found, wanted):
    assert found.shape == wanted.shape and np.isfinite(wanted).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-17)


def forty_epochs(name, kind):
    """Rates and momentum of ours and of PyTorch's."""
    results = []
    for make, schedulers in LIBRARIES:
        optimizer = make(kind)
        scheduler = made(name, schedulers, optimizer)
        start = np.array([[*settings(optimizer), *map(float, scheduler.get_last_lr())]])
        results.append(np.concatenate([start, steps(optimizer, scheduler, STEPS)]))
    return results


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_rates_and_momentum_of_forty_epochs(name, kind):
    same(*forty_epochs(name, kind))


@pytest.mark.parametrize("name", [n for n in SCHEDULERS if not n.startswith("jump")])
@pytest.mark.parametrize("over", ["to ours", "to theirs"])
def test_a_state_dict_moves_over_in_the_middle(name, over):
    """What one library saved goes on in the other, with the same numbers as without the break."""
    begin, finish = LIBRARIES[::-1] if over == "to ours" else LIBRARIES
    optimizer = begin[0]()
    first = made(name, begin[1], optimizer)
    steps(optimizer, first, 13)
    later = finish[0]()
    second = made(name, finish[1], later)
    assert plain(second.state_dict()).keys() == plain(first.state_dict()).keys()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for group, saved in zip(later.param_groups, optimizer.param_groups):
        move_settings(group, saved)
    same(steps(later, second, STEPS - 13), steps(optimizer, first, STEPS - 13))


# ---- logs of rates, while training is saved and taken up again
WALKED = [n for n in SCHEDULERS if not n.startswith("jump")]


class Walk:
    """A training that goes on, back to what was saved, and on again; its log is PyTorch's."""

    def __init__(self, name, library, compiled):
        self.name, (self.make, self.schedulers) = name, library
        self.optimizer = self.make()
        self.scheduler = made(name, self.schedulers, self.optimizer)
        self.step = fw.compile(self._step) if compiled == "optimizer" else self._step
        self.both = fw.compile(self._both) if compiled == "both" else self._both
        self.log, self.rates, self.saved = [], [], None

    def _step(self):
        self.optimizer.step()

    def _both(self):
        self.step()
        self.scheduler.step()

    def go_on(self, rng):
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                p.grad = p.detach() * 0
        self.both()

    def save(self, rng):
        self.saved = (self.optimizer.state_dict(), self.scheduler.state_dict())

    def restore(self, rng):
        if self.saved is not None:
            self.optimizer.load_state_dict(self.saved[0])
            self.scheduler.load_state_dict(copy.deepcopy(self.saved[1]))

    def keep_rates(self, rng):
        self.rates = [group["lr"] for group in self.optimizer.param_groups]

    def put_rates_back(self, rng):
        for group, rate in zip(self.optimizer.param_groups, self.rates):
            group["lr"] = rate

    def scale(self, rng):
        factor = rng.choice([0.5, 2.0])
        for group in self.optimizer.param_groups:
            group["lr"] *= factor

    def walk(self, seed, count=36):
        rng = random.Random(seed)
        for _ in range(count):
            rng.choices([self.go_on, self.save, self.restore, self.keep_rates,
                         self.put_rates_back, self.scale], [10, 2, 2, 1, 1, 1])[0](rng)
            self.log += [group["lr"] for group in self.optimizer.param_groups]
            self.log.append(self.scheduler.get_last_lr())
        return np.array([x for one in self.log for x in (one if isinstance(one, list) else [one])])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WALKED)
def test_a_log_of_rates_over_saving_and_going_on(name, seed):
    found, wanted = (Walk(name, library, "").walk(seed) for library in LIBRARIES)
    same(found, wanted)


@pytest.mark.parametrize("compiled", ["optimizer", "both"])
@pytest.mark.parametrize("name", WALKED)
def test_a_log_of_rates_of_compiled_steps(name, compiled):
    found = Walk(name, LIBRARIES[0], compiled).walk(3)
    same(found, Walk(name, LIBRARIES[1], "").walk(3))


def plain(state):
    """The state with those of inner schedulers as one dictionary of names."""
    found = {}
    for name, value in state.items():
        if name == "_schedulers":
            for i, inner in enumerate(value):
                found |= {f"{name}.{i}.{k}": v for k, v in plain(inner).items()}
        else:
            found[name] = value
    return found


def move_settings(group, saved):
    for name, value in saved.items():
        if name == "params":
            continue
        group[name] = value


@pytest.mark.parametrize("options", PLATEAUS)
def test_reduction_on_a_plateau(options):
    results = []
    for make, schedulers in LIBRARIES:
        optimizer = make()
        scheduler = schedulers.ReduceLROnPlateau(optimizer, **options)
        found = []
        for i, metric in enumerate(METRICS):
            if i == 20:  # and what was saved goes on
                state, scheduler = scheduler.state_dict(), schedulers.ReduceLROnPlateau(optimizer)
                scheduler.load_state_dict(state)
            scheduler.step(metric)
            found.append([*settings(optimizer), *scheduler.get_last_lr(), scheduler.best,
                          scheduler.num_bad_epochs, scheduler.in_cooldown, scheduler.last_epoch])
        results.append((np.array(found, float), scheduler.state_dict().keys()))
    same(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_going_on_from_an_epoch_that_is_given():
    """last_epoch=... goes on with the groups of a loaded optimizer, which hold initial_lr."""
    for name in ("StepLR", "CosineAnnealingLR", "ExponentialLR", "LinearLR"):
        results = []
        for make, schedulers in LIBRARIES:
            optimizer, more = make(), {"LinearLR": {}, "ExponentialLR": {"gamma": 0.9}}
            more = more.get(name, {"StepLR": {"step_size": 4}}.get(name, {"T_max": 20}))
            steps(optimizer, getattr(schedulers, name)(optimizer, **more), 5)
            later = getattr(schedulers, name)(optimizer, **more, last_epoch=4)
            results.append(steps(optimizer, later, 10))
        same(*results)


@pytest.mark.parametrize("name", [*torch.optim.lr_scheduler.__all__, "SWALR"])
def test_signatures(name):
    here, there = (swa(s) if name == "SWALR" else s for s in
                   (fw.optim.lr_scheduler, torch.optim.lr_scheduler))
    for method in ("__init__", "step", "load_state_dict"):
        same_signature(*(getattr(getattr(m, name), method) for m in (here, there)))


def same_signature(mine, other):
    mine, other = (inspect.signature(f).parameters.values() for f in (mine, other))
    assert [(p.name, p.default, p.kind) for p in mine] == \
        [(p.name, p.default, p.kind) for p in other]


@pytest.mark.parametrize("name", torch.optim.swa_utils.__all__)
def test_signatures_of_averages(name):
    same_signature(*(getattr(m.optim.swa_utils, name) for m in (fw, torch)))


# ---- clipping
def gradients(m, dtype):
    """Parameters of library `m`, with gradients and one without."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) * 3 for shape in ((4, 3), (5,), (), (2, 2))]
    if m is torch:
        ps = [torch.nn.Parameter(torch.tensor(a, dtype=getattr(torch, dtype))) for a in arrays]
    else:
        ps = [fw.nn.Parameter(fw.tensor(a, dtype=getattr(fw, dtype))) for a in arrays]
    for p in ps[:3]:
        p.grad = p.detach() * 2
    return ps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("call", [
    lambda u, ps: u.clip_grad_norm_(ps, 1.5), lambda u, ps: u.clip_grad_norm_(ps, 1e3),
    lambda u, ps: u.clip_grad_norm_(ps, 2.0, 1.0), lambda u, ps: u.clip_grad_norm_(ps, 2, "inf"),
    lambda u, ps: u.clip_grad_norm_(ps, 2.0, 3.5), lambda u, ps: u.clip_grad_norm_(ps[0], 0.5),
    lambda u, ps: u.clip_grad_value_(ps, 1.25),
    lambda u, ps: u.clip_grads_with_norm_(ps, 0.7, u.get_total_norm([p.grad for p in ps[:3]])),
])
def test_clipping(call, dtype):
    results = []
    for m in (fw, torch):
        ps = gradients(m, dtype)
        norm = call(m.nn.utils, ps)
        assert ps[3].grad is None
        results.append([np.asarray(x.detach().numpy()) for x in
                        [p.grad for p in ps[:3]] + ([] if norm is None else [norm])])
    for x, y in zip(*results, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-6 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("name", ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
                                  "get_total_norm"])
def test_signatures_of_clipping(name):
    same_signature(*(getattr(m.nn.utils, name) for m in (fw, torch)))


# ---- averages
def models():
    torch.manual_seed(0)
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    mine = fw.nn.Sequential(fw.nn.Linear(3, 4), fw.nn.Linear(4, 2))
    mine.load_state_dict({k: v.numpy() for k, v in other.state_dict().items()})
    return mine, other


AVERAGES = {
    "even": lambda u: {},
    "ema": lambda u: {"avg_fn": u.get_ema_avg_fn(0.7)},
    "swa": lambda u: {"avg_fn": u.get_swa_avg_fn()},
    "ema of all": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.7)},
    "swa of all": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn(), "use_buffers": True},
    "own": lambda u: {"avg_fn": lambda mean, now, count: mean * 0.25 + now * 0.75},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_of_a_model(name):
    mine, other = models()
    ours = fw.optim.swa_utils.AveragedModel(mine, **AVERAGES[name](fw.optim.swa_utils))
    theirs = torch.optim.swa_utils.AveragedModel(other, **AVERAGES[name](torch.optim.swa_utils))
    rng = np.random.default_rng(0)
    for _ in range(6):
        for p, q in zip(mine.parameters(), other.parameters()):
            value = rng.standard_normal(p.shape).astype(np.float32)
            with fw.no_grad(), torch.no_grad():
                p.copy_(fw.tensor(value))
                q.copy_(torch.from_numpy(value))
        ours.update_parameters(mine)
        theirs.update_parameters(other)
        x = rng.standard_normal((5, 3)).astype(np.float32)
        np.testing.assert_allclose(ours(fw.tensor(x)).detach().numpy(),
                                   theirs(torch.from_numpy(x)).detach().numpy(), rtol=1e-5,
                                   atol=1e-6)
    state = {k: v.numpy() for k, v in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    for key, value in ours.state_dict().items():
        assert value.dtype == state[key].dtype
        np.testing.assert_allclose(value.numpy(), state[key], rtol=1e-5, atol=1e-6)
