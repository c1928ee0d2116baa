"""Compares eager and compiled functions in random walks over sizes, with backward outside of them.

Each call has other sizes, other results in the loss, and other tensors that require gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

Sizes = Mapping[str, int]
MODES = ("plain", "plain", "plain", "twice", "again", "grad", "create", "no_grad", "detached",
         "hook", "fresh")


@dataclass(frozen=True)
class Family:
    """A function with its parameters and inputs.

    `make`: returns the function, and the tensors that it reads beside its arguments
    `inputs`: the axes of each input; letters are dynamic sizes, a first `*3` means integers below 3
    `least`: the minimum of all sizes
    """

    name: str
    make: Callable[[], tuple[Callable[..., Any], list[fw.Tensor]]]
    inputs: tuple[str, ...]
    least: int = 0

    @property
    def letters(self) -> list[str]:
        """The names of the dynamic sizes."""
        return sorted({a for text in self.inputs for a in text.split() if a.isalpha()})


FAMILIES: list[Family] = []


def family(*inputs: str, least: int = 0) -> Callable[[Any], Any]:
    """A decorator that adds a maker of (function, parameters) as a family with its name."""
    def add(make: Any) -> Any:
        FAMILIES.append(Family(make.__name__, make, inputs, least))
        return make
    return add


def _plain(name: str, fn: Callable[..., Any], *inputs: str, least: int = 0) -> None:
    """Adds a family without parameters."""
    FAMILIES.append(Family(name, lambda: (fn, []), inputs, least))


_plain("sin", lambda x: x.sin(), "n m")
_plain("formula", lambda x, y: (x * y + y.tanh()) * x.exp(), "n m", "n m")
_plain("broadcast", lambda x, y: (x + y).sin() * y, "n m", "m")
_plain("outer_broadcast", lambda x, y: (x * y).tanh(), "n 1", "1 m")
_plain("or_sums", lambda x, y: (x + y).sin() if x.shape == y.shape else x.sum() * y.sum(), "n", "m")
_plain("sum_mean", lambda x: (x.sum(0) * 2, x.mean(1) if x.shape[1] else x.sum(1)), "n m")
_plain("max", lambda x: (x.max(1), x.min(0)), "n m", least=1)
_plain("var_norm", lambda x: (x.var(1), x.square().sum().sqrt()), "n m", least=2)
_plain("matmul", lambda a, b: (a @ b).tanh(), "n k", "k m")
_plain("batched_matmul", lambda a, b: a @ b + a.sum(), "b n k", "b k m")
_plain("einsum", lambda a, b: fw.einsum("ij,kj->ik", a, b).square(), "n m", "k m")
_plain("softmax", lambda x: (x.softmax(1), F.log_softmax(x, 0)), "n m", least=1)
_plain("cross_entropy", lambda x, t: F.cross_entropy(x, t), "n 4", "*4 n", least=1)
_plain("several", lambda x, y: (x.sin(), y.cos(), x.sum() * y.sum(), (x.sum() + y).exp()),
       "n", "m k")
_plain("chained", lambda x: (h := x.sin(), (h * x).cos(), (h * h).sum()), "n m")
_plain("sizes", lambda x: x * x.shape[0] + x.sum() / (x.shape[1] + 1), "n m")
_plain("ones_like_other", lambda x, y: fw.ones(x.shape[0]) * y.sum(), "n", "m")
_plain("concat", lambda x, y: fw.concat([x, y * 2], 0).sin(), "n m", "k m")
_plain("slices", lambda x: x[1:] * x[:-1], "n m", least=1)
_plain("halves", lambda x: x[:x.shape[0] // 2].sin().sum() + x[x.shape[0] // 2:].cos().sum(),
       "n m")
_plain("roll_flip", lambda x: x.flip(0) * x.roll(1, 0), "n m", least=1)
_plain("reshape", lambda x: (x.reshape(-1).sin(), x.T.reshape(x.shape[0] * x.shape[1])), "n m",
       least=1)
_plain("cumsum", lambda x: x.cumsum(1) * 2, "n m")
_plain("pad", lambda x: F.pad(x, (1, 2)) * F.pad(x, (2, 1)), "n m")
_plain("gather", lambda x, i: (x[i], fw.take(x, i, axis=1)), "3 3", "*3 n")
_plain("embedding", lambda w, i: F.embedding(i, w).tanh(), "5 d", "*5 n t")
_plain("mask", lambda x: x[x > 0].square().sum(), "n m")
_plain("where", lambda x, y: fw.where(x > y, x * y, y.sin()), "n m", "n 1")
_plain("sort", lambda x: fw.sort(x, axis=1) * fw.arange(x.shape[1]), "n m")
_plain("topk", lambda x: fw.topk(x, 2)[0], "n m", least=2)
_plain("item", lambda x: x * x.mean().item(), "n m", least=1)
_plain("conv", lambda x, w: F.conv2d(x, w, padding=1).tanh(), "n 2 h k", "3 2 3 3", least=1)
_plain("pool", lambda x: F.max_pool2d(x, 2), "n 2 h k", least=2)
_plain("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), "b 2 n 4", "b 2 m 4",
       "b 2 m 4", least=1)
_plain("itself", lambda x, y: (x, y.T, x.sum()), "n", "m k")
_plain("one_of_two", lambda x, y: x.sin() if x.shape[0] < y.shape[0] else y.cos(), "n", "m")


@family("n m")
def branch() -> Any:
    return lambda x: x.sin() if x.sum() > 0 else (x * x).exp(), []


@family("n m", "n")
def branch_reads_another() -> Any:
    def f(x: fw.Tensor, y: fw.Tensor) -> Any:
        if x.sum() > 0:
            return x.sin(), fw.ones(y.shape[0])
        return y.cos() * x.sum(), y.shape[0] * x
    return f, []


@family("n m")
def halving() -> Any:
    def f(x: fw.Tensor) -> Any:
        while x.square().sum() > 1:
            x = x / 2
        return x.sin()
    return f, []


@family("n 5")
def perceptron() -> Any:
    fw.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    return lambda x: model(x), list(model.parameters())


@family("n t 4", least=1)
def transformer() -> Any:
    fw.manual_seed(1)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return lambda x: layer(x), list(layer.parameters())


@family("*6 n t")
def embedding_and_head() -> Any:
    fw.manual_seed(1)
    table, head = nn.Embedding(6, 4), nn.Linear(4, 6)
    return lambda rows: head(table(rows)), [table.weight, *head.parameters()]


@family("*6 n t", "*6 n t", least=1)
def language_model() -> Any:
    fw.manual_seed(1)
    table, head = nn.Embedding(6, 4), nn.Linear(4, 6)

    def f(rows: fw.Tensor, targets: fw.Tensor) -> Any:
        out = head(table(rows))
        return F.cross_entropy(out.reshape(-1, 6), targets.reshape(-1)), out
    return f, [table.weight, *head.parameters()]


@family("n 3", "n 4")
def cell() -> Any:
    fw.manual_seed(1)
    made = nn.LSTMCell(3, 4)
    return lambda x, h: made(x, (h, h * 2)), list(made.parameters())


@family("n 3 h k", least=1)
def image_model() -> Any:
    fw.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    return lambda x: model(x), [*model.parameters(), *model.buffers()]


@family("n m")
def running_total() -> Any:
    total = fw.zeros(())

    def f(x: fw.Tensor) -> Any:
        total.add_(x.detach().sum())
        return x * total
    return f, [total]


@family("n m")
def dropout() -> Any:
    return lambda x: F.dropout(x, 0.5) * 2, []


@family("n", "m")
def weight_outside() -> Any:
    weight = fw.from_numpy(np.float32([0.5, -1.5])).requires_grad_()
    return lambda x, y: (x.sum() * weight, (y.sum() * weight).sin().sum() * x), [weight]


# ---- walks


def next_sizes(random: Any, family: Family, past_sizes: list[Sizes]) -> Sizes:
    """The sizes of the next call: the last ones with one or all changed, or earlier ones."""
    fresh = {a: int(random.choice([0, 1, 2, 3, 4, 5, 7], p=[.05, .1, .2, .2, .2, .15, .1]))
             for a in family.letters}
    kind = random.integers(6) if past_sizes else 5
    sizes = dict(past_sizes[-1]) if past_sizes else fresh
    if kind in (0, 1) and sizes:  # one axis
        letter = str(random.choice(family.letters))
        sizes[letter] = fresh[letter]
    elif kind == 2:
        sizes = dict(past_sizes[random.integers(len(past_sizes))])
    elif kind == 3 and past_sizes:  # all axes are of one size
        sizes = dict.fromkeys(family.letters, int(random.integers(1, 6)))
    elif kind == 5:
        sizes = fresh
    return {a: max(n, family.least) for a, n in sizes.items()}


def inputs_of(random: Any, family: Family, sizes: Sizes) -> list[fw.Tensor]:
    """The tensors of a call; most of those of floats require gradients."""
    tensors = []
    for text in family.inputs:
        first, *rest = text.split()
        below = int(first[1:]) if first[0] == "*" else 0
        shape = [sizes[a] if a.isalpha() else int(a) for a in (rest if below else [first, *rest])]
        if below:
            tensors.append(fw.from_numpy(random.integers(0, below, shape)))
        else:
            array = random.standard_normal(shape).astype(np.float32)
            tensors.append(fw.from_numpy(array).requires_grad_(random.random() < 0.85))
    return tensors


def weighted(random: Any, results: list[fw.Tensor]) -> fw.Tensor | None:
    """A weighted sum of some of the results; None if it has no gradient."""
    chosen = [r for r in results if random.random() < 0.6] or results[:1]
    total: Any = None
    for r in chosen:
        weights = fw.from_numpy(random.standard_normal(r.shape).astype(np.float32))
        if r.dtype.kind == "f":
            term = (r * weights).sum()
            total = term if total is None else total + term
    return total if total is not None and total.requires_grad else None


def step(fn: Any, outside: list[fw.Tensor], family: Family, sizes: Sizes, seed: int) -> list[Any]:
    """The values and gradients of one call and its backward, in order."""
    random = np.random.default_rng(seed)
    inputs, mode = inputs_of(random, family, sizes), str(random.choice(MODES))
    if mode == "no_grad":
        with fw.no_grad():
            return [mode, *tensors_in(fn(*inputs))]
    if mode == "detached":
        inputs = [x.detach() for x in inputs]
    results = tensors_in(fn(*inputs))
    observed = [mode, *[r.detach() for r in results]]
    if mode == "hook" and results[0].requires_grad:
        results[0].register_hook(lambda g: g * 2)
    loss = weighted(random, results)
    leaves = [x for x in (*inputs, *outside) if x.requires_grad]
    if loss is not None:
        observed += go_back(mode, loss, leaves, lambda: weighted(random, results))
    observed += [None if x.grad is None else x.grad.detach() for x in (*inputs, *outside)]
    if mode == "fresh":
        for x in outside:
            x.grad = None
    return [*observed, *[x.detach() for x in outside]]


def go_back(mode: str, loss: fw.Tensor, all_leaves: list[fw.Tensor], second_loss: Any) -> list[Any]:
    """The results of fw.grad. Runs backward according to `mode`."""
    if mode in ("grad", "create"):
        leaves = all_leaves[::2]
        gradients = list(fw.grad(loss, leaves, create_graph=mode == "create", allow_unused=True))
        if mode == "create":
            slopes = [g.square().sum() for g in gradients if g is not None and g.requires_grad]
            if slopes:
                sum(slopes[1:], slopes[0]).backward()
        return [None if g is None else g.detach() for g in gradients]
    loss.backward(retain_graph=mode in ("twice", "again"))
    if mode == "twice":
        loss.backward()
    if mode == "again":  # from other results of the call
        second = second_loss()
        if second is not None:
            second.backward()
    return []


def tensors_in(results: Any) -> list[fw.Tensor]:
    """The tensors of a result."""
    if isinstance(results, fw.Tensor):
        return [results]
    return [t for part in results for t in tensors_in(part)]


def walk(family: Family, seed: int, calls: int, wrap: Any) -> tuple[str, Any]:
    """The first difference of compiled and eager in a walk, or "", and the statistics of the
    compiled function."""
    eager, eager_outside = family.make()
    original, compiled_outside = family.make()
    compiled, random = wrap(original), np.random.default_rng(seed)
    past_sizes: list[Sizes] = []
    for k in range(calls):
        past_sizes.append(next_sizes(random, family, past_sizes))
        seeds = int(random.integers(1 << 30))
        runs = [attempt(f, outside, family, past_sizes[-1], seeds)
                for f, outside in ((eager, eager_outside), (compiled, compiled_outside))]
        difference = different(*runs)
        if difference:
            where = f"{family.name}, seed {seed}, call {k}, sizes {past_sizes}"
            return f"{where}: {difference}", compiled.stats
    return "", compiled.stats


def attempt(fn: Any, outside: list[fw.Tensor], family: Family, sizes: Sizes, seed: int
            ) -> list[Any]:
    """The values and gradients of a step, or its error."""
    fw.manual_seed(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing
            return step(fn, outside, family, sizes, seed)
    except (fw.FusewireError, ValueError, IndexError, ZeroDivisionError) as error:
        return [f"{type(error).__name__}: {error}"]


def different(expected: list[Any], got: list[Any]) -> str:
    """The first difference of two runs, or ""."""
    if len(got) != len(expected):
        return f"eager sees {expected[:1]}, compiled {got[:1]}"
    for i, (a, b) in enumerate(zip(expected, got)):
        if isinstance(a, str) or a is None or b is None or isinstance(b, str):
            if (a is None) != (b is None) or kind_of(a) != kind_of(b):
                return f"value {i}: eager sees {a}, compiled {b}"
        elif not near(np.asarray(a._data), np.asarray(b._data)):
            return f"value {i} of {expected[0]}: eager sees {a}, compiled {b}"
    return ""


def kind_of(observed: Any) -> Any:
    """The name of an error, or a mode."""
    return observed.split(":")[0] if isinstance(observed, str) else observed


def near(a: Any, b: Any) -> bool:
    """True if arrays are equal up to rounding."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    scale = float(np.nanmax(np.abs(a[np.isfinite(a)]), initial=1.0))
    return bool(np.allclose(a, b, 2e-3, 2e-5 * scale, equal_nan=True))
