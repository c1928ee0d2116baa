"""Learns to balance a pole on a cart by PPO: Schulman et al., arXiv 1707.06347.

    pip install gymnasium
    python examples/reinforcement_learning/ppo.py --steps 60000
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

COPIES = 8         # of the environment, which step together
ROLLOUT = 64       # steps of each copy between two updates
EPOCHS, BATCH = 6, 128
DISCOUNT, LAMBDA = 0.99, 0.95
CLIP = 0.2         # the policy's probabilities change by at most this factor in an update
ENTROPY_WEIGHT = 0.01


class ActorCritic(nn.Module):
    """Observations (n, observed) to log probabilities of actions (n, actions) and values (n,)."""

    def __init__(self, observed: int, actions: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(observed, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
                                   nn.Linear(64, actions))
        self.critic = nn.Sequential(nn.Linear(observed, 64), nn.Tanh(), nn.Linear(64, 64),
                                    nn.Tanh(), nn.Linear(64, 1))

    def forward(self, observations: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        return F.log_softmax(self.actor(observations), -1), self.critic(observations)[:, 0]


def chosen(log_probs: fw.Tensor, actions: fw.Tensor) -> fw.Tensor:
    """The log probability of each action, (n,)."""
    return fw.take_along_axis(log_probs, actions[:, None], axis=1)[:, 0]


def advantages_of(rewards: np.ndarray, values: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """Generalized advantage estimates, (ROLLOUT, COPIES); `values` has one row more."""
    advantages, ahead = np.zeros_like(rewards), np.zeros(COPIES, np.float32)
    for t in reversed(range(len(rewards))):
        goes_on = 1 - ended[t]
        error = rewards[t] + DISCOUNT * values[t + 1] * goes_on - values[t]
        ahead = error + DISCOUNT * LAMBDA * goes_on * ahead
        advantages[t] = ahead
    return advantages


class Agent:
    """A policy and the two functions that use it: `act` and `learn`."""

    def __init__(self, observed: int, actions: int, compiled: bool) -> None:
        self.model = ActorCritic(observed, actions)
        self.optimizer = optim.Adam(self.model.parameters(), lr=1e-3, eps=1e-5)
        self.act, self.learn = self._act, self._learn
        if compiled:
            self.act, self.learn = fw.compile(self._act), fw.compile(self._learn)

    def _act(self, observations: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor, fw.Tensor]:
        """Random actions (n,) by their probabilities, their log probabilities, and values."""
        with fw.no_grad():
            log_probs, values = self.model(observations)
            actions = fw.multinomial(fw.exp(log_probs), 1)[:, 0]
            return actions, chosen(log_probs, actions), values

    def _learn(self, observations: fw.Tensor, actions: fw.Tensor, old_log_probs: fw.Tensor,
               advantages: fw.Tensor, returns: fw.Tensor) -> fw.Tensor:
        """One step of the optimizer on a batch. Returns the loss."""
        self.optimizer.zero_grad()
        log_probs, values = self.model(observations)
        ratio = fw.exp(chosen(log_probs, actions) - old_log_probs)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        gain = fw.minimum(ratio * advantages, fw.clip(ratio, 1 - CLIP, 1 + CLIP) * advantages)
        entropy = -(fw.exp(log_probs) * log_probs).sum(axis=1)
        loss = (-gain - ENTROPY_WEIGHT * entropy + 0.5 * (values - returns) ** 2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        return loss.detach()


def main(steps: int = 60_000, compiled: bool = True) -> list[float]:
    """Plays `steps` steps in total. Returns the length of each episode, in order."""
    fw.manual_seed(1)
    order = np.random.default_rng(1)
    environments = gymnasium.make_vec("CartPole-v1", COPIES, vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP})
    agent = Agent(4, 2, compiled)
    observations, _ = environments.reset(seed=1)
    lengths, finished = np.zeros(COPIES, np.int64), list[float]()
    for update in range(1, steps // (ROLLOUT * COPIES) + 1):
        rows: list[list[Any]] = []
        for _ in range(ROLLOUT):
            actions, log_probs, values = (x.numpy() for x in agent.act(fw.asarray(observations)))
            following, rewards, terminated, truncated, _ = environments.step(actions)
            ended = terminated | truncated
            rows.append([observations, actions, log_probs, values, rewards.astype(np.float32),
                         ended.astype(np.float32)])
            observations, lengths = following, lengths + 1
            finished += lengths[ended].tolist()
            lengths[ended] = 0
        update_by(agent, rows, agent.act(fw.asarray(observations))[2].numpy(), order)
        if update % 20 == 0:
            print(f"step {update * ROLLOUT * COPIES}: the last 20 episodes took "
                  f"{np.mean(finished[-20:]):.0f} of 500 steps")
    environments.close()
    return finished


def update_by(agent: Agent, rows: list[list[Any]], last_values: np.ndarray,
              order: np.random.Generator) -> None:
    """Learns from a rollout, in random batches."""
    seen, actions, log_probs, values, rewards, ended = (np.stack(x) for x in zip(*rows))
    advantages = advantages_of(rewards, np.concatenate([values, last_values[None]]), ended)
    arrays: list[Any] = [seen, actions, log_probs, advantages, advantages + values]
    data = [x.reshape(-1, *x.shape[2:]) for x in arrays]
    for _ in range(EPOCHS):
        for rows_of_batch in np.split(order.permutation(len(data[0])), len(data[0]) // BATCH):
            agent.learn(*[fw.asarray(x[rows_of_batch]) for x in data])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
