"""EXPO-1D: the null of `single` of the published toys."""

from __future__ import annotations

import numpy as np
import pytest

from gofstream.datasets import expo1d
from gofstream.ratio.centres import draw_candidates
from gofstream.ratio.features import prepare
from gofstream.ratio.solver import fit

#: Width: mean and spread of the published toys.
PUBLISHED = {
    0.1: (57.6, 10.3),
    0.3: (25.0, 6.8),
    0.7: (13.4, 4.9),
    1.4: (8.4, 3.9),
    3.0: (5.2, 3.1),
}
N_REFERENCE, EXPECTED, N_CENTRES, PENALTY = 200_000, 2000.0, 1000, 1e-6
REFERENCES, BLOCKS, BLOCK = 3, 2, 50


@pytest.mark.parametrize("width", PUBLISHED)
def test_null_of_single(width: float) -> None:
    """300 toys over three references: mean within 5 % plus two standard errors, spread in 20 %.

    The toys of one reference share its fluctuation, so the standard error combines the toys with
    the spread of the three means, as the larger of the two estimates.
    """
    mean, spread = PUBLISHED[width]
    per_reference = []
    for index in range(REFERENCES):
        # The same references and toys at every width.
        rng = np.random.default_rng([20, index])
        reference = expo1d.reference(N_REFERENCE, rng)
        candidates = draw_candidates(reference, N_CENTRES, rng)
        features = prepare(reference, candidates, width, penalty=PENALTY, expected=EXPECTED)
        t = []
        for _ in range(BLOCKS):
            batches = [expo1d.toy(EXPECTED, rng) for _ in range(BLOCK)]
            done = fit(features, batches, [EXPECTED] * BLOCK)
            assert done.converged.all()
            t.append(done.t)
        per_reference.append(np.concatenate(t))
    toys = np.stack(per_reference)
    assert toys.size == 300
    from_toys = toys.std(ddof=1) / np.sqrt(toys.size)
    from_references = toys.mean(axis=1).std(ddof=1) / np.sqrt(REFERENCES)
    error = max(from_toys, from_references)
    assert abs(toys.mean() - mean) < 0.05 * mean + 2 * error
    # Two estimates from the same three references cannot differ wildly from the toys' own.
    assert error < 0.05 * mean
    within = np.sqrt(toys.var(axis=1, ddof=1).mean())
    assert within == pytest.approx(spread, rel=0.2)
