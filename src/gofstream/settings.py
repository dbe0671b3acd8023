"""Frozen settings of the method, and the presets of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gofstream.errors import SettingsError, nearest_names

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(gt=0, lt=1)]
#: Where products are made: numpy on the CPU, or PyTorch on the CPU or a GPU.
Device = Literal["cpu", "cpu-torch", "cuda"]


class Settings(BaseModel):
    """All choices that change a result. Unknown names and bad values raise `SettingsError`.

    Attributes
    ----------
    widths
        Kernel widths in scaled units, increasing; None takes `width_quantiles`.
    width_quantiles
        Quantiles of the pairwise distances in the reference that serve as widths.
    n_centres
        Number M of candidate centres; None takes `centre_factor` times √N, rounded up.
    centre_factor
        The c of M = c √N.
    centres_from
        Where candidate centres are drawn from.
    cover
        Add centres for data events far from every centre.
    penalty
        The λ of the penalty, or "smallest" for the smallest that is stable.
    scaling
        Rule for scaling columns.
    precision
        Precision of the products; sums are always in float64.
    one_step
        Take a single Newton step from f = 0, as the published code does.
    tolerance
        Relative gradient norm at which a fit has converged; None chooses it by precision.
    max_passes
        Passes over the reference after which a fit gives up.
    shrink
        The b of the statistic `next`.
    memory
        Memory budget in bytes.
    device
        Where products are made: numpy on the CPU, or PyTorch on the CPU or a GPU.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    widths: tuple[Positive, ...] | None = None
    width_quantiles: tuple[Probability, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    n_centres: int | None = Field(default=None, ge=1)
    centre_factor: Positive = 1.0
    centres_from: Literal["reference", "pooled"] = "reference"
    cover: bool = False
    penalty: Positive | Literal["smallest"] = 1e-6
    scaling: Literal["zscore", "published"] = "zscore"
    precision: Literal["float32", "float64"] = "float32"
    one_step: bool = False
    tolerance: Probability | None = None
    max_passes: int = Field(default=200, ge=1)
    shrink: float = Field(default=0.25, gt=0, le=1)
    memory: int = Field(default=4 * 1024**3, ge=1)
    device: Device = "cpu"

    if not TYPE_CHECKING:  # type checkers see the names and types of all settings

        def __init__(self, **changes: object) -> None:
            try:
                super().__init__(**changes)
            except ValidationError as error:
                raise SettingsError(_explain(error)) from None

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        """Accept NumPy numbers and arrays, which pydantic does not know."""
        return value.tolist() if isinstance(value, np.generic | np.ndarray) else value

    @field_validator("widths", "width_quantiles")
    @classmethod
    def _increasing(cls, values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if values is not None and (not values or list(values) != sorted(set(values))):
            raise ValueError("give at least one number, in increasing order and each only once")
        return values

    @classmethod
    def of(cls, **changes: Any) -> Settings:
        """Make settings that differ from the defaults.

        Parameters
        ----------
        **changes
            Settings by name.

        Raises
        ------
        SettingsError
            With one line for each setting that is unknown or has a bad value.

        Examples
        --------
        >>> Settings.of(widths=[0.5, 1.0], precision="float64").widths
        (0.5, 1.0)
        """
        return cls(**changes)

    def changed(self, **changes: object) -> Settings:
        """Make settings that differ from these, checked like any others.

        Parameters
        ----------
        **changes
            Settings by name.

        Examples
        --------
        >>> preset("expo1d").settings.changed(one_step=True).n_centres
        1000
        """
        return Settings.of(**(self.model_dump() | changes))

    def refuse_devices(self, what: str) -> None:
        """Raise `SettingsError` if another device is asked for than ``what`` can use."""
        if self.device != "cpu":
            raise SettingsError(f"{what} works with numpy only: leave `device` at 'cpu'")

    @property
    def data_dependent(self) -> bool:
        """Whether the fit makes choices that look at data, to be repeated in every toy."""
        return self.centres_from == "pooled" or self.cover


class Preset(BaseModel):
    """Settings of one study of the paper, with the size of its samples.

    Attributes
    ----------
    name
        Name of the study.
    settings
        Settings of the method.
    n_reference
        Rows N_R of the reference.
    expected
        Expected events N(R) in all batches together.
    batches
        Number of batches.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    settings: Settings
    n_reference: int
    expected: float
    batches: int


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "expo1d": Preset(
            name="expo1d",
            settings=Settings(widths=(0.1, 0.3, 0.7, 1.4, 3.0), n_centres=1000, penalty=1e-6),
            n_reference=200_000,
            expected=16_000,
            batches=8,
        ),
        "dimuon5d": Preset(
            name="dimuon5d",
            settings=Settings(widths=(0.8, 1.9, 3.0, 4.4, 6.6), n_centres=10_000, penalty=1e-6),
            n_reference=40_000,
            expected=8_000,
            batches=4,
        ),
        "cmsl1": Preset(
            name="cmsl1",
            settings=Settings(widths=(10.5,), n_centres=10_000, penalty=1e-6),
            n_reference=10_000_000,
            expected=1_000_000,
            batches=5,
        ),
    }
)


def preset(name: str) -> Preset:
    """Look up a preset.

    Parameters
    ----------
    name
        One of the keys of `PRESETS`.

    Raises
    ------
    SettingsError
        If there is none of this name.

    Examples
    --------
    >>> preset("cmsl1").settings.widths
    (10.5,)
    """
    if name not in PRESETS:
        raise SettingsError(f"unknown preset {name!r}; {nearest_names(name, PRESETS)}")
    return PRESETS[name]


def _explain(error: ValidationError) -> str:
    """Write one line per problem: what was given, and what would be accepted."""
    given: dict[str, object] = {}
    complaints: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False):
        # A union complains once for each alternative, which is one problem; a tuple once for each
        # bad item, which are as many.
        key, *inner = problem["loc"]
        key = f"{key}[{inner[0]}]" if inner and isinstance(inner[0], int) else str(key)
        if problem["type"] == "extra_forbidden":
            complaints[key] = []
        else:
            given.setdefault(key, problem["input"])
            message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
            complaints.setdefault(key, []).append(message)
    return "\n".join(
        f"setting {key!r}: {' or '.join(dict.fromkeys(messages))}, got {given[key]!r}"
        if messages
        else f"unknown setting {key!r}; {nearest_names(key, Settings.model_fields)}"
        for key, messages in complaints.items()
    )
