"""Samples made part by part, on any number of workers; a run that was stopped goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gofstream.datasets.columns import write_columns
from gofstream.errors import InputError, StoppedError, missing_extra
from gofstream.execution import worker_died
from gofstream_studies.datasets.storage import made_with, read_columns

Columns = Mapping[str, NDArray[Any]]
Progress = Callable[[int, int], None]


class Part(Protocol):
    """A piece of work, some ten seconds long, always the same for the same seed."""

    @property
    def sample(self) -> str:
        """Which sample it is for."""
        ...

    @property
    def label(self) -> str:
        """What tells it from the other parts of the sample, fit for the name of a file."""
        ...

    def run(self, seed: int) -> Columns:
        """Do it."""
        ...


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where files go, and what has to be true of them."""

    folder: Path
    seed: int
    events: int
    pythia: str

    @classmethod
    def of(cls, folder: Path, seed: int, events: int) -> Shelf:
        """Make the folder.

        Raises
        ------
        InputError
            For a number of events or a seed that cannot be.
        """
        if events < 1 or seed < 0:
            raise InputError(
                f"events must be positive and seed not negative, got {events} and {seed}"
            )
        try:
            pythia = version("pythia8mc")
        except PackageNotFoundError as error:
            raise missing_extra("pythia8mc", "pythia") from error
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, seed, events, pythia)

    @property
    def note(self) -> dict[str, object]:
        """What every file says about how it was made."""
        return {"seed": self.seed, "events": self.events, "pythia": self.pythia}

    def file(self, name: str) -> Path:
        """Where a whole sample goes."""
        return self.folder / f"{name}.parquet"

    def part(self, part: Part) -> Path:
        """Where a part waits for the others of its sample."""
        return self.folder / f"{part.sample}.part-{part.label}.parquet"

    def has_part(self, part: Part) -> bool:
        """Tell whether a part is there, from an earlier run of the same kind."""
        path = self.part(part)
        return path.exists() and made_with(path) == self.note

    def has(self, name: str) -> bool:
        """Tell whether a sample is there.

        Raises
        ------
        InputError
            If it is there but was made otherwise: nothing is overwritten.
        """
        path = self.file(name)
        if not path.exists():
            return False
        found = made_with(path)
        if found == self.note:
            return True
        there = ", ".join(f"{key} {value}" for key, value in found.items()) or "something else"
        asked = ", ".join(f"{key} {value}" for key, value in self.note.items())
        raise InputError(
            f"{path} was made with {there}, not with {asked}; ask for the same, choose another "
            "folder, or delete it"
        )

    def run(
        self, parts: Sequence[Part], executor: Executor | None, progress: Progress | None
    ) -> None:
        """Do what is not done yet, and write each part as it comes.

        Raises
        ------
        StoppedError
            On Ctrl-C, or when a worker dies; what was made is kept.
        """
        wanted = [part for part in parts if not self.has_part(part)]
        done = len(parts) - len(wanted)

        def keep(part: Part, columns: Columns) -> None:
            nonlocal done
            write_columns(self.part(part), columns, self.note)
            done += 1
            if progress is not None:
                progress(done, len(parts))

        def stopped(why: str) -> StoppedError:
            return StoppedError(
                f"{why} with {done} of {len(parts)} parts made; they are kept in {self.folder}, "
                "and the same command goes on from there"
            )

        futures: dict[Future[Columns], Part] = {}
        try:
            if executor is None:
                for part in wanted:
                    keep(part, part.run(self.seed))
                return
            futures = {executor.submit(part.run, self.seed): part for part in wanted}
            for future in as_completed(futures):
                keep(futures[future], future.result())
        except KeyboardInterrupt as stop:
            raise stopped("stopped") from stop
        except Exception as error:
            if worker_died(error):
                raise stopped("a worker died") from error
            raise
        finally:
            for future in futures:
                future.cancel()

    def tables(self, parts: Sequence[Part], columns: Sequence[str]) -> list[Columns]:
        """Read the parts of a sample."""
        return [read_columns(self.part(part), columns) for part in parts]

    def finish(self, parts: Sequence[Part], columns: Columns) -> None:
        """Write a whole sample, and remove its parts."""
        write_columns(self.file(parts[0].sample), columns, self.note)
        for part in parts:
            self.part(part).unlink()


def one_after_another(tables: Sequence[Columns]) -> dict[str, NDArray[Any]]:
    """Put tables with the same columns one after another."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
