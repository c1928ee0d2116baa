"""Autocast: what runs in 16 bits, what in float32; gradients; threads, transforms, recordings."""

import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire import nn
from fusewire.amp import GradScaler, autocast, custom_bwd, custom_fwd
from fusewire.eager.errors import ArgumentError, GradientError, StateError

F = nn.functional
LOW = [fw.bfloat16, fw.float16]


def numbers(*shape, seed=0, dtype=None):
    return fw.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=dtype or fw.float32)


def dtypes(*tensors):
    return [t.dtype.name for t in tensors]


# ---- which dtype
@pytest.mark.parametrize("low", LOW)
def test_products_are_low_and_all_else_as_it_comes(low):
    x, w = numbers(4, 3), numbers(3, 3, seed=1)
    with autocast("cpu", dtype=low):
        product = x @ w
        assert product.dtype == F.linear(x, w, w[0]).dtype == fw.einsum("ij,jk", x, w).dtype == low
        assert F.conv2d(numbers(1, 2, 5, 5), numbers(3, 2, 2, 2), numbers(3)).dtype == low
        assert x.exp().dtype == x.sum().dtype == fw.float32
        assert product.exp().dtype == product.softmax(-1).dtype == product.sum().dtype == low
    assert_allclose(product.to(fw.float32).numpy(), (x @ w).numpy(), atol=0.05)
    assert (x @ w).dtype == fw.float32


@pytest.mark.parametrize("low", LOW)
def test_losses_and_what_loses_too_much_are_full(low):
    x, y = numbers(4, 3, dtype=low), numbers(4, 3, seed=1, dtype=low)
    labels = fw.tensor([0, 2, 1, 1])
    with autocast("cpu", dtype=low):
        assert dtypes(F.mse_loss(x, y), F.cross_entropy(x, labels), F.nll_loss(x, labels), x.prod(),
                      fw.linalg.inv(x[:3])) == ["float32"] * 5
        assert F.mse_loss(x, y.to(fw.float64)).dtype == fw.float64
    wide = F.mse_loss(x.to(fw.float32), y.to(fw.float32))
    with autocast("cpu", dtype=low):
        assert F.mse_loss(x, y).item() == wide.item()  # computed in float32, not only cast to it


def test_what_combines_is_as_wide_as_the_widest():
    x = numbers(3, 3)
    with autocast("cpu"):
        low = x @ x
        assert dtypes(low + x, low * 2, fw.where(x > 0, low, x), fw.concat([low, x])) == \
            ["float32", "bfloat16", "float32", "float32"]


def test_float64_integers_and_complex_numbers_are_left_alone():
    with autocast("cpu"):
        for dtype in (fw.float64, fw.int64, fw.complex64):
            x = fw.ones(2, 2, dtype=dtype)
            assert (x @ x).dtype == dtype
        assert fw.ones(2, dtype=fw.float64).prod().dtype == fw.float64


def test_nested_and_switched_off():
    x = numbers(2, 2)
    with autocast("cpu", dtype=fw.bfloat16):
        with autocast("cpu", enabled=False):
            assert (x @ x).dtype == fw.float32 and not fw.is_autocast_enabled("cpu")
            with autocast("cpu", dtype=fw.float16):
                assert (x @ x).dtype == fw.float16
        assert (x @ x).dtype == fw.bfloat16
    with pytest.raises(ZeroDivisionError), autocast("cpu"):
        1 / 0  # noqa: B018
    assert (x @ x).dtype == fw.float32 and not fw.is_autocast_enabled()


def test_decorator_and_one_context_used_twice():
    context, x = autocast("cpu", dtype=fw.float16), numbers(2, 2)

    @context
    def product(x):
        """Documented."""
        with context, context:
            return x @ x, fw.get_autocast_dtype("cpu")

    assert dtypes(product(x)[0], x @ x) == ["float16", "float32"]
    assert product(x)[1] == fw.float16 and product.__doc__ == "Documented."


