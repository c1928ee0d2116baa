"""Autocast beside PyTorch's on the CPU: dtypes, numbers and gradients of functions and layers.

A row is a function of a library's tensors. It is run with the first tensor in float32 and in the
low dtype, the second one in float32; dtypes must be equal, numbers as near as the dtype allows.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from inputs import path
from parity.sides import OURS, THEIRS

import fusewire as fw

F, TF = fw.nn.functional, torch.nn.functional
LOW = ["bfloat16", "float16"]
BETWEEN = {"bfloat16": 0.04, "float16": 0.005}  # of the largest number: roundings add up
LABELS = np.array([0, 2, 1, 3])


def both(name, *args, **kwargs):
    """nn.functional's `name` of the two tensors that a row gets, and more."""
    return lambda lib, a, b: getattr(lib.F, name)(a, b, *args, **kwargs)


def one(name, *args, **kwargs):
    """The same of the first tensor only."""
    return lambda lib, a, b: getattr(lib.F, name)(a, *args, **kwargs)


class Library:
    def __init__(self, module, functional, side, labels):
        self.m, self.F, self.side, self.labels = module, functional, side, labels


LIBRARIES = (Library(fw, F, OURS, fw.from_numpy(LABELS)),
             Library(torch, TF, THEIRS, torch.from_numpy(LABELS)))

ROWS = {
    # products
    "matmul": lambda lib, a, b: a @ b,
    "matmul, vector": lambda lib, a, b: a @ b[0],
    "matmul, batch": lambda lib, a, b: a[None] @ b,
    "einsum": lambda lib, a, b: lib.m.einsum("ij,kj->ik", a, b),
    "vecdot": lambda lib, a, b: lib.m.linalg.vecdot(a, b),
    "outer": lambda lib, a, b: lib.m.outer(a[0], b[0]),
    "linear": lambda lib, a, b: lib.F.linear(a, b, b[0]),
    "linear, no bias": both("linear"),
    "conv1d": lambda lib, a, b: lib.F.conv1d(a[None], b[:, :, None], b[0]),
    "conv2d": lambda lib, a, b: lib.F.conv2d(a[None, None], b[:2, :2][None, None], b[0, :1]),
    "conv_transpose2d": lambda lib, a, b: lib.F.conv_transpose2d(
        a[None, None], b[:2, :2][None, None], b[0, :1]),
    "attention": lambda lib, a, b: lib.F.scaled_dot_product_attention(a[None], b[None], a[None]),
    "prelu": lambda lib, a, b: lib.F.prelu(a, b[0, :1]),
    # losses and what else is full
    "mse": both("mse_loss"), "l1": both("l1_loss"), "smooth_l1": both("smooth_l1_loss"),
    "huber": both("huber_loss"), "poisson": both("poisson_nll_loss"),
    "kl_div": lambda lib, a, b: lib.F.kl_div(a, b * b),
    "soft_margin": lambda lib, a, b: lib.F.soft_margin_loss(a, b.detach()),
    "hinge": both("hinge_embedding_loss"),
    "margin_ranking": lambda lib, a, b: lib.F.margin_ranking_loss(a, b, b),
    "triplet": lambda lib, a, b: lib.F.triplet_margin_loss(a, b, a * 0.5),
    "cosine_embedding": lambda lib, a, b: lib.F.cosine_embedding_loss(a, b, b[0] * 0 + 1),
    "bce": lambda lib, a, b: lib.F.binary_cross_entropy(a.sigmoid(), b.sigmoid()),
    "bce_with_logits": both("binary_cross_entropy_with_logits"),
    "cross_entropy": lambda lib, a, b: lib.F.cross_entropy(a, lib.labels),
    "cross_entropy, smooth": lambda lib, a, b: lib.F.cross_entropy(
        a, lib.labels, label_smoothing=0.1),
    "cross_entropy, soft": lambda lib, a, b: lib.F.cross_entropy(a, b.softmax(-1)),
    "nll": lambda lib, a, b: lib.F.nll_loss(a, lib.labels),
    "multi_margin": lambda lib, a, b: lib.F.multi_margin_loss(a, lib.labels),
    "gaussian": lambda lib, a, b: lib.F.gaussian_nll_loss(a, b, b * b + 1),
    "prod": lambda lib, a, b: a.prod(),
    "trace": lambda lib, a, b: lib.m.trace(a),
    "quantile": lambda lib, a, b: lib.m.quantile(a, 0.3),
    "inv": lambda lib, a, b: lib.m.linalg.inv(a),
    "solve": lambda lib, a, b: lib.m.linalg.solve(a, b),
    "fft": lambda lib, a, b: lib.m.fft.fft(a),
    "grid_sample": lambda lib, a, b: lib.F.grid_sample(
        a[None, None], b.tanh().reshape(1, 2, 4, 2), align_corners=False),
    # as it comes
    "softmax": one("softmax", -1), "log_softmax": one("log_softmax", -1), "gelu": one("gelu"),
    "relu": one("relu"), "silu": one("silu"), "softplus": one("softplus"),
    "exp": lambda lib, a, b: a.exp(), "log": lambda lib, a, b: (a * a + 1).log(),
    "pow": lambda lib, a, b: (a * a + 1) ** 1.5, "sqrt": lambda lib, a, b: (a * a + 1).sqrt(),
    "tanh": lambda lib, a, b: a.tanh(), "logsumexp": lambda lib, a, b: a.logsumexp(-1),
    "sum": lambda lib, a, b: a.sum(), "mean": lambda lib, a, b: a.mean(),
    "var": lambda lib, a, b: lib.m.var(a, correction=1),
    "norm": lambda lib, a, b: lib.m.linalg.vector_norm(a),
    "layer_norm": one("layer_norm", (4,)),
    "layer_norm, affine": lambda lib, a, b: lib.F.layer_norm(a, (4,), b[0], b[1]),
    "rms_norm": lambda lib, a, b: lib.F.rms_norm(a, (4,), b[0]),
    "group_norm": lambda lib, a, b: lib.F.group_norm(a[None], 2, b[0], b[1]),
    "batch_norm": lambda lib, a, b: lib.F.batch_norm(a, None, None, b[0], b[1], training=True),
    "avg_pool3d": lambda lib, a, b: lib.F.avg_pool3d(a.reshape(1, 1, 4, 2, 2), 2),
    "max_pool2d": lambda lib, a, b: lib.F.max_pool2d(a[None, None], 2),
    "avg_pool2d": lambda lib, a, b: lib.F.avg_pool2d(a[None, None], 2),
    "add": lambda lib, a, b: a + b, "multiply": lambda lib, a, b: a * b,
    "number": lambda lib, a, b: a * 2.5,
    "where": lambda lib, a, b: lib.m.where(a > 0, a, b),
    "stack": lambda lib, a, b: lib.m.stack([a, b]),
    # several together
    "mlp": lambda lib, a, b: lib.F.mse_loss(
        lib.F.linear(lib.F.relu(lib.F.linear(a, b, b[0])), b, b[1]) + a, b),
    "attention by hand": lambda lib, a, b: lib.F.softmax(a @ b.T / 2, -1) @ b,
    "classes": lambda lib, a, b: lib.F.cross_entropy(lib.F.linear(a, b, b[0]), lib.labels),
}


