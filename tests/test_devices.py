"""PyTorch on the CPU against numpy; what other devices say where they are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.errors import GofstreamError, SettingsError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import Calibration, calibrate
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.stream.monitor import Monitor
from gofstream.stream.rows import Retention
from gofstream.toys.permutation import PermutationPlan
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator

Floats = NDArray[np.float64]

#: A device that is deselected where PyTorch is not installed.
TORCH = pytest.param("cpu-torch", marks=pytest.mark.torch)


def learner(rows: int = 20_000, *, weighted: bool = False, **settings: object) -> Learner:
    """Prepare a reference."""
    rng = np.random.default_rng(7)
    values = expo1d.reference(rows, rng)
    weights = rng.uniform(0.5, 1.5, rows) if weighted else None
    return Learner.prepare(
        Sample.from_array(values, weights=weights),
        Settings.of(**({"widths": (0.1, 0.7), "n_centres": 300} | settings)),
        expected=200.0,
        rng=np.random.default_rng(1),
    )


def calibrated(path: Path, prepared: Learner) -> Calibration:
    """Make eight toys of four batches."""
    plan = ReferencePlan(prepared, Simulator(expo1d.reference), "expo1d", np.full(4, 200.0), 1)
    with thread_workers(2) as executor:
        return calibrate(plan, 8, path, executor)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("precision", "agreement", "weighted"), [("float32", 1e-4, True), ("float64", 1e-8, False)]
)
def test_torch_gives_the_same_toys(
    tmp_path: Path, precision: str, agreement: float, weighted: bool
) -> None:
    """Every statistic of every toy, at both widths; and the same file can be used by either."""
    ours, theirs = (
        calibrated(
            tmp_path / f"{device}.null",
            learner(precision=precision, weighted=weighted, device=device),
        ).table
        for device in ("cpu", "cpu-torch")
    )
    assert (theirs.t != ours.t).any()  # or nothing was done elsewhere
    np.testing.assert_allclose(theirs.t, ours.t, rtol=agreement, atol=agreement)
    back = calibrated(
        tmp_path / "cpu-torch.null", learner(precision=precision, weighted=weighted)
    ).table
    assert back.t.tobytes() == theirs.t.tobytes()


@pytest.mark.torch
def test_torch_makes_rows_that_do_not_fit(tmp_path: Path) -> None:
    """Rows of the reference, made with PyTorch: the toys of numpy with stored rows."""
    import torch

    plenty = learner(150_000, widths=(0.1,))
    little = learner(150_000, widths=(0.1,), device="cpu-torch", memory=48 * 1024**2)
    features = little.features(0.1)
    assert features.made is not None
    assert isinstance(features.made.columns, torch.Tensor)
    found = [
        calibrated(tmp_path / f"{n}.null", each).table.t for n, each in enumerate((plenty, little))
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.torch
def test_models_are_the_same() -> None:
    """What is learnt and kept, and the test of a data set."""
    rng = np.random.default_rng(3)
    batch = Sample.from_array(expo1d.reference(220, rng))
    at = np.linspace(0.1, 4.0, 9)[:, None]
    found = []
    for device in ("cpu", "cpu-torch"):
        each = learner(precision="float64", device=device)
        learnt = each.learn(each.features(0.7), [batch], [200.0])
        found.append((learnt.models[0](Sample.from_array(at)), learnt.ratios.reference))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-6, atol=1e-8)


@pytest.mark.torch
def test_no_such_device() -> None:
    """CUDA, on a machine without it."""
    import torch

    if torch.cuda.is_available():  # then the same toys are asked of it
        assert learner(device="cuda").features(0.7).psi.is_cuda
        return
    with pytest.raises(GofstreamError, match="sees no CUDA device here; use --device cpu"):
        learner(device="cuda").features(0.7)


def test_torch_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the message says what to type."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(GofstreamError, match=r"pip install 'gofstream\[torch\]'"):
        learner(device="cpu-torch").features(0.7)


def test_refused_where_only_numpy_works(tmp_path: Path) -> None:
    """Permutation and streams."""
    sample = Sample.from_array(expo1d.reference(500, np.random.default_rng(1)))
    settings = Settings(n_centres=20, device="cpu-torch")
    with pytest.raises(SettingsError, match="permutation works with numpy only: leave `device`"):
        PermutationPlan.pool(sample, [sample], settings, seed=1, rng=np.random.default_rng(1))
    each = learner(2000, device="cpu-torch")
    with pytest.raises(SettingsError, match="a stream works with numpy only"):
        Monitor.open(tmp_path / "run.gofs", each, None, Retention("sat"), epoch=10, window=2)


SCRIPT = """
import ctypes, gc, json, sys
from pathlib import Path
import numpy as np
from gofstream_studies.bench.memory import peak_and_present
from gofstream.ratio.centres import reduce_centres
from gofstream.ratio.devices import place
from gofstream.ratio.features import features_of
from gofstream.ratio.solver import fit_bytes
from gofstream.settings import Settings
from gofstream.toys.plan import statistics_of

rng, found = np.random.default_rng(3), []
x = rng.normal(size=(60_000, 5))
centres = reduce_centres(x[:400], 0.7, 1e-6)
for rows, fits, events in ((4000, 8, 2000), (60_000, 8, 2000), (40_000, 192, 200)):
    batches = [rng.normal(size=(events, 5)) for _ in range(fits)]
    features = features_of(x[:rows], centres, 0.7, penalty=1e-6, expected=2e3, stored=False)
    features = place(features, sys.argv[1])
    room = fit_bytes(features, [events] * fits, stored=False)
    settings = Settings(max_passes=3, memory=features.nbytes + room)
    # What was freed goes back to the system, and the peak begins anew.
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    _, before = peak_and_present()
    _, done = statistics_of(features, batches, np.full(4, 2e3), settings)
    assert done.data.made is not None
    found.append((peak_and_present()[0] - before) / room)
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", TORCH])
def test_resident_memory_stays_within_the_budget(device: str) -> None:
    """Rows made in many chunks, for few fits and for many: resident memory, in a fresh process.

    Beyond the features it grows by less than was reckoned for the block; after a first run, which
    shows what the libraries take for themselves. (PyTorch once took up to three times as much: two
    chunks at a time, fresh ones for every function, and the holes that they left.)
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, device],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert not done.returncode, done.stderr
    _, few, many = json.loads(done.stdout)
    assert 0.2 < few < 1.0  # or nothing was measured
    assert 0.2 < many < 1.0
