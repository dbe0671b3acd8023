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
from numpy.typing import NDArray

from gofstream.errors import InputError, refuse_beyond
from gofstream.ratio.arrays import to_numpy
from gofstream.ratio.features import CHUNK_VALUES, DATA_VALUES, PADDING, Features
from gofstream.ratio.labels import Labels
from gofstream.ratio.objective import Block, Floats, Indices, Rows

#: Depth of the Anderson mixing.
DEPTH = 5
#: A gradient norm, relative to the one at f = 0, at which a fit has converged.
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}
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
    excess : (T,) Σ_R share (e^f - 1): by how much f changes the expected count, relatively.
    passes : (T,) passes over the reference.
    uncovered : (T,) events farther than three widths from every centre, invisible to f.
    data : the rows of the data, on which any z can be evaluated.
    labels : which rows were whose reference; None when all were everyone's.
    """

    z: Floats
    t: Floats
    converged: NDArray[np.bool_]
    gradient_norm: Floats
    excess: Floats
    passes: NDArray[np.int64]
    uncovered: NDArray[np.int64]
    data: Rows
    labels: Labels | None


def fit_bytes(features: Features, sizes: Sequence[int]) -> int:
    """Memory a block of fits takes beyond the features: the kernel rows of its data."""
    rows = PADDING * sum(sizes) + len(sizes)
    history = features.rank * len(sizes) * (2 * DEPTH + 12)
    temporaries = 4 * CHUNK_VALUES + 3 * max(DATA_VALUES, 256 * features.rank)
    return 8 * (int(rows * (features.rank + 8)) + history + temporaries)


def fit(
    features: Features,
    batches: Sequence[Floats] | Labels,
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
    batches : scaled events of each batch, (n_i, D), of which any may be empty; or labels, where
        data and reference are rows of the same features.
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
    if not len(batches):
        raise InputError("no batches to fit; give at least one, which may be empty")
    labels = batches if isinstance(batches, Labels) else None
    sizes = [len(each) for each in (batches.data if isinstance(batches, Labels) else batches)]
    refuse_beyond(memory, fit_bytes(features, sizes), f"a block of {len(sizes)} fits")
    if isinstance(batches, Labels):
        data, uncovered = Rows.taken(features, batches.data), batches.uncovered
    else:
        data, uncovered = Rows.of(features, batches)
    block = Block(features, data, np.asarray(expected, dtype=np.float64), labels)
    if one_step:
        return _one_step(block, uncovered)
    if tolerance is None:
        tolerance = TOLERANCE[str(to_numpy(features.psi[:1, :1]).dtype)]
    return _minimise(block, uncovered, tolerance, max_passes)


def _one_step(block: Block, uncovered: Indices) -> Fit:
    """One undamped Newton step from f = 0."""
    who = np.arange(len(block))
    zero = np.zeros((block.features.rank, len(block)))
    values = block.data_values(zero, who)
    slope = block.mean * (block.expected / 2)
    gradient = block.data_gradient(zero, values, who) + slope
    exact = block.labels is not None
    alpha, beta = block.quadratic(np.full(len(who), 0.0 if exact else 1.0), who)
    step, change = block.newton_step(
        gradient, values, alpha, beta, ONE_STEP_ACCURACY, who, exact=exact
    )
    slope, excess, _ = block.reference_pass(-step, who)
    values = [-f for f in change]
    return Fit(
        z=-step,
        t=2 * (block.data.totals(values) - block.expected * excess),
        converged=np.zeros(len(who), dtype=bool),
        gradient_norm=np.linalg.norm(block.data_gradient(-step, values, who) + slope, axis=0),
        excess=excess,
        passes=np.ones(len(who), dtype=np.int64),
        uncovered=uncovered,
        data=block.data,
        labels=block.labels,
    )


@dataclass(slots=True)
class _Path:
    """Where one fit is: its point, what is known there, and its recent steps.

    ``scale`` times C is the curvature of the bound it minimises; at ``most`` that bound is true.
    """

    z: Floats
    slope: Floats
    gradient: Floats
    best: float
    most: float
    scale: float = 1.0
    floor: float = 0.0
    plain: bool = True
    target: Floats | None = None
    points: list[Floats] = field(default_factory=list)
    moves: list[Floats] = field(default_factory=list)

    def remember(self) -> None:
        """Keep this step among the recent ones."""
        assert self.target is not None
        self.points = [*self.points, self.z][-DEPTH - 1 :]
        self.moves = [*self.moves, self.target - self.z][-DEPTH - 1 :]

    def accept(
        self, z: Floats, slope: Floats, gradient: Floats, norm: float, curvature: float
    ) -> None:
        self.z, self.slope, self.gradient = z, slope, gradient
        self.target = None
        self.best = min(norm, self.best)
        # The mean of 4σ(1-σ) is far below one only when the whole rate is off, and then the bound
        # with C would be far too careful.
        scale = max(1.0 if curvature > 0.5 else max(curvature, 1e-6), self.floor)
        if abs(math.log(scale / self.scale)) > 0.7:
            self.scale = scale
            self.forget()

    def reject(self) -> None:
        """Fall back: first to the plain minimum of the bound, then towards the true bound."""
        if self.plain:
            self.scale, self.target = min(self.most, 4 * self.scale), None
            self.floor = self.scale / 2
        self.forget()

    def forget(self) -> None:
        self.points, self.moves = [], []


def _minimise(block: Block, uncovered: Indices, tolerance: float, max_passes: int) -> Fit:
    everyone = np.arange(len(block))
    z = np.zeros((block.features.rank, len(block)))
    values = block.data_values(z, everyone)
    slope = block.mean * (block.expected / 2)
    gradient = block.data_gradient(z, values, everyone) + slope
    at_zero = np.linalg.norm(gradient, axis=0)
    # Relative to the gradient at f = 0, but no looser for data that are wildly off than for data
    # that follow the reference (whose gradient is about √r), and no finer than rounding allows.
    ordinary = math.sqrt(block.features.rank)
    goal = tolerance * np.clip(at_zero, 0.1 * ordinary, 3 * ordinary)
    paths = [
        _Path(z[:, i], slope[:, i], gradient[:, i], float(at_zero[i]), block.slack)
        for i in everyone
    ]
    out = Fit(
        z=z.copy(),
        t=np.zeros(len(block)),
        converged=at_zero <= 0.1 * goal,
        gradient_norm=at_zero,
        excess=np.zeros(len(block)),
        passes=np.zeros(len(block), dtype=np.int64),
        uncovered=uncovered,
        data=block.data,
        labels=block.labels,
    )
    live = everyone[~out.converged]
    for index in range(max_passes):
        if not len(live):
            break
        _find_targets(block, paths, values, live)
        trial = _propose([paths[i] for i in live], first=index == 0)
        slope, excess, curvature = block.reference_pass(trial, live)
        tried = block.data_values(trial, live)
        gradient = block.data_gradient(trial, tried, live) + slope
        norm = np.linalg.norm(gradient, axis=0)
        t = 2 * (block.data.totals(tried)[live] - block.expected[live] * excess)
        # By convexity J(new) ≤ J(old) when the slope at the new point still points forward. The
        # minimum of the true bound always passes; a clearly smaller gradient will do too.
        moved = trial - np.stack([paths[i].z for i in live], axis=1)
        downhill = np.sum(gradient * moved, axis=0) <= 0
        accepted = np.zeros(len(block), dtype=bool)
        for k, i in enumerate(live):
            path = paths[i]
            out.passes[i] += 1
            certain = path.plain and path.scale == path.most
            if certain or downhill[k] or norm[k] <= 0.9 * path.best:
                accepted[i] = True
                path.accept(
                    trial[:, k], slope[:, k], gradient[:, k], float(norm[k]), float(curvature[k])
                )
                out.z[:, i], out.t[i], out.gradient_norm[i] = trial[:, k], t[k], norm[k]
                out.excess[i] = excess[k]
            else:
                path.reject()
            out.converged[i] = out.gradient_norm[i] <= goal[i]
        values = block.data.chosen(tried, values, accepted)
        live = live[~out.converged[live]]
    return out


def _find_targets(block: Block, paths: list[_Path], values: list[Any], live: Indices) -> None:
    """Minimise the bound for those paths that stand at a new point."""
    need = np.array([i for i in live if paths[i].target is None], dtype=np.int64)
    for start in range(0, len(need), block.group):
        now = need[start : start + block.group]
        first, stop = int(now[0]), int(now[-1]) + 1
        target = block.between(first, stop).minimise_bound(
            np.stack([paths[i].z for i in now], axis=1),
            block.data.cut(values, first, stop),
            np.stack([paths[i].slope for i in now], axis=1),
            np.stack([paths[i].gradient for i in now], axis=1),
            np.array([paths[i].scale for i in now]),
            now - first,
        )
        for k, i in enumerate(now):
            paths[i].target = target[:, k]


def _propose(paths: list[_Path], first: bool) -> Floats:
    """Next points to try: the minima of the bounds, mixed with what recent steps taught."""
    trial = np.stack([path.target for path in paths if path.target is not None], axis=1)
    for path in paths:
        if not first:  # the long step from f = 0 tells nothing about the ones to come
            path.remember()
        path.plain = len(path.moves) <= 1
    for count in {len(path.moves) for path in paths if not path.plain}:
        which = [k for k, path in enumerate(paths) if len(path.moves) == count]
        moves = np.array([paths[k].moves for k in which])
        points = np.array([paths[k].points for k in which])
        differences = np.diff(moves, axis=1)
        mixing = moves[:, -1:] @ np.linalg.pinv(differences, rcond=1e-8)
        mixed = mixing @ (np.diff(points, axis=1) + differences)
        trial[:, which] -= mixed[:, 0].T
    return trial
