"""J (eq. 2 of the method page) for a block of batches, and the bound that the solver minimises."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from gofstream.execution import share_out
from gofstream.ratio.arrays import buffer, in_place, product, to_numpy
from gofstream.ratio.features import RUN, Features
from gofstream.ratio.labels import Labels
from gofstream.ratio.rows import Floats, Indices, Rows, misfit

#: Bytes of data rows worked on at a time: half of a usual third-level cache.
GROUP_BYTES = 12 * 1024**2
#: Relative residual at which conjugate gradients stop: a later step mends what an early one left.
LINEAR = 0.05
#: A Newton step that moves f on the data by less than this leaves a gradient small enough.
SMALL_MOVE = 0.3


class Block:
    """J for a block of batches: the reference shared, the data of each on its own.

    Small state (r × T) lives in numpy in double precision; what is proportional to the number of
    events lives in the array library of the features, on shelves. ``who`` says, in rising order,
    which batches the columns of an argument stand for.
    """

    def __init__(
        self, features: Features, data: Rows, expected: Floats, labels: Labels | None = None
    ) -> None:
        self.features, self.data, self.labels = features, data, labels
        self.xp, self.device = features.namespace
        self.s = to_numpy(features.s)
        self.expected = expected
        if labels is None:
            self.n_reference = features.n_reference
            self.mean = np.broadcast_to(features.mean[:, None], (features.rank, len(expected)))
        else:
            self.n_reference, self.mean = labels.n_reference, labels.mean
        #: Rows of the features for each row of a batch's reference.
        self.dealt = features.n_reference / self.n_reference
        #: The curvature of J is at most this many times the one that is taken for it, if known.
        self.most = math.inf if self.makes_rows else self.dealt
        self.penalty_n = features.penalty * (self.n_reference + expected)
        # Rows are read many times while a bound is minimised, so few enough batches are taken at a
        # time for their rows to stay in cache. If not even one batch fits, all go together and
        # share the products with r × r matrices.
        largest = max(shelf.shape[1] for shelf in self.data.shelves) * features.rank
        largest *= 8 if self.data.to_kernel is not None else 4
        self.group = GROUP_BYTES // largest or len(expected)
        self.hands = data.hands

    def __len__(self) -> int:
        """Count the batches."""
        return len(self.expected)

    def between(self, first: int, stop: int) -> Block:
        """Give the block of consecutive batches, on the same rows."""
        part = copy.copy(self)
        part.expected, part.penalty_n = self.expected[first:stop], self.penalty_n[first:stop]
        part.data = self.data.between(first, stop)
        return part

    @property
    def makes_rows(self) -> bool:
        """Whether rows of the reference, or of the data, are made in every pass."""
        return self.features.made is not None or self.data.made is not None

    def rough(self, half: Floats) -> Block:
        """Give the same block with rows that are made in single precision, to begin a fit with.

        Parameters
        ----------
        half : (r, T) ½ Σ_D ψ of each batch.
        """
        twin = copy.copy(self)
        twin.features, twin.data = self.features.rough(), self.data.rough(half)
        return twin

    # -- the reference ------------------------------------------------------------------------

    def reference_pass(self, z: Floats, who: Indices) -> tuple[Floats, Floats, Floats]:
        """∇J_R, Σ_R share (e^f - 1) and the mean of 4σ(1-σ) at z: the one pass over the reference.

        σ(f) = ½ + ½ tanh(f/2), and the constant half is known exactly, so only tanh(f/2) =
        1 - 2/(e^f + 1) goes through the products in the working precision. The mean curvature
        4σ(1-σ) = 1 - tanh² need not be exact and is taken from every eighth row.
        """
        features = self.features
        coefficients, gradient, seen = features.inward(z), np.zeros_like(z), 0.0
        total, flatness = np.zeros((2, z.shape[1]))
        strips = features.strips()
        for sums in share_out(
            lambda strip: self._strip(strip, z, coefficients, who), strips, self.hands
        ):
            gradient += sums[0]
            total += sums[1]
            flatness += sums[2]
            seen += sums[3]
        gradient = features.outward(gradient)
        if features.share is None:
            gradient /= self.n_reference
            total /= self.n_reference
        gradient += self.mean[:, who]
        flatness /= max(seen / self.dealt, 1e-300)
        return gradient * (self.expected[who] / 2), total, 1 - flatness

    def _strip(
        self, strip: slice, z: Floats, coefficients: Any, who: Indices
    ) -> tuple[Floats, Floats, Floats, float]:
        """Sum over some rows of the reference: those of the gradient, e^f - 1, tanh² and share."""
        xp, features = self.xp, self.features
        gradient, seen = np.zeros_like(z), 0.0
        total, flatness = np.zeros((2, z.shape[1]))
        ones = values = pulled = None
        kept = None if self.labels is None else self.labels.kept[:, who]
        start = strip.start
        less = xp.asarray(-2.0, dtype=features.dtype, device=self.device)
        # e^f may be infinite at a trial point: tanh is then one.
        with np.errstate(over="ignore", invalid="ignore"):
            for psi, share in features.chunks(z.shape[1], strip):
                count = psi.shape[0]
                if ones is None:
                    ones = xp.ones(count, dtype=psi.dtype, device=self.device)
                    # By column, thin products in double precision take two thirds of the time;
                    # those in single precision take longer.
                    values, pulled = (
                        buffer((n, z.shape[1]), psi, by_column=psi.dtype == xp.float64)
                        for n in (count, len(z))
                    )
                weights = ones[:count] if share is None else share
                f = product(psi, coefficients, None if values is None else values[:count, :])
                if kept is not None:
                    f *= kept[start : start + count]
                    start += count
                f = in_place("exp", f)
                f -= 1
                total += _sums(xp, weights, f)
                f += 2
                f = in_place("divide", less, f)
                f += 1
                some = f[::8, :]
                flatness += to_numpy(product(weights[::8], some * some))
                seen += float(xp.sum(weights[::8]))
                if share is not None:
                    f *= share[:, None]
                gradient += to_numpy(product(xp.matrix_transpose(psi), f, pulled))
        return gradient, total, flatness, seen

    def reference_curvature(self, p: Floats, who: Indices) -> Floats:
        """¼ N(R) Σ_R share ψ (ψ·p): the curvature of J_R at f = 0, for labels dealt anew."""
        assert self.labels is not None
        image, start = np.zeros_like(p), 0
        coefficients, kept = p.astype(self.features.dtype), self.labels.kept[:, who]
        for psi, _ in self.features.chunks(len(who)):
            image += psi.T @ ((psi @ coefficients) * kept[start : start + len(psi)])
            start += len(psi)
        return np.asarray(image * (self.expected[who] / (4 * self.n_reference)))

    # -- the data -----------------------------------------------------------------------------

    def data_values(self, z: Floats, who: Indices) -> list[Any]:
        """Evaluate f on the events of each batch."""
        return self.data.values(z, who)

    def data_pass(self, z: Floats, who: Indices) -> tuple[list[Any], Floats]:
        """F on the events of each batch, and ∇(J_D + penalty), at z."""
        values, pulled = self.data.misfits(z, who)
        return values, np.asarray((self.s @ z) * self.penalty_n[who] - pulled)

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

        If rows of the data have to be made, J_D is taken to curve as if they followed the
        reference, and the minimum is known.

        Parameters
        ----------
        values : f on the data at z0.
        slope, gradient : of the reference term, and of J, at z0.
        scale : shrinks C where e^f is far from one on the whole reference; one otherwise.
        """
        if self.data.made is not None:
            counts = self.expected[who] + np.array(self.data.sizes)[who]
            return np.asarray(z0 - gradient / (scale * counts / (2 * self.features.expected)))
        z = z0.copy()
        alpha, beta = self.quadratic(scale, who)
        live = np.arange(len(who))
        for _ in range(50):
            now = who[live]
            step, change = self.newton_step(gradient, values, alpha[live], beta[live], LINEAR, now)
            largest = self.data.largest(change)[now]
            # The curvature of log(1+e^-f) changes by a factor e^|Δf| at most. With m the largest
            # |Δf| a full step cannot raise the bound for m ≤ 1, nor log(1+m)/m of one for any m.
            length = np.where(largest <= 1, 1.0, np.log1p(largest) / np.maximum(largest, 1.0))
            z[:, live] -= length * step
            values = self.data.moved(values, -length, change, now)
            live = live[largest > SMALL_MOVE]
            if not len(live):
                break
            move = z[:, live] - z0[:, live]
            gradient = self.data_gradient(z[:, live], values, who[live])
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
        *,
        exact: bool = False,
    ) -> tuple[Floats, list[Any]]:
        """Solve (αI + βS + Hessian of J_D and the penalty) step = gradient, conjugate gradients.

        Returns the step and what it does to f on the data. With ``exact``, the curvature of J_R at
        f = 0 is added for labels of which (α, β) knows only a bound.
        """
        beta = beta + self.penalty_n[who]
        curvature = [m * (1 - m) for m in map(misfit, values)]
        step, change = np.zeros_like(gradient), self.data.zeros()
        live, residual, p = np.arange(len(who)), gradient, gradient
        size = np.sum(gradient**2, axis=0)
        goal = accuracy**2 * size
        going = size > goal
        for _ in range(500):
            if not going.all():
                live, size, goal, alpha, beta = (
                    kept[going] for kept in (live, size, goal, alpha, beta)
                )
                residual, p = residual[:, going], p[:, going]
            if not len(live):
                break
            image, p_values = self.data.curvature(p, curvature, who[live])
            image += alpha * p + beta * (self.s @ p)
            if exact:
                image += self.reference_curvature(p, who[live])
            length = size / np.sum(p * image, axis=0)
            change = self.data.moved(change, length, p_values, who[live])
            step[:, live] += length * p
            residual = residual - length * image
            fresh = np.sum(residual**2, axis=0)
            p = residual + p * (fresh / size)
            size, going = fresh, fresh > goal
        return step, change


def _sums(xp: Any, weights: Any, f: Any) -> Floats:
    """Σ weights f for each column: over every run of rows as it is, then in float64.

    t is a small difference of this times N(R), so its rounding matters most.
    """
    if f.dtype == xp.float64:
        return np.asarray(to_numpy(product(weights, f)))
    count, columns = f.shape
    whole = count // RUN * RUN
    runs = xp.reshape(f[:whole, :], (-1, RUN, columns))
    sums = to_numpy(xp.reshape(weights[:whole], (-1, 1, RUN)) @ runs)
    total = sums.sum(axis=(0, 1), dtype=np.float64)
    if whole < count:
        total += to_numpy(weights[None, whole:] @ f[whole:, :])[0]
    return np.asarray(total)
