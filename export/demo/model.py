"""Defines the demo's network: two convolutions and two linear layers."""

from __future__ import annotations

from ...eager import nn
from ...eager.core.tensor import Tensor
from ...eager.nn import functional as F


class DigitNet(nn.Module):
    """A classifier: images (n, 1, 8, 8) -> scores (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.dropout1 = nn.Dropout(0.25)
        self.linear1 = nn.Linear(64 * 4 * 4, 128)
        self.dropout2 = nn.Dropout(0.5)
        self.linear2 = nn.Linear(128, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(self.conv1(images))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = F.relu(self.linear1(x.flatten(1)))
        x = self.dropout2(x)
        return self.linear2(x)
