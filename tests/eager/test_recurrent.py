"""Recurrent layers against loops over steps in NumPy; sequences of several lengths."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fusewire as fw
from fusewire.eager import nn
from fusewire.eager.errors import ArgumentError, DTypeError, ShapeError

rnn = nn.utils.rnn


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def close(tensor, expected):
    assert_allclose(tensor.detach().numpy(), expected, rtol=1e-9, atol=1e-11)


def parameters(layer, suffix="_l0"):
    """weight_ih, weight_hh, bias_ih, bias_hh as arrays."""
    return [getattr(layer, name + suffix).detach().numpy()
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


# ---- one step of each, for x (input,) and h (hidden,)
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn_step(x, state, w_ih, w_hh, b_ih, b_hh):
    return (np.tanh(w_ih @ x + b_ih + w_hh @ state[0] + b_hh),)


def lstm_step(x, state, w_ih, w_hh, b_ih, b_hh):
    i, f, g, o = np.split(w_ih @ x + b_ih + w_hh @ state[0] + b_hh, 4)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(x, state, w_ih, w_hh, b_ih, b_hh):
    given, kept = np.split(w_ih @ x + b_ih, 3), np.split(w_hh @ state[0] + b_hh, 3)
    r, z = (sigmoid(a + b) for a, b in zip(given[:2], kept[:2]))
    return ((1 - z) * np.tanh(given[2] + r * kept[2]) + z * state[0],)


STEPS = {"RNN": (rnn_step, 1), "LSTM": (lstm_step, 2), "GRU": (gru_step, 1)}
EACH = pytest.mark.parametrize("name", STEPS)


def by_hand(name, layer, xs, state, suffix="_l0"):
    """The h of every step of one sequence (steps, input), and the last state."""
    step, weights, outputs = STEPS[name][0], parameters(layer, suffix), []
    for x in xs:
        state = step(x, state, *weights)
        outputs.append(state[0])
    return np.array(outputs), state


def made(name, *args, **kwargs):
    fw.manual_seed(3)
    return getattr(nn, name)(*args, dtype=fw.float64, **kwargs)


def in_hx(name, state):
    tensors = tuple(map(fw.tensor, state))
    return tensors if name == "LSTM" else tensors[0]


def of_hx(name, hx):
    return hx if name == "LSTM" else (hx,)


# ---- layers
@EACH
def test_a_layer_goes_step_by_step(name):
    layer, x = made(name, 3, 4), values(5, 2, 3)
    start = [values(1, 2, 4, seed=n) for n in range(1, 1 + STEPS[name][1])]
    out, last = layer(fw.tensor(x), in_hx(name, start))
    for b in range(2):
        expected, end = by_hand(name, layer, x[:, b], [s[0, b] for s in start])
        close(out[:, b], expected)
        for got, wanted in zip(of_hx(name, last), end):
            close(got[0, b], wanted)


@EACH
def test_layers_and_directions_read_what_lies_below(name):
    layer, x = made(name, 3, 4, num_layers=2, bidirectional=True), values(5, 3)
    zero, below, ends = [np.zeros(4)] * STEPS[name][1], x, []
    for level in range(2):
        ahead, end = by_hand(name, layer, below, zero, f"_l{level}")
        back, start = by_hand(name, layer, below[::-1], zero, f"_l{level}_reverse")
        below = np.concatenate([ahead, back[::-1]], axis=1)
        ends += [end, start]
    out, last = layer(fw.tensor(x))
    close(out, below)
    for n, got in enumerate(of_hx(name, last)):
        close(got, [end[n] for end in ends])


@EACH
def test_the_batch_may_come_first_or_be_left_out(name):
    layer, x = made(name, 3, 4), fw.tensor(values(5, 2, 3))
    first = made(name, 3, 4, batch_first=True)
    out, last = layer(x)
    turned, same = first(fw.transpose(x, 0, 1))
    close(turned, fw.transpose(out, 0, 1).detach().numpy())
    alone, end = layer(x[:, 1])
    close(alone, out[:, 1].detach().numpy())
    for a, b, c in zip(of_hx(name, last), of_hx(name, same), of_hx(name, end)):
        close(b, a.detach().numpy())
        close(c, a[:, 1].detach().numpy())


@EACH
def test_a_packed_batch_is_each_sequence_by_itself(name):
    layer = made(name, 3, 4, num_layers=2, bidirectional=True)
    sequences = [fw.tensor(values(n, 3, seed=n)) for n in (2, 5, 1, 5)]
    start = [values(4, 4, 4, seed=n) for n in range(STEPS[name][1])]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    out, last = layer(packed, in_hx(name, start))
    for i, (sequence, got) in enumerate(zip(sequences, rnn.unpack_sequence(out))):
        alone, end = layer(sequence, in_hx(name, [s[:, i] for s in start]))
        close(got, alone.detach().numpy())
        for a, b in zip(of_hx(name, last), of_hx(name, end)):
            close(a[:, i], b.detach().numpy())
    first = sequences[0].numpy()[::-1]  # backwards, through one layer by hand
    one = made(name, 3, 4, bidirectional=True)
    expected, _ = by_hand(name, one, first, [s[1, 0] for s in start], "_l0_reverse")
    close(one(sequences[0], in_hx(name, [s[:2, 0] for s in start]))[0][:, 4:], expected[::-1])


def test_projection_makes_h_smaller():
    layer, x = made("LSTM", 3, 4, proj_size=2), values(1, 3)
    out, (h, c) = layer(fw.tensor(x))
    h_before, c_after = lstm_step(x[0], [np.zeros(2), np.zeros(4)], *parameters(layer))
    close(out[0], layer.weight_hr_l0.detach().numpy() @ h_before)
    assert (h.shape, c.shape) == ((1, 2), (1, 4))
    close(c[0], c_after)


def test_relu_in_place_of_tanh():
    layer = made("RNN", 3, 4, nonlinearity="relu")
    assert layer(fw.tensor(values(5, 2, 3)))[0].min() == 0.0


def test_dropout_comes_between_layers_in_training_only():
    layer, x = nn.GRU(3, 4, num_layers=2, dropout=0.5), fw.randn(5, 2, 3)
    assert not np.array_equal(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    layer.eval()
    assert_array_equal(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    with pytest.warns(UserWarning, match="GRU: dropout=0.5 acts between layers"):
        nn.GRU(3, 4, dropout=0.5)


@EACH
def test_gradients_agree_with_differences(name):
    layer, x = made(name, 2, 3, bidirectional=True), fw.tensor(values(4, 2, 2), requires_grad=True)
    weights = dict(layer.named_parameters())

    def output(x, *values):
        return fw.func.functional_call(layer, dict(zip(weights, values)), (x,))[0]

    assert fw.autograd.gradcheck(output, (x, *weights.values()))
    assert fw.autograd.gradgradcheck(output, (x, layer.weight_ih_l0, layer.weight_hh_l0))


def test_all_weights_and_initial_values():
    layer = nn.LSTM(3, 25, num_layers=2, bidirectional=True)
    assert [len(ws) for ws in layer.all_weights] == [4] * 4
    assert layer.all_weights[3][1] is layer.weight_hh_l1_reverse
    for p in layer.parameters():
        assert 0.15 < abs(p.detach().numpy()).max() <= 0.2
    assert layer.flatten_parameters() is None


# ---- cells
@EACH
def test_a_cell_makes_one_step_of_its_layer(name):
    cell, x = made(f"{name}Cell", 3, 4), values(2, 3)
    state = [values(2, 4, seed=n) for n in range(1, 1 + STEPS[name][1])]
    found = of_hx(name, cell(fw.tensor(x), in_hx(name, state)))
    for b in range(2):
        expected = STEPS[name][0](x[b], [s[b] for s in state], *parameters(cell, ""))
        for got, wanted in zip(found, expected):
            close(got[b], wanted)
    alone = of_hx(name, cell(fw.tensor(x[0]), in_hx(name, [s[0] for s in state])))
    for a, b in zip(alone, found):
        close(a, b[0].detach().numpy())


# ---- training, compiled
@EACH
def test_compiled_training_is_eager_training(name):
    def trained(compiled):
        fw.manual_seed(0)
        layer = nn.Sequential(getattr(nn, name)(3, 4))[0]
        optimizer = fw.optim.SGD(layer.parameters(), lr=0.1)

        def step(x):
            loss = (layer(x)[0] ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = fw.compile(step) if compiled else step
        return [run(fw.tensor(values(6, 2, 3, seed=n).astype("f4"))).item() for n in range(4)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of it runs eagerly
        assert_allclose(trained(True), trained(False), rtol=1e-5)


# ---- sequences of several lengths
def test_packing_puts_the_steps_of_all_sequences_together():
    padded = fw.tensor([[1, 2, 3], [4, 0, 0], [5, 6, 0]])
    packed = rnn.pack_padded_sequence(padded, [3, 1, 2], batch_first=True, enforce_sorted=False)
    assert packed.data.tolist() == [1, 5, 4, 2, 6, 3]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices.tolist() == [0, 2, 1]
    assert packed.unsorted_indices.tolist() == [0, 2, 1]
    back, lengths = rnn.pad_packed_sequence(packed, batch_first=True)
    assert back.tolist() == padded.tolist()
    assert lengths.tolist() == [3, 1, 2]
    steps_first = rnn.pack_padded_sequence(padded.T, fw.tensor([3, 1, 2]), enforce_sorted=False)
    assert steps_first.data.tolist() == packed.data.tolist()


def test_unpacking_pads_with_a_value_to_a_length():
    packed = rnn.pack_sequence([fw.tensor([1.0, 2.0]), fw.tensor([3.0])])
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=-1.0, total_length=3)
    assert padded.tolist() == [[1, 3], [2, -1], [-1, -1]]
    assert lengths.tolist() == [2, 1]


def test_padding_at_either_side():
    a, b = fw.ones(3, 2), fw.ones(1, 2)
    assert rnn.pad_sequence([a, b]).shape == (3, 2, 2)
    right = rnn.pad_sequence([a, b], batch_first=True, padding_value=7.0)
    left = rnn.pad_sequence([a, b], batch_first=True, padding_side="left")
    assert right[1, :, 0].tolist() == [1, 7, 7]
    assert left[1, :, 0].tolist() == [0, 0, 1]
    assert [x.shape for x in rnn.unpad_sequence(right, fw.tensor([3, 1]), batch_first=True)] == \
        [(3, 2), (1, 2)]


def test_gradients_pass_packing():
    x = fw.ones(3, 2).requires_grad_()
    packed = rnn.pack_padded_sequence(x, [3, 1])
    (rnn.pad_packed_sequence(packed)[0] * 2).sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 0], [2, 0]]


def test_a_packed_sequence_is_a_tuple_with_methods():
    packed = rnn.pack_sequence([fw.tensor([1, 2]), fw.tensor([3])])
    data, sizes, order, back = packed
    assert order is back is None
    assert packed.double().data.dtype == fw.float64
    assert packed.to(fw.float32).batch_sizes is sizes
    assert rnn.PackedSequence((data, sizes)).batch_sizes is sizes
    assert rnn.invert_permutation(fw.tensor([2, 0, 1])).tolist() == [1, 2, 0]


# ---- errors
@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: nn.LSTM(3, 4)(fw.zeros(5, 2, 2)), ShapeError, "ends in 2, but input_size is 3"),
    (lambda: nn.LSTM(3, 4)(fw.zeros(3)), ShapeError, r"takes \(steps, batch, features\)"),
    (lambda: nn.LSTM(3, 4)(fw.zeros(0, 2, 3)), ShapeError, "have no steps"),
    (lambda: nn.LSTM(3, 4)(fw.zeros(5, 2, 3), fw.zeros(1, 2, 4)), ShapeError,
     r"hx is \(h, c\), got 1 tensors"),
    (lambda: nn.GRU(3, 4)(fw.zeros(5, 2, 3), fw.zeros(1, 3, 4)), ShapeError,
     r"h of hx must be \(layers \* directions, batch, features\) = \(1, 2, 4\), got \(1, 3, 4\)"),
    (lambda: nn.GRU(3, 4)(fw.zeros(5, 3), fw.zeros(1, 2, 4)), ShapeError, "hx has two axes"),
    (lambda: nn.RNN(3, 4, nonlinearity="elu"), ArgumentError, "'elu' is not known"),
    (lambda: nn.RNN(3, 0), ArgumentError, "hidden_size must be at least 1"),
    (lambda: nn.LSTM(3, 4, proj_size=4), ArgumentError, "proj_size 4 must be below hidden_size 4"),
    (lambda: nn.RNNBase("CNN", 3, 4), ArgumentError, "mode 'CNN' is not known"),
    (lambda: nn.GRUCell(3, 4)(fw.zeros(1, 2, 3)), ShapeError, "a cell computes one step"),
    (lambda: nn.LSTMCell(3, 4)(fw.zeros(2, 3), (fw.zeros(2, 4), fw.zeros(2, 3))), ShapeError,
     r"each tensor of hx must be \(2, 4\), got \(2, 3\)"),
    (lambda: rnn.pack_padded_sequence(fw.zeros(4, 2), [1, 2]), ArgumentError,
     r"lengths \[1, 2\] do not fall\n.*\n  help: pass enforce_sorted=False"),
    (lambda: rnn.pack_padded_sequence(fw.zeros(4, 2), [5, 2]), ArgumentError,
     "from 1 to the 4 steps"),
    (lambda: rnn.pack_padded_sequence(fw.zeros(4, 2), [2]), ShapeError,
     "1 lengths for 2 sequences\n.*\n  help: is batch_first right"),
    (lambda: rnn.pad_packed_sequence(rnn.pack_sequence([fw.zeros(3)]), total_length=2),
     ArgumentError, "total_length 2 is less than the longest sequence, 3"),
    (lambda: rnn.pad_sequence([fw.zeros(3, 2), fw.zeros(3)]), ShapeError, "differ in length only"),
    (lambda: rnn.pad_sequence(3), DTypeError, "takes a list of tensors, not int"),
    (lambda: rnn.pad_sequence([fw.zeros(3)], padding_side="top"), ArgumentError, "'top'"),
    (lambda: rnn.unpad_sequence(fw.zeros(3, 2), [4, 1]), ShapeError, r"lengths \[4, 1\]"),
])
def test_errors_say_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_an_error_names_the_layer_inside_the_model():
    model = nn.Sequential(nn.Linear(3, 5), nn.LSTM(3, 4))
    with pytest.raises(ShapeError, match=r"in layer: 1 \(LSTM\)"):
        model(fw.zeros(5, 2, 3))
