"""Files in, verdict out: what `gofstream test` does with what it read."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from gofstream.duplicates import find_copies
from gofstream.inference.agreement import NO_INPUTS
from gofstream.inference.calibrate import calibrate_and_test
from gofstream.io import Events
from gofstream.nplm import plan_test
from gofstream.report.examine import check_units, examine
from gofstream.report.record import File, Provenance, Record
from gofstream.settings import Settings

Progress = Callable[[int, int], None]

#: Packages whose versions can change a number.
PACKAGES = ("gofstream", "numpy", "scipy")


def judge_events(
    data: Events,
    reference: Events,
    *,
    expected: float | Sequence[float] | None,
    batches: int,
    settings: Settings,
    pool: Events | None,
    toys: int,
    null: Path,
    level: float | None,
    units: Mapping[str, str],
    drop_duplicates: bool,
    seed: int,
    command: Sequence[str],
    executor: Executor,
    progress: Progress = lambda done, total: None,
    inputs: Mapping[str, str] = NO_INPUTS,
) -> Record:
    """Test events that were read from files, and give the record of the result.

    Parameters
    ----------
    data, reference, pool : what `gofstream.io.read` gave; the other parameters as in `nplm_test`.
    toys : pseudo-experiments.
    null : file for them; those that are there are used.
    level : p-value at or below which the data are called anomalous.
    units : of columns, to be shown with them.
    drop_duplicates : as in `nplm_test`.
    command : what the user typed, to be kept with the result.
    inputs : the same by option, to be kept with the pseudo-experiments.
    """
    begun = time.perf_counter()
    check_units(units, [*reference.sample.columns, *reference.carried])  # before toys are made
    if drop_duplicates:
        copies = find_copies([data.sample], reference.sample)
        data, reference = data.drop(copies.data), reference.drop(copies.from_reference)
    planned = plan_test(
        data.sample,
        reference.sample,
        expected=expected,
        batches=batches,
        settings=settings,
        pool=None if pool is None else pool.sample,
        rng=seed,
    )
    null.parent.mkdir(parents=True, exist_ok=True)
    result = calibrate_and_test(
        planned.plan,
        planned.batches,
        toys,
        null,
        executor,
        progress=progress,
        inputs=inputs,
        rate=planned.rate,
    )
    record = examine(
        result,
        data.sample,
        reference.sample,
        title=_title(data, reference),
        carried=(data.carried, reference.carried),
        level=level,
        units=units,
    )
    read = {"data": data, "reference": reference} | ({} if pool is None else {"pool": pool})
    made_with = Provenance(
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=time.perf_counter() - begun,
        command=tuple(command),
        seed=seed,
        settings=settings.model_dump(mode="json"),
        versions={name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        files=tuple(file for role, events in read.items() for file in _files(role, events)),
    )
    return record.model_copy(update={"provenance": made_with})


def _title(data: Events, reference: Events) -> str:
    return f"{_names(data)} against {_names(reference)}"


def _names(events: Events) -> str:
    """Name up to three files, or the first and the last and how many they are."""
    names = [file.path.name for file in events.files]
    if len(names) > 3:
        return f"{names[0]} to {names[-1]} ({len(names)} files)"
    return " + ".join(names)


def _files(role: str, events: Events) -> list[File]:
    return [
        File(
            role=role,
            path=str(file.path),
            rows=file.rows,
            kept=file.kept,
            sha256=file.sha256(),
        )
        for file in events.files
    ]
