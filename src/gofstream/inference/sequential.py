"""Looking many times without fooling oneself: when a stream alarms, and since when.

A stream is looked at after every batch, in four families and at several widths. Null streams A say
how to put these statistics on one scale (`Scale`), and the largest u of a look is compared with one
boundary. Null streams B, which had no part in that, say what the largest over a whole epoch is when
nothing is wrong, and so where the boundary must be: whatever A is, an epoch of nominal batches
crosses it with probability α at most.

The first epoch of a run is covered too. Its window is not watched until it is full, so it has fewer
chances to cross than those of B, where the window was filled beforehand, and otherwise the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from gofstream.errors import FormatError, InputError, SettingsError
from gofstream.inference.scale import BY_LENGTH, FAMILIES, Scale

Floats = NDArray[np.float64]

FORMAT = "gofstream.boundary"
VERSION = 1
#: Reference rows for each event of an epoch from which on an e-value is one. With 88 features and
#: 0.4 rows the mean over null streams of EXPO-1D was above 10⁹; its logarithm falls as 1/rows.
TRUSTED_ROWS = 100


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """How often an epoch of nominal batches alarms.

    Attributes
    ----------
    rate : on average over the streams that the boundary was found with; never above α.
    low, high : where it is, with 95 % probability, for the streams that there were.
    """

    rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """One look at a stream.

    Attributes
    ----------
    u : (4, widths); -∞ for what is not watched.
    highest : the largest, to be compared with the boundary.
    family, width : where it is.
    alarm : whether it is above the boundary.
    """

    u: Floats
    highest: float
    family: str
    width: int
    alarm: bool


@dataclass(frozen=True, slots=True)
class Date:
    """Since when an anomaly seems to be there.

    Attributes
    ----------
    batches : how many of the last batches have it.
    u : how far these are off, as a stretch of their own.
    family, width : what shows it best.
    """

    batches: int
    u: float
    family: str
    width: int


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """When to raise an alarm.

    Attributes
    ----------
    scale : how t becomes u.
    alpha : the probability, at most, that an epoch of nominal batches alarms.
    level : an alarm is a u above it.
    streams : how many streams B it was found with.
    about : what the streams were made with.
    """

    scale: Scale
    alpha: float
    level: float
    streams: int
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def learn(
        cls, a: Floats, b: Floats, alpha: float, about: Mapping[str, Any] | None = None
    ) -> Boundary:
        """Take the scale from streams A and the level from streams B.

        Parameters
        ----------
        a, b : (streams, 4, widths, H) of independent null streams.
        alpha : as `alpha_for` gives it.
        about : what the streams were made with, to be kept with the boundary.

        Raises
        ------
        InputError
            If there are too few streams for this α.

        Examples
        --------
        >>> t = np.random.default_rng(1).chisquare(5, size=(600, 4, 2, 10))
        >>> boundary = Boundary.learn(t[:300], t[300:], 0.05)
        >>> boundary.look(np.full((4, 2), 5.0), 3).alarm
        False
        >>> boundary.look(np.full((4, 2), 50.0), 3).alarm
        True
        """
        _check_alpha(alpha)
        rank = math.ceil(round((1 - alpha) * (len(b) + 1), 9))
        if rank > len(b):
            raise InputError(
                f"{len(b)} null streams cannot show a false-alarm probability of {alpha:g} per "
                f"epoch; make at least {math.ceil(round(1 / alpha, 9)) - 1}, or allow more alarms"
            )
        if a.shape[1:] != b.shape[1:]:
            raise InputError(
                f"streams A are {a.shape[1:]} and streams B {b.shape[1:]} (families, widths, "
                "steps); make both with the same plan"
            )
        scale = Scale.learn(a)
        largest = np.sort(scale.u(b).max(axis=(1, 2, 3)))
        return cls(scale, alpha, float(largest[rank - 1]), len(b), dict(about or {}))

    @property
    def epoch(self) -> int:
        """H, in batches."""
        return int(self.scale.mean.shape[2])

    @property
    def false_alarms(self) -> FalseAlarms:
        """What the boundary achieves: the law of an order statistic.

        The probability that a further stream exceeds the k-th of B is Beta(B + 1 - k, k).
        """
        rank = math.ceil(round((1 - self.alpha) * (self.streams + 1), 9))
        law = stats.beta(self.streams + 1 - rank, rank)
        return FalseAlarms(float(law.mean()), float(law.ppf(0.025)), float(law.ppf(0.975)))

    def look(self, t: Floats, step: int) -> Look:
        """Look at a stream once.

        Parameters
        ----------
        t : (4, widths), NaN for what is not watched.
        step : how many batches the epoch has.

        Raises
        ------
        InputError
            If the boundary is for shorter epochs.
        """
        if not 1 <= step <= self.epoch:
            raise InputError(
                f"step {step} of an epoch, but the boundary is for epochs of {self.epoch} batches; "
                "calibrate for longer ones"
            )
        u = self.scale.u(np.asarray(t)[..., None], steps=slice(step - 1, step))[..., 0]
        family, width = divmod(int(u.argmax()), u.shape[1])
        highest = float(u[family, width])
        return Look(u, highest, FAMILIES[family], width, highest > self.level)

    def date(self, stretches: Floats) -> Date:
        """Find since when the batches up to an alarm are off: the stretch with the largest u.

        Parameters
        ----------
        stretches : (2, widths, lengths) `sat` and `next` of the last 1, 2, … batches.
        """
        longest = min(self.epoch, stretches.shape[2])
        u = self.scale.u(stretches[..., :longest], families=BY_LENGTH, steps=slice(longest))
        family, width, length = np.unravel_index(int(u.argmax()), u.shape)
        return Date(int(length) + 1, float(u[family, width, length]), FAMILIES[family], int(width))

    def to_json(self) -> str:
        """Write as JSON text; numbers keep all their digits."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "families": list(FAMILIES),
            "alpha": self.alpha,
            "level": self.level,
            "streams": self.streams,
            "root": list(self.scale.root),
            "low": self.scale.low.tolist(),
            "mean": self.scale.mean.tolist(),
            "spread": self.scale.spread.tolist(),
            "about": dict(self.about),
        }
        return json.dumps(content, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Boundary:
        """Read what `to_json` wrote.

        Raises
        ------
        FormatError
            If the text is damaged, foreign, or of another version.
        """
        try:
            content = json.loads(text)
            kind = content["format"], content["version"], content["families"]
            if kind != (FORMAT, VERSION, list(FAMILIES)):
                raise FormatError(
                    f"this is {kind[0]!r} version {kind[1]!r} with the families {kind[2]}, but "
                    f"this gofstream reads {FORMAT!r} version {VERSION} with {list(FAMILIES)}; "
                    "calibrate again"
                )
            arrays = [np.array(content[key], dtype=np.float64) for key in ("low", "mean", "spread")]
            shapes = {array.shape for array in arrays}
            finite = all(np.isfinite(array).all() for array in arrays)
            root = tuple(bool(value) for value in content["root"])
            if len(shapes) != 1 or arrays[0].ndim != 3 or not finite:
                raise ValueError("its arrays do not fit together")
            if len(root) != len(FAMILIES) or arrays[0].shape[0] != len(FAMILIES):
                raise ValueError("it has other families than it says")
            return cls(
                Scale(root, *arrays),
                float(content["alpha"]),
                float(content["level"]),
                int(content["streams"]),
                dict(content["about"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"not a readable alarm boundary ({error!r}); calibrate again"
            ) from error


def alpha_for(epoch: int, batches_per_alarm: float) -> float:
    """Give the α of an epoch for one false alarm in so many batches, or fewer, on average.

    Examples
    --------
    >>> alpha_for(100, 2000)
    0.05
    """
    if not batches_per_alarm > epoch:
        raise SettingsError(
            f"one false alarm in {batches_per_alarm:g} batches is more than one in an epoch of "
            f"{epoch}; ask for fewer alarms, or shorter epochs"
        )
    return epoch / batches_per_alarm


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise SettingsError(f"alpha is {alpha:g}; a probability between 0 and 1 is needed")


@dataclass(frozen=True, slots=True)
class EValue:
    """The evidence of `next` against the nominal model: a number that may be looked at any time.

    Under the null it reaches 1/α, ever, with probability α at most, if the reference is exact. A
    small one is not: every batch differs from it in the same way, which `next` learns to predict.

    Attributes
    ----------
    value : e^{t/2}, averaged over widths.
    rows_per_event : how many reference rows there are for each event of the epoch.
    """

    value: float
    rows_per_event: float

    @property
    def trusted(self) -> bool:
        """Whether the reference is large enough for the number to mean what it should."""
        return self.rows_per_event >= TRUSTED_ROWS


def e_value(following: ArrayLike, n_reference: int, n_data: float) -> EValue:
    """Turn `next` of the epoch into an e-value: the mean of e^{t/2} over widths is one too.

    Parameters
    ----------
    following : `next` of the epoch at each width.
    n_reference : rows of the reference.
    n_data : events of the epoch.

    Examples
    --------
    >>> found = e_value([4.6, -2.0], 200_000, 1000)
    >>> round(found.value, 2), found.rows_per_event, found.trusted
    (5.17, 200.0, True)
    """
    # More than e^700 is no more than a number can say.
    halves = np.minimum(np.asarray(following, dtype=np.float64) / 2, 700.0)
    return EValue(float(np.exp(halves).mean()), n_reference / n_data)
