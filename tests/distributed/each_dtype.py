"""Compares each collective of each dtype with `combined`, as one rank of a job of any engine.

At the end the ranks ask for different collectives.
"""

import sys

import numpy as np

import fusewire as fw
import fusewire.distributed as dist
from fusewire.distributed.engines.engine import combined
from fusewire.eager.arrays.dtypes import COMPUTED, STORED

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
reduces = [("all_reduce", dist.all_reduce, {"reduce": "sum"}),
           ("all_reduce", lambda x: dist.all_reduce(x, "max"), {"reduce": "max"}),
           ("all_reduce", lambda x: dist.all_reduce(x, "prod"), {"reduce": "prod"}),
           ("reduce_scatter", lambda x: dist.reduce_scatter(x, 1), {"axis": 1})]
moves = [("all_gather", lambda x: dist.all_gather(x, 1), {"axis": 1}),
         ("all_to_all", lambda x: dist.all_to_all(x, 0, 1), {"split": 0, "concat": 1}),
         ("broadcast", lambda x: dist.broadcast(x, 1), {"root": 1}),
         ("shift", lambda x: dist.shift(x, 1), {"by": 1})]
for dtype in (*COMPUTED, *STORED):
    for kind, function, params in (moves if dtype in STORED else reduces + moves):
        reduce = params.get("reduce", "sum" if kind == "reduce_scatter" else "")
        if (dtype.kind == "b" and reduce in ("sum", "prod")) or \
                (dtype.kind == "c" and reduce == "max"):
            continue
        for shape in ((3, 6), (0, 3), (3, 0)):
            arrays = [np.random.default_rng(r).integers(0, 3, shape).astype(dtype)
                      for r in range(size)]
            found = function(fw.from_numpy(arrays[rank].copy()))._data
            expected = combined(kind, arrays, rank, params)
            assert found.dtype == expected.dtype and found.shape == expected.shape, kind
            assert found.tobytes() == expected.tobytes(), (kind, dtype)
assert dist.all_gather_object({"rank": rank}) == [{"rank": r} for r in range(size)]
nan = fw.tensor([float("nan") if rank == 1 else 1.0])
assert np.isnan(dist.all_reduce(nan, "max").numpy()).all()
dist.send(fw.ones((2, 0, 3), dtype=fw.bfloat16), (rank + 1) % size)
assert dist.receive((rank - 1) % size).shape == (2, 0, 3)
dist.barrier()
sys.stdout.write(f"tested with {fw.get_num_threads()} threads\n")  # in one piece
dist.all_reduce(fw.ones(3 + rank))
