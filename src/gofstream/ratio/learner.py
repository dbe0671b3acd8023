"""From samples to learnt ratios: the reference made ready once, then batch after batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.checks import check_data, check_reference
from gofstream.errors import InputError, refuse_beyond
from gofstream.ratio.centres import covering_centres, default_count, draw_candidates
from gofstream.ratio.features import Features, prepare
from gofstream.ratio.model import LogRatio, LogRatios
from gofstream.ratio.penalty import PenaltyTrial, smallest_stable
from gofstream.ratio.scaling import Scaling
from gofstream.ratio.solver import Fit, fit
from gofstream.ratio.widths import distance_quantiles
from gofstream.sample import Sample
from gofstream.settings import Settings

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """What a set of batches taught at one width: the models, and how their fits went."""

    models: tuple[LogRatio, ...]
    fit: Fit
    ratios: LogRatios


@dataclass(frozen=True, slots=True, eq=False)
class Learner:
    """A reference with everything that is decided once: scaling, widths, centres, penalty.

    Make one with `Learner.prepare`. All its choices follow from the reference and the seed, unless
    the settings ask for centres that look at the data; such choices have to be repeated in every
    pseudo-experiment.
    """

    settings: Settings
    scaling: Scaling
    reference: Floats
    share: Floats | None
    digest: str
    expected: float
    widths: tuple[float, ...]
    candidates: Floats
    penalty: float
    penalty_trials: tuple[PenaltyTrial, ...]
    sample: Sample

    @classmethod
    def prepare(
        cls,
        reference: Sample,
        settings: Settings,
        *,
        expected: float,
        rng: np.random.Generator,
        data: Sequence[Sample] = (),
    ) -> Learner:
        """Learn the scaling, the widths, the centres and, if asked for, the penalty.

        Parameters
        ----------
        expected : N(R) of a typical batch.
        rng : decides which rows become centres and which distances are looked at.
        data : the batches to be fitted; only used if the settings want centres from the data.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(1)
        >>> x = Sample.from_array(rng.exponential(size=5000))
        >>> learner = Learner.prepare(x, Settings(n_centres=100), expected=400.0, rng=rng)
        >>> len(learner.widths)
        5
        """
        check_reference(reference)
        _check_expected([expected])
        if settings.data_dependent and not data:
            raise InputError(
                "these settings take centres from the data (`centres_from` or `cover`), but no "
                "data were given; pass the batches that will be fitted"
            )
        scaling = Scaling.learn(reference, settings.scaling)
        scaled = scaling.apply(reference)
        share = None if reference.weights is None else reference.share
        events = [scaling.apply(batch) for batch in check_data(data, reference)] if data else []
        pooled = np.concatenate(events) if settings.centres_from == "pooled" else None
        total = len(reference) + expected
        candidates = draw_candidates(
            scaled,
            settings.n_centres or default_count(total, settings.centre_factor),
            rng,
            share=share,
            data=pooled,
        )
        widths = settings.widths or distance_quantiles(
            scaled, settings.width_quantiles, rng, share=share
        )
        if settings.cover:
            # Covering the narrowest width covers the others.
            extra = covering_centres(np.concatenate(events), candidates, widths[0])
            candidates = np.concatenate([candidates, extra])
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
            penalty=penalty,
            penalty_trials=trials,
            sample=reference,
        )

    def features(self, width: float) -> Features:
        """Make the features of the reference at one width: the costly step, shared by all fits."""
        return prepare(
            self.reference,
            self.candidates,
            width,
            penalty=self.penalty,
            expected=self.expected,
            share=self.share,
            precision=self.settings.precision,
            memory=self.settings.memory,
        )

    def learn(
        self, features: Features, batches: Sequence[Sample], expected: Sequence[float]
    ) -> Learnt:
        """Fit every batch at the width of the features, and evaluate what the statistics need."""
        if len(expected) != len(batches):
            raise InputError(f"{len(expected)} expected counts for {len(batches)} batches")
        _check_expected(expected)
        events = [self.scaling.apply(batch) for batch in check_data(batches, self.sample)]
        points = len(self.reference) + sum(len(x) for x in events)
        refuse_beyond(self.settings.memory, 8 * points * len(batches), "the learnt log ratios")
        done = fit(
            features,
            events,
            expected,
            one_step=self.settings.one_step,
            tolerance=self.settings.tolerance,
            max_passes=self.settings.max_passes,
            memory=self.settings.memory,
        )
        coefficients = features.coefficients(done.z)
        models = tuple(
            LogRatio(
                centres=features.centres,
                coefficients=np.ascontiguousarray(coefficients[:, i]),
                width=features.width,
                expected=float(expected[i]),
                scaling=self.scaling,
                penalty=self.penalty,
                settings=self.settings,
                reference=self.digest,
                converged=bool(done.converged[i]),
            )
            for i in range(len(batches))
        )
        n_reference = len(self.reference)
        share = np.full(n_reference, 1 / n_reference) if self.share is None else self.share
        ratios = LogRatios(
            reference=np.ascontiguousarray(features.log_ratio_reference(done.z).T),
            data=[features.log_ratio(x, done.z).T for x in events],
            expected=np.asarray(expected, dtype=np.float64),
            share=share,
        )
        return Learnt(models, done, ratios)


def _check_expected(expected: Sequence[float]) -> None:
    if not all(np.isfinite(n) and n > 0 for n in expected):
        raise InputError(
            f"expected counts must be positive and finite, got {list(expected)}; give the number "
            "of events that the nominal model predicts for each batch"
        )
