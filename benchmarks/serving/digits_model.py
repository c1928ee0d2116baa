"""The demo's network with random weights: a file for `fusewire serve`."""

import fusewire as fw
from fusewire.export.demo.model import DigitNet
from fusewire.serving import Model


def load() -> Model:
    """The model that is served: images (n, 1, 8, 8) to scores (n, 10)."""
    fw.manual_seed(0)
    return Model(DigitNet(), {"images": fw.zeros(1, 1, 8, 8)})
