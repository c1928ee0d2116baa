"""Small loops whose length depends on values: compiled they give what they give eagerly, and few
recordings serve any number of turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agreement import agree

import fusewire as fw
from fusewire import nn

Make = Callable[[], Any]  # gives a function, or a function and what else is to be compared
ROWS = [(fw.tensor([1.0, 2.0, 3.0]) * k,) for k in (1.0, 2.0, 0.5, 0.1, 1e-3, 30.0, -1.5, 0.02)]
COUNTS = [(fw.tensor(k),) for k in (6, 7, 27, 1, 2, 97, 0, 3)]
WEIGHTS = [(fw.tensor(float(k)),) for k in (2, 9, 100, 1, 0.5, 1e6)]

LOOPS: dict[str, tuple[Make, list[Any], int]] = {}  # how to make one, calls, most recordings


def loop(calls: list[Any], recordings: int) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        LOOPS[make.__name__] = make, calls, recordings
        return make
    return add


# ---- ways to go round and to leave
@loop(ROWS, 2)
def while_() -> Any:
    def f(x: fw.Tensor) -> Any:
        while abs(x).sum() < 30:
            x = x * 2
        return x
    return f


@loop(ROWS, 4)
def break_and_else() -> Any:
    def f(x: fw.Tensor) -> Any:
        n = 0
        while abs(x).sum() < 30:
            x, n = x * 2, n + 1
            if n > 5:
                break
        else:
            return x - 1, n
        return x + 1, n
    return f


@loop(ROWS, 6)
def continue_() -> Any:
    def f(x: fw.Tensor) -> Any:
        n = m = 0
        while abs(x).sum() < 30 and n < 12:
            n += 1
            if x.max() < 1:
                x = x * 3
                continue
            m += 1
            x = x + 1
        return x, n, m
    return f


@loop(ROWS, 2)
def return_from_within() -> Any:
    def f(x: fw.Tensor) -> Any:
        n = 0
        while True:
            if abs(x).sum() > 50:
                return x / n if n else x
            x, n = x * 1.5, n + 1
    return f


@loop(ROWS, 6)
def if_and_elif_inside() -> Any:
    def f(x: fw.Tensor) -> Any:
        while abs(x).sum() < 50:
            if x.min() < 0:
                x = abs(x)
            elif x.max() > 10:
                x = x * 1.1
            else:
                x = x * 2 + 0.1
        return x
    return f


@loop(ROWS, 8)
def nested() -> Any:
    def f(x: fw.Tensor) -> Any:
        total = outer = 0
        while abs(x).sum() < 100 and outer < 15:
            k = 0
            while x.max() < k * 10 + 5 and k < 4:
                x, k, total = x * 1.3, k + 1, total + 1
            x, outer = x + 1, outer + 1
        return x, total, outer
    return f


@loop(ROWS, 6)
def one_after_the_other() -> Any:
    def f(x: fw.Tensor) -> Any:
        up = down = 0
        while abs(x).sum() < 30:
            x, up = x * 2, up + 1
        while abs(x).max() > 1:
            x, down = x / 3, down + 1
        return x, up, down
    return f


@loop(ROWS, 3)
def try_and_finally_inside() -> Any:
    def f(x: fw.Tensor) -> Any:
        n = 0
        while True:
            try:
                if abs(x).sum() > 30:
                    raise OverflowError
                x = x * 2
            except OverflowError:
                break
            finally:
                n += 1
        return x, n
    return f


@loop(ROWS, 2)
def in_a_with() -> Any:
    def f(x: fw.Tensor) -> Any:
        with fw.no_grad():
            while abs(x).sum() < 30:
                x = x * 2
        return x
    return f


@loop(ROWS, 10)
def around_a_with() -> Any:
    def f(x: fw.Tensor) -> Any:
        while True:
            with fw.no_grad():
                if abs(x).sum() > 30:
                    break
            x = x * 2
        return x
    return f


@loop(ROWS, 2)
def a_comprehension_inside() -> Any:
    def f(x: fw.Tensor) -> Any:
        factors = [1.0, 0.5, 0.25]
        while abs(x).sum() < 60:
            x = sum([x * k for k in factors])
        return x
    return f


@loop(ROWS, 6)
def of_a_helper_in_a_for() -> Any:
    def grown(x: fw.Tensor, bound: float) -> fw.Tensor:
        while abs(x).sum() < bound:
            x = x * 1.5
        return x

    def f(x: fw.Tensor) -> Any:
        for i in range(3):
            x = grown(x, 10.0 * (i + 1))
        return x
    return f


@loop(ROWS, 6)
def in_a_function_that_calls_itself() -> Any:
    def f(x: fw.Tensor, left: int = 3) -> Any:
        while abs(x).sum() < 30 * left:
            x = x * 1.5
        return x if left == 0 else f(x - 1, left - 1) + x
    return f


# ---- what is carried
@loop(COUNTS, 8)
def fibonacci() -> Any:
    def f(t: fw.Tensor) -> Any:
        n, a, b = t.item(), 0, 1
        while n > 0:
            a, b, n = b, a + b, n - 1
        return a
    return f


@loop(COUNTS[:6], 6)
def collatz() -> Any:
    def f(t: fw.Tensor) -> Any:
        n, turns, top = t.item(), 0, 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else n * 3 + 1
            turns += 1
            if n > top:
                top = n
        return turns, top
    return f


@loop(WEIGHTS, 2)
def newton() -> Any:
    def f(t: fw.Tensor) -> Any:
        x = t
        while fw.abs(x * x - t) > 1e-4 * t:
            x = 0.5 * (x + t / x)
        return x
    return f


@loop(ROWS, 3)
def floats_that_accumulate() -> Any:
    def f(x: fw.Tensor) -> Any:
        total, part = 0.0, 0.1
        while abs(x).sum() < 60:
            x = x * 1.25 + 0.01
            total += part
            part = part / 3
        return x, total, part
    return f


@loop(ROWS, 4)  # it ends at once, after a turn, and later for either reason
def a_rate_that_falls() -> Any:
    def f(x: fw.Tensor) -> Any:
        rate, y = 1.0, abs(x)
        while y.sum() > 0.1 and rate > 1e-3:
            y = y - rate * y * 0.5
            rate *= 0.9
        return y, rate
    return f


@loop(ROWS, 3)
def tuples_swapped() -> Any:
    def f(x: fw.Tensor) -> Any:
        a, b = x, x + 1
        while abs(a).sum() < 30:
            a, b = b, a * 2
        return a, b
    return f


@loop(ROWS, 3)
def lists_of_two() -> Any:
    def f(x: fw.Tensor) -> Any:
        pair = [x, x + 1]
        while abs(pair[0]).sum() < 30:
            pair = [pair[1], pair[0] * 2]
        return pair
    return f


@loop(ROWS, 3)
def a_list_that_turns() -> Any:
    def f(x: fw.Tensor) -> Any:
        queue = [x, x + 1, x + 2]
        while abs(queue[0]).sum() < 30:
            queue.append(queue.pop(0) * 2)
        return queue
    return f


@loop(ROWS, 3)
def the_value_before() -> Any:
    def f(x: fw.Tensor) -> Any:
        before, first = x, None
        while abs(x).sum() < 30:
            if first is None:
                first = x * 3
            before, x = x, x * 2
        return before, x, first
    return f


@loop(ROWS, 8)
def a_name_that_is_another_tensor_later() -> Any:
    def f(x: fw.Tensor) -> Any:
        a, b, n = x, x + 1, 0
        while n < 20 and abs(a).sum() < 1000:
            if abs(a).sum() > 30:
                b = a
            a, n, b = a * 2, n + 1, b + 1
        return a, b, n
    return f


@loop(ROWS, 10)
def a_counter_in_an_index() -> Any:
    def f(x: fw.Tensor) -> Any:
        i, total = 0, x[0] * 0
        while i < 3 and total < 4:
            total = total + x[i] + x[i:].sum()
            i += 1
        return total, i
    return f


@loop(ROWS, 10)
def a_tuple_that_grows() -> Any:
    def f(x: fw.Tensor) -> Any:
        found: tuple[Any, ...] = ()
        while abs(x).sum() < 30:
            x = x * 2
            found = (*found, x.sum())
        return x, found
    return f


@loop(ROWS, 6)
def the_best_so_far() -> Any:
    def f(x: fw.Tensor) -> Any:
        best, where, n = None, -1, 0
        while n < 5:
            score = fw.sin(x * n).sum()
            if best is None or score > best:
                best, where = score, n
            n += 1
        return best, where
    return f


# ---- values that no name has: they lie on the interpreter's stack while a question is asked
@loop(ROWS, 10)
def the_beginning_of_a_list() -> Any:
    def f(x: fw.Tensor) -> Any:
        while True:
            pair = [x * 2, 1 if abs(x).sum() > 40 else 0]
            if pair[1]:
                return x
            x = pair[0]
    return f


@loop(ROWS, 10)
def the_beginning_of_a_sum() -> Any:
    def f(x: fw.Tensor) -> Any:
        on = True
        while on:
            x = x * 2 + (1 if abs(x).sum() > 40 else 0)
            if abs(x).sum() > 200:
                on = False
        return x
    return f


@loop(WEIGHTS, 10)
def an_operand_that_is_the_result() -> Any:
    def f(x: fw.Tensor) -> Any:
        while True:
            y = max(x, x * 0 + 50.0)
            if y is x:
                return y
            x = x * 3
    return f


@loop(ROWS, 10)
def an_operand_of_or() -> Any:
    def f(x: fw.Tensor) -> Any:
        while True:
            y = (abs(x).sum() > 40) or x * 2
            if y.size == 1:
                return x
            x = y
    return f


# ---- state, gradients, random numbers
@loop(ROWS, 4)
def an_attribute() -> Any:
    class Cell:
        def __init__(self) -> None:
            self.h = fw.ones(3)

        def run(self, x: fw.Tensor) -> fw.Tensor:
            while abs(self.h).sum() < 50:
                self.h = self.h * 1.5 + abs(x)
            result = self.h
            self.h = fw.ones(3)
            return result

    cell = Cell()
    return cell.run, [cell]


@loop(ROWS, 4)
def a_tensor_outside() -> Any:
    log = {"sum": fw.zeros(3)}

    def f(x: fw.Tensor) -> Any:
        while abs(x).sum() < 30:
            x = x * 2
            log["sum"] = log["sum"] + x
        return x
    return f, [log]


@loop(ROWS, 3)
def in_place() -> Any:
    def f(x: fw.Tensor) -> Any:
        x = x * 1
        y = x
        while abs(x).sum() < 60:
            x += abs(x) + 1
        return x, y, x is y
    return f


@loop(ROWS, 3)
def an_argument_in_place() -> Any:
    def f(x: fw.Tensor) -> Any:
        while abs(x).sum() < 60:
            x += abs(x) + 1
        return x.sum()
    return f


@loop(ROWS, 4)
def gradients_of_an_argument() -> Any:
    def f(x: fw.Tensor) -> Any:
        x = x.detach().requires_grad_()
        h = x
        while abs(h).sum() < 20:
            h = h * 1.5 + fw.sin(x)
        h.sum().backward()
        return h.detach(), x.grad
    return f


@loop(ROWS, 5)
def gradients_of_parameters() -> Any:
    layer = nn.Linear(3, 3)

    def f(x: fw.Tensor) -> Any:
        layer.zero_grad()
        h, n = layer(x), 0
        while abs(h).sum() < 20 and n < 10:
            h = fw.relu(layer(h)) + 1.1 * abs(h)
            n += 1
        h.sum().backward()
        return h.detach(), n, layer.weight.grad, layer.bias.grad
    return f, [layer]


@loop(ROWS, 6)
def steps_of_an_optimizer() -> Any:
    layer = nn.Linear(3, 1)
    optimizer = fw.optim.SGD(layer.parameters(), lr=0.01)

    def f(x: fw.Tensor) -> Any:
        n, loss = 0, fw.tensor(1e9)
        while loss > 0.05 and n < 4:
            optimizer.zero_grad()
            loss = ((layer(x / 30) - 1.0) ** 2).sum()
            loss.backward()
            optimizer.step()
            n += 1
        return loss.detach(), n
    return f, [layer]


@loop(ROWS, 3)
def dropout() -> Any:
    drop = nn.Dropout(0.3)

    def f(x: fw.Tensor) -> Any:
        h, n = abs(x) + 0.1, 0
        while abs(h).sum() < 20 and n < 30:
            h = drop(h) * 1.2 + 0.5
            n += 1
        return h, n
    return f


@pytest.mark.parametrize("name", LOOPS)
def test_loop(name: str) -> None:
    make, calls, recordings = LOOPS[name]

    def begin() -> Any:
        fw.manual_seed(0)
        return make()

    compiled = agree(begin, *calls, *calls, recordings=recordings)
    assert compiled.stats.fallbacks == 0
    assert compiled.stats.replays >= len(calls)  # in the second round nothing is new
