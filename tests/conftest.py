"""Shared set-up of the tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# A busy machine is no reason to fail; the same examples every time.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


#: Files with long tests. They go first: one begun last would keep one worker and let the
#: other idle.
LONG = ("test_tutorials.py", "test_cli.py", "test_paper.py", "test_executors.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first, and leave the order otherwise as it is."""
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
