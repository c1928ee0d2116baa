"""Schedulers: rates of groups, in place; order of steps; saving; and steps that are compiled.

Their numbers are compared with PyTorch's in tests/parity/test_schedulers_torch.py.
"""

import copy
import pickle
import warnings

import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import ArgumentError, DTypeError, StateError
from fusewire.optim import lr_scheduler as plans


def optimizer(make=fw.optim.SGD, **options):
    groups = [{"params": [nn.Parameter(fw.ones(2))]},
              {"params": [nn.Parameter(fw.ones(3))], "lr": 0.5}]
    return make(groups, lr=1.0, **options)


def rates(of, scheduler, count=1):
    """The rate of the first group at each of the next epochs."""
    found = []
    for _ in range(count):
        found.append(scheduler.get_last_lr()[0])
        step(of)
        scheduler.step()
    return found


def step(of):
    for group in of.param_groups:
        for p in group["params"]:
            p.grad = fw.ones(*p.shape)
    of.step()


# ---- numbers that can be told without another library
def test_each_group_has_its_rate():
    sgd = optimizer()
    scheduler = plans.StepLR(sgd, step_size=2, gamma=0.5)
    assert rates(sgd, scheduler, 5) == [1, 1, 0.5, 0.5, 0.25]
    assert scheduler.get_last_lr() == [0.25, 0.125] and scheduler.base_lrs == [1.0, 0.5]
    assert [g["initial_lr"] for g in sgd.param_groups] == [1.0, 0.5]
    assert scheduler.last_epoch == 5


def test_rates_are_exact_in_double_precision():
    sgd = fw.optim.SGD([nn.Parameter(fw.ones(1))], lr=0.1)
    scheduler = plans.ExponentialLR(sgd, gamma=0.9)
    wanted = 0.1
    for rate in rates(sgd, scheduler, 20):
        assert rate == wanted
        wanted *= 0.9


@pytest.mark.parametrize(("make", "wanted"), [
    (lambda o: plans.LambdaLR(o, lambda epoch: 1 / (1 + epoch)), [1, 1 / 2, 1 / 3, 1 / 4]),
    (lambda o: plans.MultiplicativeLR(o, [lambda epoch: 0.5, lambda epoch: 1]), [1, .5, .25, .125]),
    (lambda o: plans.MultiStepLR(o, [1, 3], 0.5), [1, 0.5, 0.5, 0.25]),
    (lambda o: plans.ConstantLR(o, 0.5, 2), [0.5, 0.5, 1, 1]),
    (lambda o: plans.LinearLR(o, 0.25, 1.0, 3), [0.25, 0.5, 0.75, 1]),
    (lambda o: plans.PolynomialLR(o, 4), [1, 0.75, 0.5, 0.25]),
    (lambda o: plans.CosineAnnealingLR(o, 2, 0.5), [1, 0.75, 0.5, 0.75]),
    (lambda o: plans.CosineAnnealingWarmRestarts(o, 2), [1, 0.5, 1, 0.5]),
    (lambda o: plans.CyclicLR(o, 1, 2, 2, cycle_momentum=False), [1, 1.5, 2, 1.5]),
    (lambda o: plans.OneCycleLR(o, 1.0, 5, pct_start=0.5, anneal_strategy="linear", div_factor=4,
                                cycle_momentum=False, final_div_factor=1), [.25, .75, .85, .55]),
])
def test_first_epochs(make, wanted):
    sgd = optimizer()
    assert rates(sgd, make(sgd), 4) == pytest.approx(wanted, rel=1e-12)


def test_a_scheduler_of_your_own():
    class Halved(plans.LRScheduler):
        def get_lr(self):
            return [base * 0.5 ** self.last_epoch for base in self.base_lrs]

    class Scaled(plans.LRScheduler):
        def get_lr(self):
            return [group["lr"] * 0.5 for group in self.optimizer.param_groups]  # tensors

    sgd = optimizer()
    assert rates(sgd, Halved(sgd), 3) == [1, 0.5, 0.25]
    sgd = optimizer()
    scheduler = Scaled(sgd)
    assert rates(sgd, scheduler, 3) == [0.5, 0.25, 0.125] and type(scheduler.get_last_lr()) is list


