"""Sources of toys with the columns of the reference, in its order."""

from __future__ import annotations

from dataclasses import replace

from gofstream.checks import match_columns
from gofstream.sample import Sample
from gofstream.toys.sources import Injected, Merged, Pool, Replaced, Simulator, Source


def match_source(source: Source, reference: Sample) -> Source:
    """Match the columns of pools by name, in whatever source they are, and tell simulators theirs.

    A source of the user's own gives arrays, whose columns are those of the reference.

    Raises
    ------
    ColumnError
        If a pool lacks a column of the reference.

    Examples
    --------
    >>> reference = Sample.from_columns({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    >>> pool = match_source(Pool(Sample.from_columns({"b": [7.0], "a": [9.0]})), reference)
    >>> isinstance(pool, Pool) and pool.sample.columns
    ('a', 'b')
    """
    match source:
        case Pool(sample):
            return Pool(match_columns(sample, reference))
        case Simulator():
            return replace(source, columns=reference.columns)
        case Injected(nominal, signal, fraction):
            both = match_source(nominal, reference), match_source(signal, reference)
            return Injected(*both, fraction)
        case Replaced() | Merged():
            return replace(source, source=match_source(source.source, reference))
    return source
