"""PyTorch's tested ops whose names begin with A to L: fusewire's names of them, or why not.

The first letter is that of the last part of a name, without underscores.
"""

from __future__ import annotations

SAME = """
    abs acos acosh add addbmm addcdiv addcmul addmm addmv addr all allclose aminmax angle any
    arange argmax argmin argsort argwhere asin asinh atan atan2 atanh atleast_1d atleast_2d
    atleast_3d baddbmm bernoulli bincount bitwise_and bitwise_left_shift bitwise_or
    bitwise_right_shift bitwise_xor block_diag broadcast_shapes broadcast_to bucketize
    cartesian_prod cdist ceil cholesky_inverse cholesky_solve chunk column_stack combinations
    complex conj copysign corrcoef cos cosh count_nonzero cov cross cummax cummin cumprod
    cumsum cumulative_trapezoid deg2rad diag diag_embed diagflat diagonal diagonal_scatter
    diff digamma dist dsplit dstack einsum empty empty_like erf erfc erfinv exp exp2 expm1 eye
    flatten flip float_power floor floor_divide fmax fmin fmod frac frexp full full_like
    gather gcd gradient heaviside histogram histogramdd hsplit hstack hypot i0 imag index_add
    index_copy index_fill index_put index_reduce inner isclose isfinite isin isinf isnan
    isneginf isposinf isreal istft kron kthvalue lcm ldexp lerp lgamma linspace log log10 log1p log2
    log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or
    logical_xor logit logspace logsumexp
    fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift
    fft.ihfft fft.irfft fft.irfft2 fft.irfftn
    linalg.cholesky linalg.cond linalg.cross linalg.det linalg.diagonal linalg.eig linalg.eigh
    linalg.eigvals linalg.eigvalsh linalg.inv linalg.lstsq linalg.lu
    signal.windows.bartlett signal.windows.blackman signal.windows.cosine
    signal.windows.exponential signal.windows.gaussian signal.windows.general_cosine
    signal.windows.general_hamming signal.windows.hamming signal.windows.hann signal.windows.kaiser
    nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
    nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d
    nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d
    nn.functional.alpha_dropout nn.functional.avg_pool1d nn.functional.avg_pool2d
    nn.functional.avg_pool3d nn.functional.batch_norm nn.functional.bilinear
    nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
    nn.functional.celu nn.functional.channel_shuffle nn.functional.conv1d nn.functional.conv2d
    nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
    nn.functional.conv_transpose3d nn.functional.cosine_embedding_loss
    nn.functional.cosine_similarity nn.functional.cross_entropy nn.functional.ctc_loss
    nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.elu
    nn.functional.embedding nn.functional.embedding_bag nn.functional.feature_alpha_dropout
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.gaussian_nll_loss nn.functional.gelu nn.functional.glu
    nn.functional.grid_sample nn.functional.group_norm nn.functional.hardshrink
    nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh
    nn.functional.hinge_embedding_loss nn.functional.huber_loss nn.functional.instance_norm
    nn.functional.interpolate nn.functional.kl_div nn.functional.l1_loss
    nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear
    nn.functional.linear_cross_entropy nn.functional.local_response_norm
    nn.functional.logsigmoid
    special.entr special.erfcx special.i0e special.i1 special.i1e special.log_ndtr
"""

OTHER_NAMES = {
    "H": "conj",
    "__getitem__": "Tensor.__getitem__",
    "_batch_norm_with_update": "nn.functional.batch_norm",
    "alias_copy": "asarray",
    "amax": "max",
    "amin": "min",
    "bfloat16": "Tensor.astype",
    "bitwise_not": "bitwise_invert",
    "bmm": "matmul",
    "bool": "Tensor.astype",
    "broadcast_tensors": "broadcast_arrays",
    "byte": "Tensor.astype",
    "cat": "concat",
    "cauchy": "random.cauchy",
    "cdouble": "Tensor.astype",
    "cfloat": "Tensor.astype",
    "char": "Tensor.astype",
    "cholesky": "linalg.cholesky",
    "clamp": "clip",
    "clamp_max": "minimum",
    "clamp_min": "maximum",
    "clone": "asarray",
    "conj_physical": "conj",
    "constant_pad_nd": "nn.functional.pad",
    "diagonal_copy": "diagonal",
    "div": "divide",
    "dot": "vecdot",
    "double": "Tensor.astype",
    "eq": "equal",
    "equal": "all",
    "expand": "broadcast_to",
    "expand_as": "broadcast_to",
    "expand_copy": "broadcast_to",
    "exponential": "random.exponential",
    "fft.hfft2": "fft.hfft",
    "fft.hfftn": "fft.hfft",
    "fft.ihfft2": "fft.ihfft",
    "fft.ihfftn": "fft.ihfft",
    "fill": "full_like",
    "fliplr": "flip",
    "flipud": "flip",
    "float": "Tensor.astype",
    "ge": "greater_equal",
    "grid_sampler_2d": "nn.functional.grid_sample",
    "grid_sampler_3d": "nn.functional.grid_sample",
    "gt": "greater",
    "half": "Tensor.astype",
    "histc": "histogram",
    "igamma": "special.gammainc",
    "igammac": "special.gammaincc",
    "index_select": "take",
    "int": "Tensor.astype",
    "item": "Tensor.item",
    "le": "less_equal",
    "linalg.lu_factor": "linalg.lu",
    "log_normal": "random.log_normal",
    "long": "Tensor.astype",
    "lt": "less",
    "lu": "linalg.lu",
    "lu_unpack": "linalg.lu",
    "torch.ops.aten._efficient_attention_forward": "nn.functional.scaled_dot_product_attention",
    "torch.ops.aten._flash_attention_forward": "nn.functional.scaled_dot_product_attention",
}

