"""What is kept of a batch: its log ratio f, and the aggregate F of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gofstream import sealed
from gofstream.errors import FormatError, GofstreamError
from gofstream.ratio.kernel import gaussian, kernel_slabs, slabs
from gofstream.ratio.scaling import Scaling
from gofstream.sample import Sample
from gofstream.settings import Settings

Floats = NDArray[np.float64]

FORMAT = "gofstream.log-ratio"
VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class LogRatio:
    """f(x) = Σ_j a_j k_σ(x, c_j), learnt from one batch against one reference.

    Attributes
    ----------
    centres : (r, D) in scaled units.
    coefficients : (r,) the a_j.
    width : σ, in scaled units.
    penalty : λ.
    expected : N_i(R), the events the nominal model predicts for the batch.
    scaling : how events become scaled units.
    settings : the settings of the study.
    reference : digest of the reference.
    converged : whether the fit did.
    """

    centres: Floats
    coefficients: Floats
    width: float
    penalty: float
    expected: float
    scaling: Scaling
    settings: Settings
    reference: str
    converged: bool

    def __call__(self, events: Sample) -> Floats:
        """Evaluate f at events given in the user's columns and units."""
        return self.scaled(self.scaling.apply(events))

    def scaled(self, x: Floats) -> Floats:
        """Evaluate f at events already scaled."""
        values = np.empty(len(x))
        for part, kernel in kernel_slabs(x, self.centres, self.width):
            values[part] = kernel @ self.coefficients
        return values

    def to_bytes(self) -> bytes:
        """Write as safetensors: two tensors, and everything else as sealed JSON beside them."""
        tensors = {"centres": self.centres, "coefficients": self.coefficients}
        about = {
            "format": FORMAT,
            "version": VERSION,
            "width": self.width,
            "penalty": self.penalty,
            "expected": self.expected,
            "scaling": self.scaling.to_dict(),
            "settings": self.settings.model_dump(mode="json"),
            "reference": self.reference,
            "converged": self.converged,
        }
        return sealed.to_bytes(tensors, about)

    @classmethod
    def from_bytes(cls, data: bytes) -> LogRatio:
        """Read what `to_bytes` wrote.

        Raises
        ------
        FormatError
            If the bytes are damaged, foreign, or of a newer version.
        """
        tensors, about = sealed.from_bytes(data, FORMAT, VERSION, "model")
        try:
            model = cls(
                centres=tensors["centres"],
                coefficients=tensors["coefficients"],
                width=float(about["width"]),
                penalty=float(about["penalty"]),
                expected=float(about["expected"]),
                scaling=Scaling.from_dict(about["scaling"]),
                settings=Settings.of(**about["settings"]),
                reference=str(about["reference"]),
                converged=bool(about["converged"]),
            )
        except (KeyError, TypeError, ValueError, GofstreamError) as error:
            raise FormatError(f"the model cannot be read: {error!r}") from error
        model._check()
        return model

    def _check(self) -> None:
        """Refuse what no fit can have produced."""
        numbers = (self.centres, self.coefficients)
        positive = (self.width, self.penalty, self.expected)
        sound = (
            all(array.dtype == np.float64 and np.isfinite(array).all() for array in numbers)
            and self.coefficients.ndim == 1
            and self.centres.shape == (len(self.coefficients), len(self.scaling.feature_names))
            and all(np.isfinite(number) and number > 0 for number in positive)
        )
        if not sound:
            raise FormatError(
                "the model contradicts itself: its tensors, scaling, width, penalty and expected "
                "count do not fit together; it was not written by gofstream"
            )


@dataclass(frozen=True, slots=True, eq=False)
class LogRatios:
    """The f_i of N_b batches, evaluated where the statistics need them.

    Attributes
    ----------
    reference : (N_b, N_R) each f_i on the reference.
    data : for each batch j, (N_b, n_j) each f_i on its events.
    expected : (N_b,) N_i(R).
    share : (N_R,) normalised event weights of the reference.
    """

    reference: Floats
    data: Sequence[Floats]
    expected: Floats
    share: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RunningRatio:
    """Σ_i N_i(R) e^{f_i} at fixed points, kept as (peak, scaled sum) so that nothing overflows.

    On the reference this is all that `sat` and `next` need: its size does not grow with the number
    of batches.

    Examples
    --------
    >>> import numpy as np
    >>> running = RunningRatio.empty(2).add(np.array([0.0, 1000.0]), 3.0)
    >>> running.add(np.array([0.0, 999.0]), 1.0).value().round(3).tolist()
    [0.0, 999.828]
    """

    peak: Floats
    scaled: Floats
    exposure: float

    @classmethod
    def empty(cls, points: int) -> RunningRatio:
        """Nothing learnt yet."""
        return cls(np.full(points, -np.inf), np.zeros(points), 0.0)

    def add(self, f: Floats, expected: float) -> RunningRatio:
        """Include one more batch, without revisiting the others."""
        peak = np.maximum(self.peak, f)
        scaled = self.scaled * np.exp(self.peak - peak) + expected * np.exp(f - peak)
        return RunningRatio(peak, scaled, self.exposure + expected)

    def value(self) -> Floats:
        """F = log Σ π_i e^{f_i} (paper, Eq. F; π_i the exposure shares), zero without batches."""
        if not self.exposure:
            return np.zeros(len(self.peak))
        return np.asarray(self.peak + np.log(self.scaled / self.exposure))


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """The one alternative that all batches share: F = log Σ_i π_i e^{f_i}."""

    models: tuple[LogRatio, ...] = ()

    def add(self, model: LogRatio) -> Aggregate:
        """Include one more model; all must have been learnt against the same reference.

        Raises
        ------
        FormatError
            If the model belongs to another reference, scaling, width or penalty.
        """
        if self.models:
            first = self.models[0]
            for field, here, there in (
                ("reference", first.reference, model.reference),
                ("width", first.width, model.width),
                ("penalty", first.penalty, model.penalty),
                ("scaling", first.scaling.to_dict(), model.scaling.to_dict()),
            ):
                if here != there:
                    raise FormatError(
                        f"models of different {field} cannot be averaged: {here!r} and {there!r}"
                    )
        return replace(self, models=(*self.models, model))

    @property
    def shares(self) -> Floats:
        """Exposure shares π_i."""
        expected = np.array([model.expected for model in self.models])
        return np.asarray(expected / expected.sum())

    def __call__(self, events: Sample) -> Floats:
        """Evaluate F at events given in the user's columns and units."""
        if not self.models:
            return np.zeros(len(events))
        return self.scaled(self.models[0].scaling.apply(events))

    def scaled(self, x: Floats) -> Floats:
        """Evaluate F at events already scaled."""
        values = np.zeros(len(x))
        for part in slabs(len(x), max((len(model.centres) for model in self.models), default=0)):
            running, centres = RunningRatio.empty(len(x[part])), np.empty(0)
            for model in self.models:
                if not np.array_equal(centres, model.centres):  # usually all have the same
                    centres = model.centres
                    kernel = gaussian(x[part], centres, model.width)
                running = running.add(kernel @ model.coefficients, model.expected)
            values[part] = running.value()
        return values
