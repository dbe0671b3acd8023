"""The baseline: one batch at a time, M uniform centres, float64, preconditioned Newton-CG.

This is the plain published way, written as well as plain code can be: the N x M kernel matrix is
stored (which favours it: the public code recomputes kernel blocks), its products run at the speed
of memory, and the preconditioner is the usual one that takes the centres for a sample of the data.
The kernel of the reference and the factor of K_MM are made beforehand and not counted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

Floats = NDArray[np.float64]

#: Added to K_MM, times M. Smaller ones let rounding stop the iteration above the tolerance; this
#: one moves t by up to a few per cent where the centres reproduce each other (wide kernels).
JITTER = 1e-12


@dataclass(frozen=True)
class TextbookFit:
    """How one fit went."""

    t: float
    passes: int
    gradient_norm: float
    relative_gradient: float
    seconds: float
    bandwidth: float


class Textbook:
    """NPLM with a Nystrom kernel model, fitted batch by batch."""

    def __init__(
        self, reference: Floats, centres: Floats, width: float, penalty: float, expected: float
    ) -> None:
        self.centres, self.width, self.expected = centres, width, expected
        self.penalty_n = penalty * (len(reference) + expected)
        self.weight = expected / len(reference)
        self.kernel = self._kernel(reference)
        k_mm = self._kernel(centres)
        size = len(centres)
        k_mm[np.diag_indices(size)] += JITTER * size
        self.factor = cholesky(k_mm)
        curvature = self.factor @ self.factor.T * (expected / (2 * size))
        curvature[np.diag_indices(size)] += self.penalty_n
        self.outer = cholesky(curvature)

    def _kernel(self, x: Floats) -> Floats:
        squares = (x**2).sum(1)[:, None] + (self.centres**2).sum(1) - 2 * x @ self.centres.T
        squares *= -0.5 / self.width**2
        return np.asarray(np.exp(squares, out=squares))

    def _to_kernel(self, z: Floats) -> Floats:
        return self._solve(self.factor, self._solve(self.outer, z))

    def _from_kernel(self, g: Floats) -> Floats:
        return self._solve(self.outer, self._solve(self.factor, g, "T"), "T")

    @staticmethod
    def _solve(upper: Floats, v: Floats, trans: Any = "N") -> Floats:
        return np.asarray(solve_triangular(upper, v, trans=trans, check_finite=False))

    def fit(self, batch: Floats, tolerance: float, max_newton: int = 30) -> TextbookFit:
        """Minimise J by Newton steps, each solved by conjugate gradients."""
        start = time.perf_counter()
        data = self._kernel(batch)
        passes, busy = 0, 0.0

        def forward(a: Floats) -> tuple[Floats, Floats]:
            nonlocal busy
            clock = time.perf_counter()
            out = self.kernel @ a, data @ a
            busy += time.perf_counter() - clock
            return out

        def backward(on_reference: Floats, on_data: Floats) -> Floats:
            nonlocal busy
            clock = time.perf_counter()
            out = self.kernel.T @ on_reference + data.T @ on_data
            busy += time.perf_counter() - clock
            return np.asarray(out)

        def penalty(z: Floats) -> Floats:
            # λN I in the coordinates of the inner factor, brought to the outer ones
            return self.penalty_n * self._solve(self.outer, self._solve(self.outer, z), "T")

        z = np.zeros(len(self.centres))
        f_ref, f_data = np.zeros(len(self.kernel)), np.zeros(len(batch))
        first = norm = 0.0
        for _ in range(max_newton):
            p_ref, p_data = 1 / (1 + np.exp(-f_ref)), 1 / (1 + np.exp(f_data))
            gradient = self._from_kernel(backward(self.weight * p_ref, -p_data)) + penalty(z)
            last, norm = norm, float(np.linalg.norm(gradient))
            first = first or norm
            passes += 1
            # Below the tolerance, or at the floor that rounding sets: more passes gain nothing.
            if norm <= tolerance * first or 1e-3 * first > norm > last / 2:
                break
            d_ref, d_data = self.weight * p_ref * (1 - p_ref), p_data * (1 - p_data)
            step, residual = np.zeros_like(z), -gradient
            direction, size = residual.copy(), norm**2
            goal = min(0.1, norm / first) * norm
            for _ in range(200):
                on_ref, on_data = forward(self._to_kernel(direction))
                image = self._from_kernel(backward(d_ref * on_ref, d_data * on_data))
                image += penalty(direction)
                passes += 1
                length = size / float(direction @ image)
                step += length * direction
                residual = residual - length * image
                fresh = float(residual @ residual)
                if fresh**0.5 <= max(goal, 0.3 * tolerance * first):
                    break
                direction = residual + direction * (fresh / size)
                size = fresh
            z = z + step
            f_ref, f_data = forward(self._to_kernel(z))
        t = 2 * (f_data.sum() - self.weight * np.expm1(f_ref).sum())
        took = time.perf_counter() - start
        # forward and backward read the whole kernel once each; a gradient reuses the forward one
        reads = 2 * passes + 1
        moved = reads * (self.kernel.nbytes + data.nbytes)
        return TextbookFit(float(t), passes, norm, norm / first, took, moved / busy)
