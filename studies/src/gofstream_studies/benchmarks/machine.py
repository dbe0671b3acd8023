"""JSON lines, and a yardstick of the same run that only the farm needs."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gofstream_studies.bench.machine import seconds


def emit(name: str, value: float, unit: str, **detail: Any) -> None:
    """Print one JSON line."""
    line = {"name": name, "value": float(f"{value:.4g}"), "unit": unit, "detail": detail}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def gemm_scaling() -> float:
    """How much faster two threads multiply matrices that stay in cache than one does."""
    a = np.random.default_rng(0).random((256, 256), dtype=np.float32)

    def work(_: int = 0) -> None:
        for _ in range(1000):
            a @ a

    with ThreadPoolExecutor(2) as two:
        return 2 * seconds(work, 1) / seconds(lambda: list(two.map(work, range(2))), 1)
