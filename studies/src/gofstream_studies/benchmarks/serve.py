"""What open pages cost a learner on the same machine."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gofstream.datasets import expo1d
from gofstream.inference.scale import FAMILIES
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.stream.rows import Entry, Retention, Statistic
from gofstream.stream.store import Store
from gofstream_studies.benchmarks.machine import emit

PAGES = 50
#: Batches in a round, and rounds of each kind, in turns since the speed of a machine drifts.
BATCHES, ROUNDS = 100, 9
EXPECTED = 500.0


def run() -> None:
    """Learn batches into a store, without a server and with one that 50 pages listen to."""
    rng = np.random.default_rng(1)
    reference = Sample.from_array(expo1d.reference(20_000, rng), columns=["x"])
    settings = Settings(n_centres=300, widths=(0.3, 0.7, 1.4))
    learner = Learner.prepare(reference, settings, expected=EXPECTED, rng=rng)
    features = [learner.features(width) for width in learner.widths]
    events = [Sample.from_array(expo1d.toy(EXPECTED, rng), columns=["x"]) for _ in range(BATCHES)]

    def learn(store: Store) -> float:
        start = time.perf_counter()
        for batch in events:
            learnt = [learner.learn(each, [batch], [EXPECTED]) for each in features]
            number = store.head().batches + 1
            statistics = tuple(
                Statistic(family, i, float(one.fit.t[0]), 0.0)
                for family in FAMILIES
                for i, one in enumerate(learnt)
            )
            store.append(
                Entry(
                    number,
                    f"batch-{number}",
                    batch.digest(),
                    time.time(),
                    len(batch),
                    EXPECTED,
                    statistics=statistics,
                ),
                models={i: one.models[0].to_bytes() for i, one in enumerate(learnt)},
                drop_models=max(0, number - 20),
            )
        return time.perf_counter() - start

    about = learner.about() | {"columns": ["x"], "epoch": 100, "window": 20, "boundary": None}
    alone, watched, busy = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.gofs"
        with Store.create(path, about, Retention("sat")) as store:
            learn(store)
            for _ in range(ROUNDS):
                alone.append(learn(store))
                with _served(path) as server:
                    before = _processor_seconds(server)
                    watched.append(learn(store))
                    busy.append((_processor_seconds(server) - before) / watched[-1])
    emit(
        "serve.slowdown",
        float(np.median(np.array(watched) / np.array(alone))),
        f"times as long to learn with {PAGES} pages open",
        rounds=[round(b / a, 3) for a, b in zip(alone, watched, strict=True)],
        batches_per_second=round(BATCHES / min(alone), 1),
        server_cores=round(float(np.median(busy)), 3),
    )


@contextmanager
def _served(path: Path) -> Iterator[int]:
    """Serve a store to so many pages; the process of the server."""
    command = "from gofstream.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", command, "serve", str(path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        found = re.search(r":(\d+)/$", server.stdout.readline().strip())
        assert found is not None
        with subprocess.Popen(
            [sys.executable, "-m", "gofstream_studies.benchmarks.serve", found[1]],
            stdout=subprocess.PIPE,
            text=True,
        ) as pages:
            assert pages.stdout is not None
            pages.stdout.readline()
            yield server.pid
            pages.terminate()
        server.terminate()


def _processor_seconds(process: int) -> float:
    """Give the processor time that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def listen(port: int) -> None:
    """Be so many pages: each has its own connection, and takes all that it is told."""

    async def page() -> asyncio.StreamReader:
        for _ in range(100):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except OSError:
                await asyncio.sleep(0.1)
        writer.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"event: update")
        return reader

    async def take(reader: asyncio.StreamReader) -> None:
        while await reader.read(1 << 16):
            pass

    readers = await asyncio.gather(*(page() for _ in range(PAGES)))
    sys.stdout.write("all are there\n")
    sys.stdout.flush()
    await asyncio.gather(*map(take, readers))


if __name__ == "__main__":
    asyncio.run(listen(int(sys.argv[1])))
