"""The smallest penalty that is still stable, found on the reference alone (paper, §2.4)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import GofstreamWarning, NumericalError
from gofstream.ratio.arrays import Points
from gofstream.ratio.features import prepare
from gofstream.ratio.solver import fit

Floats = NDArray[np.float64]

#: Tried from the smallest up, a decade apart.
LADDER = tuple(10.0**k for k in range(-12, -2))
#: A stable fit needs no more passes over the reference than this.
PASSES = 40
#: Pseudo-batches fitted at each penalty.
BATCHES = 4


@dataclass(frozen=True, slots=True)
class PenaltyTrial:
    """One rung: the penalty, whether it was stable, and why not."""

    penalty: float
    stable: bool
    reason: str


def smallest_stable(
    reference: Points,
    candidates: Floats,
    width: float,
    *,
    expected: float,
    rng: np.random.Generator,
    share: Floats | None = None,
    precision: str = "float32",
    memory: int = 4 * 1024**3,
) -> tuple[float, tuple[PenaltyTrial, ...]]:
    """Climb the ladder of penalties until the fit is stable; report every rung.

    Stable means: the Hessian at f = 0 has a Cholesky factor without jitter, and fits to
    pseudo-batches resampled from the reference converge within 40 passes. No data are looked at,
    so the penalty is frozen before any test.

    Raises
    ------
    NumericalError
        If no penalty up to 1e-3 is stable.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x = rng.exponential(size=(4000, 1))
    >>> penalty, trials = smallest_stable(x, x[:60], 0.5, expected=300, rng=rng)
    >>> trials[-1].stable and trials[-1].penalty == penalty
    True
    """
    batches = [
        reference[rng.choice(len(reference), size=rng.poisson(expected), p=share)]
        for _ in range(BATCHES)
    ]
    trials: list[PenaltyTrial] = []
    for penalty in LADDER:
        reason = ""
        with warnings.catch_warnings():
            warnings.simplefilter("error", GofstreamWarning)
            try:
                features = prepare(
                    reference,
                    candidates,
                    width,
                    penalty=penalty,
                    expected=expected,
                    share=share,
                    precision=precision,
                    memory=memory,
                )
                done = fit(
                    features, batches, [expected] * BATCHES, max_passes=PASSES, memory=memory
                )
            except (GofstreamWarning, NumericalError) as problem:
                reason = str(problem)
            else:
                if not done.converged.all():
                    left = int(np.count_nonzero(~done.converged))
                    reason = f"{left} of {BATCHES} fits had not converged after {PASSES} passes"
        trials.append(PenaltyTrial(penalty, not reason, reason))
        if not reason:
            return penalty, tuple(trials)
    raise NumericalError(
        f"no penalty up to {LADDER[-1]:g} gives a stable fit at width {width:g}: "
        f"{trials[-1].reason}; use other widths or fewer centres"
    )
