"""Kernel widths: quantiles of the pairwise distances in the scaled reference (paper, §2.4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from gofstream.errors import WidthError
from gofstream.ratio.arrays import Points

Floats = NDArray[np.float64]

#: Rows of the subset: two million distances, whose quantiles are known to a few per mill.
SUBSET = 2000


def distance_quantiles(
    reference: Points,
    quantiles: Sequence[float],
    rng: np.random.Generator,
    *,
    share: Floats | None = None,
) -> tuple[float, ...]:
    """Quantiles of pairwise distances on a random subset of the scaled reference.

    Parameters
    ----------
    reference : (N_R, D) scaled reference.
    quantiles : numbers between 0 and 1.
    rng : says which subset.
    share : normalised event weights; pairs of events are then drawn in proportion to them.

    Raises
    ------
    WidthError
        If a quantile is zero, as it is when many events are identical.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).exponential(size=(5000, 1))
    >>> [round(q, 1) for q in distance_quantiles(x, [0.25, 0.5], np.random.default_rng(2))]
    [0.3, 0.7]
    """
    if share is None:
        rows = rng.choice(len(reference), size=min(SUBSET, len(reference)), replace=False)
        distances = pdist(reference[rows])
    else:
        first, second = rng.choice(len(reference), size=(2, 100 * SUBSET), p=share)
        distinct = first != second
        distances = np.linalg.norm(reference[first[distinct]] - reference[second[distinct]], axis=1)
    if not len(distances):
        raise WidthError(
            "no two distinct reference events were drawn: nearly all weight lies on one of them; "
            "check the weights, or set `widths` by hand"
        )
    found = np.quantile(distances, quantiles)
    for quantile, width in zip(quantiles, found, strict=True):
        if width <= 0:
            same = float(np.mean(distances == 0))
            raise WidthError(
                f"the {quantile:.3g} quantile of pairwise distances is zero: {same:.1%} of pairs "
                "of reference events are identical (discrete or padded columns?); set `widths` by "
                "hand, use larger `width_quantiles`, or drop the discrete columns"
            )
    return tuple(float(width) for width in found)
