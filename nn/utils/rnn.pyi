# Written by `PYTHONPATH=tests python -m house.public_stubs`.
from ...eager.nn.recurrent.packed_sequence import *
