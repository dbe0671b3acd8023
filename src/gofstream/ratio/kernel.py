"""The Gaussian kernel k_σ(x, c) = exp(-|x - c|² / 2σ²), for any array library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from gofstream.ratio.arrays import buffer, in_place, product

#: Kernel values, and rows, that are made at a time where f is evaluated: 8 MB, and as much again
#: for their exponents.
SLAB_VALUES, SLAB_ROWS = 1024 * 1024, 4096


def log_gaussian(x: Any, centres: Any, width: float) -> Any:
    """Exponents -|x - c|² / 2σ² as one matrix product, in the precision of ``x``.

    Writing the exponent as (x/σ)·(c/σ) - |x/σ|²/2 - |c/σ|²/2 and appending the last two terms as
    extra coordinates lets one product do all the work. Rounding can leave an exponent above zero,
    by about 1e-16 |x/σ|²; that does no harm, and clipping it would cost more than the product.
    """
    left, right = factors(x, centres, width)
    return left @ right


def factors(x: Any, centres: Any, width: float) -> tuple[Any, Any]:
    """Give the two factors of that product: a row for each of ``x``, a column for each centre."""
    xp = array_namespace(x, centres)
    x, centres = x / width, centres / width
    half_x = xp.sum(x * x, axis=1, keepdims=True) / -2
    half_c = xp.sum(centres * centres, axis=1, keepdims=True) / -2
    left = xp.concat([x, half_x, xp.ones_like(half_x)], axis=1)
    right = xp.concat([centres, xp.ones_like(half_c), half_c], axis=1)
    return left, xp.matrix_transpose(right)


def gaussian(x: Any, centres: Any, width: float) -> Any:
    """Kernel matrix (rows of ``x``) × (centres), in the precision of ``x``.

    That is float64 throughout the package: in float32 the cancellation in |x|² + |c|² - 2x·c would
    spoil far-away points.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian(np.array([[0.0], [1.0]]), np.array([[0.0]]), 1.0).round(4).tolist()
    [[1.0], [0.6065]]
    """
    return array_namespace(x, centres).exp(log_gaussian(x, centres, width))


def kernel_slabs(
    x: NDArray[np.float64], centres: NDArray[np.float64], width: float
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield the kernel matrix of any number of points, some rows at a time, with their place."""
    for part in slabs(len(x), len(centres)):
        yield part, gaussian(x[part], centres, width)


def slabs(rows: int, rank: int) -> Iterator[slice]:
    """Cut rows of so many kernel values into slabs of limited size.

    Examples
    --------
    >>> [(part.start, part.stop) for part in slabs(3000, rank=1000)]
    [(0, 1048), (1048, 2096), (2096, 3000)]
    """
    step = min(SLAB_ROWS, max(256, SLAB_VALUES // max(1, rank)))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def slab_bytes(rank: int) -> int:
    """Memory that a slab takes, with its exponents and the step between them."""
    return 3 * 8 * max(SLAB_VALUES, 256 * rank)


@dataclass(frozen=True, slots=True, eq=False)
class KernelRows:
    """Kernel values of many points, made when they are needed.

    Attributes
    ----------
    points : (n, D) scaled.
    columns : (D + 2, r) the factor of the centres, in the array library that makes the rows.
    width : σ.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0]])
    >>> KernelRows.of(x, np.array([[0.0]]), 1.0).rows(slice(1, 2)).round(4).tolist()
    [[0.6065]]
    """

    points: Any
    columns: Any
    width: float

    @classmethod
    def of(
        cls, points: Any, centres: NDArray[np.float64], width: float, like: Any = None
    ) -> KernelRows:
        """Prepare the factor of the centres, in the library and where an array ``like`` is."""
        _, columns = factors(centres, centres, width)
        if like is not None:
            columns = array_namespace(like).asarray(columns, dtype=like.dtype, device=device(like))
        return cls(points, columns, width)

    def buffer(self, count: int) -> Any:
        """Make room for so many rows, if the library can write into it; None if not."""
        return buffer((count, self.columns.shape[1]), self.columns)

    def rows(self, part: slice, out: Any = None) -> Any:
        """Give the rows of some points, in ``out`` if given."""
        xp = array_namespace(self.columns)
        return self.values(xp.asarray(self.points[part], device=device(self.columns)), out)

    def values(self, points: Any, out: Any = None) -> Any:
        """Give the rows of any points, in ``out`` if given."""
        return in_place("exp", self.exponents(points, out))

    def exponents(self, points: Any, out: Any = None) -> Any:
        """Give -|x - c|² / 2σ² of any points, in ``out`` if given."""
        xp = array_namespace(points)
        x = points / self.width
        half = xp.sum(x * x, axis=1, keepdims=True) / -2
        left = xp.concat([x, half, xp.ones_like(half)], axis=1)
        return product(xp.astype(left, self.columns.dtype, copy=False), self.columns, out)

    def rough(self) -> KernelRows:
        """Make the same rows in single precision, in less than half the time."""
        xp = array_namespace(self.columns)
        return replace(self, columns=xp.astype(self.columns, xp.float32))
