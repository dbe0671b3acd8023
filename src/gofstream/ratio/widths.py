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
) -> tuple[tuple[float, ...], str]:
    """Quantiles of pairwise distances on a random subset of the scaled reference, and a note.

    Where a quantile of all distances is zero, because many events are identical, all are quantiles
    of the non-zero distances, and the note says so; otherwise it is empty.

    Parameters
    ----------
    reference : (N_R, D) scaled reference.
    quantiles : numbers between 0 and 1.
    rng : says which subset.
    share : normalised event weights; pairs of events are then drawn in proportion to them.

    Raises
    ------
    WidthError
        If all distances are zero.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).exponential(size=(5000, 1))
    >>> widths, note = distance_quantiles(x, [0.25, 0.5], np.random.default_rng(2))
    >>> [round(width, 1) for width in widths], note
    ([0.3, 0.7], '')
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
    widths, note = np.quantile(distances, quantiles), ""
    if not widths.all():
        apart = distances[distances > 0]
        if not len(apart):
            raise WidthError(
                f"all {len(distances)} pairs of reference events that were drawn are identical, so "
                "no kernel width follows from them; check the columns, or set `widths` by hand"
            )
        widths = np.quantile(apart, quantiles)
        identical = f"{np.mean(distances == 0):.1%} of the pairs of reference events are identical"
        note = (
            f"kernel widths are quantiles of the non-zero distances: {identical} (discrete or "
            "padded columns?); set `widths` to choose others"
        )
    return tuple(float(width) for width in widths), note