def run(lib, row, low, first, enabled=True):
    """The result, and the gradients by both tensors, of a row."""
    rng = np.random.default_rng(3)
    a, b = (lib.side.tensor(rng.standard_normal((4, 4)).astype(np.float32)) for _ in range(2))
    if first != "float32":
        a = a.to(getattr(lib.m, first))
    a, b = a.requires_grad_(), b.requires_grad_()
    with lib.m.autocast("cpu", dtype=getattr(lib.m, low), enabled=enabled):
        out = lib.side.call(row, lib, a, b)
    found = out
    if lib.side.dtype(out).startswith("complex"):
        found = lib.m.view_as_real(out) if lib.m is torch else lib.m.stack([out.real, out.imag], -1)
    weights = np.random.default_rng(4).standard_normal(tuple(found.shape)).astype(np.float32)
    (found.to(lib.m.float32) * lib.side.tensor(weights)).sum().backward()
    return out, a.grad, b.grad


def as_numbers(lib, x):
    if x is None:
        return None
    wide = x if lib.side.dtype(x).startswith("complex") else x.to(lib.m.float64)
    return np.asarray(lib.side.array(wide))


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("first", ["float32", "low"])
@pytest.mark.parametrize("name", ROWS)
def test_like_pytorch(name, low, first):
    first = low if first == "low" else first
    ours, theirs = (run(lib, ROWS[name], low, first) for lib in LIBRARIES)
    for what, x, y in zip(("result", "first gradient", "second gradient"), ours, theirs):
        assert (x is None) == (y is None), what
        if x is None:
            continue
        assert OURS.dtype(x) == THEIRS.dtype(y), what
        x, y = (as_numbers(lib, t) for lib, t in zip(LIBRARIES, (x, y)))
        between = BETWEEN[low] * max(np.abs(y).max(), 0.1)
        np.testing.assert_allclose(x, y, atol=between, err_msg=what)