SPELLED: dict[str, str] = {**{name: name for name in SAME.split()}, **OTHER_NAMES}

NOTES: dict[str, str] = {
    "H": "`fw.conj(x.T)`",
    "all": "bool, also of uint8",
    "any": "bool, also of uint8",
    "allclose": "a 0-d tensor of bool, so that it can be compiled",
    "clone": "`fw.asarray(x, copy=True)`",
    "alias_copy": "`fw.asarray(x, copy=True)`",
    "cross": "the default axis is the last one",
    "diag_embed": "`fw.moveaxis` moves the axes of the matrices",
    "diagonal": "of the last two axes; `fw.moveaxis` moves others there",
    "dot": "or `x @ y`",
    "equal": "`fw.all(x == y)`; `fw.equal` compares elements",
    "fft.hfft2": "`fw.fft.hfft(fw.fft.fft(x, axis=-2))`",
    "fft.hfftn": "`fw.fft.hfft(fw.fft.fftn(x, axes=axes[:-1]), axis=axes[-1])`",
    "fft.ihfft2": "`fw.fft.ifft(fw.fft.ihfft(x), axis=-2)`",
    "fft.ihfftn": "`fw.fft.ifftn(fw.fft.ihfft(x, axis=axes[-1]), axes=axes[:-1])`",
    "frexp": "mantissas of subnormal numbers are normalized, too",
    "gradient": "always a tuple, also for one axis",
    "histc": "`fw.histogram(x, bins, range=(low, high)).hist`",
    "histogram": "counts are integers",
    "histogramdd": "counts are integers; a range is a pair for each coordinate",
    "ldexp": "exponents are integers",
    "linalg.lu_factor": "P, L and U as matrices",
    "lu": "P, L and U as matrices",
    "lu_unpack": "P, L and U as matrices",
}
_PART = "a part of PyTorch itself: "
_STRIDES = "a tensor has no strides"
_NO_CODES = " raises LinAlgError where it fails, without codes"
_POLYNOMIAL = "numpy.polynomial has coefficients for Horner's rule; torch has no gradient of it"
_JITERATOR = "fw.compile makes kernels of functions of tensors; no text of C++ is taken"
_LDL = "NumPy's LAPACK has no LDL factors: fw.linalg.cholesky or fw.linalg.solve"
_REFLECTIONS = "fw.linalg.qr has Q as a matrix; nothing stores reflections"
_MASKED = " leaves elements out"

ABSENT: dict[str, str] = {
    "_chunk_cat": _PART + "pads and joins the gradients of parameters that lie on several machines",
    "as_strided": _STRIDES + ": fw.take by indices, x.unfold or slices",
    "as_strided_copy": _STRIDES + ": fw.take by indices, x.unfold or slices",
    "as_strided_scatter": _STRIDES + ": fw.index_put, fw.diagonal_scatter or x[...] = y",
    "chalf": "NumPy has no complex numbers of two float16: x.astype(fw.complex64)",
    "contiguous": "every tensor is contiguous to those who read it",
    "empty_permuted": _STRIDES + ": fw.empty takes the shape",
    "empty_strided": _STRIDES + ": fw.empty takes the shape",
    "geometric": "fw.floor(fw.log1p(-fw.rand(shape)) / math.log1p(-p)) + 1 draws them",
    "geqrf": _REFLECTIONS,
    "hash_tensor": _PART + "a check sum of the bits",
    **dict.fromkeys((
        "jiterator_2inputs_2outputs", "jiterator_4inputs_with_extra_args", "jiterator_binary",
        "jiterator_binary_return_by_ref", "jiterator_unary"), _JITERATOR),
    "linalg.cholesky_ex": "fw.linalg.cholesky" + _NO_CODES,
    "linalg.householder_product": _REFLECTIONS,
    "linalg.inv_ex": "fw.linalg.inv" + _NO_CODES,
    **dict.fromkeys(("linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve"), _LDL),
    "linalg.lu_factor_ex": "fw.linalg.lu has factors of all matrices, without codes",
    **dict.fromkeys(("linalg.lu_solve", "lu_solve"), (
        "fw.linalg.solve_triangular by L of P.mT @ b, then by U, with P, L, U of fw.linalg.lu; "
        "fw.linalg.solve takes the matrix itself")),
    "masked.amax": "fw.max(fw.where(mask, x, -inf))" + _MASKED,
    "masked.amin": "fw.min(fw.where(mask, x, inf))" + _MASKED,
    "masked.argmax": "fw.argmax(fw.where(mask, x, -inf))" + _MASKED,
    "masked.argmin": "fw.argmin(fw.where(mask, x, inf))" + _MASKED,
    "masked.cumprod": "fw.cumprod(fw.where(mask, x, 1), axis)" + _MASKED,
    "masked.cumsum": "fw.cumsum(fw.where(mask, x, 0), axis)" + _MASKED,
    "masked.log_softmax": "fw.log_softmax(fw.where(mask, x, -inf))" + _MASKED,
    "masked.logaddexp": "fw.logaddexp(fw.where(mask, x, -inf), y)" + _MASKED,
    "masked.logsumexp": "fw.logsumexp(fw.where(mask, x, -inf))" + _MASKED,
    **dict.fromkeys(("special.airy_ai", "special.bessel_j0", "special.bessel_j1",
                     "special.bessel_y0", "special.bessel_y1"),
                    "scipy.special has it; torch has no gradient of it"),
    **{f"special.{name}": _POLYNOMIAL for name in (
        "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
        "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
        "laguerre_polynomial_l", "legendre_polynomial_p")},
    "torch.ops.aten._safe_softmax.default": _PART + "softmax with zeros for rows of -inf",
}
