"""The Gaussian kernel k_σ(x, c) = exp(-|x - c|² / 2σ²), for any array library."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace


def log_gaussian(x: Any, centres: Any, width: float) -> Any:
    """Exponents -|x - c|² / 2σ² as one matrix product, in the precision of ``x``.

    Writing the exponent as (x/σ)·(c/σ) - |x/σ|²/2 - |c/σ|²/2 and appending the last two terms as
    extra coordinates lets one product do all the work. Rounding can leave an exponent above zero,
    by about 1e-16 |x/σ|²; that does no harm, and clipping it would cost more than the product.
    """
    xp = array_namespace(x, centres)
    x, centres = x / width, centres / width
    half_x = xp.sum(x * x, axis=1, keepdims=True) / -2
    half_c = xp.sum(centres * centres, axis=1, keepdims=True) / -2
    left = xp.concat([x, half_x, xp.ones_like(half_x)], axis=1)
    right = xp.concat([centres, xp.ones_like(half_c), half_c], axis=1)
    return left @ xp.matrix_transpose(right)


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