def test_schedulers_of_one_optimizer_compose():
    sgd = optimizer()
    first, second = plans.ExponentialLR(sgd, 0.5), plans.StepLR(sgd, 2, 0.1)
    for _ in range(2):
        step(sgd)
        first.step()
        second.step()
    assert second.get_last_lr() == pytest.approx([0.025, 0.0125])


# ---- rates of groups
def test_a_rate_that_was_read_stays_what_it_was():
    sgd = optimizer()
    before = [group["lr"] for group in sgd.param_groups]
    scheduler = plans.ExponentialLR(sgd, 0.5)
    rates(sgd, scheduler)
    assert before == [1.0, 0.5] and [group["lr"] for group in sgd.param_groups] == [0.5, 0.25]


def test_a_rate_that_was_assigned_goes_on_from_there():
    sgd = optimizer()
    scheduler = plans.ExponentialLR(sgd, 0.5)
    sgd.param_groups[0]["lr"] = 8.0
    rates(sgd, scheduler)
    assert scheduler.get_last_lr() == [4.0, 0.25]


@pytest.mark.parametrize("make", [fw.optim.SGD, fw.optim.AdamW])
def test_momentum_goes_the_other_way(make):
    of = optimizer(make)
    scheduler = plans.OneCycleLR(of, 1.0, total_steps=10, pct_start=0.6, base_momentum=0.5,
                                 max_momentum=0.9)

    def momentum():
        group = of.param_groups[0]
        return float(group["momentum"] if make is fw.optim.SGD else group["betas"][0])

    found = [momentum()]
    for _ in range(9):
        step(of)
        scheduler.step()
        found.append(momentum())
    assert found[0] == 0.9 and found[5] == min(found) == 0.5 and found[9] == pytest.approx(0.9)


# ---- the order of steps
def test_a_step_before_that_of_the_optimizer_warns():
    scheduler = plans.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match="before optimizer.step"):
        scheduler.step()
    scheduler.step()  # once is enough


def test_a_step_without_gradients_is_one():
    sgd = optimizer()
    scheduler = plans.StepLR(sgd, 1)
    sgd.step()
    scheduler.step()


def test_no_warning_for_the_right_order():
    sgd = optimizer()
    scheduler, other = plans.StepLR(sgd, 1), plans.StepLR(sgd, 1)
    step(sgd)
    scheduler.step()
    other.step()
    plans.StepLR(sgd, 1).step()  # the optimizer has stepped already


def test_the_step_of_a_compiled_function_is_seen():
    """Of each optimizer that is passed to it: a recording is that of one optimizer's state."""
    def training(of, p, x):
        p.grad = x * 2
        of.step()

    run = fw.compile(training)
    for _ in range(3):
        p = nn.Parameter(fw.ones(100))
        sgd = fw.optim.SGD([p], lr=1.0)
        scheduler = plans.StepLR(sgd, 1)
        run(sgd, p, fw.ones(100))
        scheduler.step()
    assert run.stats.recordings == 3


def test_get_lr_is_for_step():
    scheduler = plans.ExponentialLR(optimizer(), 0.5)
    with pytest.warns(UserWarning, match=r"get_last_lr\(\) gives the last one"):
        scheduler.get_lr()


def test_a_jump_to_an_epoch():
    sgd = optimizer()
    scheduler = plans.ExponentialLR(sgd, 0.5)
    step(sgd)
    with pytest.warns(UserWarning, match=r"step\(epoch\) is deprecated"):
        scheduler.step(3)
    assert scheduler.get_last_lr() == [0.125, 0.0625] and scheduler.last_epoch == 3
    restarts = plans.CosineAnnealingWarmRestarts(sgd, 4)
    restarts.step(4.5)
    assert restarts.T_cur == 0.5 and restarts.last_epoch == 4
    with pytest.raises(ArgumentError, match="epoch must be at least 0"):
        restarts.step(-1)


# ---- saving
MAKERS = [
    lambda o: plans.CosineAnnealingLR(o, 7), lambda o: plans.LambdaLR(o, lambda e: 0.9 ** e),
    lambda o: plans.OneCycleLR(o, 1.0, 20), lambda o: plans.CyclicLR(o, 0.1, 1.0, 3),
    lambda o: plans.SequentialLR(o, [plans.ConstantLR(o), plans.ExponentialLR(o, 0.9)], [3]),
    lambda o: plans.ChainedScheduler([plans.ConstantLR(o), plans.ExponentialLR(o, 0.9)]),
    lambda o: plans.CosineAnnealingWarmRestarts(o, 3, 2),
]


