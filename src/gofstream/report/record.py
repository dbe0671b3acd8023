"""The result file: every number a report shows, in a versioned, published form.

`result.json` is one `Record`. The report is made from it alone, so it can be made again without the
data. Its JSON Schema is shipped as `result-3.schema.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gofstream.errors import ColumnError, FormatError, nearest_names
from gofstream.files import write_whole
from gofstream.report.upgrade import upgraded
from gofstream.toys.scanning import SCAN

if TYPE_CHECKING:
    from hist import Hist
    from matplotlib.figure import Figure
    from uhi.typing.plottable import PlottableHistogram

FORMAT: Final = "gofstream.result"
VERSION: Final = 3
#: Where the published schema lies.
SCHEMA = Path(__file__).parent / f"result-{VERSION}.schema.json"

Number = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


class Part(BaseModel):
    """A part of a record: frozen, and nothing in it that the schema does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def check_lengths(length: int, **lists: Sequence[object]) -> None:
    """Refuse lists that are not as long as what they belong to."""
    for name, values in lists.items():
        if len(values) != length:
            raise ValueError(f"{name} has {len(values)} entries, not {length}")


def check_bins(edges: Sequence[float], **contents: Sequence[object]) -> None:
    """Refuse edges that do not rise, and contents that are not one for each bin."""
    if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):
        raise ValueError("edges have to rise, and there are at least two of them")
    check_lengths(len(edges) - 1, **contents)


class Chance(Part):
    """A p-value that counts toys, with its Z (none if p is one).

    Attributes
    ----------
    low, high : 95 % interval from the finite number of toys.
    hits : toys at least as extreme as the data.
    law_p : where there are none, p by a law fitted to the toys: extrapolated, not measured.
    """

    p: Probability
    z: Number | None
    low: NotNegative
    high: NotNegative
    hits: Count
    law_p: Probability | None


class Null(Part):
    """Toys of one statistic at one width: counts between edges; ``t`` is the observed value."""

    t: Number
    edges: tuple[Number, ...]
    counts: tuple[Count, ...]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_bins(self.edges, counts=self.counts)
        return self


class Statistic(Part):
    """One strategy: p at each width and over all of them, and the toys behind each.

    The scan has no width, and one entry.
    """

    p: tuple[Chance, ...]
    combined: Chance
    null: tuple[Null, ...]


class Rate(Part):
    """The test of the number of events, where it is made apart from the shape."""

    expected: NotNegative
    observed: Count
    p: Probability


