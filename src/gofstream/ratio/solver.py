"""The block solver: minimise J (METHOD §2) for T batches at once against one shared reference.

J = J_R + J_D + penalty. Each pass over the reference gives the gradient of J_R at one point. Since
log(1+e^f) has curvature at most ¼, and that of Σ_R w f²/8 is known once and for all,

    J_R(z) ≤ J_R(z_k) + ∇J_R(z_k)·(z - z_k) + ½ (z - z_k)ᵀ C (z - z_k)

with C fixed. J_D and the penalty are kept exact: they cost a hundredth of a pass. Minimising this
bound never increases J, so the iteration converges from anywhere; near f = 0 the bound is nearly
exact, and Anderson mixing makes the iteration converge as fast as conjugate gradients would, with
three to eight passes in all. The first step needs no pass: at f = 0 everything is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, to_device
from numpy.typing import NDArray

from gofstream.errors import refuse_beyond
from gofstream.ratio.features import Features

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Up to this rank the rows of the data are whitened (see `_Rows`).
WHITEN_RANK = 600
#: Bytes of data rows worked on at a time: half of a usual third-level cache.
GROUP_BYTES = 12 * 1024**2
#: Numbers in a part of the data rows that both products of a curvature use while it is in cache.
PART_VALUES = 384 * 1024
#: Depth of the Anderson mixing.
DEPTH = 5
#: A gradient norm, relative to the one at f = 0, at which a fit has converged.
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}
#: Relative residual at which conjugate gradients stop: a later step mends what an early one left.
LINEAR = 0.05
#: A Newton step that moves f on the data by less than this leaves a gradient small enough.
SMALL_MOVE = 0.3
#: Relative residual of the single published step.
ONE_STEP_ACCURACY = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """What a block of fits gives, one entry per batch.

    Attributes
    ----------
    z : (r, T) whitened coefficients.
    t : (T,) the statistic `single` of each batch.
    converged : (T,) whether the gradient norm reached the tolerance.
    gradient_norm : (T,) |∇J| in the metric of H0, so that half its square estimates J - min J.
    passes : (T,) passes over the reference.
    uncovered : (T,) events farther than three widths from every centre, invisible to f.
    """

    z: Floats
    t: Floats
    converged: NDArray[np.bool_]
    gradient_norm: Floats
    passes: NDArray[np.int64]
    uncovered: NDArray[np.int64]


def fit_bytes(features: Features, sizes: Sequence[int]) -> int:
    """Memory a block of fits takes beyond the features: the kernel rows of its data."""
    history = features.rank * len(sizes) * (2 * DEPTH + 12)
    return 8 * (int(sum(sizes)) * (features.rank + 8) + history)


def fit(
    features: Features,
    batches: Sequence[Floats],
    expected: Sequence[float] | Floats,
    *,
    one_step: bool = False,
    tolerance: float | None = None,
    max_passes: int = 200,
    memory: int = 4 * 1024**3,
) -> Fit:
    """Learn f for every batch.

    Parameters
    ----------
    features : the prepared reference.
    batches : scaled events of each batch, (n_i, D); a batch may be empty.
    expected : N_i(R) of each batch.
    one_step : take a single Newton step from f = 0, as the published code does.
    tolerance : gradient norm, relative to the one at f = 0, that counts as converged.

    Examples
    --------
    >>> import numpy as np
    >>> from gofstream.ratio.features import prepare
    >>> rng = np.random.default_rng(1)
    >>> x = rng.exponential(size=(5000, 1))
    >>> features = prepare(x, x[:100], 0.7, penalty=1e-6, expected=500)
    >>> bool(fit(features, [rng.exponential(size=(510, 1))], [500.0]).converged[0])
    True
    """
    needed = fit_bytes(features, [len(batch) for batch in batches])
    refuse_beyond(memory, needed, f"a block of {len(batches)} fits")
    block = _Block(features, batches, np.asarray(expected, dtype=np.float64))
    if one_step:
        return _one_step(block)
    if tolerance is None:
        tolerance = TOLERANCE[str(to_numpy(features.psi[:1, :1]).dtype)]
    return _minimise(block, tolerance, max_passes)


class _Rows:
    """The data of each batch as rows ψ(x), so that f = ψ(x)·z.

    Models of moderate rank whiten the rows once, in double precision, and keep them in the working
    precision. For large ones the n r² of that would cost more than the fit: they keep raw kernel
    rows and map z to their coefficients. Those are large and alternate in sign, so raw rows stay
    in double precision.
    """

    def __init__(self, features: Features, batches: Sequence[Floats]) -> None:
        self.xp, self.device = array_namespace(features.psi), device(features.psi)
        whiten = features.rank <= WHITEN_RANK
        self.to_kernel = None if whiten else to_numpy(features.to_kernel)
        made = [features.data_rows(batch, whiten=whiten) for batch in batches]
        self.rows = [rows for rows, _ in made]
        self.uncovered = np.array([missed for _, missed in made])
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

    def _parts(self, index: int) -> list[slice]:
        count, rank = self.rows[index].shape
        rows = max(1, PART_VALUES // rank)
        return [slice(start, start + rows) for start in range(0, max(1, count), rows)]


class _Block:
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
        self.data = _Rows(features, batches)
        # Rows are read many times while a bound is minimised, so few enough batches are taken at a
        # time for their rows to stay in cache. If not even one batch fits, all go together and
        # share the products with r × r matrices.
        largest = max(rows.shape[0] for rows in self.data.rows) * features.rank
        largest *= 8 if self.data.to_kernel is not None else 4
        fitting = GROUP_BYTES // max(1, largest)
        self.group = fitting if fitting else len(batches)

    def __len__(self) -> int:
        return len(self.expected)

    # -- the reference ------------------------------------------------------------------------

    def reference_pass(self, z: Floats, who: Indices) -> tuple[Floats, Floats]:
        """∇J_R and Σ_R share (e^f - 1) at z: the one pass over the reference.

        σ(f) = ½ + ½ tanh(f/2), and the constant half is known exactly, so only tanh(f/2) =
        1 - 2/(e^f + 1) goes through the products in the working precision.
        """
        xp, features = self.xp, self.features
        coefficients = xp.asarray(z, dtype=features.psi.dtype, device=self.device)
        gradient, excess = np.zeros_like(z), np.zeros(z.shape[1])
        ones = xp.ones(features.n_reference, dtype=features.psi.dtype, device=self.device)
        with np.errstate(over="ignore"):  # e^f may be infinite at a trial point: tanh is then one
            for psi, share in features.chunks(z.shape[1]):
                f = xp.exp(psi @ coefficients)
                f -= 1
                excess += to_numpy((ones[: psi.shape[0]] if share is None else share) @ f)
                f += 2
                f = -2 / f
                f += 1
                if share is not None:
                    f *= share[:, None]
                gradient += to_numpy(xp.matrix_transpose(psi) @ f)
        if features.share is None:
            gradient /= features.n_reference
            excess /= features.n_reference
        gradient += features.mean[:, None]
        return gradient * (self.expected[who] / 2), excess

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


def misfit(f: Any) -> Any:
    """-d/df log(1+e^-f) = 1/(1+e^f)."""
    with np.errstate(over="ignore"):
        return 1 / (1 + array_namespace(f).exp(f))


def _one_step(block: _Block) -> Fit:
    """One undamped Newton step from f = 0."""
    who = np.arange(len(block))
    zero = np.zeros((block.features.rank, len(block)))
    values = block.data_values(zero, who)
    slope = block.features.mean[:, None] * (block.expected / 2)
    gradient = block.data_gradient(zero, values, who) + slope
    step, change = block.newton_step(
        gradient, values, *block.quadratic(np.ones(len(who)), who), ONE_STEP_ACCURACY, who
    )
    slope, excess = block.reference_pass(-step, who)
    values = [-f for f in change]
    return Fit(
        z=-step,
        t=_statistic(block.expected, excess, values),
        converged=np.zeros(len(who), dtype=bool),
        gradient_norm=np.linalg.norm(block.data_gradient(-step, values, who) + slope, axis=0),
        passes=np.ones(len(who), dtype=np.int64),
        uncovered=block.data.uncovered,
    )


def _statistic(expected: Floats, excess: Floats, values: list[Any]) -> Floats:
    total = np.array([float(to_numpy(f).sum()) for f in values])
    return np.asarray(2 * (total - expected * excess))


@dataclass(slots=True)
class _Path:
    """Where one fit is: its point, what is known there, and its recent steps."""

    z: Floats
    slope: Floats
    gradient: Floats
    values: Any
    best: float
    scale: float = 1.0
    plain: bool = True
    target: Floats | None = None
    points: list[Floats] = field(default_factory=list)
    moves: list[Floats] = field(default_factory=list)

    def propose(self, first: bool) -> Floats:
        """Next point to try: the minimum of the bound, mixed with what recent steps taught."""
        assert self.target is not None
        move = self.target - self.z
        if not first:  # the long step from f = 0 tells nothing about the ones to come
            self.points = [*self.points, self.z][-DEPTH - 1 :]
            self.moves = [*self.moves, move][-DEPTH - 1 :]
        self.plain = len(self.moves) <= 1
        if self.plain:
            return self.target
        differences = np.diff(np.stack(self.moves, axis=1), axis=1)
        mixing = np.linalg.lstsq(differences, move, rcond=1e-8)[0]
        steps = np.diff(np.stack(self.points, axis=1), axis=1)
        return np.asarray(self.target - (steps + differences) @ mixing)

    def accept(
        self, z: Floats, slope: Floats, gradient: Floats, values: Any, excess: float
    ) -> None:
        self.z, self.slope, self.gradient, self.values = z, slope, gradient, values
        self.target = None
        self.best = min(float(np.linalg.norm(gradient)), self.best)
        # Mean of 4σ(1-σ) if e^f were constant over the reference: far below one only when the
        # whole rate is off, and then the bound with C would be far too careful.
        excess = min(excess, 1e9)
        scale = 4 * (1 + excess) / (2 + excess) ** 2
        scale = 1.0 if scale > 0.5 else max(scale, 1e-6)
        if abs(math.log(scale / self.scale)) > 0.7:
            self.scale = scale
            self.forget()

    def reject(self) -> None:
        """Fall back: first to the plain minimum of the bound, then towards the true bound."""
        if self.plain:
            self.scale, self.target = min(1.0, 4 * self.scale), None
        self.forget()

    def forget(self) -> None:
        self.points, self.moves = [], []


def _minimise(block: _Block, tolerance: float, max_passes: int) -> Fit:
    everyone = np.arange(len(block))
    z = np.zeros((block.features.rank, len(block)))
    values = block.data_values(z, everyone)
    slope = block.features.mean[:, None] * (block.expected / 2)
    gradient = block.data_gradient(z, values, everyone) + slope
    at_zero = np.linalg.norm(gradient, axis=0)
    goal = tolerance * at_zero
    paths = [
        _Path(z[:, i], slope[:, i], gradient[:, i], values[i], float(at_zero[i])) for i in everyone
    ]
    out = Fit(
        z=z.copy(),
        t=np.zeros(len(block)),
        converged=at_zero <= 0,
        gradient_norm=at_zero,
        passes=np.zeros(len(block), dtype=np.int64),
        uncovered=block.data.uncovered,
    )
    live = everyone[~out.converged]
    for index in range(max_passes):
        if not len(live):
            break
        _find_targets(block, paths, live)
        trial = np.stack([paths[i].propose(first=index == 0) for i in live], axis=1)
        slope, excess = block.reference_pass(trial, live)
        values = block.data_values(trial, live)
        gradient = block.data_gradient(trial, values, live) + slope
        norm = np.linalg.norm(gradient, axis=0)
        t = _statistic(block.expected[live], excess, values)
        for k, i in enumerate(live):
            path = paths[i]
            out.passes[i] += 1
            # By convexity J(new) ≤ J(old) when the slope at the new point still points forward.
            # The minimum of the true bound always passes; a clearly smaller gradient will do too.
            downhill = float(gradient[:, k] @ (trial[:, k] - path.z)) <= 0
            if downhill or norm[k] <= 0.9 * path.best or (path.plain and path.scale == 1.0):
                path.accept(trial[:, k], slope[:, k], gradient[:, k], values[k], float(excess[k]))
                out.z[:, i], out.t[i], out.gradient_norm[i] = trial[:, k], t[k], norm[k]
            else:
                path.reject()
            out.converged[i] = out.gradient_norm[i] <= goal[i]
        live = live[~out.converged[live]]
    return out


def _find_targets(block: _Block, paths: list[_Path], live: Indices) -> None:
    """Minimise the bound for those paths that stand at a new point."""
    need = np.array([i for i in live if paths[i].target is None], dtype=np.int64)
    for start in range(0, len(need), block.group):
        now = need[start : start + block.group]
        target = block.minimise_bound(
            np.stack([paths[i].z for i in now], axis=1),
            [paths[i].values for i in now],
            np.stack([paths[i].slope for i in now], axis=1),
            np.stack([paths[i].gradient for i in now], axis=1),
            np.array([paths[i].scale for i in now]),
            now,
        )
        for k, i in enumerate(now):
            paths[i].target = target[:, k]


def to_numpy(array: Any) -> NDArray[Any]:
    """Give the numbers of any array library as a numpy array."""
    if isinstance(array, np.ndarray):
        return array
    return np.from_dlpack(to_device(array, "cpu"))
