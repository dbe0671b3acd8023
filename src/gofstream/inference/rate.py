"""The number of events, tested apart from their shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True, slots=True)
class RateTest:
    """A Poisson count against its expectation, too many or too few.

    Attributes
    ----------
    expected, observed : number of events.
    p : twice the smaller tail, at most one; it errs on the safe side, as counts are whole numbers.
    """

    expected: float
    observed: int
    p: float

    @classmethod
    def of(cls, observed: int, expected: float) -> RateTest:
        """Test a count.

        Examples
        --------
        >>> round(RateTest.of(130, 100.0).p, 4)
        0.0046
        """
        fewer = float(stats.poisson.cdf(observed, expected))
        more = float(stats.poisson.sf(observed - 1, expected))
        least = float(np.finfo(np.float64).tiny)  # a tail that underflows is not impossible
        return cls(expected, observed, min(1.0, max(least, 2 * min(fewer, more))))

    def with_shape(self, p: float) -> float:
        """Combine with the p-value of the shape, which is independent of the count (Fisher).

        Examples
        --------
        >>> round(RateTest(100.0, 100, 0.05).with_shape(0.05), 4)
        0.0175
        """
        if p == 0:  # the lower end of an interval
            return 0.0
        return float(stats.combine_pvalues([self.p, p], method="fisher").pvalue)

    def __str__(self) -> str:
        """Write the counts and p."""
        return f"{self.observed} events, {self.expected:g} expected: p = {self.p:.3g}"