class Column(Part):
    """Events per bin of one column.

    Attributes
    ----------
    fitted : whether the test looked at this column, or it was carried along.
    reference : expected events.
    learnt : expected events with the reference reweighted by e^F.
    reference_error : what the finite reference leaves uncertain of ``reference``.
    """

    name: str
    unit: str
    fitted: bool
    edges: tuple[Number, ...]
    data: tuple[Count, ...]
    reference: tuple[NotNegative, ...]
    reference_error: tuple[NotNegative, ...]
    learnt: tuple[NotNegative, ...]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_bins(
            self.edges,
            data=self.data,
            reference=self.reference,
            reference_error=self.reference_error,
            learnt=self.learnt,
        )
        return self

    @property
    def label(self) -> str:
        """The name with its unit, for an axis or the head of a table."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name


class Pair(Part):
    """Two columns together: events per cell, rows along ``y``."""

    x: str
    y: str
    x_edges: tuple[Number, ...]
    y_edges: tuple[Number, ...]
    data: tuple[tuple[Count, ...], ...]
    reference: tuple[tuple[NotNegative, ...], ...]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_bins(self.y_edges, data=self.data, reference=self.reference)
        for row in (*self.data, *self.reference):
            check_bins(self.x_edges, row=row)
        return self


class Range(Part):
    """What a column does in a region: middle half and middle nine tenths, and beside it overall.

    Of the events observed there if they are too many, of those expected if they are too few. In a
    periodic column a range may hold the end of the turn: then its first number is the larger one.
    """

    column: str
    unit: str
    low: Number
    quarter: Number
    median: Number
    three_quarters: Number
    high: Number
    overall: tuple[Number, Number]


class Region(Part):
    """Where the learnt ratio is largest (or smallest): descriptive, without a significance.

    Attributes
    ----------
    ratio : e^F is at least this (for an excess) or at most this (for a deficit).
    ranges : of every column, the one that sets the region apart most first.
    """

    kind: Literal["excess", "deficit"]
    ratio: NotNegative
    expected: NotNegative
    observed: Count
    ranges: tuple[Range, ...]


class Place(Part):
    """The range of one column in the region of a window; none is where it has no end.

    With ``low`` at or above ``high`` it is what lies above the one or below the other.
    """

    column: str
    unit: str
    low: Number | None
    high: Number | None


class Window(Part):
    """One of the best windows of the scan: descriptive, without a significance.

    Attributes
    ----------
    places : the ranges of its region, the most telling column first; none if it is everything.
    observed, expected : events in that region.
    signal : events that the alternative adds, or takes away if below zero.
    t : twice the logarithm of its likelihood ratio.
    """

    kind: Literal["excess", "deficit"]
    shape: Literal["bump", "tail"]
    places: tuple[Place, ...]
    observed: Count
    expected: NotNegative
    signal: Number
    t: Number


class Events(Part):
    """The events of largest e^F: ``row`` counts from 0 in the data as they were read."""

    columns: tuple[str, ...]
    rows: tuple[Count, ...]
    ratios: tuple[NotNegative, ...]
    values: tuple[tuple[Number | None, ...], ...]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_lengths(len(self.rows), ratios=self.ratios, values=self.values)
        for value in self.values:
            check_lengths(len(self.columns), value=value)
        return self


class Width(Part):
    """How the fits went at one width."""

    width: NotNegative
    centres: Count
    passes: tuple[Count, ...]
    converged: tuple[bool, ...]
    uncovered: tuple[Count, ...]


class File(Part):
    """A file that was read: its rows, those kept, and the SHA-256 of its bytes."""

    role: str
    path: str
    rows: Count
    kept: Count
    sha256: str


class Provenance(Part):
    """What it takes to make the result again."""

    made: str
    seconds: NotNegative
    command: tuple[str, ...]
    seed: Annotated[int, Field(ge=0)]
    settings: dict[str, Any]
    versions: dict[str, str]
    files: tuple[File, ...]


class Record(Part):
    """A whole result.

    Attributes
    ----------
    pvalue, zscore, low, high : the verdict: `all` (of one batch: `single`) and scan, with the
        rate if apart; and the 95 % interval of p from the finite number of toys.
    level : the p-value at which the user calls it an anomaly, if one was given.
    verdicts : p of several strategies together, by their names with " + " between; the first is
        the one that counts.
    statistics : by strategy; of one batch `single` and the scan, as all others say the same.
    batches : events in each batch.
    windows : where the scan found most.
    evidence : natural logarithm of the e-value of the scan, which needs no toys; none if it has
        none.
    columns, pair, regions, events : where data and reference differ, at the width ``shown``.
    storage : bytes that each strategy has to keep.
    """

    format: Literal["gofstream.result"] = FORMAT
    version: Literal[3] = VERSION
    title: str
    pvalue: Probability
    zscore: Number | None
    low: NotNegative
    high: NotNegative
    level: Probability | None
    rule: Literal["min", "mean", "product"]
    toys: Count
    source: str
    expected: NotNegative
    observed: Count
    batches: tuple[Count, ...]
    shape_only: bool
    rate: Rate | None
    caveats: tuple[str, ...]
    verdicts: dict[str, Chance]
    statistics: dict[str, Statistic]
    windows: tuple[Window, ...]
    evidence: Number | None
    widths: tuple[Width, ...]
    shown: NotNegative
    columns: tuple[Column, ...]
    pair: Pair | None
    regions: tuple[Region, ...]
    events: Events
    storage: dict[str, Count]
    provenance: Provenance | None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.verdicts:
            raise ValueError("there is no verdict")
        for names in self.verdicts:
            for name in names.split(" + "):
                if name not in self.statistics:
                    raise ValueError(f"statistics lack `{name}`, which the verdict is about")
        if not self.storage:
            raise ValueError("storage names no strategy")
        if not self.widths:
            raise ValueError("there is no width")
        for name, found in self.statistics.items():
            entries = 1 if name == SCAN else len(self.widths)
            check_lengths(entries, p=found.p, null=found.null)
        return self

    @property
    def headline(self) -> str:
        """The name of the verdict that counts."""
        return next(iter(self.verdicts))

    @property
    def anomalous(self) -> bool:
        """Whether the p-value is at or below the level that was set."""
        return self.level is not None and self.pvalue <= self.level

    def column(self, name: str) -> Column:
        """Give the column of that name.

        Raises
        ------
        ColumnError
            If there is none; it says which names come near.
        """
        for column in self.columns:
            if column.name == name:
                return column
        known = [column.name for column in self.columns]
        raise ColumnError(f"the result has no column {name!r}; {nearest_names(name, known)}")

    def column_histogram(
        self, name: str, which: Literal["data", "reference", "learnt"]
    ) -> Hist[Any]:
        """Give the events per bin of one column, for anything that reads UHI histograms.

        Parameters
        ----------
        name : of the column.
        which : ``reference`` carries as variances what the finite reference leaves uncertain.
        """
        from gofstream.report.histograms import column_histogram

        return column_histogram(self.column(name), which)

    def plot_p(self) -> Figure:
        """Draw Z and p of every strategy at every width."""
        from gofstream.report.pictures import p_figure

        return p_figure(self)

    def plot_null(self, strategy: str | None = None) -> Figure:
        """Draw the null distribution of one strategy at every width, with the observed value.

        Parameters
        ----------
        strategy : by default the first of the verdict.
        """
        from gofstream.report.pictures import null_figure

        return null_figure(self, self.headline.split(" + ")[0] if strategy is None else strategy)

    def plot_column(
        self, name: str, overlay: Mapping[str, PlottableHistogram] = MappingProxyType({})
    ) -> Figure:
        """Draw data, reference and learnt reference along one column, and their ratio.

        Parameters
        ----------
        name : of the column.
        overlay : histograms of your own to draw on top, by what to call them: `hist.Hist`, or
            anything else that follows UHI. Their bins may differ; counts are drawn as they are.
        """
        from gofstream.report.histograms import column_figure

        return column_figure(self.column(name), overlay)

    def plot_pair(self, view: Literal["data", "pull"] = "pull") -> Figure:
        """Draw the pair of columns in which data and reference differ most."""
        from gofstream.report.histograms import pair_figure

        return pair_figure(self, view)

    def save(self, path: Path) -> None:
        """Write the file; it appears when it is whole."""
        write_whole(path, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what `save` wrote.

        Raises
        ------
        FormatError
            If the file is damaged, foreign, or of a newer version; it says where.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path} is not JSON ({error}); give a result file") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FormatError(f"{path} is not a gofstream result; give the result.json of a test")
        content = upgraded(content)
        if content.get("version") != VERSION:
            raise FormatError(
                f"{path} has version {content.get('version')!r}, but this gofstream reads versions "
                f"2 and {VERSION}; use the gofstream that wrote it, or a newer one"
            )
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise FormatError(
                f"{path} does not follow the schema: {where}: {first['msg']} "
                f"({error.error_count()} problems in all); it was changed after it was written"
            ) from None


def schema() -> str:
    """Write the JSON Schema of a result file."""
    return json.dumps(Record.model_json_schema(), indent=1, sort_keys=True) + "\n"
