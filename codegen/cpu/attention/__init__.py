"""Lowers attention of a head to one kernel: scores stay in a cache, row by row.

Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021); Dao et al., "FlashAttention"
(2022), from which the backward pass with recomputed weights is taken. A row of scores is complete
here, so nothing has to be rescaled.
"""
