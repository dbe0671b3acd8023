"""What the machine can do: the yardsticks that times of the same run are held against."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from gofstream.execution import cores
from gofstream.ratio.arrays import to_numpy
from gofstream.ratio.devices import describe, namespace
from gofstream.settings import Device

#: Rows and columns of the product that is timed; rows and columns of the matrix that is read.
PRODUCT, READ = 2048, (100_000, 1000)
#: Packages whose versions decide speed.
PACKAGES = ("gofstream", "numpy", "scipy")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where times were taken, and what the yardsticks say.

    Attributes
    ----------
    cpu, cores : its name, and how many cores this process may use.
    device : where products are made: its name here, and what it calls itself.
    versions : of Python, of the packages and libraries that decide speed.
    gflops32, gflops64 : products of large matrices, 1e9 multiplications and additions a second.
    bandwidth : 1e9 bytes a second that products with vectors read from memory.
    """

    cpu: str
    cores: int
    device: Device
    device_name: str
    versions: dict[str, str]
    gflops32: float
    gflops64: float
    bandwidth: float


def measure_machine(device: Device = "cpu") -> Machine:
    """Time the yardsticks on a device; on a CPU with as many threads as BLAS has now.

    Raises
    ------
    GofstreamError
        If the device is not there.
    """
    known = describe(device)
    return Machine(
        cpu=cpu_name(),
        cores=cores(),
        device=device,
        device_name=known.pop("name"),
        versions=versions() | known,
        gflops32=gemm_peak(device=device) / 1e9,
        gflops64=gemm_peak("float64", device=device) / 1e9,
        bandwidth=read_bandwidth(device=device) / 1e9,
    )


def cpu_name() -> str:
    """Name the processor as the system knows it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str]:
    """Tell the versions of what decides speed, BLAS included."""
    found = {"python": platform.python_version()}
    found |= {package: version(package) for package in PACKAGES}
    blas = {
        f"{each['internal_api']} {each['version']} ({each.get('architecture', 'generic')})"
        for each in threadpool_info()
        if each["user_api"] == "blas"
    }
    return found | {"blas": ", ".join(sorted(blas))}


def seconds(work: Callable[[], Any], repeat: int = 3) -> float:
    """Shortest wall time of a few runs.

    Examples
    --------
    >>> seconds(lambda: None) < 1
    True
    """
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return float(best)


def gemm_peak(dtype: str = "float32", *, device: Device = "cpu") -> float:
    """Multiply-add rate of a large matrix product, in flop/s."""
    xp, where = namespace(device)
    a = xp.asarray(np.random.default_rng(0).random((PRODUCT, PRODUCT)).astype(dtype), device=where)
    # A number of the result is asked for: other devices answer before they are done.
    return 2 * PRODUCT**3 / seconds(lambda: to_numpy((a @ a)[:1, :1]), 4)


def read_bandwidth(*, device: Device = "cpu") -> float:
    """Bytes per second that float64 products with vectors read from memory."""
    xp, where = namespace(device)
    rows, columns = READ
    a = xp.asarray(np.random.default_rng(0).random(READ), device=where)
    x, y = xp.ones(columns, dtype=a.dtype, device=where), xp.ones(rows, dtype=a.dtype, device=where)
    there, back = (
        seconds(lambda: to_numpy((a @ x)[:1])),
        seconds(lambda: to_numpy((xp.matrix_transpose(a) @ y)[:1])),
    )
    return 2 * 8 * rows * columns / (there + back)


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Fit times ∝ sizes^exponent.

    Examples
    --------
    >>> round(exponent([1, 10, 100], [2.0, 20.0, 200.0]), 6)
    1.0
    """
    slope, _ = np.polyfit(np.log(sizes), np.log(times), 1)
    return float(slope)
