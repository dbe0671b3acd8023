"""Run all benchmarks, or those whose names are given.

They are expo1d, dimuon5d, reduction, scan, farm, growth, plan, stream and serve; and stream10k,
scale, at_scale, rank, peers-expo1d and peers-dimuon5d, only when they are named.
"""

from __future__ import annotations

import sys

from threadpoolctl import threadpool_limits

from gofstream_studies.bench.machine import cpu_name, gemm_peak, read_bandwidth
from gofstream_studies.benchmarks import (
    at_scale,
    farm,
    fits,
    growth,
    plan,
    rank,
    reduction,
    scale,
    scan,
    serve,
    stream,
)
from gofstream_studies.benchmarks.machine import emit


def main(wanted: list[str]) -> None:
    """Print JSON lines, the yardsticks of the machine first."""
    with threadpool_limits(limits=1):
        peak, bandwidth = gemm_peak(), read_bandwidth()
        emit("machine.gemm_peak", peak / 1e9, "Gflop/s", dtype="float32", threads=1, cpu=cpu_name())
        emit("machine.gemv_bandwidth", bandwidth / 1e9, "GB/s", dtype="float64", threads=1)
        for name, problem in (("expo1d", fits.expo_problem), ("dimuon5d", fits.dimuon_problem)):
            if name in wanted:
                fits.run(problem(), peak, bandwidth)
        if "reduction" in wanted:
            reduction.run(fits.expo_problem(), (0.1, 0.7, 3.0))
            reduction.run(fits.dimuon_problem(), (1.9, 4.4, 6.6))
        if "scan" in wanted:
            scan.run()
        if "farm" in wanted:
            farm.run()
        if "growth" in wanted:
            growth.run()
        if "plan" in wanted:
            plan.run()
        if "stream" in wanted:
            stream.run()
        if "stream10k" in wanted:
            stream.run_long()
        if "scale" in wanted:
            scale.run()
        if "rank" in wanted:
            rank.run()
        if "at_scale" in wanted:
            at_scale.run()
        for task in ("expo1d", "dimuon5d"):
            if f"peers-{task}" in wanted:
                from gofstream_studies.benchmarks.peers.run import (
                    run,  # needs scikit-learn and PyTorch
                )

                run(task)
        if "serve" in wanted:
            serve.run()


ALL = ["expo1d", "dimuon5d", "reduction", "scan", "farm", "growth", "plan", "stream", "serve"]

if __name__ == "__main__":
    main(sys.argv[1:] or ALL)
