"""Lowers fused groups to loop IR for GPUs: schedules, thread mapping, barriers and a cost model."""