LAYERS = {
    "attention": lambda nn: nn.MultiheadAttention(8, 2, batch_first=True),
    "encoder": lambda nn: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
    "lstm": lambda nn: nn.LSTM(8, 6, batch_first=True),
    "rnn": lambda nn: nn.RNN(8, 6),
    "lstm cell": lambda nn: nn.LSTMCell(8, 8),
    "norms": lambda nn: nn.Sequential(nn.BatchNorm1d(5), nn.InstanceNorm1d(5, affine=True),
                                      nn.GroupNorm(5, 5), nn.LayerNorm(8), nn.RMSNorm(8)),
}


def parts(out):
    """The tensors of a layer's result."""
    return [t for part in out for t in parts(part)] if isinstance(out, tuple) else [out]


@pytest.mark.parametrize(("name", "low"), [
    (name, low) for name in LAYERS for low in LOW
    if (name, low) != ("lstm", "float16")])  # which PyTorch has not for every processor
def test_layers_like_pytorch(name, low):
    torch.manual_seed(0)
    theirs, ours = (LAYERS[name](m.nn) for m in (torch, fw))
    ours.load_state_dict({k: v.detach().numpy() for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    results = []
    for lib, layer in zip(LIBRARIES, (ours, theirs)):
        given = lib.side.tensor(x if "cell" not in name else x[0])
        args = (given,) * 3 if name == "attention" else (given,)
        with lib.m.autocast("cpu", dtype=getattr(lib.m, low)):
            outs = parts(lib.side.call(layer, *args))
        sum((t.to(lib.m.float32) ** 2).sum() for t in outs).backward()
        results.append(([lib.side.dtype(t) for t in outs], [as_numbers(lib, t) for t in outs],
                        [lib.side.dtype(p.grad) for p in layer.parameters()],
                        [as_numbers(lib, p.grad) for p in layer.parameters()]))
    for mine, other in zip(*results):
        if isinstance(mine[0], str):
            assert mine == other
            continue
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, atol=BETWEEN[low] * max(np.abs(b).max(), 0.5))


@pytest.mark.parametrize("name", ["autocast.__init__", "autocast.__call__", "custom_fwd",
                                  "custom_bwd", "is_autocast_available", *(
    f"GradScaler.{name}" for name in vars(torch.amp.GradScaler)
    if name == "__init__" or not name.startswith("_"))])
def test_signatures(name):
    mine, other = (inspect.signature(path(m.amp, name)).parameters.values() for m in (fw, torch))
    assert [(p.name, p.default, p.kind) for p in mine] == \
        [(p.name, p.default, p.kind) for p in other]


def layers(lib):
    nn = lib.m.nn
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 16), nn.LayerNorm(16),
                         nn.GELU(), nn.Linear(16, 4))


@pytest.mark.parametrize("low", LOW)
def test_a_model_is_trained_alike(low):
    """Losses of 20 steps with a GradScaler, and the dtype that each layer gives."""
    state, results = None, []
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 2, 8, 8)).astype(np.float32)
    labels = rng.integers(0, 4, 16)
    for lib in LIBRARIES[::-1]:
        torch.manual_seed(0)
        model = layers(lib)
        if state is None:
            state = {k: v.detach().clone().numpy() for k, v in model.state_dict().items()}
        model.load_state_dict(state if lib.m is fw else
                              {k: torch.from_numpy(v) for k, v in state.items()})
        optimizer = lib.m.optim.AdamW(model.parameters(), lr=0.01)
        scaler = lib.m.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=6)
        inputs, target = lib.side.tensor(x), lib.side.tensor(labels)
        losses, scales = [], []
        for _ in range(20):
            optimizer.zero_grad()
            with lib.m.autocast("cpu", dtype=getattr(lib.m, low)):
                dtypes, h = [], inputs
                for layer in model:
                    h = layer(h)
                    dtypes.append(lib.side.dtype(h))
                loss = lib.F.cross_entropy(h, target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
            scales.append(scaler.get_scale())
        results.append((losses, scales, dtypes, lib.side.dtype(loss), scaler.state_dict()))
    theirs, ours = results
    np.testing.assert_allclose(ours[0], theirs[0], atol=0.05)
    assert ours[1:] == theirs[1:] and ours[0][-1] < 0.5 * ours[0][0]
