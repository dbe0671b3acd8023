"""`gofstream bench`: what it says of sizes and memory is so; times are the machine's affair."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from importlib.metadata import version

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.cli import main
from gofstream.errors import GofstreamError
from gofstream.ratio.solver import fit
from gofstream_studies.bench import fits, machine, memory, run
from gofstream_studies.bench.cases import PAPER, Case, dimuon5d_case, drawn, expo1d_case
from gofstream_studies.bench.fits import BLOCK, time_fits
from gofstream_studies.bench.memory import in_fresh_process, measure_memory, peak_and_present
from gofstream_studies.bench.run import Bench, bench
from gofstream_studies.cli.bench import what_to_send

MIB = 1024**2


def small(rng: np.random.Generator, n_reference: int | None = None) -> Case:
    """EXPO-1D with fewer of everything."""
    case = expo1d_case(rng, n_reference or 4000)
    return replace(case, batch=200.0).changed(n_centres=60)


@pytest.mark.torch
def test_yardsticks_count_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flops and bytes of the products, over the time they are said to take."""
    monkeypatch.setattr(machine, "PRODUCT", 20)
    monkeypatch.setattr(machine, "READ", (30, 10))

    def two_seconds(work: object, repeat: int = 3) -> float:
        assert callable(work)
        work()
        return 2.0

    monkeypatch.setattr(machine, "seconds", two_seconds)
    for device in ("cpu", "cpu-torch"):
        assert machine.gemm_peak("float64", device=device) == 2 * 20**3 / 2
        assert machine.read_bandwidth(device=device) == 2 * 8 * 300 / 4  # there and back
    found = machine.measure_machine("cpu-torch")
    assert found.gflops32 == found.gflops64 == 8000e-9
    assert found.versions["torch"] == version("torch")
    assert found.versions["numpy"] == np.__version__
    assert found.versions["blas"]
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.cpu


