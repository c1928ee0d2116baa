# Written by `PYTHONPATH=tests python -m house.public_stubs`.
from ..eager.optim import *
