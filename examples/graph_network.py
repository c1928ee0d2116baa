"""Tells the groups of a network's members from few known ones: Kipf and Welling, arXiv 1609.02907.

    python examples/graph_network.py --steps 150
"""

from __future__ import annotations

import argparse

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

GROUPS, MEMBERS, KNOWN = 4, 60, 3  # members and known members of each group


class Convolution(nn.Module):
    """Features (n, inputs) of nodes to (n, outputs): sums over neighbours, after a linear map."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: fw.Tensor, edges: fw.Tensor, weights: fw.Tensor) -> fw.Tensor:
        """`edges`: (2, m) from and to nodes; `weights`: (m,)."""
        messages = fw.take(self.linear(x), edges[0], axis=0) * weights[:, None]
        return fw.index_add(fw.zeros((len(x), messages.shape[1])), 0, edges[1], messages)


class GraphNetwork(nn.Module):
    """Features (n, inputs) of nodes to scores of their groups, (n, groups)."""

    def __init__(self, inputs: int, groups: int, width: int = 16) -> None:
        super().__init__()
        self.first, self.last = Convolution(inputs, width), Convolution(width, groups)

    def forward(self, x: fw.Tensor, edges: fw.Tensor, weights: fw.Tensor) -> fw.Tensor:
        x = F.dropout(fw.relu(self.first(x, edges, weights)), 0.3, self.training)
        return self.last(x, edges, weights)


def random_graph() -> tuple[fw.Tensor, fw.Tensor, fw.Tensor]:
    """Edges (2, m) in both directions and to itself, their weights (m,), and groups (n,). Members
    of a group know each other more often."""
    labels = fw.repeat(fw.arange(GROUPS), MEMBERS)
    chances = fw.where(labels[:, None] == labels[None], 0.12, 0.015)
    pairs = fw.triu(fw.rand(chances.shape) < chances, k=1)
    edges = fw.stack(fw.nonzero(pairs | pairs.T | fw.eye(len(labels), dtype=fw.bool)))
    degrees = fw.bincount(edges[0]).astype(fw.float32)
    return edges, 1 / fw.sqrt(degrees[edges[0]] * degrees[edges[1]]), labels


def main(steps: int = 150, compiled: bool = True) -> list[float]:
    """Trains for `steps`; returns the loss of each step."""
    fw.manual_seed(0)
    edges, weights, labels = random_graph()
    features = fw.eye(len(labels))  # a node is known by its number alone
    known = fw.nonzero(fw.arange(len(labels)) % MEMBERS < KNOWN)[0]
    model = GraphNetwork(len(labels), GROUPS)
    optimizer = optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)

    def step() -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features, edges, weights)[known], labels[known])
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = fw.compile(step) if compiled else step
    losses = [float(run()) for _ in range(steps)]
    model.eval()
    with fw.no_grad():
        right = model(features, edges, weights).argmax(axis=1) == labels
    print(f"{len(labels)} members, {GROUPS * KNOWN} known, {edges.shape[1]} edges; loss "
          f"{losses[0]:.2f} to {losses[-1]:.2f}; {100 * float(right.sum()) / len(labels):.0f} % of "
          "all groups right")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
