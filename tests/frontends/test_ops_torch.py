"""Functions and methods of `fusewire.torch` against PyTorch's, over samples of its own tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sampling import sample

import fusewire.torch as ours
from fusewire.eager.front.spellings import same
from fusewire.eager.front.spellings.tables import SPELLINGS

torch = pytest.importorskip("torch")
op_db = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db

RANDOM = """bernoulli cauchy empty empty_like exponential geometric log_normal multinomial new_empty
normal rand_like randint randint_like randn randn_like uniform randperm""".split()
OTHER = {  # ops of which some samples differ, and why
    "addbmm": "integers times a broken number are of a float dtype",
    "addmv": "integers times a broken number are of a float dtype",
    "baddbmm": "integers times a broken number are of a float dtype",
    "gather": "indices of another number of axes, if there are none",
    "gradient": "spacing=None", "histogram": "counts are integers", "histogramdd": "weight=",
    "kthvalue": "the index of one of several equal elements", "ldexp": "exponents are integers",
    "linspace": "of integers", "logspace": "of integers", "logsumexp": "of integers",
    "masked_scatter": "a mask that is larger than the tensor",
    "matrix_exp": "of matrices with large norms", "mode": "the index of one of equal elements",
    "polygamma": "the sample gives the tensor first", "scatter": 'reduce="multiply"',
    "searchsorted": "several sorted rows", "stft": "return_complex=False",
    "svd": "the signs of vectors", "to_sparse": "all are stored",
    "tensor_split": "a tensor of indices", "tensordot": "axes are broadcast",
    "topk": "the index of one of several equal elements", "unique": "dim=",
    "where": "the sample gives a tensor before the condition", "einsum": "the sample's order",
    "round": "-0.0", "to": "a method only", "uniform_": "random", "cfloat": "a dtype here",
}
NAMES = {s.name for s in SPELLINGS} | {*same.FUNCTIONS.split(), *same.OF_LAYERS.split()}
OPS = [op for op in op_db if op.name in NAMES and op.name not in OTHER and op.name not in RANDOM]


def converted(x: Any) -> Any:
    """A value of a sample with our tensors and dtypes."""
    if isinstance(x, torch.Tensor):
        return ours.tensor(x.detach().resolve_conj().resolve_neg().numpy())
    if isinstance(x, torch.dtype):
        return getattr(ours, str(x).removeprefix("torch."))
    if isinstance(x, torch.device):
        return str(x)
    if isinstance(x, dict):
        return {k: converted(v) for k, v in x.items()}
    return type(x)(map(converted, x)) if type(x) in (list, tuple) else x


def check(found: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert type(found) is ours.Tensor
        assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
        a, b = (x.float() if x.dtype in (torch.bfloat16, ours.bfloat16) else x
                for x in (found, expected))
        values = b.detach().resolve_conj().resolve_neg().numpy()
        np.testing.assert_allclose(a.detach().numpy(), values, 2e-4, 2e-4)
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for x, y in zip(found, expected):
            check(x, y)
    else:
        assert found == expected


def forms(op: Any) -> list[tuple[Any, Any]]:
    """Our function, method and method in place, with theirs."""
    function = ours
    for part in op.name.split("."):
        function = getattr(function, part, None)
    pairs = [(function, op.op), (getattr(ours.Tensor, op.name, None), op.method_variant),
             (getattr(ours.Tensor, f"{op.name}_", None), op.inplace_variant)]
    return [(a, b) for a, b in pairs if callable(a) and b is not None]  # torch.float is a dtype


def samples_of(op: Any) -> list[Any]:
    """Some samples of an op with at least one axis and one element."""
    made = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
    fit = [s for s in made if not isinstance(s.input, torch.Tensor) or (s.input.ndim and
                                                                       s.input.numel())]
    return sample(fit, 6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("op", sample([op for op in OPS if torch.float32 in op.dtypes], 60),
                         ids=lambda op: f"{op.name}{op.variant_test_name}")
def test_an_op(op: Any) -> None:
    for one in samples_of(op):
        for mine, theirs in forms(op):
            is_tensor = isinstance(one.input, torch.Tensor)
            try:
                value = theirs(one.input.clone() if is_tensor else one.input, *one.args,
                               **one.kwargs)
            except (RuntimeError, TypeError, IndexError):
                continue  # in place, a result of another shape or dtype
            check(mine(converted(one.input), *converted(one.args), **converted(one.kwargs)), value)
