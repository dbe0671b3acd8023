"""Statistics of a stream on one scale, whatever their family, width and step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError

Floats = NDArray[np.float64]

#: What is watched: two statistics of all batches of the epoch, and of the last K.
FAMILIES = ("epoch sat", "epoch next", "window sat", "window next")
#: Those of the epoch, whose steps are lengths: they serve stretches of any length.
BY_LENGTH = slice(0, 2)

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

    def u(self, t: Floats, *, families: slice = slice(None), steps: slice = slice(None)) -> Floats:
        """Give u for t (…, families, widths, steps).

        Parameters
        ----------
        t : NaN where a statistic is missing; that, like one that cannot vary, has u = -∞.
        families, steps : which ones t holds; all of them by default.
        """
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
    """Give the criterion of Jarque and Bera for each family, averaged over widths."""
    streams, families, widths, steps = standard.shape
    flat = standard.transpose(1, 2, 0, 3).reshape(families, widths, streams * steps)
    shape = (flat**3).mean(axis=2) ** 2 / 6 + ((flat**4).mean(axis=2) - 3) ** 2 / 24
    return np.asarray(shape.mean(axis=1))
