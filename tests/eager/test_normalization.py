"""Normalization against its formulas, running statistics, and what errors say."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire.eager import nn
from fusewire.eager.errors import ArgumentError, ShapeError, StateError

F = nn.functional


def values(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(tensor, expected, rtol=1e-5, atol=1e-6):
    assert_allclose(tensor.detach().numpy(), expected, rtol=rtol, atol=atol)


def normalized(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def with_values(layer):
    """`layer` with weight and bias that are not 1 and 0."""
    for i, p in enumerate(layer.parameters()):
        with fw.no_grad():
            p.copy_(fw.tensor(values(*p.shape, seed=i + 5)))
    return layer


def parts(layer):
    return layer.weight.detach().numpy(), layer.bias.detach().numpy()


# ---- over the last axes
def test_layer_norm():
    x, layer = values(2, 3, 4), with_values(nn.LayerNorm((3, 4)))
    w, b = parts(layer)
    close(layer(fw.tensor(x)), normalized(x, (1, 2)) * w + b)
    close(nn.LayerNorm(4, elementwise_affine=False)(fw.tensor(x)), normalized(x, (2,)))
    assert nn.LayerNorm(4, bias=False).bias is None


def test_rms_norm():
    x, layer = values(2, 3, 4), with_values(nn.RMSNorm(4, eps=0.1))
    root = np.sqrt((x * x).mean(-1, keepdims=True) + 0.1)
    close(layer(fw.tensor(x)), x / root * layer.weight.detach().numpy())
    tiny = fw.tensor([1e-3, -1e-3])  # eps=None: the precision of the dtype
    close(F.rms_norm(tiny, (2,)), np.array([1, -1]) * 1e-3 / np.sqrt(1e-6 + 2.0 ** -23))


def test_variances_of_numbers_far_from_0_are_exact():
    x = values(3, 64, dtype=np.float64) + 1000
    close(F.layer_norm(fw.tensor(x.astype(np.float32)), (64,)), normalized(x, (1,)), atol=2e-3)


@pytest.mark.parametrize("dtype", [fw.float16, fw.bfloat16])
def test_small_floats_are_normalized_in_float32(dtype):
    x, layer = fw.tensor(values(2, 64) * 300).astype(dtype), nn.LayerNorm(64)
    for y in (layer(x), nn.RMSNorm(64)(x), nn.BatchNorm1d(64, eps=1.0)(x)):
        assert y.dtype == dtype, "with parameters in float32"
        assert np.isfinite(y.astype(fw.float32).detach().numpy()).all()


# ---- within each sample
def test_group_norm():
    x, layer = values(2, 6, 3), with_values(nn.GroupNorm(2, 6, eps=0.1))
    w, b = parts(layer)
    expected = normalized(x.reshape(2, 2, -1), (2,), 0.1).reshape(x.shape)
    close(layer(fw.tensor(x)), expected * w[:, None] + b[:, None])


def test_instance_norm():
    x, layer = values(2, 3, 4, 5), with_values(nn.InstanceNorm2d(3, affine=True))
    w, b = (v[:, None, None] for v in parts(layer))
    close(layer(fw.tensor(x)), normalized(x, (2, 3)) * w + b)
    close(layer(fw.tensor(x[0])), normalized(x, (2, 3))[0] * w + b)
    assert list(nn.InstanceNorm2d(3).state_dict()) == []


def test_instance_norm_with_running_statistics():
    x, layer = values(2, 3, 8), nn.InstanceNorm1d(3, track_running_stats=True)
    layer(fw.tensor(x))
    close(layer.running_mean, 0.1 * x.mean(2).mean(0))
    close(layer.running_var, 0.9 + 0.1 * x.var(2, ddof=1).mean(0))
    assert layer.num_batches_tracked.item() == 0, "as PyTorch leaves it"
    mean, var = (t.numpy()[:, None] for t in (layer.running_mean, layer.running_var))
    close(layer.eval()(fw.tensor(x)), (x - mean) / np.sqrt(var + 1e-5))


def test_local_response_norm():
    x = values(2, 5, 3)
    padded = np.pad(x * x, ((0, 0), (1, 1), (0, 0)))
    sums = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    close(nn.LocalResponseNorm(3, alpha=0.6, beta=0.5, k=2.0)(fw.tensor(x)),
          x / np.sqrt(2 + 0.2 * sums))


def test_normalize():
    x = values(3, 4)
    close(F.normalize(fw.tensor(x)), x / np.sqrt((x * x).sum(1, keepdims=True)))
    close(F.normalize(fw.tensor(x), p=1.0, dim=0), x / abs(x).sum(0))
    assert F.normalize(fw.zeros(1, 3)).tolist() == [[0, 0, 0]]
    out = fw.zeros(3, 4)
    assert F.normalize(fw.tensor(x), out=out) is out and out.numpy().any()


# ---- over the batch
@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 2), (2, 3, 2, 3, 2)])
def test_batch_norm_in_training_and_in_use(shape):
    x, axes = values(*shape), (0, *range(2, len(shape)))
    layer = with_values(getattr(nn, f"BatchNorm{max(1, len(shape) - 2)}d")(3, eps=0.1))
    along = (3, *(1,) * (len(shape) - 2))
    w, b = (v.reshape(along) for v in parts(layer))
    close(layer(fw.tensor(x)), normalized(x, axes, 0.1) * w + b)
    close(layer.running_mean, 0.1 * x.mean(axes))
    close(layer.running_var, 0.9 + 0.1 * x.var(axes, ddof=1))
    assert layer.num_batches_tracked.tolist() == 1 and layer.running_mean.is_leaf
    mean, var = (t.numpy().reshape(along) for t in (layer.running_mean, layer.running_var))
    close(layer.eval()(fw.tensor(x)), (x - mean) / np.sqrt(var + 0.1) * w + b)
    assert layer.num_batches_tracked.item() == 1


def test_without_momentum_statistics_are_those_of_all_batches():
    layer, batches = nn.BatchNorm1d(2, momentum=None), values(3, 8, 2)
    for batch in batches:
        layer(fw.tensor(batch))
    close(layer.running_mean, batches.mean((0, 1)))
    close(layer.running_var, batches.var(1, ddof=1).mean(0))
    layer.reset_running_stats()
    assert layer.num_batches_tracked.item() == 0 and layer.running_var.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_average_over_all_batches_keeps_the_dtype_of_the_statistics(dtype):
    layer, batches = nn.BatchNorm1d(2, momentum=None, dtype=dtype), values(3, 8, 2, dtype=dtype)
    for batch in batches:
        layer(fw.tensor(batch))
    assert layer.running_mean.dtype == dtype
    precision = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-2}[dtype]
    close(layer.running_mean, batches.astype(float).mean((0, 1)), rtol=precision, atol=precision)


def test_without_running_statistics_the_batch_is_used_always():
    x, layer = values(4, 3), nn.BatchNorm1d(3, affine=False, track_running_stats=False).eval()
    close(layer(fw.tensor(x)), normalized(x, (0,)))
    assert list(layer.state_dict()) == [] and layer.running_mean is None


def test_names_and_dtypes_of_the_state():
    state = nn.BatchNorm2d(3, dtype=fw.float64).state_dict()
    assert {k: (v.shape, v.dtype.name) for k, v in state.items()} == {
        "weight": ((3,), "float64"), "bias": ((3,), "float64"),
        "running_mean": ((3,), "float64"), "running_var": ((3,), "float64"),
        "num_batches_tracked": ((), "int64")}
    assert list(nn.BatchNorm2d(3, bias=False).state_dict())[:1] == ["weight"]


def test_older_checkpoints_do_not_count_batches():
    layer = nn.BatchNorm1d(2)
    state = {k: v for k, v in layer.state_dict().items() if k != "num_batches_tracked"}
    assert layer.load_state_dict(state) == ([], [])
    with pytest.raises(StateError, match="missing: running_mean"):
        layer.load_state_dict({k: v for k, v in state.items() if k != "running_mean"})


def test_convert_sync_batchnorm():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3, momentum=0.4)))
    before, x = copy.deepcopy(model).eval(), fw.tensor(values(4, 2))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model).eval()
    assert isinstance(model[1][0], nn.SyncBatchNorm) and model[1][0].momentum == 0.4
    close(model(x), before(x).detach().numpy())
    assert list(model.state_dict()) == list(before.state_dict())


# ---- recorded
def test_a_compiled_training_step_moves_the_running_statistics():
    def trained(compiled):
        fw.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                              nn.BatchNorm1d(16, momentum=None), nn.Linear(16, 2))
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = fw.compile(step) if compiled else step
        losses = [run(fw.tensor(values(5, 1, 4, 4, seed=i))).item() for i in range(4)]
        if compiled:
            assert (run.stats.recordings, run.stats.replays) == (1, 3)
        return losses, model

    (eager_losses, eager), (losses, model) = trained(False), trained(True)
    assert_allclose(losses, eager_losses, rtol=1e-5)
    for (name, a), b in zip(model.named_buffers(), eager.buffers(), strict=True):
        close(a, b.numpy())
        assert a.item() == 4 if "num" in name else a.numpy().any()


# ---- errors
def test_wrong_channels():
    with pytest.raises(ShapeError, match=r"batch_norm: weight \(3,\) does not fit the input "
                                         r"\(2, 4, 4, 3\), which has 4 channels in axis 1"
                                         r"[\s\S]*look to be last"):
        nn.BatchNorm2d(3)(fw.ones(2, 4, 4, 3))
    with pytest.raises(ShapeError, match=r"BatchNorm2d: takes \(n, 3, \.\.\.\) with 4 axes, got "
                                         r"shape \(2, 3\)"):
        nn.BatchNorm2d(3)(fw.ones(2, 3))
    with pytest.raises(ShapeError, match="with 2 axes or 3 axes, got shape"):
        nn.InstanceNorm1d(3)(fw.ones(2, 3, 4, 4))
    with pytest.raises(ShapeError, match="GroupNorm: 6 channels do not make 4 groups"):
        nn.GroupNorm(4, 6)
    with pytest.raises(ShapeError, match=r"group_norm: 5 channels of the input \(2, 5\) "):
        nn.GroupNorm(2, 6)(fw.ones(2, 5))


def test_one_value_has_no_variance():
    for layer, x in ((nn.BatchNorm1d(3), fw.ones(1, 3)), (nn.InstanceNorm1d(3), fw.ones(2, 3, 1)),
                     (nn.GroupNorm(3, 3), fw.ones(1, 3))):
        with pytest.raises(ShapeError, match=r"has one value per [\s\S]*drop_last=True"):
            layer(x)
    assert nn.BatchNorm1d(3).eval()(fw.ones(1, 3)).shape == (1, 3)


def test_wrong_normalized_shape():
    with pytest.raises(ShapeError, match=r"normalized_shape \(3,\) does not fit the input "
                                         r"\(2, 3, 4\): axis 2 is 4, not 3[\s\S]*permute_dims"):
        nn.LayerNorm(3)(fw.ones(2, 3, 4))
    with pytest.raises(ShapeError, match=r"must name 1 to 1 of the last axes"):
        nn.RMSNorm((2, 3))(fw.ones(3))
    with pytest.raises(ShapeError, match=r"must have the normalized_shape \(4,\), got \(3,\)"):
        F.layer_norm(fw.ones(2, 4), (4,), fw.ones(3))
    with pytest.raises(ArgumentError, match="needs running_mean and running_var"):
        F.batch_norm(fw.ones(2, 3), None, None)


def test_errors_name_the_layer():
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(5))
    with pytest.raises(ShapeError, match=r"in layer: 1 \(BatchNorm1d\)"):
        model(fw.ones(3, 2))
