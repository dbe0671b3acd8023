"""The fast statistics of growing toys equal the definitions, batch by batch."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.ratio import rows
from gofstream.ratio.features import prepare
from gofstream.ratio.model import LogRatios
from gofstream.ratio.solver import fit
from gofstream.statistics import STATISTICS, next_
from gofstream.toys.growing import growing_statistics

Floats = NDArray[np.float64]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-9), ("float32", 2e-4)])
def test_growing_equals_the_definitions(
    weighted: bool, raw: bool, precision: str, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every toy, statistic and number of batches, with unequal exposures and an empty batch."""
    if raw:
        monkeypatch.setattr(rows, "WHITEN_RANK", 0)
    rng = np.random.default_rng(8)
    reference = expo1d.reference(6000, rng)
    share = rng.uniform(0.5, 1.5, 6000) if weighted else None
    if share is not None:
        share /= share.sum()
    features = prepare(
        reference,
        reference[:80],
        0.5,
        penalty=1e-5,
        expected=300.0,
        share=share,
        precision=precision,
    )
    expected = np.array([300.0, 500.0, 100.0, 200.0])
    toys = [
        [expo1d.toy(n, rng, expo1d.SIGNALS["bulk"], 0.3 * k) for n in expected] for k in range(3)
    ]
    toys[1][2] = np.empty((0, 1))
    flat = [batch for toy in toys for batch in toy]
    done = fit(features, flat, np.tile(expected, 3))
    fast = growing_statistics(features, done, expected, shrink=0.4)
    assert fast.shape == (3, 6, 4)
    for t, toy in enumerate(toys):
        z = done.z[:, 4 * t : 4 * t + 4]
        for k in range(1, 5):
            ratios = LogRatios(
                reference=features.log_ratio_reference(z[:, :k]).T,
                data=[features.log_ratio(batch, z[:, :k]).T for batch in toy[:k]],
                expected=expected[:k],
                share=np.full(6000, 1 / 6000) if share is None else share,
            )
            for s, (name, statistic) in enumerate(STATISTICS.items()):
                slow = next_(ratios, 0.4) if name == "next" else statistic(ratios)
                assert fast[t, s, k - 1] == pytest.approx(slow, rel=tolerance, abs=tolerance * 10)
