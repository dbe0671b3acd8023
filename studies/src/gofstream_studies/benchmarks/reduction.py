"""What the reduction of centres costs in t: the tolerance against the rank and the mean t."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from gofstream.ratio import centres
from gofstream.ratio.features import prepare
from gofstream.ratio.solver import fit
from gofstream_studies.benchmarks.fits import EXPECTED, PENALTY, Problem
from gofstream_studies.benchmarks.machine import emit

#: Residual variances in units of the penalty; the first is as fine as double precision allows.
LADDER = (1e-6, 1e-4, 1e-2, 1e-1, 1.0)


def run(problem: Problem, widths: tuple[float, ...]) -> None:
    """Print, for each width, rank and mean t (over eight batches) against the tolerance."""
    batches = problem.batches[:8]
    for width in widths:
        ranks: list[int] = []
        means: list[float] = []
        for tolerance in LADDER:
            with patch.object(centres, "FINE_RANK", 0), patch.object(centres, "COARSE", tolerance):
                features = prepare(
                    problem.reference, problem.centres, width, penalty=PENALTY, expected=EXPECTED
                )
            ranks.append(features.rank)
            means.append(float(np.mean(fit(features, batches, [EXPECTED] * len(batches)).t)))
        emit(
            f"{problem.name}.reduction.sigma={width:.1f}",
            means[LADDER.index(1e-1)] / means[0],
            "t at 0.1 λ over t at 1e-6 λ",
            tolerance=LADDER,
            rank=ranks,
            t_over_finest=[round(mean / means[0], 5) for mean in means],
        )
