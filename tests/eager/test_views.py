"""Tensors share elements as in PyTorch and NumPy: a write to a view changes its base and all views.

Views are those of PyTorch; what it copies is written to as any other tensor.
"""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn

VIEWS: dict[str, Any] = {
    "row": lambda x: x[0], "element": lambda x: x[0, 1, 2], "slice": lambda x: x[:, 1:],
    "step": lambda x: x[::2], "all": lambda x: x[:], "ellipsis": lambda x: x[..., 0],
    "new axis": lambda x: x[None], "tensor index then row": lambda x: x[1][0],
    "reshape": lambda x: x.reshape(4, 6), "same shape": lambda x: x.reshape(2, 3, 4),
    "flatten": lambda x: x.flatten(), "flatten two": lambda x: fw.flatten(x, 0, 1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)), "expand_dims": lambda x: fw.expand_dims(x, 1),
    "squeeze": lambda x: x[:1].squeeze(), "squeeze nothing": lambda x: fw.squeeze(x),
    "permute": lambda x: x.permute_dims(2, 0, 1), "same order": lambda x: x.permute_dims(0, 1, 2),
    "transpose": lambda x: x.transpose(0, 2), "moveaxis": lambda x: fw.moveaxis(x, 0, -1),
    "T": lambda x: x[0].T, "mT": lambda x: x.mT, "mT of T": lambda x: x.mT[0].T,
    "broadcast by 1": lambda x: fw.broadcast_to(x, (1, 2, 3, 4)),
    "same broadcast": lambda x: x.broadcast_to(2, 3, 4),
    "split": lambda x: fw.split(x, 1)[1], "split whole": lambda x: fw.split(x, 2)[0],
    "chunk": lambda x: x.chunk(2, 2)[0], "tensor_split": lambda x: fw.tensor_split(x, 3, 1)[2],
    "unstack": lambda x: fw.unstack(x)[0], "iteration": lambda x: next(iter(x)),
    "diagonal": lambda x: x[0].diagonal(), "unfold": lambda x: x.unfold(2, 2, 2),
    "diagonal of transposed": lambda x: x[0].T.diagonal(1),
    "row by tensor": lambda x: x[fw.tensor(1)],
    "real": lambda x: fw.real(x), "detach": lambda x: x.detach(),
    "data": lambda x: x.data, "to": lambda x: x.to("cpu"),
}
COPIES: dict[str, Any] = {
    "flip": lambda x: fw.flip(x, 0), "roll": lambda x: fw.roll(x, 1), "mask": lambda x: x[x > -1],
    "rows by numbers": lambda x: x[fw.tensor([0, 1])], "take": lambda x: x.take(fw.tensor([1]), 0),
    "gather": lambda x: x.gather(0, fw.zeros((1, 3, 4), dtype=fw.int64)),
    "tile": lambda x: fw.tile(x, (2, 1, 1)), "repeat": lambda x: fw.repeat(x, 2),
    "concat": lambda x: fw.concat([x]), "stack": lambda x: fw.stack([x]),
    "astype": lambda x: x.astype(x.dtype), "to": lambda x: x.to(x.dtype, copy=True),
    "copy": lambda x: fw.asarray(x, copy=True),
    "clip": lambda x: x.clip(), "sum of no axes": lambda x: x.sum(axis=()),
    "plus": lambda x: x + 0, "tensor": lambda x: fw.tensor(x),
    "where": lambda x: fw.where(x > 0, x, x),
    "reshape of turned": lambda x: x.permute_dims(2, 1, 0).reshape(-1),
    "tril": lambda x: fw.tril(x), "sort": lambda x: fw.sort(x),
}


OVERLAPPING: dict[str, Any] = {
    "broadcast": lambda x: fw.broadcast_to(x, (5, 2, 3, 4)),
    "rows of a broadcast": lambda x: fw.broadcast_to(x, (5, 2, 3, 4))[1:3],
    "unfold": lambda x: x.unfold(2, 2, 1),
}


