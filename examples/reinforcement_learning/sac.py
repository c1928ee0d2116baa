"""Learns to swing up a pendulum by soft actor-critic: Haarnoja et al., arXiv 1812.05905.

    pip install gymnasium
    python examples/reinforcement_learning/sac.py --steps 15000
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import gymnasium
import numpy as np

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

CAPACITY, BATCH, WARM_UP = 50_000, 128, 500
DISCOUNT, MIX = 0.99, 0.01   # MIX: share of the critics' weights that the targets take over
LARGEST = 2.0                # torque of the pendulum


def layers(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                         nn.Linear(128, outputs))


class Critic(nn.Module):
    """Observations and actions to two estimates of their value, each (n,)."""

    def __init__(self, observed: int, actions: int) -> None:
        super().__init__()
        self.one, self.other = layers(observed + actions, 1), layers(observed + actions, 1)

    def forward(self, seen: fw.Tensor, actions: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        x = fw.concat([seen, actions], axis=1)
        return self.one(x)[:, 0], self.other(x)[:, 0]


class Memory:
    """The last CAPACITY transitions, as one array for each field."""

    def __init__(self, observed: int, actions: int) -> None:
        self.fields = [np.zeros((CAPACITY, *shape), np.float32)
                       for shape in ((observed,), (actions,), (), (observed,))]
        self.count = 0

    def add(self, *transition: Any) -> None:
        """Stores (observation, action, reward, next observation)."""
        for field, value in zip(self.fields, transition):
            field[self.count % CAPACITY] = value
        self.count += 1

    def sample(self, size: int, random: np.random.Generator) -> list[fw.Tensor]:
        """`size` random transitions."""
        rows = random.integers(0, min(self.count, CAPACITY), size)
        return [fw.asarray(field[rows]) for field in self.fields]


class Agent:
    """An actor, a critic, its slowly following target, and the functions that use them."""

    def __init__(self, observed: int, actions: int, compiled: bool) -> None:
        self.actor = layers(observed, 2 * actions)
        self.critic, self.target = Critic(observed, actions), Critic(observed, actions)
        self.target.load_state_dict(self.critic.state_dict())
        self.log_temperature = nn.Parameter(fw.zeros(()))
        self.least_entropy = -float(actions)
        self.of_actor = optim.Adam(self.actor.parameters(), lr=1e-3)
        self.of_critic = optim.Adam(self.critic.parameters(), lr=1e-3)
        self.of_temperature = optim.Adam([self.log_temperature], lr=1e-3)
        self.act, self.learn = self._act, self._learn
        if compiled:
            self.act, self.learn = fw.compile(self._act), fw.compile(self._learn)

    def draw(self, seen: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        """Random actions in -LARGEST ... LARGEST, (n, actions), and their log density, (n,)."""
        mean, log_std = fw.chunk(self.actor(seen), 2, axis=1)
        log_std = fw.clip(log_std, -5, 2)
        noise = fw.randn_like(mean)
        u = mean + noise * fw.exp(log_std)
        log_density = -0.5 * noise ** 2 - log_std - 0.5 * math.log(2 * math.pi)
        log_slope = 2 * (math.log(2) - u - F.softplus(-2 * u))  # of tanh at u
        return LARGEST * fw.tanh(u), (log_density - log_slope - math.log(LARGEST)).sum(axis=1)

    def _act(self, observation: fw.Tensor) -> fw.Tensor:
        """A random action for one observation, (actions,)."""
        with fw.no_grad():
            return self.draw(observation[None])[0][0]

    def _learn(self, seen: fw.Tensor, actions: fw.Tensor, rewards: fw.Tensor, following: fw.Tensor
               ) -> tuple[fw.Tensor, fw.Tensor]:
        """One step of all optimizers and of the target. Returns the losses of critic and actor."""
        with fw.no_grad():
            temperature = fw.exp(self.log_temperature)
            new_actions, log_density = self.draw(following)
            ahead = fw.minimum(*self.target(following, new_actions)) - temperature * log_density
            goal = rewards + DISCOUNT * ahead  # an episode ends by its length only
        self.of_critic.zero_grad()
        one, other = self.critic(seen, actions)
        critic_loss = F.mse_loss(one, goal) + F.mse_loss(other, goal)
        critic_loss.backward()
        self.of_critic.step()

        self.of_actor.zero_grad()
        own_actions, log_density = self.draw(seen)
        actor_loss = (temperature * log_density
                      - fw.minimum(*self.critic(seen, own_actions))).mean()
        actor_loss.backward()
        self.of_actor.step()

        self.of_temperature.zero_grad()
        surplus = (-log_density.detach() - self.least_entropy).mean()
        (fw.exp(self.log_temperature) * surplus).backward()
        self.of_temperature.step()
        with fw.no_grad():
            for slow, fast in zip(self.target.parameters(), self.critic.parameters()):
                slow.copy_(slow.lerp(fast, MIX))
        return critic_loss.detach(), actor_loss.detach()


def main(steps: int = 15_000, compiled: bool = True) -> list[float]:
    """Plays `steps` steps. Returns the sum of rewards of each episode of 200 steps, in order."""
    fw.manual_seed(1)
    random = np.random.default_rng(1)
    environment = gymnasium.make("Pendulum-v1")
    agent, memory = Agent(3, 1, compiled), Memory(3, 1)
    observation, _ = environment.reset(seed=1)
    total, finished = 0.0, list[float]()
    for step in range(1, steps + 1):
        action = agent.act(fw.asarray(observation)).numpy() if step > WARM_UP else \
            random.uniform(-LARGEST, LARGEST, 1).astype(np.float32)
        following, reward, _, truncated, _ = environment.step(action)
        memory.add(observation, action, reward, following)
        observation, total = following, total + float(reward)
        if truncated:
            finished.append(total)
            observation, _ = environment.reset()
            total = 0.0
        if step > WARM_UP:
            agent.learn(*memory.sample(BATCH, random))
        if step % 2_000 == 0:
            print(f"step {step}: the last 5 episodes have {np.mean(finished[-5:]):.0f} points; "
                  "0 is the most")
    environment.close()
    return finished


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
