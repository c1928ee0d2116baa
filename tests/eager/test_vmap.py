"""vmap: axes, nesting, decisions, random numbers, in-place changes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import DTypeError, FusewireError, GradientError, ShapeError
from fusewire.func import grad, jvp, vmap


def numbers(*shape: int, seed: int = 0) -> Any:
    return fw.tensor(np.random.default_rng(seed).standard_normal(shape))


def same(a: Any, b: Any) -> None:
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


def looped(f: Any, *xs: Any) -> Any:
    """What vmap(f)(*xs) is, by definition."""
    return fw.stack([f(*example) for example in zip(*xs)])


# ---- axes
@pytest.mark.parametrize("in_axis", [0, 1, 2, -1])
@pytest.mark.parametrize("out_axis", [0, 1, -1])
def test_axes_of_arguments_and_results(in_axis: int, out_axis: int) -> None:
    x = numbers(2, 3, 4)
    out = vmap(lambda a: a * 2, in_axes=in_axis, out_axes=out_axis)(x)
    expected = np.moveaxis(x.numpy() * 2, in_axis, out_axis)
    np.testing.assert_array_equal(out.numpy(), expected)


def test_axes_of_a_tree_of_arguments() -> None:
    x, y, z = numbers(3, 2), numbers(2, 3), numbers(2)

    def f(pair: Any, options: Any) -> Any:
        return {"sum": pair[0] + pair[1], "shared": options["z"] * 1, "none": None}

    out = vmap(f, in_axes=((0, 1), {"z": None}))((x, y), {"z": z})
    same(out["sum"], x + y.T)
    same(out["shared"], fw.stack([z, z, z]))
    assert out["none"] is None


def test_a_result_that_all_examples_share() -> None:
    x, w = numbers(3, 2), numbers(4)
    out, shared = vmap(lambda a: (a * 2, w * 2), out_axes=(0, None))(x)
    same(out, x * 2)
    same(shared, w * 2)
    with pytest.raises(ShapeError, match="out_axes=None differs between the examples"):
        vmap(lambda a: a, out_axes=None)(x)


def test_the_result_may_be_a_view() -> None:
    before = numbers(3)
    out = vmap(lambda a: a)(x := before + 0)
    out += 1
    same(out, x)
    same(x, before + 1)


def test_keyword_arguments_are_shared() -> None:
    x, w = numbers(3, 2), numbers(2)
    same(vmap(lambda a, w: a @ w)(x, w=w), x @ w)


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 9])
def test_chunks(chunk_size: int) -> None:
    x = numbers(5, 3)
    same(vmap(lambda a: a.sum() if a[0] > 0 else a.max(), chunk_size=chunk_size)(x),
         looped(lambda a: a.sum() if a[0] > 0 else a.max(), x))


def test_no_examples() -> None:
    assert vmap(lambda a: (a @ a).exp())(fw.ones(0, 3)).shape == (0,)
    with pytest.raises(ShapeError, match="the batch has no examples"):
        vmap(lambda a: a if a > 0 else -a)(fw.ones(0))


# ---- nesting
def test_nested() -> None:
    x, y = numbers(4, 3), numbers(5, 3)
    table = vmap(lambda a: vmap(lambda b: (a * b).sum())(y))(x)
    same(table, x @ y.T)
    same(vmap(vmap(fw.dot if hasattr(fw, "dot") else fw.matmul, (None, 0)), (0, None))(x, y),
         x @ y.T)


def test_values_of_two_levels_meet_in_one_op() -> None:
    x, y = numbers(4, 3), numbers(5)
    out = vmap(lambda a: vmap(lambda b: fw.concat([a, b[None]]) * b, out_axes=1)(y))(x)
    expected = np.stack([np.stack([np.append(a, b) * b for b in y.numpy()], 1) for a in x.numpy()])
    np.testing.assert_allclose(out.numpy(), expected)


def test_indices_of_each_example() -> None:
    x, i = numbers(3, 4, 5), fw.tensor([[1, 3], [0, 0], [2, -1]])
    same(vmap(lambda a, k: a[k])(x, i), looped(lambda a, k: a[k], x, i))
    same(vmap(lambda a, k: a[:, k])(x, i), looped(lambda a, k: a[:, k], x, i))
    same(vmap(lambda a, k: a[k, k])(x, i), looped(lambda a, k: a[k, k], x, i))
    slope = grad(lambda z: vmap(lambda a, k: a[k].exp().sum())(z, i).sum())(x)
    same(slope, grad(lambda z: looped(lambda a, k: a[k].exp().sum(), z, i).sum())(x))


def test_an_index_of_one_example_does_not_reach_into_the_next() -> None:
    x = numbers(3, 4, 2)
    for index in ([4, 0, 1], [0, -5, 0]):
        with pytest.raises(IndexError):
            vmap(lambda a, k: a[k])(x, fw.tensor(index))
        with pytest.raises(IndexError):
            vmap(lambda a, k: a[k, 0])(x, fw.tensor(index))
        with pytest.raises(IndexError):
            vmap(lambda a, k: fw.take(a, k[None], axis=0))(x, fw.tensor(index))


def test_small_indices_into_many_examples() -> None:
    x = numbers(300, 2)
    i = fw.tensor(np.arange(300) % 2, dtype=fw.int8)
    same(vmap(lambda a, k: a[k])(x, i), x[fw.arange(300), i.astype(fw.int64)])


# ---- decisions
def halved(x: Any) -> Any:
    count = 0
    while x > 1:
        x = x / 2
        count += 1
    return x * count if count % 2 else x - count


def test_each_path_runs_once() -> None:
    x, calls = numbers(50), []

    def f(a: Any) -> Any:
        calls.append(1)
        return a * 2 if a > 0 else a.exp()

    same(vmap(f)(x), looped(f, x))
    assert len(calls) == 2 + 50


def test_while_with_different_trip_counts() -> None:
    x = fw.tensor([1.0, 9.0, 3.0, 100.0, 2.0], dtype=fw.float64)
    same(vmap(halved)(x), looped(halved, x))
    same(vmap(grad(halved))(x), looped(grad(halved), x))
    same(grad(lambda z: vmap(halved)(z).sum())(x), looped(grad(halved), x))
    same(vmap(lambda a: jvp(halved, (a,), (a,))[1])(x), x * looped(grad(halved), x))


def test_values_from_before_a_decision_are_narrowed() -> None:
    x = numbers(6, 3)

    def f(a: Any) -> Any:
        before, total = a.exp(), a.sum()
        kept = [before, {"t": total}]
        if total > 0:
            before = before * 2
        if before[0] > 1:
            return before + kept[1]["t"]
        return kept[0] - a

    same(vmap(f)(x), looped(f, x))
    same(grad(lambda z: (vmap(f)(z) ** 2).sum())(x), grad(lambda z: (looped(f, z) ** 2).sum())(x))


def test_narrowing_inside_of_no_grad_keeps_the_gradient() -> None:
    def f(a: Any) -> Any:
        doubled = a * 2
        if a > 0:
            with fw.no_grad():
                float((doubled * 1).sum())  # the first use after the decision
            return doubled * 3
        return doubled

    x = fw.tensor([1.0, -1.0])
    assert grad(lambda z: vmap(f)(z).sum())(x).tolist() == [6, 2]


def test_decisions_under_two_levels() -> None:
    x = fw.tensor([1.0, 7.0, 30.0], dtype=fw.float64)
    y = fw.tensor([2.0, 3.0, 1.5, 5.0], dtype=fw.float64)

    def f(a: Any, b: Any) -> Any:
        return a + halved(a) if a > b else b * halved(b)

    table = vmap(lambda a: vmap(lambda b: f(a, b))(y))(x)
    same(table, fw.stack([fw.stack([f(a, b) for b in y]) for a in x]))


def test_numbers_and_masks_are_decisions_too() -> None:
    x = fw.tensor([3.0, 1.0, 3.0, 2.0])
    same(vmap(lambda a: fw.arange(int(a)).sum() + a)(x), fw.tensor([6.0, 1.0, 6.0, 3.0]))
    y = numbers(4, 3)
    same(vmap(lambda a: a[a > 0].sum())(y), looped(lambda a: a[a > 0].sum(), y))
    same(vmap(lambda a: fw.tensor(np.sort(a.numpy())))(y), fw.tensor(np.sort(y.numpy())))
    assert vmap(lambda a: fw.tensor(a.tolist()))(y).shape == y.shape


def test_paths_must_agree() -> None:
    x = fw.tensor([1.0, -1.0, 2.0])
    with pytest.raises(ShapeError, match=r"examples \[0, 2\] and \[1\] decide differently"):
        vmap(lambda a: a if a > 0 else a[None])(x)
    with pytest.raises(ShapeError, match="decide differently and give"):
        vmap(lambda a: a if a > 0 else (a, a))(x)


# ---- state
def test_tensors_made_inside_can_be_changed_in_place() -> None:
    def f(a: Any) -> Any:
        out = fw.zeros(3, dtype=a.dtype)
        out[1] = a
        out += a
        return out

    x = numbers(4)
    same(vmap(f)(x), looped(f, x))


def test_a_tensor_that_outlives_its_vmap_says_so() -> None:
    kept = []
    vmap(lambda a: kept.append(a) or a)(fw.ones(3))
    for use in (lambda a: a + 1, lambda a: a.exp(), lambda a: a == a, lambda a: a.sum(),
                lambda a: fw.stack([a, a]), lambda a: a.item(), lambda a: a.numpy(),
                lambda a: vmap(lambda b: b + a)(fw.ones(2)), lambda a: fw.ones(2) * a):
        with pytest.raises(GradientError, match="computed inside of vmap is used outside"):
            use(kept[0])
    assert "ended" in repr(kept[0])


def test_repr_shows_the_batch() -> None:
    shown = []
    vmap(lambda a: shown.append(f"{a}") or a)(fw.tensor([1.0, 2.0]))
    assert shown == ["batched(tensor([1., 2.]))"]


# ---- random numbers
def test_random_numbers() -> None:
    x = fw.zeros(4)
    with pytest.raises(GradientError, match="draws random numbers"):
        vmap(lambda a: a + fw.rand())(x)
    one = vmap(lambda a: a + fw.rand(), randomness="same")(x)
    assert len(set(one.tolist())) == 1
    each = vmap(lambda a: a + fw.rand(), randomness="different")(x)
    assert len(set(each.tolist())) == 4
    assert vmap(lambda a: a + fw.rand(), randomness="same", chunk_size=1)(x).std() == 0


def test_decisions_by_random_numbers_are_not_drawn_again() -> None:
    fw.manual_seed(0)

    def flips(a: Any) -> Any:
        count = 0
        while fw.rand() < 0.5:
            count += 1
        return a + count

    counts = vmap(flips, randomness="different")(fw.zeros(4000)).numpy()
    shares = [np.mean(counts == k) for k in range(3)]
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.125], atol=0.03)


def test_random_numbers_with_parameters_of_each_example() -> None:
    rates = fw.tensor([100.0, 100.0, 1000.0])
    with pytest.raises(GradientError, match="draws random numbers"):
        vmap(fw.random.poisson)(rates)
    one = vmap(fw.random.poisson, randomness="same")(rates)
    assert one[0] == one[1]
    each = vmap(lambda r: fw.random.poisson(r, (50,)), randomness="different")(rates)
    assert not (each[0] == each[1]).all()
    np.testing.assert_allclose(each.mean(1).numpy(), rates.numpy(), rtol=0.1)


def test_decisions_by_counts_are_not_drawn_again() -> None:
    fw.manual_seed(0)

    def least(rate: Any) -> Any:
        count = fw.random.poisson(rate)
        return rate * 0 if count == 0 else rate * 0 + 1 if count == 1 else rate * 0 + 2

    found = vmap(least, randomness="different")(fw.ones(4000)).numpy()
    shares = [np.mean(found == k) for k in range(3)]
    np.testing.assert_allclose(shares, [0.368, 0.368, 0.264], atol=0.03)


def test_random_numbers_of_nested_levels() -> None:
    def table(outer: str, inner: str) -> Any:
        return vmap(lambda a: vmap(lambda b: b + fw.rand(), randomness=inner)(a),
                    randomness=outer)(fw.zeros(3, 4)).numpy()

    assert len(np.unique(table("different", "different"))) == 12
    assert len(np.unique(table("same", "different"))) == 4
    assert len(np.unique(table("different", "same"))) == 3
    assert len(np.unique(table("same", "same"))) == 1


def test_generators_of_each_example() -> None:
    def f(seed: Any) -> Any:
        own = fw.Generator()
        own.set_state(seed)
        return fw.rand(3, generator=own)

    seeds = fw.tensor([[1, 0], [2, 0], [1, 0]])
    same(vmap(f)(seeds), looped(f, seeds))


# ---- compiled
def test_inside_of_a_compiled_function() -> None:
    w = numbers(3, 2)

    @fw.compile
    def f(x: Any) -> Any:
        return vmap(grad(lambda a: (a @ w).tanh().sum()))(x)

    x = numbers(4, 3)
    expected = looped(grad(lambda a: (a @ w).tanh().sum()), x)
    for _ in range(3):
        np.testing.assert_allclose(f(x).numpy(), expected.numpy(), rtol=1e-9)
    assert f.stats.replays == 2


# ---- errors
@pytest.mark.parametrize(("call", "words"), [
    (lambda: vmap(fw.add)(fw.ones(2), fw.ones(3)), "argument 0 has 2 examples, argument 1 3"),
    (lambda: vmap(lambda p: p["a"])({"a": fw.ones(2), "b": fw.ones(3)}),
     r"argument 0\['a'\] has 2 examples, argument 0\['b'\] 3"),
    (lambda: vmap(fw.exp)(fw.tensor(1.0)), "argument 0 is a 0-d tensor"),
    (lambda: vmap(fw.exp)(2.0), "argument 0 is float, which has no axis"),
    (lambda: vmap(fw.exp, in_axes=3)(fw.ones(2)), "argument 0: axis 3 is out of range"),
    (lambda: vmap(fw.exp, in_axes=None)(fw.ones(2)), "no argument has an axis of examples"),
    (lambda: vmap(fw.exp, in_axes=(0, 0))(fw.ones(2)), "does not have the structure"),
    (lambda: vmap(fw.exp, out_axes=(0, 0))(fw.ones(2)), "stands where there is one tensor"),
    (lambda: vmap(lambda a: 1.0)(fw.ones(2)), "the result is float, not a tensor"),
    (lambda: vmap(fw.exp, chunk_size=0)(fw.ones(2)), "chunk_size is 1 or more"),
    (lambda: vmap(lambda a: a + fw.ones(4))(fw.ones(2, 3)), r"shapes \(3,\) and \(4,\)"),
])
def test_errors(call: Any, words: str) -> None:
    with pytest.raises(FusewireError, match=words) as caught:
        call()
    assert caught.value.help


def test_unknown_randomness() -> None:
    with pytest.raises(DTypeError, match="randomness='often'"):
        vmap(fw.exp, randomness="often")
