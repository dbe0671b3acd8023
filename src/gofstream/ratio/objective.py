"""J for a block of batches (METHOD §2), and the bound on it that the solver minimises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from gofstream.ratio.arrays import to_numpy
from gofstream.ratio.features import Features

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Up to this rank the rows of the data are whitened (see `Rows`).
WHITEN_RANK = 600
#: Bytes of data rows worked on at a time: half of a usual third-level cache.
GROUP_BYTES = 12 * 1024**2
#: Numbers in a part of the data rows that both products of a curvature use while it is in cache.
PART_VALUES = 384 * 1024
#: Reference rows summed in the working precision before float64 takes over.
RUN = 256
#: Relative residual at which conjugate gradients stop: a later step mends what an early one left.
LINEAR = 0.05
#: A Newton step that moves f on the data by less than this leaves a gradient small enough.
SMALL_MOVE = 0.3


class Rows:
    """The data of each batch as rows ψ(x), so that f = ψ(x)·z.

    Models of moderate rank whiten the rows once, in double precision, and keep them in the working
    precision. For large ones the n r² of that would cost more than the fit: they keep raw kernel
    rows and map z to their coefficients. Those are large and alternate in sign, so raw rows stay
    in double precision; even then their rounding would stop a fit short of what is asked of one
    in double precision throughout, which whitens at any rank.
    """

    def __init__(self, features: Features, batches: Sequence[Floats]) -> None:
        self.xp, self.device = array_namespace(features.psi), device(features.psi)
        whiten = features.rank <= WHITEN_RANK or features.psi.dtype == self.xp.float64
        self.to_kernel = None if whiten else to_numpy(features.to_kernel)
        self.rows, self.uncovered = features.data_rows(batches, whiten=whiten)
        self.transposed = [self.xp.matrix_transpose(rows) for rows in self.rows]

    def _coefficients(self, z: Floats) -> Any:
        if self.to_kernel is not None:
            z = self.to_kernel @ z
        return self.xp.asarray(z, dtype=self.rows[0].dtype, device=self.device)

    def _whiten(self, pulled: list[Any]) -> Floats:
        stacked = np.stack([to_numpy(p) for p in pulled], axis=1).astype(np.float64)
        return stacked if self.to_kernel is None else self.to_kernel.T @ stacked

    def values(self, z: Floats, who: Indices) -> list[Any]:
        """Evaluate f on the events of each batch."""
        coefficients = self._coefficients(z)
        return [self.rows[i] @ coefficients[:, k] for k, i in enumerate(who)]

    def pull(self, values: list[Any], who: Indices) -> Floats:
        """Σ_D values ψ for each batch."""
        return self._whiten([self.transposed[i] @ v for i, v in zip(who, values, strict=True)])

    def curvature(self, p: Floats, weights: list[Any], who: Indices) -> tuple[Floats, list[Any]]:
        """Σ_D weights ψ (ψ·p) for each batch, and ψ·p itself."""
        coefficients = self._coefficients(p)
        values, pulled = [], []
        for k, i in enumerate(who):
            parts, total = [], 0.0
            for part in self._parts(i):  # both products while the rows are in cache
                parts.append(self.rows[i][part, :] @ coefficients[:, k])
                total = total + self.transposed[i][:, part] @ (weights[k][part] * parts[-1])
            values.append(self.xp.concat(parts) if len(parts) > 1 else parts[0])
            pulled.append(total)
        return self._whiten(pulled), values

    def cross(self, z: Floats, index: int) -> Any:
        """Evaluate f of every column of z on the events of one batch: (columns, events)."""
        return self.xp.matrix_transpose(self._coefficients(z)) @ self.transposed[index]

    def _parts(self, index: int) -> list[slice]:
        count, rank = self.rows[index].shape
        rows = max(1, PART_VALUES // rank)
        return [slice(start, min(start + rows, count)) for start in range(0, max(1, count), rows)]


class Block:
    """J for a block of batches: the reference shared, the data of each on its own.

    Small state (r × T) lives in numpy in double precision; what is proportional to the number of
    events lives in the array library of the features. ``who`` says which batches the columns of an
    argument stand for.
    """

    def __init__(self, features: Features, batches: Sequence[Floats], expected: Floats) -> None:
        self.features = features
        self.xp = array_namespace(features.psi)
        self.device = device(features.psi)
        self.s = to_numpy(features.s)
        self.expected = expected
        self.penalty_n = features.penalty * (features.n_reference + expected)
        self.data = Rows(features, batches)
        # Rows are read many times while a bound is minimised, so few enough batches are taken at a
        # time for their rows to stay in cache. If not even one batch fits, all go together and
        # share the products with r × r matrices.
        largest = max(rows.shape[0] for rows in self.data.rows) * features.rank
        largest *= 8 if self.data.to_kernel is not None else 4
        fitting = GROUP_BYTES // max(1, largest)
        self.group = fitting if fitting else len(batches)

    def __len__(self) -> int:
        """Count the batches."""
        return len(self.expected)

    # -- the reference ------------------------------------------------------------------------

    def reference_pass(self, z: Floats, who: Indices) -> tuple[Floats, Floats, Floats]:
        """∇J_R, Σ_R share (e^f - 1) and the mean of 4σ(1-σ) at z: the one pass over the reference.

        σ(f) = ½ + ½ tanh(f/2), and the constant half is known exactly, so only tanh(f/2) =
        1 - 2/(e^f + 1) goes through the products in the working precision. The mean curvature
        4σ(1-σ) = 1 - tanh² need not be exact and is taken from every eighth chunk.
        """
        xp, features = self.xp, self.features
        coefficients = xp.asarray(z, dtype=features.psi.dtype, device=self.device)
        gradient, excess = np.zeros_like(z), np.zeros(z.shape[1])
        flatness, seen = np.zeros(z.shape[1]), 0.0
        ones: Any = None
        # numpy works in place: fresh arrays of this size would cost as much as the arithmetic.
        fast = isinstance(features.psi, np.ndarray)
        # e^f may be infinite at a trial point: tanh is then one.
        with np.errstate(over="ignore", invalid="ignore"):
            for index, (psi, share) in enumerate(features.chunks(z.shape[1])):
                if ones is None:
                    ones = xp.ones(psi.shape[0], dtype=psi.dtype, device=self.device)
                    buffer = xp.empty((psi.shape[0], z.shape[1]), dtype=psi.dtype)
                    pulled = xp.empty(z.shape, dtype=psi.dtype)
                weights = ones[: psi.shape[0]] if share is None else share
                if fast:
                    f = np.matmul(psi, coefficients, out=buffer[: len(psi)])
                    np.exp(f, out=f)
                else:
                    f = xp.exp(psi @ coefficients)
                f -= 1
                excess += _column_sums(weights, f)
                f += 2
                f = np.divide(-2, f, out=f) if fast else -2 / f
                f += 1
                if index % 8 == 0:
                    flatness += to_numpy(weights @ (f * f))
                    seen += float(xp.sum(weights))
                if share is not None:
                    f *= share[:, None]
                if fast:
                    gradient += np.matmul(psi.T, f, out=pulled)
                else:
                    gradient += to_numpy(xp.matrix_transpose(psi) @ f)
        if features.share is None:
            gradient /= features.n_reference
            excess /= features.n_reference
        gradient += features.mean[:, None]
        return gradient * (self.expected[who] / 2), excess, 1 - flatness / max(seen, 1e-300)

    # -- the data -----------------------------------------------------------------------------

    def data_values(self, z: Floats, who: Indices) -> list[Any]:
        """Evaluate f on the events of each batch."""
        return self.data.values(z, who)

    def data_gradient(self, z: Floats, values: list[Any], who: Indices) -> Floats:
        """∇(J_D + penalty) at z, where f on the data is ``values``."""
        pulled = self.data.pull([misfit(f) for f in values], who)
        return np.asarray((self.s @ z) * self.penalty_n[who] - pulled)

    # -- the bound ----------------------------------------------------------------------------

    def quadratic(self, scale: Floats, who: Indices) -> tuple[Floats, Floats]:
        """(α, β): the reference term of the bound has curvature α I + β S."""
        alpha = scale * self.expected[who] / (2 * self.features.expected)
        return alpha, -alpha * self.features.penalty_n

    def minimise_bound(
        self,
        z0: Floats,
        values: list[Any],
        slope: Floats,
        gradient: Floats,
        scale: Floats,
        who: Indices,
    ) -> Floats:
        """Minimise the bound around z0 by damped Newton steps.

        Parameters
        ----------
        values : f on the data at z0.
        slope, gradient : of the reference term, and of J, at z0.
        scale : shrinks C where e^f is far from one on the whole reference; one otherwise.
        """
        z, values = z0.copy(), list(values)
        alpha, beta = self.quadratic(scale, who)
        live = np.arange(len(who))
        for _ in range(50):
            now = who[live]
            step, change = self.newton_step(
                gradient, [values[k] for k in live], alpha[live], beta[live], LINEAR, now
            )
            largest = np.array(
                [float(self.xp.max(self.xp.abs(c))) if c.shape[0] else 0.0 for c in change]
            )
            # The curvature of log(1+e^-f) changes by a factor e^|Δf| at most. With m the largest
            # |Δf| a full step cannot raise the bound for m ≤ 1, nor log(1+m)/m of one for any m.
            length = np.where(largest <= 1, 1.0, np.log1p(largest) / np.maximum(largest, 1.0))
            z[:, live] -= length * step
            for k, delta, part in zip(live, change, length.tolist(), strict=True):
                values[k] = values[k] - part * delta
            live = live[largest > SMALL_MOVE]
            if not len(live):
                break
            move = z[:, live] - z0[:, live]
            gradient = self.data_gradient(z[:, live], [values[k] for k in live], who[live])
            gradient += slope[:, live] + alpha[live] * move + beta[live] * (self.s @ move)
        return z

    def newton_step(
        self,
        gradient: Floats,
        values: list[Any],
        alpha: Floats,
        beta: Floats,
        accuracy: float,
        who: Indices,
    ) -> tuple[Floats, list[Any]]:
        """Solve (αI + βS + Hessian of J_D and the penalty) step = gradient, conjugate gradients.

        Returns the step and what it does to f on the data.
        """
        beta = beta + self.penalty_n[who]
        curvature = [m * (1 - m) for m in map(misfit, values)]
        step, residual, direction = np.zeros_like(gradient), gradient.copy(), gradient.copy()
        change = [0 * f for f in values]
        size = np.sum(residual**2, axis=0)
        goal = accuracy**2 * size
        live = np.flatnonzero(size > goal)
        for _ in range(500):
            if not len(live):
                break
            p = direction[:, live]
            image, p_values = self.data.curvature(p, [curvature[k] for k in live], who[live])
            image += alpha[live] * p + beta[live] * (self.s @ p)
            length = size[live] / np.sum(p * image, axis=0)
            for k, v, part in zip(live, p_values, length.tolist(), strict=True):
                change[k] = change[k] + part * v
            step[:, live] += length * p
            residual[:, live] -= length * image
            fresh = np.sum(residual[:, live] ** 2, axis=0)
            direction[:, live] = residual[:, live] + p * (fresh / size[live])
            size[live] = fresh
            live = live[fresh > goal[live]]
        return step, change


def _column_sums(weights: Any, f: Any) -> Floats:
    """Σ weights f for each column: short runs in the working precision, their sum in float64.

    t is a small difference of this times N(R), so its rounding matters most.
    """
    xp = array_namespace(f)
    count, columns = f.shape
    whole = count // RUN * RUN
    runs = xp.reshape(f[:whole, :], (-1, RUN, columns))
    sums = xp.reshape(weights[:whole], (-1, 1, RUN)) @ runs
    total = to_numpy(sums).sum(axis=(0, 1), dtype=np.float64)
    return np.asarray(total + to_numpy(weights[whole:] @ f[whole:, :]))


def misfit(f: Any) -> Any:
    """-d/df log(1+e^-f) = 1/(1+e^f)."""
    with np.errstate(over="ignore"):
        return 1 / (1 + array_namespace(f).exp(f))
