"""Shared set-up of the tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# A busy machine is no reason to fail; the same examples every time.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

#: Whether PyTorch is installed: it is large, and has no wheel for every Python and machine.
HAS_TORCH = find_spec("torch") is not None

#: Files with long tests. They go first: one begun last would keep one worker and let the
#: other idle.
LONG = ("test_tutorials.py", "test_cli.py", "test_paper.py", "test_executors.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs PyTorch where it is not, and put long tests first."""
    without_torch = [item for item in items if not HAS_TORCH and item.get_closest_marker("torch")]
    if without_torch:
        config.hook.pytest_deselected(items=without_torch)
        items[:] = [item for item in items if item not in without_torch]
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


@pytest.fixture(autouse=True, scope="session")
def _one_blas_thread() -> Iterator[None]:
    """Work as a worker does: one BLAS thread."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    """Give Ctrl-C back to pytest: `gofstream.cli.main` takes it over for its process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
