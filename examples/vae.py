"""A variational autoencoder of digits: Kingma and Welling 2014, https://arxiv.org/abs/1312.6114.

    python examples/vae.py --steps 400
"""

from __future__ import annotations

import argparse

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim
from fusewire.export.demo.digits import load_digits
from fusewire.utils.data import DataLoader, RandomSampler, TensorDataset


class VAE(nn.Module):
    """Images (n, 64) to a normal distribution of `size` numbers each, and back to images."""

    def __init__(self, size: int = 8, width: int = 128) -> None:
        super().__init__()
        self.size = size
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 2 * size))
        self.decoder = nn.Sequential(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, 64))

    def forward(self, images: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor, fw.Tensor]:
        mean, log_variance = self.encoder(images).chunk(2, axis=1)
        # A sample of the distribution, written so that gradients reach its mean and variance.
        sample = mean + fw.exp(0.5 * log_variance) * fw.randn_like(mean)
        return self.decoder(sample), mean, log_variance


def bound(model: VAE, images: fw.Tensor) -> fw.Tensor:
    """The loss per image: the error of the copy, and how far the distribution is
    from the standard normal one, whose samples the decoder is given later."""
    copies, mean, log_variance = model(images)
    error = F.binary_cross_entropy_with_logits(copies, images, reduction="sum")
    distance = -0.5 * fw.sum(1 + log_variance - mean ** 2 - fw.exp(log_variance))
    return (error + distance) / images.shape[0]


def show(image: fw.Tensor) -> str:
    """An image (64,) of 0 to 1 as eight lines of text."""
    shades = " .:-=+*#%@"
    rows = (image.reshape(8, 8) * 9).round().astype(fw.int64).tolist()
    return "\n".join("".join(shades[i] * 2 for i in row) for row in rows)


def main(steps: int = 400, compiled: bool = True) -> list[float]:
    """Trains for `steps`, shows two new digits, and returns the loss of each step."""
    fw.manual_seed(0)
    images, _ = load_digits()
    images = TensorDataset(images.flatten(1))
    sampler = RandomSampler(images, replacement=True, num_samples=64 * steps)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=3e-3)

    def step(batch: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = bound(model, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run, losses = fw.compile(step) if compiled else step, list[float]()
    for n, (batch,) in enumerate(DataLoader(images, batch_size=64, sampler=sampler)):
        losses.append(float(run(batch)))
        if n % 100 == 0:
            print(f"step {n}: loss {losses[-1]:.2f}")
    with fw.no_grad():
        new = fw.sigmoid(model.decoder(fw.randn(2, model.size)))
    print(*map(show, new), sep="\n\n")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
