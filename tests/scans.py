"""Windows of a scan, computed the obvious way."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gofstream.scan.windows import REACH, Bumps, Tails

Floats = NDArray[np.float64]


def dense(all_windows: Iterable[Bumps | Tails], x: Floats) -> Floats:
    """K(x) of every window, the obvious way: (events, W)."""
    parts = []
    for windows in all_windows:
        if isinstance(windows, Bumps):
            away = np.linalg.norm(x[:, None, :] - windows.centres, axis=2) / windows.width
            step = np.floor(2 * away) / 2 + 0.25  # the middle of a ring half a width wide
            parts.append(np.where(away <= REACH, np.exp(-(step**2) / 2), 0.0))
        else:
            height = np.hstack([x, -x, np.linalg.norm(x, axis=1, keepdims=True)])
            parts.append((height[:, windows.along] > windows.edges).astype(float))
    return np.hstack(parts)
