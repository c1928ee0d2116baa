"""Prices of options: a formula of many steps, which a compiler can fuse into one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusewire as fw

from ..peers import pure
from ..workload import Inputs, Workload
from .weights import uniform

RATE, ROOT_HALF = 0.03, 0.7071067811865476


def graph(count: int) -> str:
    return f"""prices (float[{count}] price, float[{count}] strike, float[{count}] years,
        float[{count}] spread) => (float[{count}] call, float[{count}] put) {{
    half = Constant<value_float=0.5>()
    rate = Constant<value_float={RATE}>()
    loss = Constant<value_float=-{RATE}>()
    scale = Constant<value_float={ROOT_HALF}>()
    root = Sqrt(years)
    spreads = Mul(spread, root)
    share = Div(price, strike)
    log = Log(share)
    square = Mul(spread, spread)
    half_square = Mul(half, square)
    drift = Add(rate, half_square)
    drifts = Mul(drift, years)
    above = Add(log, drifts)
    first = Div(above, spreads)
    second = Sub(first, spreads)
    s1 = Mul(first, scale)
    e1 = Erf(s1)
    h1 = Mul(half, e1)
    n1 = Add(half, h1)
    s2 = Mul(second, scale)
    e2 = Erf(s2)
    h2 = Mul(half, e2)
    n2 = Add(half, h2)
    exponent = Mul(loss, years)
    discount = Exp(exponent)
    today = Mul(strike, discount)
    gain = Mul(price, n1)
    cost = Mul(today, n2)
    call = Sub(gain, cost)
    difference = Sub(call, price)
    put = Add(difference, today)
}}"""


def formula(library: Any, erf: Callable[[Any], Any]) -> Callable[..., Any]:
    """The prices of the options to buy and to sell, by a library's functions."""
    def prices(price: Any, strike: Any, years: Any, spread: Any) -> Any:
        spreads = spread * library.sqrt(years)
        first = (library.log(price / strike) + (RATE + 0.5 * spread * spread) * years) / spreads
        second = first - spreads
        n1, n2 = (0.5 + 0.5 * erf(d * ROOT_HALF) for d in (first, second))
        today = strike * library.exp(-RATE * years)
        call = price * n1 - today * n2
        return call, call - price + today

    return prices


def torch() -> Any:
    import torch

    return formula(torch, torch.erf)


def jax() -> Any:
    import jax

    return formula(jax.numpy, jax.lax.erf)


def workload(count: int) -> Workload:
    def inputs() -> Inputs:
        return {"price": uniform(1, 10, 100, count), "strike": uniform(2, 10, 100, count),
                "years": uniform(3, 0.1, 2, count), "spread": uniform(4, 0.1, 0.6, count)}

    return Workload(
        name="black_scholes",
        about=f"prices of {count} options to buy and to sell",
        inputs=inputs,
        makers=pure(formula(fw, fw.erf), torch, jax, graph(count)),
        flops=150 * count,
        size=24 * count,
        kept=True,
    )


WORKLOADS, ON_GPU = [workload(2_000_000)], [workload(20_000_000)]