def add(y: Any) -> None:
    y += 1


WRITES: dict[str, Any] = {
    "+=": add, "add_": lambda y: y.add_(1), "mul_": lambda y: y.mul_(2),
    "fill_": lambda y: y.fill_(3),
    "zero_": lambda y: y.zero_(), "copy_": lambda y: y.copy_(fw.zeros(())),
    "setitem": lambda y: y.__setitem__(Ellipsis, 2.0), "normal_": lambda y: y.normal_(),
    "mask": lambda y: y.__setitem__(y == y, 1.0),
}


def start() -> Any:
    return fw.arange(24.0).reshape(2, 3, 4) + 0


def positions(view: Callable[[Any], Any]) -> Any:
    """For each element of a view, its position in the base."""
    return np.array(view(start()).tolist(), int)


def written(view: Callable[[Any], Any], write: Callable[[Any], Any]) -> Any:
    """The base after a write to a view, by positions."""
    flat, at = np.arange(24.0), positions(view)
    part = fw.tensor(flat[at], dtype=fw.float32)
    fw.manual_seed(4)
    write(part)
    flat[at] = part.numpy()
    return flat.reshape(2, 3, 4)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("wrap", [lambda f: f, fw.compile], ids=["eager", "compiled"])
def test_a_write_to_a_view_changes_its_base(view: str, wrap: Any) -> None:
    for name, write in WRITES.items():
        function = wrap(lambda x, write=write: write(VIEWS[view](x)))
        for _ in range(3):
            x = start()
            other, elsewhere = VIEWS[view](x), x[1, 1]
            fw.manual_seed(4)
            function(x)
            expected = written(VIEWS[view], write).astype(np.float32)
            assert np.allclose(x.numpy(), expected, rtol=1e-6), name
            assert (other.numpy() == x.numpy().reshape(-1)[positions(VIEWS[view])]).all(), name
            assert (elsewhere.numpy() == x.numpy()[1, 1]).all(), name


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("wrap", [lambda f: f, fw.compile], ids=["eager", "compiled"])
def test_a_write_to_the_base_changes_its_views(view: str, wrap: Any) -> None:
    def read(x: Any) -> Any:
        y = VIEWS[view](x)
        x[0] *= 2
        before = y + 0
        x.add_(3)
        return y, before

    read = wrap(read)
    for _ in range(3):
        x = start()
        y, before = read(x)
        base = start().numpy().copy()
        base[0] *= 2
        at = positions(VIEWS[view])
        assert (before.numpy() == base.reshape(-1)[at]).all()
        assert (y.numpy() == base.reshape(-1)[at] + 3).all()
        y.fill_(1)  # the result is a view of the argument
        assert (x.numpy().reshape(-1)[at] == 1).all()
        x.fill_(5)
        assert (y.numpy() == 5).all()


@pytest.mark.parametrize("outer", VIEWS)
@pytest.mark.parametrize("inner", ["step", "reshape", "mT", "diagonal", "all"])
def test_a_view_of_a_view(outer: str, inner: str) -> None:
    x = start()
    y = VIEWS[outer](x)
    if y.ndim < 2:
        y = y.reshape(1, -1)
    z = {"step": lambda y: y[..., ::2], "reshape": lambda y: y.reshape(y.shape[0], -1),
         "mT": lambda y: y.mT, "diagonal": lambda y: y.diagonal(), "all": lambda y: y[:]}[inner](y)
    z.mul_(2)
    at = np.array(z.tolist(), int) // 2
    if inner != "reshape" or z.shape == y.shape:  # a reshape may copy
        expected = np.arange(24)
        expected[at] *= 2
        assert (x.numpy().reshape(-1) == expected).all()