def test_what_is_in_force():
    assert not fw.is_autocast_enabled("cpu") and fw.get_autocast_dtype("cpu") == fw.bfloat16
    assert fw.get_autocast_dtype("cuda") == fw.float16
    with fw.autocast("cpu", dtype=fw.float16):
        assert fw.is_autocast_enabled("cpu") and not fw.is_autocast_enabled("cuda")
        assert fw.get_autocast_dtype("cpu") == fw.float16
    assert fw.amp.is_autocast_available("cpu") and not fw.amp.is_autocast_available("cuda")


def test_what_cannot_be_switched_on():
    x = numbers(2, 2)
    with pytest.warns(UserWarning, match='device "cuda" is not available'), autocast("cuda"):
        assert (x @ x).dtype == fw.float32
    with pytest.warns(UserWarning, match="not in float64"), autocast("cpu", dtype=fw.float64):
        assert (x @ x).dtype == fw.float32
    with pytest.raises(ArgumentError, match="device_type 'tpu' is not known"):
        autocast("tpu")
    with autocast("cuda", enabled=False):  # says nothing
        assert (x @ x).dtype == fw.float32


# ---- gradients
@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_have_the_dtype_of_the_parameters(low, inside):
    model, x = nn.Linear(3, 2), numbers(5, 3)
    F.mse_loss(model(x), numbers(5, 2)).backward()
    wanted = [p.grad.numpy() for p in model.parameters()]
    model.zero_grad()
    with autocast("cpu", dtype=low):
        loss = F.mse_loss(model(x), numbers(5, 2))
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    for p, g in zip(model.parameters(), wanted):
        assert p.grad.dtype == fw.float32
        assert_allclose(p.grad.numpy(), g, atol=0.03)


def test_a_way_back_inside_has_the_dtypes_of_the_way_there():
    """What ran with autocast off does not become low on the way back, though it is on by then."""
    x, w = numbers(3, 3), numbers(3, 3, seed=1).requires_grad_()
    (exact,) = fw.grad((x @ w).square().sum(), w)
    with autocast("cpu"):
        with autocast("cpu", enabled=False):
            loss = (x @ w).square().sum()
        (found,) = fw.grad(loss, w)
    assert found.tolist() == exact.tolist()


@pytest.mark.parametrize("low", LOW)
def test_training_stays_near_that_in_float32(low):
    x, y = numbers(64, 8), numbers(64, 1, seed=1)

    def losses(enabled):
        fw.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        optimizer = fw.optim.AdamW(model.parameters(), lr=0.02)
        found = []
        for _ in range(30):
            optimizer.zero_grad()
            with autocast("cpu", dtype=low, enabled=enabled):
                loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return np.array(found)

    full, mixed = losses(False), losses(True)
    assert full[-1] < 0.6 * full[0] and (full != mixed).any()
    assert_allclose(mixed, full, atol=0.03)


