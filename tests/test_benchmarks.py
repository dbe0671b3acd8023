"""The baseline of the benchmarks: a slow or wrong one would prove nothing."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.textbook import Textbook

from gofstream.datasets import expo1d
from gofstream.ratio.features import prepare
from gofstream.ratio.solver import fit


@pytest.mark.parametrize("width", [0.3, 0.7])
def test_textbook_and_solver_find_the_same_minimum(width: float) -> None:
    """Two programs that share no code agree on t to 0.5 % (the textbook's jitter)."""
    rng = np.random.default_rng(7)
    reference = expo1d.reference(20_000, rng)
    centres = reference[:120]
    batch = expo1d.toy(1000.0, rng, expo1d.SIGNALS["bulk"], fraction=0.1)
    base = Textbook(reference, centres, width, 1e-5, 1000.0).fit(batch, 1e-6)
    features = prepare(
        reference, centres, width, penalty=1e-5, expected=1000.0, precision="float64"
    )
    ours = fit(features, [batch], [1000.0])
    assert base.relative_gradient < 1e-4
    assert ours.t[0] > 50
    assert ours.t[0] == pytest.approx(base.t, rel=5e-3)
