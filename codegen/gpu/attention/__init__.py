"""Attention on a GPU: a team of threads has a tile of rows of scores, and goes over their columns.

Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al.,
"FlashAttention" (2022), and Dao, "FlashAttention-2" (2023), of which the order of the loops is.
"""