# ---- threads
def test_other_threads_are_left_alone():
    x, found = numbers(2, 2), []

    def other():
        found.append((x @ x).dtype)
        with autocast("cpu", dtype=fw.float16):
            found.append((x @ x).dtype)

    with autocast("cpu"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        found.append((x @ x).dtype)
    assert found == [fw.float32, fw.float16, fw.bfloat16]


def test_threads_may_share_a_context():
    context, x, found = autocast("cpu"), numbers(2, 2), []
    first_is_in, second_is_out = threading.Event(), threading.Event()

    def first():
        with autocast("cpu", dtype=fw.float16):
            with context:
                first_is_in.set()
                second_is_out.wait(10)
            found.append((x @ x).dtype)

    thread = threading.Thread(target=first)
    thread.start()
    first_is_in.wait(10)
    with context:
        pass
    found.append((x @ x).dtype)
    second_is_out.set()
    thread.join()
    assert found == [fw.float32, fw.float16]


# ---- with transforms and checkpoints
def test_with_vmap_around_and_inside():
    x, w = numbers(4, 3, 3), numbers(3, 3, seed=1)

    def inside(a):
        with autocast("cpu"):
            return a @ w

    with autocast("cpu"):
        plain, around = x @ w, fw.func.vmap(lambda a: a @ w)(x)
    for found in (around, fw.func.vmap(inside)(x)):
        assert found.dtype == fw.bfloat16
        assert_allclose(found.to(fw.float32).numpy(), plain.to(fw.float32).numpy(), atol=0.05)


def test_with_transforms_of_derivatives():
    x, w = numbers(3, 3), numbers(3, 3, seed=1)

    def loss(w):
        with autocast("cpu"):
            return F.mse_loss(x @ w, x)

    w2 = w.detach().requires_grad_()
    loss(w2).backward()
    with autocast("cpu"):
        around = fw.func.grad(lambda w: F.mse_loss(x @ w, x))(w)
    for g in (fw.func.grad(loss)(w), around):
        assert g.dtype == fw.float32
        assert_allclose(g.numpy(), w2.grad.numpy(), rtol=1e-6)
    value, tangent = fw.func.jvp(loss, (w,), (x,))
    assert dtypes(value, tangent) == ["float32"] * 2
    assert_allclose(tangent.item(), (w2.grad * x).sum().item(), atol=0.03)
    each = fw.func.vmap(fw.func.grad(loss))(fw.stack([w, w]))
    assert each.dtype == fw.float32
    assert_allclose(each[1].numpy(), w2.grad.numpy(), atol=0.02)


@pytest.mark.parametrize("around", [False, True])
def test_a_checkpoint_runs_again_under_the_same_autocast(around):
    model, x = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), numbers(5, 3)

    def run(x):
        with autocast("cpu", enabled=not around or fw.is_autocast_enabled()):
            return model(x)

    def gradients(call):
        model.zero_grad()
        with autocast("cpu", enabled=around):
            out = call(x)
        assert out.dtype == fw.bfloat16
        out.to(fw.float32).sum().backward()
        return [p.grad.tolist() for p in model.parameters()]

    assert gradients(lambda x: fw.utils.checkpoint.checkpoint(run, x)) == gradients(run)


def test_functions_of_your_own():
    seen = []

    class Product(fw.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu")
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            seen.append((g @ w.T).dtype.name)
            return (g @ w.T).to(fw.float32), (x.T @ g).to(fw.float32)

    class Wide(Product):
        forward = staticmethod(custom_fwd(lambda ctx, x, w: Product.forward(ctx, x, w),
                                          device_type="cpu", cast_inputs=fw.float32))

    x, w = numbers(3, 3).requires_grad_(), numbers(3, 3, seed=1).requires_grad_()
    with autocast("cpu"):
        out = Product.apply(x, w)
    out.to(fw.float32).sum().backward()
    assert out.dtype == fw.bfloat16 and seen == ["bfloat16"] and x.grad.dtype == fw.float32
    with autocast("cpu"):
        assert Wide.apply(x.to(fw.float16), w).dtype == fw.float32
    assert Wide.apply(x, w).dtype == fw.float32


# ---- recorded and compiled. What computes in 16 bits has no code: NumPy does that part.
@pytest.mark.parametrize("low", LOW)
def test_inside_of_a_compiled_function(low):
    x, w = numbers(6, 3), numbers(3, 3, seed=1)

    def function(x, w):
        with autocast("cpu", dtype=low):
            product = x @ w
            return product, F.mse_loss(product, x), product.sum()

    compiled = fw.compile(function, fullgraph=True)
    for _ in range(3):
        product, loss, total = compiled(x, w)
        wanted = function(x, w)
        assert dtypes(product, loss, total) == [low.name, "float32", low.name]
        assert product.tolist() == wanted[0].tolist() and total.item() == wanted[2].item()
        assert_allclose(loss.numpy(), wanted[1].numpy(), rtol=1e-6)
    assert compiled.stats.recordings == 1 and compiled.stats.replays == 2


def test_what_runs_in_bfloat16_is_native_code():
    @fw.compile(fullgraph=True)
    def product(x):
        with autocast("cpu"):
            return x @ x

    for _ in range(3):
        product(numbers(3, 3))
    assert product.stats.replays == 2
    assert "not native" not in product.explain()


def test_around_a_compiled_function_no_recording_is_used_for_another_autocast():
    x = numbers(3, 3)
    compiled = fw.compile(lambda x: (x @ x, (x @ x).prod()), fullgraph=True)
    for _ in range(3):
        for dtype in (None, fw.bfloat16, fw.float16):
            with autocast("cpu", dtype=dtype, enabled=dtype is not None):
                product, other = compiled(x)
            assert product.dtype == (dtype or fw.float32) and other.dtype == fw.float32
    assert compiled.stats.recordings == 3 and compiled.stats.replays == 6
    assert "autocast is off" in compiled.misses[0]


def test_what_is_compiled_inside_of_an_autocast_keeps_its_dtypes():
    """Ops made while code is generated are not cast: what ran with it off stays in float32."""
    x, w = numbers(2, 3, 6, 6), numbers(4, 3, 3, 3, seed=1)

    @fw.compile(fullgraph=True)
    def function(x):
        with autocast("cpu", enabled=False):
            return F.softmax(F.conv2d(x, w), -1)

    plain = F.softmax(F.conv2d(x, w), -1).numpy()
    with autocast("cpu"):
        for _ in range(3):
            out = function(x)
            assert out.dtype == fw.float32
            assert_allclose(out.numpy(), plain, rtol=1e-5)
    assert function.stats.recordings == 1 and function.stats.replays == 2


@pytest.mark.parametrize("low", [None, fw.float16])
def test_a_compiled_training_step(low):
    x, y = numbers(32, 8), numbers(32, 1, seed=1)

    def run(compile):
        fw.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizer, scaler = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), \
            GradScaler("cpu", init_scale=256.0, growth_interval=4)

        def step(x, y):
            optimizer.zero_grad()
            with autocast("cpu", dtype=low, enabled=low is not None):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        step = fw.compile(step, fullgraph=True) if compile else step
        bad = fw.full((32, 8), float("inf"))
        losses = [step(bad if i == 5 else x, y).item() for i in range(12)]
        return losses, scaler.get_scale(), step

    (eager, scale, _), (compiled, same, step) = run(False), run(True)
    assert scale == same == 512.0  # grown after 4 good steps, down by the bad one, and up again
    assert_allclose(compiled, eager, atol=5e-3)
    assert np.isnan(eager[5]) and np.isfinite(np.delete(eager, 5)).all()
    assert step.stats.recordings <= 2 and step.stats.replays >= 10, step.misses


