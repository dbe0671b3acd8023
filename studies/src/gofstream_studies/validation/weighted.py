"""Toys from weighted pools against a simulator, and p with a weighted reference.

Rows are standard normal. With weight e^{bx} they stand for a normal of mean b, with the bounded
weight 1 + 2/(1 + e^{-2x}) for a density that is as easy to draw from. Pools and simulator share the
reference, so that t differs only by where toys come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special, stats

from gofstream.errors import InputError
from gofstream.files import whole
from gofstream.inference.calibrate import calibrate
from gofstream.nplm import nplm_test
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Pool, Simulator, Source, toy_rng
from gofstream_studies.validation.checks import Check
from gofstream_studies.validation.wrong import HeavyRowsRunOut

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]

#: Counts are taken above this value.
WINDOW = 3.0
#: Runs of `nplm_test` that one task makes.
TOGETHER = 10


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight of standard normal rows.

    Attributes
    ----------
    slope : the b of e^{bx}; None for the bounded weight.
    """

    slope: float | None

    @property
    def name(self) -> str:
        """Name it as it is written."""
        return "bounded" if self.slope is None else f"e^{self.slope:g}x"

    def of(self, x: Floats) -> Floats:
        """Give the weights of rows; their mean over many rows is `moment(1)`."""
        if self.slope is None:
            return np.asarray(1 + 2 * special.expit(2 * x))
        return np.exp(self.slope * x)

    def moment(self, power: int) -> float:
        """Give the mean of the weight to a power over standard normal rows."""
        if self.slope is not None:
            return math.exp((power * self.slope) ** 2 / 2)
        return self._integral(power, -12.0)

    def beyond(self, window: float) -> float:
        """Give the probability of a value above the window in the weighted density."""
        if self.slope is not None:
            return float(stats.norm.sf(window - self.slope))
        return self._integral(1, window) / self.moment(1)

    def _integral(self, power: int, low: float) -> float:
        x = np.linspace(low, 12, 200_001)
        return float(integrate.simpson(self.of(x) ** power * stats.norm.pdf(x), x=x))

    def rows(self, rows: int, rng: np.random.Generator, name: str) -> Sample:
        """Draw weighted rows."""
        x = rng.normal(size=rows)
        return Sample.from_array(x, weights=self.of(x), name=name)

    def simulate(self, events: int, rng: np.random.Generator) -> Floats:
        """Draw events of the weighted density itself."""
        x = rng.normal(0.0 if self.slope is None else self.slope, size=(events, 1))
        if self.slope is None:
            # Half of the density is normal, and half is 2 φ(x) / (1 + e^{-2x}): a normal whose
            # value changes its sign with probability 1 / (1 + e^{2x}).
            skewed = rng.uniform(size=x.shape) < 0.5
            flip = skewed & (rng.uniform(size=x.shape) > special.expit(2 * x))
            x = np.where(flip, -x, x)
        return x


@dataclass(frozen=True, slots=True)
class Comparison:
    """Pools of one weight to be compared with a simulator.

    Attributes
    ----------
    expected : N(R), in one batch.
    ratio : effective rows of a pool for each expected event.
    n_reference : rows of the reference: with few, t of all toys of a pool moves with how its
        fluctuation meets that of the reference, and five pools say little.
    drawn_right : whether rows are drawn as the product does, and not so that heavy ones run out.
    """

    weight: Weight
    expected: float
    ratio: float
    n_reference: int = 100_000
    drawn_right: bool = True

    def pool(self, seed: int, number: int) -> Sample:
        """Draw a pool."""
        rows = self.ratio * self.expected * self.weight.moment(2) / self.weight.moment(1) ** 2
        rng = toy_rng(seed, f"pool, {self.weight.name}", number)
        return self.weight.rows(math.ceil(rows), rng, f"pool {number}")


@dataclass(frozen=True, slots=True)
class WeightedSize:
    """How large the case is.

    Attributes
    ----------
    comparisons : by name; one whose name begins with "wrong" must fail.
    pools, toys : pools of each comparison, and toys from each; the simulator makes as many in all.
    refused : a pool that must be refused.
    runs, run_expected, run_reference, run_toys : of `nplm_test` with a weighted reference: how
        many, N(R), rows and pseudo-experiments.
    """

    comparisons: dict[str, Comparison]
    refused: Comparison
    pools: int = 5
    toys: int = 400
    runs: int = 300
    run_expected: float = 300.0
    run_reference: int = 20_000
    run_toys: int = 99


