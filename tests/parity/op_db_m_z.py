"""PyTorch's tested ops whose names begin with M to Z: fusewire's names of them, or why not.

The first letter is that of the last part of a name, without underscores.
"""

from __future__ import annotations

SAME = """
    T __radd__ __rand__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rsub__ __rxor__ mH mT
    masked_fill masked_scatter masked_select matmul max maximum mean median meshgrid min minimum
    mode multinomial nan_to_num nanmean nanmedian nanquantile nansum nextafter normal ones ones_like
    outer polar polygamma positive pow prod put quantile rad2deg rand_like randint randint_like
    randn randn_like real reciprocal remainder reshape roll rot90 round rsqrt scatter
    scatter_add scatter_reduce searchsorted select_scatter sigmoid sign signbit sin sinc sinh
    slice_scatter softmax sort split sqrt square squeeze stack std std_mean stft sum take tan tanh
    tensor_split tensordot tile to topk trace transpose trapezoid tril tril_indices triu
    triu_indices trunc unflatten unfold unique_consecutive unravel_index var var_mean
    view_as_complex view_as_real vsplit vstack where xlogy zero_ zeros zeros_like
    fft.rfft fft.rfft2 fft.rfftn
    linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.multi_dot linalg.norm
    linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.solve_triangular linalg.svd
    linalg.svdvals linalg.tensorinv linalg.tensorsolve linalg.vander linalg.vecdot
    linalg.vector_norm
    nn.functional.margin_ranking_loss nn.functional.max_pool1d nn.functional.max_pool2d
    nn.functional.max_pool3d nn.functional.max_unpool1d nn.functional.max_unpool2d
    nn.functional.max_unpool3d nn.functional.mish nn.functional.mse_loss
    nn.functional.multi_head_attention_forward nn.functional.multi_margin_loss
    nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss
    nn.functional.nll_loss nn.functional.normalize nn.functional.one_hot nn.functional.pad
    nn.functional.pairwise_distance nn.functional.pdist nn.functional.pixel_shuffle
    nn.functional.pixel_unshuffle nn.functional.poisson_nll_loss nn.functional.prelu
    nn.functional.relu nn.functional.relu6 nn.functional.rms_norm nn.functional.rrelu
    nn.functional.scaled_dot_product_attention nn.functional.selu nn.functional.silu
    nn.functional.smooth_l1_loss nn.functional.soft_margin_loss nn.functional.softmin
    nn.functional.softplus nn.functional.softshrink nn.functional.softsign
    nn.functional.tanhshrink nn.functional.threshold nn.functional.triplet_margin_loss
    nn.functional.triplet_margin_with_distance_loss nn.functional.unfold
    signal.windows.nuttall
    special.modified_bessel_k0 special.modified_bessel_k1 special.ndtr special.ndtri
    special.polygamma special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
    special.spherical_bessel_j0 special.xlog1py special.zeta
"""
METHODS = """
    T __radd__ __rand__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rsub__ __rxor__ mH mT to
    unfold zero_
"""  # of SAME, those that are no functions but attributes of tensors

OTHER_NAMES = {
    "__rdiv__": "Tensor.__rtruediv__",
    "_native_batch_norm_legit": "nn.functional.batch_norm",
    "_segment_reduce": "segment_reduce",
    "_upsample_bilinear2d_aa": "nn.functional.interpolate",
    "matrix_exp": "linalg.matrix_exp",
    "mm": "matmul",
    "movedim": "moveaxis",
    "msort": "sort",
    "mul": "multiply",
    "mv": "matmul",
    "mvlgamma": "special.multigammaln",
    "narrow": "Tensor.__getitem__",
    "narrow_copy": "Tensor.__getitem__",
    "native_batch_norm": "nn.functional.batch_norm",
    "native_group_norm": "nn.functional.group_norm",
    "native_layer_norm": "nn.functional.layer_norm",
    "ne": "not_equal",
    "neg": "negative",
    "new_empty": "empty",
    "new_full": "full",
    "new_ones": "ones",
    "new_zeros": "zeros",
    "nn.functional.upsample_bilinear": "nn.functional.interpolate",
    "nn.functional.upsample_nearest": "nn.functional.interpolate",
    "nonzero": "argwhere",
    "norm": "linalg.norm",
    "permute": "permute_dims",
    "permute_copy": "permute_dims",
    "pinverse": "linalg.pinv",
    "qr": "linalg.qr",
    "ravel": "flatten",
    "renorm": "linalg.renorm",
    "repeat": "tile",
    "repeat_interleave": "repeat",
    "reshape_as": "reshape",
    "rsub": "subtract",
    "scalar_tensor": "tensor",
    "select": "Tensor.__getitem__",
    "sgn": "sign",
    "short": "Tensor.astype",
    "slice": "Tensor.__getitem__",
    "special.modified_bessel_i0": "special.i0",
    "special.modified_bessel_i1": "special.i1",
    "split_with_sizes": "split",
    "split_with_sizes_copy": "split",
    "squeeze_copy": "squeeze",
    "sub": "subtract",
    "svd": "linalg.svd",
    "t": "Tensor.T",
    "t_copy": "Tensor.T",
    "take_along_dim": "take_along_axis",
    "transpose_copy": "transpose",
    "trapz": "trapezoid",
    "triangular_solve": "linalg.solve_triangular",
    "true_divide": "divide",
    "unbind": "unstack",
    "unbind_copy": "unstack",
    "unfold_copy": "Tensor.unfold",
    "uniform": "random.uniform",
    "unique": "unique_values",
    "unsafe_chunk": "chunk",
    "unsafe_split": "split",
    "unsqueeze": "expand_dims",
    "unsqueeze_copy": "expand_dims",
    "vdot": "vecdot",
    "view": "reshape",
    "view_as": "reshape",
    "view_copy": "reshape",
    "torch._scaled_mm": "scaled_matmul",
    "torch._scaled_mm_v2": "scaled_matmul",
}

