"""Products, factorizations, norms; einsum; Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from inputs import Input, made, x
from parity.entry import Table

import fusewire as fw

TABLE, FFT = Table("linear algebra"), Table("Fourier transforms")
SMALL: Any = {"kinds": "fhc", "loose": 20}


def normal(rng: Any, d: Any, *shape: int) -> Any:
    drawn = rng.standard_normal(shape)
    return (drawn + 1j * rng.standard_normal(shape) if d.kind == "c" else drawn).astype(d)


def square(*shape: int) -> Input:
    """Matrices far from singular."""
    return made(lambda rng, d: (normal(rng, d, *shape) + 2 * np.eye(shape[-1])).astype(d))


def hermitian(*shape: int, positive: float = 0.0) -> Input:
    """Matrices equal to their adjoint; with `positive` added to positive definite ones."""
    def make(rng: Any, d: Any) -> Any:
        a = normal(rng, d, *shape)
        b = a @ a.swapaxes(-1, -2).conj() / 4 + positive * np.eye(shape[-1]) if positive else \
            a + a.swapaxes(-1, -2).conj()
        return b.astype(d)

    return made(make)


def linalg(name: str, *inputs: Input, label: str = "", theirs: Any = None, ours: Any = None,
           **how: Any) -> None:
    TABLE(f"linalg.{name}", *inputs, label=label, ours=ours, theirs=theirs or f"linalg.{name}",
          **{**SMALL, **how})


# ---- products
for a, b in (((3, 4), (4, 5)), ((4,), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
             ((2, 1, 3, 4), (5, 4, 2))):
    TABLE("matmul", x(*a), x(*b), label=f"{a} {b}".replace(" ", ""), kinds="fci", loose=4)
TABLE("matmul", x(3, 4), x(4, 2), label="half", kinds="h", loose=2, only=("values",))
for label, dtype in (("real", "f8"), ("complex", "c16")):
    wide = np.dtype(dtype)
    TABLE("linalg.solve", square(3, 3), x(3, 2, dtype=wide), label=f"and {label}",
          kinds="fc", loose=20, theirs=lambda a, b: torch.linalg.solve(
              *[v.to(torch.promote_types(a.dtype, b.dtype)) for v in (a, b)]))
    TABLE("matmul", x(2, 3), x(3, 2, dtype=wide), label=f"and {label}", kinds="fc", loose=4,
          theirs=lambda a, b: torch.matmul(*[v.to(torch.promote_types(a.dtype, b.dtype))
                                             for v in (a, b)]))
TABLE("tensordot", x(2, 3, 4), x(3, 4, 5), kinds="fci", loose=4,
      ours=lambda a, b: fw.tensordot(a, b, axes=2), theirs=lambda a, b: torch.tensordot(a, b, 2))
TABLE("tensordot", x(2, 3, 4), x(4, 2), label="axes", kinds="fc", loose=4,
      ours=lambda a, b: fw.tensordot(a, b, axes=((0, 2), (1, 0))),
      theirs=lambda a, b: torch.tensordot(a, b, ((0, 2), (1, 0))))
TABLE("vecdot", x(2, 3, 4), x(3, 4), theirs="linalg.vecdot", kinds="fc", loose=4)
TABLE("vecdot", x(4, 2, 3), x(4, 1, 3), label="axis=0", kinds="fc", loose=4,
      ours=lambda a, b: fw.vecdot(fw.broadcast_to(a, (4, 2, 3)), fw.broadcast_to(b, (4, 2, 3)),
                                  axis=-2), theirs=lambda a, b: torch.linalg.vecdot(
          *torch.broadcast_tensors(a, b), dim=-2))
TABLE("outer", x(3), x(4), kinds="fci")
TABLE("kron", x(2, 3), x(3, 2), kinds="fci", loose=4)
TABLE("cross", x(2, 3), x(2, 3), theirs="linalg.cross", kinds="fci", loose=4)
TABLE("cross", x(3, 2), x(3, 2), label="axis=0", kinds="fc", loose=4,
      ours=lambda a, b: fw.cross(a, b, axis=0),
      theirs=lambda a, b: torch.linalg.cross(a, b, dim=0))
for spec, shapes in {
        "ij,jk->ik": ((2, 3), (3, 4)), "ii->i": ((3, 3),), "ii": ((3, 3),), "ij->ji": ((2, 3),),
        "ij->": ((2, 3),), "ij,j": ((2, 3), (3,)), "bij,bjk->bik": ((2, 3, 4), (2, 4, 2)),
        "i,j->ij": ((2,), (3,)), "...ij,...jk->...ik": ((2, 2, 3), (3, 2)),
        "ij,jk,kl->il": ((2, 3), (3, 4), (4, 2)), "ij,ij,ij->i": ((2, 3), (2, 3), (2, 3)),
        "abc,cd,de->abe": ((2, 3, 2), (2, 3), (3, 2)), "iij,jk->ik": ((2, 2, 3), (3, 2))}.items():
    TABLE("einsum", *[x(*s) for s in shapes], label=spec, loose=8,
          kinds="fc" if spec in ("ii", "ij->") else "fci",  # torch sums int8 to int64 in these
          ours=lambda *a, s=spec: fw.einsum(s, *a), theirs=lambda *a, s=spec: torch.einsum(s, *a))

# ---- the namespace linalg
for name in ("matmul", "outer", "cross", "vecdot"):
    shapes = {"matmul": ((2, 3), (3, 4)), "outer": ((3,), (4,)), "cross": ((2, 3), (2, 3)),
              "vecdot": ((2, 3), (2, 3))}[name]
    linalg(name, *[x(*s) for s in shapes],
           theirs={"outer": "outer", "matmul": "matmul"}.get(name))
linalg("tensordot", x(2, 3, 4), x(3, 4, 2), ours=lambda a, b: fw.linalg.tensordot(a, b, axes=2),
       theirs=lambda a, b: torch.tensordot(a, b, 2))
linalg("matrix_transpose", x(2, 3, 4), theirs=lambda a: a.mT)
for k in (0, 1, -1):
    linalg("diagonal", x(2, 3, 4), label=f"offset={k}",
           ours=lambda a, k=k: fw.linalg.diagonal(a, offset=k),
           theirs=lambda a, k=k: torch.linalg.diagonal(a, offset=k))
linalg("trace", x(2, 3, 3), theirs=lambda a: torch.diagonal(a, 0, -2, -1).sum(-1))


def of_hermitian(fn: Any) -> Any:
    """`fn` of a matrix made equal to its adjoint: derivatives then have one meaning only."""
    return lambda a: fn((a + a.conj().mT) / 2 if "complex" in str(a.dtype) else (a + a.mT) / 2)


for upper in (False, True):
    linalg("cholesky", hermitian(3, 3, positive=1), label=f"upper={upper}",
           also=[[hermitian(2, 3, 3, positive=1)]],
           ours=of_hermitian(lambda a, u=upper: fw.linalg.cholesky(a, upper=u)),
           theirs=of_hermitian(lambda a, u=upper: torch.linalg.cholesky(a, upper=u)))
linalg("det", square(3, 3), also=[[square(2, 4, 4)], [square(1, 1)]])
SINGULAR: Any = {
    0: [[0, 0, 0], [0, 0, 0], [0, 0, 0]], 1: [[1, 0, 2], [2, 0, 4], [3, 0, 6]],
    2: [[1, 2, 3], [4, 5, 6], [7, 8, 9]]}
for rank, matrix in SINGULAR.items():
    for kinds in "fc":
        why = {}
        if rank == 0:
            why["grad grad"] = "torch's is nan for 0"
        elif kinds == "c":
            why["grad grad"] = "torch's of singular complex matrices is not that of its gradient"
        if rank == 2:
            why["forward"] = "torch's of singular matrices is 0, which its gradient contradicts"
        linalg("det", made(lambda rng, d, m=matrix: np.array(m, d)), kinds=kinds, loose=1000,
               label=f"singular, rank {rank}, {kinds}", differs=why)
linalg("slogdet", square(3, 3), also=[[square(2, 4, 4)]])
linalg("inv", square(3, 3), also=[[square(2, 4, 4)]])
linalg("solve", square(3, 3), x(3, 2), also=[[square(2, 3, 3), x(2, 3, 2)]])
linalg("solve", square(3, 3), x(3), label="a vector")
for upper in (False, True):
    linalg("solve_triangular", square(2, 3, 3), x(2, 3, 2), label=f"upper={upper}",
           ours=lambda a, b, u=upper: fw.linalg.solve_triangular(a, b, upper=u),
           theirs=lambda a, b, u=upper: torch.linalg.solve_triangular(a, b, upper=u))
for shape in ((4, 3), (3, 3), (2, 4, 2)):
    linalg("qr", x(*shape), label=f"{shape}")
    linalg("lu", x(*shape), label=f"{shape}")
linalg("qr", x(4, 3), label="complete", grad=False,
       ours=lambda a: fw.linalg.qr(a, mode="complete"),
       theirs=lambda a: torch.linalg.qr(a, mode="complete"))


def without_phase(fn: Any, values: int) -> Any:
    """The sizes of singular or eigenvectors, whose signs and phases are free; and the values."""
    def call(*args: Any) -> Any:
        parts = fn(*args)
        return [part if n == values else abs(part) for n, part in enumerate(parts)]

    return call


linalg("eigh", hermitian(3, 3), also=[[hermitian(2, 4, 4)]],
       ours=of_hermitian(without_phase(lambda a: fw.linalg.eigh(a), 0)),
       theirs=of_hermitian(without_phase(torch.linalg.eigh, 0)))
linalg("eigvalsh", hermitian(3, 3), also=[[hermitian(2, 4, 4)]],
       ours=of_hermitian(lambda a: fw.linalg.eigvalsh(a)),
       theirs=of_hermitian(torch.linalg.eigvalsh))
linalg("eig", square(3, 3), ours=without_phase(lambda a: fw.linalg.eig(a), 0),
       theirs=without_phase(torch.linalg.eig, 0), also=[[square(2, 4, 4)]], loose=100, kinds="fc")
linalg("eigvals", square(3, 3), also=[[square(2, 4, 4)]], loose=100, kinds="fc")
for shape in ((3, 3), (4, 2), (2, 2, 3)):
    linalg("svd", x(*shape), label=f"{shape}", loose=100,
           ours=without_phase(lambda a: fw.linalg.svd(a, full_matrices=False), 1),
           theirs=without_phase(lambda a: torch.linalg.svd(a, full_matrices=False), 1))
    linalg("svdvals", x(*shape), label=f"{shape}")
    linalg("pinv", x(*shape), label=f"{shape}", loose=100)
linalg("svd", x(4, 3), label="full", grad=False,
       ours=lambda a: fw.linalg.svd(a).S, theirs=lambda a: torch.linalg.svd(a).S)
linalg("matrix_rank", x(3, 4), made(lambda rng, d: np.ones((), d)), label="",
       ours=lambda a, _: fw.linalg.matrix_rank(a), theirs=lambda a, _: torch.linalg.matrix_rank(a),
       grad=False)
for n in (0, 1, 3, -2):
    linalg("matrix_power", square(3, 3), label=f"{n}",
           ours=lambda a, n=n: fw.linalg.matrix_power(a, n),
           theirs=lambda a, n=n: torch.linalg.matrix_power(a, n))
linalg("matrix_exp", x(3, 3), also=[[x(2, 3, 3, low=-1, high=1)]], loose=100)
linalg("multi_dot", x(2, 3), x(3, 4), x(4, 2), ours=lambda *a: fw.linalg.multi_dot(a),
       theirs=lambda *a: torch.linalg.multi_dot(a))
linalg("lstsq", x(5, 3), x(5, 2), ours=lambda a, b: fw.linalg.lstsq(a, b)[0], loose=100,
       theirs=lambda a, b: torch.linalg.lstsq(a, b)[0])
linalg("vander", x(4), ours=lambda a: fw.linalg.vander(a), theirs="linalg.vander")
for order in (2, 1, 0, 3, 0.5, np.inf, -np.inf):
    linalg("vector_norm", x(3, 4), label=f"ord={order}",
           ours=lambda a, o=order: fw.linalg.vector_norm(a, axis=1, ord=o),
           theirs=lambda a, o=order: torch.linalg.vector_norm(a, o, dim=1))
linalg("vector_norm", x(2, 3, 4), label="all", theirs="linalg.vector_norm")
for order in (1, 2, 3, np.inf):
    linalg("vector_norm", made(lambda rng, d: np.zeros(3, d)), label=f"at 0, ord={order}",
           theirs=lambda a, o=order: torch.linalg.vector_norm(a, o),
           ours=lambda a, o=order: fw.linalg.vector_norm(a, ord=o),
           differs={"grad grad": "the second derivative does not exist at 0"})
linalg("vector_norm", made(lambda rng, d: np.array([2, -2, 1, 2], d)), label="ties, ord=inf",
       theirs=lambda a: torch.linalg.vector_norm(a, torch.inf),
       ours=lambda a: fw.linalg.vector_norm(a, ord=np.inf))
for name in ("eigvalsh", "svdvals", "pinv"):  # two equal values, and one of 0
    linalg(name, made(lambda rng, d: np.diag([2.0, 2.0, 0.0]).astype(d)), label="equal values",
           only=("values", "grad"))
for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
    linalg("matrix_norm", x(3, 4), label=f"ord={order}", loose=100,
           ours=lambda a, o=order: fw.linalg.matrix_norm(a, ord=o),
           theirs=lambda a, o=order: torch.linalg.matrix_norm(a, o))
linalg("norm", x(3, 4), label="all", theirs="linalg.norm")
linalg("norm", x(3, 4), label="ord=1, axis=1", ours=lambda a: fw.linalg.norm(a, 1, axis=1),
       theirs=lambda a: torch.linalg.norm(a, 1, dim=1))
linalg("cond", square(3, 3), loose=100)
for p in (1, "fro"):  # torch's own changes what its gradient needs
    linalg("cond", square(3, 3), label=f"p={p}", loose=100,
           ours=lambda a, p=p: fw.linalg.cond(a, p), theirs=lambda a, p=p: torch.linalg.matrix_norm(
               a, p) * torch.linalg.matrix_norm(torch.linalg.inv(a), p))


# ---- Fourier transforms
def fft(name: str, *shape: int, kinds: str, label: str = "", more: Any = None, **theirs: Any
        ) -> None:
    """`more`: keywords of ours, `theirs`: the same as torch calls them."""
    more = more or {}
    FFT(f"fft.{name}", x(*shape), label=label or ", ".join(f"{k}={v}" for k, v in more.items()),
        ours=lambda a: getattr(fw.fft, name)(a, **more), kinds=kinds, loose=4,
        theirs=lambda a: getattr(torch.fft, name)(a, **theirs))


for name, kinds in {"fft": "fc", "ifft": "fc", "rfft": "f", "irfft": "fc", "hfft": "fc",
                    "ihfft": "f"}.items():
    fft(name, 3, 6, kinds=kinds)
    fft(name, 2, 5, kinds=kinds, label="odd")
    for norm in ("ortho", "forward"):
        fft(name, 5, 3, kinds=kinds, more={"axis": 0, "norm": norm}, dim=0, norm=norm)
    for n in (4, 9):
        fft(name, 2, 6, kinds=kinds, more={"n": n}, n=n)
for name, kinds in {"fftn": "fc", "ifftn": "fc", "rfftn": "f", "irfftn": "fc"}.items():
    fft(name, 3, 4, kinds=kinds)
    fft(name, 3, 4, 5, kinds=kinds, more={"s": (2, 6), "axes": (0, 2)}, s=(2, 6), dim=(0, 2))
    fft(name, 3, 4, 5, kinds=kinds, more={"axes": (1, 0), "norm": "ortho"}, dim=(1, 0),
        norm="ortho")
for name, kinds in {"fft2": "fc", "ifft2": "fc", "rfft2": "f", "irfft2": "fc"}.items():
    fft(name, 2, 3, 4, kinds=kinds)
for name in ("fftshift", "ifftshift"):
    fft(name, 3, 4, kinds="fci")
    fft(name, 3, 4, kinds="fc", more={"axes": 1}, dim=1)
for name in ("fftfreq", "rfftfreq"):
    FFT(f"fft.{name}", ours=lambda n=name: getattr(fw.fft, n)(7, d=0.5), grad=False, kinds="f",
        theirs=lambda n=name: getattr(torch.fft, n)(7, 0.5), differs={"vmap": "has no inputs"})
