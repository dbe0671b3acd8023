"""The signals of the paper's Table 5d-dataset, and one of our own beside its contact term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One way in which data depart from Drell-Yan.

    A Z' adds events to the Drell-Yan ones. A contact term interferes with Drell-Yan, so its data
    are a sample of their own and replace it whole.

    Attributes
    ----------
    name : str
        Mass and fraction, such as "zprime300-5e-3", or "eft" with the coupling.
    sample : str
        The sample to `read`: what is added, or what replaces Drell-Yan.
    ratio : float
        Expected events over those of Drell-Yan alone, N(D)/N(R), in our samples.
    paper_z : float
        Median Z of the ideal test as printed in the paper.
    fraction : float or None
        N(S)/N(R) of what is added; None if the sample replaces Drell-Yan whole.
    mass, width : float or None
        Of the Z', in GeV.
    coupling : float or None
        c_W of the contact term, in TeV^-2.

    Examples
    --------
    >>> BENCHMARKS["zprime300-5e-3"].mass
    300.0
    >>> BENCHMARKS["eft-cw05"].whole
    True
    """

    name: str
    sample: str
    ratio: float
    paper_z: float
    fraction: float | None = None
    mass: float | None = None
    width: float | None = None
    coupling: float | None = None

    @property
    def whole(self) -> bool:
        """Whether the sample replaces Drell-Yan instead of being added to it."""
        return self.fraction is None


def _zprime(mass: float, width: float, fraction: float, label: str, paper_z: float) -> Benchmark:
    return Benchmark(
        f"zprime{mass:.0f}-{label}",
        f"zprime{mass:.0f}",
        ratio=1 + fraction,
        paper_z=paper_z,
        fraction=fraction,
        mass=mass,
        width=width,
    )


#: Every line of Table 5d-dataset. The paper gives its contact term as c_W = 1 TeV^-2 with
#: N(D)/N(R) = 1.002. Taken literally, that coupling makes N(D)/N(R) = 1.0043 in our samples
#: ("eft-cw1"); half of it makes 1.002 ("eft-cw05"). Both stand beside the paper's Z of 3.7.
BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        benchmark.name: benchmark
        for benchmark in (
            _zprime(600.0, 16.0, 6e-4, "6e-4", 3.0),
            _zprime(600.0, 16.0, 1.5e-3, "1.5e-3", 7.1),
            _zprime(300.0, 8.0, 2.5e-3, "2.5e-3", 5.0),
            _zprime(300.0, 8.0, 5e-3, "5e-3", 8.8),
            _zprime(200.0, 5.0, 5e-3, "5e-3", 5.1),
            _zprime(200.0, 5.0, 1e-2, "1e-2", 9.1),
            Benchmark("eft-cw1", "eft", ratio=1.0043, paper_z=3.7, coupling=1.0),
            Benchmark("eft-cw05", "eft_cw05", ratio=1.002, paper_z=3.7, coupling=0.5),
        )
    }
)
