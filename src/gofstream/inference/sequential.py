"""Looking many times without fooling oneself: when a stream alarms, and since when.

A stream is looked at after every batch, in four families and at several widths. Null streams A give
the mean and spread of each statistic at each step, with which it becomes a u that is roughly normal.
The largest u of a look is compared with one boundary. Null streams B, which had no part in that,
say what the largest over a whole epoch is when nothing is wrong, and so where the boundary must be:
whatever A is, an epoch of nominal batches crosses it with probability α at most.

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

Floats = NDArray[np.float64]

#: What is watched: two statistics of all batches of the epoch, and of the last K.
FAMILIES = ("epoch sat", "epoch next", "window sat", "window next")
#: The first of them date an anomaly, over stretches of any length.
DATING = slice(0, 2)

FORMAT = "gofstream.boundary"
VERSION = 1
#: Fewer streams do not give a mean and a spread worth using.
LEAST_STREAMS = 20
#: A smaller skewness counts as this one: the root then hardly differs from no root.
LEAST_SKEWNESS = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """How t becomes u: (√(t - low) - mean) / spread, or (t - mean) / spread without the root.

    Attributes
    ----------
    root : whether each family is rooted.
    low, mean, spread : (4, widths, H), by family, width and step of the epoch. A spread of zero
        belongs to a statistic that cannot vary, such as `next` of one batch.
    """

    root: tuple[bool, ...]
    low: Floats
    mean: Floats
    spread: Floats

    @classmethod
    def learn(cls, t: Floats) -> Scale:
        """Take mean and spread from null streams, and the root where it is nearer normal.

        The root is taken above the lower end of the gamma law that has the mean, the spread and the
        skewness of t: zero for a χ², and below zero for `next`, which can be negative. It is
        preferred for a family if skewness² / 6 + (excess kurtosis)² / 24, averaged over widths, is
        smaller with it. A full window is alike at every step, so its steps are taken together.

        Parameters
        ----------
        t : (streams, 4, widths, H).

        Examples
        --------
        >>> t = np.random.default_rng(1).chisquare(5, size=(500, 4, 1, 10))
        >>> scale = Scale.learn(t)
        >>> scale.root
        (True, True, True, True)
        >>> float(np.abs(scale.u(t).mean()).round(2)), float(scale.u(t).std().round(1))
        (0.0, 1.0)
        """
        if len(t) < LEAST_STREAMS:
            raise InputError(
                f"{len(t)} null streams are too few for a mean and a spread; make at least "
                f"{LEAST_STREAMS}, better some hundred"
            )
        plain = _moments(t)
        standard = _standard(t, *plain)
        cubed = (standard**3).mean(axis=(0, 3), keepdims=True)[0]
        low = plain[0] - 2 * plain[1] / np.maximum(cubed, LEAST_SKEWNESS)
        rooted = np.sqrt(np.maximum(t - low, 0))
        under_root = _moments(rooted)
        root = _far_from_normal(_standard(rooted, *under_root)) < _far_from_normal(standard)
        mean, spread = (
            np.where(root[:, None, None], with_root, without)
            for with_root, without in zip(under_root, plain, strict=True)
        )
        return cls(tuple(root.tolist()), low, mean, spread)

    def u(self, t: Floats, steps: slice = slice(None)) -> Floats:
        """Give u for t (…, 4, widths, steps); a statistic that is missing, or constant, has -∞.

        Parameters
        ----------
        t : NaN where a statistic is missing.
        steps : which steps of the epoch the last axis stands for.
        """
        return self._u(t, slice(None), steps)

    def _u(self, t: Floats, families: slice, steps: slice) -> Floats:
        low, mean, spread = (
            each[families, :, steps] for each in (self.low, self.mean, self.spread)
        )
        root = np.array(self.root)[families, None, None]
        value = np.where(root, np.sqrt(np.maximum(t - low, 0)), t)
        u = (value - mean) / np.where(spread > 0, spread, 1.0)
        return np.where(np.isnan(t) | (spread == 0), -np.inf, u)


def _moments(t: Floats) -> tuple[Floats, Floats]:
    """Mean and spread over streams, those of windows over steps too: (4, widths, H) each."""
    mean, spread = t.mean(axis=0), t.std(axis=0, ddof=1)
    window = np.array([name.startswith("window") for name in FAMILIES])[:, None, None]
    together = t.mean(axis=(0, 3))[..., None], t.std(axis=(0, 3), ddof=1)[..., None]
    return np.where(window, together[0], mean), np.where(window, together[1], spread)


def _standard(t: Floats, mean: Floats, spread: Floats) -> Floats:
    return np.asarray((t - mean) / np.where(spread > 0, spread, np.inf))


def _far_from_normal(standard: Floats) -> Floats:
    """The criterion of Jarque and Bera for each family, averaged over widths."""
    streams, families, widths, steps = standard.shape
    flat = standard.transpose(1, 2, 0, 3).reshape(families, widths, streams * steps)
    shape = (flat**3).mean(axis=2) ** 2 / 6 + ((flat**4).mean(axis=2) - 3) ** 2 / 24
    return np.asarray(shape.mean(axis=1))


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
        """
        u = self.scale.u(np.asarray(t)[..., None], slice(step - 1, step))[..., 0]
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
        u = self.scale._u(stretches[..., :longest], DATING, slice(longest))
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

    Under the null it reaches 1/α, ever, with probability α at most, if the reference is so large
    that its own fluctuations do not matter.

    Attributes
    ----------
    value : e^{t/2}, averaged over widths.
    rows_per_event : how many reference rows there are for each event of the epoch.
    """

    value: float
    rows_per_event: float

    def __str__(self) -> str:
        """Write the number, with what it rests on."""
        return (
            f"e-value {self.value:.3g}, for a reference far larger than the data "
            f"(it has {self.rows_per_event:.3g} rows for each event of the epoch)"
        )


def e_value(following: ArrayLike, n_reference: int, n_data: float) -> EValue:
    """Turn `next` of the epoch into an e-value: the mean of e^{t/2} over widths is one too.

    Parameters
    ----------
    following : `next` of the epoch at each width.
    n_reference : rows of the reference.
    n_data : events of the epoch.

    Examples
    --------
    >>> print(e_value([4.6, -2.0], 200_000, 1000))
    e-value 5.17, for a reference far larger than the data (it has 200 rows for each event of the \
epoch)
    """
    # More than e^700 is no more than a number can say.
    halves = np.minimum(np.asarray(following, dtype=np.float64) / 2, 700.0)
    return EValue(float(np.exp(halves).mean()), n_reference / n_data)
