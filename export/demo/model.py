"""The demo's network: two convolutions and two linear layers."""

from __future__ import annotations

from ...eager import nn
from ...eager.tensor import Tensor


class DigitNet(nn.Module):
    """Scores (n, 10) of images (n, 1, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Dropout(0.25),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(128, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))
