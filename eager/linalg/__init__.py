"""Linear algebra: factors, solutions, eigenvalues, norms, over batches of matrices (..., m, n).

It has the functions of the Array API's `linalg` extension and some of PyTorch's. They compute
through LAPACK, with float16 and bfloat16 widened to float32, and have gradients of any order.
Decompositions raise DTypeError for integers and bool, and ShapeError for fewer than two axes.
"""

from ..errors import LinAlgError
from ..ops.products.contract import matmul, tensordot, vecdot
from ..ops.products.matrix import cross, diagonal, outer, trace
from ..ops.shape.view import matrix_transpose
from .eigen import EighResult, EigResult, eig, eigh, eigvals, eigvalsh
from .factor import QRResult, cholesky, qr
from .function import matrix_exp, matrix_power, multi_dot, vander
from .lu import LUResult, lu
from .norm import cond, matrix_norm, norm, renorm, vector_norm
from .singular import LstsqResult, SVDResult, lstsq, matrix_rank, pinv, svd, svdvals
from .solve import SlogdetResult, det, inv, slogdet, solve, solve_triangular
from .tensors import tensorinv, tensorsolve

__all__ = [
    "EigResult", "EighResult", "LUResult", "LinAlgError", "LstsqResult", "QRResult", "SVDResult",
    "SlogdetResult", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "inv", "lstsq", "lu", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "renorm",
    "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot", "tensorinv",
    "tensorsolve", "trace", "vander", "vecdot", "vector_norm",
]
