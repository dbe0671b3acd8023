"""From samples to learnt ratios: the reference made ready once, then batch after batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.arguments import (
    check_type,
    positive_number,
    positive_numbers,
    random_generator,
)
from gofstream.checks import check_data, check_reference, warn_of_weights
from gofstream.errors import InputError, refuse_beyond
from gofstream.ratio.centres import (
    COARSE_RANK,
    COARSEST,
    DENSE,
    covering_centres,
    default_count,
    draw_candidates,
)
from gofstream.ratio.devices import place
from gofstream.ratio.features import Features, prepare, refuse_candidates
from gofstream.ratio.kernel import slab_bytes
from gofstream.ratio.model import LogRatio, LogRatios
from gofstream.ratio.penalty import PenaltyTrial, smallest_stable
from gofstream.ratio.scaling import ScaledRows, Scaling
from gofstream.ratio.solver import FitSummary, fit
from gofstream.ratio.widths import distance_quantiles
from gofstream.sample import Events, Sample, as_sample, pieces
from gofstream.settings import Settings

Floats = NDArray[np.float64]

#: What an expected count says, for errors.
PREDICTED = "the events that the nominal model predicts for a batch"


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """What a set of batches taught at one width: the models, and how their fits went."""

    models: tuple[LogRatio, ...]
    fit: FitSummary
    ratios: LogRatios


@dataclass(frozen=True, slots=True, eq=False)
class Learner:
    """A reference with everything that is decided once: scaling, widths, centres, penalty.

    Make one with `Learner.prepare`. All its choices follow from the reference and the seed, unless
    the settings ask for centres that look at the data. Those are chosen by `centred_on`, for the
    data and again for every pseudo-experiment; a learner that waits for them cannot make features.

    The reference may be on disk: nothing here, nor in what is made of it, is as large in memory,
    unless it fits. Event weights are the exception.

    ``notes`` say what a user should know about choices that differ from the rule.
    """

    settings: Settings
    scaling: Scaling
    reference: ScaledRows
    share: Floats | None
    digest: str
    expected: float
    widths: tuple[float, ...]
    candidates: Floats
    waiting: bool
    penalty: float
    penalty_trials: tuple[PenaltyTrial, ...]
    notes: tuple[str, ...]

    @property
    def sample(self) -> Sample:
        """The reference as it was given."""
        return self.reference.sample

    @classmethod
    def prepare(
        cls,
        reference: Events,
        settings: Settings,
        *,
        expected: float,
        rng: int | np.random.Generator | None,
    ) -> Learner:
        """Learn the scaling, the widths, the centres and, if asked for, the penalty.

        Parameters
        ----------
        expected : N(R) of a typical batch.
        rng : seed or generator; decides which rows become centres and which distances are used.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(1)
        >>> x = Sample.from_array(rng.exponential(size=5000))
        >>> learner = Learner.prepare(x, Settings(n_centres=100), expected=400.0, rng=rng)
        >>> len(learner.widths)
        5
        """
        reference = as_sample(reference, "reference")
        check_type("settings", settings, Settings, "Settings(...)")
        rng = random_generator("rng", rng)
        expected = positive_number("expected", expected, PREDICTED)
        check_reference(reference)
        warn_of_weights(reference)
        scaling = Scaling.learn(reference, settings.scaling)
        scaled = ScaledRows(reference, scaling)
        for part in pieces(len(reference)):  # events that are too far out are refused
            scaling.apply(reference, part)
        share = None if reference.weights is None else reference.share
        count = settings.n_centres or default_count(
            len(reference) + expected, settings.centre_factor
        )
        count = min(count, len(reference))
        refuse_candidates(scaled, count, settings.memory)
        candidates = draw_candidates(scaled, count, rng, share=share)
        widths, note = settings.widths or (), ""
        if not widths:
            found, note = distance_quantiles(scaled, settings.width_quantiles, rng, share=share)
            # Quantiles of a discrete column are often equal, but for rounding.
            widths = tuple(w for k, w in enumerate(found) if k == 0 or w > 1.000001 * found[k - 1])
        trials: tuple[PenaltyTrial, ...] = ()
        if settings.penalty == "smallest":
            penalty, trials = smallest_stable(
                scaled,
                candidates,
                widths[0],
                expected=expected,
                share=share,
                precision=settings.precision,
                memory=settings.memory,
                rng=rng,
            )
        else:
            penalty = settings.penalty
        return cls(
            settings=settings,
            scaling=scaling,
            reference=scaled,
            share=share,
            digest=reference.digest(),
            expected=expected,
            widths=widths,
            candidates=candidates,
            waiting=settings.data_dependent,
            penalty=penalty,
            penalty_trials=trials,
            notes=(note,) if note else (),
        )

    def about(self) -> dict[str, Any]:
        """Describe everything that decides what is learnt, for files that depend on it."""
        centres = hashlib.sha256(self.candidates.tobytes()).hexdigest()
        # Models so large were reduced less, once: files of then do not fit those of now.
        rule = f", {COARSEST:g} λ" if len(self.candidates) > COARSE_RANK else ""
        # These change last digits at most: rows are stored or made as needed, here or there. But of
        # so many candidates, memory decides how many are kept.
        free = {"device"} if len(self.candidates) > DENSE else {"memory", "device"}
        return {
            "reference": self.digest,
            "settings": self.settings.model_dump(mode="json", exclude=free),
            "centres": ("anew for every data set" if self.waiting else centres) + rule,
            "penalty": self.penalty,
            "widths": list(self.widths),
            "nominal_expected": self.expected,
        }

    def scaled(self, batches: Sequence[Events]) -> list[Floats]:
        """Check batches against the reference, and scale them as it was scaled."""
        return [self.scaling.apply(batch) for batch in check_data(batches, self.sample)]

    def centred_on(self, data: Sequence[Floats], rng: np.random.Generator) -> Learner:
        """Choose the centres that the settings take from the data.

        Parameters
        ----------
        data : scaled events of each batch.
        rng : decides which rows become centres.
        """
        events, candidates = np.concatenate(data), self.candidates
        if self.settings.centres_from == "pooled":
            candidates = draw_candidates(
                self.reference, len(candidates), rng, share=self.share, data=events
            )
        if self.settings.cover:
            # Covering the narrowest width covers the others.
            extra = covering_centres(events, candidates, self.widths[0])
            candidates = np.concatenate([candidates, extra])
        return replace(self, candidates=candidates, waiting=False)

    def features(self, width: float) -> Features:
        """Make the features of the reference at one width: the costly step, shared by all fits."""
        if self.waiting:
            raise InputError(
                "these settings take centres from the data (`centres_from` or `cover`), but no "
                "data were given; choose the centres with `centred_on` first"
            )
        features = prepare(
            self.reference,
            self.candidates,
            width,
            penalty=self.penalty,
            expected=self.expected,
            share=self.share,
            precision=self.settings.precision,
            memory=self.settings.memory,
        )
        return place(features, self.settings.device)

    def learn(
        self, features: Features, batches: Sequence[Events], expected: Sequence[float]
    ) -> Learnt:
        """Fit every batch at the width of the features, and evaluate what the statistics need."""
        check_type("features", features, Features, "what `Learner.features` returns")
        events = self.scaled(batches)
        expected = positive_numbers("expected", expected, len(events), PREDICTED)
        points = sum(len(x) for x in events)
        needed = features.nbytes + 8 * points * len(self.scaling.feature_names)
        needed += 8 * (len(self.reference) + points) * len(events) + slab_bytes(features.rank)
        refuse_beyond(self.settings.memory, needed, "the features and the learnt log ratios")
        done = fit(
            features,
            events,
            expected,
            one_step=self.settings.one_step,
            tolerance=self.settings.tolerance,
            max_passes=self.settings.max_passes,
            memory=self.settings.memory,
        ).summary()  # the rows of the data make room for the log ratios
        models = self.models(features, done, expected)
        n_reference = len(self.reference)
        share = np.full(n_reference, 1 / n_reference) if self.share is None else self.share
        ratios = LogRatios(
            reference=features.log_ratio_reference(done.z).T,
            data=[features.log_ratio(x, done.z).T for x in events],
            expected=np.asarray(expected, dtype=np.float64),
            share=share,
        )
        return Learnt(models, done, ratios)

    def models(
        self, features: Features, done: FitSummary, expected: Sequence[float]
    ) -> tuple[LogRatio, ...]:
        """Put what fits found into a form that can be kept: one model per batch."""
        coefficients = features.coefficients(done.z)
        return tuple(
            LogRatio(
                centres=features.centres,
                coefficients=np.ascontiguousarray(coefficients[:, i]),
                width=features.width,
                expected=float(number),
                scaling=self.scaling,
                penalty=self.penalty,
                settings=self.settings,
                reference=self.digest,
                converged=bool(done.converged[i]),
            )
            for i, number in enumerate(expected)
        )
