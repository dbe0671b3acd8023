"""The tests: each turns a data set into one number or a few, large where it is surprising.

What a test fixes beforehand follows from the reference and a seed; nothing looks at toys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from scipy.special import xlogy
from scipy.stats import energy_distance
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from gofstream.statistics import STATISTICS
from gofstream.toys.plan import statistics_of
from gofstream.toys.scanning import ScanPass, scan_sets
from gofstream_studies.benchmarks.peers.network import network_test
from gofstream_studies.benchmarks.peers.tasks import Task, Toy

Floats = NDArray[np.float64]

#: Random features of each width: of the classifier, and of the maximum mean discrepancy.
FEATURES, MMD_FEATURES = 60, 500
#: Events whose distances to the reference are held at a time.
ROWS = 200


class Test(Protocol):
    """A test, made ready for one task."""

    def __call__(self, toys: Sequence[Toy]) -> Floats:
        """Give the statistics of data sets: (toys, K)."""
        ...


class Classifier(Protocol):
    """What a two-sample test asks of a classifier."""

    def fit(self, x: Floats, y: Floats, sample_weight: Floats | None = None) -> object:
        """Learn to tell data (1) from reference (0)."""
        ...

    def predict_proba(self, x: Floats) -> Floats:
        """Tell how likely events are to be data."""
        ...


def one_by_one(work: Callable[[Toy], Sequence[float]]) -> Test:
    """Make a test of something that takes data sets one after another."""
    return lambda toys: np.array([work(toy) for toy in toys], dtype=np.float64)


def all_(task: Task) -> Test:
    """`all`, at each width: what a batch taught, averaged, tested on all of them."""
    learner, column = task.learner, list(STATISTICS).index("all")
    features = [learner.features(width) for width in learner.widths]

    def test(toys: Sequence[Toy]) -> Floats:
        batches = [batch for toy in toys for batch in toy.batches]
        found = [statistics_of(f, batches, task.expected, learner.settings)[0] for f in features]
        return np.stack([t[:, column, -1] for t in found], axis=1)

    return test


def scan(task: Task) -> Test:
    """Scan all batches together."""
    whole = ScanPass(float(task.expected.sum()), task.seed, shape_only=False)
    grid = whole.grid(task.learner)
    return lambda toys: scan_sets(grid, [toy.batches for toy in toys], task.expected)[:, 0, -1:]


def count(task: Task) -> Test:
    """Count events: the likelihood ratio of their number, against too many and too few."""
    expected = float(task.expected.sum())

    def work(toy: Toy) -> Sequence[float]:
        n = len(toy.events)
        return [2 * float(xlogy(n, n / expected) - (n - expected))]

    return one_by_one(work)


def logistic(task: Task) -> Test:
    """Classifier two-sample test: logistic regression on random features of all widths."""
    samplers = _samplers(task, FEATURES)

    def features(x: Floats) -> Floats:
        return np.hstack([sampler.transform(x) for sampler in samplers])

    return two_sample(task, lambda rng: LogisticRegression(max_iter=100), "logistic", features)


def trees(task: Task) -> Test:
    """Classifier two-sample test: gradient boosting of trees, with scikit-learn's defaults."""

    def make(rng: np.random.Generator) -> Classifier:
        seed = int(rng.integers(2**31))
        return HistGradientBoostingClassifier(early_stopping=False, random_state=seed)

    return two_sample(task, make, "trees", lambda x: x)


def two_sample(
    task: Task,
    make: Callable[[np.random.Generator], Classifier],
    name: str,
    features: Callable[[Floats], Floats],
) -> Test:
    """Learn on half of the data and half of the reference; the area under the curve of the rest.

    Both classes weigh the same while learning.
    """
    half = len(task.reference) // 2
    learning, kept = features(task.reference[:half]), features(task.reference[half:])

    def work(toy: Toy) -> Sequence[float]:
        rng = toy.rng(name)
        events = features(rng.permutation(toy.events))
        middle = len(events) // 2
        x = np.concatenate([learning, events[:middle]])
        y = np.concatenate([np.zeros(half), np.ones(middle)])
        weights = np.where(y == 1, 1.0, middle / half)
        model = make(rng)
        model.fit(x, y, sample_weight=weights)
        rest = np.concatenate([kept, events[middle:]])
        truth = np.concatenate([np.zeros(len(kept)), np.ones(len(events) - middle)])
        return [roc_auc_score(truth, model.predict_proba(rest)[:, 1])]

    return one_by_one(work)


def mmd(task: Task) -> Test:
    """Maximum mean discrepancy at each width, unbiased, with random features for the kernel."""
    samplers = _samplers(task, MMD_FEATURES)
    known = [_sums(sampler.transform(task.reference)) for sampler in samplers]

    def work(toy: Toy) -> Sequence[float]:
        events = toy.events
        return [
            discrepancy(_sums(sampler.transform(events)), reference)
            for sampler, reference in zip(samplers, known, strict=True)
        ]

    return one_by_one(work)


def _sums(features: Floats) -> tuple[Floats, float, int]:
    """Σ φ, Σ |φ|², and the number of events."""
    return features.sum(axis=0), float(np.sum(features**2)), len(features)


def discrepancy(x: tuple[Floats, float, int], y: tuple[Floats, float, int]) -> float:
    """Mean of k over pairs within x, plus within y, minus twice that between: MMD², unbiased."""

    def within(sums: Floats, squares: float, n: int) -> float:
        return (float(sums @ sums) - squares) / (n * (n - 1))

    return within(*x) + within(*y) - 2 * float(x[0] @ y[0]) / (x[2] * y[2])


def energy(task: Task) -> Test:
    """Energy distance: exact in one dimension; in more, from all pairs, block by block.

    The mean distance within the reference is the same for all data sets, and left out there.
    """
    reference = task.reference

    def work(toy: Toy) -> Sequence[float]:
        x = toy.events
        if x.shape[1] == 1:
            return [float(energy_distance(x[:, 0], reference[:, 0]))]
        between = sum(
            float(cdist(x[i : i + ROWS], reference).sum()) for i in range(0, len(x), ROWS)
        )
        return [2 * between / (len(x) * len(reference)) - float(pdist(x).mean())]

    return one_by_one(work)


def network(task: Task) -> Test:
    """NPLM with a small neural network in place of kernels."""
    test = network_test(task)
    return one_by_one(lambda toy: [test(toy.events, toy.rng("network"))])


def _samplers(task: Task, components: int) -> list[RBFSampler]:
    """Random features of the Gaussian kernel at each width, the same for all toys."""
    return [
        RBFSampler(gamma=0.5 / width**2, n_components=components, random_state=k).fit(
            task.reference[:1]
        )
        for k, width in enumerate(task.learner.widths)
    ]


#: All tests, by what they are called in files.
TESTS: dict[str, Callable[[Task], Test]] = {
    "all": all_,
    "scan": scan,
    "count": count,
    "logistic": logistic,
    "trees": trees,
    "mmd": mmd,
    "energy": energy,
    "network": network,
}
