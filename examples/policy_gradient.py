"""Learns to balance a pole on a cart, from how long it stood: REINFORCE, Williams 1992.

    python examples/policy_gradient.py --rounds 40
"""

from __future__ import annotations

import argparse
import math
import random
from typing import Any

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

LONGEST = 200  # steps of an episode, of 0.02 seconds each


class Pole:
    """A pole on a cart; the equations of motion of Barto, Sutton and Anderson, 1983."""

    def __init__(self, rng: random.Random) -> None:
        self.state = [rng.uniform(-0.05, 0.05) for _ in range(4)]

    def push(self, right: bool) -> bool:
        """Pushes the cart for one step; whether the pole still stands and the cart is in view."""
        _, speed, angle, turning = self.state
        sin, cos = math.sin(angle), math.cos(angle)
        push = ((10 if right else -10) + 0.05 * turning ** 2 * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos ** 2 / 1.1))
        rates = (speed, push - 0.05 * turn * cos / 1.1, turning, turn)
        self.state = [value + 0.02 * rate for value, rate in zip(self.state, rates, strict=True)]
        return abs(self.state[0]) < 2.4 and abs(self.state[2]) < 0.21


def play(policy: nn.Module, poles: list[Pole]) -> tuple[list[Any], list[Any], list[int]]:
    """The states of all poles at each time, the action in each, and how long each stood."""
    states, actions = list[list[Any]](), list[list[int]]()
    lengths = [0] * len(poles)
    with fw.no_grad():
        for time in range(LONGEST):  # plain Python: when it ends depends on what the policy does
            standing = [n for n, length in enumerate(lengths) if length == time]
            if not standing:
                break
            states.append([pole.state for pole in poles])
            chances = fw.softmax(policy(fw.tensor(states[-1])), axis=-1)
            actions.append(fw.multinomial(chances, 1)[:, 0].tolist())
            for n in standing:
                lengths[n] += poles[n].push(right=actions[-1][n] == 1)
    return states, actions, lengths


def gains_of(lengths: list[int]) -> fw.Tensor:
    """(LONGEST, poles): how much better than on average it went on after each action."""
    left = fw.tensor(lengths) - fw.expand_dims(fw.arange(LONGEST), 1)
    left = fw.clip(left, 0).astype(fw.float32)  # steps until the fall; 0 after it
    gains = (1 - 0.98 ** left) / (1 - 0.98)  # steps far ahead count less
    mean = gains.sum() / (left > 0).sum()
    gains = fw.where(left > 0, gains - mean, 0)
    return gains / fw.sqrt((gains ** 2).sum() / (left > 0).sum())


def main(rounds: int = 40, compiled: bool = True) -> list[float]:
    """Plays with eight poles and learns from it, `rounds` times; returns how long they stood."""
    fw.manual_seed(0)
    rng = random.Random(0)
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)

    def learn(states: fw.Tensor, actions: fw.Tensor, gains: fw.Tensor) -> fw.Tensor:
        """Makes actions with a gain likelier, and others less likely."""
        optimizer.zero_grad()
        surprise = F.cross_entropy(policy(states).flatten(0, 1), actions.flatten(),
                                   reduction="none")
        loss = (surprise * gains.flatten()).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run, means = fw.compile(learn) if compiled else learn, list[float]()
    for n in range(rounds):
        states, actions, lengths = play(policy, [Pole(rng) for _ in range(8)])
        means.append(sum(lengths) / len(lengths))
        rest = LONGEST - len(states)  # filled up to one length: one recording fits all rounds
        run(fw.tensor(states + states[-1:] * rest), fw.tensor(actions + actions[-1:] * rest),
            gains_of(lengths))
        if (n + 1) % 10 == 0:
            print(f"round {n + 1}: stood for {means[-1]:.0f} steps of {LONGEST}")
    return means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.rounds, not given.eager)