@pytest.mark.parametrize("view", OVERLAPPING)
def test_elements_that_are_one_element_cannot_be_written(view: str) -> None:
    x = start()
    for wrap in (lambda f: f, fw.compile):
        with pytest.raises(fw.ViewError, match="several of its elements are one element"):
            wrap(lambda x: OVERLAPPING[view](x).add_(1))(x)
    assert x.tolist() == start().tolist()
    y = OVERLAPPING[view](x)
    x.add_(1)
    assert y.tolist() == OVERLAPPING[view](start() + 1).tolist()


def test_one_element_that_repeats_cannot_be_written() -> None:
    x = fw.tensor([5.0])
    with pytest.raises(fw.ViewError, match="several of its elements are one element"):
        fw.broadcast_to(x, (3,))[:] = fw.tensor([1.0, 2.0, 3.0])
    assert x.tolist() == [5.0]


def test_a_number_of_the_call_tells_which_element_of_a_broadcast_is_written() -> None:
    def function(x: Any, n: int) -> None:
        wide = fw.broadcast_to(x, (4, 6))
        wide[0, n] = 7
        element = wide[1][-1 - n]
        element += 1

    compiled = fw.compile(function)
    for n in (1, 2, 4, 0, 5):
        x, expected = fw.arange(6.0), np.arange(6.0)
        compiled(x, n)
        expected[n] = 7
        expected[-1 - n] += 1
        assert x.tolist() == expected.tolist()
    assert compiled.stats.recordings == 2


@pytest.mark.parametrize("wrap", [lambda f: f, fw.compile], ids=["eager", "compiled"])
def test_a_part_of_a_broadcast_without_repetition_can_be_written(wrap: Any) -> None:
    def function(x: Any) -> Any:
        wide = fw.broadcast_to(x, (5, 2, 3, 4))
        wide[1].add_(1)
        wide[fw.tensor(2), 1] = 7
        wide[0, 0].mul_(2)
        wide[..., 0].fill_(3)
        return wide.sum()

    for _ in range(3):
        x = start()
        total = wrap(function)(x)
        expected = start().numpy() + 1
        expected[1] = 7
        expected[0] *= 2
        expected[..., 0] = 3
        assert (x.numpy() == expected).all() and total == 5 * expected.sum()


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_is_written_to(copied: str) -> None:
    x = start()
    y = COPIES[copied](x)
    y += 1
    y.fill_(1)
    assert x.tolist() == start().tolist() and (y == 1).all()


