"""Events as a store keeps them: an npy file, one row for each, columns as in the reference."""

from __future__ import annotations

import io

import numpy as np

from gofstream.errors import FormatError, InputError
from gofstream.sample import Sample


def to_bytes(sample: Sample) -> bytes:
    """Write the values of a sample.

    Examples
    --------
    >>> sample = Sample.from_array([1.5, 2.5])
    >>> from_bytes(to_bytes(sample), sample, "batch 1").values.tolist()
    [[1.5], [2.5]]
    """
    file = io.BytesIO()
    np.save(file, sample.values, allow_pickle=False)
    return file.getvalue()


def from_bytes(data: bytes, reference: Sample, name: str) -> Sample:
    """Read what `to_bytes` wrote, in the columns of the reference.

    Raises
    ------
    FormatError
        If it is nothing of the kind.
    """
    try:
        values = np.load(io.BytesIO(data), allow_pickle=False)
        return Sample.from_array(values, reference.columns, periodic=reference.periodic, name=name)
    except (ValueError, EOFError, InputError) as error:
        raise FormatError(f"the events of batch {name!r} cannot be read: {error}") from error
