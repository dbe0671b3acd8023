"""What the array libraries have no common word for."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, to_device
from numpy.typing import NDArray


class Points(Protocol):
    """Scaled events, of which some can be had at a time: an array, or `ScaledRows`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Events and features."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        ...

    def __len__(self) -> int:
        """Count the events."""
        ...

    def __getitem__(self, rows: slice | NDArray[np.int64], /) -> NDArray[np.float64]:
        """Give some of them."""
        ...


def to_numpy(array: Any) -> NDArray[Any]:
    """Give the numbers of any array library as a numpy array."""
    if isinstance(array, np.ndarray):
        return array
    try:
        return np.from_dlpack(array)
    except BufferError:  # it lives on another device
        return np.from_dlpack(to_device(array, "cpu"))


def nbytes(*arrays: Any) -> int:
    """Memory that arrays of real numbers take, of any library."""
    bits = [array_namespace(array).finfo(array.dtype).bits for array in arrays]
    return sum(math.prod(array.shape) * n // 8 for array, n in zip(arrays, bits, strict=True))
