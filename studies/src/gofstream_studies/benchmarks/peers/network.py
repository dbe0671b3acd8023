"""NPLM as it was first proposed: a small neural network for f, held back by clipping its weights.

The network minimises Σ_R w (e^f - 1) - Σ_D f, and t is minus twice the minimum. One hidden layer of
four in one dimension and three of five in five, weights clipped at 9 and at 2.15, follow the
literature. That trains by gradient descent for 10⁵ epochs and more, and clips weights after each;
here the same function is minimised by L-BFGS-B, with the clip as the bound on every weight. For a
bump in EXPO-1D, 1000 epochs of gradient descent had brought t to 11; 300 passes of this, to 28.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from gofstream_studies.benchmarks.peers.tasks import Task

Floats = NDArray[np.float64]

#: Hidden layers, the clip of weights, and passes over all events at most, by dimensions.
SHAPES: dict[int, tuple[tuple[int, ...], float, int]] = {
    1: ((4,), 9.0, 300),
    5: ((5, 5, 5), 2.15, 600),
}


def network_test(task: Task) -> Callable[[Floats, np.random.Generator], float]:
    """Make the test: from the events of a data set, and a generator, to its t."""
    count, dimensions = task.reference.shape
    # A column for each event: products with so few rows are twice as fast as with so few columns.
    reference = torch.asarray(task.reference.T.copy())
    weight = float(task.expected.sum()) / count
    hidden, clip, passes = SHAPES[dimensions]
    sizes = [dimensions, *hidden, 1]
    most = np.concatenate(
        [
            np.repeat([clip, np.inf], [inward * outward, outward])
            for inward, outward in itertools.pairwise(sizes)
        ]
    )

    def test(events: Floats, rng: np.random.Generator) -> float:
        both = torch.cat([reference, torch.asarray(events.T.copy())], dim=1)

        def loss(parameters: Floats) -> tuple[float, Floats]:
            values = torch.tensor(parameters, requires_grad=True)
            f = forward(values, sizes, both)
            found = weight * torch.expm1(f[:count]).sum() - f[count:].sum()
            (gradient,) = torch.autograd.grad(found, values)
            return float(found.detach()), gradient.numpy()

        found = minimize(
            loss,
            _start(sizes, rng),
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(-most, most),
            options={"maxfun": passes, "maxiter": passes},
        )
        return -2 * float(found.fun)

    return test


def forward(parameters: torch.Tensor, sizes: list[int], x: torch.Tensor) -> torch.Tensor:
    """Evaluate f on the columns of x; weights and biases of all layers stand one after another."""
    begin = 0
    for layer, (inward, outward) in enumerate(itertools.pairwise(sizes)):
        if layer:
            x = torch.sigmoid(x)
        middle = begin + inward * outward
        weights = parameters[begin:middle].reshape(outward, inward)
        begin = middle + outward
        x = torch.addmm(parameters[middle:begin, None], weights, x)
    return x[0]


def _start(sizes: list[int], rng: np.random.Generator) -> Floats:
    """Draw weights and biases as PyTorch does: evenly, within one over √(inputs)."""
    return np.concatenate(
        [
            rng.uniform(-(inward**-0.5), inward**-0.5, (inward + 1) * outward)
            for inward, outward in itertools.pairwise(sizes)
        ]
    )
