# Written by `PYTHONPATH=tests python -m house.public_stubs`.
from ..eager.optim.swa_utils import *