@pytest.mark.parametrize("make", MAKERS)
def test_training_goes_on_after_loading(make):
    first = optimizer(momentum=0.9)
    scheduler = make(first)
    rates(first, scheduler, 5)
    saved = copy.deepcopy((first.state_dict(), scheduler.state_dict()))
    wanted = rates(first, scheduler, 6)
    later = optimizer(momentum=0.9)
    second = make(later)
    later.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    step(later)
    assert rates(later, second, 6) == wanted


def test_a_state_dict_holds_no_functions_but_their_attributes():
    class Power:
        base = 0.5

        def __call__(self, epoch):
            return self.base ** epoch

    power = Power()
    power.base = 0.25
    sgd = optimizer()
    state = plans.LambdaLR(sgd, [power, lambda epoch: 1.0]).state_dict()
    assert state["lr_lambdas"] == [{"base": 0.25}, None] and "optimizer" not in state
    other = plans.LambdaLR(sgd, [Power(), lambda epoch: 1.0])
    other.load_state_dict(pickle.loads(pickle.dumps(state)))
    assert other.lr_lambdas[0].base == 0.25 and "lr_lambdas" in state
    assert plans.CyclicLR(sgd, 0.1, 1, scale_fn=power).state_dict()["_scale_fn_custom"] == \
        {"base": 0.25}


# ---- a metric
def test_the_rate_goes_down_where_the_loss_does_not():
    sgd = optimizer()
    scheduler = plans.ReduceLROnPlateau(sgd, factor=0.5, patience=1, cooldown=1, min_lr=[0.2, 0.3])
    found = []
    for loss in (3.0, fw.tensor(2.0), 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0):
        scheduler.step(loss)
        found.append(scheduler.get_last_lr()[0])
    assert found == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2]
    assert scheduler.get_last_lr()[1] == 0.3 and scheduler.best == 2.0


def test_a_group_added_later():
    sgd = optimizer()
    scheduler = plans.ReduceLROnPlateau(sgd, patience=0, min_lr=0.25)
    listed = plans.ReduceLROnPlateau(sgd, patience=0, min_lr=[0.25, 0.25])
    sgd.add_param_group({"params": [nn.Parameter(fw.ones(1))], "lr": 0.5})
    for _ in range(2):
        scheduler.step(1.0)
    assert scheduler.get_last_lr() == [0.25, 0.25, 0.25]
    listed.step(1.0)
    with pytest.raises(StateError, match="min_lr is given for 2 groups, the optimizer now has 3"):
        listed.step(1.0)


# ---- compiled
SCHEDULED = [
    lambda o: plans.CosineAnnealingLR(o, 20), lambda o: plans.OneCycleLR(o, 0.2, 20),
    lambda o: plans.CyclicLR(o, 0.01, 0.1, 4),
    lambda o: plans.SequentialLR(o, [plans.LinearLR(o), plans.ExponentialLR(o, 0.9)], [5]),
]
OPTIMIZERS = [lambda p: fw.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: fw.optim.AdamW(p, lr=0.1)]


def trained(make, plan, compiled):
    fw.manual_seed(0)
    model = nn.Linear(4, 1)
    x, y = fw.rand(16, 4), fw.rand(16, 1)
    of = make(model.parameters())
    scheduler = plan(of)

    def training(x, y):
        of.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        of.step()
        return loss

    run = fw.compile(training) if compiled else training
    losses = []
    for _ in range(15):
        losses.append(run(x, y).item())
        scheduler.step()
    return losses, scheduler.get_last_lr(), run


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("plan", SCHEDULED)
def test_a_compiled_step_takes_rates_and_momentum_as_they_come(plan, make):
    losses, last, _ = trained(make, plan, False)
    found, same, run = trained(make, plan, True)
    assert found == pytest.approx(losses, rel=1e-4, abs=1e-6) and same == last
    assert run.stats.recordings <= 2 and run.stats.replays >= 13, run.misses


