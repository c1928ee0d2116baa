"""Learns to write sentences letter by letter, with an LSTM.

    python examples/char_lm.py --steps 300
"""

from __future__ import annotations

import argparse
import random

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

WHO, DOES = "cat dog fox owl bear".split(), "sees likes hears follows".split()
WHERE = ["in the wood", "at night", "by the river", "in the snow"]


def sentences(count: int) -> str:
    """A text to learn from: `count` sentences like "the fox hears the owl at night."."""
    pick = random.Random(0).choice
    return " ".join(f"the {pick(WHO)} {pick(DOES)} the {pick(WHO)} {pick(WHERE)}."
                    for _ in range(count))


TEXT = sentences(400)
LETTERS = sorted(set(TEXT))


class Writer(nn.Module):
    """Numbers of letters (n, length) to scores of the letter after each, and the LSTM's state."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.lstm = nn.LSTM(len(LETTERS), width, batch_first=True)
        self.out = nn.Linear(width, len(LETTERS))

    def forward(self, letters: fw.Tensor, state: tuple[fw.Tensor, fw.Tensor] | None = None
                ) -> tuple[fw.Tensor, tuple[fw.Tensor, fw.Tensor]]:
        x = F.one_hot(letters, len(LETTERS)).astype(fw.float32)  # so few need no embedding
        x, state = self.lstm(x, state)
        return self.out(x), state


@fw.no_grad()
def write(model: Writer, length: int, temperature: float = 0.5) -> str:
    """`length` letters, each drawn from what the model expects after those before it."""
    letter, state, text = fw.tensor([[LETTERS.index("t")]]), None, "t"
    for _ in range(length):
        scores, state = model(letter, state)  # the state remembers the text
        letter = fw.multinomial(fw.softmax(scores[:, -1] / temperature, axis=-1), 1)
        text += LETTERS[int(letter)]
    return text


def main(steps: int = 300, compiled: bool = True) -> list[float]:
    """Trains for `steps`, writes a line, and returns the loss of each step."""
    fw.manual_seed(0)
    numbers = fw.tensor([LETTERS.index(letter) for letter in TEXT])
    model = Writer()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    def step(letters: fw.Tensor, following: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        scores, _ = model(letters)
        loss = F.cross_entropy(scores.flatten(0, 1), following.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # an LSTM's can be very large
        optimizer.step()
        return loss.detach()

    run, length, losses = fw.compile(step) if compiled else step, 24, list[float]()
    for n in range(steps):
        # Sixteen pieces of the text from places at random, (16, length + 1).
        starts = fw.randint(0, len(numbers) - length - 1, (16, 1))
        pieces = numbers[starts + fw.arange(length + 1)]
        losses.append(float(run(pieces[:, :-1], pieces[:, 1:])))
        if n % 50 == 0:
            print(f"step {n}: loss {losses[-1]:.3f}")
    print(write(model, 120))
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