SPELLED: dict[str, str] = {
    **{name: f"Tensor.{name}" if name in METHODS.split() else name for name in SAME.split()},
    **OTHER_NAMES}

NOTES: dict[str, str] = {
    "_upsample_bilinear2d_aa": "with antialias=True",
    "max": "values only: fw.argmax has the indices",
    "median": "of an even number the mean of two; torch's is the lower one",
    "meshgrid": 'indexing="xy" by default, as in NumPy',
    "min": "values only: fw.argmin has the indices",
    "mode": "the index is that of the last occurrence",
    "msort": "with axis=0",
    "nanmedian": "of an even number the mean of two; torch's is the lower one",
    "narrow": "x[start:start + length]",
    "narrow_copy": "x[start:start + length]",
    "new_empty": "with dtype=x.dtype, device=x.device",
    "new_full": "with dtype=x.dtype, device=x.device",
    "new_ones": "with dtype=x.dtype, device=x.device",
    "new_zeros": "with dtype=x.dtype, device=x.device",
    "nn.functional.upsample_bilinear": 'with mode="bilinear", align_corners=True',
    "nonzero": "fw.nonzero has a vector for each axis",
    "renorm": "without torch's 1e-7 in the divisor",
    "rsub": "y - x",
    "select": "x[index]",
    "short": "x.astype(fw.int16)",
    "slice": "x[start:end:step]",
    "sort": "values only: fw.argsort has the indices",
    "std": "correction is 0 by default, as in NumPy",
    "std_mean": "correction is 0 by default, as in NumPy",
    "stft": "the result is always complex",
    "take": "of x.flatten()",
    "tril_indices": "a tuple of two vectors, as in NumPy",
    "triu_indices": "a tuple of two vectors, as in NumPy",
    "unique": "fw.unique_counts and fw.unique_inverse have the other results",
    "var": "correction is 0 by default, as in NumPy",
    "var_mean": "correction is 0 by default, as in NumPy",
    "view": "copies where the layout of the memory allows no view",
}

_PART = "a part of PyTorch itself: "
_SPARSE = "there are no sparse tensors"

ABSENT: dict[str, str] = {
    "_softmax_backward_data": _PART + "the gradient of softmax",
    "_unsafe_masked_index": _PART + "x[indices] where a mask is True, for its compiler",
    "_unsafe_masked_index_put_accumulate": _PART + "the gradient of _unsafe_masked_index",
    "linalg.solve_ex": "linalg.solve raises LinAlgError for singular matrices, without codes",
    "masked.mean": "fw.nanmean(fw.where(mask, x, nan)) leaves elements out",
    "masked.median": "fw.nanmedian(fw.where(mask, x, nan)) leaves elements out",
    "masked.norm": "fw.linalg.norm(fw.where(mask, x, 0)) leaves elements out",
    "masked.normalize": "F.normalize(fw.where(mask, x, 0)) leaves elements out",
    "masked.prod": "fw.prod(fw.where(mask, x, 1)) leaves elements out",
    "masked.softmax": "fw.softmax(fw.where(mask, x, -inf)) leaves elements out",
    "masked.softmin": "F.softmin(fw.where(mask, x, inf)) leaves elements out",
    "masked.std": "fw.nanstd(fw.where(mask, x, nan)) leaves elements out",
    "masked.sum": "fw.sum(fw.where(mask, x, 0)) leaves elements out",
    "masked.var": "fw.nanvar(fw.where(mask, x, nan)) leaves elements out",
    "max_pool2d_with_indices_backward": _PART + "the gradient of max_pool2d",
    "native_dropout_backward": _PART + "the gradient of dropout",
    "new_empty_strided": "a tensor has no strides: fw.empty takes the shape",
    "nonzero_static": "compiled code takes sizes that only values tell, as of fw.nonzero",
    "ormqr": "the product with q, a matrix, of fw.linalg.qr; nothing stores reflections",
    "pca_lowrank": "fw.linalg.svd of x - x.mean(0), which is exact, and its first columns",
    "resize_": "the number of elements of a tensor is fixed: fw.reshape, slices or fw.pad",
    "resize_as_": "the number of elements of a tensor is fixed: fw.reshape, slices or fw.pad",
    "resolve_conj": "fw.conj computes at once; no tensor waits for a conjugation",
    "resolve_neg": "fw.negative computes at once; no tensor waits for a negation",
    "sparse.mm": _SPARSE,
    "sparse.sampled_addmm": _SPARSE,
    **{f"special.shifted_chebyshev_polynomial_{kind}": "numpy.polynomial has coefficients for "
       "Horner's rule; torch has no gradient of it" for kind in "tuvw"},
    "sum_to_size": "fw.sum over the axes that were broadcast, with keepdims",
    "svd_lowrank": "fw.linalg.svd, which is exact, and its first columns",
    "to_sparse": _SPARSE,
}
