"""What batches and their aggregate learnt on EXPO-1D, put together for a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gofstream.datasets import expo1d
from gofstream.ratio.learner import Learnt
from gofstream.ratio.model import Aggregate
from gofstream.report.plots import Reconstruction
from gofstream.sample import Sample

#: Width of the kernel: narrow enough to show the noise that averaging removes.
WIDTH = 0.3


def expo_reconstruction(
    reference: Sample,
    batches: Sequence[Sample],
    expected: Sequence[float],
    learnt: Learnt,
    signal: expo1d.Signal | None,
    end: float = 7.0,
) -> Reconstruction:
    """Put together what the picture shows for EXPO-1D, up to x = ``end``."""
    edges = np.linspace(0, end, 29)
    grid = np.linspace(0, end, 400)
    points = Sample.from_array(grid)
    aggregate = Aggregate(learnt.models)
    in_bins, _ = np.histogram(reference.values[:, 0], edges)
    return Reconstruction(
        label="x",
        edges=edges,
        expected=in_bins * (sum(expected) / len(reference)),
        observed=[
            np.histogram(batch.values[:, 0], edges)[0].astype(np.float64) for batch in batches
        ],
        shares=aggregate.shares,
        grid=grid,
        batch_ratios=[np.exp(model(points)) for model in learnt.models],
        aggregate_ratio=np.exp(aggregate(points)),
        true_ratio=np.exp(expo1d.log_ratio(grid, signal)) if signal else np.ones_like(grid),
    )
