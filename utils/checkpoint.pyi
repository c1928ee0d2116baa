# Written by `PYTHONPATH=tests python -m house.public_stubs`.
from ..eager.utils.checkpoint import *