def test_a_compiled_step_sees_settings_that_change():
    p = nn.Parameter(fw.ones(2))
    sgd, scaler = fw.optim.SGD([p], lr=0.0), GradScaler("cpu", init_scale=8.0, growth_interval=1)
    context = autocast("cpu", enabled=False)

    @fw.compile(fullgraph=True)
    def step(x):
        sgd.zero_grad()
        with context:
            loss = (p * x).sum()
        scaler.scale(loss).backward()
        scaler.step(sgd)
        scaler.update()

    for _ in range(3):
        step(fw.ones(2))
    assert scaler.get_scale() == 64 and step.stats.replays >= 1
    scaler.set_growth_factor(4.0)
    step(fw.ones(2))
    assert scaler.get_scale() == 256
    scaler.set_backoff_factor(0.25)
    step(fw.tensor([float("inf"), 1.0]))
    assert scaler.get_scale() == 64 and p.tolist() == [1, 1]


# ---- GradScaler
def scaled(**options):
    p = nn.Parameter(fw.ones(2))
    return p, fw.optim.SGD([p], lr=1.0), GradScaler("cpu", **options)


def give(p, *values):
    p.grad = fw.tensor(values)


def test_the_scale_grows_and_shrinks():
    p, optimizer, scaler = scaled(init_scale=8.0, growth_interval=2)
    seen = []
    for value in (1.0, 1.0, 1.0, float("nan"), 1.0, float("inf"), 1.0, 1.0):
        give(p, 8 * value, 0.0)
        scaler.step(optimizer)
        scaler.update()
        seen.append(scaler.get_scale())
    assert seen == [8, 16, 16, 8, 8, 4, 4, 8]
    assert p[1].item() == 1 and np.isfinite(p[0].item())


