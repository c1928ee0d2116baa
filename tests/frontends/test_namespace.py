"""`fusewire.torch` as a package: forms of import, missing names, stand-ins."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fusewire as fw
import fusewire.torch as torch

IMPORTS = [
    "import fusewire.torch as torch", "import fusewire.torch", "from fusewire import torch",
    "import fusewire.torch.nn as nn", "from fusewire.torch import nn, optim",
    "import fusewire.torch.nn.functional as F", "from fusewire.torch.nn import functional as F",
    "from fusewire.torch.utils.data import DataLoader, Dataset, TensorDataset, random_split",
    "from fusewire.torch.utils.data.sampler import Sampler",
    "from fusewire.torch.optim.lr_scheduler import StepLR, LambdaLR",
    "from fusewire.torch.autograd import Variable, Function",
    "from fusewire.torch.autograd.function import once_differentiable",
    "from fusewire.torch.autograd.functional import jacobian",
    "import fusewire.torch.backends.cudnn as cudnn",
    "from fusewire.torch.distributions import Normal, Categorical",
    "import fusewire.torch.nn.parallel", "from fusewire.torch.nn.utils import clip_grad_norm_",
    "from fusewire.torch.nn.utils.rnn import pad_sequence, pack_padded_sequence",
    "import fusewire.torch.nn.init as init", "from fusewire.torch.nn.parameter import Parameter",
    "from fusewire.torch.cuda.amp import GradScaler, autocast", "import fusewire.torch.onnx",
    "from fusewire.torch.utils.checkpoint import checkpoint", "import fusewire.torch.linalg as LA",
    "import fusewire.torch.distributed as dist", "import fusewire.torch.fft",
    "from fusewire.torch import Tensor, device", "import fusewire.torch.func",
    "from fusewire.torch.optim import Optimizer, LBFGS", "import fusewire.torch.special",
]


def test_every_form_of_import():
    code = "\n".join([*IMPORTS, "import fusewire, sys",
                      "assert fusewire.torch.nn is sys.modules['fusewire.torch.nn']",
                      "assert fusewire.torch.nn.functional is F", "print('ok')"])
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True,
                          text=True)
    assert (done.stdout.strip(), done.stderr) == ("ok", "")


@pytest.mark.parametrize("line", IMPORTS[:8])
def test_a_form_of_import_by_itself(line):
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
    assert done.stderr == ""


def test_a_missing_name_says_the_nearest_one():
    text = r"is it torch\.unsqueeze or torch\.squeeze\? docs/appendix/coverage\.md"
    with pytest.raises(AttributeError, match=text):
        torch.unsqeeze  # noqa: B018
    with pytest.raises(AttributeError, match=r"docs/appendix/coverage\.md"):
        torch.nothing_like_this  # noqa: B018
    assert not hasattr(torch, "expand_dims") and not hasattr(torch, "softmaxx")
    with pytest.raises(ImportError):
        from fusewire.torch.distributions import Wishart  # noqa: F401


def test_stand_ins():
    assert torch.cuda.is_available() is fw.cuda.is_available()
    assert not torch.backends.mps.is_available() and not torch.distributed.is_available()
    assert torch.accelerator.is_available() is fw.cuda.is_available()
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    torch.use_deterministic_algorithms(True)
    assert torch.get_default_dtype() == torch.float32
    with pytest.raises(fw.ArgumentError, match="the default dtype is float32"):
        torch.set_default_dtype(torch.float64)
    with pytest.raises(fw.ArgumentError, match="one process"):
        torch.distributed.init_process_group("gloo")


def test_the_loss_arguments_of_old_programs():
    x, y = torch.tensor([1.0, 3.0]), torch.zeros(2)
    assert torch.nn.functional.mse_loss(x, y, size_average=False) == 10
    assert torch.nn.MSELoss(reduce=False)(x, y).tolist() == [1, 9]


def test_a_loader_gives_tensors_of_the_front_end():
    data = torch.utils.data.TensorDataset(torch.arange(4), torch.ones(4, 2))
    batches = list(torch.utils.data.DataLoader(data, batch_size=2))
    assert {type(part) for batch in batches for part in batch} == {torch.Tensor}
    assert len(batches) == 2 and batches[1][0].tolist() == [2, 3]


def test_a_submodule_is_imported_when_it_is_used(tmp_path):
    """As in PyTorch, `import torch` is enough. The model gets tensors with PyTorch's methods."""
    code = f"""
import fusewire.torch as torch, sys
assert "fusewire.export.onnx" not in sys.modules
torch.onnx.export(lambda x: x.clamp(min=0).clone(), (torch.ones(2, 3),), {str(tmp_path / "m")!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
