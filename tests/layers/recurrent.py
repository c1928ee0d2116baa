"""Rows of recurrent layers and their cells."""

from __future__ import annotations

from typing import Any

from inputs import x
from layers.row import layer

ANY = {"differs": {"signature": "torch's is (*args, **kwargs)"}}


def packed(*lengths: int, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
    """A call with sequences packed by their lengths, and states."""
    def call(lib: Any, module: Any, input: Any, *states: Any) -> Any:
        sequence = lib.nn.utils.rnn.pack_padded_sequence(input, list(lengths), batch_first,
                                                         enforce_sorted)
        if not states:
            return module(sequence)
        return module(sequence, states[0] if len(states) == 1 else states)

    return call


def in_one(lib: Any, module: Any, input: Any, *states: Any) -> Any:
    """A call with the states of an LSTM as one tuple."""
    return module(input, states)


for name in ("RNN", "LSTM", "GRU"):
    count = 2 if name == "LSTM" else 1
    states = in_one if name == "LSTM" else None
    layer(name, 3, 4, inputs=[x(5, 2, 3)], **ANY)
    layer(name, 3, 4, num_layers=2, bidirectional=True, inputs=[x(4, 2, 3)], **ANY)
    layer(name, 3, 4, num_layers=2, dropout=0.5, batch_first=True, inputs=[x(2, 4, 3)],
          random=True, **ANY)
    layer(name, 3, 4, bias=False, inputs=[x(1, 2, 3)], **ANY)
    layer(name, 3, 4, bidirectional=True, label="states", call=states,
          inputs=[x(4, 2, 3), *[x(2, 2, 4)] * count], **ANY)
    layer(name, 3, 4, label="without batch, with states", call=states,
          inputs=[x(4, 3), *[x(1, 4)] * count], **ANY)
    layer(name, 3, 4, batch_first=True, label="without batch", inputs=[x(4, 3)], **ANY)
    layer(name, 3, 4, num_layers=2, bidirectional=True, label="packed", call=packed(4, 2, 1),
          inputs=[x(4, 3, 3)], **ANY)
    layer(name, 3, 4, bidirectional=True, batch_first=True, label="packed in any order, states",
          call=packed(2, 4, 4, 1, batch_first=True, enforce_sorted=False),
          inputs=[x(4, 5, 3), *[x(2, 4, 4)] * count], **ANY)
layer("RNN", 3, 4, nonlinearity="relu", num_layers=2, inputs=[x(4, 2, 3)], **ANY)
layer("LSTM", 3, 4, proj_size=2, num_layers=2, bidirectional=True, inputs=[x(4, 2, 3)], **ANY)
layer("LSTM", 3, 4, proj_size=2, label="projection, states, packed", call=packed(3, 3, 1),
      inputs=[x(3, 3, 3), x(1, 3, 2), x(1, 3, 4)], **ANY)
BASE = {"differs": {"signature": "torch's has no forward"}, "call": lambda lib, module, x: 0.0}
for mode in ("RNN_TANH", "LSTM"):
    layer("RNNBase", mode, 3, 4, inputs=[x(5, 2, 3)], **BASE)
layer("RNNCellBase", 3, 4, bias=True, num_chunks=2, inputs=[x(2, 3)], **BASE)
for name in ("RNNCell", "LSTMCell", "GRUCell"):
    count = 2 if name == "LSTMCell" else 1
    states = in_one if name == "LSTMCell" else None
    layer(name, 3, 4, inputs=[x(2, 3)])
    layer(name, 3, 4, bias=False, label="states", call=states,
          inputs=[x(2, 3), *[x(2, 4)] * count])
    layer(name, 3, 4, label="without batch", call=states, inputs=[x(3), *[x(4)] * count])
layer("RNNCell", 3, 4, nonlinearity="relu", inputs=[x(2, 3)])
