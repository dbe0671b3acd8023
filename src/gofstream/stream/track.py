"""The running statistics of a stream at one width.

A stretch [s..n] of batches is tested by `sat` and `next` (eq. 8 and 9 of the method
page). Two are watched: the epoch, all batches since its start, at most H; and the window, the last
K. A third, the run, is everything since the beginning, for display.

`sat` needs Σ N_i e^{f_i} on the reference, over the stretch. `next` is a sum of scores: batch i is
scored by what the batches s..i-1 taught, for every start s that is still known, when it arrives.
Then its events can go, and what is left of it is a model and a few numbers.

A stream that was killed and taken up again must give the same bits. So every number follows from
the kept coefficients and scores by the same sums in the same order: e^f on the reference is always
the same product; the window never subtracts what leaves it, but adds the sum of the current block
of K batches, from its start, to that of the end of the block before, both begun at fixed positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import FormatError, SettingsError, refuse_beyond
from gofstream.ratio.features import Features
from gofstream.stream.stretch import following_scores, mean, ratios, saturated, saturations

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The statistics after one more batch.

    Attributes
    ----------
    step : how many batches the epoch has now.
    t : (4,) in the order of `inference.scale.FAMILIES`; NaN for a window that is not full.
    run : (2,) `sat` of everything since the run began, and the sum of `next` over its epochs: each
        begins to learn anew, so that no more than an epoch's models are ever needed.
    scores : what this batch adds to `next` of every stretch whose start is known, oldest first.
    """

    step: int
    t: Floats
    run: Floats
    scores: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """What one width knows of a stream. Begin with `Track.begin`; nothing in it is ever changed.

    Attributes
    ----------
    features : the reference at this width.
    epoch, window : H and K, in batches.
    shrink : the b of `next`.
    count : batches so far that are watched.
    coefficients : (m, r) kernel coefficients of the last m ≤ max(H, 2K) of these.
    expected, excess : (m,) N_i(R), and Σ_R share (e^{f_i} - 1).
    following : (m,) `next` from each of these batches until now.
    run_totals : batches, expected events and `next` of the run.
    on_run, on_epoch, on_block : (N_R,) Σ N_i e^{f_i} of the run, the epoch, the block of K.
    on_ends : (K, N_R) the same for the end of the block before, from its first, second … batch.
    """

    features: Features
    epoch: int
    window: int
    shrink: float
    count: int
    coefficients: Floats
    expected: Floats
    excess: Floats
    following: Floats
    run_totals: tuple[float, float, float]
    on_run: Floats
    on_epoch: Floats
    on_block: Floats
    on_ends: Floats

    @classmethod
    def begin(
        cls,
        features: Features,
        *,
        epoch: int = 100,
        window: int = 20,
        shrink: float = 0.25,
        memory: int = 4 * 1024**3,
    ) -> Track:
        """Begin a stream.

        Parameters
        ----------
        features : the reference at one width.
        epoch, window : H and K, in batches.
        shrink : the b of `next`.
        memory : bytes that the sums on the reference may take.

        Examples
        --------
        >>> from gofstream.ratio.features import prepare
        >>> from gofstream.ratio.solver import fit
        >>> rng = np.random.default_rng(1)
        >>> x = rng.exponential(size=(5000, 1))
        >>> features = prepare(x, x[:50], 0.7, penalty=1e-6, expected=100)
        >>> track = Track.begin(features, epoch=10, window=2)
        >>> for _ in range(3):
        ...     events = rng.exponential(size=(100, 1))
        ...     learnt = features.coefficients(fit(features, [events], [100.0]).z)[:, 0]
        ...     track, values = track.add(learnt, 100.0, events)
        >>> values.step, values.t.shape, len(values.scores)
        (3, (4,), 2)
        """
        if epoch < 1 or window < 1:
            raise SettingsError(f"epoch is {epoch} and window is {window} batches; both need one")
        rows = features.n_reference
        # The ends of a block, the block they are made of, and a dozen sums and temporaries.
        needed = 8 * rows * (2 * window + 12)
        what = f"the sums over a window of {window} batches"
        refuse_beyond(memory, needed, what, "use a shorter window")
        nothing, zero = np.zeros(0), np.zeros(rows)
        return cls(
            features=features,
            epoch=epoch,
            window=window,
            shrink=shrink,
            count=0,
            coefficients=np.zeros((0, features.rank)),
            expected=nothing,
            excess=nothing,
            following=nothing,
            run_totals=(0.0, 0.0, 0.0),
            on_run=zero,
            on_epoch=zero,
            on_block=zero,
            on_ends=np.zeros((0, rows)),
        )

    def add(
        self, coefficients: Floats, expected: float, events: Floats, *, watched: bool = True
    ) -> tuple[Track, Values]:
        """Take one more batch.

        Parameters
        ----------
        coefficients : (r,) what it taught, as kept in its `LogRatio`.
        expected : N_i(R).
        events : (n, D) its events, scaled; they are scored and not kept.
        watched : otherwise it counts in the run only, as one of unusual exposure should.
        """
        scores = np.zeros(0)
        if watched:
            scores = following_scores(
                self.features,
                self.coefficients,
                self.expected,
                self.excess,
                events,
                expected,
                self.shrink,
            )
        return self.replay(coefficients, expected, scores, watched=watched)

    def replay(
        self, coefficients: Floats, expected: float, scores: Floats, *, watched: bool = True
    ) -> tuple[Track, Values]:
        """Take a batch whose events are gone, with the scores that `add` gave: the same bits."""
        ratio = ratios(self.features, np.asarray(coefficients, dtype=np.float64)[None])[0]
        weighted = expected * ratio
        batches, exposure, following = self.run_totals
        track = replace(
            self,
            on_run=self.on_run + weighted,
            run_totals=(batches + 1, exposure + expected, following),
        )
        if watched:
            track = track._watch(coefficients, expected, scores, ratio, weighted)
        return track, track._values(scores)

    def _watch(
        self,
        coefficients: Floats,
        expected: float,
        scores: Floats,
        ratio: Floats,
        weighted: Floats,
    ) -> Track:
        """Take a batch into epoch and window."""
        step, place = self.count % self.epoch, self.count % self.window
        known = max(self.epoch, 2 * self.window)
        batches, exposure, following = self.run_totals
        track = replace(
            self,
            count=self.count + 1,
            coefficients=np.vstack([self.coefficients, coefficients])[-known:],
            expected=np.append(self.expected, expected)[-known:],
            excess=np.append(self.excess, mean(self.features, ratio - 1))[-known:],
            following=np.append(self.following + scores, 0.0)[-known:],
            run_totals=(batches, exposure, following + (float(scores[-step]) if step else 0.0)),
            on_epoch=self.on_epoch + weighted if step else weighted,
            on_block=self.on_block + weighted if place else weighted,
        )
        return track._with_ends() if place == self.window - 1 else track

    def _with_ends(self) -> Track:
        """Sum up the ends of the last whole block: all that later windows need of it."""
        begun = self.count % self.window
        stop = len(self.coefficients) - begun
        if stop < self.window:
            return self
        last = slice(stop - self.window, stop)
        ends = ratios(self.features, self.coefficients[last]) * self.expected[last, None]
        for k in range(self.window - 2, -1, -1):
            ends[k] += ends[k + 1]
        return replace(self, on_ends=ends)

    def _values(self, scores: Floats) -> Values:
        batches, exposure, following = self.run_totals
        run = np.array([saturated(self.features, self.on_run, exposure, batches), following])
        step = (self.count - 1) % self.epoch + 1 if self.count else 0
        t = np.full(4, np.nan)
        if step:
            t[0] = saturated(self.features, self.on_epoch, self.expected[-step:].sum(), step)
            t[1] = self.following[-step]
        if self.count >= self.window:
            begun = self.count % self.window
            summed = self.on_block + self.on_ends[begun] if begun else self.on_ends[0]
            t[2] = saturated(
                self.features, summed, self.expected[-self.window :].sum(), self.window
            )
            t[3] = self.following[-self.window]
        return Values(step, t, run, scores)

    def stretches(self) -> Floats:
        """Give `sat` and `next` of the last 1, 2, … batches, as far back as models are known.

        Returns
        -------
        ndarray
            (2, lengths): what the date of an anomaly is found from.
        """
        sat = saturations(self.features, self.coefficients, self.expected)
        return np.stack([sat, self.following[::-1]])

    # -- what a store keeps -------------------------------------------------------------------

    def state(self) -> dict[str, Floats]:
        """Give everything that has to be kept to go on, as float64 arrays by name.

        Batches after a kept state are taken with `replay`, so it need not be kept after every one.
        """
        return {
            "coefficients": self.coefficients.copy(),
            "expected": self.expected.copy(),
            "excess": self.excess.copy(),
            "following": self.following.copy(),
            "run": self.on_run.copy(),
            "totals": np.array([self.count, *self.run_totals]),
        }

    def restored(self, state: Mapping[str, Floats]) -> Track:
        """Go on from a kept state, with the reference and lengths of this track.

        Raises
        ------
        FormatError
            If the state does not belong to a track like this one; it says what does not fit.
        """
        self._check(state)
        count, *run = (float(number) for number in state["totals"])
        track = replace(
            self,
            count=int(count),
            coefficients=state["coefficients"].copy(),
            expected=state["expected"].copy(),
            excess=state["excess"].copy(),
            following=state["following"].copy(),
            run_totals=(run[0], run[1], run[2]),
            on_run=state["run"].copy(),
        )
        step = (track.count - 1) % self.epoch + 1 if track.count else 0
        begun = track.count % self.window
        return replace(
            track,
            on_epoch=track._sum_of_last(step),
            on_block=track._sum_of_last(begun),
        )._with_ends()

    def _sum_of_last(self, batches: int) -> Floats:
        """Σ N_i e^{f_i} on the reference over the last batches, one after another as they came."""
        total = np.zeros(self.features.n_reference)
        for k in range(len(self.expected) - batches, len(self.expected)):
            total = (
                total + self.expected[k] * ratios(self.features, self.coefficients[k : k + 1])[0]
            )
        return total

    def _check(self, state: Mapping[str, Floats]) -> None:
        known = len(state.get("expected", ()))
        shapes = {
            "expected": (known,),
            "coefficients": (known, self.features.rank),
            "excess": (known,),
            "following": (known,),
            "run": (self.features.n_reference,),
            "totals": (4,),
        }
        for name, shape in shapes.items():
            array = state.get(name)
            if array is None or array.dtype != np.float64 or array.shape != shape:
                found = "missing" if array is None else f"{array.dtype} {array.shape}"
                raise FormatError(
                    f"the state of the stream at width {self.features.width:g} cannot be used: "
                    f"{name!r} should be float64 {shape}, but is {found}; it was kept by a stream "
                    "with another reference, other centres or another width"
                )
        held = min(int(state["totals"][0]), max(self.epoch, 2 * self.window))
        if known != held:
            raise FormatError(
                f"the state of the stream at width {self.features.width:g} knows {known} batches, "
                f"but an epoch of {self.epoch} and a window of {self.window} need {held}; it was "
                "kept by a stream with another epoch or window"
            )
