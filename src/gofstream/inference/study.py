"""Power studies: what would have been seen, had there been a signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gofstream.arguments import whole_number
from gofstream.errors import InputError
from gofstream.execution import chosen_workers
from gofstream.inference.agreement import NO_INPUTS, described
from gofstream.inference.combine import Rule, combined_p
from gofstream.inference.null import NullFile, NullTable
from gofstream.inference.power import MedianZ, Power, median_z, power
from gofstream.inference.pvalues import empirical_p, toys_needed
from gofstream.toys.farm import Job, run
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.scanning import SCAN
from gofstream.toys.sources import Injected, Source

Floats = NDArray[np.float64]
#: What tells one signal from another: an injected fraction, or a name.
Signal = TypeVar("Signal", float, str)


@dataclass(frozen=True, slots=True, eq=False)
class PowerStudy(Generic[Signal]):
    """Toys without and with a signal, treated alike.

    Every question takes the name of a statistic, or several names to be combined; which signal;
    and, if wanted, a number of batches (default: all) and the index of one width
    (default: all, combined by ``rule``). p-values count toys, so a level below 1 / (1 + toys) is
    out of reach, and its power is refused.

    Attributes
    ----------
    null : toys of the nominal model.
    signals : toys with signal, by injected fraction or by name.
    """

    null: NullTable
    signals: Mapping[Signal, NullTable]

    def p_values(
        self,
        statistic: str | Sequence[str],
        signal: Signal,
        *,
        batches: int | None = None,
        width: int | None = None,
        rule: Rule = "min",
    ) -> Floats:
        """Give the p-value of every toy with signal."""
        if signal not in self.signals:
            known = ", ".join(map(str, self.signals))
            raise InputError(f"no toys with a signal {signal}; there are {known}")
        names = [statistic] if isinstance(statistic, str) else statistic
        widths = self.null.t.shape[2]
        if width is not None and not 0 <= width < widths:
            raise InputError(f"width is {width}; it is an index, from 0 to {widths - 1}")
        if width is not None and SCAN in names:
            raise InputError("the scan has no width; ask for it without one")

        def columns(table: NullTable) -> list[Floats]:
            t = [table.statistic(name, batches) for name in names]
            return t if width is None else [each[:, [width]] for each in t]

        each, found = columns(self.null), np.hstack(columns(self.signals[signal]))
        null = np.hstack(each)
        if null.shape[1] == 1:
            return empirical_p(found[:, 0], null[:, 0])
        counts = [part.shape[1] for part in each]
        return np.array([combined_p(t, null, rule, counts) for t in found])

    def power(
        self,
        statistic: str | Sequence[str],
        level: float,
        signal: Signal,
        *,
        batches: int | None = None,
        width: int | None = None,
        rule: Rule = "min",
    ) -> Power:
        """Share of toys with signal that reach p ≤ level.

        Raises
        ------
        InputError
            If the level is out of reach of so many toys; it says how many reach it.
        """
        check_reach(level, len(self.null.t))
        p = self.p_values(statistic, signal, batches=batches, width=width, rule=rule)
        return power(p, level)

    def median_z(
        self,
        statistic: str | Sequence[str],
        signal: Signal,
        *,
        batches: int | None = None,
        width: int | None = None,
        rule: Rule = "min",
    ) -> MedianZ:
        """Z that half of the toys with signal reach; never beyond what the toys resolve."""
        return median_z(self.p_values(statistic, signal, batches=batches, width=width, rule=rule))


def check_reach(level: float, toys: int) -> None:
    """Refuse a level that is below the smallest p-value of so many toys.

    Raises
    ------
    InputError
        If it is; it says how many toys reach it.

    Examples
    --------
    >>> check_reach(0.05, 19)
    """
    if toys < (needed := toys_needed(level)):
        raise InputError(
            f"power at p ≤ {level:g} is out of reach: needs ≥ {needed} toys, and there are {toys}; "
            "ask for more toys, or for a larger level"
        )


def power_study(
    plan: ReferencePlan,
    signal: Source,
    fractions: Sequence[float],
    *,
    toys: int,
    signal_toys: int,
    folder: Path,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    inputs: Mapping[str, str] = NO_INPUTS,
) -> PowerStudy[float]:
    """Make the null and, for each fraction, toys with so much signal added.

    Parameters
    ----------
    plan : toys of the nominal model.
    signal : where signal events come from; name it in the folder.
    fractions : expected signal over expected nominal events.
    toys, signal_toys, folder, executor, progress, inputs : as in `study`.
    """
    return study(
        plan,
        {fraction: Injected(plan.source, signal, fraction) for fraction in fractions},
        toys=toys,
        signal_toys=signal_toys,
        folder=folder,
        executor=executor,
        progress=progress,
        inputs=inputs,
    )


def signal_stream(name: object) -> str:
    """Name the stream of seeds that toys of an alternative have."""
    return f"signal {name}"


def study(
    plan: ReferencePlan,
    alternatives: Mapping[Signal, Source],
    *,
    toys: int,
    signal_toys: int,
    folder: Path,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    inputs: Mapping[str, str] = NO_INPUTS,
) -> PowerStudy[Signal]:
    """Make the null and, for each alternative, toys of it, treated like the nominal ones.

    Parameters
    ----------
    plan : toys of the nominal model.
    alternatives : whole data sets with a signal, by name or strength.
    toys, signal_toys : how many of the nominal model, and how many of each alternative.
    folder : one file for the null and one for each alternative; what is there is used again.
    executor : runs the blocks; by default threads on all cores.
    progress : called with blocks done and wanted, over all files.
    inputs : what the user typed, as in `calibrate`.
    """
    toys, signal_toys = whole_number("toys", toys), whole_number("signal_toys", signal_toys)
    folder.mkdir(parents=True, exist_ok=True)
    null = NullFile(folder / "null.null", plan.about() | described(inputs))
    jobs, signals = [Job(plan, toys, null)], {}
    for name, source in alternatives.items():
        other = replace(
            plan,
            source=source,
            source_name=f"{plan.source_name} with signal {name}",
            stream=signal_stream(name),
        )
        about = other.about() | described(inputs)
        signals[name] = NullFile(folder / f"signal-{name}.null", about)
        jobs.append(Job(other, signal_toys, signals[name]))
    with chosen_workers(executor) as chosen:
        run(jobs, chosen, progress=progress)
    return PowerStudy(
        null.load(toys), {name: file.load(signal_toys) for name, file in signals.items()}
    )