SIZE = WeightedSize(
    comparisons={
        "weights e^(x/2)": Comparison(Weight(0.5), 24_000, 31, 300_000),
        "bounded weights": Comparison(Weight(None), 24_000, 31, 300_000),
        "weights e^x, larger pool": Comparison(Weight(1.0), 2000, 130),
        "wrong: heavy rows run out": Comparison(Weight(1.0), 4000, 31, drawn_right=False),
    },
    refused=Comparison(Weight(1.0), 24_000, 31),
)


def checks(
    size: WeightedSize, seed: int, folder: Path, executor: Executor, progress: Progress
) -> dict[str, list[Check]]:
    """Compare pools with a simulator, and count small p-values.

    Parameters
    ----------
    folder : results are kept there, and used again.
    """
    families, steps = {}, len(size.comparisons) + 1
    for done, (name, comparison) in enumerate(size.comparisons.items()):
        progress(done, steps)
        place = folder / name.replace(" ", "-").replace(":", "").replace("/", "")
        families[name] = _against_simulator(comparison, size, seed, place, executor)
    families["weights e^x, small pool"] = [_refusal(size.refused, seed)]
    progress(steps - 1, steps)
    families["nplm_test, weighted reference"] = _runs(size, seed, folder / "runs", executor)
    progress(steps, steps)
    return families


def _against_simulator(
    comparison: Comparison, size: WeightedSize, seed: int, folder: Path, executor: Executor
) -> list[Check]:
    """Compare t of `all` and counts above the window."""
    folder.mkdir(parents=True, exist_ok=True)
    weight, expected = comparison.weight, np.array([comparison.expected])
    rng = np.random.default_rng([seed, 0])
    reference = weight.rows(comparison.n_reference, rng, "reference")
    settings = Settings(widths=(0.7,), n_centres=60)
    learner = Learner.prepare(reference, settings, expected=float(expected[0]), rng=rng)

    def measure(source: Source, name: str, toys: int) -> tuple[Floats, Floats]:
        plan = ReferencePlan(learner, source, name, expected, seed, with_scan=False)
        made = calibrate(plan, toys, folder / f"{name}.null", executor).table
        counts = _counts(comparison, seed, name, toys, folder, executor)
        return made.statistic("all")[:, 0], counts

    total = size.pools * size.toys
    exact = measure(Simulator(weight.simulate), "simulator", total)
    pools = [
        measure(_source(comparison, seed, f"pool-{k}"), f"pool-{k}", size.toys)
        for k in range(size.pools)
    ]
    truth = comparison.expected * weight.beyond(WINDOW)

    def check(what: str, which: int, values: Callable[[Floats], Floats], root: bool) -> Check:
        return _check(what, [values(pool[which]) for pool in pools], values(exact[which]), root)

    mean_t = float(exact[0].mean())
    return [
        check("mean of `all`", 0, lambda t: t, False),
        check("spread of `all`", 0, lambda t: (t - mean_t) ** 2, True),
        check(f"mean count above {WINDOW:g}", 1, lambda c: c, False),
        # About the true mean: a pool shifts the mean of all its toys alike.
        check(f"variance of counts above {WINDOW:g}", 1, lambda c: (c - truth) ** 2, False),
    ]


def _check(what: str, pools: list[Floats], exact: Floats, root: bool) -> Check:
    """Compare a mean over toys of pools with that of a simulator, or its root.

    The error is that of the scatter of pools, or of so many toys where this is larger: five pools
    may be close by chance.
    """
    each = np.array([values.mean() for values in pools])
    together = np.concatenate(pools)
    pool_error = max(
        float(each.std(ddof=1)) / math.sqrt(len(each)),
        float(together.std()) / math.sqrt(len(together)),
    )
    error = math.hypot(pool_error, float(exact.std()) / math.sqrt(len(exact)))
    found, wanted = float(each.mean()), float(exact.mean())
    away = abs(found - wanted) / error
    if root:
        error, found, wanted = error / (2 * math.sqrt(wanted)), math.sqrt(found), math.sqrt(wanted)
    text = f"{found:.4g} against {wanted:.4g}, {away:.1f} standard errors of {error:.2g}"
    return Check(what, text, float(2 * stats.norm.sf(away)))


