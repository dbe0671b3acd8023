r"""The mass spectrum of each hypothesis, and the ideal test that follows from it.

For a Z' nearly all that tells signal from Drell-Yan is the mass; for the contact term most of it.
With b_k events expected in bin k from Drell-Yan and s_k more (or fewer) from the alternative, the
test of Neyman and Pearson on the binned mass is

.. math:: t = 2 \left[ -\sum_k s_k + \sum_k n_k \log(1 + s_k / b_k) \right] .

A histogram filled with too few simulated events would make any two hypotheses look different. The
Drell-Yan spectrum is therefore simulated in slices of mass, merged by cross section, and the
contact term's is the same events with weights: both are smooth where hardly any event falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gofstream.datasets.ideal import IdealTest, importance_median_z
from gofstream.errors import InputError
from gofstream_studies.datasets.dimuon5d.benchmarks import Benchmark
from gofstream_studies.datasets.storage import SHIPPED, read_columns

FloatArray = NDArray[np.float64]

#: Bins of half a GeV around the Z, and of one per cent of the mass above; the last takes the rest.
EDGES: FloatArray = np.concatenate(
    [np.arange(60.0, 120.0, 0.5), np.geomspace(120.0, 3000.0, 325), [13_000.0]]
)
EDGES.flags.writeable = False

ZPRIMES = ("zprime200", "zprime300", "zprime600")
SPECTRA_COLUMNS = ("low", "high", "sm", "eft_linear", "eft_quadratic", *ZPRIMES)


@dataclass(frozen=True, slots=True)
class Spectra:
    """Mass spectra, each as a share of all selected Drell-Yan events or of all of the signal.

    Attributes
    ----------
    edges : ndarray of shape (bins + 1,)
        In GeV.
    drell_yan : ndarray of shape (bins,)
        Sums to one.
    linear, quadratic : ndarray of shape (bins,)
        What a contact term adds to `drell_yan`, over c_W and over c_W squared (in TeV^-2).
    zprimes : mapping of str to ndarray
        By sample; each sums to one.
    """

    edges: FloatArray
    drell_yan: FloatArray
    linear: FloatArray
    quadratic: FloatArray
    zprimes: Mapping[str, FloatArray]

    def added(self, benchmark: Benchmark) -> FloatArray:
        """Events that a benchmark adds in each bin, for one expected Drell-Yan event.

        Examples
        --------
        >>> from gofstream_studies.datasets.dimuon5d import BENCHMARKS
        >>> round(1 + float(read_spectra().added(BENCHMARKS["eft-cw05"]).sum()), 3)
        1.002
        """
        if benchmark.coupling is not None:
            return benchmark.coupling * self.linear + benchmark.coupling**2 * self.quadratic
        assert benchmark.fraction is not None
        return benchmark.fraction * self.zprimes[benchmark.sample]


def read_spectra(folder: str | Path | None = None) -> Spectra:
    """Read the spectra shipped with the package, or those `make` wrote into a folder.

    Examples
    --------
    >>> round(float(read_spectra().drell_yan.sum()), 6)
    1.0
    """
    name = "spectra.parquet"
    path = SHIPPED / f"dimuon_{name}" if folder is None else Path(folder) / name
    columns = {
        key: column.astype(np.float64)
        for key, column in read_columns(path, SPECTRA_COLUMNS).items()
    }
    if not len(columns["sm"]) or not (columns["sm"] > 0).all():
        raise InputError(
            f"{path}: a bin without Drell-Yan events; it was made with too few: make it again with "
            "more events (a million is the default), or use the spectra shipped with the package"
        )
    return Spectra(
        np.append(columns["low"], columns["high"][-1]),
        columns["sm"],
        columns["eft_linear"],
        columns["eft_quadratic"],
        {name: columns[name] for name in ZPRIMES},
    )


def ideal_toys(
    benchmark: Benchmark,
    expected: float,
    n_toys: int,
    rng: np.random.Generator,
    *,
    injected: bool = True,
    spectra: Spectra | None = None,
) -> FloatArray:
    """Draw the ideal statistic of many pseudo-experiments.

    Parameters
    ----------
    benchmark : Benchmark
        The alternative tested for.
    expected : float
        N(R) of each toy.
    n_toys : int
        Number of toys.
    rng : numpy.random.Generator
        Source of randomness.
    injected : bool
        Whether toys hold the alternative; False gives the null.
    spectra : Spectra, optional
        By default those shipped with the package.

    Returns
    -------
    ndarray of shape (n_toys,)

    Examples
    --------
    >>> import numpy as np
    >>> from gofstream_studies.datasets.dimuon5d import BENCHMARKS
    >>> rng, zprime = np.random.default_rng(0), BENCHMARKS["zprime300-5e-3"]
    >>> null = ideal_toys(zprime, 8000, 100, rng, injected=False)
    >>> bool(np.median(null) < 0 < np.median(ideal_toys(zprime, 8000, 100, rng)))
    True
    """
    spectra = read_spectra() if spectra is None else spectra
    background, added = expected * spectra.drell_yan, expected * spectra.added(benchmark)
    counts = rng.poisson(background + added if injected else background, (n_toys, len(background)))
    log_ratios = counts.astype(np.float64) @ np.log1p(added / background)
    return np.asarray(2.0 * (log_ratios - added.sum()))


def ideal_median_z(
    benchmark: Benchmark,
    expected: float = 8_000,
    *,
    n_toys: int = 4_000,
    rng: np.random.Generator,
    spectra: Spectra | None = None,
) -> IdealTest:
    """Median Z-score of the ideal test on the mass, by importance sampling.

    Our samples stand in for the public files; they are not those files. So the Z differs from the
    paper's, which stands beside it in the result.

    Parameters
    ----------
    benchmark : Benchmark
        The alternative.
    expected : float
        N(R). The paper's 8000 are those of all batches; its table speaks of one batch.
    n_toys : int
        Toys drawn under the alternative; the error falls as its square root.
    rng : numpy.random.Generator
        Source of randomness.
    spectra : Spectra, optional
        By default those shipped with the package.

    Examples
    --------
    >>> import numpy as np
    >>> from gofstream_studies.datasets.dimuon5d import BENCHMARKS
    >>> zprime = BENCHMARKS["zprime300-5e-3"]
    >>> found = ideal_median_z(zprime, n_toys=1000, rng=np.random.default_rng(0))
    >>> 11 < found.median_z < 13
    True
    """
    toys = ideal_toys(benchmark, expected, n_toys, rng, spectra=spectra)
    return IdealTest(benchmark.name, *importance_median_z(toys), benchmark.paper_z)
