"""Products with triangular matrices, against plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from gofstream.ratio.linalg import PANEL, upper_times, upper_transposed_times


@pytest.mark.parametrize("rank", [1, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL + 5])
@pytest.mark.parametrize("columns", [(), (1,), (7,), (24,)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_triangular_products(rank: int, columns: tuple[int, ...], order: str) -> None:
    """Leaving out what is zero changes nothing."""
    rng = np.random.default_rng(rank)
    upper = np.triu(rng.normal(size=(rank, rank)))
    z = rng.normal(size=(rank, *columns))
    stored = np.asarray(upper, order="C" if order == "C" else "F")
    np.testing.assert_allclose(upper_times(stored, z), upper @ z, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        upper_transposed_times(stored, z), upper.T @ z, rtol=1e-12, atol=1e-12
    )