def test_times_are_of_the_fits_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank and passes are those of the same fits made again; every block is one."""
    case = small(np.random.default_rng(1))
    learner = case.learner(np.random.default_rng(2))
    blocks: list[int] = []

    def counted(features: object, batches: list[object], *args: object, **more: object) -> object:
        blocks.append(len(batches))
        return fit(features, batches, *args, **more)

    monkeypatch.setattr(fits, "fit", counted)
    monkeypatch.setattr(fits, "cores", lambda: 3)
    found = time_fits(case, learner, 0.7, np.random.default_rng(3), all_cores=True)
    assert blocks == [BLOCK, BLOCK, 1, 1, *[BLOCK] * 3]
    batches = drawn(learner, case.source, case.batch, BLOCK, np.random.default_rng(3))
    assert np.mean([len(batch) for batch in batches]) == pytest.approx(200, abs=10)
    features = learner.features(0.7)
    assert found.rank == features.rank
    assert found.passes == fit(features, batches, [200.0] * BLOCK).passes.mean()
    assert (found.rows, found.n_reference, found.centres) == ("stored", 4000, 60)
    assert found.on_all_cores is not None
    assert min(found.prepared, found.alone, found.in_block, found.on_all_cores) > 0
    assert time_fits(case, learner, 0.7, np.random.default_rng(3)).on_all_cores is None


def test_cases_are_the_papers() -> None:
    """Sizes of the paper; DIMUON-5D on the sample shipped, its pool apart from the reference."""
    rng = np.random.default_rng(1)
    expo, dimuon = expo1d_case(rng), dimuon5d_case(rng)
    assert (len(expo.reference), expo.batch, expo.settings.n_centres) == (200_000, 2000, 1000)
    assert (len(dimuon.reference), dimuon.batch, dimuon.settings.n_centres) == (
        40_000,
        2000,
        10_000,
    )
    (batch,) = dimuon.source.draw(np.array([2000.0]), rng)
    known = {row.tobytes() for row in dimuon.reference.values.astype(np.float64)}
    assert not any(row.tobytes() in known for row in batch)


def take_and_give_back(megabytes: int) -> tuple[int, int, int]:
    """Hold so much for a while: bytes before, at the peak, after."""
    _, before = peak_and_present()
    held: NDArray[np.float64] | None = np.ones(megabytes * MIB // 8)
    del held
    peak, after = peak_and_present()
    return before, peak, after


def test_memory_is_that_of_the_process() -> None:
    """What is taken and given back shows in the peak; what killed it, in a message."""
    before, peak, after = in_fresh_process(take_and_give_back, 150)
    assert 140 * MIB < peak - before < 200 * MIB  # the kernel counts in steps
    assert after - before < 50 * MIB
    with pytest.raises(GofstreamError, match="is gone, killed perhaps for want of memory"):
        in_fresh_process(os._exit, 1)


@pytest.mark.parametrize(("budget", "rows"), [(200 * MIB, "stored"), (64 * MIB, "made")])
def test_fits_stay_in_their_budget(budget: int, rows: str) -> None:
    """Rows are stored where they fit, and made where they do not."""
    found = measure_memory(budget, "cpu", 60_000)
    assert found.rows == rows
    assert 8 * 60_000 * memory.DIMENSIONS < found.taken < budget
    assert found.seconds_per_fit > 0
    assert found.on_device == 0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all of it small."""
    monkeypatch.setattr(machine, "PRODUCT", 50)
    monkeypatch.setattr(machine, "READ", (100, 50))
    monkeypatch.setattr(fits, "BLOCK", 4)
    monkeypatch.setattr(run, "expo1d_case", small)
    monkeypatch.setattr(run, "dimuon5d_case", lambda rng: replace(small(rng), name="dimuon5d"))
    monkeypatch.setattr(run, "DIMUON_CENTRES", 50)
    monkeypatch.setattr(run, "SIZES", (2000, 4000, 8000))
    monkeypatch.setattr(
        run,
        "measure_memory",
        lambda budget, device: memory.MemoryUse(1000, "made", budget, budget // 2, 0, 0.1),
    )


@pytest.mark.torch
def test_all_of_it(quick: None) -> None:
    """Every width, size and budget once, in steps that add up."""
    steps: list[tuple[int, int]] = []
    found = bench("cpu-torch", progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 10) for done in range(11)]
    rows = [(each.data_set, each.width, each.centres) for each in found.fits]
    assert rows == [
        ("expo1d", 0.1, 60), ("expo1d", 0.7, 60), ("dimuon5d", 1.9, 50), ("dimuon5d", 4.4, 50),
    ]  # fmt: skip
    assert all(each.on_all_cores is None for each in found.fits)
    growth = found.growth
    slope, _ = np.polyfit(np.log(growth.n_reference), np.log(growth.seconds_per_fit), 1)
    assert growth.exponent == pytest.approx(slope)
    assert found.paper == {"expo1d": (0.5, 1.5), "dimuon5d": (3, 12), "cmsl1": (40, 70)} == PAPER
    assert [each.budget for each in found.memory] == list(run.BUDGETS)


def typed(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Type a command; give its exit code, and what it printed."""
    monkeypatch.setattr(sys, "argv", ["gofstream", *words.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    return f"{stop.value.code or 0}: {printed.out}{printed.err if stop.value.code else ''}"


def test_the_command(
    quick: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table with the paper's figures beside, in 80 characters; the same as JSON."""
    monkeypatch.setenv("COLUMNS", "80")
    said = typed("bench", monkeypatch, capsys)
    assert said.startswith("0: ")
    assert "…" not in said
    for word in ("0.5-1.5 s", "3-12 s", "40-70 s", "Gflop/s", "exponent", "gofstream plan", "0.50"):
        assert word in said
    found = json.loads(typed("bench --json", monkeypatch, capsys).removeprefix("0: "))
    assert (found["format"], found["version"]) == ("gofstream_studies.bench", 1)
    assert found["fits"][0]["rank"] > 0
    assert found["paper"]["cmsl1"] == [40.0, 70.0]
    assert found["machine"]["device"] == "cpu"


def test_what_to_send_back(quick: None) -> None:
    """From a GPU: its name, versions and every number, which can be read again."""
    found = bench()
    on_gpu = replace(
        found, machine=replace(found.machine, device="cuda", device_name="A GPU of Theirs")
    )
    said = what_to_send(on_gpu)
    assert "send the developers" in said
    assert "device: A GPU of Theirs" in said
    assert f"numpy {np.__version__}" in said
    assert json.loads(said.splitlines()[-1]) == json.loads(json.dumps(asdict(on_gpu)))
    assert isinstance(on_gpu, Bench)


@pytest.mark.torch
def test_no_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One message, before anything is measured."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    said = typed("bench --device cuda", monkeypatch, capsys)
    assert said.startswith("2: ")
    assert "sees no CUDA device here" in said
    assert "Traceback" not in said