# ---- arguments and results of compiled functions
def test_arguments_that_share_elements() -> None:
    @fw.compile
    def change(a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 1

    for _ in range(3):
        x = fw.zeros(3)
        a, b = x[:2], x[1:]
        assert change(a, b).tolist() == b.tolist() == [1, 0] and x.tolist() == [1, 1, 0]
        assert change(fw.zeros(2), fw.zeros(2)).tolist() == [0, 0]
        x = fw.zeros(2, 2)
        assert change(x, x[0]).tolist() == [1, 1] and change(x[0], x).tolist() == [[2, 2], [1, 1]]
        assert change(x.T[0], x[0]).tolist() == [3, 2] and x.tolist() == [[3, 2], [2, 1]]
    assert change.stats.fallbacks == 0


def test_views_outside_of_a_compiled_function_change_with_an_argument() -> None:
    @fw.compile
    def change(x: Any) -> None:
        x.mul_(2)

    for _ in range(3):
        x = start()
        rows = [x[0], x.mT[1], x.detach(), x.reshape(-1)[3:]]
        change(rows[0])
        assert (x.numpy()[0] == start().numpy()[0] * 2).all()
        assert (rows[1].numpy() == x.numpy()[1].T).all() and (rows[2] == x).all()
        change(x)
        assert (rows[3].numpy() == x.numpy().reshape(-1)[3:]).all()


def test_results_that_share_elements_with_each_other() -> None:
    @fw.compile
    def parts(x: Any) -> Any:
        y = x * 2
        return y[:, :2], y[:, 1:], y[0, 0], {"left": x[:, 0]}

    for _ in range(3):
        x = start()
        a, b, c, rest = parts(x)
        a.zero_()
        assert not b[:, 0].any() and not c.any() and b[:, 1:].all()
        rest["left"].fill_(9)
        assert (x[:, 0] == 9).all()


def test_loops_and_branches_that_write_to_views() -> None:
    def function(x: Any, limit: Any) -> Any:
        first, columns = x[0], x.mT
        while first.sum() < limit:
            first.add_(x[1])
            if columns[..., 0].sum() > 30:
                columns.mul_(1.25)
        for row in x:
            row.sub_(row.mean())
        return first, columns.sum()

    compiled = fw.compile(function)
    for limit in (3, 50, 100, 200, 20, 400, 90):
        x, y = start() / 8 + 0.25, start() / 8 + 0.25
        ours, expected = compiled(x, fw.tensor(limit)), function(y, fw.tensor(limit))
        assert np.allclose(ours[0].numpy(), expected[0].numpy(), atol=1e-3)
        assert np.allclose(x.numpy(), y.numpy(), atol=1e-3)


# ---- gradients
@pytest.mark.parametrize("wrap", [lambda f: f, fw.compile], ids=["eager", "compiled"])
def test_gradients_through_writes_to_views(wrap: Any) -> None:
    def function(w: Any, v: Any) -> Any:
        y = w * 2
        row, column = y[0], y[:, 1]
        row.mul_(v)
        column.add_(w[:, 0])
        return (y * y).sum() + row.sum()

    compiled = wrap(function)
    for _ in range(3):
        w = fw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        v = fw.tensor([5.0, 6.0], requires_grad=True)
        compiled(w, v).backward()
        # y = [[10 a, 12 b + a], [2 c, 2 d + c]] for w = [[a, b], [c, d]] and these v
        assert w.grad.tolist() == [[261, 612], [46, 44]]
        assert v.grad.tolist() == [42, 204]


def test_leaves_that_require_gradients_and_their_views() -> None:
    w = fw.ones(2, 3).requires_grad_()

    def assign() -> None:
        w[0] = 1.0

    for write in (lambda: w.add_(1), lambda: w[0].add_(1), lambda: w.T[0].fill_(2), assign,
                  lambda: w.reshape(-1)[1:].zero_()):
        with pytest.raises(fw.GradientError, match="cannot be changed in place while the tape"):
            write()
    w.data[0] = 5
    w.detach()[1, 0] = 7
    with fw.no_grad():
        w[1, 1:].mul_(2)
        w[1].add_(1)
    assert w.tolist() == [[5, 5, 5], [8, 3, 3]] and w.is_leaf and w.requires_grad


def test_the_tape_of_a_detached_view_is_its_own() -> None:
    x, w = fw.zeros(3), fw.ones(2).requires_grad_()
    y = x.detach()
    y[1:] += w
    assert x.tolist() == [0, 1, 1] and not x.requires_grad and y.requires_grad
    y.sum().backward()
    assert w.grad.tolist() == [1, 1]


# ---- .data
def test_data_can_be_assigned() -> None:
    p, v = nn.Parameter(fw.ones(2)), fw.arange(3.0)
    row = p[:1].detach()
    p.data = v
    v.add_(1)
    assert p.tolist() == [1, 2, 3] and p.requires_grad and row.tolist() == [1]
    p.data[0] = 9
    assert v.tolist() == [9, 2, 3]
    p.data = p.data * 2
    assert p.tolist() == [18, 4, 6] and v.tolist() == [9, 2, 3]
    p.data = p.data
    assert p.tolist() == [18, 4, 6]
    for wrong in (1.0, fw.zeros(3, dtype=fw.float64)):
        with pytest.raises(fw.DTypeError, match="takes a tensor of float32"):
            p.data = wrong


# ---- programs
def test_elements_that_are_assigned_in_place() -> None:
    x, table = fw.zeros(3, 3), {"x": fw.zeros(3, 3)}
    x[0] += 1
    x[:, 1] *= 3
    x[1, 2] -= 5
    x[2][0] = 4
    x.T[1, 2] = 8
    table["x"][0] += 1
    rows = [x[0]]
    rows[0] += 1
    assert x.tolist() == [[2, 4, 2], [0, 0, -5], [4, 8, 0]] and table["x"].sum() == 3


def test_writes_that_programs_make_through_views() -> None:
    layer = nn.Embedding(4, 2)
    layer(fw.tensor([1])).sum().backward()
    state = layer.state_dict()
    with fw.no_grad():
        layer.weight[0].fill_(0)
        assert state["weight"][0].tolist() == [0, 0]
        state["weight"].copy_(fw.ones(4, 2))
        layer.weight.grad[1].zero_()
        for row in layer.weight:
            row.mul_(2)
    assert (layer.weight == 2).all() and not layer.weight.grad.any()
    lstm = nn.LSTM(2, 3)
    nn.init.constant_(lstm.bias_ih_l0[3:6], 7)
    assert (lstm.bias_ih_l0[3:6] == 7).all()


def test_a_state_dict_shows_the_model_of_now() -> None:
    model = nn.Linear(2, 2)
    optimizer = fw.optim.Adam(model.parameters(), lr=0.1)
    state, saved = model.state_dict(), copy.deepcopy(model.state_dict())
    for _ in range(3):
        model(fw.ones(1, 2)).sum().backward()
        optimizer.step()
    assert (state["weight"] == model.weight).all()
    assert not (saved["weight"] == model.weight).any()
    model.load_state_dict(saved)
    assert (state["weight"] == saved["weight"]).all()


def test_copies_and_pickles_are_tensors_of_their_own() -> None:
    x = start()
    y = x[0]
    for make in (copy.deepcopy, lambda y: pickle.loads(pickle.dumps(y)), copy.copy, fw.tensor):
        other = make(y)
        y.add_(1)
        assert (other == y - 1).all()
        other.zero_()
        assert y.all()


# ---- memory
def test_a_write_to_a_view_is_made_in_place() -> None:
    x = fw.zeros(1000, 10)
    address = x._data.ctypes.data
    for row in x:
        row.add_(1)
        row[3] = 7
    assert x._data.ctypes.data == address and x.sum() == 9000 + 7000
    held = x.numpy()
    x[0].add_(1)  # the NumPy array keeps its values
    assert held[0, 0] == 1 and x[0, 0] == 2


def test_the_tape_keeps_its_values() -> None:
    w = fw.ones(3).requires_grad_()
    x = fw.arange(3.0) + 0
    y = (w * x).sum()
    x[1:].mul_(10)
    y.backward()
    assert w.grad.tolist() == [0, 1, 2] and x.tolist() == [0, 10, 20]


def test_views_that_are_gone_take_no_memory() -> None:
    x = fw.zeros(4)
    for _ in range(1000):
        x[:2]
    assert len(x._view.views) < 40
    rows = [x[:2] for _ in range(100)]
    x.add_(1)
    assert all(row.tolist() == [1, 1] for row in rows)


def test_a_long_chain_of_views() -> None:
    x = whole = start()
    for _ in range(20_000):
        x = x[:]
    x += 1
    assert whole[0, 0, 0] == 1
    del x
    gc.collect()


def test_views_made_by_many_threads() -> None:
    x = fw.zeros(8, 100)
    made: list[Any] = []

    def run(i: int) -> None:
        for _ in range(200):
            made.append(x[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    x.fill_(3)
    assert len(made) == 1600 and all((view == 3).all() for view in made)


def test_a_reshape_of_columns_is_a_view_only_for_one_column() -> None:
    def add(x: fw.Tensor, n: int) -> fw.Tensor:
        columns = x[:, :n].reshape(-1)
        columns += 5.0
        return columns
    compiled = fw.compile(add)
    for n in (3, 4, 5, 1, 2, 0, 1):
        x, y = fw.zeros(6, 8), fw.zeros(6, 8)
        add(x, n)
        compiled(y, n)
        assert x.tolist() == y.tolist(), n
