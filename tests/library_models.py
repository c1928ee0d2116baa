"""Defines models for tests of libraries, and the C functions that a library may call."""

from __future__ import annotations

from typing import Any

import fusewire as fw
from fusewire import nn

C_LIBRARY = set("""aligned_alloc free memcpy memset memmove open close lseek mmap munmap
    expf logf powf fmodf sinf cosf tanf tanhf exp log pow fmod sin cos tan tanh""".split())


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(64, 128), nn.Linear(128, 10)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return fw.softmax(self.out(fw.relu(self.hidden(x))), -1)


class Block(nn.Module):
    """A residual block, with a convolution before it and a linear layer after it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
        self.inner = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        self.out = nn.Linear(16, 5)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = fw.relu(self.norm(self.first(x)))
        x = fw.relu(x + self.inner(x))
        return self.out(x.mean((2, 3)))


class Words(nn.Module):
    """A small transformer over indices of words."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(50, 32), nn.Parameter(fw.randn(12, 32))
        self.layers = nn.Sequential(*[
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            for _ in range(2)])
        self.out = nn.Linear(32, 50)

    def forward(self, words: fw.Tensor) -> fw.Tensor:
        return self.out(self.layers(self.table(words) + self.places))


def images() -> tuple[fw.Tensor]:
    return (fw.randn(2, 3, 32, 32),)


MODELS: dict[str, tuple[Any, Any]] = {
    "perceptron": (Perceptron, lambda: (fw.randn(5, 64),)),
    "block": (Block, images),
    "words": (Words, lambda: (fw.randint(0, 50, (2, 12)),)),
}


def model(name: str) -> tuple[nn.Module, tuple[fw.Tensor, ...]]:
    """A model in eval mode, and its example arguments."""
    fw.manual_seed(0)
    cls, args = MODELS[name]
    network = cls()
    for x in (images(), images()) if name == "block" else ():
        network(*x)  # fills the running statistics of batch norms
    return network.eval(), args()
