"""Writes in place to views: lost for the tensor behind, so an error while that is alive.

Views are those of PyTorch and NumPy; what these copy is written to as any other tensor.
"""

from __future__ import annotations

from typing import Any

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
    "broadcast": lambda x: fw.broadcast_to(x, (5, 2, 3, 4)),
    "same broadcast": lambda x: x.broadcast_to(2, 3, 4),
    "split": lambda x: fw.split(x, 1)[1], "split whole": lambda x: fw.split(x, 2)[0],
    "chunk": lambda x: x.chunk(2, 2)[0], "tensor_split": lambda x: fw.tensor_split(x, 3, 1)[2],
    "unstack": lambda x: fw.unstack(x)[0], "iteration": lambda x: next(iter(x)),
    "diagonal": lambda x: x[0].diagonal(), "unfold": lambda x: x.unfold(2, 2, 1),
    "real": lambda x: fw.real(x), "detach": lambda x: x.detach(), "to": lambda x: x.to("cpu"),
}
COPIES: dict[str, Any] = {
    "flip": lambda x: fw.flip(x, 0), "roll": lambda x: fw.roll(x, 1), "mask": lambda x: x[x > -1],
    "rows by numbers": lambda x: x[fw.tensor([0, 1])], "take": lambda x: x.take(fw.tensor([1]), 0),
    "gather": lambda x: x.gather(0, fw.zeros((1, 3, 4), dtype=fw.int64)),
    "tile": lambda x: fw.tile(x, (2, 1, 1)), "repeat": lambda x: fw.repeat(x, 2),
    "concat": lambda x: fw.concat([x]), "stack": lambda x: fw.stack([x]),
    "astype": lambda x: x.astype(x.dtype), "copy": lambda x: fw.asarray(x, copy=True),
    "clip": lambda x: x.clip(), "sum of no axes": lambda x: x.sum(axis=()),
    "plus": lambda x: x + 0, "tensor": lambda x: fw.tensor(x),
    "where": lambda x: fw.where(x > 0, x, x),
    "reshape of turned": lambda x: x.permute_dims(2, 1, 0).reshape(-1),
    "tril": lambda x: fw.tril(x), "sort": lambda x: fw.sort(x),
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


@pytest.mark.parametrize("view", VIEWS)
def test_every_write_to_a_view_is_an_error(view: str) -> None:
    for name, write in WRITES.items():
        x = start()
        y = VIEWS[view](x)
        with pytest.raises(fw.ViewError, match="a write in place to a tensor of shape") as error:
            write(y)
        assert "test_views.py" in str(error.value) and "x[0] = value" in str(error.value), name
        assert x.tolist() == start().tolist()


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_what_is_gone_is_written_to(view: str) -> None:
    y = VIEWS[view](start())
    expected = (y * 1 + 1).tolist()
    y += 1
    y = y.reshape(-1)
    y = y + 0 if y.ndim else y
    assert y.tolist() == (fw.tensor(expected).reshape(-1)).tolist()


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_is_written_to(copied: str) -> None:
    x = start()
    y = COPIES[copied](x)
    y += 1
    y.fill_(1)
    assert x.tolist() == start().tolist() and (y == 1).all()


@pytest.mark.parametrize("view", VIEWS)
def test_inside_of_compiled_functions(view: str) -> None:
    def lost(x: Any) -> Any:
        y = VIEWS[view](x)
        y += 1
        return x * 2

    def fine(x: Any) -> Any:
        y = VIEWS[view](x * 2 + 1)
        y += 1
        return y

    with pytest.raises(fw.ViewError):
        fw.compile(lost)(start())
    compiled = fw.compile(fine)
    for _ in range(3):
        assert compiled(start()).tolist() == fine(start()).tolist()


@pytest.mark.parametrize("view", VIEWS)
def test_what_a_compiled_function_returns_is_a_view_in_every_call(view: str) -> None:
    of_input = fw.compile(lambda x: VIEWS[view](x))
    of_result = fw.compile(lambda x: (VIEWS[view](x := x * 2), x))
    held = fw.compile(lambda x: [VIEWS[view](x)])
    write = fw.compile(lambda y: y.add_(1))
    for _ in range(4):
        x = start()
        write(start() + 1)
        for y in (of_input(x), held(x)[0]):
            for change in (add, write):
                with pytest.raises(fw.ViewError):
                    change(y)
        y, whole = of_result(x)
        with pytest.raises(fw.ViewError):
            y += 1
        assert x.tolist() == start().tolist() and whole.tolist() == (start() * 2).tolist()


# ---- programs
def test_elements_that_are_assigned_in_place() -> None:
    x, table = fw.zeros(3, 3), {"x": fw.zeros(3, 3)}
    x[0] += 1
    x[:, 1] *= 3
    x[1, 2] -= 5
    x.T[0]  # a view that nobody writes to
    table["x"][0] += 1
    assert x.tolist() == [[1, 3, 1], [0, 0, -5], [0, 0, 0]] and table["x"].sum() == 3
    rows = [x[0]]
    with pytest.raises(fw.ViewError):
        rows[0] += 1


def test_writes_that_programs_lose() -> None:
    layer = nn.Embedding(4, 2)
    layer(fw.tensor([1])).sum().backward()
    state = layer.state_dict()
    with fw.no_grad():
        for write in (
            lambda: layer.weight[0].fill_(0), lambda: layer.weight.detach().mul_(2),
            lambda: layer.weight.grad[0].zero_(), lambda: state["weight"].copy_(fw.zeros(4, 2)),
            lambda: [row.mul_(2) for row in layer.weight],
        ):
            with pytest.raises(fw.ViewError):
                write()
        layer.weight[0] = 0
        layer.weight.grad.zero_()
        layer.weight.copy_(fw.ones(4, 2))
    assert layer.weight.sum() == 8 and state["weight"].shape == (4, 2)


def test_what_is_read_later_stays_what_it_was() -> None:
    model = nn.Linear(2, 2)
    optimizer = fw.optim.Adam(model.parameters(), lr=0.1)
    before = {k: v for k, v in model.state_dict().items()}
    values = {k: v.tolist() for k, v in before.items()}
    for _ in range(3):
        model(fw.ones(1, 2)).sum().backward()
        optimizer.step()
    assert {k: v.tolist() for k, v in before.items()} == values
    model.load_state_dict(before)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()


def test_a_long_chain_of_views_holds_nothing() -> None:
    x = start()
    for _ in range(1000):
        x = x.mT.reshape(2, 3, 4)[:]
    x += 1
    depth, base = 0, x._base
    while type(base) is tuple:
        depth, base = depth + 1, base[1]
    assert depth < 5
