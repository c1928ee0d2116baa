"""Attention of a head in one kernel: scores stay in a cache, row by row, and never lie in memory.

Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021); Dao et al., "FlashAttention"
(2022), of which the way back by weights computed again is. Rows of scores are whole here, so
nothing has to be rescaled.
"""