def test_gradients_are_divided_and_bad_steps_left_out():
    p, optimizer, scaler = scaled(init_scale=4.0)
    (scaler.scale((p * p).sum() / 2)).backward()
    assert p.grad.tolist() == [4, 4]
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1, 1]
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0, 0]
    give(p, 1.0, -float("inf"))
    assert scaler.step(optimizer) is None
    assert p.tolist() == [0, 0]


def test_several_losses_and_optimizers():
    (p, first, scaler), (q, second, _) = scaled(init_scale=2.0), scaled()
    a, (b, c) = scaler.scale([fw.tensor(1.0), (fw.tensor([1.0]), fw.tensor(3.0))])
    assert [a.item(), b.item(), c.item()] == [2, 2, 6] and isinstance(scaler.scale((a,)), tuple)
    assert [t.item() for t in scaler.scale(t for t in (a, c))] == [4, 12]
    half = scaler.scale(fw.ones(2, dtype=fw.float16))
    assert half.dtype == fw.float16 and half.tolist() == [2, 2]
    give(p, float("inf"), 0.0)
    give(q, 2.0, 0.0)
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert p.tolist() == [1, 1] and q.tolist() == [0, 1] and scaler.get_scale() == 1.0


def test_saving_and_loading():
    p, optimizer, scaler = scaled(init_scale=8.0, growth_interval=3)
    for _ in range(2):
        give(p, 1.0, 1.0)
        scaler.step(optimizer)
        scaler.update()
    state = scaler.state_dict()
    assert state == {"scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5,
                     "growth_interval": 3, "_growth_tracker": 2}
    _, _, other = scaled()
    other.load_state_dict(state)
    give(p, 1.0, 1.0)
    other.step(optimizer)
    other.update()
    assert other.get_scale() == 16.0
    other.update(32.0)
    assert other.get_scale() == 32.0 and other.get_growth_interval() == 3
    with pytest.raises(StateError, match="the state is empty"):
        other.load_state_dict({})


def test_switched_off():
    p, optimizer, scaler = scaled(enabled=False)
    loss = (p * p).sum()
    assert scaler.scale(loss) is loss and not scaler.is_enabled() and scaler.state_dict() == {}
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [-1, -1] and scaler.get_scale() == 1.0
    with pytest.warns(UserWarning, match='device "cuda" is not available'):
        assert not GradScaler().is_enabled()


def test_calls_in_the_wrong_order():
    p, optimizer, scaler = scaled()
    with pytest.raises(GradientError, match="no gradients were checked"):
        scaler.update()
    with pytest.raises(GradientError, match="no parameter of the optimizer has a gradient"):
        scaler.step(optimizer)
    give(p, 1.0, 1.0)
    scaler.unscale_(optimizer)
    with pytest.raises(GradientError, match="are unscaled already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(GradientError, match="has stepped already"):
        scaler.step(optimizer)
    with pytest.raises(GradientError, match="takes no closure"):
        scaler.step(optimizer, closure=lambda: None)
    scaler.update()
    q = nn.Parameter(fw.ones(2, dtype=fw.float16))
    q.grad = fw.ones(2, dtype=fw.float16)
    with pytest.raises(ArgumentError, match="a gradient is float16"):
        scaler.step(fw.optim.SGD([q]))


@pytest.mark.parametrize(("options", "text"), [
    ({"growth_factor": 1.0}, "growth_factor must be above 1"),
    ({"backoff_factor": 1.5}, "backoff_factor must be below 1"),
])
def test_settings_that_make_no_sense(options, text):
    with pytest.raises(ArgumentError, match=text):
        GradScaler("cpu", **options)


def test_nothing_is_said_without_need():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GradScaler("cuda", enabled=False)
        autocast("cpu", dtype=fw.bfloat16, cache_enabled=False)


@pytest.mark.parametrize("low", LOW)
def test_attention_by_hand(low):
    """An autocast stays on, whatever sets an interpreter beneath one of its operations."""
    q, k = numbers(4, 4), numbers(4, 4, seed=1)
    with autocast("cpu", dtype=low):
        weights = F.softmax(q @ k.T / 2, -1)
        assert [x.dtype for x in (q @ k.T, weights, weights @ k, q @ k)] == [low] * 4
