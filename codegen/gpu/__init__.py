"""Lowering of groups to loops for GPUs: thread mapping, barriers, a cost model, scans and
scatters."""
