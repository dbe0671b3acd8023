"""From any array library back to numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import to_device
from numpy.typing import NDArray


def to_numpy(array: Any) -> NDArray[Any]:
    """Give the numbers of any array library as a numpy array."""
    if isinstance(array, np.ndarray):
        return array
    try:
        return np.from_dlpack(array)
    except BufferError:  # it lives on another device
        return np.from_dlpack(to_device(array, "cpu"))