def test_a_scheduler_inside_of_a_compiled_function_runs_eagerly():
    p = nn.Parameter(fw.ones(2))
    sgd = fw.optim.SGD([p], lr=1.0)
    scheduler = plans.ExponentialLR(sgd, 0.5)

    @fw.compile
    def run(x):
        p.grad = x * 1
        sgd.step()
        scheduler.step()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            run(fw.ones(2))
    assert scheduler.get_last_lr() == [0.5 ** 6] and p.tolist() == [1 - (2 - 0.5 ** 5)] * 2


# ---- errors
@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda o: plans.StepLR(None, 2), DTypeError, "StepLR: NoneType is not an Optimizer"),
    (lambda o: plans.ReduceLROnPlateau(3), DTypeError, "int is not an Optimizer"),
    (lambda o: plans.StepLR(o, 0), ArgumentError, "StepLR: step_size must be at least 1, got 0"),
    (lambda o: plans.CosineAnnealingLR(o, 0), ArgumentError, "T_max must be at least 1, got 0"),
    (lambda o: plans.StepLR(o, 2, last_epoch=3), StateError, "group 0 has no 'initial_lr'"),
    (lambda o: plans.LambdaLR(o, [abs]), ArgumentError, "has 1 functions, the optimizer 2 groups"),
    (lambda o: plans.MultiplicativeLR(o, 0.9), DTypeError, "function of the epoch, not float"),
    (lambda o: plans.ConstantLR(o, 2.0), ArgumentError, "factor must be between 0 and 1"),
    (lambda o: plans.LinearLR(o, 0.0), ArgumentError, "start_factor must be above 0"),
    (lambda o: plans.CosineAnnealingWarmRestarts(o, 0), ArgumentError, "T_0 must be at least 1"),
    (lambda o: plans.CosineAnnealingWarmRestarts(o, 1.5), ArgumentError,
     "T_0 must be a whole number"),
    (lambda o: plans.CyclicLR(o, [1.0], 2.0), ArgumentError, "base_lr has 1 values"),
    (lambda o: plans.CyclicLR(o, 1.0, 2.0, mode="square"), ArgumentError, "mode 'square'"),
    (lambda o: plans.OneCycleLR(o, 1.0), ArgumentError, "number of steps is not known"),
    (lambda o: plans.OneCycleLR(o, 1.0, 0), ArgumentError, "total_steps must be at least 1"),
    (lambda o: plans.OneCycleLR(o, 1.0, 5, pct_start=2.0), ArgumentError, "pct_start must be"),
    (lambda o: plans.OneCycleLR(o, 1.0, 5, anneal_strategy="no"), ArgumentError, "'no' is not"),
    (lambda o: plans.ReduceLROnPlateau(o, factor=1.0), ArgumentError, "factor must be below 1"),
    (lambda o: plans.ReduceLROnPlateau(o, "less"), ArgumentError, "mode 'less' is not known"),
    (lambda o: plans.SequentialLR(o, [], []), ArgumentError, "got no schedulers"),
    (lambda o: plans.SequentialLR(o, [plans.StepLR(o, 1)], [2]), ArgumentError,
     "1 schedulers with 1 milestones"),
    (lambda o: plans.ChainedScheduler([plans.ReduceLROnPlateau(o)]), ArgumentError,
     r"schedulers\[0\] is ReduceLROnPlateau"),
    (lambda o: plans.ChainedScheduler([plans.StepLR(o, 1), plans.StepLR(optimizer(), 1)]),
     ArgumentError, r"schedulers\[1\], StepLR, belongs to another optimizer"),
    (lambda o: plans.ChainedScheduler([3]), DTypeError, "is no scheduler but int"),
    (lambda o: fw.optim.swa_utils.SWALR(o, 0.1, -1), ArgumentError, "anneal_epochs must be"),
])
def test_what_makes_no_sense(make, error, text):
    with pytest.raises(error, match=text):
        make(optimizer())


def test_more_steps_than_a_cycle_has():
    sgd = optimizer()
    scheduler = plans.OneCycleLR(sgd, 1.0, 2)
    rates(sgd, scheduler, 2)
    with pytest.raises(ArgumentError, match="step 3 of 2 in all"):
        scheduler.step()


def test_momentum_needs_an_optimizer_that_has_one():
    of = fw.optim.SGD([nn.Parameter(fw.ones(1))], lr=0.1)
    of.defaults.pop("momentum")
    with pytest.raises(ArgumentError, match="SGD has no momentum and no betas to cycle"):
        plans.CyclicLR(of, 0.1, 1.0)
