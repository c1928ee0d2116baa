"""Functions with one name and one meaning in PyTorch and in fusewire."""

from __future__ import annotations

FUNCTIONS = """
abs acos acosh angle argwhere asin asinh atan atan2 atanh bincount
bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor block_diag
broadcast_shapes can_cast cartesian_prod ceil cholesky_inverse column_stack combinations complex
conj copysign corrcoef cos cosh cov deg2rad diagflat digamma dist dsplit dstack
empty erf erfc erfinv exp exp2 expm1 floor fmax fmin frac frexp from_dlpack from_numpy gcd gradient
heaviside histogramdd hsplit hstack hypot i0 imag inner isfinite isinf isnan isneginf isposinf
isreal istft kron lcm ldexp lgamma log log10 log1p log2 logaddexp logaddexp2 logdet logical_and
logical_not logical_or logical_xor logit matmul maximum minimum nan_to_num negative nextafter ones
polar positive put rad2deg rand randn real reciprocal rsqrt segment_reduce select_scatter sigmoid
sign signbit sin sinc sinh slice_scatter sqrt square stft tan tanh trunc unflatten unravel_index
view_as_complex view_as_real vsplit vstack xlogy zeros
"""

OTHERS = """
Generator bfloat16 bool complex128 complex64 default_generator e enable_grad finfo float16 float32
float64 get_num_threads get_rng_state iinfo inf inference_mode initial_seed int16 int32 int64 int8
is_autocast_enabled get_autocast_dtype is_grad_enabled is_inference_mode_enabled nan newaxis no_grad
pi result_type seed set_grad_enabled set_num_threads set_printoptions set_rng_state uint16 uint32
uint64 uint8 manual_seed autocast printoptions float8_e4m3fn float8_e4m3fnuz float8_e5m2
float8_e5m2fnuz float8_e8m0fnu
"""

OF_LAYERS = """
adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear
binary_cross_entropy_with_logits celu celu_ channel_shuffle conv1d conv2d conv3d conv_tbc
conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity ctc_loss
dropout embedding embedding_bag feature_alpha_dropout group_norm hardshrink hinge_embedding_loss
instance_norm kl_div layer_norm margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d
max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu_
rms_norm rrelu rrelu_ selu selu_ threshold threshold_ triplet_margin_loss
"""
"""Functions of `nn.functional` that PyTorch also has in its root."""

IN_PLACE = """
abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1
floor frac lgamma log log10 log1p log2 logit nan_to_num rad2deg reciprocal rsqrt sigmoid sign sin
sinc sinh sqrt square tan tanh trunc relu heaviside xlogy gcd lcm ldexp
"""
"""Functions of which PyTorch also has a method that changes its tensor, `exp_`."""
