"""What the machine can do: the yardsticks of the same run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np


def emit(name: str, value: float, unit: str, **detail: Any) -> None:
    """Print one JSON line."""
    line = {"name": name, "value": float(f"{value:.4g}"), "unit": unit, "detail": detail}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def seconds(work: Callable[[], Any], repeat: int = 3) -> float:
    """Shortest wall time of a few runs."""
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return float(best)


def gemm_peak() -> float:
    """Multiply-add rate of a large float32 matrix product, in flop/s."""
    a = np.random.default_rng(0).random((2048, 2048), dtype=np.float32)
    return 2 * 2048**3 / seconds(lambda: a @ a, 5)


def gemm_scaling() -> float:
    """How much faster two threads multiply matrices that stay in cache than one does."""
    a = np.random.default_rng(0).random((256, 256), dtype=np.float32)

    def work(_: int = 0) -> None:
        for _ in range(1000):
            a @ a

    with ThreadPoolExecutor(2) as two:
        return 2 * seconds(work, 1) / seconds(lambda: list(two.map(work, range(2))), 1)


def gemv_bandwidth() -> float:
    """Bytes per second that a float64 matrix-vector product reads from memory."""
    a = np.random.default_rng(0).random((100_000, 1000))
    x, y = np.ones(1000), np.ones(100_000)
    return 2 * a.nbytes / (seconds(lambda: a @ x) + seconds(lambda: a.T @ y))