@lru_cache(maxsize=1)
def _source(comparison: Comparison, seed: int, name: str) -> Source:
    """Make a source of toys, in whatever process needs it."""
    if name == "simulator":
        return Simulator(comparison.weight.simulate)
    sample = comparison.pool(seed, int(name.removeprefix("pool-")))
    if not comparison.drawn_right:
        return HeavyRowsRunOut(sample)
    pool = Pool(sample)
    pool.check(comparison.expected)
    return pool


def _counts(
    comparison: Comparison, seed: int, name: str, toys: int, folder: Path, executor: Executor
) -> Floats:
    """Count the events above the window in each toy of a plan."""
    file = folder / f"{name}.npy"
    if not file.exists():
        task = executor.submit(_count, comparison, seed, name, toys)
        with whole(file) as partial, partial.open("wb") as out:
            np.save(out, task.result())
    return np.asarray(np.load(file))


def _count(comparison: Comparison, seed: int, name: str, toys: int) -> Floats:
    source, expected = _source(comparison, seed, name), np.array([comparison.expected])
    drawn = (source.draw(expected, toy_rng(seed, "null", k))[0] for k in range(toys))
    return np.array([np.count_nonzero(x > WINDOW) for x in drawn], dtype=np.float64)


def _refusal(comparison: Comparison, seed: int) -> Check:
    """See that a pool is refused in which heavy rows carry the sample."""
    what = f"pool of {comparison.ratio:g} data sets"
    try:
        Pool(comparison.pool(seed, 0)).check(comparison.expected)
    except InputError as error:
        return Check(what, f"refused: {error}", 1.0)
    return Check(what, "accepted", 0.0)


def _runs(size: WeightedSize, seed: int, folder: Path, executor: Executor) -> list[Check]:
    """Test nominal data, each set with a weighted reference of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, size.runs, TOGETHER)
    about = f"{size.run_expected:g}-{size.run_reference}-{size.run_toys}"
    files = [folder / f"{about}-{start}.npy" for start in starts]
    tasks = {
        file: executor.submit(_run, size, seed, start)
        for file, start in zip(files, starts, strict=True)
        if not file.exists()
    }
    for file, task in tasks.items():
        with whole(file) as partial, partial.open("wb") as out:
            np.save(out, task.result())
    p = np.concatenate([np.load(file) for file in files])
    hits = int(np.count_nonzero(p <= 0.05 + 1e-12))
    above = stats.binomtest(hits, len(p), 0.05, alternative="greater").pvalue
    # p moves in steps of 1/(B+1), as the uniform law it is compared with does here.
    rank = np.rint(p * (size.run_toys + 1)).astype(np.int64)
    steps = np.bincount(rank, minlength=size.run_toys + 2)[1:].cumsum() / len(p)
    even = np.arange(1, size.run_toys + 2) / (size.run_toys + 1)
    distance = float(np.abs(steps - even).max())
    return [
        Check("p ≤ 0.05", f"{hits} of {len(p)} ({hits / len(p):.1%})", float(above)),
        Check("p: KS", f"{distance:.3f}", float(stats.kstwo.sf(distance, len(p)))),
    ]


def _run(size: WeightedSize, seed: int, start: int) -> Floats:
    weight, found = Weight(0.5), []
    for number in range(start, min(start + TOGETHER, size.runs)):
        rng = toy_rng(seed, "weighted run", number)
        reference = weight.rows(size.run_reference, rng, "reference")
        data = weight.simulate(rng.poisson(size.run_expected), rng)
        settings = Settings(widths=(0.4, 1.2), n_centres=40)
        result = nplm_test(
            data,
            reference,
            expected=size.run_expected,
            settings=settings,
            n_resamples=size.run_toys,
            rng=rng,
        )
        found.append(result.pvalue)
    return np.array(found)
