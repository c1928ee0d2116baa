"""Learns to balance a pole on a cart by deep Q-learning: Mnih et al., Nature 518 (2015).

The best action is chosen by the trained network and valued by the target network (double DQN, van
Hasselt et al., arXiv 1509.06461).

    pip install gymnasium
    python examples/reinforcement_learning/dqn.py --steps 50000
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

CAPACITY, BATCH = 50_000, 64   # transitions in the replay memory, and in a batch
INTERVAL, UPDATES = 256, 128   # steps played, and then steps of the optimizer
DISCOUNT = 0.99
EXPLORED = 8_000               # steps over which random actions become rare


def layers(observed: int, actions: int) -> nn.Sequential:
    """Observations (n, observed) to the value of each action, (n, actions)."""
    return nn.Sequential(nn.Linear(observed, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                         nn.Linear(256, actions))


class Memory:
    """The last CAPACITY transitions, as one array for each field."""

    def __init__(self, observed: int) -> None:
        self.fields = [np.zeros((CAPACITY, *shape), dtype) for shape, dtype in (
            ((observed,), np.float32), ((), np.int64), ((), np.float32), ((observed,), np.float32),
            ((), np.float32))]
        self.count = 0

    def add(self, *transition: Any) -> None:
        """Stores (observation, action, reward, next observation, terminated)."""
        for field, value in zip(self.fields, transition):
            field[self.count % CAPACITY] = value
        self.count += 1

    def sample(self, size: int, random: np.random.Generator) -> list[fw.Tensor]:
        """`size` random transitions."""
        rows = random.integers(0, min(self.count, CAPACITY), size)
        return [fw.asarray(field[rows]) for field in self.fields]


class Agent:
    """A network, its target of some steps ago, and the two functions that use them."""

    def __init__(self, observed: int, actions: int, compiled: bool) -> None:
        self.network, self.target = layers(observed, actions), layers(observed, actions)
        self.update_target()
        self.optimizer = optim.Adam(self.network.parameters(), lr=2.3e-3)
        self.act, self.learn = self._act, self._learn
        if compiled:
            self.act, self.learn = fw.compile(self._act), fw.compile(self._learn)

    def update_target(self) -> None:
        self.target.load_state_dict(self.network.state_dict())

    def _act(self, observation: fw.Tensor) -> fw.Tensor:
        """The best action for one observation, (1,)."""
        with fw.no_grad():
            return self.network(observation[None]).argmax(axis=1)

    def _learn(self, seen: fw.Tensor, actions: fw.Tensor, rewards: fw.Tensor, following: fw.Tensor,
               terminated: fw.Tensor) -> fw.Tensor:
        """One step of the optimizer. Returns the loss."""
        with fw.no_grad():
            best = self.network(following).argmax(axis=1)
            ahead = fw.take_along_axis(self.target(following), best[:, None], axis=1)[:, 0]
            goal = rewards + DISCOUNT * (1 - terminated) * ahead
        self.optimizer.zero_grad()
        found = fw.take_along_axis(self.network(seen), actions[:, None], axis=1)[:, 0]
        loss = F.smooth_l1_loss(found, goal)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 10.0)
        self.optimizer.step()
        return loss.detach()


def main(steps: int = 50_000, compiled: bool = True) -> list[float]:
    """Plays `steps` steps. Returns the length of each episode, in order."""
    fw.manual_seed(1)
    random = np.random.default_rng(1)
    environment = gymnasium.make("CartPole-v1")
    agent, memory = Agent(4, 2, compiled), Memory(4)
    observation, _ = environment.reset(seed=1)
    length, finished = 0, list[float]()
    for step in range(1, steps + 1):
        explores = random.random() < max(0.04, 1 - step / EXPLORED)
        action = int(random.integers(2)) if explores else int(agent.act(fw.asarray(observation)))
        following, reward, terminated, truncated, _ = environment.step(action)
        memory.add(observation, action, reward, following, terminated)
        observation, length = following, length + 1
        if terminated or truncated:
            finished.append(length)
            observation, _ = environment.reset()
            length = 0
        if step % INTERVAL == 0:
            agent.update_target()
            for _ in range(UPDATES):
                agent.learn(*memory.sample(BATCH, random))
        if step % 10_000 == 0:
            print(f"step {step}: the last 20 episodes took {np.mean(finished[-20:]):.0f} of 500 "
                  "steps")
    environment.close()
    return finished


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
