"""A run that looks like one, to show on the page: `python -m tests.runs FOLDER` writes it.

The statistics are made up, the models are real ones with made-up coefficients.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.inference.scale import FAMILIES
from gofstream.ratio.kernel import gaussian
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import LogRatio
from gofstream.sample import Sample
from gofstream.scan.where import FoundWindow, Place, windows_to_json
from gofstream.settings import Settings
from gofstream.stream.rows import (
    EPOCH_SCAN,
    EVIDENCE,
    RUN_SCAN,
    Alarm,
    Entry,
    Retention,
    ScanRow,
    Statistic,
)
from gofstream.stream.scanning import about_scan
from gofstream.stream.store import Store

COLUMNS = ("mll [GeV]", "pt [GeV]", "Δφ")
WIDTHS = (0.4, 1.0, 2.2)
LEVEL = 4.1
#: The batch with which the anomaly begins.
BEGINS = 112
WINDOW = 20


def reference(rows: int = 3000) -> Sample:
    """Draw a reference: a falling mass, a momentum, an angle."""
    rng = np.random.default_rng(5)
    values = np.column_stack(
        [60 + rng.exponential(40, rows), rng.gamma(3, 12, rows), rng.uniform(-3.1, 3.1, rows)]
    )
    return Sample.from_array(values, columns=COLUMNS, periodic=[COLUMNS[2]], name="reference")


#: What the scan found, in words that a page must not take for its own.
WINDOWS = (
    FoundWindow(
        "excess",
        "bump",
        (Place(COLUMNS[0], 141.2, 158.9), Place(COLUMNS[1], 18.0, 44.0), Place(COLUMNS[2], -1, 1)),
        1243,
        1101.7,
        131.0,
        17.9,
    ),
    FoundWindow("deficit", "tail", (Place(COLUMNS[1], None, 6.2),), 311, 352.4, -38.0, 5.2),
)


class Run:
    """Batches of a made-up run, one after another.

    Parameters
    ----------
    path : where its store goes.
    names : of the first batches; others are called by their number.
    start : when the first batch arrives, in seconds since 1970.
    reference_rows : how large the reference is said to be.
    """

    def __init__(
        self,
        path: Path,
        names: tuple[str, ...] = (),
        start: float = 1.79e9,
        reference_rows: int = 4000,
    ) -> None:
        self.sample = reference()
        settings = Settings(n_centres=80, widths=WIDTHS)
        rng = np.random.default_rng(1)
        self.learner = Learner.prepare(self.sample, settings, expected=2000.0, rng=rng)
        self.names = names
        self.start = start
        about = self.learner.about() | {
            "columns": list(COLUMNS),
            "reference_rows": reference_rows,
            "epoch": 100,
            "window": WINDOW,
            "boundary": {"level": LEVEL, "alpha": 0.05, "sha256": "made up"},
            "checkpoint_every": 25,
            "keep_models": True,
            "scan": about_scan(self.learner, 100),
        }
        self.store = Store.create(path, about, Retention("one", batches=2))
        self._u = np.zeros((4, len(WIDTHS)))
        self._rng = np.random.default_rng(2)
        self._rang = False
        # Where the anomaly is: a bump in mass, at any angle.
        bump = Sample.from_array([[150.0, 30.0, 0.0]], columns=COLUMNS, periodic=[COLUMNS[2]])
        self._bump = gaussian(self.learner.candidates, self.learner.scaling.apply(bump), 0.9)[:, 0]
        self._bump -= 0.5 * self._bump.mean()

    def __enter__(self) -> Run:
        """Use as a context; it closes the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.store.close()

    def add(self, batches: int = 1, **changes: Any) -> None:
        """Put in some more batches; `changes` are made to their entries."""
        for _ in range(batches):
            number = self.store.head().batches + 1
            entry, rest = self._made(number)
            self.store.append(replace(entry, **changes), **rest)

    def alarm(self) -> None:
        """Put in a batch that alarms, wherever the run is."""
        number = self.store.head().batches + 1
        entry, rest = self._made(number)
        alarm = Alarm(number, "window sat", 1, LEVEL + 1.25, LEVEL, since=max(1, number - 3))
        self.store.append(entry, **rest | {"alarm": alarm})

    def _made(self, number: int) -> tuple[Entry, dict[str, Any]]:
        name = self.names[number - 1] if number <= len(self.names) else f"run355864-{number:05d}"
        entry = Entry(
            number,
            name,
            hashlib.sha256(name.encode()).hexdigest(),
            arrived=self.start + 45.0 * number,
            events=int(self._rng.poisson(2000)),
            expected=2000.0,
        )
        if number % 41 == 0:
            why = f"{name}.parquet: column 'pt [GeV]': the value nan at row 17 is not finite"
            return replace(entry, state="quarantined", note=why), {}
        if number % 53 == 0:
            why = "did not come within 10 min of the one after it"
            return replace(entry, state="skipped", events=0, note=why), {}
        strength = 0.0 if number < BEGINS else 1.0
        unmonitored = number % 37 == 0
        u = self._next_u(strength)
        statistics = tuple(self._statistics(u, unmonitored, window=number >= WINDOW))
        statistics += self._scan(strength, number)
        changes: dict[str, Any] = {"statistics": statistics}
        if unmonitored:
            note = "its exposure is 7 % above the nominal one"
            changes |= {"state": "unmonitored", "note": note}
        rest: dict[str, Any] = {
            "models": {i: self._model(width, strength) for i, width in enumerate(WIDTHS)},
            "events": self._rng.bytes(8 * 3 * entry.events),
            "scan": ScanRow(bytes(60_000), bytes(60_000), windows_to_json(WINDOWS[:number])),
        }
        if number >= BEGINS and u.max() > LEVEL and not unmonitored and not self._rang:
            family, width = np.unravel_index(int(u.argmax()), u.shape)
            top = float(u.max())
            rest["alarm"] = Alarm(number, FAMILIES[family], int(width), top, LEVEL, since=BEGINS)
            self._rang = True
        if number % 25 == 0:
            rest["checkpoint"] = {(i, "sum"): self._rng.bytes(24_000) for i in range(len(WIDTHS))}
        return replace(entry, **changes), rest

    def _next_u(self, strength: float) -> NDArray[np.float64]:
        """Let u wander, and drift up once the anomaly is there."""
        memory = np.array([0.97, 0.97, 0.85, 0.85])[:, None]
        noise = self._rng.normal(size=self._u.shape)
        drift = strength * np.array([0.13, 0.09, 0.75, 0.5])[:, None] * np.array([0.5, 1.0, 0.7])
        self._u = memory * self._u + np.sqrt(1 - memory**2) * noise + drift
        return self._u

    def _statistics(
        self, u: NDArray[np.float64], unmonitored: bool, *, window: bool
    ) -> Iterator[Statistic]:
        for i, family in enumerate(FAMILIES):
            for width, each in enumerate(u[i].tolist()):
                if window or not family.startswith("window"):
                    yield Statistic(family, width, 2 * each, None if unmonitored else each)

    def _scan(self, strength: float, number: int) -> tuple[Statistic, ...]:
        grown = 0.4 * strength * (number - BEGINS)
        t = 2.0 + 2 * grown
        return (
            Statistic(RUN_SCAN, 0, t),
            Statistic(EPOCH_SCAN, 0, t),
            Statistic(EVIDENCE, 0, -0.7 + grown),
        )

    def _model(self, width: float, strength: float) -> bytes:
        noise = self._rng.normal(size=len(self._bump)) * 0.015
        learner = self.learner
        return LogRatio(
            centres=learner.candidates,
            coefficients=noise + 0.1 * strength * self._bump,
            width=width,
            penalty=learner.penalty,
            expected=2000.0,
            scaling=learner.scaling,
            settings=learner.settings,
            reference=learner.digest,
            converged=True,
        ).to_bytes()


def main(folder: Path) -> None:
    """Write 150 batches and the reference."""
    folder.mkdir(parents=True, exist_ok=True)
    with Run(folder / "run355864.gofs", start=time.time() - 45 * 150.0) as run:
        run.add(150)
        sample = run.sample
    np.savez(
        folder / "reference.npz", **{c: sample.values[:, i] for i, c in enumerate(sample.columns)}
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
