"""The block solver: minimise J for T batches at once against one shared reference.

J is eq. 2 of docs/explanation/method.md.

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
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError, refuse_beyond
from gofstream.execution import hands
from gofstream.ratio.arrays import on_cpu
from gofstream.ratio.features import CHUNK_VALUES, DATA_VALUES, PADDING, Features
from gofstream.ratio.labels import Labels
from gofstream.ratio.objective import Block
from gofstream.ratio.rows import Floats, Indices, Rows

#: Depth of the Anderson mixing.
DEPTH = 5
#: A gradient norm, relative to the one at f = 0, at which a fit has converged; and so many times
#: that where rows have to be made, and a pass is dear. (t is right to 1e-5 then, in the tests; at
#: ten times that, not `next`, to 1e-4.) Coefficients of made rows are large and alternate, so
#: that rounding ends their fits at the floor, whatever is asked for.
TOLERANCE, DEAR, FLOOR = {"float32": 1e-5, "float64": 1e-9}, 3.0, 1e-6
#: Down to this gradient norm, relative to the one at f = 0, rows that have to be made are made in
#: single precision, as long as every pass halves it: if one does not, a fit begins again. Rounding
#: shows from 1e-4 on (λN = 10), from 5e-3 (λN = 0.1), or from the first pass on (wide kernels).
ROUGH = 0.03
#: Relative residual of the single published step.
ONE_STEP_ACCURACY = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class FitSummary:
    """What a block of fits gives, one entry per batch, without the rows of the data.

    Attributes
    ----------
    z : (r, T) whitened coefficients.
    t : (T,) the statistic `single` of each batch.
    converged : (T,) whether the gradient norm reached the tolerance.
    gradient_norm : (T,) |∇J| in the metric of H0, so that half its square estimates J - min J.
    excess : (T,) Σ_R share (e^f - 1): by how much f changes the expected count, relatively.
    passes : (T,) passes over the reference.
    uncovered : (T,) events farther than three widths from every centre, invisible to f.
    """

    z: Floats
    t: Floats
    converged: NDArray[np.bool_]
    gradient_norm: Floats
    excess: Floats
    passes: NDArray[np.int64]
    uncovered: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Fit(FitSummary):
    """What a block of fits gives, with the rows of the data, which take most of its memory.

    Attributes
    ----------
    data : the rows of the data, on which any z can be evaluated.
    labels : which rows were whose reference; None when all were everyone's.
    """

    data: Rows
    labels: Labels | None

    def summary(self) -> FitSummary:
        """Give the same without the rows of the data."""
        return FitSummary(**{each.name: getattr(self, each.name) for each in fields(FitSummary)})


def fit_bytes(features: Features, sizes: Sequence[int], *, stored: bool = True) -> int:
    """Memory a block of fits takes beyond the features: its data, and their rows if stored."""
    dims, rows = int(features.centres.shape[1]), PADDING * sum(sizes) + len(sizes)
    history = features.rank * len(sizes) * (2 * DEPTH + 18)
    columns = features.rank if stored else dims
    own = 8 * (sum(sizes) * dims + int(rows * (columns + 8)) + history)
    return own + _hand_bytes(features, 0)


def _hand_bytes(features: Features, fits: int) -> int:
    """Memory that one more thread takes, which works on so many fits."""
    temporaries = 4 * CHUNK_VALUES + 3 * max(DATA_VALUES, 256 * features.rank)
    return 8 * (temporaries + 4 * features.rank * fits)


def _helping(features: Features, room: int, stored: bool) -> int:
    """Count the threads that share a block: where rows are made, as many as there is room for."""
    if (features.made is None and stored) or not on_cpu(features.s):
        return 1
    return min(hands(), 1 + room)


def rows_fit(features: Features, sizes: Sequence[int], memory: int) -> bool:
    """Whether the kernel rows of the data are stored, beside the features."""
    return features.nbytes + fit_bytes(features, sizes) <= memory


def block_bytes(features: Features, expected: Floats, memory: int, *, one_step: bool) -> int:
    """Memory that `fit` may take beyond the features, when it may take so much with them.

    Parameters
    ----------
    expected : events of each batch, whose number will be a Poisson one.
    """
    small, large = (
        np.maximum(expected + spread * np.sqrt(expected), 0).astype(int).tolist()
        for spread in (-5, 5)
    )
    if one_step or rows_fit(features, large, memory):
        return fit_bytes(features, large)
    made = fit_bytes(features, large, stored=False)
    # Toys that are a little smaller would be stored, and fill what there is.
    return max(made, memory - features.nbytes) if rows_fit(features, small, memory) else made


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
    memory : bytes that features and fits may take together. Rows of the data that do not fit are
        made when they are needed; labels and a single step need them stored, and a single step
        those of the reference, too.

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
    if one_step and features.made is not None:
        raise InputError(
            "a single step is right only with the curvature of the whole reference, whose rows do "
            "not fit into the memory budget; give more memory, or let fits converge"
        )
    labels = batches if isinstance(batches, Labels) else None
    sizes = [len(each) for each in (batches.data if isinstance(batches, Labels) else batches)]
    stored = labels is not None or one_step or rows_fit(features, sizes, memory)
    needed = features.nbytes + fit_bytes(features, sizes, stored=stored)
    refuse_beyond(memory, needed, f"the features and a block of {len(sizes)} fits")
    helping = _helping(features, (memory - needed) // _hand_bytes(features, len(sizes)), stored)
    if isinstance(batches, Labels):
        data, uncovered = Rows.taken(features, batches.data), batches.uncovered
    elif stored:
        data, uncovered = Rows.of(features, batches)
    else:
        data, uncovered = Rows.to_make(features, batches, helping)
    data.hands = helping
    block = Block(features, data, np.asarray(expected, dtype=np.float64), labels)
    if one_step:
        return _one_step(block, uncovered)
    if tolerance is None:
        tolerance = TOLERANCE[features.precision]
        tolerance = max(DEAR * tolerance, FLOOR) if block.makes_rows else tolerance
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


class _Paths:
    """Where each fit of a block is: its point, what is known there, and its recent steps.

    ``scale`` times C is the curvature of the bound that a fit minimises; at ``most`` that bound is
    true. A ``target``, the minimum of the bound, is ``known`` until the fit moves on. All fits are
    kept in arrays, since a thread that loops over them keeps the others from the interpreter.
    """

    def __init__(self, slope: Floats, gradient: Floats, most: float) -> None:
        rank, count = gradient.shape
        self.z, self.target = np.zeros((rank, count)), np.empty((rank, count))
        self.most = most
        # The latest step of each fit stands last.
        self.points, self.moves = (np.zeros((count, DEPTH + 1, rank)) for _ in range(2))
        self.begin(slope, gradient)

    def begin(self, slope: Floats, gradient: Floats) -> None:
        """Stand at f = 0."""
        count = gradient.shape[1]
        self.z[:] = 0
        self.slope, self.gradient = slope.copy(), gradient.copy()
        self.best = np.linalg.norm(gradient, axis=0)
        self.scale, self.floor = np.ones(count), np.zeros(count)
        self.known = np.zeros(count, dtype=bool)
        self.plain, self.long = np.ones(count, dtype=bool), True
        self.steps = np.zeros(count, dtype=np.int64)

    def find_targets(self, block: Block, values: list[Any], live: Indices) -> None:
        """Minimise the bound for those fits that stand at a new point."""
        need = live[~self.known[live]]
        for start in range(0, len(need), block.group):
            now = need[start : start + block.group]
            first, stop = int(now[0]), int(now[-1]) + 1
            self.target[:, now] = block.between(first, stop).minimise_bound(
                np.take(self.z, now, axis=1),
                block.data.cut(values, first, stop),
                np.take(self.slope, now, axis=1),
                np.take(self.gradient, now, axis=1),
                self.scale[now],
                now - first,
            )
        self.known[need] = True

    def propose(self, live: Indices) -> Floats:
        """Next points to try: the minima of the bounds, mixed with what recent steps taught."""
        trial = np.take(self.target, live, axis=1)
        if not self.long:  # the long step from f = 0 tells nothing about the ones to come
            self._remember(live, trial)
        self.long = False
        steps = self.steps[live]
        self.plain[live] = steps <= 1
        for count in set(steps[steps > 1].tolist()):
            which = np.flatnonzero(steps == count)
            moves = self.moves[live[which], -count:]
            points = self.points[live[which], -count:]
            differences = np.diff(moves, axis=1)
            mixing = moves[:, -1:] @ np.linalg.pinv(differences, rcond=1e-8)
            mixed = mixing @ (np.diff(points, axis=1) + differences)
            trial[:, which] -= mixed[:, 0].T
        return trial

    def _remember(self, live: Indices, target: Floats) -> None:
        """Keep this step among the recent ones."""
        here = np.take(self.z, live, axis=1)
        for kept, latest in ((self.points, here), (self.moves, target - here)):
            kept[live, :-1] = kept[live, 1:]
            kept[live, -1] = latest.T
        self.steps[live] = np.minimum(self.steps[live] + 1, DEPTH + 1)

    def accept(
        self,
        who: Indices,
        z: Floats,
        slope: Floats,
        gradient: Floats,
        norm: Floats,
        curvature: Floats,
    ) -> None:
        """Move on to a new point."""
        self.z[:, who], self.slope[:, who], self.gradient[:, who] = z, slope, gradient
        self.known[who] = False
        self.best[who] = np.minimum(norm, self.best[who])
        # The mean of 4σ(1-σ) is far below one only when the whole rate is off, and then the bound
        # with C would be far too careful.
        scale = np.where(curvature > 0.5, 1.0, np.maximum(curvature, 1e-6))
        scale = np.maximum(scale, self.floor[who])
        other = np.abs(np.log(scale / self.scale[who])) > 0.7
        self.scale[who[other]] = scale[other]
        self.steps[who[other]] = 0

    def reject(self, who: Indices) -> None:
        """Fall back: first to the plain minimum of the bound, then towards the true bound."""
        plain = who[self.plain[who]]
        self.scale[plain] = np.minimum(self.most, 4 * self.scale[plain])
        self.floor[plain] = self.scale[plain] / 2
        self.known[plain] = False
        self.steps[who] = 0


@np.errstate(over="ignore", invalid="ignore")  # in single precision, far from all events
def _look(
    block: Block, trial: Floats, live: Indices
) -> tuple[list[Any], Floats, Floats, Floats, Floats, Floats]:
    """One pass: f on the data, ∇J and its norm; ∇J_R, Σ_R share (e^f - 1), and how J_R curves."""
    slope, excess, curvature = block.reference_pass(trial, live)
    values, gradient = block.data_pass(trial, live)
    gradient += slope
    return values, gradient, np.linalg.norm(gradient, axis=0), slope, excess, curvature


def _minimise(block: Block, uncovered: Indices, tolerance: float, max_passes: int) -> Fit:
    everyone = np.arange(len(block))
    values, data_part = block.data_pass(np.zeros((block.features.rank, len(block))), everyone)
    reference_part = block.mean * (block.expected / 2)
    paths = _Paths(reference_part, data_part + reference_part, block.most)
    at_zero = paths.best.copy()
    # Relative to the gradient at f = 0, but no looser for data that are wildly off than for data
    # that follow the reference (whose gradient is about √r), and no finer than rounding allows.
    ordinary = math.sqrt(block.features.rank)
    scale = np.clip(at_zero, 0.1 * ordinary, 3 * ordinary / (DEAR if block.makes_rows else 1))
    goal = tolerance * scale
    # At f = 0 the data pull with half of Σ_D ψ.
    stage = block.rough(-data_part) if block.makes_rows else block
    out = Fit(
        z=paths.z,
        t=np.zeros(len(block)),
        converged=at_zero <= 0.1 * goal,
        gradient_norm=at_zero.copy(),
        excess=np.zeros(len(block)),
        passes=np.zeros(len(block), dtype=np.int64),
        uncovered=uncovered,
        data=block.data,
        labels=block.labels,
    )
    live = everyone[~out.converged]
    for _ in range(max_passes):
        if not len(live):
            break
        paths.find_targets(block, values, live)
        trial = paths.propose(live)
        tried, gradient, norm, slope, excess, curvature = _look(stage, trial, live)
        if stage is not block and not (norm <= 0.5 * paths.best[live]).all():
            # Rounding hides the way, and may have done so before: begin again without it.
            stage, values = block, block.data.zeros()
            paths.begin(reference_part, data_part + reference_part)
            out.t[:], out.excess[:], out.gradient_norm[:] = 0, 0, at_zero
            out.passes[live] += 1
            continue
        t = 2 * (block.data.totals(tried)[live] - block.expected[live] * excess)
        # By convexity J(new) ≤ J(old) when the slope at the new point still points forward. The
        # minimum of the true bound always passes; a clearly smaller gradient will do too.
        moved = trial - np.take(paths.z, live, axis=1)
        downhill = np.sum(gradient * moved, axis=0) <= 0
        certain = paths.plain[live] & (paths.scale[live] == paths.most)
        good = certain | downhill | (norm <= 0.9 * paths.best[live])
        who = live[good]
        paths.accept(
            who, trial[:, good], slope[:, good], gradient[:, good], norm[good], curvature[good]
        )
        paths.reject(live[~good])
        out.t[who], out.gradient_norm[who], out.excess[who] = t[good], norm[good], excess[good]
        out.passes[live] += 1
        if stage is block:
            out.converged[live] = out.gradient_norm[live] <= goal[live]
        elif (norm <= ROUGH * scale[live]).all():
            # What was rounded is no measure for what will not be.
            stage, paths.best[live] = block, np.inf
        accepted = np.zeros(len(block), dtype=bool)
        accepted[who] = True
        values = block.data.chosen(tried, values, accepted)
        live = live[~out.converged[live]]
    return out
