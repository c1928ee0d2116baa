"""Training on several processes: groups, collectives, and models whose work they share."""

import sys

from ..eager.front import hints
from . import checkpoint
from .clipping import clip_grad_norm_
from .collectives import (
    all_gather,
    all_gather_object,
    all_reduce,
    all_to_all,
    barrier,
    broadcast,
    receive,
    reduce_scatter,
    replicate_values,
    send,
    shift,
)
from .cost_model import Hardware, Plan, plan
from .data_parallel import no_sync, replicate
from .engines.engine import ProcessGroup
from .fully_sharded import fully_shard, whole_state
from .groups import (
    destroy_process_group,
    get_local_rank,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
    run_fake,
)
from .joint_batch import JointDropout, join_batches, sampler
from .mesh import DeviceMesh, P, init_device_mesh
from .optimizers import ZeroRedundancyOptimizer
from .pipeline import Pipeline, pipeline
from .tensor_parallel import shard

__all__ = [
    "DeviceMesh",
    "Hardware",
    "JointDropout",
    "P",
    "Pipeline",
    "Plan",
    "ProcessGroup",
    "ZeroRedundancyOptimizer",
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "checkpoint",
    "clip_grad_norm_",
    "destroy_process_group",
    "fully_shard",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "init_device_mesh",
    "init_process_group",
    "is_initialized",
    "join_batches",
    "new_group",
    "no_sync",
    "pipeline",
    "plan",
    "receive",
    "reduce_scatter",
    "replicate",
    "replicate_values",
    "run_fake",
    "sampler",
    "send",
    "shard",
    "shift",
    "whole_state",
]

hints.add("distributed", sys.modules[__name__])
hints.add("distributed.checkpoint", checkpoint)
