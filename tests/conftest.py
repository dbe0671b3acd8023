"""Shared set-up of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# A busy machine is no reason to fail; the same examples every time.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture(autouse=True, scope="session")
def _one_blas_thread() -> Iterator[None]:
    """Work as a worker does: one BLAS thread."""
    with threadpool_limits(limits=1):
        yield
