"""Attention on a GPU: a thread block takes a tile of rows of scores and iterates over their
columns.

Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al.,
"FlashAttention" (2022); the order of the loops is that of Dao, "FlashAttention-2" (2023).
"""
